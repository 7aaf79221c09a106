//! The judge, without a sandbox.

use super::*;

fn seen(last_line: &str, ending: Option<Ending>) -> Seen {
    Seen { last_line: last_line.to_owned(), ending, limit: None }
}

#[test]
fn a_success_is_an_escape_and_so_is_another_error() {
    let expect = Expect::Errno(&[libc::EPERM]);
    let code = Some(Ending::Code(0));
    assert!(matches!(judge(expect, &seen("errno 1", code)), Verdict::Held(_)));
    assert!(matches!(judge(expect, &seen("done the call", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(expect, &seen("errno 22", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(expect, &seen("", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(expect, &seen("", Some(Ending::Code(2)))), Verdict::Skipped(_)));
}

#[test]
fn a_search_that_saw_nothing_proves_nothing() {
    let code = Some(Ending::Code(0));
    assert!(matches!(judge(Expect::NoSecret, &seen("scanned 10 found 0", code)), Verdict::Held(_)));
    assert!(matches!(judge(Expect::NoSecret, &seen("scanned 0 found 0", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(Expect::NoSecret, &seen("scanned 10 found 1", code)), Verdict::Escaped(_)));
}

#[test]
fn only_an_answer_turns_away() {
    let code = Some(Ending::Code(0));
    assert!(matches!(judge(Expect::Turned, &seen("status 403", code)), Verdict::Held(_)));
    assert!(matches!(judge(Expect::Turned, &seen("status 200", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(Expect::Turned, &seen("status 502", code)), Verdict::Escaped(_)));
    assert!(matches!(judge(Expect::Turned, &seen("errno 111", code)), Verdict::Escaped(_)));
}

#[test]
fn a_flood_must_be_told_or_ended_for_a_limit() {
    assert!(matches!(judge(Expect::Bounded, &seen("errno 28", Some(Ending::Code(0)))), Verdict::Held(_)));
    assert!(matches!(judge(Expect::Bounded, &seen("done", Some(Ending::Code(0)))), Verdict::Escaped(_)));
    assert!(matches!(judge(Expect::Bounded, &seen("", Some(Ending::TimedOut))), Verdict::Escaped(_)));
    assert!(matches!(judge(Expect::Bounded, &seen("lost", None)), Verdict::Escaped(_)));
    let ended = Seen { last_line: String::new(), ending: None, limit: Some("Memory".to_owned()) };
    assert!(matches!(judge(Expect::Bounded, &ended), Verdict::Held(_)));
}

#[test]
fn every_act_of_the_list_is_known_and_every_name_is_one() {
    let known = |name| crate::attack::inside::ACTS.iter().any(|acts| acts.iter().any(|(known, _)| *known == name));
    for probe in probes() {
        if let Program::Act(name) = probe.program {
            assert!(known(name), "{name}");
        }
        assert_eq!(probes().filter(|other| other.id == probe.id).count(), 1, "{}", probe.id);
    }
    assert!(probes().count() >= 180);
}
