//! The rules of the repository that no compiler knows.
//!
//! A rule is a pure function from the tree to findings, so each has a test with a tree that breaks it.

mod crates;
mod files;
mod licence;
mod metadata;
mod rust;
mod source;

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::call::Call;
use crate::paths::Paths;
use crate::steps::{Step, Steps};
use metadata::Metadata;

/// Everything that rules look at.
#[derive(Debug, Default)]
struct Tree {
    /// Tracked files, and new ones that are not ignored, by path from the root.
    files: Vec<File>,
    /// What cargo says about each workspace in the tree; the first is the product's.
    workspaces: Vec<Metadata>,
}

#[derive(Debug)]
struct File {
    path: String,
    bytes: Vec<u8>,
}

impl File {
    /// The content, if it is text.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|text| !text.contains('\0'))
    }

    fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }
}

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    why: String,
}

impl Finding {
    fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.why)
    }
}

struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "dependencies point up the list of crates", check: crates::direction },
    Rule { name: "fenced dependencies stay behind their door", check: crates::fences },
    Rule { name: "nothing that ships can be sabotaged", check: crates::sabotage },
    Rule { name: "banned crates stay out", check: crates::bans },
    Rule { name: "licences are on the list", check: crates::licences },
    Rule { name: "every crate takes the workspace's lints", check: crates::lints },
    Rule { name: "npm packages have a licence on the list", check: files::npm_licences },
    Rule { name: "no databases, logs or archives", check: files::strays },
    Rule { name: "no file is huge", check: files::huge },
    Rule { name: "lock files and settings name no registry", check: files::registries },
    Rule { name: "one integration binary per crate", check: crates::integration_binaries },
    Rule { name: "no Rust file is long", check: source::long },
    Rule { name: "unsafe only in the sandbox, with its reason", check: source::unsafe_code },
    Rule { name: "no ignored test", check: source::ignored },
    Rule { name: "nothing is left for later", check: source::unfinished },
    Rule { name: "no test sleeps", check: source::sleeping },
];

/// The rules alone.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    const TITLE: &str = "check the rules of the repository";
    let mut steps = Steps::new(&[&[TITLE]]);
    steps.run(TITLE, "cargo xtask tidy", |step| check(paths, step))?;
    steps.finish();
    Ok(())
}

/// Checks every rule and shows every breach.
pub(crate) fn check(paths: &Paths, step: &mut Step) -> Result<()> {
    let tree = load(paths)?;
    let mut breaches = 0;
    for rule in RULES {
        for finding in (rule.check)(&tree) {
            step.note(&format!("{} — {finding}", rule.name));
            breaches += 1;
        }
    }
    if breaches > 0 {
        bail!("{breaches} breaches of the rules in crates/xtask/src/tidy");
    }
    Ok(())
}

fn load(paths: &Paths) -> Result<Tree> {
    let files = load_files(paths)?;
    let locks = files.iter().filter_map(|file| file.path.strip_suffix("Cargo.lock"));
    let mut directories: Vec<&str> = locks.collect();
    // The root's is the empty prefix and sorts first.
    directories.sort_unstable();
    let workspaces = directories.iter().map(|directory| Metadata::load(paths, directory)).collect::<Result<_>>()?;
    Ok(Tree { files, workspaces })
}

fn load_files(paths: &Paths) -> Result<Vec<File>> {
    // New files count before they are added: a rule that speaks only after the commit speaks too late.
    let list = Call::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).dir(&paths.root);
    let listing = list.exact().context("the rules read the clone through git")?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let place = paths.root.join(path);
        // Deleted but still tracked files and links have no content of their own to judge.
        if place.symlink_metadata().is_ok_and(|data| data.is_file()) {
            files.push(File { path: path.to_owned(), bytes: fs::read(&place).with_context(|| path.to_owned())? });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tree {
        /// A tree with one file.
        pub(super) fn with(path: &str, text: &str) -> Self {
            Self::default().and(path, text)
        }

        pub(super) fn and(mut self, path: &str, text: &str) -> Self {
            self.files.push(File { path: path.to_owned(), bytes: text.as_bytes().to_vec() });
            self
        }

        /// A tree with one workspace, as cargo describes it.
        pub(super) fn of(metadata: &str) -> Self {
            Self { files: Vec::new(), workspaces: vec![Metadata::parse(metadata).unwrap()] }
        }
    }

    /// Places that a rule finds, for short assertions.
    pub(super) fn places(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.place.as_str()).collect()
    }

    #[test]
    fn an_empty_tree_breaks_no_rule() {
        for rule in RULES {
            assert_eq!((rule.check)(&Tree::default()), [], "{}", rule.name);
        }
    }
}
