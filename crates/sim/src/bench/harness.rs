//! Agents. Each figure stands beside the bare thing it is made of, taken in the same run.

mod gateway;
mod resume;
mod signals;

use super::provider::{Manner, Provider};
use crate::client::{Address, Client, Stream};
use crate::instance::{self, Instance};
use crate::stats::{median, milliseconds, quantile};
use crate::table::{Table, Verdict};
use crate::{event, process, scratch};
use anyhow::{Context, ensure};
use choir_store::{Expect, Log};
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Steps of the run that is looked at.
const STEPS: usize = 150;

/// Commits of the bare log.
const COMMITS: u64 = 300;

/// Group commits of one step: the answer, the intent, the result.
const COMMITS_PER_STEP: f64 = 3.0;

/// What a step may take beyond its commits, in milliseconds.
const STEP_MS: f64 = 1.0;

/// Runs at once against a slow model.
const RUNS: usize = 200;

/// What the acceptance of a prompt may take, in milliseconds.
const ACCEPT_MS: f64 = 50.0;

/// What a run that waits may hold, in bytes.
const WAITING_BYTES: f64 = 256.0 * 1024.0;

/// Measures one part of the table.
type Measure = fn(&mut Table, &Runtime) -> anyhow::Result<()>;

/// A part of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Steps of one agent.
    Steps,
    /// The way to a model.
    Gateway,
    /// Many runs at once.
    Crowd,
    /// Going on after a crash.
    Resume,
    /// What a person says to a run at work.
    Signals,
}

pub(super) fn measure(only: Option<Part>) -> anyhow::Result<bool> {
    let mut table = Table::begin("bench harness");
    let runtime = super::runtime()?;
    let parts: [(Part, Measure); 5] = [
        (Part::Steps, steps),
        (Part::Gateway, gateway::measure),
        (Part::Crowd, crowd),
        (Part::Resume, resume::measure),
        (Part::Signals, signals::measure),
    ];
    for (_, measure) in parts.into_iter().filter(|(part, _)| only.is_none_or(|only| only == *part)) {
        measure(&mut table, &runtime)?;
    }
    Ok(table.end())
}

/// A data directory with one provider.
fn directory(provider: &str) -> anyhow::Result<(tempfile::TempDir, String)> {
    let data = scratch::directory()?;
    std::fs::write(data.path().join("choir.toml"), provider)?;
    let token = instance::token(data.path())?;
    Ok((data, token))
}

fn at(provider: &Provider) -> String {
    format!("[providers.local]\nkind = \"openai\"\nbase_url = \"{}\"\n", provider.base_url())
}

/// A tool that changes nothing, again and again: what a step takes beside the commits that it is made of.
fn steps(table: &mut Table, runtime: &Runtime) -> anyhow::Result<()> {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut writer = vec![call("read_document", json!({})); STEPS];
    writer.push(call("finish", json!({"summary": "done"})));
    let budget = json!({"steps": STEPS + 10});
    let conductor = [
        call("delegate", json!({"role": "writer", "objective": "read", "budget": budget})),
        call("finish", json!({"summary": "done"})),
    ];
    let (data, token) = directory("[providers.scripted]\nkind = \"scripted\"\nscript = \"scenario.json\"\n")?;
    let scenario = json!({"roles": {"conductor": conductor, "writer": writer}});
    std::fs::write(data.path().join("scenario.json"), scenario.to_string())?;
    let mut bare = runtime.block_on(commits(data.path()))?;
    let instance = Instance::start(data.path(), &token)?;
    let mut turns = runtime.block_on(turns(instance.address()))?;
    instance.stop()?;
    let (step, commit) = (median(&mut turns), median(&mut bare));
    let must = COMMITS_PER_STEP * commit + STEP_MS;
    table.row(
        "overhead per agent step (scripted model, pure tool), synced",
        "≤ 3 group commits + 1 ms",
        format!("{step:.2} ms; 3 × {commit:.2} + 1 = {must:.2} ms ({} steps)", turns.len()),
        Verdict::gate(step <= must),
    );
    Ok(())
}

/// What one commit of one event takes, in the same place.
async fn commits(data: &Path) -> anyhow::Result<Vec<f64>> {
    let directory = data.join("bare");
    std::fs::create_dir(&directory)?;
    let log = Log::open(&directory)?;
    let mut times = Vec::new();
    for number in 0..COMMITS {
        let before = Instant::now();
        log.append(vec![event::mixed(number)], Expect::Any).await?;
        times.push(milliseconds(before.elapsed()));
    }
    log.close().await;
    Ok(times)
}

/// The times between one answer of the writer's model and the next, as the log has them.
async fn turns(address: &Address) -> anyhow::Result<Vec<f64>> {
    let run = accept(address, json!({"prompt": "read", "budget": {"steps": STEPS + 10}})).await?;
    until(address, &run, "run.ended").await?;
    let mut client = Client::connect(address).await?;
    let (mut at, mut after) = (Vec::new(), 0);
    loop {
        let page = client.get(&format!("/api/events?run={run}&after={after}&limit=1000")).await?;
        let events = page["events"].as_array().context("events are a list")?;
        let Some(last) = events.last() else { break };
        after = last["seq"].as_u64().context("events are numbered")?;
        let answers = events.iter().filter(|event| event["kind"] == "model.called" && event["actor"] == "writer");
        at.extend(answers.filter_map(|event| time_ms(event["at"].as_str()?)));
    }
    ensure!(at.len() > STEPS, "the writer made {} steps", at.len());
    Ok(at.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// Milliseconds within an hour of an RFC 3339 time; differences are all that is wanted.
fn time_ms(text: &str) -> Option<f64> {
    let (_, time) = text.split_once('T')?;
    let (minutes, seconds) = time.trim_end_matches('Z').split_once(':')?.1.split_once(':')?;
    Some((minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?) * 1e3)
}

pub(super) async fn accept(address: &Address, new: Value) -> anyhow::Result<String> {
    let run = Client::connect(address).await?.send(Method::POST, "/api/runs", &new).await?;
    Ok(run["run_id"].as_str().context("a run has an id")?.to_owned())
}

/// Follows the log until a run has come so far.
pub(super) async fn until(address: &Address, run: &str, kind: &str) -> anyhow::Result<Value> {
    let mut stream = Stream::open(address, 0).await?;
    loop {
        let event: Value = serde_json::from_str(&stream.next().await?)?;
        if event["kind"] == kind && event["run"] == run {
            return Ok(event);
        }
    }
}

/// Many runs whose model has begun to answer and does not go on.
fn crowd(table: &mut Table, runtime: &Runtime) -> anyhow::Result<()> {
    let mut provider = runtime.block_on(Provider::start(Manner::Slow))?;
    let (data, token) = directory(&at(&provider))?;
    let instance = Instance::start(data.path(), &token)?;
    // The first one makes what is made once.
    runtime.block_on(accept(instance.address(), json!({"prompt": "wait"})))?;
    runtime.block_on(provider.asked.wait_for(|asked| *asked == 1))?;
    process::rest(SETTLE);
    let before = process::memory(&instance.processes())?;
    let mut times = runtime.block_on(async {
        let prompts = (0..RUNS).map(|_| async {
            let started = Instant::now();
            accept(instance.address(), json!({"prompt": "wait"})).await?;
            anyhow::Ok(milliseconds(started.elapsed()))
        });
        let times: anyhow::Result<Vec<f64>> = futures_util::future::join_all(prompts).await.into_iter().collect();
        tokio::time::timeout(CROWD_MAX, provider.asked.wait_for(|asked| *asked == RUNS + 1))
            .await
            .context("some run never asked")??;
        times
    })?;
    process::rest(SETTLE);
    let each = (process::memory(&instance.processes())?.saturating_sub(before)) as f64 / RUNS as f64;
    let p99 = quantile(&mut times, 0.99);
    drop(instance);
    table.row(
        "200 concurrent runs against a slow model: accepting one",
        "p99 ≤ 50 ms",
        format!("p50 {:.1} ms, p99 {p99:.1} ms", median(&mut times)),
        Verdict::report(p99 <= ACCEPT_MS),
    );
    table.row(
        "200 concurrent runs against a slow model: each one waiting",
        "≤ 256 KB",
        format!("{:.0} KB", each / 1024.0),
        Verdict::report(each <= WAITING_BYTES),
    );
    Ok(())
}

/// After which memory is what it is.
const SETTLE: Duration = Duration::from_millis(500);

/// By then every run has asked its model.
const CROWD_MAX: Duration = Duration::from_secs(60);
