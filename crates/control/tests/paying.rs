//! What calls cost that nobody got an answer from, and how often a provider may be asked.

use crate::gateway::{Behaviour, call, config, error, frames, provider, says};
use crate::support::World;
use crate::support::computer::FakeComputer;
use axum::body::Body;
use axum::response::IntoResponse;
use choir_proto::model::{ErrorClass, Paid};
use choir_proto::wire::ModelFrame;
use http_body_util::BodyExt;
use std::sync::Arc;

#[tokio::test]
async fn what_broke_off_is_part_of_what_a_run_has_paid() {
    let half: Behaviour = Arc::new(|| "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n".into_response());
    let (url, _) = provider(half).await;
    let world = World::with(config(&url), FakeComputer::default()).await;
    assert_eq!(error(&frames(&world.computer, &call(1)).await).0, ErrorClass::Truncated);
    let once = paid(&world.computer).await;
    assert!(once.tokens > 0, "also where it costs nothing: {once:?}");
    frames(&world.computer, &call(1)).await;
    assert_eq!(paid(&world.computer).await.tokens, 2 * once.tokens);
}

/// What run 1 has cost, as its computer hears it.
pub(crate) async fn paid(computer: &FakeComputer) -> Paid {
    let request = http::Request::get(format!("http://control/paid/{}", call(1).run)).body(Body::empty()).unwrap();
    serde_json::from_slice(&computer.ask(request).await.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn a_provider_is_asked_no_oftener_than_was_set() {
    let (url, mut requests) = provider(says("here", 1)).await;
    let mut config = config(&url);
    config.models.default = "local/tiny".to_owned();
    config.providers.get_mut("local").unwrap().requests_per_minute = Some(1);
    let world = World::with(config, FakeComputer::default()).await;
    assert!(matches!(frames(&world.computer, &call(1)).await.last(), Some(ModelFrame::Answer(_))));
    requests.recv().await.unwrap();
    let (class, message) = error(&frames(&world.computer, &call(2)).await);
    assert!(class == ErrorClass::RateLimit && message.contains("requests_per_minute = 1"), "{message}");
    assert!(requests.try_recv().is_err(), "nobody was asked");
}
