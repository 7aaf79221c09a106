//! What becomes of paths that changed on both sides: the person says it, and it is done before the task ends.

use super::finish::{Home, again, left_alone, say_too};
use super::person::Person;
use super::{HarnessError, cancelled};
use choir_core::{effect, settle};
use choir_proto::InboxId;
use choir_proto::event::TaskConflicted;
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::task::{Side, TaskResult, TaskStatus};
use choir_proto::wire::{AssociateFinished, TakeSide};

/// What is said before a question that was asked before.
const ONCE_MORE: &str = "It is not settled yet: the answer was none of the three words, or it has changed once more.";

impl Home<'_> {
    /// Has the person say what stays where both had changed, and does it. A crash at any place finds the same questions under
    /// the same names, and what was done for the answers is done once.
    pub(super) async fn settle(&self, person: &Person<'_>, result: &mut TaskResult) -> Result<(), HarnessError> {
        for attempt in 0.. {
            let before = self.context.past.conflicts(self.task, attempt);
            let conflicts = before.map_or_else(|| result.conflicts.clone(), <[String]>::to_vec);
            if conflicts.is_empty() {
                break;
            }
            let question = question(attempt, &conflicts);
            if before.is_none() {
                self.say_what_waits(person, result, &question).await?;
            }
            self.context.gate.wait();
            let id = InboxId::new(effect::derived(&self.task.to_string(), &format!("conflict {attempt}")));
            let verdict = person.ask(id, Matter::Question { question, answers: Side::ALL.to_vec() }, None).await?;
            let side = match verdict {
                _ if !self.context.gate.come_home() => {
                    stop(result, &conflicts);
                    return Ok(());
                }
                Ok(Verdict::Withdrawn) => {
                    stop(result, &conflicts);
                    return Ok(());
                }
                Ok(Verdict::Answered { text }) => settle::side(&text),
                // Who does not want to answer wants nothing changed.
                Ok(Verdict::Denied { .. }) => Some(Side::Mine),
                Ok(Verdict::Approved { .. } | Verdict::Expired) => None,
                Err(error) => {
                    say_too(&mut result.summary, &left_alone(&conflicts));
                    say_too(&mut result.summary, &format!("Nobody could be asked about it: {error}"));
                    return Ok(());
                }
            };
            if let Some(side) = side
                && self.decide(TakeSide { attempt, side }, conflicts, result).await
            {
                break;
            }
        }
        Ok(())
    }

    /// What is known of the result while the person thinks about it.
    async fn say_what_waits(
        &self,
        person: &Person<'_>,
        result: &TaskResult,
        question: &str,
    ) -> Result<(), HarnessError> {
        let mut waits = TaskResult { questions: vec![question.to_owned()], ..result.clone() };
        say_too(&mut waits.summary, &left_alone(&result.conflicts));
        let conflicted = TaskConflicted { result: waits };
        self.context.harness.journal.append(&person.scope, vec![conflicted.into()]).await?;
        Ok(())
    }

    /// Does what the person said; whether that settles it.
    async fn decide(&self, take: TakeSide, conflicts: Vec<String>, result: &mut TaskResult) -> bool {
        let side = take.side;
        let taken = match side {
            // Nothing is to be done.
            Side::Mine => Ok(None),
            Side::Theirs | Side::Both => {
                again(|| self.context.harness.control.take_side(self.task, take.clone())).await.map(Some)
            }
        };
        let mut beside = Vec::new();
        let still = match taken {
            Ok(None) => Vec::new(),
            Ok(Some(AssociateFinished { merged_tree, over_tree, beside: came, conflicts: still, .. })) => {
                (result.merged_tree, result.over_tree, beside) = (merged_tree, over_tree, came);
                if side == Side::Theirs { still } else { Vec::new() }
            }
            Err(error) => {
                result.status = TaskStatus::Unknown;
                let said =
                    format!("Whether what you decided about {} was done is not known: {error}", conflicts.join(", "));
                say_too(&mut result.summary, &said);
                return true;
            }
        };
        let settled: Vec<String> = conflicts.into_iter().filter(|path| !still.contains(path)).collect();
        if !settled.is_empty() {
            say_too(&mut result.summary, &settle::decided(side, &settled, &beside));
        }
        result.conflicts = if side == Side::Theirs { still.clone() } else { settled };
        if still.is_empty() && result.forbidden.is_empty() {
            result.status = TaskStatus::Ok;
        }
        still.is_empty()
    }
}

fn question(attempt: u32, conflicts: &[String]) -> String {
    let asked = settle::which_side(conflicts);
    if attempt == 0 { asked } else { format!("{ONCE_MORE} {asked}") }
}

/// The person wants no more: what came in stays, and what did not come in stays out.
fn stop(result: &mut TaskResult, conflicts: &[String]) {
    result.status = cancelled().status;
    conflicts.clone_into(&mut result.conflicts);
    say_too(&mut result.summary, &left_alone(conflicts));
    say_too(&mut result.summary, "It was stopped while it waited for your word about that.");
}
