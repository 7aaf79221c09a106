//! Which of a worker's changes touch the checks that it is judged by. Nobody passes an examination that they wrote.

use choir_proto::task::{ChangeKind, FileChange};

/// Files that say what a check is or how it runs, by their names. A new one counts too: it may stand in front of the old.
const DEFINITIONS: [&str; 24] = [
    "Cargo.toml",
    "build.rs",
    "package.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "noxfile.py",
    "go.mod",
    "sitecustomize.py",
    "CMakeLists.txt",
    "build.gradle",
    "pom.xml",
    "Rakefile",
    ".npmrc",
    ".mocharc.json",
    "deno.json",
    "rust-toolchain.toml",
    "Justfile",
];

/// Directories whose content decides how checks run.
const DEFINING_DIRECTORIES: [&str; 4] = [".cargo", ".github", ".config", ".bin"];

/// Directories of tests.
const TEST_DIRECTORIES: [&str; 6] = ["tests", "test", "__tests__", "spec", "testdata", "fixtures"];

/// Programs that run the file which they are given.
const INTERPRETERS: [&str; 10] = ["sh", "bash", "dash", "python", "python3", "node", "ruby", "perl", "awk", "make"];

/// Changed paths that belong to the checks, in order. A test that was added proves nothing, but takes nothing away either.
pub fn changed(files: &[FileChange], commands: &[String]) -> Vec<String> {
    let scripts: Vec<&str> = commands.iter().flat_map(|command| scripts(command)).collect();
    let concerns = |file: &&FileChange| {
        let is_run = scripts.contains(&file.path.as_str());
        is_run || is_definition(&file.path) || (file.change != ChangeKind::Added && is_test(&file.path))
    };
    files.iter().filter(concerns).map(|file| file.path.clone()).collect()
}

fn is_definition(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
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
        let Some(first) = words.next() else { continue };
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
    fn a_new_test_and_ordinary_work_change_no_check() {
        use ChangeKind::{Added, Modified};
        assert!(
            check(&[("tests/new.rs", Added), ("src/latest.rs", Modified), ("contest.md", Modified)], &["cargo test"])
                .is_empty()
        );
    }
}
