//! One run: where it goes on from, what the person says to it, and its honest end.

use super::Signal;
use crate::agent::Identity;
use crate::{effect, settle};
use choir_proto::event::{
    CancelRequested, DocumentTrashed, Header, RunAccepted, RunAnswered, RunEnded, RunPaused, RunStarted, RunSteered,
};
use choir_proto::model::Paid;
use choir_proto::task::{TaskRequest, TaskResult, TaskStatus};
use choir_proto::{DocumentId, Event, Role, RunId, RunStatus, Seq, TaskId};

/// What a person can want of a run at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCommand {
    /// Stop it.
    Cancel,
    /// Hold it.
    Pause,
    /// Go on.
    Resume,
    /// Say something to it.
    Steer(String),
}

/// What a run can be told.
#[derive(Debug)]
pub enum Input<'a> {
    /// Somebody takes it up, and the log says this of it.
    TakenUp(&'a [(Header, Event)]),
    /// A person wants something of it.
    Asked(RunCommand),
    /// What they wanted is in the log, and where.
    Said(RunCommand, Seq),
    /// Its first agent has said its last word.
    Conducted(Box<Conducted<'a>>),
    /// What it has cost, as [`Effect::Reckon`] wanted to know: what was paid for it that its log does not have.
    Reckoned(Ending, Option<Paid>),
}

/// A last word, and what is known at that moment.
#[derive(Debug)]
pub struct Conducted<'a> {
    /// What the first agent says of its task.
    pub result: TaskResult,
    /// What the log says of the run.
    pub past: &'a [(Header, Event)],
    /// Whether the person has a short answer already.
    pub answered: bool,
    /// Whether [`Run::page`] says nothing but the prompt, and nobody can write there.
    pub untouched: bool,
}

/// What is to be done, in order.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Write it down.
    Append(Vec<Event>),
    /// Tell the agents what the person wants.
    Signal(Signal),
    /// Let the first agent work, and say [`Input::Conducted`] when it is done.
    Conduct(Box<Conduct>),
    /// Write down what the person said, and say [`Input::Said`].
    Say(RunCommand, Box<Event>),
    /// Write down that they said go on, and what the run still waits for, which is known with its agents. Then say [`Input::Said`].
    SayResume,
    /// Tell the person where what they said is in the log.
    Answer(Seq),
    /// Tell them that they had said it before.
    AnswerNothingNew,
    /// Let others write into the page again.
    Release,
    /// Ask what the run has cost, and say [`Input::Reckoned`].
    Reckon(Ending),
    /// Nobody will write into the page any more: that it was put away is in the log.
    PutAway,
    /// Stop: it has ended.
    Stop,
    /// Fail: there is nothing to go on from.
    Fail(&'static str),
}

/// Work for the first agent.
#[derive(Debug, Clone)]
pub struct Conduct {
    /// Which agent.
    pub identity: Identity,
    /// What the person wanted.
    pub accepted: RunAccepted,
    /// As it was asked the first time: what it points at may have changed since, and an agent is its events.
    pub known: Option<TaskRequest>,
}

/// An end that lacks only what it has cost.
#[derive(Debug, Clone)]
pub struct Ending {
    /// What is written down before it.
    before: Vec<Event>,
    status: RunStatus,
    summary: String,
    /// What becomes of the page that was kept ready.
    page: Page,
}

/// What becomes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Kept,
    Trashed,
}

/// A run at a moment.
#[derive(Debug, Clone)]
pub struct Run {
    id: RunId,
    signal: Signal,
    /// The document that was made for it. One that it continues was somebody's before, and stays theirs.
    page: Option<DocumentId>,
    /// Whether its answer appears beside a part of a document.
    in_margin: bool,
}

impl Run {
    /// A run that nobody has taken up yet.
    pub fn new(id: RunId) -> Self {
        Self { id, signal: Signal::default(), page: None, in_margin: false }
    }

    /// The page that was kept ready for it.
    pub fn page(&self) -> Option<DocumentId> {
        self.page
    }

    /// What is to be done about something.
    pub fn step(&mut self, input: Input<'_>) -> Vec<Effect> {
        match input {
            Input::TakenUp(past) => self.taken_up(past),
            Input::Asked(command) => self.asked(command),
            Input::Said(command, seq) => self.said(command, seq),
            Input::Conducted(conducted) => self.conducted(*conducted),
            Input::Reckoned(ending, unanswered) => end(ending, unanswered),
        }
    }

    /// Goes on from wherever the log says that the run is.
    fn taken_up(&mut self, past: &[(Header, Event)]) -> Vec<Effect> {
        let Some(accepted) = past.iter().find_map(|(_, event)| wanted(event)) else {
            return vec![Effect::Fail("the run was never accepted")];
        };
        // Whoever found it unfinished at a start and whoever had just accepted it may both have called for it, one of them late.
        if past.iter().any(|(_, event)| matches!(event, Event::RunEnded(_))) {
            return vec![Effect::Stop];
        }
        self.signal = Signal::of(past);
        self.page = accepted.document_id.filter(|_| accepted.request.document_id.is_none());
        self.in_margin = accepted.request.selection.is_some();
        let mut effects = Vec::new();
        // A run that waited for a model goes on waiting, and says nothing before it has one: a start must not write a line
        // for every run that nobody can help.
        if !has_begun(past) && !self.signal.paused {
            effects.push(Effect::Append(vec![RunStarted {}.into()]));
        }
        let task = TaskId::new(effect::derived(&self.id.to_string(), "root"));
        let identity = Identity { run: self.id, task, role: Role::Conductor };
        let (accepted, known) = (accepted.clone(), requested(past, task).cloned());
        effects.push(Effect::Signal(self.signal.clone()));
        effects.push(Effect::Conduct(Box::new(Conduct { identity, accepted, known })));
        effects
    }

    fn asked(&self, command: RunCommand) -> Vec<Effect> {
        let event: Event = match &command {
            // Said once is said: a second time adds nothing.
            RunCommand::Cancel if self.signal.cancelled => return vec![Effect::AnswerNothingNew],
            RunCommand::Pause if self.signal.paused => return vec![Effect::AnswerNothingNew],
            RunCommand::Resume => return vec![Effect::SayResume],
            RunCommand::Cancel => CancelRequested {}.into(),
            RunCommand::Pause => RunPaused {}.into(),
            RunCommand::Steer(text) => RunSteered { text: text.clone() }.into(),
        };
        vec![Effect::Say(command, Box::new(event))]
    }

    fn said(&mut self, command: RunCommand, seq: Seq) -> Vec<Effect> {
        match command {
            RunCommand::Cancel => self.signal.cancelled = true,
            RunCommand::Pause => self.signal.paused = true,
            RunCommand::Resume => {
                self.signal.paused = false;
                self.signal.resumed += 1;
            }
            RunCommand::Steer(text) => self.signal.steered.push((seq, text)),
        }
        vec![Effect::Signal(self.signal.clone()), Effect::Answer(seq)]
    }

    fn conducted(&self, conducted: Conducted<'_>) -> Vec<Effect> {
        let Conducted { result, past, mut answered, untouched } = conducted;
        let result = settle::borne_out(result, past);
        let is_ok = result.status == TaskStatus::Ok;
        let mut before: Vec<Event> = Vec::new();
        if is_ok && !self.signal.cancelled && !answered && (untouched || self.in_margin) {
            before.push(RunAnswered { text: result.summary.clone() }.into());
            answered = true;
        }
        let mut effects = Vec::new();
        let page = match self.page.filter(|_| untouched) {
            // A short answer was enough: the page that was kept ready for more is put away, before anybody can write into it.
            Some(document_id) if answered => {
                before.push(DocumentTrashed { document_id, reason: "a short answer was enough".into() }.into());
                Page::Trashed
            }
            Some(_) => {
                effects.push(Effect::Release);
                Page::Kept
            }
            None => Page::Kept,
        };
        let (status, summary) = match self.signal.cancelled && is_ok {
            // It was told that it is to end, and the person that it does: what came of it meanwhile is no reason to say otherwise.
            true => (RunStatus::Cancelled, STOPPED.to_owned()),
            false => settle::ending(result, past),
        };
        effects.push(Effect::Reckon(Ending { before, status, summary, page }));
        effects
    }
}

/// What is said of a run that the person has stopped.
const STOPPED: &str = "Stopped.";

fn end(ending: Ending, unanswered: Option<Paid>) -> Vec<Effect> {
    let Ending { before: mut events, status, summary, page } = ending;
    events.push(RunEnded { status, summary, unanswered }.into());
    match page {
        Page::Kept => vec![Effect::Append(events), Effect::Stop],
        Page::Trashed => vec![Effect::Append(events), Effect::PutAway, Effect::Stop],
    }
}

fn wanted(event: &Event) -> Option<&RunAccepted> {
    match event {
        Event::RunAccepted(accepted) => Some(accepted),
        _ => None,
    }
}

/// Whether agents had begun to work on it.
fn has_begun(past: &[(Header, Event)]) -> bool {
    past.iter().any(|(_, event)| matches!(event, Event::RunStarted(_) | Event::RunBlocked(_)))
}

/// What was asked of a task, if it had been.
fn requested(past: &[(Header, Event)], task: TaskId) -> Option<&TaskRequest> {
    past.iter().find_map(|(header, event)| match event {
        Event::TaskRequested(requested) if header.task == Some(task) => Some(&requested.request),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
