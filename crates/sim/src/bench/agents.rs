//! How long people wait for agents: until a document is there, until a word of the model is seen, until a long document
//! opens, and until a conductor knows what a thousand agents did.

use crate::client::{Address, Client, Socket, Stream};
use crate::instance::{self, Instance};
use crate::scratch;
use crate::stats::{milliseconds, quantile};
use crate::table::{Table, Verdict};
use anyhow::{Context, ensure};
use choir_core::roster::Roster;
use choir_proto::event::{Actor, Event, Header, TaskFinished, TaskRequested};
use choir_proto::{EventId, Hash, Role, Seq, TaskId, Timestamp};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

/// Runs that wait for a model while others are asked for.
const WAITING: usize = 50;
/// Prompts that are measured.
const PROMPTS: usize = 200;
/// Pieces that a model streams, and how long it takes for each.
const PIECES: usize = 400;
const PIECE: Duration = Duration::from_millis(5);
/// Of the long document.
const UPDATES: usize = 10_000;
const UPDATE_BYTES: usize = 20;
/// How often it is opened, each time by a computer that has just started.
const OPENINGS: usize = 11;
/// Agents that a conductor is told of, and how often.
const AGENTS: u128 = 1_000;
const ACCOUNTS: usize = 101;

/// A part of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Prompts, and what models say meanwhile.
    People,
    /// Long documents.
    Documents,
    /// What a conductor is told.
    Roster,
}

pub(super) fn measure(only: Option<Part>) -> anyhow::Result<bool> {
    let mut table = Table::begin("bench agents");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let wanted = |part| only.is_none_or(|only| only == part);
    if wanted(Part::People) {
        runtime.block_on(people(&mut table))?;
    }
    if wanted(Part::Documents) {
        runtime.block_on(documents(&mut table))?;
    }
    if wanted(Part::Roster) {
        roster(&mut table)?;
    }
    Ok(table.end())
}

/// A model that never answers those who are to wait, and speaks slowly to the others.
async fn people(table: &mut Table) -> anyhow::Result<()> {
    let model = TcpListener::bind("127.0.0.1:0").await?;
    let data = scratch::directory()?;
    let url = format!("http://{}/v1", model.local_addr()?);
    let config =
        format!("[providers.slow]\nkind = \"openai\"\nbase_url = \"{url}\"\n\n[models]\ndefault = \"slow/slow\"\n");
    std::fs::write(data.path().join("choir.toml"), config)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = model.accept().await {
            tokio::spawn(speak(stream));
        }
    });
    let token = instance::token(data.path())?;
    let instance = Instance::start(data.path(), &token)?;
    prompts(table, instance.address()).await?;
    pieces(table, instance.address()).await?;
    instance.stop()
}

/// Answers one question of the chat-completions format.
async fn speak(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut asked = Vec::new();
    let mut part = [0; 16 * 1024];
    while !is_whole(&asked) {
        let read = stream.read(&mut part).await?;
        ensure!(read > 0, "nobody asks any more");
        asked.extend_from_slice(&part[..read]);
    }
    if !String::from_utf8_lossy(&asked).contains("speak slowly") {
        return std::future::pending().await;
    }
    stream.set_nodelay(true)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await?;
    for _ in 0..PIECES {
        tokio::time::sleep(PIECE).await;
        let said = json!({"choices": [{"index": 0, "delta": {"content": format!("<{}>", now_us()?)}}]});
        stream.write_all(format!("data: {said}\n\n").as_bytes()).await?;
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

/// Whether a request has arrived with its body.
fn is_whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(usize::MAX)
}

fn now_us() -> anyhow::Result<u128> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros())
}

/// From the key that sends a prompt to its document on an open page.
async fn prompts(table: &mut Table, address: &Address) -> anyhow::Result<()> {
    let mut client = Client::connect(address).await?;
    for number in 0..WAITING {
        client.send(Method::POST, "/api/runs", &json!({"prompt": format!("wait {number}")})).await?;
    }
    let head = client.get("/api/events?limit=1").await?["head"].as_u64().context("no head")?;
    let mut stream = Stream::open(address, head).await?;
    let mut times = Vec::new();
    for number in 0..PROMPTS {
        let started = Instant::now();
        let accepted = client.send(Method::POST, "/api/runs", &json!({"prompt": format!("prompt {number}")})).await?;
        loop {
            let event: Value = serde_json::from_str(&stream.next().await?)?;
            if event["kind"] == "document.versioned" && event["run"] == accepted["run_id"] {
                break;
            }
        }
        times.push(milliseconds(started.elapsed()));
        // The others wait; this one has been seen.
        let id = accepted["run_id"].as_str().context("no run")?;
        client.send(Method::POST, &format!("/api/runs/{id}/cancel"), &json!({})).await?;
    }
    let (half, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let what = "prompt to its document on an open page, 50 runs waiting for models";
    let measured = format!("p50 {half:.1} ms, p99 {p99:.1} ms");
    table.row(what, "p99 ≤ 100 ms", measured, Verdict::report(p99 <= 100.0));
    Ok(())
}

/// From the model's server to an open page.
async fn pieces(table: &mut Table, address: &Address) -> anyhow::Result<()> {
    let mut client = Client::connect(address).await?;
    let head = client.get("/api/events?limit=1").await?["head"].as_u64().context("no head")?;
    let mut stream = Stream::open_live(address, head).await?;
    let accepted = client.send(Method::POST, "/api/runs", &json!({"prompt": "speak slowly"})).await?;
    let mut times = Vec::new();
    while times.len() < PIECES {
        let frame: Value = serde_json::from_str(&stream.next().await?)?;
        let ended = frame["kind"] == "run.ended" && frame["run"] == accepted["run_id"];
        ensure!(!ended, "only {} pieces were seen: {frame}", times.len());
        if frame["kind"] != "live" {
            continue;
        }
        let now = now_us()?;
        for said in frame["delta"].to_string().split('<').skip(1) {
            let at: u128 = said.split('>').next().unwrap_or_default().parse()?;
            times.push(now.saturating_sub(at) as f64 / 1e3);
        }
    }
    let (half, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let measured = format!("p50 {half:.2} ms, p99 {p99:.2} ms of {} pieces", times.len());
    table.row(
        "a streamed piece of a model's answer to an open page",
        "p99 ≤ 5 ms",
        measured,
        Verdict::report(p99 <= 5.0),
    );
    Ok(())
}

/// A document that two hands wrote turn by turn, opened by computers that have just started.
async fn documents(table: &mut Table) -> anyhow::Result<()> {
    let data = scratch::directory()?;
    let token = instance::token(data.path())?;
    let instance = Instance::start(data.path(), &token)?;
    let mut client = Client::connect(instance.address()).await?;
    let made = client.send(Method::POST, "/api/documents", &json!({"title": "long", "content": ""})).await?;
    let id = made["document_id"].as_str().context("no document")?.to_owned();
    let path = format!("/api/documents/{id}/sync");
    let mut socket = Socket::open(instance.address(), &path).await?;
    for number in 0..UPDATES {
        socket.send(&update(number)).await?;
    }
    socket.acknowledged(UPDATES as u64).await?;
    drop(socket);
    instance.stop()?;
    let mut times = Vec::new();
    for _ in 0..OPENINGS {
        let instance = Instance::start(data.path(), &token)?;
        let started = Instant::now();
        let mut socket = Socket::open(instance.address(), &path).await?;
        socket.send(&[0, 0, 1, 0]).await?;
        let bytes = socket.whole().await?;
        times.push(milliseconds(started.elapsed()));
        ensure!(bytes >= UPDATES * UPDATE_BYTES, "the document came with {bytes} bytes");
        instance.stop()?;
    }
    let (half, worst) = (quantile(&mut times, 0.5), quantile(&mut times, 1.0));
    let measured = format!("p50 {half:.1} ms, worst of {OPENINGS} {worst:.1} ms");
    table.row("opening a document of 200 KB after 10,000 updates", "≤ 50 ms", measured, Verdict::report(worst <= 50.0));
    Ok(())
}

/// The Yjs message of one insertion at the end, by two authors in turn, so that no two insertions are one.
fn update(number: usize) -> Vec<u8> {
    let author = |number: usize| 11 + (number % 2) as u64;
    let clock = |number: usize| (number / 2 * UPDATE_BYTES) as u64;
    let mut update = Vec::new();
    // One author, one insertion.
    update.extend([1, 1]);
    var(&mut update, author(number));
    var(&mut update, clock(number));
    if number == 0 {
        // It stands at the beginning of the text `content`.
        update.extend([0x04, 1]);
        text(&mut update, "content");
    } else {
        // It stands after the last letter of the one before.
        update.push(0x84);
        var(&mut update, author(number - 1));
        var(&mut update, clock(number - 1) + UPDATE_BYTES as u64 - 1);
    }
    text(&mut update, &format!("{number:019} "));
    // Nothing is deleted.
    update.push(0);
    let mut message = vec![0, 2];
    var(&mut message, update.len() as u64);
    message.extend(update);
    message
}

fn var(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn text(into: &mut Vec<u8>, text: &str) {
    var(into, text.len() as u64);
    into.extend_from_slice(text.as_bytes());
}

fn task(number: u128) -> TaskId {
    TaskId::new(Uuid::from_u128(number))
}

fn of_task(seq: u64, number: u128, event: Event) -> (Header, Event) {
    let header = Header {
        seq: Seq(seq),
        id: EventId::new(Uuid::nil()),
        epoch: 1,
        at: Timestamp(0),
        actor: Actor::Computer,
        run: None,
        task: Some(task(number)),
        cause: None,
        kind: event.kind(),
        version: 1,
        payload_hash: Hash::ZERO,
        prev: Hash::ZERO,
        hash: Hash::ZERO,
    };
    (header, event)
}

fn roster(table: &mut Table) -> anyhow::Result<()> {
    let mut events: Vec<(Header, Event)> = Vec::new();
    for agent in 1..=AGENTS {
        let request = serde_json::from_value(json!({"kind": "edit", "instruction": "some words ".repeat(20)}))?;
        let parent = (agent > 1).then(|| task(1));
        let role = Some(if agent == 1 { Role::Conductor } else { Role::Terminal });
        events.push(of_task(events.len() as u64 + 1, agent, TaskRequested { request, role, parent }.into()));
        if agent > 1 {
            let mut result = choir_core::fold::task::running(task(agent));
            result.status = choir_proto::TaskStatus::Ok;
            result.summary = "what came of it ".repeat(20);
            events.push(of_task(events.len() as u64 + 1, agent, TaskFinished { result }.into()));
        }
    }
    let mut times = Vec::new();
    for _ in 0..ACCOUNTS {
        let started = Instant::now();
        let mut roster = Roster::default();
        events.iter().for_each(|(header, event)| roster.apply(header, event));
        let account = roster.account();
        times.push(milliseconds(started.elapsed()));
        ensure!(account.starts_with("- conductor"), "the account begins with {account:.40}");
    }
    let (half, worst) = (quantile(&mut times, 0.5), quantile(&mut times, 1.0));
    let measured = format!("p50 {half:.2} ms, worst of {ACCOUNTS} {worst:.2} ms, from {} events", events.len());
    table.row("what 1,000 agents did, for a conductor", "≤ 2 ms", measured, Verdict::report(half <= 2.0));
    Ok(())
}
