//! What a check says when it has really checked. Code under test can end its own examination with exit code 0.

use choir_proto::task::CommandResult;
use choir_proto::wire::TreeFile;

/// Names of files that node takes for tests; one `*` fits anything.
pub const NODE_TESTS: [&str; 9] = [
    "*.test.js",
    "*.test.mjs",
    "*.test.cjs",
    "*-test.js",
    "*_test.js",
    "test-*.js",
    "test.js",
    "test.mjs",
    "*.test.ts",
];

/// Runners by the words that begin their command, and what they say.
const RUNNERS: [(&[&str], Says); 16] = [
    (&["cargo", "test"], Says::CargoResults),
    // Without `-v` it names nothing.
    (&["go", "test", "-v"], Says::GoTests),
    (&["python3", "-m", "unittest"], Says::OneOf(&["\nOK"])),
    (&["python", "-m", "unittest"], Says::OneOf(&["\nOK"])),
    (&["python3", "-m", "pytest"], Says::OneOf(&[" passed"])),
    (&["python", "-m", "pytest"], Says::OneOf(&[" passed"])),
    (&["pytest"], Says::OneOf(&[" passed"])),
    (&["node", "--test"], Says::NodeTests),
    (&["mocha"], Says::OneOf(&[" passing"])),
    (&["npx", "mocha"], Says::OneOf(&[" passing"])),
    (&["jest"], Says::OneOf(&["Tests: "])),
    (&["npx", "jest"], Says::OneOf(&["Tests: "])),
    (&["vitest"], Says::OneOf(&[" passed"])),
    (&["npx", "vitest"], Says::OneOf(&[" passed"])),
    (&["ava"], Says::OneOf(&[" passed"])),
    (&["npx", "ava"], Says::OneOf(&[" passed"])),
];

/// Whoever uses one of these words wants another form of the report, or none.
const OTHERWISE: [&str; 7] = ["-qq", "--no-run", "--list", "--collect-only", "--co", "--format", "reporter"];

/// What can be relied on in the output of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Nothing that could be relied on.
    Nothing,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// As many good results as cargo started programs with tests.
    CargoResults,
    /// Tests that passed, and none that is a whole file: node takes a file that ended before its tests for one that passed.
    NodeTests,
    /// Tests by their names.
    GoTests,
}

/// What node says where its tests are files of statements.
const PLAIN_FILES: Says = Says::OneOf(&["pass "]);

impl Says {
    /// By the command that runs it, where it is one of a known runner in its usual form.
    pub fn of(command: &str) -> Self {
        if command.contains(['|', '>']) || OTHERWISE.iter().any(|word| command.contains(word)) {
            return Self::Nothing;
        }
        let said = command.split(['\n', ';', '&']).find_map(|part| {
            let words: Vec<_> = part.split_whitespace().skip_while(|word| word.contains('=')).collect();
            RUNNERS.iter().find(|(runner, _)| words.starts_with(runner)).map(|(_, says)| *says)
        });
        said.unwrap_or(Self::Nothing)
    }

    /// Whether it tells that tests ran, and not only that something ended well.
    pub(crate) fn names_tests(self) -> bool {
        self != Self::Nothing && self != PLAIN_FILES
    }

    /// Tests that are only a file of statements say nothing else than that their file ended well.
    pub(crate) fn of_files(self, tests: &[TreeFile]) -> Self {
        let is_plain = |file: &TreeFile| !file.text.as_deref().unwrap_or_default().contains("node:test");
        if self == Self::NodeTests && tests.iter().any(is_plain) { PLAIN_FILES } else { self }
    }

    /// Whether a command that ended well said so, with everything that it said where its result holds a part only.
    pub(crate) fn holds(self, result: &CommandResult, whole: Option<&str>) -> bool {
        let parts = [whole.unwrap_or(&result.stdout), whole.unwrap_or(&result.stderr)];
        match self {
            Self::Nothing => true,
            Self::OneOf(words) => words.iter().any(|word| parts.iter().any(|part| part.contains(word))),
            Self::CargoResults => {
                let begun = |line: &&str| {
                    let line = line.trim_start();
                    line.starts_with("Running ") || line.starts_with("Doc-tests ")
                };
                parts[0].matches("test result: ok.").count() >= parts[1].lines().filter(begun).count()
            }
            Self::GoTests => parts.iter().any(|part| part.lines().any(|line| line.starts_with("ok "))),
            Self::NodeTests => {
                let passed: Vec<_> = parts[0].lines().filter_map(node_test).collect();
                !passed.is_empty() && !passed.iter().any(|name| is_file(name))
            }
        }
    }
}

/// The name of a test that node says has passed.
pub(crate) fn node_test(line: &str) -> Option<&str> {
    let line = line.trim();
    let name = match line.strip_prefix("✔ ") {
        Some(spec) => spec.rsplit_once(" (").map_or(spec, |(name, _)| name),
        None => line.strip_prefix("ok ")?.split_once(" - ")?.1,
    };
    Some(name.trim())
}

fn is_file(name: &str) -> bool {
    let ends = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"].iter().any(|end| name.ends_with(end));
    ends && !name.contains(char::is_whitespace) && (name.contains('/') || name.contains("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_known_in_their_usual_form() {
        assert_eq!(Says::of("cd 'p' && node --test"), Says::NodeTests);
        assert_eq!(Says::of("CI=1 cargo test --workspace"), Says::CargoResults);
        assert_eq!(Says::of("mocha --recursive"), Says::OneOf(&[" passing"]));
        for silent in ["make test", "cargo test 2>&1 | tail", "mocha --reporter json", "pytest -qq", "sh check.sh"] {
            assert_eq!(Says::of(silent), Says::Nothing, "{silent}");
        }
    }

    fn result(stdout: &str, stderr: &str, truncated: bool) -> CommandResult {
        let (command, stdout, stderr) = (String::new(), stdout.to_owned(), stderr.to_owned());
        CommandResult { command, exit_code: Some(0), stdout, stderr, truncated, duration_ms: 0, log: None, limit: None }
    }

    #[test]
    fn a_file_of_tests_that_ended_before_them_has_not_passed() {
        let holds = |said: &str| Says::NodeTests.holds(&result(said, "", false), None);
        assert!(holds("# Subtest: adds\nok 1 - adds\n  ---\n# pass 1\n"));
        assert!(holds("✔ adds (1.1ms)\n✔ keeps config.js as it is (1ms)\nℹ pass 2\n"));
        assert!(!holds("ok 1 - adds\nok 2 - /work/p/lib.test.js\n# pass 2\n"));
        assert!(!holds("✔ lib.test.js (84.9ms)\nℹ pass 1\n") && !holds(""));
        let file = |text: &str| TreeFile {
            path: "lib.test.js".into(),
            hash: choir_proto::Hash::ZERO,
            text: Some(text.into()),
        };
        let tests = [file("import test from 'node:test'"), file("assert(require('./lib'))")];
        assert_eq!(Says::NodeTests.of_files(&tests[..1]), Says::NodeTests);
        assert_eq!(Says::NodeTests.of_files(&tests), Says::OneOf(&["pass "]), "statements without a test");
    }

    #[test]
    fn what_was_cut_off_is_looked_for_in_all_that_was_said() {
        let begun = "     Running unittests src/lib.rs\n";
        assert!(!Says::CargoResults.holds(&result("much", begun, true), None), "much output is no result");
        let whole = format!("{begun}much\ntest result: ok. 3 passed\n");
        assert!(Says::CargoResults.holds(&result("much", begun, true), Some(&whole)));
        assert!(!Says::CargoResults.holds(&result("much", begun, true), Some(begun)));
    }
}
