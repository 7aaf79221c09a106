//! What may be done in a task's sandbox without a tool call that a person could be asked about. The computer may say anything: where
//! the person wants to be asked, only what control knows by itself stands.

use super::associate::Associate;
use super::files::{parse_path, write};
use super::{Error, Sandboxes};
use crate::db::Sort;
use crate::inbox::Judge;
use bytes::Bytes;
use choir_core::discover::{NAMES, discover};
use choir_core::look::{PAGE_FILE, is_look};
use choir_core::tool;
use choir_proto::task::VerifyMode;
use choir_proto::wire::{Check, ReadTree, WriteFile};
use choir_proto::{Hash, TaskId};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The tools that act on a task's sandbox, by the names that policies have for them.
pub(super) const BASH: &str = "bash";
pub(super) const EDIT_FILE: &str = "edit_file";
const WRITE_FILE: &str = "write_file";

/// Commands that are taken from one request.
const COMMANDS_MAX: usize = 100;

impl Sandboxes {
    /// A person sent this: the commands in it are theirs.
    pub(crate) async fn person_gave(&self, body: &[u8]) {
        let Ok(said) = serde_json::from_slice(body) else { return };
        let commands: Vec<Hash> = commands(&said).map(command_hash).take(COMMANDS_MAX).collect();
        if commands.is_empty() {
            return;
        }
        if let Err(error) = self.0.db.keep_pages_soon(Sort::Command, commands).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "commands of a person may be refused later");
        }
    }

    /// Writes a file for an agent, if that may be.
    pub(super) async fn write_for(&self, task: TaskId, wanted: WriteFile) -> Result<(), Error> {
        let associate = self.associate(task).await?;
        self.check(&associate, &wanted.call, WRITE_FILE, &wanted.arguments.to_string()).await?;
        let file: tool::WriteFile = serde_json::from_value(wanted.arguments).map_err(|_| Error::NotAllowed)?;
        write(&associate.guest, &parse_path(&file.path)?, Bytes::from(file.content), None).await
    }

    /// Whether a command may run that is no call of an agent: a person gave it, their project brings it as a check, or it only
    /// looks. Where every command may be, nobody has to know.
    pub(super) async fn check_origin(&self, associate: &Associate, command: &str) -> Result<(), Error> {
        if self.judge().is_free(BASH) || is_look(command) {
            return Ok(());
        }
        if self.0.db.is_kept(Sort::Command, command_hash(command)).await? {
            return Ok(());
        }
        match &associate.check {
            Some(check) if self.is_brought(check, command).await? => Ok(()),
            _ => Err(Error::NotAllowed),
        }
    }

    /// Whether a file may be written that no call of an agent asked for: a page that is read, or what a check needs.
    pub(super) fn check_place(&self, associate: &Associate, path: &str) -> Result<(), Error> {
        let is_ours = path.starts_with(PAGE_FILE) && !path.contains('/');
        match self.judge().is_free(WRITE_FILE) || is_ours || associate.check.is_some() {
            true => Ok(()),
            false => Err(Error::NotAllowed),
        }
    }

    /// Whether the tree that a task began with brings a command as one of its checks.
    async fn is_brought(&self, check: &Check, command: &str) -> Result<bool, Error> {
        let wanted = ReadTree { names: NAMES.map(str::to_owned).to_vec(), paths: Vec::new() };
        let files = self.read_tree(check.base_tree, &wanted).await?.files;
        let changed = self.changes(check.base_tree, check.result_tree).await?;
        let modes = [VerifyMode::Smoke, VerifyMode::Commands];
        let mut steps = modes.into_iter().flat_map(|mode| discover(&files, &changed, mode).steps);
        Ok(steps.any(|step| step.command == command))
    }

    pub(super) fn judge(&self) -> Judge {
        Judge::new(self.0.db.clone(), self.0.gateway.clone())
    }
}

/// The commands of a request: to run, and to check with.
fn commands(said: &Value) -> impl Iterator<Item = &str> {
    let lists = [&said["commands"], &said["verify"]["commands"]];
    lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str)
}

fn command_hash(command: &str) -> Hash {
    Hash(Sha256::new().chain_update(b"choir.command.1\0").chain_update(command).finalize().into())
}
