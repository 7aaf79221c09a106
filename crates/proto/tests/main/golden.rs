//! Payloads as they were once written. Logs live longer than any build: each line must mean the same for ever, so lines
//! are added when a kind gets a new version and never changed.

use choir_proto::Event;
use std::collections::BTreeSet;

const LINES: &str = include_str!("golden/events.txt");

/// Kind, version and payload.
fn parts(line: &str) -> (&str, u16, &str) {
    let mut parts = line.splitn(3, ' ');
    let mut next = || parts.next().unwrap();
    (next(), next().parse().unwrap(), next())
}

#[test]
fn every_payload_that_was_ever_written_is_read_and_written_back_byte_for_byte() {
    for line in LINES.lines() {
        let (kind, version, payload) = parts(line);
        let event = Event::decode(kind, version, payload).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert!(!matches!(event, Event::Unknown(_)), "{kind} {version} is no longer known");
        assert_eq!(event.payload().get(), payload, "{kind}");
    }
}

#[test]
fn every_kind_and_version_has_its_line() {
    let kept: BTreeSet<(&str, u16)> = LINES.lines().map(parts).map(|(kind, version, _)| (kind, version)).collect();
    let missing: Vec<_> = Event::KINDS.iter().filter(|kind| !kept.contains(kind)).collect();
    assert!(missing.is_empty(), "add a line to tests/main/golden/events.txt for each of {missing:?}");
}
