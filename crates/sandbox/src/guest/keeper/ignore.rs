//! Which paths a project itself calls derived: the rules of its `.gitignore` files.
//!
//! A rule of a directory's file holds for what is beneath that directory; of several that fit, the last one decides, and
//! nothing beneath an ignored directory is taken in again.

use std::cell::Cell;
use std::collections::HashMap;

use crate::path::RelativePath;
use crate::protocol::{Fault, FaultCode};
use crate::tree::{Node, Tree};

/// Name of the files that hold rules.
const FILE_NAME: &[u8] = b".gitignore";
/// Longest such file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most rules that are looked at, over all files.
const RULES_MAX: usize = 10_000;
/// Most steps that are taken to find out what is ignored, of nanoseconds each. A hundred thousand changed files and a hundred
/// rules need a fifth of them.
const STEPS_MAX: u64 = 500_000_000;

/// The rules of a tree.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// Whether directories that were asked for are left out, or one above them: whatever lies beneath asks again.
    directories: HashMap<Vec<u8>, bool>,
}

/// How many more steps may be taken: one for each byte, name or rule that is looked at.
#[derive(Debug)]
pub(super) struct Steps {
    left: Cell<u64>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: Cell::new(STEPS_MAX) }
    }
}

impl Steps {
    fn take(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps as u64));
    }

    /// Refuses once there are none: a guess would let a worker choose what its result is checked with.
    fn check(&self) -> Result<(), Fault> {
        match self.left.get() {
            0 => Err(Fault::new(FaultCode::Limit, "there are too many rules of what is ignored for what has changed")),
            _ => Ok(()),
        }
    }
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
    pub(super) fn ignores(&mut self, path: &RelativePath, is_directory: bool, steps: &Steps) -> Result<bool, Fault> {
        let whole = segments(path);
        let parent = &whole[..whole.len() - 1];
        Ok(self.ignores_directory(path.as_bytes(), parent, steps)? || self.leaves_out(&whole, is_directory, steps)?)
    }

    /// The same of a directory, which is the beginning of `bytes`. Goes down from the nearest one that is known.
    fn ignores_directory(&mut self, bytes: &[u8], path: &[Vec<u8>], steps: &Steps) -> Result<bool, Fault> {
        // Where the name of each directory on the way ends.
        let name_ends = path.iter().scan(0, |end, name| {
            *end += name.len() + 1;
            Some(*end - 1)
        });
        let beginnings: Vec<&[u8]> = name_ends.map(|end| &bytes[..end]).collect();
        let known = beginnings.iter().enumerate().rev().find_map(|(at, beginning)| {
            steps.take(beginning.len());
            self.directories.get(*beginning).map(|is_ignored| (at + 1, *is_ignored))
        });
        let (depth, mut is_ignored) = known.unwrap_or_default();
        for (at, beginning) in beginnings.iter().enumerate().skip(depth) {
            is_ignored = is_ignored || self.leaves_out(&path[..=at], true, steps)?;
            self.directories.insert(beginning.to_vec(), is_ignored);
        }
        Ok(is_ignored)
    }

    fn leaves_out(&self, path: &[Vec<u8>], is_directory: bool, steps: &Steps) -> Result<bool, Fault> {
        for rule in self.rules.iter().rev() {
            steps.check()?;
            if rule.fits(path, is_directory, steps) {
                return Ok(!rule.takes_in);
            }
        }
        Ok(false)
    }
}

impl Rule {
    fn fits(&self, path: &[Vec<u8>], is_directory: bool, steps: &Steps) -> bool {
        steps.take(1 + self.beneath.len());
        let Some(inner) = path.strip_prefix(self.beneath.as_slice()) else { return false };
        !inner.is_empty() && (is_directory || !self.directories_only) && fits_path(&self.pattern, inner, steps)
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

fn fits_path(pattern: &[Segment], path: &[Vec<u8>], steps: &Steps) -> bool {
    // Most rules are one name, at any depth.
    if let ([Segment::Any, Segment::Glob(glob)], Some(name)) = (pattern, path.last()) {
        return fits_name(glob, name, steps);
    }
    // Which beginnings of the pattern fit the path so far; no pattern makes this slow.
    let (mut fitting, mut next) = (vec![false; pattern.len() + 1], vec![false; pattern.len() + 1]);
    fitting[0] = true;
    skip_any(pattern, &mut fitting);
    for name in path {
        steps.take(pattern.len());
        next.fill(false);
        for (at, segment) in pattern.iter().enumerate().filter(|(at, _)| fitting[*at]) {
            match segment {
                Segment::Any => next[at] = true,
                Segment::Glob(glob) => next[at + 1] |= fits_name(glob, name, steps),
            }
        }
        skip_any(pattern, &mut next);
        std::mem::swap(&mut fitting, &mut next);
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
fn fits_name(glob: &[u8], name: &[u8], steps: &Steps) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        steps.take(1);
        if glob.get(at) == Some(&b'*') {
            retry = Some((at, place));
            at += 1;
            continue;
        }
        let step = name.get(place).and_then(|byte| fits_byte(&glob[at..], *byte, steps));
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
fn fits_byte(glob: &[u8], byte: u8, steps: &Steps) -> Option<usize> {
    match glob.first()? {
        b'?' => Some(1),
        b'\\' if glob.len() > 1 => (glob[1] == byte).then_some(2),
        b'[' => fits_set(glob, byte, steps),
        plain => (*plain == byte).then_some(1),
    }
}

fn fits_set(glob: &[u8], byte: u8, steps: &Steps) -> Option<usize> {
    let negated = matches!(glob.get(1), Some(b'!' | b'^'));
    let begin = if negated { 2 } else { 1 };
    // A bracket right after the beginning is a member, not the end.
    let end = glob.iter().skip(begin + 1).position(|found| *found == b']').map(|end| end + begin + 1);
    // One without an end was looked for as far as the glob goes.
    steps.take(end.unwrap_or(glob.len()));
    let end = end?;
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
        let mut ignores = |text: &str| {
            let (path, steps) = (path(text.trim_end_matches('/')), Steps::default());
            rules.ignores(&path, text.ends_with('/'), &steps).expect("few steps")
        };
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
    #[test]
    fn many_files_and_rules_as_projects_have_them_need_few_steps() {
        let mut rules = Rules::default();
        let names: String = (0..100).map(|number| format!("name-{number}\n*.suffix{number}\n")).take(50).collect();
        rules.add(&path(".gitignore"), names.as_bytes());
        let steps = Steps::default();
        for number in 0..1_000 {
            let file = path(&format!("crates/some/src/module/file-{number}.rs"));
            assert!(!rules.ignores(&file, false, &steps).expect("few steps"));
        }
        let took = STEPS_MAX - steps.left.get();
        assert!(took * 100 < STEPS_MAX, "{took} steps for a hundredth of a hundred thousand files");
    }

    #[test]
    fn what_lies_beneath_one_directory_is_asked_about_once() {
        let mut rules = Rules::default();
        rules.add(&path(".gitignore"), "some-rule\n".repeat(100).as_bytes());
        let deep = "d/".repeat(200);
        let mut took = |name: &str| {
            let steps = Steps::default();
            assert!(!rules.ignores(&path(&format!("{deep}{name}")), false, &steps).expect("few steps"));
            STEPS_MAX - steps.left.get()
        };
        let (first, second) = (took("one"), took("two"));
        assert!(first > 50 * second, "{first} and {second} steps");
    }

    #[test]
    fn rules_that_are_made_to_be_slow_are_refused_by_name() {
        let few = || Steps { left: Cell::new(100_000) };
        let slow = [
            ("many rules", "*x*y*z\n".repeat(10_000), "a".repeat(200)),
            ("a long set", format!("*[{}]b\n", "z".repeat(60_000)), "a".repeat(200)),
            ("a set without an end", format!("*[{}\n", "z".repeat(60_000)), "a".repeat(200)),
            ("a long path", "a/**/**/**/b\nc\n".repeat(50), "a/".repeat(1_000) + "c"),
        ];
        for (what, rules_text, name) in slow {
            let mut rules = Rules::default();
            rules.add(&path(".gitignore"), rules_text.as_bytes());
            rules.add(&path("other/.gitignore"), b"unrelated\n");
            let (steps, asked) = (few(), path(&name));
            let answers = (0..10).map(|_| rules.ignores(&asked, false, &steps)).collect::<Result<Vec<_>, _>>();
            assert_eq!(answers.expect_err(what).code, FaultCode::Limit);
        }
        let mut rules = Rules::default();
        rules.add(&path(".gitignore"), b"target\n*.log\n");
        assert!(rules.ignores(&path("target/debug/a.o"), false, &few()).expect("few steps"));
    }
}
