//! Workers that a wall around the whole run has stopped. The wall is measured against each question, and those above have shorter
//! ones: they may still say that everything is done.

use crate::agent::{Account, Ending, Limits, Place, Spent};
use choir_proto::event::{Header, TaskRequested};
use choir_proto::model::{ErrorClass, StopReason};
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::{Event, TaskId};
use std::collections::BTreeSet;

/// How a worker of a run's first agent ended that was stopped by a wall of the run, if nobody who was asked later did better.
pub(crate) fn walled(past: &[(Header, Event)]) -> Option<Ending> {
    let asked = |(header, event): &(Header, Event)| match event {
        Event::TaskRequested(asked) if asked.parent.is_none() => {
            header.task.map(|task| (task, limits(asked, Place::First)))
        }
        _ => None,
    };
    let (first, of_run) = past.iter().find_map(asked)?;
    let (mut stopped, mut later): (Option<Ending>, BTreeSet<TaskId>) = (None, BTreeSet::new());
    for (at, (header, event)) in past.iter().enumerate() {
        match (header.task, event) {
            (Some(task), Event::TaskRequested(asked)) if asked.parent == Some(first) && stopped.is_some() => {
                later.insert(task);
            }
            (Some(task), Event::TaskFinished(finished)) if task != first => {
                let (result, before) = (&finished.result, &past[..at]);
                let run = || Account { limits: of_run, spent: Spent::of(before, first) };
                if result.status == TaskStatus::Ok && later.contains(&task) {
                    stopped = None;
                } else if requested(before, task).is_some_and(|asked| {
                    asked.parent == Some(first) && is_by_run(before, task, result, limits(asked, Place::Below), run)
                }) {
                    stopped = Some(Ending { status: result.status, summary: result.summary.clone() });
                    later.clear();
                }
            }
            _ => {}
        }
    }
    stopped
}

fn limits(asked: &TaskRequested, place: Place) -> Limits {
    Limits::of(asked.request.budget.as_ref(), place)
}

fn requested(past: &[(Header, Event)], task: TaskId) -> Option<&TaskRequested> {
    past.iter().find_map(|(header, event)| match event {
        Event::TaskRequested(asked) if header.task == Some(task) => Some(asked),
        _ => None,
    })
}

/// Whether the wall that stopped a worker was the run's and not its own.
fn is_by_run(
    past: &[(Header, Event)],
    task: TaskId,
    result: &TaskResult,
    limits: Limits,
    run: impl Fn() -> Account,
) -> bool {
    let own = || Account { limits, spent: Spent::of(past, task) };
    match result.status {
        TaskStatus::OutOfTime => result.usage.time_s * 1000.0 < limits.time_ms as f64,
        TaskStatus::OutOfSteps => own().spent.steps < limits.steps,
        // What a person allows all runs of a day is nobody's own, either.
        TaskStatus::OutOfBudget if is_for_money(past, task) => {
            own().usd_left().is_none_or(|own| run().usd_left().is_some_and(|run| run < own))
        }
        TaskStatus::OutOfBudget => run().tokens_left() < own().tokens_left(),
        _ => false,
    }
}

/// Whether whoever keeps the money had the last word.
fn is_for_money(past: &[(Header, Event)], task: TaskId) -> bool {
    let of_task = past.iter().rev().filter(|(header, _)| header.task == Some(task));
    let said = of_task.map(|(_, event)| event).find_map(|event| match event {
        Event::ModelFailed(failed) => Some(failed.class == ErrorClass::Budget),
        Event::ModelCalled(called) => Some(called.stop == StopReason::Budget),
        _ => None,
    });
    said.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::task::running;
    use crate::testing::header;
    use choir_proto::Role;
    use choir_proto::event::{ModelCalled, ModelFailed, TaskFinished};
    use choir_proto::model::{AssistantMessage, Usage};
    use choir_proto::task::{Budget, TaskKind, TaskRequest};
    use choir_proto::{Seq, Usd};
    use uuid::Uuid;

    /// A log that is written line by line.
    #[derive(Default)]
    struct Told(Vec<(Header, Event)>);

    fn id(task: u128) -> TaskId {
        TaskId::new(Uuid::from_u128(task))
    }

    impl Told {
        fn say(mut self, task: u128, event: impl Into<Event>) -> Self {
            let event = event.into();
            let seq = self.0.len() as u64 + 1;
            self.0.push((Header { seq: Seq(seq), task: Some(id(task)), ..header(seq, &event) }, event));
            self
        }

        fn asked(self, task: u128, parent: Option<u128>, budget: Budget) -> Self {
            let request = TaskRequest { budget: Some(budget), ..request() };
            self.say(task, TaskRequested { request, role: Some(Role::Terminal), parent: parent.map(id) })
        }

        fn answered(self, task: u128, tokens: u64) -> Self {
            let usage = Usage { input_tokens: tokens, usd: Usd(tokens), ..Usage::default() };
            let message = AssistantMessage::default();
            let (model, stop) = ("a/b".to_owned(), StopReason::ToolUse);
            self.say(
                task,
                ModelCalled { turn: 1, model, message, stop, usage, duration_ms: 0, window: None, heard: None },
            )
        }

        fn ended(self, task: u128, status: TaskStatus) -> Self {
            self.say(task, TaskFinished { result: TaskResult { status, ..running(id(task)) } })
        }

        fn ending(&self) -> Option<TaskStatus> {
            walled(&self.0).map(|ending| ending.status)
        }
    }

    fn request() -> TaskRequest {
        let verbs = serde_json::json!({"kind": TaskKind::Edit, "instruction": "work"});
        serde_json::from_value(verbs).unwrap()
    }

    fn tokens(tokens: u64) -> Budget {
        Budget { tokens: Some(tokens), ..Budget::default() }
    }

    fn usd(usd: u64) -> Budget {
        Budget { usd: Some(Usd(usd)), ..Budget::default() }
    }

    fn none() -> Budget {
        Budget::default()
    }

    /// A run with this budget and a worker with that one, which used ninety of something and ended so.
    fn worked(run: Budget, worker: Budget, status: TaskStatus) -> Told {
        Told::default().asked(1, None, run).asked(2, Some(1), worker).answered(2, 90).ended(2, status)
    }

    #[test]
    fn a_wall_of_the_run_is_told_from_a_worker_s_own() {
        use TaskStatus::{Failed, OutOfBudget, OutOfSteps};
        assert_eq!(worked(tokens(100), none(), OutOfBudget).ending(), Some(OutOfBudget));
        assert_eq!(worked(tokens(1_000), tokens(100), OutOfBudget).ending(), None);
        assert_eq!(worked(none(), none(), OutOfBudget).ending(), None, "its own is the nearest of all that are known");
        assert_eq!(worked(tokens(100), none(), Failed).ending(), None);
        let steps = |steps| Budget { steps: Some(steps), ..Budget::default() };
        assert_eq!(worked(steps(1), none(), OutOfSteps).ending(), Some(OutOfSteps));
        assert_eq!(worked(none(), steps(1), OutOfSteps).ending(), None);
    }

    #[test]
    fn money_that_is_refused_is_the_run_s_unless_the_worker_had_less() {
        let refused = |run, worker| {
            let (class, message) = (ErrorClass::Budget, "too dear".to_owned());
            let asked = Told::default().asked(1, None, run).asked(2, Some(1), worker).answered(2, 90);
            let failed = asked.say(2, ModelFailed { turn: 2, attempt: 1, class, message, usage: Default::default() });
            failed.ended(2, TaskStatus::OutOfBudget).ending()
        };
        assert_eq!(refused(usd(100), none()), Some(TaskStatus::OutOfBudget));
        assert_eq!(refused(none(), none()), Some(TaskStatus::OutOfBudget), "what all runs of a day may cost");
        assert_eq!(refused(usd(1_000), usd(100)), None);
    }

    #[test]
    fn who_is_asked_later_and_does_it_has_settled_it() {
        let stopped = || worked(tokens(100), none(), TaskStatus::OutOfBudget);
        let beside = Told::default().asked(1, None, tokens(100)).asked(2, Some(1), none()).asked(3, Some(1), none());
        let beside = beside.answered(2, 90).ended(2, TaskStatus::OutOfBudget).ended(3, TaskStatus::Ok);
        assert_eq!(beside.ending(), Some(TaskStatus::OutOfBudget), "another one's work is not its own");
        let again = stopped().asked(3, Some(1), none());
        assert_eq!(again.ended(3, TaskStatus::Ok).ending(), None);
        let again = stopped().asked(3, Some(1), none());
        assert_eq!(again.ended(3, TaskStatus::Failed).ending(), Some(TaskStatus::OutOfBudget));
    }
}
