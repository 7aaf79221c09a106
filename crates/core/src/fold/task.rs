//! Tasks and what came of them.

use super::Fold;
use super::run::GONE;
use choir_proto::Event;
use choir_proto::event::{BlockedOn, Header, TaskFinished};
use choir_proto::task::{TaskResult, TaskStatus, Wanted};
use choir_proto::{RunId, TaskId};

/// Every task, by id.
pub struct Tasks;

impl Fold for Tasks {
    type Row = TaskResult;
    const NAME: &'static str = "tasks";
    const VERSION: u32 = 4;

    fn key(header: &Header, event: &Event) -> Option<String> {
        // Of a task of its own, whose run bears the same name; another run has no row here.
        if matches!(event, Event::RunBlocked(_) | Event::RunStarted(_)) {
            return header.run.map(|run| run.to_string());
        }
        let concerned = matches!(
            event,
            Event::TaskRequested(_)
                | Event::TaskStarted(_)
                | Event::TaskConflicted(_)
                | Event::TaskFinished(_)
                | Event::ChecksAccepted(_)
                | Event::InboxAsked(_)
                | Event::InboxDecided(_)
        );
        header.task.filter(|_| concerned || event.was::<TaskFinished>()).map(|task| task.to_string())
    }

    fn apply(row: &mut Option<TaskResult>, header: &Header, event: &Event) {
        match event {
            Event::TaskRequested(_) => *row = header.task.map(running),
            Event::TaskStarted(started) => {
                if let Some(task) = row {
                    // Whoever comes back to work says so without it.
                    task.base_tree = started.base_tree.or(task.base_tree);
                }
            }
            // It has not ended: a person has to say what stays.
            Event::TaskConflicted(conflicted) => *row = Some(conflicted.result.clone()),
            Event::TaskFinished(finished) => *row = Some(finished.result.clone()),
            Event::ChecksAccepted(_) => {
                if let Some(verify) = row.as_mut().and_then(|task| task.verify.as_mut()) {
                    verify.accepted = true;
                }
            }
            Event::InboxAsked(asked) => wait(row, Some(&asked.question)),
            Event::InboxDecided(_) => wait(row, None),
            Event::RunBlocked(blocked) if blocked.on == BlockedOn::Model => wait_for_model(row, Some(&blocked.message)),
            Event::RunStarted(_) => wait_for_model(row, None),
            event if event.was::<TaskFinished>() => *row = header.task.map(ended_somehow),
            _ => {}
        }
    }
}

/// A task that has not ended waits for the person, or goes on.
fn wait(row: &mut Option<TaskResult>, question: Option<&String>) {
    let open = |status| matches!(status, TaskStatus::Running | TaskStatus::NeedsInput);
    if let Some(task) = row.as_mut().filter(|task| open(task.status) && task.result_tree.is_none()) {
        task.status = if question.is_some() { TaskStatus::NeedsInput } else { TaskStatus::Running };
        task.questions = question.into_iter().cloned().collect();
    }
}

/// The same where it waits for a model: then nobody is asked anything, and why it waits is said.
fn wait_for_model(row: &mut Option<TaskResult>, why: Option<&String>) {
    if row.as_ref().is_some_and(|task| task.questions.is_empty()) {
        wait(row, None);
        if let Some(task) = row.as_mut().filter(|task| task.status == TaskStatus::Running && task.result_tree.is_none())
        {
            task.status = if why.is_some() { TaskStatus::NeedsInput } else { TaskStatus::Running };
            task.summary = why.cloned().unwrap_or_default();
        }
    }
}

/// Tasks of their own, not of a run, that have not ended, by id: what a start has to pick up again.
pub struct ActiveTasks;

impl Fold for ActiveTasks {
    type Row = ();
    const NAME: &'static str = "active_tasks";
    const VERSION: u32 = 2;

    fn key(header: &Header, event: &Event) -> Option<String> {
        let concerned =
            matches!(event, Event::TaskRequested(_) | Event::TaskFinished(_)) || event.was::<TaskFinished>();
        header.task.filter(|task| concerned && header.run == Some(run_of(*task))).map(|task| task.to_string())
    }

    fn apply(row: &mut Option<()>, _: &Header, event: &Event) {
        *row = matches!(event, Event::TaskRequested(_)).then_some(());
    }
}

/// The run of every task, by the task's id.
pub struct TaskRuns;

impl Fold for TaskRuns {
    type Row = RunId;
    const NAME: &'static str = "task_runs";
    const VERSION: u32 = 1;

    fn key(header: &Header, event: &Event) -> Option<String> {
        header.task.filter(|_| matches!(event, Event::TaskRequested(_))).map(|task| task.to_string())
    }

    fn apply(row: &mut Option<RunId>, header: &Header, _: &Event) {
        *row = header.run;
    }
}

/// What the result of a task is to carry, by the task's id, where somebody said so.
pub struct TaskWishes;

impl Fold for TaskWishes {
    type Row = Wanted;
    const NAME: &'static str = "task_wishes";
    const VERSION: u32 = 1;

    fn key(header: &Header, event: &Event) -> Option<String> {
        let said = matches!(event, Event::TaskRequested(requested) if requested.request.wanted.is_some());
        header.task.filter(|_| said).map(|task| task.to_string())
    }

    fn apply(row: &mut Option<Wanted>, _: &Header, event: &Event) {
        if let Event::TaskRequested(requested) = event {
            *row = requested.request.wanted;
        }
    }
}

/// The run under which the events of a task of its own are kept: it bears the same name.
pub fn run_of(task: TaskId) -> RunId {
    RunId::from(*task.as_bytes())
}

/// A task that has ended, and nobody can say how any more.
pub fn ended_somehow(task_id: TaskId) -> TaskResult {
    TaskResult { status: TaskStatus::Unknown, summary: GONE.to_owned(), ..running(task_id) }
}

/// A task of which nothing is known yet.
pub fn running(task_id: TaskId) -> TaskResult {
    TaskResult {
        task_id,
        status: TaskStatus::Running,
        summary: String::new(),
        base_tree: None,
        result_tree: None,
        merged_tree: None,
        over_tree: None,
        held: false,
        diff: None,
        files_changed: Vec::new(),
        commands: Vec::new(),
        verify: None,
        conflicts: Vec::new(),
        forbidden: Vec::new(),
        left_out: None,
        questions: Vec::new(),
        suggested_next: None,
        usage: Default::default(),
    }
}
