//! How a run or a task stands, as one mark of colour and shape and one word.

use choir_proto::{RunStatus, TaskStatus};

/// The six shapes of a standing, and the pause.
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
pub const fn task_words(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Running => "working",
        TaskStatus::Ok => "done",
        TaskStatus::NeedsInput => "needs input",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::OutOfTime => "out of time",
        TaskStatus::OutOfSteps => "out of steps",
        TaskStatus::OutOfBudget => "out of budget",
        TaskStatus::Unknown => "unknown",
    }
}
