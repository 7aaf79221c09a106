//! The table of threats names tests that exist.

use std::path::Path;

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap().join("../..");
    let table = std::fs::read_to_string(root.join("docs/threats.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| A") || line.starts_with("| F")).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let mut names = cell.split('`').skip(1).step_by(2);
        let (file, test) = (names.next().expect(row), names.next().expect(row));
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let at = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{file} has no `{test}`"));
        assert!(text[..at].rfind("test]").is_some_and(|mark| at - mark < 60), "`{test}` in {file} is no test");
    }
}
