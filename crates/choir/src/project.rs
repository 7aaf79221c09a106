//! `choir add` and `choir get`: folders and repositories into the workspace, and back.
//!
//! Neither side is trusted by the other: a repository's settings are not used, and what comes back from the workspace is
//! written beneath a new folder or into a branch of its own, never through a link and never over somebody's work.

mod add;
mod get;
mod git;
mod workspace;

pub(crate) use add::add;
pub(crate) use get::get;

use std::path::PathBuf;

/// Files and folders of one project.
const PATHS_MAX: usize = 100_000;

/// Longest name of a project, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// In the copy of a repository: the commit that it was made from.
const BASE_FILE: &str = ".git/choir-base";

/// What a path of a project is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File { mode: u32 },
    Link { target: String },
    Directory,
}

/// Why a project did not come or go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{0}` is no name for a project")]
    Name(String),
    #[error("there is a project `{0}` already")]
    Exists(String),
    #[error("there is no project `{0}`")]
    Missing(String),
    #[error("`{0}` is neither a folder nor the address of a repository")]
    Nothing(String),
    #[error("a name beneath `{0}` is not text")]
    NotText(PathBuf),
    #[error("it holds more than {PATHS_MAX} files and folders")]
    TooMuch,
    #[error("`{0}` is not empty and not a repository")]
    NotEmpty(PathBuf),
    #[error("the branch `{0}` is checked out there")]
    CheckedOut(String),
    #[error("git is not installed")]
    NoGit,
    #[error("git could not {act}: {said}")]
    Git { act: &'static str, said: String },
}

impl Error {
    /// What programs decide by.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::NotText(_) => "bad_name",
            Self::Exists(_) => "exists",
            Self::Missing(_) | Self::Nothing(_) => "not_found",
            Self::TooMuch => "too_large",
            Self::NotEmpty(_) => "not_empty",
            Self::CheckedOut(_) => "checked_out",
            Self::NoGit => "no_git",
            Self::Git { .. } => "git_failed",
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Name(_) => "Choose one with --as, of letters, digits, `.`, `_` and `-`.",
            Self::Exists(_) => "Choose another name with --as, or remove it first.",
            Self::Missing(_) => "See the folder `projects` of the workspace.",
            Self::Nothing(_) => "Give a path that exists, or an address like https://example.org/tool.git.",
            Self::NotText(_) => "Rename it first.",
            Self::TooMuch => "Leave out what can be made again.",
            Self::NotEmpty(_) => "Give a new folder, or a repository, which gets a branch.",
            Self::CheckedOut(_) => "Switch to another branch there first.",
            Self::NoGit => "Install git.",
            Self::Git { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// A name that is one plain part of a path.
fn check_name(name: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let good = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain);
    if good && !name.starts_with(['.', '-']) { Ok(name) } else { Err(Error::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_part_of_a_path() {
        assert!(["site", "a.b_c-1"].iter().all(|name| check_name(name).is_ok()));
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for name in ["", ".", "..", ".git", "-x", "a/b", "a b", "\u{e9}", "a\0", &long] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
