//! Changing one place of a file, once: whoever asks again after a crash is told what came of it.

use super::files::{AGENT_FILE_BYTES_MAX, parse_path, write};
use super::origin::EDIT_FILE;
use super::{Error, Sandboxes};
use bytes::Bytes;
use choir_core::tool::{ReplaceInFile, replace_once};
use choir_proto::wire::{EditFile, Edited};
use choir_proto::{Hash, TaskId};
use choir_sandbox::protocol::{EffectId, Ending, Exit};
use choir_sandbox::record::Outcome;
use sha2::{Digest, Sha256};
use std::time::Instant;

/// The exit code of an edit that was made.
const MADE: i32 = 0;

/// A file before and after an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) before: Hash,
    pub(crate) after: Hash,
}

impl Sandboxes {
    /// Changes one place of a file where a task sees it.
    pub(super) async fn edit_in(&self, task: TaskId, edit: EditFile) -> Result<Edited, Error> {
        let associate = self.associate(task).await?;
        self.check(&associate, &edit.call, EDIT_FILE, &edit.arguments.to_string()).await?;
        let effect = EffectId::parse(edit.effect_id)?;
        let known = self.record().lookup(&effect);
        if let Some(Outcome::Exited(Exit { ending: Ending::Code(MADE), .. })) = known {
            return Ok(Edited::Done);
        }
        let wanted: ReplaceInFile = match serde_json::from_value(edit.arguments) {
            Ok(wanted) => wanted,
            Err(error) => return Ok(Edited::Failed { message: error.to_string() }),
        };
        let began = Instant::now();
        let path = parse_path(&wanted.path)?;
        let now = associate.guest.read_file(&path, AGENT_FILE_BYTES_MAX).await?;
        if let Some(Outcome::Started) = known {
            match self.0.db.edit(effect.as_str().to_owned()).await? {
                Some(edges) if edges.after == hash(&now) => return self.made(&effect, began).await,
                Some(edges) if edges.before == hash(&now) => {}
                _ => return Ok(Edited::Unknown),
            }
        }
        let text = match replaced(&now, &wanted) {
            Ok(text) => text,
            Err(message) => return Ok(Edited::Failed { message }),
        };
        if known != Some(Outcome::Started) {
            let edges = Edges { before: hash(&now), after: hash(text.as_bytes()) };
            // First: whatever is known to have begun is known by what it began with.
            self.0.db.begin_edit(task, effect.as_str().to_owned(), edges).await?;
            self.record().started(&effect).await?;
        }
        write(&associate.guest, &path, Bytes::from(text), None).await?;
        self.made(&effect, began).await
    }

    async fn made(&self, effect: &EffectId, began: Instant) -> Result<Edited, Error> {
        let exit = Exit { ending: Ending::Code(MADE), duration_ms: began.elapsed().as_millis() as u64 };
        self.record().exited(effect, exit).await?;
        Ok(Edited::Done)
    }
}

fn replaced(bytes: &[u8], wanted: &ReplaceInFile) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "The file is not text.".to_owned())?;
    replace_once(text, &wanted.old, &wanted.new)
}

fn hash(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}
