//! What a difference says of one path.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sha1::{Digest, Sha1};
use similar::{Algorithm, DiffOp, DiffTag};

use super::super::store::Store;
use super::TEXT_BYTES_MAX;
use super::literal::{Literal, literal_bytes};
use crate::path::{RelativePath, to_hex};
use crate::protocol::Fault;
use crate::tree::{ContentHash, Node};

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// How long one file may be compared for the shortest difference before a longer one will do.
const COMPARE_TIME: Duration = Duration::from_millis(500);
/// Bytes that are hashed at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// A part of what is said of a path, in order.
pub(super) enum Piece {
    /// As it is.
    Text(Vec<u8>),
    /// A content in git's binary form.
    Content(Content),
}

impl Piece {
    /// How many bytes it is written as.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Content(content) => literal_bytes(content.size()),
        }
    }
}

/// What a side of a change holds.
pub(super) enum Content {
    /// In hand.
    Bytes(Vec<u8>),
    /// In the store, because it is large.
    Stored {
        /// By which name.
        hash: ContentHash,
        /// With which permissions.
        mode: u32,
        /// How large.
        size: u64,
    },
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored { size, .. } => *size,
        }
    }

    /// Text is what can be carried as text: no NUL, as for git, and UTF-8, because the difference travels as a string.
    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => Some(bytes),
            Self::Bytes(_) | Self::Stored { .. } => None,
        }
    }

    /// Begins to write it.
    pub(super) fn literal(self, store: &Store) -> Result<Literal<Box<dyn Read + Send>>, Fault> {
        let size = self.size();
        let content: Box<dyn Read + Send> = match self {
            Self::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
            Self::Stored { hash, mode, .. } => Box::new(std::fs::File::from(store.object(hash, mode)?)),
        };
        Ok(Literal::new(content, size))
    }

    /// The name that git gives to it.
    fn blob_name(&self, store: &Store) -> Result<String, Fault> {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {}\0", self.size()));
        match self {
            Self::Bytes(bytes) => hasher.update(bytes),
            Self::Stored { hash, mode, .. } => {
                let (mut file, mut buffer) = (std::fs::File::from(store.object(*hash, *mode)?), vec![0; CHUNK_BYTES]);
                loop {
                    match file.read(&mut buffer).map_err(unread)? {
                        0 => break,
                        read => hasher.update(&buffer[..read]),
                    }
                }
            }
        }
        Ok(to_hex(&hasher.finalize()))
    }
}

pub(super) fn unread(error: std::io::Error) -> Fault {
    super::super::super::files::fault("read from the store", error.raw_os_error())
}

/// One side of a changed file.
struct Side {
    mode: &'static str,
    content: Content,
}

impl Side {
    fn read(store: &Store, node: Option<&Node>) -> Result<Option<Self>, Fault> {
        let content = match node {
            Some(Node::File { mode, size, hash }) if *size <= TEXT_BYTES_MAX => {
                Content::Bytes(read_all(store.object(*hash, *mode)?)?)
            }
            Some(Node::File { mode, size, hash }) => Content::Stored { hash: *hash, mode: *mode, size: *size },
            Some(Node::Link { target }) => Content::Bytes(target.as_bytes().to_vec()),
            Some(Node::Directory { .. } | Node::Derived) | None => return Ok(None),
        };
        Ok(mode_of(node).map(|mode| Self { mode, content }))
    }

    fn kind(&self) -> &str {
        &self.mode[..3]
    }
}

/// What git says of a path before anything else; nothing of what it does not know.
fn mode_of(node: Option<&Node>) -> Option<&'static str> {
    match node? {
        Node::File { mode, .. } => Some(git_mode(*mode)),
        Node::Link { .. } => Some("120000"),
        Node::Directory { .. } | Node::Derived => None,
    }
}

fn git_mode(mode: u32) -> &'static str {
    if mode & 0o100 == 0 { "100644" } else { "100755" }
}

/// The whole of a file, if it is not larger than what is compared.
pub(in super::super) fn read_all(file: OwnedFd) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    std::fs::File::from(file).take(TEXT_BYTES_MAX).read_to_end(&mut content).map_err(unread)?;
    Ok(content)
}

/// What became of a path.
pub(super) fn changed(
    store: &Store,
    path: &RelativePath,
    (old, new): (Option<&Node>, Option<&Node>),
) -> Result<Vec<Piece>, Fault> {
    match (Side::read(store, old)?, Side::read(store, new)?) {
        (None, None) => Ok(Vec::new()),
        // A file that became a link, or the reverse, is one that went and one that came.
        (Some(before), Some(after)) if before.kind() != after.kind() => {
            let mut pieces = file(store, path, (Some(before), None))?;
            pieces.extend(file(store, path, (None, Some(after)))?);
            Ok(pieces)
        }
        sides => file(store, path, sides),
    }
}

/// A file that has only another name. Its content is not carried, however large it is.
pub(super) fn renamed(from: &RelativePath, to: &RelativePath, (old, new): (u32, u32)) -> Vec<Piece> {
    let mut text = format!("diff --git {} {}\n", quoted("a/", from), quoted("b/", to));
    let (old, new) = (git_mode(old), git_mode(new));
    if old != new {
        text.push_str(&format!("old mode {old}\nnew mode {new}\n"));
    }
    let (from, to) = (quoted("", from), quoted("", to));
    text.push_str(&format!("similarity index 100%\nrename from {from}\nrename to {to}\n"));
    vec![Piece::Text(text.into_bytes())]
}

/// A file of which no more is said than that it differs. Git refuses to apply that.
pub(super) fn unsaid(path: &RelativePath, (old, new): (Option<&Node>, Option<&Node>)) -> Vec<u8> {
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    format!("{}Binary files {a} and {b} differ\n", head(path, (mode_of(old), mode_of(new)))).into_bytes()
}

fn file(store: &Store, path: &RelativePath, (old, new): (Option<Side>, Option<Side>)) -> Result<Vec<Piece>, Fault> {
    let modes = (old.as_ref().map(|side| side.mode), new.as_ref().map(|side| side.mode));
    let mut text = head(path, modes);
    let name = |side: Option<&Side>| side.map_or_else(|| Ok("0".repeat(40)), |side| side.content.blob_name(store));
    let (before, after) = (name(old.as_ref())?, name(new.as_ref())?);
    if before == after {
        // Permissions that git does not know are not worth a word.
        return Ok(Vec::from_iter((modes.0 != modes.1).then(|| Piece::Text(text.into_bytes()))));
    }
    text.push_str(&format!("index {before}..{after}\n"));
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    let shown = |side: &Option<Side>, name: String| if side.is_some() { name } else { "/dev/null".to_owned() };
    let names = (shown(&old, a), shown(&new, b));
    let absent = || Content::Bytes(Vec::new());
    let (before, after) = (old.map_or_else(absent, |side| side.content), new.map_or_else(absent, |side| side.content));
    let mut text = text.into_bytes();
    match (before.text(), after.text()) {
        (Some(before), Some(after)) if before == after => {}
        (Some(before), Some(after)) => {
            text.extend_from_slice(format!("--- {}\n+++ {}\n", names.0, names.1).as_bytes());
            write_hunks(&mut text, before, after);
        }
        _ => {
            text.extend_from_slice(b"GIT binary patch\n");
            let mut pieces = vec![Piece::Text(text), Piece::Content(after)];
            // The way back. What is large is carried once: how it was, the tree before knows.
            if let Content::Bytes(_) = before {
                pieces.push(Piece::Content(before));
            }
            return Ok(pieces);
        }
    }
    Ok(vec![Piece::Text(text)])
}

/// What is said of a file before its content.
fn head(path: &RelativePath, modes: (Option<&str>, Option<&str>)) -> String {
    let mut text = format!("diff --git {} {}\n", quoted("a/", path), quoted("b/", path));
    match modes {
        (None, Some(new)) => text.push_str(&format!("new file mode {new}\n")),
        (Some(old), None) => text.push_str(&format!("deleted file mode {old}\n")),
        (Some(old), Some(new)) if old != new => text.push_str(&format!("old mode {old}\nnew mode {new}\n")),
        _ => {}
    }
    text
}

/// Lines end with a line feed and nothing else, as git sees them.
fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

fn write_hunks(out: &mut Vec<u8>, before: &[u8], after: &[u8]) {
    let (old, new) = (lines(before), lines(after));
    let deadline = std::time::Instant::now() + COMPARE_TIME;
    let operations = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    for hunk in similar::group_diff_ops(operations, CONTEXT_LINES) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let range = |start: usize, end: usize| {
            // A range without lines is named by the line before it.
            let first = if start == end { start } else { start + 1 };
            format!("{first},{}", end - start)
        };
        let old_range = range(first.old_range().start, last.old_range().end);
        let new_range = range(first.new_range().start, last.new_range().end);
        out.extend_from_slice(format!("@@ -{old_range} +{new_range} @@\n").as_bytes());
        hunk.iter().for_each(|operation| write_operation(out, operation, &old, &new));
    }
}

fn write_operation(out: &mut Vec<u8>, operation: &DiffOp, old: &[&[u8]], new: &[&[u8]]) {
    let (removed, added) = (&old[operation.old_range()], &new[operation.new_range()]);
    match operation.tag() {
        DiffTag::Equal => write_lines(out, b' ', removed),
        DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
            write_lines(out, b'-', removed);
            write_lines(out, b'+', added);
        }
    }
}

fn write_lines(out: &mut Vec<u8>, sign: u8, lines: &[&[u8]]) {
    for line in lines {
        out.push(sign);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// A path as git writes it: in quotes where it holds what could be misread.
pub(super) fn quoted(side: &str, path: &RelativePath) -> String {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && !b"\"\\".contains(byte);
    if path.as_bytes().iter().all(plain) {
        return format!("{side}{}", String::from_utf8_lossy(path.as_bytes()));
    }
    let mut text = format!("\"{side}");
    for byte in path.as_bytes() {
        match byte {
            byte if plain(byte) => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}
