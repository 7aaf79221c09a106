//! Walls around an agent and everything below it, each with its own ending.

use super::{Ending, compact, cut_off};
use choir_proto::event::{Header, TaskRequested};
use choir_proto::model::{ModelRequest, ToolSpec, Usage};
use choir_proto::task::{Budget, TaskStatus};
use choir_proto::{Event, Role, TaskId, Timestamp, Usd};
use std::collections::BTreeSet;

/// Walls that hold where nobody asked for others. "Unlimited" does not exist: what a run may cost the person has set in
/// control, which holds the money.
const WORKER: Limits =
    Limits { time_ms: 30 * 60 * 1000, patience: Patience::Endless, steps: 50, tokens: 1_000_000, usd: None };

/// The first agent's walls stand around the whole run.
const FIRST: Limits =
    Limits { time_ms: 4 * 60 * 60 * 1000, patience: Patience::Endless, steps: 200, tokens: 5_000_000, usd: None };

/// Of English; of code a token has fewer.
const BYTES_PER_TOKEN: u64 = 4;

/// Agents below agents. A plan that needs more is a loop.
pub const DEPTH_MAX: u32 = 4;

/// Workers of a run at once, on each level of its tree: each may have a sandbox, and all of them ask the same provider.
pub const WORKERS_AT_ONCE_MAX: usize = 8;

/// Workers of a run in all. More than steps for them is a model that only delegates.
pub const WORKERS_MAX: u32 = 256;

/// Where an agent and those below it must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time at work.
    pub time_ms: u64,
    /// How long a model that fails is waited for.
    pub patience: Patience,
    /// Turns of the model.
    pub steps: u32,
    /// Tokens of any sort.
    pub tokens: u64,
    /// Money, where somebody asked for a wall of their own.
    pub usd: Option<Usd>,
}

/// What a wait for a model that fails is to a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// No time at work: nobody said when they want an end, and a provider that fails costs nothing but patience.
    Endless,
    /// Time like any other. Whoever gave a whole run its time wants an end by then, whoever is to blame.
    WithTime,
}

/// Where in a run's tree an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nobody asked it but a person.
    First,
    /// Another agent asked it.
    Below,
    /// A worker asked it something, and waits: a conductor that says one word and ends.
    Aside,
}

impl Place {
    /// Nobody can delegate to a conductor: one that stands below somebody was asked something.
    pub fn of(role: Role, parent: Option<TaskId>) -> Self {
        match (parent, role) {
            (None, _) => Self::First,
            (Some(_), Role::Conductor) => Self::Aside,
            (Some(_), Role::Writer | Role::Terminal | Role::Researcher) => Self::Below,
        }
    }
}

/// What an agent and those below it have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Monotonic time at work; waiting for a person is no work.
    pub time_ms: u64,
    /// Turns of the model.
    pub steps: u32,
    /// Tokens of any sort.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
}

/// One budget: what is allowed and what is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// What is allowed.
    pub limits: Limits,
    /// What is used.
    pub spent: Spent,
}

impl Spent {
    /// What a task and everybody below it had used.
    pub fn of(past: &[(Header, Event)], task: TaskId) -> Self {
        Self::until(past, task, None)
    }

    /// The same for whoever takes it up now: what a crash cut off counts as well.
    pub fn until(past: &[(Header, Event)], task: TaskId, now: Option<Timestamp>) -> Self {
        let mut below = BTreeSet::from([task]);
        let mut spent = Self { time_ms: cut_off::ms(past, task, now), ..Self::default() };
        // Who asks comes before who is asked, so that one pass finds everybody.
        for (header, event) in past {
            match event {
                Event::TaskRequested(TaskRequested { parent: Some(parent), .. }) if below.contains(parent) => {
                    below.extend(header.task);
                }
                Event::ModelCalled(called) if header.task.is_some_and(|task| below.contains(&task)) => {
                    spent.add(&called.usage);
                    if header.task == Some(task) {
                        spent.time_ms += called.duration_ms;
                    }
                }
                Event::ModelFailed(failed) if header.task.is_some_and(|task| below.contains(&task)) => {
                    spent.charge(&failed.usage);
                }
                // A child's own time is in the time of the call that waited for it.
                Event::ToolFinished(tool) if header.task == Some(task) => spent.time_ms += tool.duration_ms,
                _ => {}
            }
        }
        spent
    }

    /// Adds one answer of a model.
    pub fn add(&mut self, usage: &Usage) {
        self.steps += 1;
        self.charge(usage);
    }

    /// Adds what an answer took that broke off.
    pub fn charge(&mut self, usage: &Usage) {
        self.tokens = self.tokens.saturating_add(usage.tokens());
        self.usd = self.usd + usage.usd;
    }
}

impl Limits {
    /// The walls that a budget asks for.
    pub fn of(budget: Option<&Budget>, place: Place) -> Self {
        let default = match place {
            Place::First => FIRST,
            Place::Below | Place::Aside => WORKER,
        };
        let budget = budget.copied().unwrap_or_default();
        let time_ms = budget.time_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let patience = match (place, time_ms) {
            (Place::First, Some(_)) => Patience::WithTime,
            (Place::First | Place::Below | Place::Aside, _) => Patience::Endless,
        };
        Self {
            time_ms: time_ms.map_or(default.time_ms, |seconds| (seconds * 1000.0) as u64),
            patience,
            steps: budget.steps.unwrap_or(default.steps),
            tokens: budget.tokens.unwrap_or(default.tokens),
            usd: budget.usd.or(default.usd),
        }
    }
}

impl Account {
    /// What is left of the time.
    pub fn time_left_ms(&self) -> u64 {
        self.limits.time_ms.saturating_sub(self.spent.time_ms)
    }

    /// What is left of the money, where there is a wall.
    pub fn usd_left(&self) -> Option<Usd> {
        self.limits.usd.map(|limit| Usd(limit.0.saturating_sub(self.spent.usd.0)))
    }

    /// What is left of the tokens.
    pub(crate) fn tokens_left(&self) -> u64 {
        self.limits.tokens.saturating_sub(self.spent.tokens)
    }

    fn wall(&self) -> Option<Ending> {
        let Self { limits, spent } = self;
        let end = |status, summary: String| Some(Ending { status, summary });
        if spent.time_ms >= limits.time_ms {
            return end(TaskStatus::OutOfTime, format!("The time of {} s is over.", limits.time_ms / 1000));
        }
        if spent.steps >= limits.steps {
            return end(TaskStatus::OutOfSteps, format!("All {} steps are used.", limits.steps));
        }
        if spent.tokens >= limits.tokens {
            return end(TaskStatus::OutOfBudget, format!("All {} tokens are used.", limits.tokens));
        }
        // A budget of nothing still allows models that cost nothing.
        let is_free = |limit: Usd| limit == Usd(0) && spent.usd == Usd(0);
        match limits.usd.filter(|limit| spent.usd >= *limit && !is_free(*limit)) {
            Some(limit) => end(TaskStatus::OutOfBudget, format!("The budget of {limit} is used.")),
            None => None,
        }
    }
}

/// What an answer may take of the tokens that are left, here and further up, after so many for the question; the ending, if
/// not even that is left.
pub(super) fn answer_tokens(accounts: &[Account], question: u64) -> Result<u32, Ending> {
    let tightest = accounts.iter().min_by_key(|account| account.tokens_left());
    let Some(account) = tightest else { return Ok(u32::MAX) };
    match account.tokens_left().checked_sub(question).filter(|left| *left > 0) {
        Some(left) => Ok(u32::try_from(left).unwrap_or(u32::MAX)),
        None => {
            let (left, all) = (account.tokens_left(), account.limits.tokens);
            let summary =
                format!("{left} of {all} tokens are left, and the next question alone takes about {question}.");
            Err(Ending { status: TaskStatus::OutOfBudget, summary })
        }
    }
}

/// What a question takes, modestly: a run is not to end for tokens that it would not have used.
pub(super) fn question_tokens(request: &ModelRequest) -> u64 {
    let tool = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len();
    let beside = request.system.len() + request.tools.iter().map(tool).sum::<usize>();
    (beside as u64 + compact::bytes(&request.messages)) / BYTES_PER_TOKEN
}

/// What a question and its answer may take at most.
pub fn most_tokens(request: &ModelRequest) -> u64 {
    question_tokens(request) + u64::from(request.tokens_max)
}

/// The ending, if a wall is reached before the next turn: the agent's own, or one further up.
pub fn wall(accounts: &[Account]) -> Option<Ending> {
    accounts.iter().find_map(Account::wall)
}
