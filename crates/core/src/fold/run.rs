//! Runs as people see them, and which of them still have something to do.

use super::Fold;
use crate::verify::{passed, to_accept};
use choir_proto::Event;
use choir_proto::event::{BlockedOn, Header, RunEnded, TaskFinished};
use choir_proto::model::Usage;
use choir_proto::run::{Run, RunStatus, TaskSummary};
use choir_proto::task::TaskStatus;

/// Every run, by id.
pub struct Runs;

impl Fold for Runs {
    type Row = Run;
    const NAME: &'static str = "runs";
    const VERSION: u32 = 5;

    fn key(header: &Header, _: &Event) -> Option<String> {
        header.run.map(|run| run.to_string())
    }

    fn apply(row: &mut Option<Run>, header: &Header, event: &Event) {
        match (row.as_mut(), event) {
            (None, Event::RunAccepted(accepted)) => *row = accepted_run(header, accepted),
            (Some(run), event) if header.seq > run.upto => {
                change(run, header, event);
                run.upto = header.seq;
            }
            _ => {}
        }
    }
}

/// Runs that have not ended, by id: what a start has to pick up again.
pub struct ActiveRuns;

impl Fold for ActiveRuns {
    type Row = Active;
    const NAME: &'static str = "active_runs";
    const VERSION: u32 = 3;

    fn key(header: &Header, event: &Event) -> Option<String> {
        let concerned =
            matches!(event, Event::RunAccepted(_) | Event::RunEnded(_) | Event::RunBlocked(_) | Event::RunStarted(_));
        header.run.filter(|_| concerned || event.was::<RunEnded>()).map(|run| run.to_string())
    }

    fn apply(row: &mut Option<Active>, _: &Header, event: &Event) {
        // Only what was accepted is a run: a task of its own also waits and goes on, and an acceptance may be erased.
        match (row.as_mut(), event) {
            (_, Event::RunAccepted(_)) => *row = Some(Active { blocked_on: None }),
            (Some(active), Event::RunStarted(_)) => active.blocked_on = None,
            (Some(active), Event::RunBlocked(blocked)) => active.blocked_on = Some(blocked.on),
            (_, Event::RunEnded(_)) => *row = None,
            // It has ended, whatever it ended with.
            (_, event) if event.was::<RunEnded>() => *row = None,
            _ => {}
        }
    }
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Active {
    /// What it waits for.
    pub blocked_on: Option<BlockedOn>,
}

fn accepted_run(header: &Header, accepted: &choir_proto::event::RunAccepted) -> Option<Run> {
    Some(Run {
        run_id: header.run?,
        status: RunStatus::Accepted,
        prompt: accepted.request.prompt.clone(),
        document_id: accepted.document_id,
        answer: None,
        reason: None,
        blocked_on: None,
        selection: accepted.request.selection.clone(),
        model: accepted.request.model.clone(),
        tasks: Vec::new(),
        usage: Default::default(),
        accepted_at: header.at,
        ended_at: None,
        removed_at: None,
        dismissed_at: None,
        seq: header.seq,
        upto: header.seq,
    })
}

fn change(run: &mut Run, header: &Header, event: &Event) {
    match event {
        Event::RunStarted(_) | Event::RunResumed(_) => wait(run, RunStatus::Running, None),
        Event::RunPaused(_) => wait(run, RunStatus::Paused, None),
        Event::RunBlocked(blocked) => {
            wait(run, RunStatus::Blocked, Some(blocked.message.clone()));
            run.blocked_on = Some(blocked.on);
        }
        Event::RunRemoved(_) => run.removed_at = Some(header.at),
        Event::RunRestored(_) => run.removed_at = None,
        Event::RunDismissed(_) => run.dismissed_at = Some(header.at),
        Event::RunAnswered(answered) => run.answer = Some(answered.text.clone()),
        Event::RunEnded(ended) => {
            wait(run, ended.status, Some(ended.summary.clone()));
            run.ended_at = Some(header.at);
            run.usage += ended.unanswered.map(Usage::from).unwrap_or_default();
        }
        Event::DocumentTrashed(trashed) if run.document_id == Some(trashed.document_id) => run.document_id = None,
        Event::ModelCalled(called) => {
            run.usage += called.usage;
            delay(run, header, None);
        }
        Event::TaskDelayed(delayed) => delay(run, header, Some(delayed.message.clone())),
        Event::TaskStarted(_) => delay(run, header, None),
        Event::TaskRequested(requested) => run.tasks.extend(header.task.map(|task_id| TaskSummary {
            task_id,
            parent: requested.parent,
            role: requested.role,
            objective: requested.request.instruction.clone(),
            status: TaskStatus::Running,
            waits: None,
            summary: None,
            verified: false,
            checks_changed: Vec::new(),
        })),
        Event::TaskConflicted(conflicted) => {
            let result = &conflicted.result;
            if let Some(task) = run.tasks.iter_mut().find(|task| task.task_id == result.task_id) {
                (task.status, task.summary) = (result.status, Some(result.summary.clone()));
            }
        }
        Event::TaskFinished(finished) => {
            let result = &finished.result;
            if let Some(task) = run.tasks.iter_mut().find(|task| task.task_id == result.task_id) {
                task.status = result.status;
                task.summary = Some(result.summary.clone());
                task.verified = passed(result);
                task.checks_changed = to_accept(result);
            }
            delay(run, header, None);
        }
        event if event.was::<RunEnded>() => {
            wait(run, RunStatus::Unknown, Some(GONE.to_owned()));
            run.ended_at = Some(header.at);
        }
        event if event.was::<TaskFinished>() => {
            if let Some(task) = run.tasks.iter_mut().find(|task| Some(task.task_id) == header.task) {
                (task.status, task.summary) = (TaskStatus::Unknown, Some(GONE.to_owned()));
            }
            delay(run, header, None);
        }
        Event::ChecksAccepted(accepted) => {
            if let Some(task) = run.tasks.iter_mut().find(|task| Some(task.task_id) == header.task) {
                // What did not pass, a person may accept for the runs after it.
                task.verified |= !task.checks_changed.is_empty();
                task.checks_changed.clear();
            }
            run.status = accepted.run_status.unwrap_or(run.status);
        }
        _ => {}
    }
}

/// What is said in the place of an ending whose words are gone.
pub(super) const GONE: &str = "How it ended was erased, or cannot be read any more.";

/// An agent waits for something, or goes on. What the newest of them waits for is why the run takes its time.
fn delay(run: &mut Run, header: &Header, waits: Option<String>) {
    if let Some(task) = run.tasks.iter_mut().find(|task| Some(task.task_id) == header.task) {
        task.waits = waits;
    }
    if run.status == RunStatus::Running {
        run.reason = run.tasks.iter().rev().find_map(|task| task.waits.clone());
    }
}

fn wait(run: &mut Run, status: RunStatus, reason: Option<String>) {
    run.status = status;
    run.reason = reason;
    run.blocked_on = None;
}
