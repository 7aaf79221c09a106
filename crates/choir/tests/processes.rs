//! Processes that die, and what becomes of the others.

use crate::support::{Instance, ends_within, stderr, stdout, watch};
use rustix::process::Signal;

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "hm"}]}}"#;

#[test]
fn the_computer_dies_with_control() {
    let instance = Instance::start(SCENARIO);
    let computer = watch(instance.computer());
    assert!(!ends_within(&computer, 0));
    rustix::process::kill_process(instance.pid(), Signal::KILL).unwrap();
    assert!(ends_within(&computer, 1), "a computer outlived its control by more than a second");
}

#[test]
fn control_starts_a_dead_computer_again() {
    let instance = Instance::start(SCENARIO);
    let before = stdout(&instance.choir(&["events", "--json"])).lines().count();
    let computer = instance.computer();
    let watched = watch(computer);
    rustix::process::kill_process(computer, Signal::KILL).unwrap();
    assert!(ends_within(&watched, 5));
    let after = instance.choir(&["events", "--json"]);
    assert!(after.status.success(), "{}", stderr(&after));
    assert!(stdout(&after).lines().count() > before, "the new life is in the log");
    assert_ne!(instance.computer(), computer);
}
