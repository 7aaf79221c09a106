//! Which of a worker's changes touch the checks that it is judged by. Nobody passes an examination that they wrote.

use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::TreeFile;
use serde_json::Value;

/// Files that say what a check is or how it runs, by their names. A new one counts too: it may stand in front of the old.
const DEFINITIONS: [&str; 20] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    // These stand in front of the libraries of the same name.
    "pytest.py",
    "unittest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "Rakefile",
    ".npmrc",
    ".mocharc.json",
    "rust-toolchain.toml",
    "rust-toolchain",
    ".noserc",
    ".coveragerc",
];

/// Files that describe the product and its checks at once. A worker needs to change them, so they are checked as it left
/// them; but it is not verified by what it wrote there.
const MANIFESTS: [&str; 10] = [
    "Cargo.toml",
    "build.rs",
    PACKAGE,
    "pyproject.toml",
    "setup.cfg",
    "go.mod",
    "CMakeLists.txt",
    "build.gradle",
    "pom.xml",
    "deno.json",
];

/// npm's manifest.
const PACKAGE: &str = "package.json";

/// What of npm's manifest belongs to the checks.
const PACKAGE_CHECKS: [&str; 5] = ["scripts", "jest", "mocha", "ava", "config"];

/// Directories whose content decides how checks run.
const DEFINING_DIRECTORIES: [&str; 6] = [".cargo", ".github", ".config", ".bin", "pytest", "unittest"];

/// Directories of tests.
const TEST_DIRECTORIES: [&str; 6] = ["tests", "test", "__tests__", "spec", "testdata", "fixtures"];

/// Programs that run the file which they are given.
const INTERPRETERS: [&str; 10] = ["sh", "bash", "dash", "python", "python3", "node", "ruby", "perl", "awk", "make"];

/// Changed paths that belong to the checks, in order. A test that was added proves nothing, but takes nothing away either.
pub fn changed(files: &[FileChange], commands: &[String]) -> Vec<String> {
    let scripts = all_scripts(commands);
    let concerns = |file: &&FileChange| is_manifest(&file.path) || is_check(file, &scripts);
    files.iter().filter(concerns).map(|file| file.path.clone()).collect()
}

/// Changed paths that are checked as they were before the worker: absent if they were absent then.
pub fn from_base(files: &[FileChange], commands: &[String]) -> Vec<String> {
    let scripts = all_scripts(commands);
    files.iter().filter(|file| is_check(file, &scripts)).map(|file| file.path.clone()).collect()
}

/// Changed files that may hold tests beside the code that they test.
pub fn may_hold_tests(files: &[FileChange]) -> Vec<String> {
    let may = |file: &&FileChange| file.change != ChangeKind::Added && file.path.ends_with(".rs");
    files.iter().filter(may).map(|file| file.path.clone()).collect()
}

/// Of such files, those whose tests are not what they were. What cannot be compared counts as changed.
pub fn tests_changed(paths: &[String], base: &[TreeFile], result: &[TreeFile]) -> Vec<String> {
    let differs = |path: &&String| match (tests_of(base, path), tests_of(result, path)) {
        (Some(before), Some(after)) => before != after,
        // A file that is gone took its tests with it, if it had any.
        (Some(before), None) => !before.is_empty(),
        (None, _) => true,
    };
    paths.iter().filter(differs).cloned().collect()
}

fn tests_of<'a>(files: &'a [TreeFile], path: &str) -> Option<Vec<&'a str>> {
    files.iter().find(|file| file.path == path)?.text.as_deref().map(tests_within)
}

/// Changed manifests of npm.
pub fn packages(files: &[FileChange]) -> Vec<String> {
    let is = |file: &&FileChange| file.change == ChangeKind::Modified && name(&file.path) == PACKAGE;
    files.iter().filter(is).map(|file| file.path.clone()).collect()
}

/// A manifest of npm as its worker left it, but with the checks that were there before.
pub fn package(base: &str, result: &str) -> Option<String> {
    let (base, mut result): (Value, Value) = (serde_json::from_str(base).ok()?, serde_json::from_str(result).ok()?);
    let fields = result.as_object_mut()?;
    for key in PACKAGE_CHECKS {
        match base.get(key) {
            Some(before) => drop(fields.insert(key.to_owned(), before.clone())),
            None => drop(fields.remove(key)),
        }
    }
    serde_json::to_string_pretty(&result).ok()
}

/// The tests in a file of Rust: everything from the first word of a test on, and the examples in its comments.
fn tests_within(text: &str) -> Vec<&str> {
    const MARKS: [&str; 6] = ["cfg(test", "cfg!(test", "cfg_attr(test", "cfg(not(test", "#[test", "::test"];
    let begins = text.lines().position(|line| MARKS.iter().any(|mark| line.contains(mark)));
    let (mut tests, mut example) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!"));
        let fence = comment.is_some_and(|comment| comment.trim_start().starts_with("```"));
        if fence || (example && comment.is_some()) || begins.is_some_and(|begins| at >= begins) {
            tests.push(line);
        }
        example = comment.is_some() && (example != fence);
    }
    tests
}

fn all_scripts(commands: &[String]) -> Vec<&str> {
    commands.iter().flat_map(|command| scripts(command)).collect()
}

/// Whether a change concerns what a check is made of, and nothing else.
fn is_check(file: &FileChange, scripts: &[&str]) -> bool {
    // Scripts are named from where their command runs, which may be any directory above them.
    let is_run = scripts
        .iter()
        .any(|script| file.path.strip_suffix(script).is_some_and(|above| above.is_empty() || above.ends_with('/')));
    let is_tested = file.change != ChangeKind::Added && is_test(&file.path);
    !is_manifest(&file.path) && (is_run || is_definition(&file.path) || is_tested)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_manifest(path: &str) -> bool {
    MANIFESTS.contains(&name(path))
}

fn is_definition(path: &str) -> bool {
    let name = name(path);
    let configures = [".config.js", ".config.ts", ".config.mjs", ".config.cjs"].iter().any(|end| name.ends_with(end));
    let within = path.split('/').rev().skip(1).any(|part| DEFINING_DIRECTORIES.contains(&part));
    DEFINITIONS.contains(&name) || configures || within
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let within = path.split('/').rev().skip(1).any(|part| TEST_DIRECTORIES.contains(&part));
    let stem = name.split('.').next().unwrap_or(name);
    let marked = stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests" || stem == "test";
    within || marked || name.contains(".test.") || name.contains(".spec.")
}

/// Files that a command runs: what stands first, and what an interpreter is given.
fn scripts(command: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in command.split(['\n', ';', '&', '|', '(', ')']) {
        let mut words = part.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        // A variable that is set for a command stands before it.
        let Some(first) = words.find(|word| !word.contains('=')) else { continue };
        found.push(first);
        if INTERPRETERS.contains(&first.rsplit('/').next().unwrap_or(first)) {
            found.extend(words.find(|word| !word.starts_with('-')));
        }
    }
    found.into_iter().map(|path| path.strip_prefix("./").unwrap_or(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, ChangeKind)], commands: &[&str]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, change)| FileChange { path: (*path).into(), change: *change }).collect();
        changed(&files, &commands.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_check_runs_or_is_defined_by_is_noticed() {
        use ChangeKind::{Added, Deleted, Modified};
        let commands = ["sh ./check.sh && grep -q right file", "./run -x"];
        let found = check(
            &[("check.sh", Modified), ("file", Modified), ("run", Modified), ("src/lib.rs", Modified)],
            &commands,
        );
        assert_eq!(found, ["check.sh", "run"], "what a check looks at is not the check");
        let definitions = [
            (".cargo/config.toml", Added),
            ("a/package.json", Modified),
            ("node_modules/.bin/jest", Modified),
            ("conftest.py", Added),
            ("vite.config.ts", Added),
        ];
        assert_eq!(check(&definitions, &[]).len(), definitions.len());
        let tests =
            [("tests/a.rs", Deleted), ("src/a_test.go", Modified), ("b.test.ts", Modified), ("test_c.py", Modified)];
        assert_eq!(check(&tests, &[]).len(), tests.len());
    }

    #[test]
    fn checks_are_taken_from_before_and_manifests_as_they_are() {
        use ChangeKind::{Added, Deleted, Modified};
        let files: Vec<_> = [
            ("a/.cargo/config.toml", Added),
            ("a/Cargo.toml", Modified),
            ("a/run.js", Modified),
            ("a/src/lib.rs", Modified),
            ("a/tests/new.rs", Added),
            ("a/tests/old.rs", Deleted),
        ]
        .map(|(path, change)| FileChange { path: path.into(), change })
        .into();
        let commands = ["cd 'a' && npm test".to_owned(), "NODE_ENV=test node run.js".to_owned()];
        let taken = from_base(&files, &commands);
        assert_eq!(taken, ["a/.cargo/config.toml", "a/run.js", "a/tests/old.rs"]);
        let named = changed(&files, &commands);
        assert_eq!(named, ["a/.cargo/config.toml", "a/Cargo.toml", "a/run.js", "a/tests/old.rs"]);
    }

    #[test]
    fn tests_beside_the_code_are_seen() {
        let before =
            "/// Adds.\n/// ```\n/// assert!(add(1) == 2);\n/// ```\nfn add() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        let file = |text: &str| {
            vec![TreeFile { path: "src/lib.rs".into(), hash: choir_proto::Hash::ZERO, text: Some(text.into()) }]
        };
        let paths = ["src/lib.rs".to_owned()];
        let changed = |after: &str| !tests_changed(&paths, &file(before), &file(after)).is_empty();
        assert!(!changed(&before.replace("fn add() {}", "fn add() { work() }")), "work on the code itself");
        assert!(!changed(&before.replace("Adds.", "Adds up.")), "a comment");
        assert!(changed(&before.replace("mod tests {", "mod tests { //")));
        assert!(changed(&before.replace("#[cfg(test)]", "")));
        assert!(changed(&before.replace("add(1) == 2", "true")), "an example is a test");
        assert!(changed(&before.replace("fn add() {}", "fn add() { if cfg!(test) { cheat() } }")));
        assert!(!tests_changed(&paths, &file(before), &[]).is_empty(), "a file that is gone");
        assert!(tests_changed(&paths, &file("fn plain() {}"), &[]).is_empty());
        assert!(!tests_changed(&paths, &[], &file(before)).is_empty(), "what cannot be compared");
    }

    #[test]
    fn the_scripts_of_a_package_are_those_from_before() {
        let base = r#"{"scripts": {"test": "node run.js"}}"#;
        let result = r#"{"scripts": {"test": "true"}, "jest": {"passWithNoTests": true}, "dependencies": {"x": "1"}}"#;
        let checked: Value = serde_json::from_str(&package(base, result).unwrap()).unwrap();
        assert_eq!(checked["scripts"]["test"], "node run.js");
        assert_eq!((&checked["jest"], &checked["dependencies"]["x"]), (&Value::Null, &Value::from("1")));
        assert_eq!(package(base, "no json"), None);
    }

    #[test]
    fn a_new_test_and_ordinary_work_change_no_check() {
        use ChangeKind::{Added, Modified};
        assert!(
            check(&[("tests/new.rs", Added), ("src/latest.rs", Modified), ("contest.md", Modified)], &["cargo test"])
                .is_empty()
        );
    }
}
