//! One sandbox for one task: on an overlay over a snapshot, never over the live workspace.

use super::{Error, Sandboxes, is_alive, lead_out};
use crate::egress::Proxy;
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::wire::{
    AssociateFinished, AssociateStarted, EffectRecord, Exec, Exit, FinishAssociate, StartAssociate,
};
use choir_proto::{Hash, TaskId};
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{self, Command, EffectId, Ending, Input};
use choir_sandbox::record::Outcome;
use choir_sandbox::runtime::{ExecHandle, Guest, Overlay, Workspace};
use choir_sandbox::tree::{Change, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the shell says when a signal ended a command.
const SIGNALLED: i32 = 128;
const KILLED: i32 = SIGNALLED + 9;

/// A running associate.
#[derive(Debug)]
pub(super) struct Associate {
    pub(super) guest: Guest,
    base: TreeId,
    /// Its way out, closed with it.
    _egress: Option<Proxy>,
}

impl Sandboxes {
    /// Starts a task's associate; a task that has one keeps it, and one that was interrupted goes on over its layer.
    pub(super) async fn start_associate(&self, task: TaskId, wish: StartAssociate) -> Result<AssociateStarted, Error> {
        let mut associates = self.0.associates.lock().await;
        if let Some(associate) = associates.get(&task).filter(|associate| is_alive(&associate.guest)) {
            return Ok(AssociateStarted { base_tree: Some(hash(associate.base)) });
        }
        let base = self.prepare(task).await?;
        let mut spec = self.associate_spec(&self.0.places.workspace);
        spec.workspace = Workspace::Overlay(Overlay::of_task(&self.0.places.store, &name(task)?, base));
        let egress = self.open_egress(Some(task), wish.egress.as_ref()).await?;
        lead_out(&mut spec, egress.as_ref());
        let guest = self.start(spec).await?;
        associates.insert(task, Arc::new(Associate { guest, base, _egress: egress }));
        Ok(AssociateStarted { base_tree: Some(hash(base)) })
    }

    /// The tree under a task's overlay: the one it began with, or a fresh snapshot.
    async fn prepare(&self, task: TaskId) -> Result<TreeId, Error> {
        let keeper = self.keeper().await?;
        if let Some(base) = self.0.db.task_base(task).await? {
            return Ok(tree(base));
        }
        let base = keeper.take_snapshot().await?.tree;
        keeper.prepare_task(&name(task)?, base).await?;
        self.0.db.add_task(task, hash(base)).await?;
        Ok(base)
    }

    /// Runs a command in a task's associate.
    pub(super) async fn exec(&self, task: TaskId, exec: Exec) -> Result<ExecHandle, Error> {
        let associate = self.associate(task).await?;
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

    /// What is known of an effect.
    pub(super) fn effect(&self, id: &str) -> Result<EffectRecord, Error> {
        Ok(match self.0.record.lookup(&EffectId::parse(id)?) {
            None | Some(Outcome::Refused) => EffectRecord::Absent,
            Some(Outcome::Started) => EffectRecord::Started,
            Some(Outcome::Exited(exit)) => EffectRecord::Exited(read_exit(&exit)),
        })
    }

    /// Ends a task's associate: the keeper says what changed, and on `merge` brings it to the live workspace.
    pub(super) async fn finish_associate(
        &self,
        task: TaskId,
        finish: FinishAssociate,
    ) -> Result<AssociateFinished, Error> {
        self.end_guest(task).await;
        let Some(base) = self.0.db.task_base(task).await?.map(tree) else { return Err(Error::NoAssociate) };
        let keeper = self.keeper().await?;
        let name = name(task)?;
        let result = keeper.capture_task(&name, base).await?.tree;
        let changes = keeper.read_tree(base).await?.changes(&keeper.read_tree(result).await?);
        let diff = keeper.diff(base, result).await?;
        let conflicts = match finish.merge {
            true => {
                let _turn = self.0.merging.lock().await;
                keeper.merge(base, result).await?.conflicts.iter().map(text).collect()
            }
            false => Vec::new(),
        };
        keeper.drop_task(&name).await?;
        self.0.db.remove_task(task).await?;
        Ok(AssociateFinished {
            result_tree: Some(hash(result)),
            files_changed: changes.iter().map(|(path, change)| read_change(path, *change)).collect(),
            diff: String::from_utf8_lossy(&diff).into_owned(),
            conflicts,
        })
    }

    /// Ends a task's associate at once and drops its layer.
    pub(super) async fn kill_associate(&self, task: TaskId) -> Result<(), Error> {
        let ended = self.0.associates.lock().await.remove(&task);
        if let Some(associate) = ended {
            associate.guest.terminate().await;
        }
        if self.0.db.task_base(task).await?.is_some() {
            self.keeper().await?.drop_task(&name(task)?).await?;
            self.0.db.remove_task(task).await?;
        }
        Ok(())
    }

    pub(super) async fn associate(&self, task: TaskId) -> Result<Arc<Associate>, Error> {
        let associates = self.0.associates.lock().await;
        associates.get(&task).filter(|associate| is_alive(&associate.guest)).cloned().ok_or(Error::NoAssociate)
    }

    async fn end_guest(&self, task: TaskId) {
        let ended = self.0.associates.lock().await.remove(&task);
        if let Some(associate) = ended {
            associate.guest.shutdown().await;
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
    Exit { code, timed_out, duration_ms: exit.duration_ms }
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
fn text(path: &RelativePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

/// The keeper's name for a task.
fn name(task: TaskId) -> Result<EffectId, Error> {
    Ok(EffectId::parse(task.to_string())?)
}

fn hash(tree: TreeId) -> Hash {
    tree.to_string().parse().expect("a tree is named by 64 hexadecimal digits")
}

fn tree(hash: Hash) -> TreeId {
    TreeId::parse(&hash.to_string()).expect("a hash is 64 hexadecimal digits")
}
