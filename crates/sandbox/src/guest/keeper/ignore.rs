//! Which paths a project itself calls derived: the rules of its `.gitignore` files.
//!
//! A rule of a directory's file holds for what is beneath that directory; of several that fit, the last one decides, and
//! nothing beneath an ignored directory is taken in again.

use crate::path::RelativePath;
use crate::tree::{Node, Tree};

/// Name of the files that hold rules.
const FILE_NAME: &[u8] = b".gitignore";
/// Longest such file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most rules that are looked at, over all files.
const RULES_MAX: usize = 10_000;

/// The rules of a tree.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// Segments of the directory whose file holds the rule.
    beneath: Vec<Vec<u8>>,
    pattern: Vec<Segment>,
    takes_in: bool,
    directories_only: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    /// `**`: any number of segments.
    Any,
    Glob(Vec<u8>),
}

/// The files of a tree that hold rules, those of outer directories first.
pub(super) fn files(tree: &Tree) -> Vec<(RelativePath, Node)> {
    let holds_rules = |path: &RelativePath| path.as_bytes().rsplit(|byte| *byte == b'/').next() == Some(FILE_NAME);
    let mut found: Vec<_> = tree.iter().filter(|(path, _)| holds_rules(path)).collect();
    found.sort_by_key(|(path, _)| segments(path).len());
    found.into_iter().map(|(path, node)| (path.clone(), node.clone())).collect()
}

impl Rules {
    /// Adds the rules of one file.
    pub(super) fn add(&mut self, file: &RelativePath, content: &[u8]) {
        let mut beneath = segments(file);
        beneath.pop();
        let room = RULES_MAX.saturating_sub(self.rules.len());
        let lines = content.split(|byte| *byte == b'\n').filter_map(|line| parse(line, &beneath));
        self.rules.extend(lines.take(room));
    }

    /// Whether the rules leave a path out.
    pub(super) fn ignores(&self, path: &RelativePath, is_directory: bool) -> bool {
        let whole = segments(path);
        (1..=whole.len()).any(|length| self.leaves_out(&whole[..length], is_directory || length < whole.len()))
    }

    fn leaves_out(&self, path: &[Vec<u8>], is_directory: bool) -> bool {
        let fits = |rule: &&Rule| rule.fits(path, is_directory);
        self.rules.iter().rev().find(fits).is_some_and(|rule| !rule.takes_in)
    }
}

impl Rule {
    fn fits(&self, path: &[Vec<u8>], is_directory: bool) -> bool {
        let Some(inner) = path.strip_prefix(self.beneath.as_slice()) else { return false };
        !inner.is_empty() && (is_directory || !self.directories_only) && fits_path(&self.pattern, inner)
    }
}

fn segments(path: &RelativePath) -> Vec<Vec<u8>> {
    path.as_bytes().split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
}

fn parse(line: &[u8], beneath: &[Vec<u8>]) -> Option<Rule> {
    let line = trim(line);
    if line.is_empty() || line.starts_with(b"#") {
        return None;
    }
    let (takes_in, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
    let (directories_only, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
    // A pattern with a slash that is not its last character begins at the file's own directory.
    let anchored = line.contains(&b'/');
    let parts = line.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let mut pattern: Vec<Segment> = if anchored { Vec::new() } else { vec![Segment::Any] };
    pattern.extend(parts.map(|part| if part == b"**" { Segment::Any } else { Segment::Glob(part.to_vec()) }));
    let says_something = pattern.iter().any(|segment| *segment != Segment::Any);
    says_something.then(|| Rule { beneath: beneath.to_vec(), pattern, takes_in, directories_only })
}

/// Without the line's end and without blanks at it, unless a backslash keeps them.
fn trim(line: &[u8]) -> &[u8] {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while let Some(rest) = line.strip_suffix(b" ") {
        if rest.ends_with(b"\\") {
            break;
        }
        line = rest;
    }
    line
}

fn fits_path(pattern: &[Segment], path: &[Vec<u8>]) -> bool {
    // Which beginnings of the pattern fit the path so far; no pattern makes this slow.
    let mut fitting = vec![false; pattern.len() + 1];
    fitting[0] = true;
    skip_any(pattern, &mut fitting);
    for name in path {
        let mut next = vec![false; pattern.len() + 1];
        for (at, segment) in pattern.iter().enumerate().filter(|(at, _)| fitting[*at]) {
            match segment {
                Segment::Any => next[at] = true,
                Segment::Glob(glob) => next[at + 1] |= fits_name(glob, name),
            }
        }
        skip_any(pattern, &mut next);
        fitting = next;
    }
    fitting[pattern.len()] && !(pattern.last() == Some(&Segment::Any) && path.is_empty())
}

/// `**` may also stand for nothing.
fn skip_any(pattern: &[Segment], fitting: &mut [bool]) {
    for (at, segment) in pattern.iter().enumerate() {
        if *segment == Segment::Any && fitting[at] {
            fitting[at + 1] = true;
        }
    }
}

/// Whether a name fits a glob of `*`, `?`, `[…]` and `\\`.
fn fits_name(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if glob.get(at) == Some(&b'*') {
            retry = Some((at, place));
            at += 1;
            continue;
        }
        let step = name.get(place).and_then(|byte| fits_byte(&glob[at..], *byte));
        match (step, retry) {
            (Some(length), _) => (at, place) = (at + length, place + 1),
            (None, _) if at == glob.len() && place == name.len() => return true,
            (None, Some((star, from))) if from < name.len() => {
                retry = Some((star, from + 1));
                (at, place) = (star + 1, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How many bytes of the glob the byte fits, if it does.
fn fits_byte(glob: &[u8], byte: u8) -> Option<usize> {
    match glob.first()? {
        b'?' => Some(1),
        b'\\' if glob.len() > 1 => (glob[1] == byte).then_some(2),
        b'[' => fits_set(glob, byte),
        plain => (*plain == byte).then_some(1),
    }
}

fn fits_set(glob: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(glob.get(1), Some(b'!' | b'^'));
    let begin = if negated { 2 } else { 1 };
    // A bracket right after the beginning is a member, not the end.
    let end = glob.iter().skip(begin + 1).position(|found| *found == b']')? + begin + 1;
    let (members, mut at, mut found) = (&glob[begin..end], 0, false);
    while at < members.len() {
        let (low, high, length) = match members.get(at + 1..at + 3) {
            Some([b'-', high]) => (members[at], *high, 3),
            _ => (members[at], members[at], 1),
        };
        found |= (low..=high).contains(&byte);
        at += length;
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).expect("a good path")
    }

    /// The paths that rules leave out; a path with a slash at its end is a directory.
    fn ignored<'a>(files: &[(&str, &str)], paths: &[&'a str]) -> Vec<&'a str> {
        let mut rules = Rules::default();
        for (name, content) in files {
            rules.add(&path(name), content.as_bytes());
        }
        let ignores = |text: &str| rules.ignores(&path(text.trim_end_matches('/')), text.ends_with('/'));
        paths.iter().copied().filter(|text| ignores(text)).collect()
    }

    #[test]
    fn names_fit_anywhere_and_paths_at_their_place() {
        let rules = [(".gitignore", "*.log\n/build\ndocs/*.tmp\n# not/a/rule\n\nout/\n")];
        let paths = ["a.log", "x/y/b.log", "build", "x/build", "docs/a.tmp", "x/docs/a.tmp", "out", "out/", "x/out/f"];
        assert_eq!(ignored(&rules, &paths), ["a.log", "x/y/b.log", "build", "docs/a.tmp", "out/", "x/out/f"]);
    }

    #[test]
    fn the_last_rule_decides_but_not_beneath_an_ignored_directory() {
        let rules = [(".gitignore", "*.env\n!kept.env\ncache/\n!cache/kept\n")];
        assert_eq!(ignored(&rules, &["a.env", "kept.env", "cache/kept"]), ["a.env", "cache/kept"]);
        let rules = [(".gitignore", "*.env\n"), ("a/.gitignore", "!b.env\n/c\n")];
        assert_eq!(ignored(&rules, &["b.env", "a/b.env", "a/c", "c", "a/x/c"]), ["b.env", "a/c"]);
    }

    #[test]
    fn globs_are_those_of_git() {
        let rules = [(".gitignore", "a?c\n[x-z]1\n[!0-9]2\n\\#odd\ndeep/**/end\n**/any/x\ntail\\ \n")];
        let paths = ["abc", "ac", "y1", "a1", "b2", "32", "#odd", "deep/end", "deep/q/r/end", "p/q/any/x", "tail "];
        assert_eq!(
            ignored(&rules, &paths),
            ["abc", "y1", "b2", "#odd", "deep/end", "deep/q/r/end", "p/q/any/x", "tail "]
        );
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let (glob, name) = ("a*".repeat(500), "a".repeat(200));
        assert!(ignored(&[(".gitignore", &format!("{glob}b"))], &[&name]).is_empty());
    }
}
