//! The whole computer, from outside: its real processes, its sockets, its memory.

use crate::client::{Address, Client, Stream};
use crate::instance::{self, Instance};
use crate::stats::{median, milliseconds, quantile};
use crate::table::{Table, Verdict};
use crate::{process, scratch};
use anyhow::{Context, ensure};
use choir_proto::{ComputerId, Timestamp};
use http::Method;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Barrier;

/// Events of an existing computer.
const EVENTS: u64 = 100_000;

/// Starts that are measured.
const STARTS: usize = 7;

/// How long a computer is watched doing nothing.
const IDLE: Duration = Duration::from_secs(5);

/// Readers of the stream while events are made.
const SUBSCRIBERS: usize = 100;

/// Events made in each second, and for how many seconds.
const EVENTS_PER_SECOND: u64 = 500;
const SECONDS: u64 = 6;

/// Readers of the stream when nothing happens.
const IDLE_SUBSCRIBERS: u64 = 1_000;

/// People who press Enter at once, and how often each.
const CLIENTS: usize = 100;
const PROMPTS: usize = 20;

/// Computing that counts as none, of the time that was watched.
const IDLE_SHARE: f64 = 0.002;

pub(super) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let data = scratch::directory()?;
    let token = instance::token(data.path())?;
    Instance::start(data.path(), &token)?.stop()?;
    let computer = computer_in(data.path())?;
    super::runtime()?.block_on(super::fill(&computer, EVENTS))?;
    Instance::start(data.path(), &token)?.stop()?;
    starts(table, data.path(), &token)?;
    let instance = Instance::start(data.path(), &token)?;
    // Two threads: the clients share the machine with what they measure.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    idle_subscribers(table, &runtime, &instance)?;
    runtime.block_on(delivery(table, instance.address()))?;
    runtime.block_on(prompts(table, instance.address()))?;
    drop(runtime);
    instance.stop()
}

/// Only how prompts are accepted, on a new computer.
pub(super) fn measure_prompts(table: &mut Table) -> anyhow::Result<()> {
    let data = scratch::directory()?;
    let token = instance::token(data.path())?;
    let instance = Instance::start(data.path(), &token)?;
    super::runtime()?.block_on(prompts(table, instance.address()))?;
    instance.stop()
}

pub(super) fn computer_in(data: &Path) -> anyhow::Result<PathBuf> {
    let mut entries = std::fs::read_dir(data.join("computers"))?;
    let found = entries.find_map(|entry| entry.ok().filter(|entry| is_computer(&entry.file_name())));
    Ok(found.context("there is no computer")?.path())
}

fn is_computer(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.parse::<ComputerId>().is_ok())
}

fn starts(table: &mut Table, data: &Path, token: &str) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let instance = Instance::start(data, token)?;
        times.push(milliseconds(instance.ready_after()));
        instance.stop()?;
    }
    let (middle, worst) = (median(&mut times), quantile(&mut times, 1.0));
    let measured = format!("{middle:.0} ms (worst of {STARTS}: {worst:.0} ms)");
    table.row("exec to ready, 10^5 events", "≤ 100 ms", measured, Verdict::report(middle <= 100.0));

    let instance = Instance::start(data, token)?;
    process::rest(IDLE);
    let processes = instance.processes();
    let memory = process::memory(&processes)? as f64 / 1e6;
    let measured = format!("{memory:.1} MB in {} processes", processes.len());
    table.row("memory of all processes (PSS)", "≤ 40 MB", measured, Verdict::report(memory <= 40.0));
    let share = idle_share(&instance)?;
    table.row("idle CPU", "0", percent(share), Verdict::report(share <= IDLE_SHARE));
    instance.stop()
}

fn percent(share: f64) -> String {
    format!("{:.2} % of one core", share * 100.0)
}

/// The share of one core that an instance uses while nothing is asked of it.
fn idle_share(instance: &Instance) -> anyhow::Result<f64> {
    let processes = instance.processes();
    let before = process::computed(&processes)?;
    process::rest(IDLE);
    Ok((process::computed(&processes)? - before).as_secs_f64() / IDLE.as_secs_f64())
}

fn idle_subscribers(table: &mut Table, runtime: &tokio::runtime::Runtime, instance: &Instance) -> anyhow::Result<()> {
    let head = runtime.block_on(head(instance.address()))?;
    let connect = |number: u64| async move {
        let mut streams = Vec::new();
        for _ in 0..number {
            streams.push(Stream::open(instance.address(), head).await?);
        }
        anyhow::Ok(streams)
    };
    // The first few pay for what all of them share.
    let first = runtime.block_on(connect(100))?;
    process::rest(IDLE / 5);
    let before = process::memory(&instance.processes())?;
    let rest = runtime.block_on(connect(IDLE_SUBSCRIBERS))?;
    process::rest(IDLE / 5);
    let after = process::memory(&instance.processes())?;
    let each = after.saturating_sub(before) as f64 / IDLE_SUBSCRIBERS as f64 / 1024.0;
    table.row("an idle WebSocket connection", "≤ 16 KB", format!("{each:.1} KB"), Verdict::report(each <= 16.0));
    let share = idle_share(instance)?;
    table.row("1,000 idle subscribers", "no measurable CPU", percent(share), Verdict::report(share <= IDLE_SHARE));
    drop((first, rest));
    Ok(())
}

async fn head(address: &Address) -> anyhow::Result<u64> {
    let answer = Client::connect(address).await?.get("/api/events?limit=1").await?;
    answer["head"].as_u64().context("the answer names no head")
}

/// From the time that the computer wrote on an event, so the commit itself is part of it.
async fn delivery(table: &mut Table, address: &Address) -> anyhow::Result<()> {
    let head = head(address).await?;
    let events = EVENTS_PER_SECOND * SECONDS;
    let mut readers = Vec::new();
    for _ in 0..SUBSCRIBERS {
        let mut stream = Stream::open(address, head).await?;
        readers.push(tokio::spawn(async move {
            let mut delays = Vec::new();
            for seq in head + 1..=head + events {
                delays.push(delay(&stream.next().await?, seq)?);
            }
            anyhow::Ok(delays)
        }));
    }
    make_events(address, events).await?;
    let mut delays = Vec::new();
    for reader in readers {
        let patience = Duration::from_secs(30);
        delays.extend(tokio::time::timeout(patience, reader).await.context("a subscriber waits in vain")???);
    }
    let (half, p99) = (quantile(&mut delays, 0.5), quantile(&mut delays, 0.99));
    let measured = format!("p50 {half:.1} ms, p99 {p99:.1} ms, {} deliveries, no gap", delays.len());
    let what = "commit (with its sync) to WebSocket client, 100 subscribers, 500 events/s";
    table.row(what, "p99 ≤ 10 ms", measured, Verdict::report(p99 <= 10.0));
    Ok(())
}

/// Milliseconds since the event was made, or what is wrong with its place.
fn delay(line: &str, seq: u64) -> anyhow::Result<f64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as i64;
    let field = |name: &str| {
        let start = line.find(name)? + name.len();
        line[start..].split(['"', ',', '}']).next()
    };
    let found: u64 = field("\"seq\":").context("no seq")?.parse()?;
    ensure!(found == seq, "event {found} came where {seq} was due");
    let at: Timestamp = field("\"at\":\"").context("no time")?.parse()?;
    Ok((now - at.0) as f64 / 1e3)
}

/// One event each, evenly spread over time, from several hands.
async fn make_events(address: &Address, events: u64) -> anyhow::Result<()> {
    const HANDS: u64 = 10;
    let pace = Duration::from_secs(1) * HANDS as u32 / EVENTS_PER_SECOND as u32;
    let hands: Vec<_> = (0..HANDS)
        .map(|hand| {
            let address = address.clone();
            tokio::spawn(async move {
                let mut client = Client::connect(&address).await?;
                let mut ticks = tokio::time::interval(pace);
                for number in 0..events / HANDS {
                    ticks.tick().await;
                    let theme = if (number + hand) % 2 == 0 { "matins" } else { "vespers" };
                    client.send(Method::POST, "/api/desktop", &json!({"command": "theme", "theme": theme})).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for hand in hands {
        hand.await??;
    }
    Ok(())
}

async fn prompts(table: &mut Table, address: &Address) -> anyhow::Result<()> {
    let together = Arc::new(Barrier::new(CLIENTS));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = Client::connect(address).await?;
        let together = Arc::clone(&together);
        clients.push(tokio::spawn(async move {
            let mut times = Vec::new();
            together.wait().await;
            for prompt in 0..PROMPTS {
                let body = json!({"prompt": format!("prompt {prompt} of client {number}")});
                let started = Instant::now();
                client.send(Method::POST, "/api/runs", &body).await?;
                times.push(milliseconds(started.elapsed()));
            }
            anyhow::Ok(times)
        }));
    }
    let started = Instant::now();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await??);
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    let (half, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let measured = format!("p50 {half:.0} ms, p99 {p99:.0} ms, {rate:.0} prompts/s");
    table.row("accepting a prompt, 100 clients without pause", "p99 ≤ 50 ms", measured, Verdict::report(p99 <= 50.0));
    Ok(())
}
