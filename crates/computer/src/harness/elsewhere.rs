//! Tools of servers elsewhere: what they offer becomes an event before a model hears of it, and a call is an effect.

use super::perform::{Performed, Performer};
use super::{Driver, HarnessError};
use choir_core::agent::Begin;
use choir_core::{effect, tool};
use choir_proto::event::ToolOutcome;
use choir_proto::wire::mcp::{CallTool, Called, WhatTools};
use choir_proto::{Event, Role};

/// Whether servers elsewhere have tools for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// None are meant for it. A conductor never has any: it acts through others alone.
    Nothing,
    /// Asked before every turn: a server may have changed, died or come back.
    Asked,
}

impl Elsewhere {
    pub(super) fn of(role: Role) -> Self {
        match role {
            Role::Conductor => Self::Nothing,
            Role::Writer | Role::Terminal | Role::Researcher => Self::Asked,
        }
    }
}

impl Driver {
    /// Appends what servers offer, if that is new. Whether it was.
    pub(super) async fn offers(&mut self) -> Result<bool, HarnessError> {
        if self.elsewhere == Elsewhere::Nothing {
            return Ok(false);
        }
        let what = WhatTools { task: self.identity.task, role: self.identity.role };
        let offers = tokio::select! {
            offers = self.context.harness.control.offers(what) => offers,
            // The loop sees why it was stopped.
            stop = super::stopped(self.context.signal.clone()) => return stop.map(|()| true),
            // A server that hangs takes no more time than there is.
            () = tokio::time::sleep(self.purse.time_left()) => return Ok(true),
        };
        let offers = match offers {
            Ok(offers) => offers.offers,
            // The agent goes on with what it has; a call says what is wrong.
            Err(error) => {
                tracing::warn!(%error, "nobody could say which tools there are");
                return Ok(false);
            }
        };
        if offers.is_empty() {
            self.elsewhere = Elsewhere::Nothing;
        }
        let new: Vec<Event> =
            offers.into_iter().filter(|offer| !self.agent.knows_offer(offer)).map(Event::from).collect();
        if new.is_empty() {
            return Ok(false);
        }
        self.append(new).await?;
        Ok(true)
    }
}

impl Performer {
    /// Calls a tool elsewhere. Whatever goes wrong there is a result like any other.
    pub(super) async fn elsewhere(&self, elsewhere: &tool::Elsewhere, begin: &Begin) -> Performed {
        let call = CallTool {
            task: self.identity.task,
            run: self.identity.run,
            effect_id: begin.effect_id.clone(),
            inbox_id: effect::question(&begin.effect_id),
            tool: begin.call.name.clone(),
            definition: elsewhere.definition,
            arguments: elsewhere.arguments.clone(),
            timeout_ms: self.purse.time_left().as_millis() as u64,
        };
        let called = tokio::select! {
            called = self.context.harness.control.call_tool(call) => called,
            // A server need not know that nobody waits any more; what it did meanwhile is nobody's knowledge.
            _ = super::stopped(self.context.signal.clone()) => {
                return Performed::new(ToolOutcome::Cancelled, "Stopped while it ran; nobody knows how far it came.".into());
            }
        };
        match called {
            Ok(Called::Answered { content, is_error }) => {
                let outcome = if is_error { ToolOutcome::Error } else { ToolOutcome::Ok };
                Performed::new(outcome, content)
            }
            Ok(Called::Failed { message }) => Performed::new(ToolOutcome::Error, message),
            Ok(Called::Unknown { message }) => Performed::new(ToolOutcome::Unknown, message),
            Err(error) => match self.known(&begin.effect_id).await {
                Some(known) => known,
                None => Performed::new(ToolOutcome::Error, error.to_string()),
            },
        }
    }
}
