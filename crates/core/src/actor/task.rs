//! A task of its own: commands without a model, or one worker without a conductor.

use super::Signal;
use crate::agent::{Identity, role_of};
use crate::fold::task::run_of;
use choir_proto::event::{CancelRequested, Header};
use choir_proto::task::TaskRequest;
use choir_proto::{Event, Seq, TaskId};

/// What a task can be told.
#[derive(Debug)]
pub enum Input<'a> {
    /// Somebody takes it up, and the log says this of it.
    TakenUp(&'a [(Header, Event)]),
    /// A person wants it to stop.
    Cancelled(First),
    /// That they do is in the log, and where.
    Said(Seq),
    /// Its worker is done, and what came of it is in the log.
    Worked,
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The person's word: nothing will come home.
    Stop,
    /// The task's changes, which are on their way into the workspace.
    Changes,
}

/// What is to be done, in order.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Tell the worker what the person wants.
    Signal(Signal),
    /// Let commands run, and say [`Input::Worked`] when they are done.
    Command(Box<TaskRequest>),
    /// Let an agent work, and say [`Input::Worked`] when it is done.
    Employ(Identity, Box<TaskRequest>),
    /// Write down what the person said, and say [`Input::Said`].
    Say(Box<Event>),
    /// Tell them where that is in the log.
    Answer(Seq),
    /// Tell them that they come too late.
    AnswerTooLate,
    /// Stop: it has ended.
    Stop,
    /// Fail: there is nothing to go on from.
    Fail(&'static str),
}

/// A task of its own at a moment.
#[derive(Debug, Clone)]
pub struct Task {
    id: TaskId,
    signal: Signal,
}

impl Task {
    /// A task that nobody has taken up yet.
    pub fn new(id: TaskId) -> Self {
        Self { id, signal: Signal::default() }
    }

    /// What is to be done about something.
    pub fn step(&mut self, input: Input<'_>) -> Vec<Effect> {
        match input {
            Input::TakenUp(past) => self.taken_up(past),
            Input::Cancelled(First::Changes) => vec![Effect::AnswerTooLate],
            Input::Cancelled(First::Stop) => vec![Effect::Say(Box::new(CancelRequested {}.into()))],
            Input::Said(seq) => {
                self.signal.cancelled = true;
                vec![Effect::Signal(self.signal.clone()), Effect::Answer(seq)]
            }
            Input::Worked => vec![Effect::Stop],
        }
    }

    fn taken_up(&mut self, past: &[(Header, Event)]) -> Vec<Effect> {
        let Some(request) = past.iter().find_map(|(_, event)| wanted(event)) else {
            return vec![Effect::Fail("the task was never asked for")];
        };
        // It may be called for twice, and the second call come late.
        if past.iter().any(|(header, event)| header.task == Some(self.id) && matches!(event, Event::TaskFinished(_))) {
            return vec![Effect::Stop];
        }
        // Nobody holds a task of its own, and nobody talks to it.
        self.signal = Signal { cancelled: Signal::of(past).cancelled, ..Signal::default() };
        let request = Box::new(request.clone());
        let work = if request.commands.is_empty() {
            let role = role_of(request.kind);
            Effect::Employ(Identity { run: run_of(self.id), task: self.id, role }, request)
        } else {
            Effect::Command(request)
        };
        vec![Effect::Signal(self.signal.clone()), work]
    }
}

fn wanted(event: &Event) -> Option<&TaskRequest> {
    match event {
        Event::TaskRequested(requested) => Some(&requested.request),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
