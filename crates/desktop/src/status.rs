//! How a run or a task stands, as one mark of colour and shape and one word.

use choir_proto::run::TaskSummary;
use choir_proto::{RunStatus, TaskStatus};

/// The six shapes of a standing, the pause, and what has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A pulsing dot.
    Working,
    /// Two bars.
    Paused,
    /// One bar.
    Blocked,
    /// A filled check.
    Verified,
    /// A hollow check.
    Unverified,
    /// A cross.
    Failed,
    /// A question mark.
    Unknown,
    /// A ring.
    Ahead,
}

impl Mark {
    /// The class that draws it.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Verified => "verified",
            Self::Unverified => "unverified",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Ahead => "ahead",
        }
    }
}

impl From<RunStatus> for Mark {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Accepted | RunStatus::Running => Self::Working,
            RunStatus::Paused => Self::Paused,
            RunStatus::Blocked => Self::Blocked,
            RunStatus::Completed => Self::Unverified,
            RunStatus::Verified => Self::Verified,
            RunStatus::Unknown => Self::Unknown,
            RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::OutOfTime
            | RunStatus::OutOfSteps
            | RunStatus::OutOfBudget => Self::Failed,
        }
    }
}

impl From<TaskStatus> for Mark {
    fn from(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Running => Self::Working,
            TaskStatus::Ok => Self::Unverified,
            TaskStatus::NeedsInput => Self::Blocked,
            TaskStatus::Unknown => Self::Unknown,
            TaskStatus::Failed
            | TaskStatus::Cancelled
            | TaskStatus::OutOfTime
            | TaskStatus::OutOfSteps
            | TaskStatus::OutOfBudget => Self::Failed,
        }
    }
}

impl From<&TaskSummary> for Mark {
    fn from(task: &TaskSummary) -> Self {
        if task.verified { Self::Verified } else { task.status.into() }
    }
}

/// A run's standing in words.
pub const fn run_words(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Accepted => "accepted",
        RunStatus::Running => "working",
        RunStatus::Paused => "paused",
        RunStatus::Blocked => "waiting",
        RunStatus::Completed => "completed, unverified",
        RunStatus::Verified => "verified",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
        RunStatus::OutOfTime => "out of time",
        RunStatus::OutOfSteps => "out of steps",
        RunStatus::OutOfBudget => "out of budget",
        RunStatus::Unknown => "unknown",
    }
}

/// A task's standing in words.
pub const fn task_words(task: &TaskSummary) -> &'static str {
    match task.status {
        TaskStatus::Running => "working",
        TaskStatus::Ok if task.verified => "verified",
        TaskStatus::Ok => "done, unverified",
        TaskStatus::NeedsInput => "needs input",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::OutOfTime => "out of time",
        TaskStatus::OutOfSteps => "out of steps",
        TaskStatus::OutOfBudget => "out of budget",
        TaskStatus::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_only_done_looks_and_reads_other_than_what_was_verified() {
        assert_ne!(Mark::from(RunStatus::Completed), Mark::from(RunStatus::Verified));
        assert_ne!(run_words(RunStatus::Completed), run_words(RunStatus::Verified));
        let task = |verified: bool| -> TaskSummary {
            let id = "01970000-0000-7000-8000-000000000001";
            let task = json!({"task_id": id, "objective": "o", "status": "ok", "verified": verified});
            serde_json::from_value(task).unwrap()
        };
        assert_eq!((Mark::from(&task(false)), task_words(&task(false))), (Mark::Unverified, "done, unverified"));
        assert_eq!((Mark::from(&task(true)), task_words(&task(true))), (Mark::Verified, "verified"));
    }
}
