//! How long it takes until a person's word is acted upon, in the states in which that is hardest: while a model streams,
//! and while a command runs.

use super::super::provider::{Manner, Provider};
use super::{accept, at, directory};
use crate::client::{Address, Client, Stream};
use crate::instance::Instance;
use crate::stats::{median, milliseconds, quantile};
use crate::table::{Table, Verdict};
use anyhow::{Context, ensure};
use http::Method;
use serde_json::{Value, json};
use std::time::Instant;
use tokio::runtime::Runtime;

/// How often each word is said.
const TIMES: usize = 15;

/// What it may take, in milliseconds.
const MUST_MS: f64 = 100.0;

pub(super) fn measure(table: &mut Table, runtime: &Runtime) -> anyhow::Result<()> {
    let mut row = |what: &str, mut times: Vec<f64>| {
        let (middle, worst) = (median(&mut times), quantile(&mut times, 1.0));
        let measured = format!("p50 {middle:.0} ms, worst of {} {worst:.0} ms", times.len());
        table.row(what, "≤ 100 ms", measured, Verdict::report(worst <= MUST_MS));
    };
    let mut provider = runtime.block_on(Provider::start(Manner::Slow))?;
    let (data, token) = directory(&at(&provider))?;
    let instance = Instance::start(data.path(), &token)?;
    let mut streaming = Vec::new();
    for time in 1..=TIMES {
        streaming.push(runtime.block_on(async {
            let run = accept(instance.address(), json!({"prompt": "wait"})).await?;
            provider.asked.wait_for(|asked| *asked == time).await?;
            said(instance.address(), &run, "cancel", "run.ended").await
        })?);
    }
    row("cancel while a model streams, to the run's end", streaming);
    instance.stop()?;

    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let terminal = [call("bash", json!({"command": "sleep 600 & sleep 600"})), call("finish", json!({"summary": "x"}))];
    let conductor =
        [call("delegate", json!({"role": "terminal", "objective": "sleep"})), call("finish", json!({"summary": "x"}))];
    let (data, token) = directory("[providers.scripted]\nkind = \"scripted\"\nscript = \"scenario.json\"\n")?;
    let scenario = json!({"roles": {"conductor": conductor, "terminal": terminal}});
    std::fs::write(data.path().join("scenario.json"), scenario.to_string())?;
    let instance = Instance::start(data.path(), &token)?;
    let (mut killed, mut paused, mut resumed, mut steered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        runtime.block_on(async {
            let address = instance.address();
            let run = accept(address, json!({"prompt": "sleep"})).await?;
            begun(address, &run).await?;
            paused.push(said(address, &run, "pause", "run.paused").await?);
            resumed.push(said(address, &run, "resume", "run.resumed").await?);
            steered.push(said(address, &run, "steer", "run.steered").await?);
            killed.push(said(address, &run, "cancel", "tool.finished").await?);
            anyhow::Ok(())
        })?;
    }
    instance.stop()?;
    row("cancel while a command runs, to its being dead and written down", killed);
    row("pause while a command runs", paused);
    row("resume while a command runs", resumed);
    row("steer while a command runs", steered);
    Ok(())
}

/// Waits until the run's command has begun.
async fn begun(address: &Address, run: &str) -> anyhow::Result<()> {
    let mut stream = Stream::open(address, 0).await?;
    loop {
        let event: Value = serde_json::from_str(&stream.next().await?)?;
        if event["run"] == run && event["kind"] == "tool.started" && event["payload"]["name"] == "bash" {
            return Ok(());
        }
    }
}

/// Says a word; how long it takes until the log has what comes of it.
async fn said(address: &Address, run: &str, word: &str, kind: &str) -> anyhow::Result<f64> {
    let mut client = Client::connect(address).await?;
    let head = client.get("/api/events?limit=1").await?["head"].as_u64().context("the log has a head")?;
    let mut stream = Stream::open(address, head).await?;
    let started = Instant::now();
    let body = if word == "steer" { json!({"text": "hurry"}) } else { json!({}) };
    let (status, answer) = client.ask(Method::POST, &format!("/api/runs/{run}/{word}"), Some(&body)).await?;
    ensure!(status.is_success(), "{word}: {answer}");
    loop {
        let event: Value = serde_json::from_str(&stream.next().await?)?;
        if event["kind"] == kind && event["run"] == run {
            return Ok(milliseconds(started.elapsed()));
        }
    }
}
