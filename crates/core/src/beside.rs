//! Tests that stand beside the code that they test.

use crate::checks::is_test;
use crate::rust;
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::TreeFile;
use std::collections::BTreeSet;

/// Of these, those of Rust whose tests are not what they were, or where something stands in front of macros that tests call. What
/// cannot be compared counts as changed.
pub fn tests_changed(
    files: &[FileChange],
    base: &[TreeFile],
    result: &[TreeFile],
    called: &BTreeSet<String>,
) -> Vec<String> {
    let read = |files: &[TreeFile], path: &str| rust::read(text(files, path).unwrap_or_default());
    let differs = |file: &&FileChange| {
        if !rust::fronts(&read(base, &file.path), &read(result, &file.path), called).is_empty() {
            return true;
        }
        let (before, after) = (text(base, &file.path), text(result, &file.path));
        match (before.map(within), after.map(within)) {
            (Some(before), Some(after)) => !before.are_in(&after),
            // A file that is gone took its tests with it, if it had any.
            (Some(before), None) => !before.tests.is_empty(),
            // A new one may stand in front of what tests call.
            (None, Some(after)) if file.change == ChangeKind::Added => !after.fronts.is_empty(),
            (None, _) => true,
        }
    };
    files.iter().filter(|file| file.path.ends_with(".rs")).filter(differs).map(|file| file.path.clone()).collect()
}

/// Macros that these files' tests call.
pub fn called(files: &[TreeFile]) -> BTreeSet<String> {
    let read = |file: &TreeFile| {
        let read = rust::read(file.text.as_deref().unwrap_or_default());
        if is_test(&file.path) { read.every } else { read.called }
    };
    files.iter().filter(|file| file.path.ends_with(".rs")).flat_map(read).collect()
}

fn text<'a>(files: &'a [TreeFile], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path)?.text.as_deref()
}

/// The tests in a file of Rust, and what decides whether and how they run.
#[derive(Default)]
struct Within<'a> {
    /// Everything from the first word of a test on, and the examples in comments.
    tests: Vec<&'a str>,
    /// Files that it takes in, with what stands before that.
    modules: Vec<String>,
    /// What stands in front of the words that tests use, or leaves the whole file out.
    fronts: Vec<&'a str>,
}

impl Within<'_> {
    fn are_in(&self, after: &Within<'_>) -> bool {
        let has = |module: &String| after.modules.contains(module);
        self.tests == after.tests && self.fronts == after.fronts && self.modules.iter().all(has)
    }
}

fn within(text: &str) -> Within<'_> {
    let is_mark = |line: &str| {
        let conditional = line.contains("cfg") && line.contains("test");
        conditional || line.contains("#[test") || line.contains("::test")
    };
    let begins = text.lines().position(is_mark).map(|begins| above(text, begins));
    let (mut found, mut example, mut marks) = (Within::default(), false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim();
        let comment = bare.strip_prefix("///").or_else(|| bare.strip_prefix("//!"));
        let fence = comment.is_some_and(|comment| comment.trim_start().starts_with("```"));
        if fence || (example && comment.is_some()) || begins.is_some_and(|begins| at >= begins) {
            found.tests.push(line);
        }
        example = comment.is_some() && (example != fence);
        if bare.starts_with("#![cfg") || bare.starts_with("#[macro_use") || bare.contains("include!") {
            found.fronts.push(bare);
        }
        if bare.starts_with("#[") {
            marks.push(bare);
        } else if comment.is_none() {
            let is_module = bare.ends_with(';') && bare.split_whitespace().any(|word| word == "mod");
            found.modules.extend(is_module.then(|| format!("{} {bare}", marks.join(" "))));
            marks.clear();
        }
    }
    found
}

/// The line where what belongs to this one begins: other marks stand before it, and may leave it out.
fn above(text: &str, begins: usize) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_aside = |line: &&str| line.is_empty() || line.starts_with("//");
    let mut begins = begins;
    while let Some(at) = lines[..begins].iter().rposition(|line| !is_aside(line)) {
        // What came before ends with its line, unless a mark closes on it.
        if lines[at].ends_with([';', '}']) || !lines[at].ends_with([']', ')', ',', '(']) {
            break;
        }
        begins = at;
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<TreeFile> {
        vec![TreeFile { path: "src/lib.rs".into(), hash: choir_proto::Hash::ZERO, text: Some(text.into()) }]
    }

    fn changed(change: ChangeKind, before: &[TreeFile], after: &[TreeFile]) -> bool {
        !tests_changed(&[FileChange { path: "src/lib.rs".into(), change }], before, after, &called(before)).is_empty()
    }

    #[test]
    fn tests_beside_the_code_are_seen() {
        let before =
            "/// Adds.\n/// ```\n/// assert!(add(1) == 2);\n/// ```\nfn add() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        let differs = |after: &str| changed(ChangeKind::Modified, &file(before), &file(after));
        assert!(!differs(&before.replace("fn add() {}", "fn add() { work() }")), "work on the code itself");
        assert!(!differs(&before.replace("Adds.", "Adds up.")), "a comment");
        assert!(differs(&before.replace("mod tests {", "mod tests { //")));
        assert!(differs(&before.replace("#[cfg(test)]", "")));
        assert!(differs(&before.replace("add(1) == 2", "true")), "an example is a test");
        assert!(differs(&before.replace("fn add() {}", "fn add() { if cfg!(test) { cheat() } }")));
        assert!(
            differs(&format!("#![cfg(not(any(test)))]\n{before}")) && differs(&format!("#![cfg(windows)]\n{before}"))
        );
        assert!(differs(&before.replace("#[cfg(test)]", "#[cfg(any())]\n\n// why\n#[cfg(test)]")), "switched off");
        assert!(differs(&before.replace("#[cfg(test)]", "#[cfg(\nany()\n)]\n#[cfg(test)]")), "over many lines");
        assert!(differs(&format!("macro_rules!\nassert_eq {{ ($($t:tt)*) => {{}} }}\n{before}")));
        assert!(differs(&format!("macro_rules! assert_eq {{ ($($t:tt)*) => {{}} }}\n{before}")));
        assert!(changed(ChangeKind::Deleted, &file(before), &[]), "a file that is gone");
        assert!(!changed(ChangeKind::Deleted, &file("fn plain() {}"), &[]));
        assert!(changed(ChangeKind::Modified, &[], &file(before)), "what cannot be compared");
        assert!(!changed(ChangeKind::Added, &[], &file(before)));
        assert!(changed(ChangeKind::Added, &[], &file("#[macro_export]\nmacro_rules! assert { () => {} }")));
    }

    #[test]
    fn a_file_that_is_no_longer_taken_in_took_its_tests_with_it() {
        let differs = |after: &str| changed(ChangeKind::Modified, &file("pub mod round;\nuse a::b;\n"), &file(after));
        assert!(!differs("pub mod more;\npub mod round;\n"), "one more is work");
        assert!(differs("pub mod round { }\n") && differs("#[path = \"r2.rs\"]\npub mod round;\n"));
        assert!(differs("#[cfg(windows)]\npub mod round;\n"));
    }
}
