//! A run once more without a model, and conversations that grow too long.

use crate::fake::{Desk, Fake};
use crate::runs::DOCUMENT;
use choir_core::replay::{Replayed, replay};
use choir_proto::event::Header;
use choir_proto::{Event, RunStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Events = Vec<(Header, Event)>;

async fn done(scenario: &str, window: u64) -> (Arc<Fake>, Desk, Events, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(scenario);
    fake.window.store(window, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept("count the fruit").await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::Completed, "{done:?}");
    let events = desk.events(run).await;
    (fake, desk, events, directory)
}

fn nothing_hidden(_: &str) -> bool {
    false
}

#[tokio::test]
async fn a_run_is_the_same_again_without_asking_any_model() {
    let (fake, _desk, events, _directory) = done(DOCUMENT, 0).await;
    let asked = fake.model_calls.load(Ordering::SeqCst);
    let replayed = replay(&events, nothing_hidden).unwrap();
    assert_eq!(replayed, Replayed { agents: 4, turns: 10, calls: 12 });
    assert_eq!(fake.model_calls.load(Ordering::SeqCst), asked, "nobody was asked");
}

#[tokio::test]
async fn the_first_divergence_is_named() {
    let (_fake, _desk, events, _directory) = done(DOCUMENT, 0).await;
    let at = |wanted: &str| events.iter().position(|(header, _)| header.kind == wanted).unwrap();
    let other_words = || {
        let mut changed = events.clone();
        let index = at("tool.started");
        if let Event::ToolStarted(started) = &mut changed[index].1 {
            started.arguments = serde_json::json!({"role": "terminal", "objective": "count stars"});
        }
        (index, changed)
    };
    let left_out = |kind: &str, next: usize| {
        let mut changed = events.clone();
        let index = at(kind);
        changed.remove(index);
        (index + next, changed)
    };
    for (what, (index, changed)) in [("arguments", other_words()), ("an answer left out", left_out("model.called", 0))]
    {
        let divergence = replay(&changed, nothing_hidden).unwrap_err();
        assert_eq!(divergence.seq, changed[index].0.seq, "{what}: {divergence}");
        assert!(!divergence.now.is_empty() && !divergence.logged.is_empty());
    }
    let (_, mut changed) = other_words();
    changed.truncate(at("tool.started") + 1);
    assert!(
        replay(&changed, |arguments| arguments.contains("stars")).is_ok(),
        "what was hidden on purpose is believed"
    );
}

fn long(results: usize) -> String {
    let print = r#"{"tool_calls": [{"name": "bash", "arguments": {"command": "print 12000"}}]}"#;
    let finish = r#"{"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}"#;
    let turns = [print].repeat(results).join(", ");
    format!(
        r#"{{"roles": {{"terminal": [{turns}, {finish}], "conductor": [
            {{"tool_calls": [{{"name": "delegate", "arguments": {{"role": "terminal", "objective": "print"}}}}]}}, {finish}]}}}}"#
    )
}

#[tokio::test]
async fn a_conversation_is_kept_within_the_window_and_the_log_has_it_whole() {
    let (_fake, _desk, events, _directory) = done(&long(12), 20_000).await;
    let compacted: Vec<_> = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::ContextCompacted(compacted) => Some(compacted.clone()),
            _ => None,
        })
        .collect();
    assert!(!compacted.is_empty(), "it came near the window");
    for compacted in &compacted {
        assert!(compacted.before_tokens < 20_000 && compacted.after_tokens < compacted.before_tokens, "{compacted:?}");
    }
    let whole = events.iter().filter(|(_, event)| match event {
        Event::ToolFinished(finished) => finished.content.len() > 6000,
        _ => false,
    });
    assert_eq!(whole.count(), 12, "the log has every result as it was");
    assert!(replay(&events, nothing_hidden).is_ok(), "and leads to the same again");
    let (_, _, short, _directory) = done(&long(3), 0).await;
    assert!(!short.iter().any(|(_, event)| matches!(event, Event::ContextCompacted(_))));
}

/// An agent that reads much in few turns has nothing old to shorten.
#[tokio::test]
async fn what_came_in_at_once_is_kept_within_the_window_too() {
    for (window, calls) in [(128_000, 40), (32_768, 10), (8_192, 3)] {
        let print = r#"{"name": "bash", "arguments": {"command": "print 120000"}}"#;
        let scenario = long(2)
            .replace(r#"{"name": "bash", "arguments": {"command": "print 12000"}}"#, &[print; 40][..calls].join(", "));
        let (_fake, _desk, events, _directory) = done(&scenario, window).await;
        let is_shorter = |event: &Event| matches!(event, Event::ContextCompacted(how) if how.newest_bytes.is_some());
        assert!(events.iter().any(|(_, event)| is_shorter(event)), "{window}");
        assert!(!events.iter().any(|(_, event)| matches!(event, Event::ModelFailed(_))), "{window}: it always fits");
        for (_, event) in &events {
            if let Event::ToolFinished(finished) = event {
                assert!(finished.content.len() as u64 <= window / 4 * 3 + 100, "{window}: of one result");
            }
        }
        assert!(replay(&events, nothing_hidden).is_ok(), "{window}: and it leads to the same again");
    }
}

/// Every hash of a commit looks like a key.
#[tokio::test]
async fn a_conversation_that_was_shortened_leads_to_the_same_without_what_looked_like_keys() {
    let (_fake, _desk, events, _directory) = done(&long(12), 20_000).await;
    let hidden = |text: &str| text.contains("[redacted]");
    for bytes in [200, 6_000] {
        let mut cleaned = events.clone();
        for (_, event) in &mut cleaned {
            if let Event::ToolFinished(finished) = event
                && finished.content.len() > bytes
            {
                finished.content.replace_range(..bytes, "[redacted]");
            }
        }
        assert!(replay(&cleaned, nothing_hidden).is_err(), "{bytes}: the text has another length");
        replay(&cleaned, hidden).unwrap_or_else(|divergence| panic!("{bytes}: {divergence}"));
        let at = |wanted: &str| cleaned.iter().rposition(|(header, _)| header.kind == wanted).unwrap();
        cleaned.remove(at("model.called"));
        assert!(replay(&cleaned, hidden).is_err(), "{bytes}: and what is missing is missed");
    }
}

#[tokio::test]
async fn output_that_is_too_long_or_no_text_is_shown_in_part_and_kept_whole() {
    let scenario = long(1).replace("12000", "1200000");
    let (_fake, desk, events, _directory) = done(&scenario, 0).await;
    let finished = events.iter().find_map(|(_, event)| match event {
        Event::ToolFinished(finished) if finished.output.is_some() => Some(finished.clone()),
        _ => None,
    });
    let finished = finished.expect("the whole is a blob");
    assert!(finished.content.len() < 20_000 && finished.content.contains("bytes are left out"));
    assert!(!finished.content.contains('\u{1b}'), "no escape reaches a screen or a model");
    let whole = desk.computer.app.harness.documents.blob_text(finished.output.unwrap()).await.unwrap();
    assert!(whole.len() > 1_190_000 && whole.ends_with("\u{1b}[2Jx\u{fffd}"), "with everything in it");
}
