//! Models that want to be left alone or fail: how long that is remembered, and what makes it forgotten.

use crate::gateway::{Behaviour, call, config, error, frames, provider, says};
use crate::support::World;
use crate::support::computer::FakeComputer;
use axum::response::IntoResponse;
use choir_proto::model::ErrorClass;
use choir_proto::wire::{ModelCall, ModelFrame};
use http::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A provider that wants to be left alone for a day, until it is topped up.
fn topped_up(is_paid: &Arc<AtomicBool>) -> Behaviour {
    let (is_paid, good) = (Arc::clone(is_paid), says("here", 1));
    Arc::new(move || match is_paid.load(Ordering::SeqCst) {
        true => good(),
        false => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "100000")], "no credit").into_response(),
    })
}

#[tokio::test]
async fn a_model_that_wants_a_day_is_asked_at_the_persons_word_with_a_new_key_and_after_a_good_test() {
    let is_paid = Arc::new(AtomicBool::new(false));
    let (url, mut requests) = provider(topped_up(&is_paid)).await;
    let mut config = config(&url);
    config.models.default = "local/tiny".to_owned();
    let world = World::with(config, FakeComputer::default()).await;
    let browser = world.browser().await;
    let mut answers = async |call: ModelCall| {
        while requests.try_recv().is_ok() {}
        let is_answered = matches!(frames(&world.computer, &call).await.last(), Some(ModelFrame::Answer(_)));
        (is_answered, requests.try_recv().is_ok())
    };
    assert_eq!(answers(call(1)).await, (false, true));
    assert_eq!(answers(call(2)).await, (false, false), "every run leaves it alone");
    let insists = || ModelCall { insists: true, ..call(1) };
    assert_eq!(answers(insists()).await, (false, true), "but for a word of the person");
    assert_eq!(answers(call(1)).await, (false, false), "which counts once");
    let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"sk-new-0123456789abcdef0123"}}"#);
    browser.json(Method::PUT, "/api/providers/local", body).await;
    assert_eq!(answers(call(2)).await, (false, true), "another key is another beginning");
    is_paid.store(true, Ordering::SeqCst);
    assert_eq!(answers(call(2)).await, (false, false));
    let tested = browser.send(Method::POST, "/api/providers/local/test", Default::default()).await.value();
    assert_eq!(tested["ok"], true, "{tested}");
    assert_eq!(answers(call(2)).await, (true, true), "who is said to answer is asked");
}

#[tokio::test]
async fn who_failed_to_the_end_is_passed_over_by_later_turns_until_something_is_new() {
    let (bad, mut asked_bad) = provider(Arc::new(|| StatusCode::INTERNAL_SERVER_ERROR.into_response())).await;
    let (good, _) = provider(says("here", 1)).await;
    for default in ["local/tiny", ""] {
        let mut config = config(&bad);
        let second = crate::gateway::beside(&config, &good);
        config.providers.insert("second".to_owned(), second);
        config.models.default = default.to_owned();
        config.models.fallback = vec!["second/huge".to_owned()];
        let world = World::with(config, FakeComputer::default()).await;
        let answers = async |failures| match frames(&world.computer, &ModelCall { failures, ..call(1) }).await.pop() {
            Some(ModelFrame::Answer(answer)) => Some(answer.model),
            _ => None,
        };
        assert_eq!((answers(0).await, answers(1).await), (None, None), "it has its chances");
        while asked_bad.try_recv().is_ok() {}
        for failures in [2, 0, 0, 4] {
            assert_eq!(answers(failures).await.as_deref(), Some("second/huge"), "{default:?} {failures}");
        }
        assert!(asked_bad.try_recv().is_err(), "nobody waited for the dead one again");
        let body = format!(r#"{{"kind":"openai","base_url":"{bad}","key":"sk-new-0123456789abcdef0123"}}"#);
        world.browser().await.json(Method::PUT, "/api/providers/local", body).await;
        assert_eq!(answers(0).await, None, "until it has another key");
        assert_eq!(error(&frames(&world.computer, &call(1)).await).0, ErrorClass::Overloaded);
    }
}
