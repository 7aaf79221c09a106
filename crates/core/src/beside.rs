//! Tests that stand beside the code that they test, and code that reaches for its tests.

use crate::checks::is_test;
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::TreeFile;
use std::collections::BTreeMap;

/// Files of code, by how their names end.
const CODE_ENDS: [&str; 10] = [".rs", ".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".rb", ".go", ".pl"];

/// Words by which code ends the program that it runs in. Whoever does it in a test ends the test with it.
const ENDING: [&str; 16] = [
    "process.exit",
    "process.reallyExit",
    "process.abort",
    "process.kill",
    "process.on(",
    "os._exit",
    "sys.exit",
    "os.kill",
    "os.abort",
    "os.execv",
    "SystemExit",
    "process::exit",
    "process::abort",
    "Deno.exit",
    "os.Exit",
    "exit(0)",
];

/// Words by which code speaks to the runner of its tests.
const REACHING: [&str; 9] = [
    "unittest",
    "pytest",
    "SkipTest",
    "node:test",
    "sys.modules",
    "sys.settrace",
    "AssertionError",
    "builtins",
    "require.cache",
];

/// Changed files of code, which may hold tests or reach for them.
pub fn code(files: &[FileChange]) -> Vec<String> {
    let is = |file: &&FileChange| CODE_ENDS.iter().any(|end| file.path.ends_with(end));
    files.iter().filter(is).map(|file| file.path.clone()).collect()
}

/// Of these, those of Rust whose tests are not what they were. What cannot be compared counts as changed.
pub fn tests_changed(files: &[FileChange], base: &[TreeFile], result: &[TreeFile]) -> Vec<String> {
    let differs = |file: &&FileChange| {
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

/// Why what passed may have been made to: the words by which changed code speaks to its runner, or, where nothing is heard of a
/// runner, ends the program that checks it.
pub fn reaches(paths: &[String], base: &[TreeFile], result: &[TreeFile], is_heard: bool) -> Vec<String> {
    let ending: &[&str] = if is_heard { &[] } else { &ENDING };
    let words = |path: &&String| {
        let (before, after) = (text(base, path).unwrap_or_default(), text(result, path).unwrap_or_default());
        REACHING.iter().chain(ending).any(|word| after.matches(word).count() > before.matches(word).count())
    };
    paths.iter().filter(|path| !is_test(path)).filter(words).cloned().collect()
}

/// The names of the tests in files of Rust, each with how often it is there. What only some machines build is left out.
pub fn names(files: &[TreeFile]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for file in files.iter().filter(|file| !is_beside(&file.path)) {
        let text = file.text.as_deref().unwrap_or_default();
        let is_conditional =
            |line: &str| line.contains("cfg(") && !line.contains("cfg(test)") || line.contains("cfg_attr");
        if text.lines().any(is_conditional) || text.contains("macro_rules!") || text.contains("/*") {
            continue;
        }
        let mut is_marked = false;
        for line in text.lines().map(str::trim) {
            is_marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            if let Some(name) = name.filter(|_| is_marked) {
                *names.entry(name.trim().to_owned()).or_default() += 1;
                is_marked = false;
            }
        }
    }
    names
}

/// Whether cargo takes this up for nothing by itself.
fn is_beside(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "fixtures" | "testdata" | "examples" | "benches" | "target" | "vendor"))
}

/// Tests of which nothing was heard.
pub(crate) fn unheard(names: &BTreeMap<String, usize>, said: &str) -> Vec<String> {
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    for line in said.lines() {
        let name = line.strip_prefix("test ").and_then(|line| line.split_once(" ..."));
        if let Some((path, _)) = name {
            *ran.entry(path.split(" - ").next().and_then(|path| path.rsplit("::").next()).unwrap_or(path))
                .or_default() += 1;
        }
    }
    // A runner that was told to be quiet names nothing.
    if ran.is_empty() && said.contains("passed") && !said.contains("running 0 tests") {
        return Vec::new();
    }
    let missing = |(name, count): &(&String, &usize)| ran.get(name.as_str()).copied().unwrap_or_default() < **count;
    names.iter().filter(missing).map(|(name, _)| name.clone()).collect()
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
    let begins = text.lines().position(is_mark);
    let (mut found, mut example, mut marks) = (Within::default(), false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim();
        let comment = bare.strip_prefix("///").or_else(|| bare.strip_prefix("//!"));
        let fence = comment.is_some_and(|comment| comment.trim_start().starts_with("```"));
        if fence || (example && comment.is_some()) || begins.is_some_and(|begins| at >= begins) {
            found.tests.push(line);
        }
        example = comment.is_some() && (example != fence);
        let shadows = bare.contains("macro_rules!") && ["assert", "panic"].iter().any(|word| bare.contains(word));
        let renames = bare.contains("use ") && ["assert", "panic"].iter().any(|word| bare.contains(word));
        if bare.starts_with("#![cfg") || bare.starts_with("#[macro_use") || shadows || renames {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<TreeFile> {
        vec![TreeFile { path: "src/lib.rs".into(), hash: choir_proto::Hash::ZERO, text: Some(text.into()) }]
    }

    fn changed(change: ChangeKind, before: &[TreeFile], after: &[TreeFile]) -> bool {
        !tests_changed(&[FileChange { path: "src/lib.rs".into(), change }], before, after).is_empty()
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

    #[test]
    fn tests_that_were_there_are_heard_of_or_missed() {
        let base = file(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn rounds() {}\n    #[test]\n    fn adds() {}\n}\n",
        );
        let names = names(&base);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["adds", "rounds"]);
        let said = "running 2 tests\ntest tests::adds ... ok\ntest tests::rounds ... ok\n";
        assert!(unheard(&names, said).is_empty());
        assert_eq!(unheard(&names, &said.replace("rounds", "other")), ["rounds"]);
        assert_eq!(unheard(&names, "running 0 tests\ntest result: ok. 0 passed\n").len(), 2);
        assert!(
            unheard(&names, "running 2 tests\n..\ntest result: ok. 2 passed\n").is_empty(),
            "it was told to be quiet"
        );
        assert!(super::names(&file("#[cfg(unix)]\n#[test]\nfn here() {}\n")).is_empty());
    }

    #[test]
    fn code_that_reaches_for_its_runner_is_known() {
        let paths = ["src/lib.rs".to_owned()];
        let does = |after: &str, heard| !reaches(&paths, &file("fn a() {}"), &file(after), heard).is_empty();
        assert!(does("std::process::exit(0)", false) && !does("std::process::exit(0)", true));
        assert!(does("raise unittest.SkipTest('later')", true) && !does("fn b() {}", false));
    }
}
