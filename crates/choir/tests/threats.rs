//! The table of threats names tests that exist.

use std::path::Path;

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap().join("../..");
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

fn is_test(text: &str, test: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else { return false };
    ["test]", "test(flavor"].iter().any(|mark| text[..at].rfind(mark).is_some_and(|mark| at - mark < 60))
}

/// A row of the torture, whose short form every run of the tests goes through.
fn is_row_of_torture(root: &Path, file: &str, harm: &str) -> bool {
    let rows = std::fs::read_to_string(root.join("crates/sim/src/torture/mod.rs")).unwrap();
    let suite = std::fs::read_to_string(root.join("crates/xtask/src/suite.rs")).unwrap();
    let name: String = harm[..1].to_uppercase() + &harm[1..];
    let is_short_run = suite.contains(r#"["torture", "--short"]"#);
    file == format!("crates/sim/src/torture/{harm}.rs") && rows.contains(&format!("    {name},\n")) && is_short_run
}
