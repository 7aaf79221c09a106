//! Paths beneath a workspace, parsed once.
//!
//! A [`RelativePath`] is well formed, not safe: that nothing outside is reached is decided by the kernel, where the
//! path is opened beneath a held directory descriptor.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Longest path in bytes, the kernel's own limit less the terminator.
pub const PATH_BYTES_MAX: usize = 4095;
/// Longest component in bytes, the limit of every file system that is used here.
pub const NAME_BYTES_MAX: usize = 255;

/// A path relative to a workspace; empty means the workspace itself.
///
/// Bytes, because file names are bytes. On the wire it is a string, or `{"hex": "…"}` where it is not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub struct RelativePath(Vec<u8>);

/// Why a text is not a path beneath a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It begins with a slash.
    #[error("the path is absolute")]
    Absolute,
    /// It holds a NUL byte.
    #[error("the path holds a NUL byte")]
    Nul,
    /// It holds an empty component, `.` or `..`.
    #[error("the path holds an empty component, `.` or `..`")]
    Component,
    /// It or one of its components is too long.
    #[error("the path is too long")]
    TooLong,
    /// Its hexadecimal form cannot be read.
    #[error("the path is not valid hexadecimal")]
    Hex,
}

impl RelativePath {
    /// The workspace itself.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses a path; `..` is refused even where it would stay inside, because no caller needs it.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Ok(Self::root());
        }
        if bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if bytes.starts_with(b"/") {
            return Err(PathError::Absolute);
        }
        bytes.split(|byte| *byte == b'/').try_for_each(check_component)?;
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for system calls; `.` for the workspace itself.
    pub fn as_path(&self) -> &Path {
        let bytes: &[u8] = if self.0.is_empty() { b"." } else { &self.0 };
        Path::new(OsStr::from_bytes(bytes))
    }

    /// Whether this is the workspace itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory and the name in it; `None` for the workspace itself.
    pub fn split(&self) -> Option<(Self, &OsStr)> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Self(self.0[..at].to_vec()), OsStr::from_bytes(&self.0[at + 1..])),
            None => (Self::root(), OsStr::from_bytes(&self.0)),
        })
    }

    /// The path of `name` in this directory.
    pub fn join(&self, name: impl AsRef<[u8]>) -> Result<Self, PathError> {
        check_component(name.as_ref())?;
        if self.0.is_empty() {
            return Self::parse(name);
        }
        let mut joined = Vec::with_capacity(self.0.len() + 1 + name.as_ref().len());
        joined.extend_from_slice(&self.0);
        joined.push(b'/');
        joined.extend_from_slice(name.as_ref());
        if joined.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        Ok(Self(joined))
    }
}

fn check_component(component: &[u8]) -> Result<(), PathError> {
    if component.contains(&0) {
        return Err(PathError::Nul);
    }
    if component.len() > NAME_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    if component.contains(&b'/') || matches!(component, b"" | b"." | b"..") {
        return Err(PathError::Component);
    }
    Ok(())
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0).escape_debug())
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// What a symbolic link names; any bytes but NUL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub struct LinkTarget(Vec<u8>);

impl LinkTarget {
    /// Parses a target.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        if bytes.is_empty() || bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        Ok(Self(bytes))
    }

    /// The bytes of the target.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes { hex: String },
}

impl Wire {
    fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(not_text) => Self::Bytes { hex: to_hex(not_text.as_bytes()) },
        }
    }

    fn into_bytes(self) -> Result<Vec<u8>, PathError> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Bytes { hex } => from_hex(&hex).ok_or(PathError::Hex),
        }
    }
}

impl From<RelativePath> for Wire {
    fn from(path: RelativePath) -> Self {
        Self::new(path.0)
    }
}

impl TryFrom<Wire> for RelativePath {
    type Error = PathError;

    fn try_from(wire: Wire) -> Result<Self, PathError> {
        Self::parse(wire.into_bytes()?)
    }
}

impl From<LinkTarget> for Wire {
    fn from(target: LinkTarget) -> Self {
        Self::new(target.0)
    }
}

impl TryFrom<Wire> for LinkTarget {
    type Error = PathError;

    fn try_from(wire: Wire) -> Result<Self, PathError> {
        Self::parse(wire.into_bytes()?)
    }
}

/// Lower-case hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Every hash of every manifest passes through here, and the formatter takes thirty times as long.
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of a hexadecimal text.
pub(crate) fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_are_refused() {
        let long = "a/".repeat(3000);
        let name = "n".repeat(NAME_BYTES_MAX + 1);
        let cases: [(&[u8], PathError); 10] = [
            (b"/etc/passwd", PathError::Absolute),
            (b"..", PathError::Component),
            (b"a/../b", PathError::Component),
            (b"./a", PathError::Component),
            (b"a//b", PathError::Component),
            (b"a/", PathError::Component),
            (b"a\0b", PathError::Nul),
            (b"a/\0", PathError::Nul),
            (long.as_bytes(), PathError::TooLong),
            (name.as_bytes(), PathError::TooLong),
        ];
        for (bytes, expected) in cases {
            assert_eq!(RelativePath::parse(bytes), Err(expected), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn every_name_travels_unchanged() {
        for bytes in [&b"plain.txt"[..], b"a/b c/\xc3\xa9", b"\xff\xfe/x", b"back\\slash", b""] {
            let path = RelativePath::parse(bytes).expect("a good path");
            let wire = serde_json::to_string(&path).expect("serialises");
            let back: RelativePath = serde_json::from_str(&wire).expect("parses");
            assert_eq!(back.as_bytes(), bytes);
        }
    }

    #[test]
    fn the_wire_form_is_checked_like_any_other() {
        for wire in [r#""../x""#, r#"{"hex":"2e2e"}"#, r#"{"hex":"2f"}"#, r#"{"hex":"0"}"#, r#"{"hex":"zz"}"#] {
            assert!(serde_json::from_str::<RelativePath>(wire).is_err(), "{wire}");
        }
    }

    #[test]
    fn split_and_join_are_inverse() {
        let path = RelativePath::parse("a/b/c").expect("a good path");
        let (parent, name) = path.split().expect("not the root");
        assert_eq!(parent.join(name.as_bytes()), Ok(path.clone()));
        assert!(parent.join("x/y").is_err());
    }
}
