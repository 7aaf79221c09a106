//! What runners say of their tests: which passed, by name where they give names, and how many.

use crate::says::{Says, node_test};
use std::collections::BTreeMap;

/// What was heard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Tests that passed, each as often as it was named.
    pub(crate) names: BTreeMap<String, usize>,
    /// How many passed.
    pub(crate) passed: usize,
}

impl Says {
    /// What a runner of this sort said.
    pub(crate) fn heard(self, said: &str) -> Heard {
        match self {
            Self::Nothing => Heard::default(),
            Self::CargoResults => {
                let results = said.lines().filter_map(|line| line.split_once("test result: ok. "));
                let passed = results.filter_map(|(_, counts)| before(counts, " passed")).sum();
                Heard { passed, ..named(said.lines().filter_map(cargo_test)) }
            }
            Self::NodeTests => named(said.lines().filter_map(node_test)),
            Self::GoTests => named(said.lines().filter_map(go_test)),
            Self::OneOf(["\nOK"]) => {
                let ran = said.lines().filter_map(|line| after(line, "Ran ")).sum::<usize>();
                let skipped =
                    said.lines().filter_map(|line| after(line.split_once("skipped").map(|(_, rest)| rest)?, "="));
                Heard { passed: ran.saturating_sub(skipped.sum()), ..Heard::default() }
            }
            Self::OneOf(words) => {
                let words = words.iter().map(|word| word.trim_end_matches([':', ' '])).chain([" passed"]);
                let words: Vec<_> = words.filter(|word| word.starts_with(' ')).collect();
                let of = |line| words.iter().find_map(|word| before(line, word)).or_else(|| after(line, "pass "));
                Heard { passed: said.lines().filter_map(of).sum(), ..Heard::default() }
            }
        }
    }
}

fn named<'a>(tests: impl Iterator<Item = &'a str>) -> Heard {
    let mut heard = Heard::default();
    for test in tests {
        *heard.names.entry(test.to_owned()).or_default() += 1;
        heard.passed += 1;
    }
    heard
}

/// A test that cargo says has passed, without the modules that it stands in.
fn cargo_test(line: &str) -> Option<&str> {
    let (path, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let path = path.split(" - ").next().unwrap_or(path);
    end.trim_end().ends_with("ok").then(|| path.rsplit("::").next().unwrap_or(path))
}

/// A test that go says has passed. Parts of one are its own affair.
fn go_test(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("--- PASS: ")?.split_once(' ')?;
    Some(name)
}

/// The number that stands before a word.
fn before(text: &str, word: &str) -> Option<usize> {
    let (left, _) = text.split_once(word)?;
    let digits = left.len() - left.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    left[left.len() - digits..].parse().ok()
}

/// The number that stands behind a word.
fn after(text: &str, word: &str) -> Option<usize> {
    let (_, right) = text.split_once(word)?;
    right.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runner_is_heard_in_its_own_words() {
        let passed = |says: Says, said: &str| says.heard(said).passed;
        let cargo =
            "test a::b ... ok\ntest c - should panic ... ok\ntest d ... ignored\ntest result: ok. 2 passed; 0 failed\n";
        assert_eq!(passed(Says::CargoResults, cargo), 2);
        assert_eq!(Says::CargoResults.heard(cargo).names.into_keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(passed(Says::NodeTests, "ok 1 - adds\nok 2 - rounds\n# pass 2\n"), 2);
        assert_eq!(
            passed(Says::GoTests, "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\nok p\n"),
            1
        );
        assert_eq!(passed(Says::OneOf(&["\nOK"]), "Ran 3 tests in 0.0s\n\nOK (skipped=1)\n"), 2);
        assert_eq!(passed(Says::OneOf(&[" passed"]), "12 passed, 1 skipped in 0.1s\n"), 12);
        assert_eq!(passed(Says::OneOf(&[" passing"]), "  4 passing (3ms)\n"), 4);
        assert_eq!(passed(Says::OneOf(&["Tests: "]), "Tests:       2 passed, 2 total\n"), 2);
        assert_eq!(passed(Says::OneOf(&["Tests: "]), "Tests:       0 total\n"), 0);
        assert_eq!(passed(Says::OneOf(&["\nOK"]), "Ran 0 tests in 0.0s\n\nOK\n"), 0);
    }
}
