//! The tables of threats and of promises name tests that exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap().join("../..")
}

#[test]
fn every_test_that_the_table_names_exists() {
    let root = root();
    let table = std::fs::read_to_string(root.join("docs/threats.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| A") || line.starts_with("| F")).collect();
    assert!(rows.len() >= 50, "{} rows", rows.len());
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let mut names = cell.split('`').skip(1).step_by(2);
        let (file, test) = (names.next().expect(row), names.next().expect(row));
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        match test.strip_prefix("cargo xtask torture ") {
            Some(harm) => assert!(is_row_of_torture(&root, file, harm), "{row}"),
            None => assert!(is_test(&text, test), "{file} has no test `{test}`"),
        }
    }
}

/// `cargo test` is content with a name that no test has, and so would be whoever runs what the promise names.
#[test]
fn every_test_that_a_promise_names_exists() {
    let root = root();
    let promises = std::fs::read_to_string(root.join("SPECIFICATION.md")).unwrap();
    let commands = promises.split('`').skip(1).step_by(2).filter_map(|command| command.strip_prefix("cargo test -p "));
    let mut known = BTreeMap::new();
    let (mut count, mut missing) = (0, Vec::<(&str, &str)>::new());
    for command in commands {
        let mut words = command.split(' ');
        let package = words.next().unwrap();
        let directory = root.join("crates").join(package.trim_start_matches("choir-"));
        let names = known.entry(package).or_insert_with(|| tests(&directory));
        let mut is_value = false;
        for filter in words {
            match std::mem::replace(&mut is_value, filter == "--features") {
                false if !filter.starts_with("--") => {
                    count += 1;
                    if !names.iter().any(|name| name.contains(filter)) {
                        missing.push((package, filter));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(count >= 200, "{count} names");
    assert_eq!(missing, [], "no test is called that");
}

/// Every test of a package, as `module::name`.
fn tests(package: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in ["src", "tests"].iter().flat_map(|part| sources(&package.join(part))) {
        let module = file.strip_prefix(package).unwrap().with_extension("");
        let module: Vec<_> = module.iter().skip(1).map(|part| part.to_str().unwrap()).collect();
        let functions = text.match_indices("fn ").filter_map(|(at, _)| text[at + 3..].split_once(['(', '<']));
        let tests = functions.map(|(name, _)| name).filter(|name| is_test(&text, name));
        found.extend(tests.map(|name| format!("{}::{name}", module.join("::"))));
    }
    found
}

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let (directories, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read = files.map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap()));
    read.chain(directories.iter().flat_map(|directory| sources(directory))).collect()
}

/// Whether the attribute before a function makes it a test.
fn is_test(text: &str, test: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else { return false };
    let before = text[..at].lines().rev().skip(usize::from(!text[..at].ends_with('\n')));
    let mut attributes = before.take_while(|line| line.trim_start().starts_with("#["));
    attributes.any(|line| line.contains("test]") || line.contains("test("))
}

/// A row of the torture, whose short form every run of the tests goes through.
fn is_row_of_torture(root: &Path, file: &str, harm: &str) -> bool {
    let rows = std::fs::read_to_string(root.join("crates/sim/src/torture/mod.rs")).unwrap();
    let suite = std::fs::read_to_string(root.join("crates/xtask/src/suite.rs")).unwrap();
    let name: String = harm[..1].to_uppercase() + &harm[1..];
    let is_short_run = suite.contains(r#"["torture", "--short"]"#);
    file == format!("crates/sim/src/torture/{harm}.rs") && rows.contains(&format!("    {name},\n")) && is_short_run
}
