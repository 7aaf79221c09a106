//! Words of an answer that is still being said: written as they come, taken back if the answer never comes.

use super::change::{Base, Cause, Manner};
use super::{DocumentError, Documents, READERS_MAX};
use crate::journal::Scope;
use crate::merge::{begun, changes, merge};
use choir_core::fold::replica::Authors;
use choir_core::proposal;
use choir_proto::document::{Sketch, TextChange};
use choir_proto::{DocumentId, TaskId};

/// An answer that is being written into a document.
pub struct Sketching {
    /// Which document.
    pub id: DocumentId,
    /// By whom, and for which run.
    pub scope: Scope,
    /// Whose answer.
    pub task: TaskId,
    /// Which answer.
    pub turn: u32,
    /// Where it may write.
    pub manner: Manner,
    /// What its author had in mind when it began.
    pub base: Base,
    /// The text of that, once it is known.
    text: Option<String>,
}

impl Sketching {
    /// Of an answer that begins.
    pub fn new(id: DocumentId, scope: Scope, task: TaskId, turn: u32, manner: Manner, base: Base) -> Self {
        Self { id, scope, task, turn, manner, base, text: None }
    }
}

impl Documents {
    /// Writes as much of a text as has been said, merged with whatever others wrote since. Words of a person are left alone
    /// until the whole is known; then they are asked.
    pub async fn sketch(&self, sketching: &mut Sketching, said: &str) -> Result<(), DocumentError> {
        if !self.has_room_for_sketch(sketching.task) {
            return Ok(());
        }
        let room = self.room(sketching.id);
        let Some(mut held) = self.hold(&room).await? else { return Ok(()) };
        let Some(live) = held.live() else { return Ok(()) };
        let before = live.replica.content().to_owned();
        let base = match &sketching.text {
            Some(text) => text.clone(),
            None => self.base_text(sketching.id, &sketching.base).await?.unwrap_or_else(|| before.clone()),
        };
        let mine = self.sketched(sketching.task).unwrap_or_else(|| base.clone());
        // Where both go on from the same place, the answer does so first: what a person writes below it never stands in the
        // middle of one of its sentences.
        let hunks = changes(&before, &merge(&mine, &begun(&base, said), &before));
        let free = match sketching.manner {
            Manner::Free => hunks,
            Manner::Ask => Vec::new(),
            Manner::Careful => {
                let written = self.views.get::<Authors>(sketching.id).await?.unwrap_or_default();
                proposal::divide(&before, hunks, &written.authorship).free
            }
        };
        sketching.text = Some(base);
        let sketch = Sketch { turn: sketching.turn, withdrawn: false };
        let (scope, id) = (&sketching.scope, sketching.id);
        let Some(after) = self.write_sketch(&mut held, id, scope, &free, sketch).await? else { return Ok(()) };
        room.tell_update(&after.update);
        self.remember_sketch(sketching.task, merge(&before, &after.content, &mine));
        Ok(())
    }

    /// Takes back what was sketched as these versions, and leaves what others wrote meanwhile.
    pub async fn withdraw_sketch(
        &self,
        id: DocumentId,
        scope: &Scope,
        turn: u32,
        versions: &[u32],
    ) -> Result<(), DocumentError> {
        let room = self.room(id);
        let Some(mut held) = self.hold(&room).await? else { return Ok(()) };
        let Some(live) = held.live() else { return Ok(()) };
        let now = live.replica.content().to_owned();
        let mut wanted = now.clone();
        for version in versions.iter().rev() {
            let texts = (self.text(id, *version).await?, self.text(id, version - 1).await?);
            if let (Some(after), Some(before)) = texts {
                wanted = merge(&after, &wanted, &before);
            }
        }
        let sketch = Sketch { turn, withdrawn: true };
        let written = self.write_sketch(&mut held, id, scope, &changes(&now, &wanted), sketch).await?;
        if let Some(after) = written {
            room.tell_update(&after.update);
        }
        Ok(())
    }

    async fn write_sketch(
        &self,
        held: &mut super::Held,
        id: DocumentId,
        scope: &Scope,
        changes: &[TextChange],
        sketch: Sketch,
    ) -> Result<Option<After>, DocumentError> {
        if changes.is_empty() {
            return Ok(None);
        }
        let Some(live) = held.changing() else { return Ok(None) };
        let after = match live.replica.edit(changes)? {
            Some(applied) => {
                let update = applied.update.clone();
                let facts = self.facts(id, live, applied, None, Cause::Sketch(sketch)).await?;
                self.journal.append(scope, facts).await?;
                Some(After { update, content: live.replica.content().to_owned() })
            }
            None => None,
        };
        held.kept();
        Ok(after)
    }

    /// The text as an agent has it in mind, while its answer is in the document and its call is not made.
    pub fn sketched(&self, task: TaskId) -> Option<String> {
        self.sketches.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&task).cloned()
    }

    /// Its call was made, or its words were taken back.
    pub fn forget_sketch(&self, task: TaskId) {
        self.sketches.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&task);
    }

    fn remember_sketch(&self, task: TaskId, text: String) {
        self.sketches.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(task, text);
    }

    fn has_room_for_sketch(&self, task: TaskId) -> bool {
        let sketches = self.sketches.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sketches.len() < READERS_MAX || sketches.contains_key(&task)
    }
}

/// What stands after a sketch.
struct After {
    update: Vec<u8>,
    content: String,
}
