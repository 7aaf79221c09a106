//! Which of a worker's changes touch the checks that it is judged by. Nobody passes an examination that they wrote.

use crate::discover::{is_makefile, npm_script};
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::TreeFile;
use serde_json::Value;

/// Files that say what a check is or how it runs, by their names. A new one counts too: it may stand in front of the old.
const DEFINITIONS: [&str; 34] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "Taskfile.yml",
    "Rakefile",
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "noxfile.py",
    // These stand in front of the libraries of the same name.
    "pytest.py",
    "unittest.py",
    "sitecustomize.py",
    "usercustomize.py",
    ".noserc",
    ".coveragerc",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "bunfig.toml",
    "karma.conf.js",
    ".taprc",
    ".rspec",
    "phpunit.xml",
    "rust-toolchain.toml",
    "rust-toolchain",
    "clippy.toml",
    ".node-version",
    ".nvmrc",
];

/// Files of the same sort, by how their names begin: one runner reads many forms of its settings.
const DEFINING_BEGINNINGS: [&str; 9] =
    [".mocharc.", ".nycrc", ".c8rc", ".babelrc", ".swcrc", "jest.", "vitest.", "mocha.", "setupTests."];

/// And by how they end.
const DEFINING_ENDS: [&str; 7] =
    [".config.js", ".config.ts", ".config.mjs", ".config.cjs", ".config.mts", ".config.json", ".mk"];

/// Files that describe the product and its checks at once. A worker needs to change them, so they are checked as it left
/// them; but it is not verified by what it wrote there.
const MANIFESTS: [&str; 13] = [
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
    "deno.jsonc",
    "build.gradle.kts",
    "tsconfig.json",
];

/// npm's manifest.
const PACKAGE: &str = "package.json";

/// What of npm's manifest belongs to the checks.
const PACKAGE_CHECKS: [&str; 5] = ["scripts", "jest", "mocha", "ava", "config"];

/// Directories whose content decides how checks run.
const DEFINING_DIRECTORIES: [&str; 6] = [".cargo", ".github", ".config", ".bin", "pytest", "unittest"];

/// Directories of tests.
const TEST_DIRECTORIES: [&str; 4] = ["tests", "test", "__tests__", "spec"];

/// Directories of what tests are given.
const DATA_DIRECTORIES: [&str; 2] = ["testdata", "fixtures"];

/// Endings of files that nobody runs.
const DATA_ENDS: [&str; 8] = [".csv", ".html", ".json", ".md", ".txt", ".xml", ".yaml", ".yml"];

/// Programs that run the file which they are given, and words by which one file takes another in.
const INTERPRETERS: [&str; 15] = [
    "sh", "bash", "dash", "python", "python3", "node", "ruby", "perl", "awk", "make", ".", "source", "include",
    "-include", "sinclude",
];

/// Changed paths that belong to the checks, in order. A test that was added proves nothing. Where it takes no part, it takes
/// nothing away either.
pub fn changed(files: &[FileChange], commands: &[String]) -> Vec<String> {
    let scripts = all_scripts(commands);
    let wanted = |file: &FileChange| is_new_test(file) && is_named(&file.path, commands);
    let concerns = |file: &&FileChange| is_manifest(&file.path) || is_check(file, &scripts) || wanted(file);
    files.iter().filter(concerns).map(|file| file.path.clone()).collect()
}

/// Changed paths that are checked as they were before the worker: absent if they were absent then.
pub fn from_base(files: &[FileChange], commands: &[String]) -> Vec<String> {
    let scripts = all_scripts(commands);
    let taken = |file: &&FileChange| is_check(file, &scripts) || is_left_out(file, commands);
    files.iter().filter(taken).map(|file| file.path.clone()).collect()
}

/// New tests that take no part in the check: what runs beside the tests from before can change how these end.
pub fn left_out(files: &[FileChange], commands: &[String]) -> Vec<String> {
    files.iter().filter(|file| is_left_out(file, commands)).map(|file| file.path.clone()).collect()
}

/// Names of files that say more of what these commands run.
pub fn told_in(commands: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for script in all_scripts(commands) {
        match name(script) {
            "make" => names.extend(["Makefile", "makefile", "GNUmakefile"].map(str::to_owned)),
            "npm" | "pnpm" | "yarn" | "bun" => names.push(PACKAGE.to_owned()),
            // A pattern would be one for whoever looks for it, too.
            other if !other.is_empty() && !other.contains('*') => names.push(other.to_owned()),
            _ => {}
        }
    }
    names.sort();
    names.dedup();
    names
}

/// What such a file makes part of the check: what a Makefile or a package runs and includes, and what a script takes in. What a
/// script runs is mostly what it looks at.
pub fn commands_in(file: &TreeFile) -> Vec<String> {
    let (name, text) = (name(&file.path), file.text.as_deref().unwrap_or_default());
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['@', '+']).to_owned());
    if name == PACKAGE {
        return npm_script(text).into_iter().collect();
    }
    if is_makefile(name) || name.ends_with(".mk") {
        return lines.collect();
    }
    let for_a_shell = text.lines().next().is_some_and(|first| first.starts_with("#!") && first.contains("sh"));
    if !for_a_shell && ![".sh", ".bash"].iter().any(|end| name.ends_with(end)) {
        return Vec::new();
    }
    lines.filter(|line| [". ", "source "].iter().any(|word| line.starts_with(word))).collect()
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
    let is_run = scripts.iter().any(|script| is_beneath(&file.path, script));
    let is_tested = file.change != ChangeKind::Added && is_test(&file.path);
    !is_manifest(&file.path) && (is_run || is_definition(&file.path) || is_tested)
}

fn is_left_out(file: &FileChange, commands: &[String]) -> bool {
    is_new_test(file) && !is_named(&file.path, commands)
}

/// Whether a runner takes this up by its name or place, though nobody before knew of it. Programs in Rust take in what lies
/// beside them by words of their own, which are looked at elsewhere.
fn is_new_test(file: &FileChange) -> bool {
    let mut above = file.path.split('/').rev().skip(1);
    let is_data = DATA_ENDS.iter().any(|end| file.path.ends_with(end));
    let is_beside = above.clone().any(|part| part == "src") && file.path.ends_with(".rs");
    let is_given = above.any(|part| DATA_DIRECTORIES.contains(&part));
    file.change == ChangeKind::Added && is_test(&file.path) && !is_data && !is_beside && !is_given
}

/// Whether one of these commands asks for this very file.
fn is_named(path: &str, commands: &[String]) -> bool {
    let stem = name(path).split('.').next().unwrap_or(path);
    let asks = |word: &str| {
        let word = word.trim_matches(['"', '\'']).split("::").next().unwrap_or(word);
        word == stem || is_beneath(path, word.strip_prefix("./").unwrap_or(word))
    };
    commands.iter().any(|command| command.split_whitespace().any(asks))
}

/// Whether a path is this one, seen from any directory above it.
fn is_beneath(path: &str, seen: &str) -> bool {
    !seen.is_empty() && path.strip_suffix(seen).is_some_and(|above| above.is_empty() || above.ends_with('/'))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_manifest(path: &str) -> bool {
    MANIFESTS.contains(&name(path))
}

fn is_definition(path: &str) -> bool {
    let name = name(path);
    let begins = DEFINING_BEGINNINGS.iter().any(|begin| name.starts_with(begin));
    let ends = DEFINING_ENDS.iter().any(|end| name.ends_with(end));
    let within = path.split('/').rev().skip(1).any(|part| DEFINING_DIRECTORIES.contains(&part));
    DEFINITIONS.contains(&name) || begins || ends || within
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let within =
        path.split('/').rev().skip(1).any(|part| TEST_DIRECTORIES.contains(&part) || DATA_DIRECTORIES.contains(&part));
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
        let settings =
            [".mocharc.cjs", ".pytest.ini", "jest.config.json", "jest.setup.js", "rules.mk", "tsconfig.json"];
        assert_eq!(check(&settings.map(|name| (name, Added)), &[]).len(), settings.len());
    }

    #[test]
    fn new_tests_take_no_part_unless_they_were_asked_for() {
        let files: Vec<_> = [
            "tests/test_aaa.py",
            "a/tests/new.rs",
            "src/round/tests.rs",
            "tests/fixtures/long.py",
            "spec/api.yaml",
            "src/total.py",
        ]
        .map(|path| FileChange { path: path.into(), change: ChangeKind::Added })
        .into();
        let (some, none) = (["tests/test_aaa.py", "a/tests/new.rs"], Vec::<String>::new());
        let commands = ["python3 -m unittest discover".to_owned()];
        assert_eq!(left_out(&files, &commands), some);
        assert_eq!((from_base(&files, &commands), changed(&files, &commands)), (some.map(str::to_owned).into(), none));
        for asked in ["pytest tests/test_aaa.py::test_one", "cargo test --test new"] {
            let (asked, named) = ([asked.to_owned()], changed(&files, &[asked.to_owned()]));
            assert_eq!(named.len(), 1, "what was asked for is there, and named");
            assert!(!from_base(&files, &asked).contains(&named[0]));
        }
    }

    #[test]
    fn what_a_check_takes_in_belongs_to_it() {
        let file = |path: &str, text: &str| TreeFile {
            path: path.into(),
            hash: choir_proto::Hash::ZERO,
            text: Some(text.into()),
        };
        let read = |command: &str| told_in(&[command.to_owned()]);
        assert_eq!(read("cd p && make test"), ["GNUmakefile", "Makefile", "cd", "makefile", "test"]);
        assert!(read("npm test").contains(&"package.json".to_owned()) && read("./check.sh -x") == ["check.sh"]);
        let makefile = commands_in(&file("p/Makefile", "-include rules/all.mk\ntest:\n\t@sh ./check.sh\n"));
        let script = commands_in(&file("p/check.sh", "set -e\n. ./lib.sh\nsource more.sh\nsh product.sh | grep 1\n"));
        let files =
            ["rules/all.mk", "check.sh", "lib.sh", "more.sh", "product.sh"].map(|path| (path, ChangeKind::Modified));
        let all: Vec<_> = makefile.iter().chain(&script).map(String::as_str).collect();
        assert_eq!(check(&files, &all), ["rules/all.mk", "check.sh", "lib.sh", "more.sh"]);
        assert_eq!(commands_in(&file("package.json", r#"{"scripts": {"test": "node run.js"}}"#)), ["node run.js"]);
        assert!(commands_in(&file("check.py", "include = 1")).is_empty());
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
        assert_eq!(taken, ["a/.cargo/config.toml", "a/run.js", "a/tests/new.rs", "a/tests/old.rs"]);
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
