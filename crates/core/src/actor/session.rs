//! The session: who of its children begins when, what becomes of one that failed, and when it is given up.

use crate::fold::task::running;
use crate::line::Line;
use crate::pace::Pace;
use crate::supervise::{INTENSITY, Supervisor, Verdict};
use choir_proto::event::{ActorEscalated, ActorRestarted, RunEnded, TaskFinished};
use choir_proto::model::Paid;
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::{Event, RunId, RunStatus, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// How long an actor that failed with the disk waits before it tries again.
const DISK_PATIENCE_MS: u64 = 1_000;

/// The same where the log is damaged: somebody has to restore it, and asking every second only fills another log.
const DAMAGE_PATIENCE_MS: u64 = 60_000;

/// Who the session looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Child {
    /// The desktop.
    Desktop,
    /// A run.
    Run(RunId),
    /// A task of its own.
    Task(TaskId),
}

impl Child {
    /// How people and the log call it; one that is started again keeps it.
    pub fn name(self) -> String {
        match self {
            Self::Desktop => "Desktop".to_owned(),
            Self::Run(run) => format!("Run {run}"),
            Self::Task(task) => format!("Task {task}"),
        }
    }
}

/// What the session can be told.
#[derive(Debug, Clone)]
pub enum Input {
    /// These had not ended when the session began, the oldest first.
    Found(Vec<Child>),
    /// It was just accepted.
    Accepted(Child),
    /// It is the turn of something that was put off.
    Turn(Child),
    /// It is the turn of whoever is first in line.
    Next,
    /// A person asks something of it.
    Asked(Child),
    /// The wait before a restart is over.
    Restart(Child),
    /// It ended in order.
    Ended(Child),
    /// It failed at work.
    Failed(Failure),
    /// It could not even start.
    NotStarted(Failure),
    /// What a run that is given up has cost, as [`Effect::Reckon`] wanted to know.
    Reckoned {
        /// Which run.
        run: RunId,
        /// Why it is given up.
        summary: String,
        /// What was paid for it that its log does not have, where that is known.
        unanswered: Option<Paid>,
    },
}

/// A child that is no longer there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub child: Child,
    /// What it said.
    pub reason: String,
    /// What was wrong with the log at that moment.
    pub trouble: Option<Trouble>,
}

/// What can be wrong with the log, and is nobody's fault who only wanted to write there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The disk takes nothing.
    Disk,
    /// It is not whole.
    Damage,
}

/// What is to be done, in order. What comes of one is decided about before the next is done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Start it; if that fails, say [`Input::NotStarted`].
    Start(Child),
    /// Say [`Input::Turn`] after a while.
    PutOff {
        /// Of whom.
        child: Child,
        /// How long.
        after_ms: u64,
    },
    /// Say [`Input::Next`], after everybody who has something to say already: nobody has to wait for all who stand in line to be
    /// greeted.
    CallNext,
    /// Tell whoever looks after the machine that a child waits for the disk.
    TellWaits(Failure),
    /// Tell them that a child failed.
    TellFailed(Failure),
    /// Show it as about to be started again.
    ShowRestarting(Child),
    /// Show it no more.
    ShowEnded(Child),
    /// Say [`Input::Restart`] after a while.
    Restart {
        /// Of whom.
        child: Child,
        /// How long.
        after_ms: u64,
    },
    /// Write something down about a child.
    Append(Child, Vec<Event>),
    /// Ask what a run has cost, and say [`Input::Reckoned`] with the rest of it.
    Reckon {
        /// Which run.
        run: RunId,
        /// Why it is given up.
        summary: String,
    },
    /// Fail: the session cannot go on.
    Fail(String),
}

/// The session at a moment.
#[derive(Debug, Clone)]
pub struct Session {
    supervisor: Supervisor,
    pace: Pace,
    /// Runs and tasks that have a place.
    at_work: BTreeSet<Child>,
    /// Accepted or found unfinished, and not started yet, with how often it was put off. Whoever asks for one of them does not have
    /// to wait for its turn.
    unfinished: BTreeMap<Child, u32>,
    /// Those of them who wait for others to end.
    line: Line<Child>,
}

impl Session {
    /// A session with so many places, and nobody at work.
    pub fn new(places: usize) -> Self {
        Self {
            supervisor: Supervisor::new(INTENSITY),
            pace: Pace::default(),
            at_work: BTreeSet::new(),
            unfinished: BTreeMap::new(),
            line: Line::new(places),
        }
    }

    /// What is to be done about something, at a moment of monotonic time.
    pub fn step(&mut self, input: Input, now_ms: u64) -> Vec<Effect> {
        match input {
            Input::Found(children) => self.found(children),
            Input::Accepted(child) => self.accepted(child, now_ms),
            Input::Turn(child) => self.turn(child, now_ms),
            Input::Next => self.next(),
            Input::Asked(child) => self.asked(child),
            Input::Restart(child) => self.start(child),
            Input::Ended(child) => self.ended(child),
            Input::Failed(failure) => {
                let mut effects = self.failed(failure, now_ms);
                // It may have been given up, and its place be free.
                effects.extend(self.call_next());
                effects
            }
            Input::NotStarted(failure) => self.failed(failure, now_ms),
            Input::Reckoned { run, summary, unanswered } => {
                let ended = RunEnded { status: RunStatus::Failed, summary, unanswered };
                vec![Effect::Append(Child::Run(run), vec![ended.into()])]
            }
        }
    }

    /// Puts everything that has not ended into the line.
    fn found(&mut self, children: Vec<Child>) -> Vec<Effect> {
        for child in children {
            self.join(child);
        }
        self.call_next()
    }

    /// Starts what was just accepted, unless others are being accepted in this moment.
    fn accepted(&mut self, child: Child, now_ms: u64) -> Vec<Effect> {
        match self.pace.put_off_ms(now_ms) {
            0 => self.begin(child),
            after_ms => {
                self.unfinished.insert(child, 1);
                vec![Effect::PutOff { child, after_ms }]
            }
        }
    }

    /// Starts what was put off, unless it was started already or a crowd is still being accepted.
    fn turn(&mut self, child: Child, now_ms: u64) -> Vec<Effect> {
        let Some(times) = self.unfinished.get_mut(&child) else { return Vec::new() };
        match self.pace.still_ms(*times, now_ms) {
            0 => self.begin(child),
            after_ms => {
                *times += 1;
                vec![Effect::PutOff { child, after_ms }]
            }
        }
    }

    /// Starts a child, or lets it stand in line.
    fn begin(&mut self, child: Child) -> Vec<Effect> {
        if self.line.is_open(self.at_work.len()) {
            return self.start(child);
        }
        self.join(child);
        self.call_next()
    }

    fn join(&mut self, child: Child) {
        self.unfinished.insert(child, 0);
        self.line.join(child);
    }

    /// Calls whoever is first in line, if anybody is.
    fn call_next(&self) -> Vec<Effect> {
        if self.line.is_empty() { Vec::new() } else { vec![Effect::CallNext] }
    }

    fn next(&mut self) -> Vec<Effect> {
        let Some(child) = self.line.next(self.at_work.len()) else { return Vec::new() };
        // Who has stood in line is not put off once more; who was asked for meanwhile is at work already.
        let mut effects = self.asked(child);
        effects.extend(self.call_next());
        effects
    }

    /// Starts what has not been started yet.
    fn asked(&mut self, child: Child) -> Vec<Effect> {
        if self.unfinished.contains_key(&child) { self.start(child) } else { Vec::new() }
    }

    /// Starts a child, unless that was done already.
    fn start(&mut self, child: Child) -> Vec<Effect> {
        self.unfinished.remove(&child);
        // The desktop takes nobody's place.
        let is_new = child == Child::Desktop || self.at_work.insert(child);
        if is_new { vec![Effect::Start(child)] } else { Vec::new() }
    }

    fn ended(&mut self, child: Child) -> Vec<Effect> {
        self.at_work.remove(&child);
        self.supervisor.forget(&child.name());
        let mut effects = vec![Effect::ShowEnded(child)];
        effects.extend(self.call_next());
        effects
    }

    fn failed(&mut self, failure: Failure, now_ms: u64) -> Vec<Effect> {
        self.at_work.remove(&failure.child);
        match failure.trouble {
            Some(trouble) => wait(failure, trouble),
            None => self.blame(failure, now_ms),
        }
    }

    /// Starts a child again that failed by itself, or gives it up.
    fn blame(&mut self, failure: Failure, now_ms: u64) -> Vec<Effect> {
        let (child, reason, name) = (failure.child, failure.reason.clone(), failure.child.name());
        let told = Effect::TellFailed(failure);
        match self.supervisor.failed(&name, now_ms) {
            Verdict::Restart { after_ms, restarts } => {
                let restarted = ActorRestarted { name, reason, restarts };
                vec![
                    told,
                    Effect::ShowRestarting(child),
                    Effect::Append(child, vec![restarted.into()]),
                    Effect::Restart { child, after_ms },
                ]
            }
            Verdict::Escalate => {
                let escalated = ActorEscalated { name, reason: reason.clone() };
                vec![
                    told,
                    Effect::ShowEnded(child),
                    Effect::Append(child, vec![escalated.into()]),
                    give_up(child, &reason),
                ]
            }
        }
    }
}

/// Not its fault: it goes on when the disk does, or the log is whole again. An ending would be for good.
fn wait(failure: Failure, trouble: Trouble) -> Vec<Effect> {
    let child = failure.child;
    let after_ms = match trouble {
        Trouble::Disk => DISK_PATIENCE_MS,
        Trouble::Damage => DAMAGE_PATIENCE_MS,
    };
    vec![Effect::TellWaits(failure), Effect::ShowRestarting(child), Effect::Restart { child, after_ms }]
}

/// One run that cannot be had must not take the others with it; a desktop that cannot be had is the session's end.
fn give_up(child: Child, reason: &str) -> Effect {
    match child {
        Child::Desktop => Effect::Fail(format!("the desktop fails again and again: {reason}")),
        Child::Run(run) => Effect::Reckon { run, summary: format!("This run failed again and again: {reason}") },
        Child::Task(task) => {
            let summary = format!("This task failed again and again: {reason}");
            let result = TaskResult { status: TaskStatus::Failed, summary, ..running(task) };
            Effect::Append(child, vec![TaskFinished { result }.into()])
        }
    }
}

#[cfg(test)]
mod tests;
