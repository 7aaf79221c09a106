//! One sandbox for one task: on an overlay over a snapshot, never over the live workspace.

use super::conflict::Sides;
use super::origin::BASH;
use super::{AboveCeiling, Error, Sandboxes, lead_out};
use crate::egress::Proxy;
use crate::inbox::Bound;
use choir_proto::task::{self, ChangeKind, FileChange, LeftOut};
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, CallOf, ChangesUndone, Check, EffectRecord, Exec, Exit,
    FinishAssociate, StartAssociate, UndoChanges,
};
use choir_proto::{Hash, TaskId};
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{self, Command, EffectId, Ending, Input, SnapshotReport, TreeChange};
use choir_sandbox::record;
use choir_sandbox::runtime::{ExecHandle, Finished, Guest, Limit, Overlay, Workspace};
use choir_sandbox::tree::{Change, TreeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// What the shell says when a signal ended a command.
const SIGNALLED: i32 = 128;
const KILLED: i32 = SIGNALLED + 9;

/// A running associate.
#[derive(Debug)]
pub(super) struct Associate {
    pub(super) guest: Guest,
    base: TreeId,
    /// What is checked in it, if that is what it is for.
    pub(super) check: Option<Check>,
    /// Its way out, closed with it.
    egress: Option<Proxy>,
    /// Whether no other task runs beside it.
    alone: bool,
}

impl Associate {
    /// What it can reach, by name.
    fn reach(&self) -> &str {
        self.egress.as_ref().map_or("", Proxy::reach)
    }

    fn started(&self) -> AssociateStarted {
        started(hash(self.base), self.alone)
    }
}

fn started(base: Hash, alone: bool) -> AssociateStarted {
    AssociateStarted { base_tree: Some(base), waits: Vec::new(), alone }
}

/// Files and folders from which a workspace is large.
const LARGE_PATHS: u64 = 200_000;
/// Bytes from which a workspace is large.
const LARGE_BYTES: u64 = 2 << 30;

fn is_large(paths: u64, bytes: u64) -> bool {
    paths > LARGE_PATHS || bytes > LARGE_BYTES
}

/// Kept in the place of what came of a task while its merge is under way.
const BEGUN: &str = "begun";

/// What came of a task, as control keeps it until the computer has it in the log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) base: Hash,
    pub(super) result: Hash,
    pub(super) merged: Option<Hash>,
    pub(super) conflicts: Vec<String>,
    #[serde(default)]
    forbidden: Vec<String>,
    #[serde(default)]
    meanwhile: Vec<String>,
    #[serde(default)]
    left_out: Option<LeftOut>,
    #[serde(default)]
    refused: Vec<String>,
    /// What a person said of the conflicts, and what came of that.
    #[serde(default)]
    pub(super) sides: Sides,
}

impl Sandboxes {
    /// Starts a task's associate; a task that has one keeps it, and one that was interrupted goes on over its layer.
    pub(super) async fn start_associate(&self, task: TaskId, wish: StartAssociate) -> Result<AssociateStarted, Error> {
        if let Ok(associate) = self.associate(task).await {
            return Ok(associate.started());
        }
        if let Some(outcome) = self.finished(task).await? {
            return Ok(started(outcome.base, false));
        }
        // Waited for before anything is held that the task before needs in order to end.
        let turn = if wish.check.is_some() { None } else { self.turn().await? };
        let mut associates = self.0.associates.lock().await;
        match associates.get(&task) {
            Some(associate) if associate.guest.is_alive() => return Ok(associate.started()),
            // Nothing of the old one may write to the layer any more.
            Some(dying) => drop(dying.guest.terminate().await),
            None => {}
        }
        // A check is nobody's wish: what it may not reach, it goes without.
        let above = if wish.check.is_some() { AboveCeiling::Refuse } else { AboveCeiling::Ask };
        let egress = match self.open_egress(Some(task), wish.run, wish.egress.as_ref(), above).await? {
            Ok(egress) => egress,
            Err(waits) => return Ok(AssociateStarted { base_tree: None, waits, alone: false }),
        };
        let check = wish.check.clone();
        let base = self.prepare(task, wish.base, wish.check).await?;
        let mut spec = self.associate_spec(&self.0.places.workspace);
        spec.workspace = Workspace::Overlay(Overlay::of_task(&self.0.places.store, &name(task)?, base));
        lead_out(&mut spec, egress.as_ref());
        let guest = self.start(spec).await?;
        let associate = Arc::new(Associate { guest, base, check, egress, alone: turn.is_some() });
        // Held until its result is merged: the next task begins with that.
        turn.and_then(|turn| self.turns().insert(task, turn));
        associates.insert(task, associate.clone());
        Ok(associate.started())
    }

    /// The tasks that hold the right to be alone.
    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, OwnedSemaphorePermit>> {
        // Each change is one insertion or removal, so it is whole even after a panic.
        self.0.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// In a large workspace, the right to be the only task. Copies of what many tasks change at once would add up there.
    async fn turn(&self) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let live = self.keeper().await?.take_snapshot().await?;
        if !is_large(live.paths, live.bytes) {
            return Ok(None);
        }
        // Never closed.
        Ok(self.0.large.clone().acquire_owned().await.ok())
    }

    /// The tree under a task's overlay: the one it began with, the one to check, the one that was named, or a fresh snapshot.
    async fn prepare(&self, task: TaskId, named: Option<Hash>, check: Option<Check>) -> Result<TreeId, Error> {
        let keeper = self.keeper().await?;
        if let Some(base) = self.0.db.task_base(task).await? {
            return Ok(tree(base));
        }
        let base = match (check, named) {
            (Some(check), _) => {
                let from_base = check.from_base.iter().map(RelativePath::parse).collect::<Result<_, _>>()?;
                keeper.check_tree(tree(check.base_tree), tree(check.result_tree), from_base).await?.tree
            }
            (None, Some(named)) => tree(named),
            (None, None) => keeper.take_snapshot().await?.tree,
        };
        keeper.prepare_task(&name(task)?, base).await?;
        self.0.db.add_task(task, hash(base)).await?;
        Ok(base)
    }

    /// What a task can reach, by name: part of what a person says yes to.
    pub(crate) async fn reach_of(&self, task: TaskId) -> String {
        self.associate(task).await.map(|associate| associate.reach().to_owned()).unwrap_or_default()
    }

    /// Runs a command in a task's associate.
    pub(super) async fn exec(&self, task: TaskId, exec: Exec) -> Result<ExecHandle, Error> {
        let associate = self.associate(task).await?;
        match &exec.call {
            Some(call) => self.check(&associate, call, BASH, &exec.command).await?,
            None => self.check_origin(&associate, &exec.command).await?,
        }
        let exec = protocol::Exec {
            effect: EffectId::parse(exec.effect_id)?,
            command: Command::Shell(exec.command),
            directory: RelativePath::root(),
            environment: BTreeMap::new(),
            timeout_ms: exec.timeout_ms,
            input: Input::Empty,
        };
        Ok(associate.guest.exec(exec).await?)
    }

    /// Starts a program in a task's associate that is spoken to for as long as the task lasts.
    pub(crate) async fn exec_server(
        &self,
        task: TaskId,
        effect_id: String,
        program: Vec<String>,
        environment: BTreeMap<String, String>,
    ) -> Result<ExecHandle, Error> {
        let associate = self.associate(task).await?;
        let exec = protocol::Exec {
            effect: EffectId::parse(effect_id)?,
            command: Command::Arguments(program),
            directory: RelativePath::root(),
            environment,
            timeout_ms: protocol::TIMEOUT_MS_MAX,
            input: Input::Stream,
        };
        Ok(associate.guest.exec(exec).await?)
    }

    /// The record of effects.
    pub(crate) fn record(&self) -> &record::Record {
        &self.0.record
    }

    /// What an agent wants done must be what the person said yes to, byte for byte, where a yes is needed. Which tool does such
    /// a thing is not for the computer to say.
    pub(super) async fn check(
        &self,
        associate: &Associate,
        call: &CallOf,
        tool: &str,
        subject: &str,
    ) -> Result<(), Error> {
        if call.tool != tool {
            return Err(Error::NotAllowed);
        }
        let judge = self.judge();
        let bound = Bound::Reach(associate.reach());
        let said = judge.says(&call.tool, subject, bound, call.inbox_id, call.run).await?;
        if said.verdict() == Some(true) { Ok(()) } else { Err(Error::NotAllowed) }
    }

    /// What is known of an effect.
    pub(super) fn effect(&self, id: &str) -> Result<EffectRecord, Error> {
        Ok(match self.0.record.lookup(&EffectId::parse(id)?) {
            None | Some(record::Outcome::Refused) => EffectRecord::Absent,
            Some(record::Outcome::Started) => EffectRecord::Started,
            // Ended by us because nobody listened any longer: that is no ending of its own, and nobody knows what it would be.
            Some(record::Outcome::Exited(exit)) if matches!(exit.ending, Ending::Killed) => EffectRecord::Started,
            Some(record::Outcome::Exited(exit)) => EffectRecord::Exited(read_exit(&exit)),
        })
    }

    /// Ends a task's associate: the keeper says what changed, and on `merge` brings it to the live workspace. Asked again
    /// after a crash of either side, it does what is left to do and says the same.
    pub(super) async fn finish_associate(
        &self,
        task: TaskId,
        finish: FinishAssociate,
    ) -> Result<AssociateFinished, Error> {
        self.end_guest(task).await;
        let outcome = match self.finished(task).await? {
            Some(outcome) => outcome,
            None => self.conclude(task, finish).await?,
        };
        self.turns().remove(&task);
        self.keeper().await?.drop_task(&name(task)?).await?;
        self.describe(outcome).await
    }

    /// Ends a task's associate and says what it has made so far. Nothing in it can change that any more.
    pub(super) async fn capture_associate(&self, task: TaskId) -> Result<AssociateCaptured, Error> {
        self.end_guest(task).await;
        if let Some(Outcome { base, result, .. }) = self.finished(task).await? {
            return self.captured(base, result).await;
        }
        let Some(base) = self.0.db.task_base(task).await? else { return Err(Error::NoAssociate) };
        let captured = self.keeper().await?.capture_task(&name(task)?, tree(base)).await?;
        self.captured(base, hash(captured.tree)).await
    }

    async fn captured(&self, base_tree: Hash, result_tree: Hash) -> Result<AssociateCaptured, Error> {
        let files_changed = self.changes(base_tree, result_tree).await?;
        Ok(AssociateCaptured { base_tree, result_tree, files_changed })
    }

    /// Takes the result and merges it; then that is so for good.
    async fn conclude(&self, task: TaskId, finish: FinishAssociate) -> Result<Outcome, Error> {
        let Some(base) = self.0.db.task_base(task).await? else { return Err(Error::NoAssociate) };
        let keeper = self.keeper().await?;
        let captured = keeper.capture_task(&name(task)?, tree(base)).await?;
        let (result, left_out) = (captured.tree, left_out(&captured));
        let (conflicts, forbidden, meanwhile) = (Vec::new(), Vec::new(), Vec::new());
        let refused = self.refused().get(&task).into_iter().flatten().cloned().collect();
        let (merged, sides) = (None, Sides::default());
        let result = hash(result);
        let mut outcome = Outcome { base, result, merged, conflicts, forbidden, meanwhile, left_out, refused, sides };
        if finish.checked.is_some_and(|checked| checked != outcome.result) {
            return Err(Error::OtherThanChecked);
        }
        if finish.merge {
            let _turn = self.0.merging.lock().await;
            self.expect_mirrors(task, base, outcome.result).await?;
            // Most tasks that only looked bring nothing, and nothing has to be noted of them.
            let again = outcome.result != base && self.begin_merge(task).await?;
            let report = keeper.merge(tree(base), tree(result), again).await?;
            outcome.merged = Some(hash(report.merged));
            outcome.conflicts = report.conflicts.iter().map(text).collect();
            outcome.forbidden = report.forbidden.iter().map(text).collect();
            outcome.meanwhile = report.meanwhile.iter().map(text).collect();
        }
        self.keep(task, &outcome).await?;
        Ok(outcome)
    }

    /// Keeps what came of a task.
    pub(super) async fn keep(&self, task: TaskId, outcome: &Outcome) -> Result<(), Error> {
        let kept = serde_json::to_string(outcome).unwrap_or_default();
        Ok(self.0.db.finish_task(task, kept).await?)
    }

    /// Notes that a merge begins; whether one had before, whose end nobody has heard of.
    async fn begin_merge(&self, task: TaskId) -> Result<bool, Error> {
        let again = self.0.db.finished_task(task).await?.is_some();
        if !again {
            self.0.db.finish_task(task, BEGUN.into()).await?;
        }
        Ok(again)
    }

    pub(super) async fn finished(&self, task: TaskId) -> Result<Option<Outcome>, Error> {
        let kept = self.0.db.finished_task(task).await?;
        // What cannot be read is a merge that was only begun, or was never written by this version; the task is then
        // concluded anew.
        Ok(kept.and_then(|kept| serde_json::from_str(&kept).ok()))
    }

    pub(super) async fn describe(&self, outcome: Outcome) -> Result<AssociateFinished, Error> {
        let Outcome { base, result, merged, conflicts, forbidden, meanwhile, left_out, refused, sides } = outcome;
        let (files_changed, diff) = self.difference(base, result).await?;
        Ok(AssociateFinished {
            result_tree: Some(result),
            merged_tree: merged,
            over_tree: sides.over,
            beside: sides.beside,
            files_changed,
            diff,
            conflicts,
            forbidden,
            meanwhile,
            left_out,
            refused,
        })
    }

    /// What differs between two trees: the paths, and the text.
    async fn difference(&self, from: Hash, to: Hash) -> Result<(Vec<FileChange>, String), Error> {
        let paths = self.changes(from, to).await?;
        let diff = self.keeper().await?.diff(tree(from), tree(to)).await?;
        Ok((paths, String::from_utf8_lossy(&diff).into_owned()))
    }

    pub(super) async fn changes(&self, from: Hash, to: Hash) -> Result<Vec<FileChange>, Error> {
        let (keeper, from, to) = (self.keeper().await?, tree(from), tree(to));
        let changes = keeper.read_tree(from).await?.changes(&keeper.read_tree(to).await?);
        Ok(changes.iter().map(|(path, change)| read_change(path, *change)).collect())
    }

    /// Takes merged changes back as one, or only what they did to one path. Asked again after a crash, it does the rest.
    pub(super) async fn undo(&self, changes: UndoChanges) -> Result<ChangesUndone, Error> {
        let only = changes.path.map(RelativePath::parse).transpose()?;
        let pairs = changes.undoes.iter();
        let pairs = pairs.map(|undone| TreeChange { base: tree(undone.base_tree), result: tree(undone.result_tree) });
        let report = {
            let _turn = self.0.merging.lock().await;
            self.keeper().await?.undo(pairs.collect(), only, changes.again).await?
        };
        let (base, result) = (hash(report.base), hash(report.merged));
        let (files_changed, diff) = self.difference(base, result).await?;
        let conflicts = report.conflicts.iter().chain(&report.forbidden).map(text).collect();
        let already = report.already_paths.iter().map(text).collect();
        Ok(ChangesUndone { base_tree: Some(base), result_tree: Some(result), files_changed, diff, conflicts, already })
    }

    /// Ends a task's associate at once. What it changed stays until the task is finished.
    pub(super) async fn kill_associate(&self, task: TaskId) {
        let ended = self.0.associates.lock().await.remove(&task);
        if let Some(associate) = ended {
            associate.guest.terminate().await;
        }
    }

    /// Lets a task go whose result is in the log.
    pub(super) async fn forget_associate(&self, task: TaskId) -> Result<(), Error> {
        self.kill_associate(task).await;
        self.turns().remove(&task);
        self.refused().remove(&task);
        if self.0.db.task_base(task).await?.is_some() {
            self.keeper().await?.drop_task(&name(task)?).await?;
            self.0.db.remove_task(task).await?;
            self.tidy().await?;
        }
        Ok(())
    }

    /// Gives back what was made of trees for tasks that are gone. A snapshot has a name for every file of the workspace.
    async fn tidy(&self) -> Result<(), Error> {
        // Held, so that no task begins over a snapshot that is being removed.
        let _associates = self.0.associates.lock().await;
        let bases = self.0.db.task_bases().await?;
        if bases.len() > protocol::UNDONE_MAX {
            return Ok(());
        }
        Ok(self.keeper().await?.drop_snapshots(bases.into_iter().map(tree).collect()).await?)
    }

    pub(super) async fn associate(&self, task: TaskId) -> Result<Arc<Associate>, Error> {
        let associates = self.0.associates.lock().await;
        associates.get(&task).filter(|associate| associate.guest.is_alive()).cloned().ok_or(Error::NoAssociate)
    }

    async fn end_guest(&self, task: TaskId) {
        let ended = self.0.associates.lock().await.remove(&task);
        if let Some(associate) = ended {
            associate.guest.shutdown().await;
            self.note_refused(task, associate.egress.iter().flat_map(Proxy::refused));
        }
    }
}

/// How a command ended, as the computer is told.
pub(super) fn read_exit(exit: &protocol::Exit) -> Exit {
    let (code, timed_out) = match exit.ending {
        Ending::Code(code) => (Some(code), false),
        Ending::Signal(signal) => (Some(SIGNALLED + signal), false),
        Ending::TimedOut => (None, true),
        Ending::Killed => (Some(KILLED), false),
    };
    Exit { code, timed_out, duration_ms: exit.duration_ms, limit: None, missed_bytes: 0 }
}

/// How a command ended whose sandbox was watched meanwhile.
pub(super) fn read_finished(finished: &Finished) -> Exit {
    let (limit, missed_bytes) = (finished.limit.map(read_limit), finished.missed_bytes);
    Exit { limit, missed_bytes, ..read_exit(&finished.exit) }
}

/// A command whose sandbox was ended for a limit ended with it.
pub(super) fn ended_for(limit: Limit, after: Duration) -> Exit {
    let duration_ms = after.as_millis() as u64;
    Exit { code: Some(KILLED), timed_out: false, duration_ms, limit: Some(read_limit(limit)), missed_bytes: 0 }
}

fn read_limit(limit: Limit) -> task::Limit {
    match limit {
        Limit::Memory => task::Limit::Memory,
        Limit::Processes => task::Limit::Processes,
        Limit::FileBytes => task::Limit::FileBytes,
        Limit::WorkspaceBytes => task::Limit::WorkspaceBytes,
        Limit::WorkspaceNames => task::Limit::WorkspaceNames,
        Limit::FreeSpace => task::Limit::FreeSpace,
    }
}

fn left_out(captured: &SnapshotReport) -> Option<LeftOut> {
    let mut paths: Vec<String> = captured.skipped_paths.iter().map(text).collect();
    paths.sort();
    let forbidden: Vec<String> = captured.forbidden.iter().map(text).collect();
    let is_some = captured.skipped > 0 || !forbidden.is_empty();
    is_some.then_some(LeftOut { count: captured.skipped, paths, forbidden })
}

fn read_change(path: &RelativePath, change: Change) -> FileChange {
    let change = match change {
        Change::Added => ChangeKind::Added,
        Change::Modified => ChangeKind::Modified,
        Change::Deleted => ChangeKind::Deleted,
    };
    FileChange { path: text(path), change }
}

/// A path for people and JSON; bytes that are no text are shown as such.
pub(super) fn text(path: &RelativePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

/// The keeper's name for a task.
fn name(task: TaskId) -> Result<EffectId, Error> {
    Ok(EffectId::parse(task.to_string())?)
}

pub(super) fn hash(tree: TreeId) -> Hash {
    tree.to_string().parse().expect("a tree is named by 64 hexadecimal digits")
}

pub(super) fn tree(hash: Hash) -> TreeId {
    TreeId::parse(&hash.to_string()).expect("a hash is 64 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_large_by_its_files_or_its_bytes() {
        assert!(!is_large(LARGE_PATHS, LARGE_BYTES));
        assert!(is_large(LARGE_PATHS + 1, 0) && is_large(0, LARGE_BYTES + 1));
    }
}
