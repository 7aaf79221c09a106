//! Tool calls: intent first, then the act, then the result. Independent calls run at the same time; one that may see what an
//! earlier one of the same answer leaves waits until the result of that is in the log.

use super::perform::{Performed, Performer};
use super::{Driver, HarnessError, stopped};
use choir_core::actor::Signal;
use choir_core::agent::{Begin, Ending};
use choir_core::effect;
use choir_core::tool::{Nature, Tool};
use choir_proto::event::{ToolFinished, ToolOutcome, ToolStarted};
use choir_proto::{Event, Role, Seq};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::collections::BTreeSet;
use tokio::task::JoinSet;

/// Calls at work, and their names.
#[derive(Default)]
pub(super) struct AtWork {
    running: FuturesUnordered<Work>,
    names: BTreeSet<String>,
    /// Those that wait for earlier ones of the same answer.
    held: Vec<Held>,
}

type Work = BoxFuture<'static, Result<(Begin, Performed), HarnessError>>;

/// A call that was not begun.
struct Held {
    name: String,
    /// Those at work that it waits for.
    follows: BTreeSet<String>,
    work: Work,
}

impl AtWork {
    /// Begins a call, or holds it until those that it follows have ended.
    fn take(&mut self, name: String, follows: BTreeSet<String>, work: Work) {
        self.names.insert(name.clone());
        match follows.is_empty() {
            true => self.running.push(work),
            false => self.held.push(Held { name, follows, work }),
        }
    }

    /// A call has ended: those that waited for nothing else begin.
    fn ended(&mut self, name: &str) {
        self.names.remove(name);
        for mut held in std::mem::take(&mut self.held) {
            held.follows.remove(name);
            self.take(held.name, held.follows, held.work);
        }
    }

    /// Nobody wants what was not begun.
    fn let_go(&mut self) {
        for held in std::mem::take(&mut self.held) {
            self.names.remove(&held.name);
        }
    }
}

/// When a call was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// Its intent was written down a moment ago.
    Now,
    /// Its intent is in the log, and a crash came before its result.
    BeforeACrash,
}

impl Driver {
    /// Performs calls whose intent is in the log, and appends what came of each as soon as it is known; until the agent has
    /// something to decide.
    pub(super) async fn perform(
        &mut self,
        at_work: &mut AtWork,
        calls: Vec<Begin>,
        begun: Begun,
    ) -> Result<Option<Ending>, HarnessError> {
        // Words may have come while the intents were written down. Calls that are refused for them take no time.
        let take_time = !calls.is_empty() && calls.iter().all(|call| call.tool.is_ok());
        let mut has_news = begun == Begun::Now && take_time && !self.agent.is_held_up();
        let follows: Vec<BTreeSet<String>> = (0..calls.len()).map(|at| followed(&calls, at)).collect();
        for (call, follows) in calls.into_iter().zip(follows) {
            if !at_work.names.contains(&call.effect_id) {
                at_work.take(call.effect_id.clone(), follows, self.performer().take_on(call, begun).boxed());
            }
        }
        let mut ended_by_person = false;
        loop {
            let next = tokio::select! {
                // First, so that whatever was begun is at work before anybody thinks about something else.
                biased;
                next = at_work.running.next() => next,
                stop = stopped(self.context.signal.clone()), if !ended_by_person => {
                    stop?;
                    // Child agents hear the person by themselves; a command has to be told. All of them end soon, and
                    // what they did is still written down.
                    ended_by_person = true;
                    at_work.let_go();
                    self.kill().await;
                    continue;
                }
                said = self.spoken_to(has_news), if !ended_by_person && self.parent.is_none() => {
                    said?;
                    self.hear(Seq(u64::MAX));
                    has_news = false;
                    if self.agent.is_held_up() {
                        continue;
                    }
                    return Ok(None);
                }
            };
            let Some(finished) = next else { return Ok(None) };
            let (call, mut performed) = finished?;
            if ended_by_person && matches!(performed.outcome, ToolOutcome::Error | ToolOutcome::Unknown) {
                performed.outcome = ToolOutcome::Cancelled;
            }
            self.conclude(&call, performed).await?;
            at_work.ended(&call.effect_id);
            if !ended_by_person && !self.agent.is_held_up() {
                return Ok(None);
            }
        }
    }

    /// Resolves when the person has said something that the agent has not heard, or where it has news anyway.
    fn spoken_to(&self, has_news: bool) -> impl Future<Output = Result<(), HarnessError>> + use<> {
        let (mut signal, heard) = (self.context.signal.clone(), self.heard);
        async move {
            let is_new = |signal: &Signal| signal.steered.last().is_some_and(|(seq, _)| *seq > heard);
            let said = signal.wait_for(|signal| has_news || is_new(signal)).await;
            said.map(|_| ()).map_err(|_| HarnessError::LetGo)
        }
    }

    /// Waits for everybody at work: nobody ends before those who work for it.
    pub(super) async fn settle(&mut self, at_work: &mut AtWork) -> Result<(), HarnessError> {
        while !at_work.running.is_empty() {
            self.perform(at_work, Vec::new(), Begun::Now).await?;
        }
        self.leave().await
    }

    /// Ends calls that a crash has cut off and that nobody wants any more: what the record knows of them is written down, and
    /// none is begun.
    pub(super) async fn leave(&mut self) -> Result<(), HarnessError> {
        for call in self.agent.outstanding() {
            let performed = match self.has_child(&call) {
                // It hears by itself that nobody wants it any more, and ends its own calls.
                true => self.performer().pick_up(&call).await?,
                false => self.performer().known(&call.effect_id).await.unwrap_or_else(unwanted),
            };
            self.conclude(&call, performed).await?;
        }
        Ok(())
    }

    /// Whether the call made another agent, which the log knows of.
    fn has_child(&self, call: &Begin) -> bool {
        matches!(call.tool, Ok(Tool::Delegate(_))) && self.context.past.knows(effect::child(&call.effect_id))
    }

    async fn conclude(&mut self, call: &Begin, performed: Performed) -> Result<(), HarnessError> {
        let finished: Event = ToolFinished {
            effect_id: call.effect_id.clone(),
            call_id: call.call.id.clone(),
            outcome: performed.outcome,
            content: performed.content,
            output: performed.output,
            duration_ms: performed.duration_ms,
        }
        .into();
        match performed.appended {
            // Some tools append their own facts together with the result, so that no crash can come between.
            Some(last) => self.fold(last, &[finished]),
            None => self.append(vec![finished]).await?,
        }
        Ok(())
    }

    async fn kill(&self) {
        if !matches!(self.identity.role, Role::Terminal | Role::Researcher) {
            return;
        }
        if let Err(error) = self.context.harness.control.kill_associate(self.identity.task).await {
            tracing::warn!(%error, "an associate could not be ended");
        }
    }
}

/// The earlier calls of the same answer that one of them waits for.
fn followed(calls: &[Begin], at: usize) -> BTreeSet<String> {
    let call = &calls[at];
    let Ok(tool) = &call.tool else { return BTreeSet::new() };
    let is_before = |earlier: &&Begin| {
        earlier.turn == call.turn && earlier.tool.as_ref().is_ok_and(|earlier| tool.follows(earlier))
    };
    calls[..at].iter().filter(is_before).map(|earlier| earlier.effect_id.clone()).collect()
}

fn unwanted() -> Performed {
    Performed::new(ToolOutcome::Cancelled, "The person wanted no more.".into())
}

/// What is written down before anything is done.
pub(super) fn intents(calls: &[Begin]) -> Vec<Event> {
    calls.iter().map(intent).collect()
}

fn intent(begin: &Begin) -> Event {
    ToolStarted {
        effect_id: begin.effect_id.clone(),
        turn: begin.turn,
        index: begin.index,
        call_id: begin.call.id.clone(),
        name: begin.call.name.clone(),
        arguments: begin.call.arguments.clone(),
    }
    .into()
}

impl Performer {
    /// Does one call to its end. A worker works beside its conductor, which has other things to think about meanwhile; it is
    /// let go with it.
    async fn take_on(self, call: Begin, begun: Begun) -> Result<(Begin, Performed), HarnessError> {
        let is_long = matches!(call.tool, Ok(Tool::Delegate(_)));
        let work = async move {
            let performed = match begun {
                Begun::Now => self.perform(&call).await?,
                Begun::BeforeACrash => self.pick_up(&call).await?,
            };
            Ok((call, performed))
        };
        if !is_long {
            return work.await;
        }
        let mut beside = JoinSet::new();
        beside.spawn(work);
        beside.join_next().await.ok_or(HarnessError::LetGo)??
    }

    /// Goes on with a call whose result a crash swallowed.
    async fn pick_up(&self, call: &Begin) -> Result<Performed, HarnessError> {
        let Ok(tool) = &call.tool else { return self.perform(call).await };
        if matches!(tool.nature(), Nature::Pure | Nature::Idempotent) {
            return self.perform(call).await;
        }
        match self.known(&call.effect_id).await {
            Some(known) => Ok(known),
            None => self.perform(call).await,
        }
    }
}
