//! Checks of a task's result: in a fresh sandbox on the result's tree, by commands that its worker did not run.

use super::HarnessError;
use super::exec::{Place, TIMEOUT_MS};
use super::finish::{Home, let_go};
use crate::journal::Scope;
use choir_core::command::Step;
use choir_core::effect;
use choir_core::verify::{Checks, TOOL, egress, judge};
use choir_proto::event::{Actor, ToolOutcome, VerifyFinished, VerifyStarted};
use choir_proto::task::{CommandResult, TaskResult, VerifyResult};
use choir_proto::wire::{AssociateCaptured, Check, StartAssociate};
use choir_proto::{Event, Hash, TaskId};

impl Home<'_> {
    /// Checks the result and says so in it. The tree that was checked, if it may be merged.
    pub(super) async fn check(&self, checks: &Checks, result: &mut TaskResult) -> Result<Option<Hash>, HarnessError> {
        let captured = match self.context.harness.control.capture_associate(self.task).await {
            Ok(captured) => captured,
            Err(error) => {
                tracing::warn!(%error, "a result could not be taken to be checked");
                conclude(result, checks.unchecked());
                return Ok(None);
            }
        };
        let verify = match self.earlier(captured.result_tree) {
            Some(verify) => verify,
            None => self.check_anew(checks, captured).await?,
        };
        conclude(result, verify);
        Ok(Some(captured.result_tree))
    }

    /// What a check of this very tree said before a crash.
    fn earlier(&self, result_tree: Hash) -> Option<VerifyResult> {
        self.past().find_map(|event| match event {
            Event::VerifyFinished(finished) if finished.result_tree == result_tree => Some(finished.result.clone()),
            _ => None,
        })
    }

    async fn check_anew(&self, checks: &Checks, captured: AssociateCaptured) -> Result<VerifyResult, HarnessError> {
        let begun = self.past().filter(|event| matches!(event, Event::VerifyStarted(_))).count();
        // A check that a crash cut off is begun anew, in another sandbox and under other names.
        let attempt = begun as u32 + 1;
        let AssociateCaptured { base_tree, result_tree } = captured;
        let commands = checks.verify.commands.clone();
        self.append(VerifyStarted { attempt, result_tree, source: checks.source, commands }.into()).await?;
        let verifier = TaskId::new(effect::derived(&self.task.to_string(), &format!("{TOOL} {attempt}")));
        let start = StartAssociate {
            egress: Some(egress(self.egress)),
            run: None,
            check: Some(Check { base_tree, result_tree }),
        };
        let result = match self.context.harness.control.start_associate(verifier, start).await {
            Ok(_) => checks.concluded(self.run(verifier, attempt, &checks.verify.commands).await?),
            Err(error) => {
                tracing::warn!(%error, "no sandbox to check in");
                checks.unchecked()
            }
        };
        let_go(self.context, verifier).await;
        self.append(VerifyFinished { attempt, result_tree, result: result.clone() }.into()).await?;
        Ok(result)
    }

    /// Runs the checks in order until one does not succeed.
    async fn run(
        &self,
        verifier: TaskId,
        attempt: u32,
        commands: &[String],
    ) -> Result<Vec<(ToolOutcome, CommandResult)>, HarnessError> {
        let place = Place { context: self.context, associate: verifier, timeout_ms: TIMEOUT_MS };
        let mut ran = Vec::new();
        for (index, command) in (0..).zip(commands) {
            let arguments = serde_json::json!({ "command": command });
            let effect_id = effect::id(self.context.run, self.task, attempt, index, TOOL, &arguments);
            let came = place.run(&Step { effect_id, index, command: command.clone() }).await?;
            let succeeded = came.0 == ToolOutcome::Ok;
            ran.push(came);
            if !succeeded {
                break;
            }
        }
        Ok(ran)
    }

    fn past(&self) -> impl Iterator<Item = &Event> {
        let own = |header: &choir_proto::event::Header| header.task == Some(self.task);
        self.context.past.events().filter(move |(header, _)| own(header)).map(|(_, event)| event)
    }

    async fn append(&self, event: Event) -> Result<(), HarnessError> {
        let scope = Scope::of(Actor::Computer).run(self.context.run).task(self.task);
        self.context.harness.journal.append(&scope, vec![event]).await?;
        Ok(())
    }
}

fn conclude(result: &mut TaskResult, verify: VerifyResult) {
    let (status, why) = judge(&verify);
    result.status = status;
    if let Some(why) = why {
        result.summary = format!("{} {why} Nothing was merged.", result.summary).trim().to_owned();
    }
    result.verify = Some(verify);
}
