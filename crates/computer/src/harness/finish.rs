//! How an agent ends: its changes come home or stay out, and everybody who asked is told.

use super::{Driver, Harness, HarnessError, RunContext};
use choir_core::agent::Ending;
use choir_core::fold::task::running;
use choir_proto::event::TaskFinished;
use choir_proto::task::{Diff, TaskResult, TaskStatus, TaskUsage};
use choir_proto::wire::FinishAssociate;
use choir_proto::{Role, TaskId};

/// Bytes of a difference that an event carries itself.
const DIFF_BYTES_INLINE_MAX: usize = 32 * 1024;

impl Driver {
    /// Appends what came of the agent.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<TaskResult, HarnessError> {
        let usage = self.agent.usage();
        let mut result = TaskResult {
            status: ending.status,
            summary: ending.summary,
            base_tree: self.base_tree,
            usage: TaskUsage { time_s: self.time_ms() as f64 / 1000.0, tokens: usage.tokens(), usd: usage.usd },
            ..running(self.identity.task)
        };
        if self.identity.role == Role::Terminal {
            bring_home(&self.context, self.identity.task, &mut result).await;
        }
        self.append(vec![TaskFinished { result: result.clone() }.into()]).await?;
        if self.identity.role == Role::Terminal {
            let_go(&self.context, self.identity.task).await;
        }
        Ok(result)
    }
}

/// Only an `ok` merges; any other ending keeps its tree and merges nothing.
pub(super) async fn bring_home(context: &RunContext, task: TaskId, result: &mut TaskResult) {
    let merge = result.status == TaskStatus::Ok;
    match context.harness.control.finish_associate(task, FinishAssociate { merge }).await {
        Ok(finished) => {
            result.result_tree = finished.result_tree;
            result.merged_tree = finished.merged_tree;
            result.files_changed = finished.files_changed;
            result.diff = context.harness.keep_diff(finished.diff).await;
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

/// The result is in the log: control need not keep it any longer.
pub(super) async fn let_go(context: &RunContext, task: TaskId) {
    if let Err(error) = context.harness.control.forget_associate(task).await {
        // A few bytes stay behind, and nothing depends on them.
        tracing::debug!(%error, "an associate could not be let go");
    }
}

impl Harness {
    /// A long difference is content, not an event: everybody who follows the log would have to carry it.
    pub(crate) async fn keep_diff(&self, content: String) -> Option<Diff> {
        let format = "git".to_owned();
        if content.len() <= DIFF_BYTES_INLINE_MAX {
            return Some(Diff { format, content, blob: None });
        }
        match self.documents.keep(content.into_bytes()).await {
            Ok(blob) => Some(Diff { format, content: String::new(), blob: Some(blob) }),
            Err(error) => {
                // The trees are named beside it, so the difference can be made again.
                tracing::warn!(%error, "a difference could not be kept");
                None
            }
        }
    }
}
