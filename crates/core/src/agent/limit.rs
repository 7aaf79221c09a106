//! Walls around an agent, each with its own ending.

use super::Ending;
use choir_proto::Usd;
use choir_proto::model::Usage;
use choir_proto::task::{Budget, TaskStatus};

/// Walls that hold where nobody asked for others. "Unlimited" does not exist.
const TIME_MS: u64 = 30 * 60 * 1000;
const STEPS: u32 = 50;
const TOKENS: u64 = 1_000_000;
const MONEY: Usd = Usd(5_000_000);

/// Where an agent must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time at work.
    pub time_ms: u64,
    /// Turns of the model.
    pub steps: u32,
    /// Tokens of any sort.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
}

/// What only the shell can measure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Monotonic time at work.
    pub time_ms: u64,
}

impl Limits {
    /// The walls that a budget asks for.
    pub fn of(budget: Option<&Budget>) -> Self {
        let budget = budget.copied().unwrap_or_default();
        let time_ms = budget.time_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        Self {
            time_ms: time_ms.map_or(TIME_MS, |seconds| (seconds * 1000.0) as u64),
            steps: budget.steps.unwrap_or(STEPS),
            tokens: budget.tokens.unwrap_or(TOKENS),
            usd: budget.usd.unwrap_or(MONEY),
        }
    }

    /// The ending, if a wall is reached before the next turn.
    pub fn reached(&self, turns: u32, usage: &Usage, spent: Spent) -> Option<Ending> {
        let end = |status, summary: String| Some(Ending { status, summary });
        if spent.time_ms >= self.time_ms {
            return end(TaskStatus::OutOfTime, format!("The time of {} s is over.", self.time_ms / 1000));
        }
        if turns >= self.steps {
            return end(TaskStatus::OutOfSteps, format!("All {} steps are used.", self.steps));
        }
        if usage.tokens() >= self.tokens {
            return end(TaskStatus::OutOfBudget, format!("All {} tokens are used.", self.tokens));
        }
        if usage.usd >= self.usd && self.usd > Usd(0) || self.usd == Usd(0) && usage.usd > Usd(0) {
            return end(TaskStatus::OutOfBudget, format!("The budget of ${:.2} is used.", self.usd.dollars()));
        }
        None
    }
}
