//! A writer's answer appears in its document while it is being said; if it never comes whole, it is taken back.

use super::past::{Past, WRITE};
use super::perform::Performer;
use super::silence::Pulse;
use super::{Driver, HarnessError};
use crate::control::{Heard, OnHeard};
use crate::document::{DocumentError, Sketching};
use choir_core::sketch::{text_so_far, whole_words};
use choir_proto::Role;
use choir_proto::model::Delta;
use choir_proto::wire::Live;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Words are written so long after they came: soon enough to be seen coming, late enough to be one change. An answer that is
/// whole by then is not sketched at all.
const SKETCH_AFTER: Duration = Duration::from_millis(150);

/// Answers that are longer are no longer sketched: each look at one goes through all of it.
const SKETCH_BYTES_MAX: usize = 256 * 1024;

/// Which argument of a call that writes is sketched.
const FIELD: &str = "content";

/// Whoever writes an answer into a document while it comes.
pub(super) type Scribe = JoinHandle<()>;

impl Driver {
    /// Pieces of the answer go to whoever listens; the log gets the whole. Those of a writer go into its document too.
    pub(super) fn listen(&self, pulse: Pulse) -> (OnHeard, Option<Scribe>) {
        let live = self.context.harness.live.clone();
        let (run, task, actor) = (self.identity.run, self.identity.task, self.scope().actor);
        let (pieces, scribe) = self.scribe().unzip();
        let on_heard: OnHeard = Box::new(move |heard: Heard| {
            pulse.feel(&heard);
            let Heard::Delta(delta) = heard else { return };
            if let Some(pieces) = &pieces {
                let pieces: &mpsc::UnboundedSender<Delta> = pieces;
                // Whoever does not write has no ear.
                pieces.send(delta.clone()).ok();
            }
            // Nobody listening is the usual case.
            live.send(Live { run, task, actor: actor.clone(), delta }).ok();
        });
        (on_heard, scribe)
    }

    /// A scribe, where there is something to write. It works beside us, because what it has begun to append must be finished
    /// also when the answer is no longer wanted. Its queue is as long as an answer may be.
    fn scribe(&self) -> Option<(mpsc::UnboundedSender<Delta>, Scribe)> {
        let may_write =
            self.request.allowed_tools.as_ref().is_none_or(|allowed| allowed.iter().any(|tool| tool == WRITE));
        let is_free = self.context.document.is_some() && self.context.selection.is_none();
        if self.identity.role != Role::Writer || !may_write || !is_free {
            return None;
        }
        let (pieces, heard) = mpsc::unbounded_channel();
        let (performer, turn) = (self.performer(), self.agent.next_turn());
        let scribe = tokio::spawn(async move {
            if let Err(error) = performer.write_along(turn, heard).await {
                // The whole answer is written as ever, and what stands in the way of that is told then.
                tracing::warn!(%error, "an answer could not be written while it came");
            }
        });
        Some((pieces, scribe))
    }

    /// Takes back what was sketched and never written, if anything was.
    pub(super) async fn retract(&self) -> Result<(), HarnessError> {
        let harness = &self.context.harness;
        if harness.documents.sketched(self.identity.task).is_none() {
            return Ok(());
        }
        let past = Past::read(harness.journal.log(), self.identity.run).await?;
        self.withdraw(&past).await
    }

    /// Takes back what the log says was sketched and never written: its author has to say it again, or has nothing to say.
    pub(super) async fn withdraw(&self, past: &Past) -> Result<(), HarnessError> {
        let documents = &self.context.harness.documents;
        let sketches = past.sketches(self.identity.task);
        if let (Some(id), Some((turn, _))) = (self.context.document, sketches.last()) {
            let versions: Vec<u32> = sketches.iter().map(|(_, version)| *version).collect();
            match documents.withdraw_sketch(id, &self.scope(), *turn, &versions).await {
                Ok(()) => {}
                Err(DocumentError::Read(error)) => return Err(error.into()),
                Err(DocumentError::Append(error)) => return Err(error.into()),
                Err(DocumentError::Refused(why)) => tracing::warn!(%why, "a sketch stays in its document"),
            }
        }
        documents.forget_sketch(self.identity.task);
        Ok(())
    }
}

/// The call of an answer that is written down while it comes.
#[derive(Default)]
struct Call {
    index: Option<u32>,
    arguments: String,
}

impl Call {
    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::ToolCall { index, name, .. } if name == WRITE && self.index.is_none() => self.index = Some(index),
            Delta::Arguments { index, fragment } if self.index == Some(index) => self.arguments.push_str(&fragment),
            Delta::ToolCall { .. } | Delta::Arguments { .. } | Delta::Text { .. } | Delta::Reasoning { .. } => {}
        }
    }
}

impl Performer {
    async fn write_along(&self, turn: u32, mut pieces: mpsc::UnboundedReceiver<Delta>) -> Result<(), DocumentError> {
        let mut call = Call::default();
        let mut sketching = None;
        while let Some(piece) = pieces.recv().await {
            call.take(piece);
            if call.arguments.is_empty() {
                continue;
            }
            let soon = tokio::time::sleep(SKETCH_AFTER);
            tokio::pin!(soon);
            loop {
                tokio::select! {
                    () = &mut soon => break,
                    piece = pieces.recv() => match piece {
                        Some(piece) => call.take(piece),
                        None => return Ok(()),
                    },
                }
            }
            if call.arguments.len() > SKETCH_BYTES_MAX {
                return Ok(());
            }
            let said = text_so_far(&call.arguments, FIELD).unwrap_or_default();
            let said = whole_words(&said);
            if said.is_empty() {
                continue;
            }
            if sketching.is_none() {
                sketching = self.sketching(turn).await?;
            }
            let Some(sketching) = &mut sketching else { return Ok(()) };
            self.context.harness.documents.sketch(sketching, said).await?;
        }
        Ok(())
    }

    /// How the answer may be written before it is whole. Nothing: not at all, because the person wants to be asked first.
    async fn sketching(&self, turn: u32) -> Result<Option<Sketching>, DocumentError> {
        let Some(id) = self.context.document else { return Ok(None) };
        let is_free = self.context.harness.control.tool_settings(WRITE.to_owned()).await;
        if !is_free.is_ok_and(|settings| settings.auto) {
            return Ok(None);
        }
        let (manner, base) = (self.manner().await, self.base(id).await?);
        Ok(Some(Sketching::new(id, self.scope(), self.task(), turn, manner, base)))
    }
}
