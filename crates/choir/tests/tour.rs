//! The tour is what a newcomer sees: it must play, whatever else changes.

use crate::support::{choir, stderr, stdout};

#[test]
fn quotes_hold_and_a_doctored_one_is_flagged() {
    let directory = tempfile::tempdir().unwrap();
    let tour = choir(directory.path()).args(["tour", "quotes"]).output().unwrap();
    let said = stdout(&tour);
    assert_eq!(tour.status.code(), Some(0), "{said}{}", stderr(&tour));
    assert!(said.contains("5 quotations stand") && said.contains("Flagged: “Heron never drops a message”"), "{said}");
    assert!(said.contains("Written by writer with write_document"), "{said}");
}

#[test]
fn a_liar_is_caught_and_the_run_survives_a_pulled_plug() {
    let directory = tempfile::tempdir().unwrap();
    let tour = choir(directory.path()).args(["tour", "liar"]).output().unwrap();
    let said = stdout(&tour);
    assert_eq!(tour.status.code(), Some(0), "{said}{}", stderr(&tour));
    assert!(said.contains("verified: ") && said.contains("Undone: ") && said.contains("Redone: "), "{said}");
}

#[test]
fn numbers_stay_alive() {
    let directory = tempfile::tempdir().unwrap();
    let tour = choir(directory.path()).args(["tour", "numbers"]).output().unwrap();
    let said = stdout(&tour);
    assert_eq!(tour.status.code(), Some(0), "{said}{}", stderr(&tour));
    assert!(said.contains("Stale: projects/prices/prices.csv has changed"), "{said}");
    assert!(said.contains("pears   ###\n") && said.contains("pears   #########\n"), "{said}");
}
