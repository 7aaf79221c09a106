//! How an agent ends: its changes come home or stay out, and everybody who asked is told.

use super::{Driver, HarnessError};
use choir_core::agent::Ending;
use choir_core::fold::task::running;
use choir_proto::Role;
use choir_proto::event::TaskFinished;
use choir_proto::task::{Diff, TaskResult, TaskStatus, TaskUsage};
use choir_proto::wire::FinishAssociate;

impl Driver {
    /// Appends what came of the agent.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<TaskResult, HarnessError> {
        let usage = self.agent.usage();
        let mut result = TaskResult {
            status: ending.status,
            summary: ending.summary,
            usage: TaskUsage { time_s: self.time_ms() as f64 / 1000.0, tokens: usage.tokens(), usd: usage.usd },
            ..running(self.identity.task)
        };
        if self.identity.role == Role::Terminal {
            self.bring_home(&mut result).await;
        }
        self.append(vec![TaskFinished { result: result.clone() }.into()]).await?;
        Ok(result)
    }

    /// Only an `ok` merges; any other ending keeps its tree and merges nothing.
    async fn bring_home(&self, result: &mut TaskResult) {
        let merge = result.status == TaskStatus::Ok;
        match self.context.harness.control.finish_associate(self.identity.task, FinishAssociate { merge }).await {
            Ok(finished) => {
                result.result_tree = finished.result_tree;
                result.files_changed = finished.files_changed;
                result.diff = Some(Diff { format: "git".into(), content: finished.diff });
                if !finished.conflicts.is_empty() {
                    result.status = TaskStatus::NeedsInput;
                    result.conflicts = finished.conflicts;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "an associate could not be ended in order");
                if merge {
                    result.status = TaskStatus::Unknown;
                    result.summary = format!("{} (Whether its changes arrived is not known: {error})", result.summary);
                }
            }
        }
    }
}
