//! Taking back what runs and tasks changed in the workspace: intent, act, result. A crash in between is finished by the
//! next start, and by name: the keeper is told that it may find its own work, and answers for the whole.

use crate::control::ControlError;
use crate::harness::{Harness, HarnessError, Past};
use crate::journal::Scope as Place;
use choir_core::undo::{ActiveUndos, Changes, Made, Scope, Undoing};
use choir_proto::api::{self, Change, NewUndo};
use choir_proto::event::{Actor, UndoFinished, UndoOutcome, UndoStarted, Undone};
use choir_proto::task::Diff;
use choir_proto::wire::{ChangesUndone, UndoChanges};
use choir_proto::{Event, Hash, Seq, UndoId};
use choir_store::StoreError;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Changes that are taken back at once, as many as the keeper takes.
const UNDONE_MAX: usize = 256;

/// Unfinished undos that a start finishes. They are made one at a time, so that more is a mistake.
const PICKED_UP_MAX: usize = 100;

/// Why nothing was taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing of it is in the workspace.
    #[error("nothing of it is in the workspace")]
    Nothing,
    /// Nothing of it waits for review.
    #[error("nothing of it is held")]
    NotHeld,
    /// More than can be taken back at once.
    #[error("it made more changes than can be taken back at once")]
    TooMuch,
    /// The name was used for something else.
    #[error("an undo of this name was asked for elsewhere")]
    Elsewhere,
    /// The keeper could not be reached or refused.
    #[error("{0}")]
    Refused(String),
    /// The log failed.
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

impl From<StoreError> for UndoError {
    fn from(error: StoreError) -> Self {
        Self::Harness(error.into())
    }
}

/// Before a change and after it.
type Trees = (Option<Hash>, Option<Hash>);

/// Which changes of a scope an undo turns around.
type Wanted = fn(&Changes, Scope, Option<&str>) -> Vec<Undone>;

/// Takes changes back, one undo at a time; a cheap handle.
#[derive(Clone)]
pub struct Undoer {
    harness: Harness,
    turn: Arc<Mutex<()>>,
}

impl Undoer {
    /// Over what a computer shares.
    pub fn new(harness: Harness) -> Self {
        Self { harness, turn: Arc::default() }
    }

    /// Finishes in the background what a crash cut off.
    pub fn pick_up(&self) {
        let this = self.clone();
        tokio::spawn(async move {
            if let Err(error) = this.finish_all().await {
                tracing::warn!(%error, "an undo could not be finished");
            }
        });
    }

    async fn finish_all(&self) -> Result<(), UndoError> {
        let _turn = self.turn.lock().await;
        for (key, undoing) in self.harness.views.newest::<ActiveUndos>(None, PICKED_UP_MAX).await? {
            if let Ok(id) = key.parse() {
                self.act(id, undoing, true).await?;
            }
        }
        Ok(())
    }

    /// Takes back what is in effect of a scope, or of one path in it. Goes on when the caller goes away.
    pub async fn undo(&self, scope: Scope, asked: NewUndo) -> Result<api::Undo, UndoError> {
        self.turn(scope, asked, Changes::next).await
    }

    /// Brings in what waited for a person to look at it, or one path of it.
    pub async fn merge(&self, scope: Scope, asked: NewUndo) -> Result<api::Undo, UndoError> {
        self.turn(scope, asked, Changes::held).await.map_err(|error| match error {
            UndoError::Nothing => UndoError::NotHeld,
            other => other,
        })
    }

    async fn turn(&self, scope: Scope, asked: NewUndo, wanted: Wanted) -> Result<api::Undo, UndoError> {
        let this = self.clone();
        let undone = tokio::spawn(async move { this.in_turn(scope, asked, wanted).await });
        undone.await.unwrap_or(Err(UndoError::Harness(HarnessError::LetGo)))
    }

    async fn in_turn(&self, scope: Scope, asked: NewUndo, wanted: Wanted) -> Result<api::Undo, UndoError> {
        let _turn = self.turn.lock().await;
        let journal = &self.harness.journal;
        let NewUndo { undo_id, path } = asked;
        let id = undo_id.unwrap_or_else(|| UndoId::new(journal.world().uuid()));
        let past = Past::read(journal.log(), scope.run()).await?;
        if let Some((seq, finished)) = find(&past, scope, id)? {
            return self.answer(seq, finished).await;
        }
        // One of this name that was begun is gone on with.
        let (undoing, again) = match self.harness.views.get::<ActiveUndos>(id).await? {
            Some(begun) if begun.scope == scope && begun.path == path => (begun, true),
            Some(_) => return Err(UndoError::Elsewhere),
            None => {
                let undoes = wanted(&fold(&past), scope, path.as_deref());
                (self.begin(id, Undoing { scope, undoes, path }).await?, false)
            }
        };
        let (seq, finished) = self.act(id, undoing, again).await?;
        self.answer(seq, finished).await
    }

    /// Appends the intent.
    async fn begin(&self, id: UndoId, undoing: Undoing) -> Result<Undoing, UndoError> {
        match undoing.undoes.len() {
            0 => return Err(UndoError::Nothing),
            count if count > UNDONE_MAX => return Err(UndoError::TooMuch),
            _ => {}
        }
        let Undoing { scope, undoes, path } = undoing.clone();
        let started = UndoStarted { undo_id: id, undoes, path };
        self.append(scope, Actor::Person, started.into()).await?;
        Ok(undoing)
    }

    /// Has the keeper do it, or the rest of it, and appends what came of it.
    async fn act(&self, id: UndoId, undoing: Undoing, again: bool) -> Result<(Seq, UndoFinished), UndoError> {
        let Undoing { scope, undoes, path } = undoing;
        let past = Past::read(self.harness.journal.log(), scope.run()).await?;
        let changes = fold(&past);
        let verb = match changes.brings_in(&undoes) {
            true => "brought in",
            false if changes.brings_back(&undoes) => "brought back",
            false => "taken back",
        };
        let finished = match self.harness.control.undo(UndoChanges { undoes, path, again }).await {
            Ok(undone) => self.undone(id, undone, verb).await,
            Err(ControlError::Refused(why) | ControlError::NoSandbox(why)) => failed(id, why),
            // Control is gone and this process with it: the next start goes on.
            Err(gone @ (ControlError::Gone(_) | ControlError::Waits(_))) => {
                return Err(UndoError::Refused(gone.to_string()));
            }
        };
        let seq = self.append(scope, Actor::Computer, finished.clone().into()).await?;
        Ok((seq, finished))
    }

    async fn undone(&self, id: UndoId, undone: ChangesUndone, verb: &str) -> UndoFinished {
        let ChangesUndone { base_tree, result_tree, files_changed, diff, conflicts, already } = undone;
        // One that was cut off also names what it may have done itself.
        let before: HashSet<&String> = already.iter().collect();
        let changed = files_changed.iter().filter(|file| !before.contains(&file.path)).count();
        UndoFinished {
            undo_id: id,
            outcome: UndoOutcome::Ok,
            summary: summary(verb, changed, already.len(), conflicts.len()),
            base_tree,
            result_tree,
            files_changed,
            conflicts,
            already,
            diff: self.harness.keep_diff(diff).await,
        }
    }

    async fn append(&self, scope: Scope, actor: Actor, event: Event) -> Result<Seq, UndoError> {
        let place = Place { actor, run: Some(scope.run()), task: scope.task() };
        Ok(self.harness.journal.append(&place, vec![event]).await.map_err(HarnessError::Append)?)
    }

    async fn answer(&self, seq: Seq, finished: UndoFinished) -> Result<api::Undo, UndoError> {
        if finished.outcome == UndoOutcome::Failed {
            return Err(UndoError::Refused(finished.summary));
        }
        let trees = (finished.base_tree, finished.result_tree);
        Ok(api::Undo {
            undo_id: finished.undo_id,
            seq,
            summary: finished.summary,
            base_tree: finished.base_tree,
            result_tree: finished.result_tree,
            files_changed: finished.files_changed,
            conflicts: finished.conflicts,
            already: finished.already,
            diff: self.whole(finished.diff, trees).await?,
        })
    }

    /// What a scope changed, with the differences.
    pub async fn changes(&self, scope: Scope) -> Result<api::Changes, UndoError> {
        let folded = fold(&Past::read(self.harness.journal.log(), scope.run()).await?);
        let mut changes = Vec::new();
        for (change, state) in folded.of(scope) {
            let shown = match &change.made {
                Made::Task(result) => Change {
                    seq: change.seq,
                    task_id: change.task,
                    undo_id: None,
                    state,
                    base_tree: result.base_tree,
                    result_tree: result.result_tree,
                    files_changed: result.files_changed.clone(),
                    conflicts: result.conflicts.clone(),
                    turned: folded.turned(change),
                    diff: self.whole(result.diff.clone(), (result.base_tree, result.result_tree)).await?,
                },
                Made::Undo(undo) => Change {
                    seq: change.seq,
                    task_id: change.task,
                    undo_id: Some(undo.undo_id),
                    state,
                    base_tree: undo.base_tree,
                    result_tree: undo.result_tree,
                    files_changed: undo.files_changed.clone(),
                    conflicts: undo.conflicts.clone(),
                    turned: Vec::new(),
                    diff: self.whole(undo.diff.clone(), (undo.base_tree, undo.result_tree)).await?,
                },
            };
            changes.push(shown);
        }
        Ok(api::Changes { changes })
    }

    /// A difference with its text, wherever that is kept.
    async fn whole(&self, diff: Option<Diff>, trees: Trees) -> Result<Option<Diff>, UndoError> {
        let Some(mut diff) = diff else { return Ok(None) };
        diff.lies_between(trees);
        if let Some(blob) = diff.blob {
            diff.content = self.harness.documents.blob_text(blob).await?;
        }
        Ok(Some(diff))
    }
}

fn fold(past: &Past) -> Changes {
    let mut changes = Changes::default();
    for (header, event) in past.events() {
        changes.apply(header, event);
    }
    changes
}

/// What came of an undo of this name, if it had ended.
fn find(past: &Past, scope: Scope, id: UndoId) -> Result<Option<(Seq, UndoFinished)>, UndoError> {
    for (header, event) in past.events() {
        match event {
            Event::UndoFinished(finished) if finished.undo_id == id => {
                let same = header.task == scope.task();
                return if same { Ok(Some((header.seq, finished.clone()))) } else { Err(UndoError::Elsewhere) };
            }
            _ => {}
        }
    }
    Ok(None)
}

fn failed(undo_id: UndoId, why: String) -> UndoFinished {
    UndoFinished {
        undo_id,
        outcome: UndoOutcome::Failed,
        summary: why,
        base_tree: None,
        result_tree: None,
        files_changed: Vec::new(),
        conflicts: Vec::new(),
        already: Vec::new(),
        diff: None,
    }
}

/// What was done, what was so before, and what was left alone: each is said, and nothing is claimed that was not done.
fn summary(verb: &str, changed: usize, already: usize, kept: usize) -> String {
    let files = |count: usize| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let done = match (changed, already) {
        (0, 1..) => format!("Nothing {verb}"),
        _ => format!("{} {verb}", files(changed)),
    };
    let before = (already > 0).then(|| {
        let verb = if already == 1 { "was" } else { "were" };
        format!("{} {verb} so already", files(already))
    });
    let left = (kept > 0).then(|| format!("{} left alone because they changed since", files(kept)));
    let parts: Vec<String> = [Some(done), before, left].into_iter().flatten().collect();
    format!("{}.", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_be_taken_back_that_was_so_already() {
        assert_eq!(summary("taken back", 2, 0, 0), "2 files taken back.");
        assert_eq!(summary("taken back", 0, 1, 0), "Nothing taken back, 1 file was so already.");
        assert_eq!(summary("taken back", 1, 2, 0), "1 file taken back, 2 files were so already.");
        assert_eq!(summary("taken back", 0, 0, 1), "0 files taken back, 1 file left alone because they changed since.");
    }
}
