//! The first word of an answer, through the gateway as a computer asks it, and straight from the same server.

use super::super::provider::{Manner, Provider};
use crate::scratch;
use crate::stats::{median, milliseconds, quantile};
use crate::table::{Table, Verdict};
use anyhow::Context;
use bytes::Bytes;
use choir_computer::control::{Control, ControlClient, Heard};
use choir_control::config::{self, Config, ProviderKind};
use choir_control::data::DataDir;
use choir_control::db::Db;
use choir_control::gateway::{Gateway, service};
use choir_control::seal::Seal;
use choir_proto::model::{Message, ModelRequest};
use choir_proto::wire::ModelCall;
use choir_proto::{Role, RunId, TaskId};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

/// Questions each way, in turn.
const QUESTIONS: usize = 400;

/// Before anything is counted: connections are made and things are warm.
const WARM: usize = 20;

/// What the way through control may add, in milliseconds: in the middle, and at worst but for one in a hundred.
const ADDED_MS: (f64, f64) = (1.0, 3.0);

pub(super) fn measure(table: &mut Table, runtime: &Runtime) -> anyhow::Result<()> {
    let (mut through, mut direct) = runtime.block_on(compare())?;
    let middle = median(&mut through) - median(&mut direct);
    let worst = quantile(&mut through, 0.99) - quantile(&mut direct, 0.99);
    let measured = format!(
        "+{middle:.2} ms p50 ({:.2} of {:.2}), +{worst:.2} ms p99 ({:.2} of {:.2})",
        median(&mut through),
        median(&mut direct),
        quantile(&mut through, 0.99),
        quantile(&mut direct, 0.99)
    );
    table.row(
        "gateway, first token vs direct to the same loopback server",
        "≤ +1 ms p50, ≤ +3 ms p99",
        measured,
        Verdict::gate(middle <= ADDED_MS.0 && worst <= ADDED_MS.1),
    );
    Ok(())
}

async fn compare() -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let provider = Provider::start(Manner::Prompt).await?;
    let directory = scratch::directory()?;
    let client = gateway(directory.path(), &provider).await?;
    let stream = TcpStream::connect(provider.address).await?;
    stream.set_nodelay(true)?;
    let (mut straight, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for number in 0..QUESTIONS + WARM {
        let ours = asked(&client).await?;
        let theirs = first_bytes(&mut straight, &provider).await?;
        if number >= WARM {
            through.push(ours);
            direct.push(theirs);
        }
    }
    Ok((through, direct))
}

/// The gateway with one provider, behind a socket as control holds one.
async fn gateway(directory: &std::path::Path, provider: &Provider) -> anyhow::Result<ControlClient> {
    let local = config::Provider {
        kind: ProviderKind::Openai,
        base_url: Some(provider.base_url()),
        api_key_env: None,
        script: None,
        context_tokens: None,
        requests_per_minute: None,
        tokens_per_minute: None,
        usd_per_million: None,
    };
    let config = Config { providers: [("local".to_owned(), local)].into(), ..Config::default() };
    let data = DataDir::open(directory)?;
    let (db, seal) = (Db::open(&data.database())?, Seal::open(&data, None)?);
    let gateway = Gateway::open(config, directory, db, seal).await?;
    let (ours, theirs) = UnixStream::pair()?;
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service(gateway)));
    tokio::spawn(served);
    Ok(ControlClient::connect(ours).await?)
}

/// How long the first word takes that a computer sees.
async fn asked(client: &ControlClient) -> anyhow::Result<f64> {
    let request = ModelRequest {
        model: Some("local/m".into()),
        role: Role::Conductor,
        system: "You answer.".into(),
        messages: vec![Message::user("Hello?")],
        tools: Vec::new(),
        tokens_max: 100,
    };
    let (run, task) = (RunId::new(uuid::Uuid::from_u128(1)), TaskId::new(uuid::Uuid::from_u128(2)));
    let call = ModelCall { run, task, failures: 0, insists: false, usd_left: None, request };
    let first = Arc::new(Mutex::new(None));
    let heard = Arc::clone(&first);
    let started = Instant::now();
    let on_heard = Box::new(move |piece| {
        if matches!(piece, Heard::Delta(_)) {
            heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(started.elapsed());
        }
    });
    client.model(call, on_heard).await.map_err(|error| anyhow::anyhow!(error.message))?;
    let first = first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).context("nothing was heard")?;
    Ok(milliseconds(first))
}

/// How long the first bytes of the answer take.
async fn first_bytes(
    straight: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    provider: &Provider,
) -> anyhow::Result<f64> {
    let body = serde_json::json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hello?"}]});
    let request = http::Request::builder()
        .method("POST")
        .uri("/v1/chat/completions")
        .header("host", provider.address.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let started = Instant::now();
    straight.ready().await?;
    let mut answer = straight.send_request(request).await?.into_body();
    answer.frame().await.context("the answer is empty")??;
    let first = milliseconds(started.elapsed());
    answer.collect().await?;
    Ok(first)
}
