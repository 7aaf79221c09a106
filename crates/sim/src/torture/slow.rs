//! A terminal that prints far more than its viewer reads: memory stays bounded, everybody else is served, and whoever looks
//! again sees the screen as it is.

use super::{Outcome, Plan};
use crate::client::{Client, Socket};
use crate::instance::{self, Instance};
use crate::{process, scratch};
use anyhow::{Context, ensure};
use http::Method;
use rustix::process::getpid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Bytes printed in the full and in the short form.
const PRINTED: u64 = 100_000_000;
const PRINTED_SHORT: u64 = 50_000_000;

/// Bytes by which all processes together may grow meanwhile: what a viewer may be behind, the buffers of two sockets, and
/// the programs that print.
const GROWTH_MAX: u64 = 32 << 20;

/// Printing that takes longer hangs.
const PRINT_MAX: Duration = Duration::from_secs(300);

/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let printed = plan.cases(PRINTED, PRINTED_SHORT);
    let mut outcome = Outcome { wanted: 1, ..Outcome::default() };
    let data = scratch::directory()?;
    let instance = Instance::start(data.path(), &instance::token(data.path())?)?;
    let grown = runtime.block_on(flood(&instance, printed, &mut outcome))?;
    instance.stop()?;
    if grown > GROWTH_MAX {
        outcome.faults.push(format!("{grown} bytes were kept for a viewer that does not read"));
    }
    outcome.cases = 1;
    outcome.controls.push(("a program that keeps everything", hoard(printed)? > GROWTH_MAX));
    outcome.notes = format!("{} MB printed, memory grew by {:.1} MB", printed / 1_000_000, grown as f64 / 1e6);
    Ok(outcome)
}

/// Prints without reading, then looks again. Answers by how much the processes grew.
async fn flood(instance: &Instance, printed: u64, outcome: &mut Outcome) -> anyhow::Result<u64> {
    let mut client = Client::connect(instance.address()).await?;
    let terminal = client.send(Method::POST, "/api/terminals", &json!({"cols": 80, "rows": 24})).await?;
    let path = format!("/api/terminals/{}", terminal["terminal_id"].as_str().context("no terminal_id")?);
    let mut asleep = Socket::open(instance.address(), &path).await?;
    asleep.until("$").await?;
    let before = process::memory(&instance.processes())?;
    let print = format!("head -c {printed} /dev/zero | tr '\\0' x; echo; echo finished-$((40 + 2)); : > printed\n");
    asleep.send(print.as_bytes()).await?;
    client.send(Method::POST, "/api/runs", &json!({"prompt": "somebody else"})).await?;
    outcome.acknowledged += 1;
    let (started, mut most) = (Instant::now(), before);
    while !is_there(&client.get("/api/files/list?path=").await?) {
        ensure!(started.elapsed() < PRINT_MAX, "it still prints after {PRINT_MAX:?}");
        client.get("/api/runs").await?;
        most = most.max(process::memory(&instance.processes())?);
        process::rest(LOOK_EVERY);
    }
    Socket::open(instance.address(), &path).await?.until("finished-42").await?;
    Ok(most - before)
}

fn is_there(listed: &Value) -> bool {
    listed.to_string().contains("\"printed\"")
}

/// How much this very process grows when it keeps as much as was printed.
fn hoard(bytes: u64) -> anyhow::Result<u64> {
    let before = process::memory(&[getpid()])?;
    let kept = vec![b'x'; bytes as usize];
    let grown = process::memory(&[getpid()])?.saturating_sub(before);
    drop(std::hint::black_box(kept));
    Ok(grown)
}
