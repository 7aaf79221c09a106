//! The difference of two trees as git would write it, so that `git apply` makes one of the other.
//!
//! What git cannot say is left out: empty directories, and permissions beyond "executable".

use std::io::Read;
use std::time::Duration;

use sha1::{Digest, Sha1};
use similar::{Algorithm, DiffOp, DiffTag};

use super::store::Store;
use crate::path::{RelativePath, to_hex};
use crate::protocol::{DIFF_BYTES_MAX, Fault};
use crate::tree::{Node, Tree};

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Largest file whose content is carried; of a larger one only its name is, and the difference says so.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long one file may be compared for the shortest difference before a longer one will do.
const COMPARE_TIME: Duration = Duration::from_millis(500);

/// Writes the difference.
pub(super) fn diff(store: &Store, from: &Tree, to: &Tree) -> Result<Vec<u8>, Fault> {
    let (mut out, mut missing) = (Vec::new(), Missing::default());
    for (path, _) in from.changes(to) {
        let (mut old, mut new) = (Side::read(store, from.get(&path))?, Side::read(store, to.get(&path))?);
        let mut written = write_change(&path, old.as_ref(), new.as_ref());
        if out.len() + written.len() > BODY_BYTES_MAX {
            [&mut old, &mut new].into_iter().flatten().for_each(|side| side.content = None);
            written = write_change(&path, old.as_ref(), new.as_ref());
        }
        if [&old, &new].into_iter().flatten().any(|side| side.content.is_none()) {
            missing.add(&path);
        }
        if out.len() + written.len() <= BODY_BYTES_MAX {
            out.extend(written);
        }
    }
    Ok(missing.preface(out))
}

/// Room for a preface.
const PREFACE_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = DIFF_BYTES_MAX - PREFACE_BYTES_MAX;
/// Of the files that are missing, so many are named.
const MISSING_NAMED_MAX: usize = 10;

/// Files whose content a difference does not carry.
#[derive(Default)]
struct Missing {
    count: u64,
    named: Vec<String>,
}

impl Missing {
    fn add(&mut self, path: &RelativePath) {
        self.count += 1;
        if self.named.len() < MISSING_NAMED_MAX {
            self.named.push(quoted("", path));
        }
    }

    /// A difference says before anything else that it is not whole, where git reads over it. With what is missing git
    /// refuses to apply it, unless it is told to leave that out: half a tree is never made unknowingly.
    fn preface(self, body: Vec<u8>) -> Vec<u8> {
        if self.count == 0 {
            return body;
        }
        let more = if self.count > self.named.len() as u64 { " and others" } else { "" };
        let mut out = format!(
            "This difference is not whole. It carries files of at most {} MiB and {} MiB in all, and does not hold the \
             content of {}: {}{more}. The trees do.\n\n",
            FILE_BYTES_MAX >> 20,
            DIFF_BYTES_MAX >> 20,
            self.count,
            self.named.join(", ")
        )
        .into_bytes();
        out.extend(body);
        out
    }
}

fn write_change(path: &RelativePath, old: Option<&Side>, new: Option<&Side>) -> Vec<u8> {
    let mut out = Vec::new();
    match (old, new) {
        (None, None) => {}
        // A file that became a link, or the reverse, is one that went and one that came.
        (Some(before), Some(after)) if before.kind() != after.kind() => {
            write_file(&mut out, path, Some(before), None);
            write_file(&mut out, path, None, Some(after));
        }
        (before, after) => write_file(&mut out, path, before, after),
    }
    out
}

/// One side of a changed file.
struct Side {
    mode: &'static str,
    /// `None` when it is too large to be shown.
    content: Option<Vec<u8>>,
}

impl Side {
    fn read(store: &Store, node: Option<&Node>) -> Result<Option<Self>, Fault> {
        Ok(match node {
            Some(Node::File { mode, size, hash }) => {
                let git_mode = if mode & 0o100 == 0 { "100644" } else { "100755" };
                let shown = *size <= FILE_BYTES_MAX;
                let content = if shown { Some(read_all(store.object(*hash, *mode)?)?) } else { None };
                Some(Self { mode: git_mode, content })
            }
            Some(Node::Link { target }) => Some(Self { mode: "120000", content: Some(target.as_bytes().to_vec()) }),
            Some(Node::Directory { .. } | Node::Derived) | None => None,
        })
    }

    fn kind(&self) -> &str {
        &self.mode[..3]
    }
}

pub(super) fn read_all(file: std::os::fd::OwnedFd) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    let read = std::fs::File::from(file).take(FILE_BYTES_MAX).read_to_end(&mut content);
    read.map_err(|error| super::super::files::fault("read from the store", error.raw_os_error()))?;
    Ok(content)
}

fn write_file(out: &mut Vec<u8>, path: &RelativePath, old: Option<&Side>, new: Option<&Side>) {
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    let mut line = |text: String| {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    };
    line(format!("diff --git {a} {b}"));
    match (old, new) {
        (None, Some(new)) => line(format!("new file mode {}", new.mode)),
        (Some(old), None) => line(format!("deleted file mode {}", old.mode)),
        (Some(old), Some(new)) if old.mode != new.mode => {
            line(format!("old mode {}", old.mode));
            line(format!("new mode {}", new.mode));
        }
        _ => {}
    }
    let empty = Some(Vec::new());
    let contents = (old.map_or(&empty, |side| &side.content), new.map_or(&empty, |side| &side.content));
    let (Some(before), Some(after)) = contents else {
        return line(format!("Binary files {a} and {b} differ"));
    };
    if before == after && old.is_some() && new.is_some() {
        return;
    }
    line(format!("index {}..{}", blob_name(old, before), blob_name(new, after)));
    if before == after {
        return;
    }
    if is_text(before) && is_text(after) {
        let name = |side: Option<&Side>, name: &str| side.map_or("/dev/null".to_owned(), |_| name.to_owned());
        line(format!("--- {}", name(old, &a)));
        line(format!("+++ {}", name(new, &b)));
        write_hunks(out, before, after);
    } else {
        line("GIT binary patch".to_owned());
        write_literal(out, after);
        write_literal(out, before);
    }
}

/// The name that git gives to a content.
fn blob_name(side: Option<&Side>, content: &[u8]) -> String {
    if side.is_none() {
        return "0".repeat(40);
    }
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", content.len()));
    hasher.update(content);
    to_hex(&hasher.finalize())
}

/// Text is what can be carried as text: no NUL, as for git, and UTF-8, because the difference travels as a string.
fn is_text(content: &[u8]) -> bool {
    !content.contains(&0) && std::str::from_utf8(content).is_ok()
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

/// A whole content in git's binary form: zlib data in base 85, at most 52 bytes a line.
fn write_literal(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for chunk in stored_zlib(content).chunks(52) {
        let letter = if chunk.len() <= 26 { b'A' - 1 } else { b'a' - 27 };
        // At most 52, so it stays a letter.
        out.push(letter + chunk.len() as u8);
        for word in chunk.chunks(4) {
            write_base85(out, word);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn write_base85(out: &mut Vec<u8>, word: &[u8]) {
    const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut padded = [0; 4];
    padded[..word.len()].copy_from_slice(word);
    let mut value = u32::from_be_bytes(padded);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value % 85) as usize];
        value /= 85;
    }
    out.extend_from_slice(&digits);
}

/// Zlib data of stored blocks. Not compressed: a difference is read once and seldom holds binary files.
fn stored_zlib(content: &[u8]) -> Vec<u8> {
    let mut data = vec![0x78, 0x01];
    let mut blocks = content.chunks(usize::from(u16::MAX)).peekable();
    if blocks.peek().is_none() {
        data.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        data.push(u8::from(blocks.peek().is_none()));
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(&(!length).to_le_bytes());
        data.extend_from_slice(block);
    }
    data.extend_from_slice(&adler32(content).to_be_bytes());
    data
}

fn adler32(content: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // So many bytes can be added before the sums overflow.
    const RUN: usize = 5_552;
    let (mut a, mut b) = (1_u32, 0_u32);
    for run in content.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

/// A path as git writes it: in quotes where it holds what could be misread.
fn quoted(side: &str, path: &RelativePath) -> String {
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
