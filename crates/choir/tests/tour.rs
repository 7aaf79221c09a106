//! The tour is what a newcomer sees: it must play, whatever else changes.

use crate::support::{Instance, choir, ends_within, stderr, stdout, watch};
use serde_json::{Value, json};

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
    assert!(said.contains("Stale: projects/tour/prices.csv has changed"), "{said}");
    assert!(said.contains("pears   ###\n") && said.contains("pears   #########\n"), "{said}");
    let (before, after) = said.split_once("It is made again").unwrap();
    assert!(before.contains("dearest: plums") && after.contains("dearest: pears"), "{said}");
    assert!(
        !after.to_lowercase().contains("plums are") && !after.contains("dearest: plums"),
        "nothing false is left: {said}"
    );
}

#[test]
fn the_plug_of_a_tour_is_pulled_for_real_and_no_other() {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "An ordinary answer."}]}}"#);
    let (_, ordinary) = instance.api("POST /api/runs", &json!({"prompt": "An ordinary run."}));
    let plug = |run: &Value| format!("POST /api/tours/{}/plug", run["run_id"].as_str().unwrap());
    assert_eq!(instance.api(&plug(&ordinary), &json!({})).0, 404, "no run but a tour's");

    let before = instance.computer();
    let watched = watch(before);
    let (status, tour) = instance.api("POST /api/tours", &json!({"tour": "liar"}));
    assert_eq!(status, 202, "{tour}");
    let (status, pulled) = instance.api(&plug(&tour), &json!({}));
    assert_eq!((status, pulled["restarts"].as_u64()), (200, Some(1)), "{pulled}");
    assert!(ends_within(&watched, 0), "the process was killed");
    assert_ne!(instance.computer(), before);

    let ended = instance.follow(|event| event["kind"] == "run.ended" && event["run"] == tour["run_id"]);
    assert_eq!(ended["payload"]["status"], "verified", "{ended}");
    assert_eq!(instance.api(&plug(&tour), &json!({})).0, 409, "what has ended is not interrupted");
    assert_eq!(instance.api("POST /api/tours", &json!({"tour": "other"})).0, 400);
}
