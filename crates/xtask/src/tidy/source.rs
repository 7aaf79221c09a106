//! Rules about source text.

use super::rust::{self, Line};
use super::{File, Finding, Tree};

/// Lines of one Rust file. Most settle below half of it; a longer one holds a second idea.
const LINES_MAX: usize = 600;
/// Longer files, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// How many lines above an `unsafe` its reason may start.
const REASON_LINES: usize = 4;

/// The one crate that talks to the kernel.
const UNSAFE_HOME: &str = "crates/sandbox/";

/// Files that people write, as opposed to lock files, pictures and recorded data.
const WRITTEN: &[&str] = &["css", "html", "js", "md", "mjs", "rs", "sh", "toml", "ts", "yml"];

/// Tests that may wait for real time, each with its reason.
const MAY_SLEEP: &[(&str, &str)] = &[];

pub(super) fn long(tree: &Tree) -> Vec<Finding> {
    let counted = rust_files(tree).map(|(file, text)| (file, text.lines().count()));
    let long = counted.filter(|(file, lines)| *lines > LINES_MAX && !is_listed(LONG, file));
    long.map(|(file, lines)| Finding::new(&file.path, format!("has {lines} lines; look for the second idea in it")))
        .collect()
}

pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    rust_files(tree).flat_map(|(file, text)| unsafe_in(file, &rust::lines(text))).collect()
}

fn unsafe_in(file: &File, lines: &[Line]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| opens_unsafe(&line.code)) {
        let place = format!("{}:{}", file.path, index + 1);
        if !file.path.starts_with(UNSAFE_HOME) {
            findings.push(Finding::new(place, format!("unsafe code lives in {UNSAFE_HOME} alone")));
        } else if !has_reason(&lines[index.saturating_sub(REASON_LINES)..=index]) {
            findings.push(Finding::new(place, "needs a `// SAFETY:` comment right above"));
        }
    }
    findings
}

/// Blocks, functions, implementations, attributes: wherever the word stands, a promise is made.
fn opens_unsafe(code: &str) -> bool {
    words(code).any(|word| word == "unsafe")
}

fn has_reason(lines: &[Line]) -> bool {
    lines.iter().any(|line| line.comment.contains("SAFETY:") || line.comment.contains("# Safety"))
}

pub(super) fn ignored(tree: &Tree) -> Vec<Finding> {
    let is_ignored = |line: &Line| line.code.replace(' ', "").contains("#[ignore");
    in_rust(
        tree,
        |_, lines| matching(lines, is_ignored),
        "a test that does not run tests nothing: mend it or delete it",
    )
}

pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    // Written in two halves, so that this file passes its own rule.
    const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];
    let mut findings = Vec::new();
    let written = tree.files.iter().filter(|file| file.has_extension(WRITTEN));
    for (file, text) in written.filter_map(|file| Some((file, file.text()?))) {
        for (index, _) in text.lines().enumerate().filter(|(_, line)| words(line).any(|word| MARKS.contains(&word))) {
            findings
                .push(Finding::new(format!("{}:{}", file.path, index + 1), "do it, or write it down outside the code"));
        }
    }
    findings
}

pub(super) fn sleeping(tree: &Tree) -> Vec<Finding> {
    const WHY: &str = "wait for the event itself, or use a paused clock";
    let mut findings = in_rust(tree, |file, lines| matching(test_part(file, lines), sleeps), WHY);
    let is_script = |file: &&File| file.has_extension(&["mjs", "js", "ts"]) && file.path.starts_with("tests/");
    for file in tree.files.iter().filter(is_script) {
        let text = file.text().unwrap_or_default();
        let waits = |line: &str| {
            [concat!("waitFor", "Timeout("), concat!("set", "Timeout(")].iter().any(|call| line.contains(call))
        };
        let bad = text.lines().enumerate().filter(|(_, line)| waits(line));
        findings.extend(bad.map(|(index, _)| Finding::new(format!("{}:{}", file.path, index + 1), WHY)));
    }
    findings
}

fn sleeps(line: &Line) -> bool {
    let before = line.code.split("sleep(");
    let calls = before.clone().count() - 1;
    // `fn sleep(` defines a seam, and `x_sleep(` is another word.
    before
        .take(calls)
        .any(|before| !before.ends_with("fn ") && !before.ends_with(|last: char| last.is_alphanumeric() || last == '_'))
}

/// The lines that are tests: all of an integration test, and what follows `#[cfg(test)]` elsewhere, where tests come last.
fn test_part<'a>(file: &File, lines: &'a [Line]) -> (usize, &'a [Line]) {
    let start = match file.path.contains("/tests/") {
        true => 0,
        false => lines.iter().position(|line| line.code.contains("#[cfg(test)]")).unwrap_or(lines.len()),
    };
    let start = if is_listed(MAY_SLEEP, file) { lines.len() } else { start };
    (start, &lines[start..])
}

/// Line numbers, from one, of the lines that match.
fn matching<'a>(part: impl Into<Part<'a>>, is_bad: impl Fn(&Line) -> bool) -> Vec<usize> {
    let Part { start, lines } = part.into();
    lines.iter().enumerate().filter(|(_, line)| is_bad(line)).map(|(index, _)| start + index + 1).collect()
}

/// Lines of a file, and how many stand before them.
struct Part<'a> {
    start: usize,
    lines: &'a [Line],
}

impl<'a> From<&'a [Line]> for Part<'a> {
    fn from(lines: &'a [Line]) -> Self {
        Self { start: 0, lines }
    }
}

impl<'a> From<(usize, &'a [Line])> for Part<'a> {
    fn from((start, lines): (usize, &'a [Line])) -> Self {
        Self { start, lines }
    }
}

fn in_rust(tree: &Tree, numbers: impl Fn(&File, &[Line]) -> Vec<usize>, why: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in rust_files(tree) {
        for number in numbers(file, &rust::lines(text)) {
            findings.push(Finding::new(format!("{}:{number}", file.path), why));
        }
    }
    findings
}

fn rust_files(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.files.iter().filter(|file| file.has_extension(&["rs"])).filter_map(|file| Some((file, file.text()?)))
}

fn is_listed(list: &[(&str, &str)], file: &File) -> bool {
    list.iter().any(|(path, _)| *path == file.path)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn long_files_are_found() {
        assert_eq!(places(&long(&Tree::with("a.rs", &"\n".repeat(LINES_MAX + 1)))), ["a.rs"]);
        assert_eq!(long(&Tree::with("a.rs", &"\n".repeat(LINES_MAX))), []);
        assert_eq!(long(&Tree::with("a.md", &"\n".repeat(LINES_MAX + 1))), []);
    }

    #[test]
    fn unsafe_outside_the_sandbox_is_found() {
        let text = "// SAFETY: fine\nlet x = unsafe { f() };";
        assert_eq!(places(&unsafe_code(&Tree::with("crates/store/src/a.rs", text))), ["crates/store/src/a.rs:2"]);
        assert_eq!(unsafe_code(&Tree::with("crates/sandbox/src/a.rs", text)), []);
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        let bare = "fn f() {\n    unsafe { g() }\n}";
        assert_eq!(places(&unsafe_code(&Tree::with("crates/sandbox/src/a.rs", bare))), ["crates/sandbox/src/a.rs:2"]);
        let quoted = "#![deny(unsafe_code)]\n#[allow(unsafe_code)]\n// unsafe\nlet a = \"unsafe { }\";";
        assert_eq!(unsafe_code(&Tree::with("crates/store/src/a.rs", quoted)), []);
    }

    #[test]
    fn ignored_tests_are_found() {
        let tree = Tree::with("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n// #[ignore]\n");
        assert_eq!(places(&ignored(&tree)), ["a.rs:2"]);
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        let text = concat!("fine\n// TO", "DO: later\n");
        assert_eq!(places(&unfinished(&Tree::with("a.md", text).and("b.rs", text))), ["a.md:2", "b.rs:2"]);
        assert_eq!(unfinished(&Tree::with("recorded.json", text)), []);
        assert_eq!(unfinished(&Tree::with("a.rs", "let todo = 1; fn todos() {}")), []);
    }

    #[test]
    fn sleeping_tests_are_found() {
        let body = "fn f() { clock.sleep(1) }\n";
        assert_eq!(places(&sleeping(&Tree::with("crates/a/tests/main.rs", body))), ["crates/a/tests/main.rs:1"]);
        assert_eq!(sleeping(&Tree::with("crates/a/src/lib.rs", body)), []);
        let unit = format!("fn g() {{}}\n#[cfg(test)]\nmod tests {{\n{body}}}");
        assert_eq!(places(&sleeping(&Tree::with("crates/a/src/lib.rs", &unit))), ["crates/a/src/lib.rs:4"]);
        let seam = "fn sleep(x: u8) {}\nfn no_sleep() { deep_sleep(1) }\nlet a = \"sleep(1)\";";
        assert_eq!(sleeping(&Tree::with("crates/a/tests/main.rs", seam)), []);
        let script = concat!("await page.waitFor", "Timeout(5)");
        assert_eq!(places(&sleeping(&Tree::with("tests/browser/a.test.mjs", script))), ["tests/browser/a.test.mjs:1"]);
    }
}
