//! A run once more, without a model and without tools: what the log says they answered is fed to the same decisions, and
//! the first place where they would decide otherwise is named.

use crate::agent::{Agent, Identity, Next, Place, role_of};
use choir_proto::event::{Header, ModelCalled, ModelFailed, TaskRequested, ToolStarted};
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::{Event, Seq, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What was replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Agents.
    pub agents: usize,
    /// Answers of models, taken from the log.
    pub turns: usize,
    /// Calls of tools, taken from the log.
    pub calls: usize,
}

/// The first place where the same events lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Where in the log.
    pub seq: Seq,
    /// Whose decision.
    pub task: TaskId,
    /// What the log has.
    pub logged: String,
    /// What would happen now.
    pub now: String,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seq, task, logged, now } = self;
        write!(f, "event {seq} of task {task}: the log says {logged}; now it would be {now}")
    }
}

/// Replays the events of one run, in order. What `hidden` recognises was made unreadable on purpose: names of such arguments cannot
/// be made again, nor can it be said how long such a text was; what depends on that is taken as it is.
pub fn replay(events: &[(Header, Event)], hidden: impl Fn(&str) -> bool) -> Result<Replayed, Divergence> {
    let mut stage = Stage::default();
    for (header, event) in events {
        stage.step(header, event, &hidden)?;
    }
    stage.replayed.agents = stage.agents.len();
    Ok(stage.replayed)
}

#[derive(Default)]
struct Stage {
    agents: BTreeMap<TaskId, Agent>,
    replayed: Replayed,
    model: Option<String>,
    /// Agents whose conversation has another length than it had.
    altered: BTreeSet<TaskId>,
}

impl Stage {
    fn step(&mut self, header: &Header, event: &Event, hidden: &impl Fn(&str) -> bool) -> Result<(), Divergence> {
        match event {
            Event::RunAccepted(accepted) => self.model = accepted.request.model.clone(),
            Event::TaskRequested(requested) => {
                self.note(header.task, event, hidden);
                self.begin(header, requested);
            }
            // The person speaks to the first agent, and a start is everybody's.
            Event::RunSteered(_) | Event::RunStarted(_) => {
                let heard = |agent: &&mut Agent| matches!(event, Event::RunStarted(_)) || agent.place() == Place::First;
                self.agents.values_mut().filter(heard).for_each(|agent| agent.apply(header, event));
                let first = self.agents.iter().find(|(_, agent)| agent.place() == Place::First).map(|(task, _)| *task);
                self.note(first, event, hidden);
            }
            _ => return self.act(header, event, hidden),
        }
        Ok(())
    }

    fn note(&mut self, task: Option<TaskId>, event: &Event, hidden: &impl Fn(&str) -> bool) {
        if let Some(task) = task
            && !self.altered.contains(&task)
            && hidden(event.payload().get())
        {
            self.altered.insert(task);
        }
    }

    fn begin(&mut self, header: &Header, requested: &TaskRequested) {
        let (Some(run), Some(task)) = (header.run, header.task) else { return };
        if !requested.request.commands.is_empty() {
            return;
        }
        let role = requested.role.unwrap_or_else(|| role_of(requested.request.kind));
        let place = Place::of(role, requested.parent);
        let agent = Agent::new(Identity { run, task, role }, place, &requested.request, self.model.clone());
        self.agents.entry(task).or_insert(agent);
    }

    fn act(&mut self, header: &Header, event: &Event, hidden: &impl Fn(&str) -> bool) -> Result<(), Divergence> {
        let Some(task) = header.task else { return Ok(()) };
        let Some(agent) = self.agents.get_mut(&task) else { return Ok(()) };
        let next = agent.next(&[]);
        let differs = differs(agent, &next, event, hidden);
        if let Some(logged) = differs.filter(|_| !(self.altered.contains(&task) && is_of_length(agent, event, &next))) {
            return Err(Divergence { seq: header.seq, task, logged, now: in_words(&next) });
        }
        match event {
            Event::ModelCalled(_) => self.replayed.turns += 1,
            Event::ToolFinished(_) => self.replayed.calls += 1,
            _ => {}
        }
        match event {
            Event::ToolStarted(started) if hidden(&started.arguments.to_string()) => agent.begin_as(started),
            _ => agent.apply(header, event),
        }
        self.note(Some(task), event, hidden);
        Ok(())
    }
}

/// Whether nothing but the length of a conversation decides between the two.
fn is_of_length(agent: &Agent, event: &Event, next: &Next) -> bool {
    match (event, next) {
        (Event::ContextCompacted(logged), Next::Compact(_) | Next::Model(_)) => logged.turn == agent.next_turn(),
        (Event::ModelCalled(called), Next::Compact(_)) => called.turn == agent.next_turn(),
        _ => false,
    }
}

/// What the log has, where the agent would do something else.
fn differs(agent: &Agent, next: &Next, event: &Event, hidden: &impl Fn(&str) -> bool) -> Option<String> {
    let agrees = match (event, next) {
        (Event::ModelCalled(called), Next::Model(_)) => called.turn == agent.next_turn(),
        (Event::ModelFailed(failed), Next::Model(_)) => failed.turn == agent.next_turn(),
        (Event::ToolStarted(started), Next::Begin(calls)) => calls.iter().any(|call| {
            let same = call.index == started.index && call.call.name == started.name;
            let readable = call.effect_id == started.effect_id && call.call.arguments == started.arguments;
            same && (readable || hidden(&started.arguments.to_string()))
        }),
        // Also where the agent would go on: the result was there before it could.
        (Event::ToolFinished(finished), _) => agent.is_outstanding(&finished.effect_id),
        (Event::ContextCompacted(logged), Next::Compact(now)) => {
            logged == now || agent.shortened_before().as_ref() == Some(logged)
        }
        // Of a build that would have shortened nothing here.
        (
            Event::ModelCalled(ModelCalled { turn, .. }) | Event::ModelFailed(ModelFailed { turn, .. }),
            Next::Compact(_),
        ) => *turn == agent.next_turn() && agent.shortened_before().is_none(),
        (Event::TaskFinished(finished), next) => {
            // Also where words came that nobody could hear any more.
            let too_late = agent.overruled().map(|ending| Next::End(ending.clone()));
            [Some(next), too_late.as_ref()].into_iter().flatten().any(|next| may_end(&finished.result, next))
        }
        (Event::ModelCalled(_) | Event::ModelFailed(_) | Event::ToolStarted(_) | Event::ContextCompacted(_), _) => {
            false
        }
        _ => true,
    };
    (!agrees).then(|| logged_in_words(event))
}

/// An agent's own ending is what it said, unless somebody who looked at its work knew better. Persons and walls may end
/// an agent anywhere, and so may a provider that says no.
fn may_end(result: &TaskResult, next: &Next) -> bool {
    match (next, result.status) {
        (Next::End(ending), status) if ending.status == status => true,
        (Next::End(ending), TaskStatus::NeedsInput | TaskStatus::Failed | TaskStatus::Unknown) => {
            ending.status == TaskStatus::Ok
        }
        (_, TaskStatus::Ok | TaskStatus::NeedsInput | TaskStatus::Running) => false,
        _ => true,
    }
}

fn logged_in_words(event: &Event) -> String {
    match event {
        Event::ModelCalled(called) => format!("that the model was asked for turn {}", called.turn),
        Event::ModelFailed(failed) => format!("that the model failed in turn {}", failed.turn),
        Event::ToolStarted(ToolStarted { name, arguments, .. }) => format!("that `{name}` was called with {arguments}"),
        Event::ToolFinished(finished) => format!("that the call {} ended", finished.effect_id),
        Event::ContextCompacted(compacted) => format!("that {} messages were shortened", compacted.messages),
        Event::TaskFinished(finished) => format!("that it ended as {:?}", finished.result.status),
        other => other.kind().into_owned(),
    }
}

fn in_words(next: &Next) -> String {
    match next {
        Next::Model(_) => "a question to the model".to_owned(),
        Next::Compact(compacted) => format!("a shortening of {} messages", compacted.messages),
        Next::Begin(calls) => {
            let calls: Vec<String> =
                calls.iter().map(|call| format!("`{}` with {}", call.call.name, call.call.arguments)).collect();
            format!("a call of {}", calls.join(", "))
        }
        Next::Outstanding(calls) => format!("a wait for {} calls", calls.len()),
        Next::Ask(question) => format!("a question to the person: {}", question.text),
        Next::End(ending) => format!("an end as {:?}", ending.status),
    }
}
