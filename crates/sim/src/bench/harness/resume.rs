//! A long run goes on: from the start of the process to the next question to its model.

use super::super::computer::computer_in;
use super::super::provider::{Manner, Provider};
use super::{accept, at, directory};
use crate::instance::Instance;
use crate::stats::{median, milliseconds, quantile};
use crate::table::{Table, Verdict};
use anyhow::Context;
use choir_core::effect;
use choir_proto::event::{Actor, ModelCalled, NewEvent, ToolFinished, ToolOutcome, ToolStarted};
use choir_proto::model::{AssistantMessage, StopReason, ToolCall, Usage};
use choir_proto::{Event, EventId, Role, RunId, Seq, TaskId, Timestamp};
use choir_store::{Expect, Log, Query};
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// Events of the run.
const EVENTS: u64 = 10_000;

/// Events of one step.
const EVENTS_PER_STEP: u64 = 3;

/// Steps in one append.
const BATCH: u32 = 100;

/// How often it goes on.
const TIMES: usize = 7;

/// What it may take, in milliseconds.
const MUST_MS: f64 = 200.0;

pub(super) fn measure(table: &mut Table, runtime: &Runtime) -> anyhow::Result<()> {
    let mut provider = runtime.block_on(Provider::start(Manner::Slow))?;
    let (data, token) = directory(&at(&provider))?;
    let instance = Instance::start(data.path(), &token)?;
    let steps = EVENTS / EVENTS_PER_STEP;
    let new = json!({"prompt": "count", "budget": {"steps": steps + 1000, "tokens": 1_000_000_000_u64}});
    let run: RunId = runtime.block_on(accept(instance.address(), new))?.parse()?;
    runtime.block_on(provider.asked.wait_for(|asked| *asked == 1))?;
    instance.kill()?;
    runtime.block_on(lengthen(&computer_in(data.path())?, run, steps as u32))?;
    let mut times = Vec::new();
    for time in 0..TIMES {
        let started = Instant::now();
        let instance = Instance::start(data.path(), &token)?;
        runtime.block_on(provider.asked.wait_for(|asked| *asked == 2 + time))?;
        times.push(milliseconds(started.elapsed()));
        instance.kill()?;
    }
    let (middle, worst) = (median(&mut times), quantile(&mut times, 1.0));
    table.row(
        "resume of a 10,000-event run, from exec to its next question",
        "≤ 200 ms",
        format!("{middle:.0} ms (worst of {TIMES}: {worst:.0} ms)"),
        Verdict::report(middle <= MUST_MS),
    );
    Ok(())
}

/// Appends steps to the run's first agent, as if they had been made.
async fn lengthen(computer: &Path, run: RunId, steps: u32) -> anyhow::Result<()> {
    let log = Log::open(computer)?;
    let events = log.read(Query { after: Seq::ZERO, limit: 100, run: Some(run), ..Query::default() }).await?;
    let task = events.iter().find_map(|event| event.header.task).context("the run has a task")?;
    let mut batch = Vec::new();
    for turn in 1..=steps {
        batch.extend(step(run, task, turn));
        if turn % BATCH == 0 || turn == steps {
            log.append(std::mem::take(&mut batch), Expect::Any).await?;
        }
    }
    log.close().await;
    Ok(())
}

fn step(run: RunId, task: TaskId, turn: u32) -> [NewEvent; 3] {
    let arguments = json!({"text": "x"});
    let effect_id = effect::id(run, task, turn, 0, "answer", &arguments);
    let call = ToolCall { id: "c".into(), name: "answer".into(), arguments: arguments.clone(), malformed: None };
    let called = ModelCalled {
        turn,
        model: "local/m".into(),
        message: AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() },
        stop: StopReason::ToolUse,
        usage: Usage::default(),
        duration_ms: 0,
        window: Some(1_000_000),
        heard: None,
    };
    let (name, call_id) = ("answer".to_owned(), "c".to_owned());
    let started =
        ToolStarted { effect_id: effect_id.clone(), turn, index: 0, call_id: call_id.clone(), name, arguments };
    let (outcome, content) = (ToolOutcome::Ok, "ok".to_owned());
    let finished = ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 };
    let events: [Event; 3] = [called.into(), started.into(), finished.into()];
    let mut place = 0;
    events.map(|event| {
        place += 1;
        NewEvent {
            id: EventId::new(Uuid::from_u128(u128::from(turn) << 8 | place)),
            at: Timestamp(i64::from(turn)),
            actor: Actor::Agent(Role::Conductor),
            run: Some(run),
            task: Some(task),
            cause: None,
            event,
        }
    })
}
