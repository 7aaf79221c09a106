//! Waiting for a person's word. What was asked and what was said are in the log; control has the originals.

use super::account::{Purse, Whom};
use super::crew::Seat;
use super::{HarnessError, RunContext, go_on, stopped};
use crate::control::ControlError;
use crate::journal::Scope;
use choir_proto::event::{Actor, InboxAsked, InboxDecided};
use choir_proto::inbox::{Ask, Asked, Matter, Verdict, Waits};
use choir_proto::{InboxId, TaskId};
use std::time::Duration;

/// What a wait for the person needs.
pub(super) struct Person<'a> {
    pub(super) context: &'a RunContext,
    /// In whose name it is asked.
    pub(super) scope: Scope,
    /// Whose time stands still meanwhile.
    pub(super) purse: Option<&'a Purse>,
    /// Whose place others may have meanwhile.
    pub(super) seat: Option<&'a Seat>,
}

impl Person<'_> {
    /// Puts something to the person and waits for the word. Control may know it without asking.
    pub(super) async fn ask(
        &self,
        id: InboxId,
        matter: Matter,
        deadline: Option<Duration>,
    ) -> Result<Result<Verdict, ControlError>, HarnessError> {
        self.ask_for(None, id, matter, deadline).await
    }

    /// The same, about something that would be done in another sandbox than the task's own.
    pub(super) async fn ask_for(
        &self,
        sandbox: Option<TaskId>,
        id: InboxId,
        matter: Matter,
        deadline: Option<Duration>,
    ) -> Result<Result<Verdict, ControlError>, HarnessError> {
        let Some(task) = self.scope.task else { return Err(HarnessError::LetGo) };
        let ask = Ask { run: self.context.run, task, sandbox, matter };
        match self.context.harness.control.ask(id, ask).await {
            Err(ControlError::Gone(_)) => Err(HarnessError::LetGo),
            Err(error) => Ok(Err(error)),
            Ok(Asked::Waits(waits)) => self.wait(waits, deadline).await,
            // After a crash in between, what the log was not told yet is told now.
            Ok(Asked::Decided { verdict }) if self.context.past.asked(id) => {
                self.conclude(id, &verdict).await?;
                Ok(Ok(verdict))
            }
            Ok(Asked::Decided { verdict }) => Ok(Ok(verdict)),
        }
    }

    /// Waits for a word about something that is in the inbox already.
    pub(super) async fn wait(
        &self,
        waits: Waits,
        deadline: Option<Duration>,
    ) -> Result<Result<Verdict, ControlError>, HarnessError> {
        let harness = &self.context.harness;
        let id = waits.id;
        let message = format!("waiting for you: {}", waits.question);
        if !self.context.past.asked(id) {
            let Waits { id, kind, question, subject, hash, answers } = waits;
            let asked = InboxAsked { inbox_id: id, ask: kind, question, subject, hash, answers };
            harness.journal.append(&self.scope, vec![asked.into()]).await?;
        }
        self.context.waiting.for_person(&harness.journal, self.context.run, message).await?;
        let waits = self.purse.map(|purse| purse.wait(Whom::Person));
        if let Some(seat) = self.seat {
            seat.stand_aside(&self.context.crew);
        }
        let verdict = tokio::select! {
            verdict = harness.control.verdict(id) => verdict,
            () = after(deadline) => self.give_up(id, Verdict::Expired).await,
            stop = stopped(self.context.signal.clone()) => {
                stop?;
                self.give_up(id, Verdict::Withdrawn).await
            }
        };
        // Nobody has said anything: without control this process ends too, and whoever takes the run next asks again. The log
        // says that it waits, and nothing else may stand there.
        if matches!(verdict, Err(ControlError::Gone(_))) {
            return Err(HarnessError::LetGo);
        }
        if let Ok(verdict) = &verdict {
            self.conclude(id, verdict).await?;
        }
        self.context.waiting.heard(&harness.journal, self.context.run).await?;
        // A yes is no word to go on: a run that was paused meanwhile is still paused.
        go_on(self.context.signal.clone()).await?;
        drop(waits);
        // What was said is in the log; whoever was stopped on the way back makes nothing of it.
        Ok(if self.come_back().await? { verdict } else { Ok(Verdict::Withdrawn) })
    }

    /// Takes a question back. A word that came in the same moment still counts.
    async fn give_up(&self, id: InboxId, otherwise: Verdict) -> Result<Verdict, ControlError> {
        Ok(match self.context.harness.control.withdraw(id).await? {
            Some(verdict) => verdict,
            None => otherwise,
        })
    }

    async fn conclude(&self, id: InboxId, verdict: &Verdict) -> Result<(), HarnessError> {
        if self.context.past.decided(id) {
            return Ok(());
        }
        let actor = match verdict {
            Verdict::Expired | Verdict::Withdrawn => Actor::Computer,
            Verdict::Approved { .. } | Verdict::Denied { .. } | Verdict::Answered { .. } => Actor::Person,
        };
        let decided = InboxDecided { inbox_id: id, decision: verdict.clone() };
        let scope = Scope { actor, ..self.scope.clone() };
        self.context.harness.journal.append(&scope, vec![decided.into()]).await?;
        Ok(())
    }
}

async fn after(deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline).await,
        None => std::future::pending().await,
    }
}
