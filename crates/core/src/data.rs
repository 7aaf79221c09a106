//! What checks and tests read and nobody else does: expected values, tables, snapshots. They stand where the product does, and
//! belong to the checks.

use crate::checks::is_test;
use crate::discover::is_words;
use crate::recipe::{is_checking, programs};
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::TreeFile;
use std::collections::BTreeSet;

/// How the names of files end that somebody runs or builds. Anything else with an ending is data.
const CODE_ENDS: &str = "rs py pyi pyx js mjs cjs jsx ts mts cts tsx go c h cc cpp cxx hh hpp hxx m mm java kt kts scala swift rb php \
    pl pm lua r jl cs fs vb zig nim d hs ml mli ex exs erl clj el sh bash zsh fish ps1 bat awk sed asm s wat vue svelte html css \
    scss less sql proto graphql toml ini cfg mk gradle lock";

/// Where what is read in a file of Rust is read by its tests.
const RUST_TESTS: [&str; 2] = ["#[cfg(test)]", "#[test]"];

/// Who reads what, by the words in which it is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    by_tests: BTreeSet<String>,
    by_product: BTreeSet<String>,
    /// What commands compare the product's words with.
    compared: BTreeSet<String>,
}

impl Data {
    /// Takes in what a file from before reads.
    pub(crate) fn add(&mut self, file: &TreeFile) {
        let text = file.text.as_deref().unwrap_or_default();
        if is_test(&file.path) {
            self.by_tests.extend(named(text));
            return;
        }
        let tests = RUST_TESTS.iter().filter_map(|mark| text.find(mark)).min().filter(|_| file.path.ends_with(".rs"));
        let (product, tests) = text.split_at(tests.unwrap_or(text.len()));
        self.by_product.extend(named(product));
        self.by_tests.extend(named(tests));
    }

    /// Takes in what commands compare: of two files that which is called so is expected, and all of it beside what is printed.
    pub(crate) fn add_commands(&mut self, commands: &[String]) {
        for (_, rest) in programs(commands).into_iter().filter(|(called, _)| matches!(called.as_str(), "diff" | "cmp"))
        {
            let is_printed = rest.iter().any(|word| word == "-");
            let files = rest.into_iter().filter(|word| !word.starts_with('-') && (is_printed || is_checking(word)));
            self.compared.extend(files.map(|seen| bare(&seen).to_owned()));
        }
    }

    /// Whether a change is one of what only checks read.
    pub(crate) fn is_read(&self, file: &FileChange) -> bool {
        let is = |all: &BTreeSet<String>| all.iter().any(|seen| is_beneath(&file.path, seen));
        is(&self.compared) || is_data(&file.path) && is(&self.by_tests) && !is(&self.by_product)
    }

    /// Whether it is taken as it was before. What was not there is the worker's to bring; and where nothing else was changed,
    /// it is what the work was about, and a person has to say whether that is right.
    pub(crate) fn is_kept(&self, file: &FileChange, files: &[FileChange]) -> bool {
        let is_compared = self.compared.iter().any(|seen| is_beneath(&file.path, seen));
        let is_alone = files.iter().all(|other| is_data(&other.path) || is_words(&other.path));
        file.change != ChangeKind::Added && self.is_read(file) && (is_compared || !is_alone)
    }
}

/// Whether a file is neither code nor words for people.
pub fn is_data(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let end = name.rsplit_once('.').map(|(_, end)| end.to_lowercase());
    end.is_some_and(|end| !CODE_ENDS.split_whitespace().any(|code| code == end)) && !name.ends_with(".md")
}

/// What stands in quotation marks and may be a path.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    let quoted = text.lines().flat_map(|line| line.split(['"', '\'', '`']).skip(1).step_by(2));
    quoted.map(bare).filter(|word| word.contains('.') && !word.contains(char::is_whitespace)).map(str::to_owned)
}

/// A path without the way up to where it begins.
fn bare(seen: &str) -> &str {
    let mut seen = seen.rsplit('}').next().unwrap_or(seen).trim_start_matches('/');
    while let Some(rest) = seen.strip_prefix("./").or_else(|| seen.strip_prefix("../")) {
        seen = rest;
    }
    seen
}

/// Whether a path is this one, seen from any directory above it.
fn is_beneath(path: &str, seen: &str) -> bool {
    !seen.is_empty() && path.strip_suffix(seen).is_some_and(|above| above.is_empty() || above.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(files: &[(&str, &str)], commands: &[&str]) -> Data {
        let mut data = Data::default();
        for (path, text) in files {
            let (path, text) = ((*path).to_owned(), Some((*text).to_owned()));
            data.add(&TreeFile { path, hash: choir_proto::Hash::ZERO, text });
        }
        data.add_commands(&commands.iter().map(ToString::to_string).collect::<Vec<_>>());
        data
    }

    fn changed(path: &str, change: ChangeKind) -> FileChange {
        FileChange { path: path.into(), change }
    }

    #[test]
    fn what_only_tests_read_is_theirs_and_what_the_product_reads_is_not() {
        let rust = "const A: &str = include_str!(\"../a.txt\");\n#[cfg(test)]\nmod tests { const B: &str = include_str!(\"../snaps/b.snap\"); }\n";
        let read = data(
            &[
                ("p/lib.test.js", "require('./table.json'); open(\"config.json\")"),
                ("p/lib.js", "read('./config.json')"),
                ("p/src/lib.rs", rust),
            ],
            &[],
        );
        let is_read = |path: &str| read.is_read(&changed(path, ChangeKind::Modified));
        assert!(is_read("p/table.json") && is_read("p/snaps/b.snap"));
        assert!(!is_read("p/config.json") && !is_read("p/a.txt") && !is_read("p/lib.js") && !is_read("p/other.json"));
    }

    #[test]
    fn what_is_compared_is_from_before_and_what_the_work_was_about_is_named() {
        let read = data(
            &[("p/lib.test.js", "require('./table.json')")],
            &["sh prog.sh | diff -u - out.log", "cmp made.txt expected.txt"],
        );
        let (modified, added) = (ChangeKind::Modified, ChangeKind::Added);
        let kept = |path: &str, change, beside: &str| {
            let file = changed(path, change);
            read.is_kept(&file, &[file.clone(), changed(beside, modified)])
        };
        assert!(kept("p/out.log", modified, "notes.md") && kept("p/expected.txt", modified, "notes.md"));
        assert!(!kept("p/made.txt", modified, "lib.js") && kept("p/table.json", modified, "lib.js"));
        assert!(!kept("p/table.json", modified, "notes.md") && !kept("p/table.json", added, "lib.js"));
    }
}
