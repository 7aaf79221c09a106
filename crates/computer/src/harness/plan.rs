//! The conductor's plan: what it would delegate, shown before anything is, and the account of everybody at work.

use super::past::Past;
use super::{Driver, HarnessError, Signal};
use choir_core::agent::Begin;
use choir_core::roster::Roster;
use choir_core::tool::Tool;
use choir_proto::Role;
use choir_proto::model::ModelRequest;
use std::fmt::Write;

/// Characters of one item of a plan.
const ITEM_CHARACTERS_MAX: usize = 300;

impl Driver {
    /// A run that shows its plan first waits here, before the first delegation. A person who says something else instead of
    /// yes gets another plan: these calls are refused with their words.
    pub(super) async fn planned(&mut self, mut calls: Vec<Begin>) -> Result<Vec<Begin>, HarnessError> {
        let plan = checklist(&calls);
        if self.parent.is_some() || !self.context.plan_first || self.approved || plan.is_empty() {
            return Ok(calls);
        }
        let mut signal = self.context.signal.clone();
        let (heard, resumed) = (signal.borrow().steered.len(), signal.borrow().resumed);
        let journal = &self.context.harness.journal;
        self.context.waiting.for_plan(journal, self.context.run, plan).await?;
        let is_decided = |signal: &Signal| signal.resumed > resumed || signal.cancelled || signal.steered.len() > heard;
        let is_refused = {
            let signal = signal.wait_for(is_decided).await.map_err(|_| HarnessError::LetGo)?;
            self.approved = signal.resumed > resumed;
            !self.approved && !signal.cancelled
        };
        self.context.waiting.go_on(journal, self.context.run).await?;
        if is_refused {
            for call in &mut calls {
                call.tool = Err("The person wants another plan. Their words follow.".to_owned());
            }
        }
        Ok(calls)
    }

    /// A conductor is told with every turn who works for it and how they stand, as far as that fits.
    pub(super) async fn told(&self, mut request: ModelRequest) -> Result<ModelRequest, HarnessError> {
        if self.identity.role != Role::Conductor {
            return Ok(request);
        }
        let mut roster = Roster::default();
        for (header, event) in Past::read(self.context.harness.journal.log(), self.identity.run).await?.events() {
            roster.apply(header, event);
        }
        if roster.len() > 1 {
            request.system.push_str("\n\nEverybody at work, as data:\n");
            request.system.push_str(&roster.account());
        }
        Ok(request)
    }
}

/// What would be delegated, as a list to tick off.
fn checklist(calls: &[Begin]) -> String {
    let mut plan = String::new();
    for call in calls {
        if let Ok(Tool::Delegate(delegation)) = &call.tool {
            let objective: String = delegation.objective.chars().take(ITEM_CHARACTERS_MAX).collect();
            let objective = objective.split_whitespace().collect::<Vec<_>>().join(" ");
            // Writing to a string cannot fail.
            writeln!(plan, "- [ ] {}: {objective}", delegation.role.name()).ok();
        }
    }
    plan
}
