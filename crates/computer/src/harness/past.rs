//! What had already happened to a run when a process took it.

use choir_core::agent::Spent;
use choir_core::fold::task::ended_somehow;
use choir_core::plan;
use choir_proto::document::Sketch;
use choir_proto::event::{BlockedOn, Header, InboxAsked, RunAccepted, TaskFinished, ToolOutcome, ToolStarted};
use choir_proto::inbox::{AskKind, Waits};
use choir_proto::task::TaskResult;
use choir_proto::{Event, Hash, InboxId, Role, RunId, Seq, TaskId, Timestamp};
use choir_store::{Log, Query, StoreError};
use std::collections::BTreeSet;

/// Events read at once.
const PAGE: usize = 500;

/// The tool that writes whole texts.
pub(super) const WRITE: &str = "write_document";

/// The events of one run, in order.
#[derive(Debug, Default)]
pub struct Past {
    events: Vec<(Header, Event)>,
}

impl Past {
    /// Reads a run from the log.
    pub async fn read(log: &Log, run: RunId) -> Result<Self, StoreError> {
        Self::read_after(log, run, Seq::ZERO).await
    }

    /// Reads what happened to a run later than a place in the log.
    pub async fn read_after(log: &Log, run: RunId, mut after: Seq) -> Result<Self, StoreError> {
        let mut events = Vec::new();
        loop {
            let page = log.read(Query { after, limit: PAGE, run: Some(run), ..Query::default() }).await?;
            let Some(last) = page.last() else { return Ok(Self { events }) };
            after = last.header.seq;
            for envelope in page {
                match envelope.event() {
                    Ok(event) => events.push((envelope.header, event)),
                    // Erased or damaged: absent, as in every other view of the log.
                    Err(error) => tracing::warn!(seq = envelope.header.seq.0, %error, "an event of a run is left out"),
                }
            }
        }
    }

    /// All of them.
    pub fn events(&self) -> impl Iterator<Item = &(Header, Event)> {
        self.events.iter()
    }

    /// The same, to be looked through more than once.
    pub fn all(&self) -> &[(Header, Event)] {
        &self.events
    }

    /// What concerns one agent. The first agent of a run also hears what the person said to the run.
    pub fn of_agent(&self, task: TaskId, first: bool) -> impl Iterator<Item = (&Header, &Event)> {
        let heard = move |header: &Header, event: &Event| {
            header.task == Some(task)
                || matches!(event, Event::RunSteered(_)) && first
                || matches!(event, Event::RunStarted(_))
        };
        self.events.iter().filter(move |(header, event)| heard(header, event)).map(|(header, event)| (header, event))
    }

    /// What the person wanted.
    pub fn accepted(&self) -> Option<&RunAccepted> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::RunAccepted(accepted) => Some(accepted),
            _ => None,
        })
    }

    /// Whether a task had been asked for.
    pub fn knows(&self, task: TaskId) -> bool {
        self.events.iter().any(|(header, event)| header.task == Some(task) && matches!(event, Event::TaskRequested(_)))
    }

    /// How many workers had been asked by others.
    pub fn workers(&self) -> u32 {
        // A conductor below somebody was only asked a question.
        let is_worker = |event: &Event| matches!(event, Event::TaskRequested(asked) if asked.parent.is_some() && asked.role != Some(Role::Conductor));
        self.events.iter().filter(|(_, event)| is_worker(event)).count() as u32
    }

    /// Whether the person had said yes to the plan.
    pub fn approved(&self) -> bool {
        plan::approved(self.events.iter().map(|(_, event)| event))
    }

    /// What came of a task, if it had ended. One whose ending cannot be read any more has ended all the same.
    pub fn result(&self, task: TaskId) -> Option<TaskResult> {
        self.events.iter().filter(|(header, _)| header.task == Some(task)).find_map(|(_, event)| match event {
            Event::TaskFinished(finished) => Some(finished.result.clone()),
            event if event.was::<TaskFinished>() => Some(ended_somehow(task)),
            _ => None,
        })
    }

    /// Paths of a task that had changed on both sides, as they were when the person was asked about them for the first time, for
    /// the second, and so on.
    pub fn conflicts(&self, task: TaskId, attempt: u32) -> Option<&[String]> {
        let mut asked = self.events.iter().filter_map(|(header, event)| match event {
            Event::TaskConflicted(conflicted) if header.task == Some(task) => Some(&conflicted.result.conflicts[..]),
            _ => None,
        });
        asked.nth(attempt as usize)
    }

    /// The tree that a task began with, where it has one to work on.
    pub fn base_tree(&self, task: Option<TaskId>) -> Option<Hash> {
        self.events.iter().filter(|(header, _)| task.is_some() && header.task == task).find_map(
            |(_, event)| match event {
                Event::TaskStarted(started) => started.base_tree,
                _ => None,
            },
        )
    }

    /// What it waited for, if it did.
    pub fn blocked_on(&self) -> Option<BlockedOn> {
        self.events.iter().fold(None, |waits, (_, event)| match event {
            Event::RunBlocked(blocked) => Some(blocked.on),
            Event::RunStarted(_) | Event::RunResumed(_) => None,
            _ => waits,
        })
    }

    /// Whether something had been put to the person.
    pub fn asked(&self, id: InboxId) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, Event::InboxAsked(asked) if asked.inbox_id == id))
    }

    /// What a task wanted to reach and the log does not say yet whether it may.
    pub fn undecided(&self, task: TaskId) -> Vec<Waits> {
        let asked = self.events.iter().filter_map(|(header, event)| match event {
            Event::InboxAsked(asked) if header.task == Some(task) && asked.ask == AskKind::Egress => {
                Some(asked.clone())
            }
            _ => None,
        });
        let open = asked.filter(|asked| !self.decided(asked.inbox_id));
        open.map(|InboxAsked { inbox_id: id, ask: kind, question, subject, hash, answers }| Waits {
            id,
            kind,
            question,
            subject,
            hash,
            answers,
        })
        .collect()
    }

    /// Whether the log had been told what came of it.
    pub fn decided(&self, id: InboxId) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, Event::InboxDecided(decided) if decided.inbox_id == id))
    }

    /// What a task and everybody below it had used.
    pub fn spent(&self, task: TaskId, now: Timestamp) -> Spent {
        Spent::until(&self.events, task, Some(now))
    }

    /// What an agent's answers had begun to write and no call of it had finished: turns and versions, in order.
    pub fn sketches(&self, task: TaskId) -> Vec<(u32, u32)> {
        let (mut open, mut writes) = (Vec::new(), BTreeSet::new());
        for (_, event) in self.events.iter().filter(|(header, _)| header.task == Some(task)) {
            match event {
                Event::DocumentUpdated(updated) => match updated.sketch {
                    Some(Sketch { turn, withdrawn: false }) => open.push((turn, updated.version)),
                    // Taken back, or written as a whole.
                    Some(Sketch { withdrawn: true, .. }) | None => open.clear(),
                },
                Event::ToolStarted(started) if started.name == WRITE => drop(writes.insert(started.effect_id.as_str())),
                // One that changed nothing any more.
                Event::ToolFinished(finished)
                    if finished.outcome == ToolOutcome::Ok && writes.contains(finished.effect_id.as_str()) =>
                {
                    open.clear();
                }
                _ => {}
            }
        }
        open
    }

    /// Whether an effect had been begun.
    pub fn begun(&self, effect_id: &str) -> bool {
        self.events
            .iter()
            .any(|(_, event)| matches!(event, Event::ToolStarted(ToolStarted { effect_id: id, .. }) if id == effect_id))
    }
}
