//! What calls cost that nobody got an answer from, and how often a provider may be asked.

use crate::gateway::{Behaviour, call, config, error, frames, provider, says};
use crate::support::World;
use crate::support::computer::FakeComputer;
use axum::body::Body;
use axum::response::IntoResponse;
use choir_llm::price::Rates;
use choir_proto::model::{ErrorClass, Paid};
use choir_proto::wire::ModelFrame;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use std::sync::Arc;

#[tokio::test]
async fn what_broke_off_is_part_of_what_a_run_has_paid() {
    let half: Behaviour = Arc::new(|| "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n".into_response());
    let (url, _) = provider(half).await;
    let world = World::with(config(&url), FakeComputer::default()).await;
    let heard = frames(&world.computer, &call(1)).await;
    assert_eq!(error(&heard).0, ErrorClass::Truncated);
    let Some(ModelFrame::Took { usage }) = heard.get(heard.len() - 2) else { panic!("{heard:?}") };
    let once = paid(&world.computer).await;
    assert!(once.tokens > 0, "also where it costs nothing: {once:?}");
    assert_eq!(usage.tokens(), once.tokens, "whoever asked hears of it");
    frames(&world.computer, &call(1)).await;
    assert_eq!(paid(&world.computer).await.tokens, 2 * once.tokens);
}

/// Killed while an answer comes, control still knows afterwards that somebody has worked for it.
#[tokio::test]
async fn what_was_under_way_when_control_was_killed_is_paid_for() {
    let endless: Behaviour = Arc::new(|| {
        let words = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "ab ".repeat(4_000));
        let pieces = futures_util::stream::iter([Ok::<_, std::io::Error>(words)]);
        Body::from_stream(pieces.chain(futures_util::stream::pending())).into_response()
    });
    let (url, _) = provider(endless).await;
    let mut config = config(&url);
    let rates = Rates { input: 100.0, output: 1000.0, cache_read: None, cache_write: None };
    config.providers.get_mut("local").unwrap().usd_per_million = Some(rates);
    let world = World::with(config, FakeComputer::default()).await;
    let under_way = async || {
        let computer = world.computer.clone();
        let mut long = call(1);
        long.request.tokens_max = 8_000;
        let asked = tokio::spawn(async move { frames(&computer, &long).await });
        let file = world.directory.path().join("control/control.sqlite");
        let open = || rusqlite::Connection::open(&file).unwrap();
        let look = || open().query_row("SELECT tokens, micro_usd FROM calls", [], |row| Ok((row.get(0)?, row.get(1)?)));
        let row: (i64, i64) = loop {
            match look() {
                Ok(row @ (tokens, _)) if tokens > 3_000 => break row,
                _ => tokio::task::yield_now().await,
            }
        };
        (asked, row)
    };
    let (asked, row) = under_way().await;
    asked.abort();
    let world = world
        .again_after(|data| {
            // As a kill leaves it: nothing but what was written down before.
            let file = rusqlite::Connection::open(data.join("control/control.sqlite")).unwrap();
            let left = "DELETE FROM spend; DELETE FROM calls;
                INSERT INTO calls VALUES (1, x'01010101010101010101010101010101', 'local/tiny',";
            file.execute_batch(&format!("{left} {}, {})", row.0, row.1)).unwrap();
        })
        .await;
    let known = paid(&world.computer).await;
    assert_eq!((known.tokens as i64, known.usd.0 as i64), row);
    let world = world.again().await;
    assert_eq!(paid(&world.computer).await, known, "and only once");
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
