//! Which tests that were there before have to be heard of when a check passes. What is not heard of may have been switched off,
//! in whatever way; so it is the tests that have to be there, and not the ways that have to be known.

use crate::discover::{fits, is_python_test, is_within, project};
use crate::rust;
use crate::says::Says;
use choir_proto::wire::TreeFile;
use std::collections::{BTreeMap, BTreeSet};

/// How the tests of Python say that they may leave themselves out, or are made in another way.
const PYTHON_OTHERWISE: [&str; 4] = ["skip", "xfail", "load_tests", "__test__"];

/// Machines and systems that a file of Go may be for, by what its name ends with.
const GO_MACHINES: [&str; 12] =
    ["windows", "darwin", "freebsd", "netbsd", "openbsd", "plan9", "js", "wasm", "arm", "arm64", "386", "android"];

/// What has to be heard of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Tests by name, each as often as it was there.
    names: BTreeMap<String, usize>,
    /// How many tests of Python, which are not named.
    python: usize,
    /// Whether these never left themselves out.
    all_of_python: bool,
}

impl Says {
    /// Names of the files that tell which tests there were before.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::CargoResults => &["*.rs"],
            Self::NodeTests => &crate::says::NODE_TESTS,
            Self::GoTests => &["*_test.go"],
            Self::OneOf(["\nOK"] | [" passed"]) => &["*.py"],
            Self::OneOf(_) | Self::Nothing => &[],
        }
    }
}

impl Expected {
    /// Expects what these files hold, of a check that runs in these directories and leaves nothing out.
    pub(crate) fn add(&mut self, says: Says, homes: &[String], files: &[TreeFile]) {
        let within = |file: &&TreeFile| {
            homes.iter().any(|home| is_within(&file.path, home) && project(&file.path) == project(home))
        };
        let files: Vec<&TreeFile> = files.iter().filter(within).collect();
        match says {
            Says::CargoResults => {
                let taken: Vec<_> = files.into_iter().filter(|file| is_built(&file.path)).collect();
                self.names.extend(rust::tests(&taken));
            }
            Says::NodeTests => self.expect(files.iter().flat_map(|file| node(text(file)))),
            Says::GoTests => self.expect(files.iter().filter(|file| is_go(file)).flat_map(|file| go(text(file)))),
            // Which of its tests pytest collects is said in many places.
            Says::OneOf(["\nOK"]) => {
                let tests = files.iter().filter(|file| is_python_test(name(&file.path)));
                let names: BTreeSet<_> = tests.flat_map(|file| python(text(file))).collect();
                self.python = names.len();
            }
            Says::OneOf(_) | Says::Nothing => {}
        }
    }

    /// Expects of tests of Python that never leave themselves out that none of them does.
    pub(crate) fn add_skips(&mut self, files: &[TreeFile]) {
        let skips = |file: &TreeFile| file.text.as_deref().is_none_or(|text| text.to_lowercase().contains("skip"));
        let is_test = |file: &&TreeFile| crate::checks::is_test(&file.path) || file.path.ends_with("conftest.py");
        self.all_of_python = !files.iter().filter(is_test).any(skips);
    }

    fn expect<'a>(&mut self, tests: impl Iterator<Item = &'a str>) {
        tests.for_each(|test| *self.names.entry(test.to_owned()).or_default() += 1);
    }

    /// Why what was said by each runner proves less than it seems to.
    pub(crate) fn doubts(&self, said: &[(Says, String)]) -> Vec<String> {
        let mut doubts = Vec::new();
        let heard: Vec<_> = said.iter().map(|(says, said)| (*says, says.heard(said))).collect();
        let unheard = self.unheard(&heard);
        if !unheard.is_empty() {
            doubts.push(format!("Tests that were there before did not run: {}.", crate::verify::named(&unheard)));
        }
        let is_python = |says: Says| matches!(says, Says::OneOf(["\nOK"] | [" passed"]));
        let of_python = || heard.iter().filter(|(says, _)| is_python(*says));
        let ran: usize = of_python().map(|(_, heard)| heard.passed).sum();
        let skipped =
            |said: &str| said.contains("skipped=") || said.contains(" skipped") || said.contains("Ran 0 tests");
        let leaves_out = said.iter().any(|(says, said)| is_python(*says) && skipped(said));
        if self.all_of_python && leaves_out {
            doubts.push("Tests were left out that had never left themselves out before.".to_owned());
        } else if of_python().next().is_some() && ran < self.python {
            doubts.push(format!("Only {ran} tests passed, and there were {} before.", self.python));
        }
        if doubts.is_empty() && heard.iter().any(|(says, heard)| says.names_tests() && heard.passed == 0) {
            doubts.push("The check ran no test.".to_owned());
        }
        doubts
    }

    /// Tests of which nothing was heard.
    fn unheard(&self, heard: &[(Says, crate::heard::Heard)]) -> Vec<String> {
        let all = || heard.iter().map(|(_, heard)| heard);
        // A runner that was told to be quiet names nothing, and counts.
        if all().all(|heard| heard.names.is_empty())
            && all().map(|heard| heard.passed).sum::<usize>() >= self.names.values().sum()
        {
            return Vec::new();
        }
        let ran = |name: &String| all().filter_map(|heard| heard.names.get(name)).sum::<usize>();
        self.names.iter().filter(|(name, count)| ran(name) < **count).map(|(name, _)| name.clone()).collect()
    }
}

fn text(file: &TreeFile) -> &str {
    file.text.as_deref().unwrap_or_default()
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether cargo builds this by itself.
fn is_built(path: &str) -> bool {
    let is_beside = |part: &str| matches!(part, "fixtures" | "testdata" | "examples" | "benches" | "target" | "vendor");
    !path.split('/').any(is_beside) && path.split('/').any(|part| matches!(part, "src" | "tests"))
}

/// The tests of node whose names are plain texts, and that stand under no condition.
fn node(text: &str) -> Vec<&str> {
    if [".skip", "skip:", "todo"].iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let indented = |line: &str| line.len() - line.trim_start().len();
    let decides = |line: &&str| {
        ["if", "else", "for", "while", "switch", "function", "} else"]
            .iter()
            .any(|word| line.trim_start().starts_with(word))
    };
    let floor = text.lines().filter(decides).map(indented).min().unwrap_or(usize::MAX);
    let begins = |line: &&str| indented(line) <= floor;
    text.lines().filter(begins).filter_map(node_name).collect()
}

fn node_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("test(").or_else(|| line.strip_prefix("it("))?;
    let mark = rest.chars().next().filter(|mark| matches!(mark, '\'' | '"' | '`'))?;
    let (name, _) = rest[1..].split_once(mark)?;
    // What is written in another way in the report would be missed.
    (!name.contains(['\\', '#', '$', '(']) && name.trim() == name && !name.is_empty()).then_some(name)
}

fn is_go(file: &TreeFile) -> bool {
    let stem = name(&file.path).trim_end_matches("_test.go");
    let is_elsewhere = stem.rsplit('_').next().is_some_and(|last| GO_MACHINES.contains(&last));
    !is_elsewhere && !["go:build", "+build", ".Skip"].iter().any(|word| text(file).contains(word))
}

fn go(text: &str) -> Vec<&str> {
    let of = |line| str::strip_prefix(line, "func ")?.split_once("(").filter(|(_, rest)| rest.contains("*testing.T)"));
    let names = text.lines().filter_map(of).map(|(name, _)| name);
    names.filter(|name| fits(name, "Test*") && *name != "TestMain").collect()
}

/// The names of Python's tests, where nothing in their file says that some may be left out.
fn python(text: &str) -> Vec<&str> {
    let lower = text.to_lowercase();
    let is_conditional = |line: &str| line.starts_with("if ") && !line.contains("__name__");
    if PYTHON_OTHERWISE.iter().any(|word| lower.contains(word)) || text.lines().any(is_conditional) {
        return Vec::new();
    }
    text.lines().filter_map(python_name).collect()
}

fn python_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    rest.split('(').next().filter(|name| name.starts_with("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TreeFile {
        TreeFile { path: path.into(), hash: choir_proto::Hash::ZERO, text: Some(text.into()) }
    }

    fn doubts(says: Says, before: &[TreeFile], said: &str) -> Vec<String> {
        let mut expected = Expected::default();
        expected.add(says, &["p".to_owned()], before);
        expected.doubts(&[(says, said.to_owned())])
    }

    #[test]
    fn tests_of_rust_that_were_there_are_heard_of_or_missed() {
        let text =
            "#[cfg(unix)]\nuse a;\n#[cfg(test)]\nmod tests {\n #[test]\n fn rounds() {}\n #[test]\n fn adds() {}\n}\n";
        let base = [file("p/src/lib.rs", text), file("q/src/lib.rs", "#[test] fn elsewhere() {}")];
        let doubts = |said: &str| doubts(Says::CargoResults, &base, said);
        let said = "running 2 tests\ntest tests::adds ... ok\ntest tests::rounds ... ok\ntest result: ok. 2 passed\n";
        assert!(doubts(said).is_empty());
        assert_eq!(doubts(&said.replace("rounds", "other")), ["Tests that were there before did not run: rounds."]);
        assert_eq!(doubts(&said.replace("rounds ... ok", "rounds ... ignored")).len(), 1, "left out is not run");
        assert_eq!(doubts("running 0 tests\ntest result: ok. 0 passed\n").len(), 1);
        assert!(doubts("running 2 tests\n..\ntest result: ok. 2 passed\n").is_empty(), "it was told to be quiet");
        assert_eq!(doubts("running 1 test\n.\ntest result: ok. 1 passed\n").len(), 1, "it counts all the same");
    }

    #[test]
    fn a_check_that_ran_no_test_proves_nothing() {
        for (says, said) in [
            (Says::CargoResults, "test result: ok. 0 passed; 0 failed\n"),
            (Says::NodeTests, "# pass 0\n"),
            (Says::GoTests, "ok p 0.1s [no tests to run]\n"),
            (Says::OneOf(&["\nOK"]), "Ran 0 tests\n\nOK\n"),
            (Says::OneOf(&[" passing"]), "  0 passing (1ms)\n"),
        ] {
            assert_eq!(doubts(says, &[], said), ["The check ran no test."], "{said}");
        }
    }

    #[test]
    fn tests_of_node_are_expected_by_name_where_nothing_leaves_them_out() {
        let text = "import test from 'node:test'\ntest('adds', () => {\n  if (x) y()\n})\ndescribe('all', () => {\n  it(\"rounds\", f)\n})\n";
        let doubts = |text: &str, said| doubts(Says::NodeTests, &[file("p/a.test.js", text)], said);
        assert!(doubts(text, "ok 1 - adds\n    ok 1 - rounds\nok 2 - all\n").is_empty());
        assert_eq!(doubts(text, "ok 1 - other\n"), ["Tests that were there before did not run: adds, rounds."]);
        assert_eq!(doubts(text, "ok 1 - adds # SKIP\nok 2 - rounds\n").len(), 1);
        assert!(doubts(&text.replace("it(", "it.skip("), "ok 1 - adds\n").is_empty());
        let sometimes = text.replace("test('adds'", "if (slow) {\n  test('slow', f)\n}\ntest('adds'");
        assert!(doubts(&sometimes, "ok 1 - adds\nok 2 - rounds\n").is_empty());
    }

    #[test]
    fn tests_of_go_and_python_are_expected_too() {
        let go =
            "package p\nfunc TestAdd(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\nfunc helper(t *testing.T) {}\n";
        let of_go = |path, text: &str, said| doubts(Says::GoTests, &[file(path, text)], said);
        assert!(of_go("p/a_test.go", go, "--- PASS: TestAdd (0.0s)\n").is_empty());
        assert_eq!(of_go("p/a_test.go", go, "ok p\n"), ["Tests that were there before did not run: TestAdd."]);
        assert!(of_go("p/a_windows_test.go", go, "--- PASS: TestOther (0.0s)\n").is_empty());
        let python = "class T(TestCase):\n    def test_a(self): pass\n    async def test_b(self): pass\n    def helper(self): pass\n";
        let of_python = |text: &str, said| doubts(Says::OneOf(&["\nOK"]), &[file("p/test_a.py", text)], said);
        assert!(of_python(python, "Ran 2 tests\n\nOK\n").is_empty());
        assert_eq!(of_python(python, "Ran 1 test\n\nOK\n"), ["Only 1 tests passed, and there were 2 before."]);
        assert!(
            of_python(&python.replace("class", "@unittest.skip\nclass"), "Ran 2 tests\n\nOK (skipped=1)\n").is_empty()
        );
    }
}
