//! What agents do to documents.

use super::HarnessError;
use super::perform::{Performed, Performer};
use crate::document::{Base, Edit, Manner};
use choir_core::agent::Begin;
use choir_core::fold::run::Runs;
use choir_core::tool::{Tool, replace_once};
use choir_core::visible::is_blank;
use choir_proto::event::ToolOutcome;
use choir_proto::run::{Selection, SelectionAction};
use choir_proto::{DocumentId, Event};
use choir_store::StoreError;

/// Said to whoever would leave nothing to read.
const BLANK: &str = "That would leave a blank document, and nothing was changed. Write the words that should stand there; if \
                     there is nothing to write, say why with `finish` and the status `failed`.";

impl Performer {
    pub(super) async fn document(&self, tool: &Tool, begin: &Begin) -> Result<Performed, HarnessError> {
        let documents = &self.context.harness.documents;
        let Some(id) = self.context.document else {
            return Ok(Performed::new(ToolOutcome::Refused, "This run has no document.".into()));
        };
        match elsewhere(tool, id) {
            Some(other) if matches!(tool, Tool::ReadDocument(_)) => return self.read_other(other).await,
            Some(other) => return Ok(Performed::new(ToolOutcome::Refused, not_its_own(other, id))),
            None => {}
        }
        let Some(head) = documents.find(id).await? else { return Ok(put_away()) };
        if let Some(selection) = &self.context.selection
            && let Some(why) = outside(selection, tool, &documents.text_at_work(&head).await?)
        {
            return Ok(Performed::new(ToolOutcome::Refused, why));
        }
        match tool {
            Tool::ReadDocument(_) => {
                documents.was_read(self.task(), head.version);
                Ok(Performed::new(ToolOutcome::Ok, documents.text_at_work(&head).await?))
            }
            Tool::WriteDocument(write) => self.write(begin, id, Some(&write.title), &write.content).await,
            Tool::EditDocument(edit) => match replace_once(&documents.text_at_work(&head).await?, &edit.old, &edit.new)
            {
                Ok(text) => self.write_over(begin, id, Base::Version(head.version), None, &text).await,
                Err(why) => Ok(Performed::new(ToolOutcome::Error, why)),
            },
            _ => Ok(Performed::new(ToolOutcome::Refused, "That is no tool for documents.".into())),
        }
    }

    /// The text of a document that is not the run's own: to look at, and not to be merged with anything.
    async fn read_other(&self, id: DocumentId) -> Result<Performed, HarnessError> {
        let documents = &self.context.harness.documents;
        match documents.find(id).await? {
            Some(head) => Ok(Performed::new(ToolOutcome::Ok, documents.text_at_work(&head).await?)),
            None => Ok(Performed::new(ToolOutcome::Error, format!("There is no document {id}."))),
        }
    }

    /// A whole text is meant to replace what this author read, or wrote last; what others wrote since is merged in.
    async fn write(
        &self,
        begin: &Begin,
        id: DocumentId,
        title: Option<&str>,
        text: &str,
    ) -> Result<Performed, HarnessError> {
        let documents = &self.context.harness.documents;
        let base = match documents.sketched(self.task()) {
            Some(text) => Base::Text(text),
            None => self.base(id).await?,
        };
        let performed = self.write_over(begin, id, base, title, text).await?;
        if performed.outcome == ToolOutcome::Ok {
            documents.forget_sketch(self.task());
        }
        Ok(performed)
    }

    /// What this author read, or wrote last.
    pub(super) async fn base(&self, id: DocumentId) -> Result<Base, StoreError> {
        let documents = &self.context.harness.documents;
        let author = self.scope().actor;
        Ok(match documents.read_by(self.task()) {
            Some(version) => Base::Version(version),
            None if documents.newest_of(id, &author).await?.is_some() => Base::NewestOf(author),
            None => Base::First,
        })
    }

    async fn write_over(
        &self,
        begin: &Begin,
        id: DocumentId,
        base: Base,
        title: Option<&str>,
        text: &str,
    ) -> Result<Performed, HarnessError> {
        let reason = format!("{} by {}", begin.call.name, self.scope().actor);
        let effect_id = Some(begin.effect_id.as_str());
        let manner = self.manner().await;
        let edit = Edit { base, title, content: text, reason: &reason, effect_id, manner };
        let change = match self.context.harness.documents.change(id, edit).await {
            Ok(Some(change)) => change,
            Ok(None) => return Ok(put_away()),
            Err(crate::document::DocumentError::Refused(why)) => {
                return Ok(Performed::new(ToolOutcome::Error, format!("The document does not take that: {why}.")));
            }
            Err(crate::document::DocumentError::Read(error)) => return Err(error.into()),
            Err(crate::document::DocumentError::Append(error)) => return Err(error.into()),
        };
        let is_written = change.facts.iter().any(|fact| matches!(fact, Event::DocumentUpdated(_)));
        if is_blank(&change.content) && (is_written || change.proposed == 0) {
            return Ok(Performed::new(ToolOutcome::Error, BLANK.into()));
        }
        let told = match change.proposed {
            0 => "The document is written.".to_owned(),
            count => format!(
                "What does not touch the person's words is written. {count} places do; the person was asked about them."
            ),
        };
        let mut facts = change.facts.clone();
        facts.extend(self.figures(id, &change.content).await?);
        let performed = self.together(begin, facts, &told).await?;
        self.context.harness.documents.was_read(self.task(), change.version);
        change.kept();
        Ok(performed)
    }
}

impl Performer {
    /// Where this run may write. Without a word of control about it, carefully.
    pub(super) async fn manner(&self) -> Manner {
        if self.context.selection.is_some() {
            // What was asked about one place is answered in the margin, for the person to take or leave.
            return Manner::Ask;
        }
        let settings = self.context.harness.control.document_settings().await;
        // Asked last: what comes after the end, or after the person wanted no more, is for them to take or leave.
        match settings {
            _ if self.is_over().await => Manner::Ask,
            Ok(settings) if settings.auto_accept => Manner::Free,
            Ok(_) | Err(_) => Manner::Careful,
        }
    }

    /// Whether nobody waits for this run's words any more. One that cannot be looked up is taken for over.
    async fn is_over(&self) -> bool {
        let run = self.context.harness.views.get::<Runs>(self.context.run).await;
        let has_ended = run.map_or(true, |run| run.is_none_or(|run| run.status.is_ending()));
        has_ended || self.context.signal.borrow().cancelled
    }
}

/// Why a change is none of the selected part, if it is not.
fn outside(selection: &Selection, tool: &Tool, text: &str) -> Option<String> {
    let within = |old: &str| {
        let quote = selection.quote.as_deref().unwrap_or_default();
        let (from, at) = (text.find(quote)?, text.find(old)?);
        (at >= from && at + old.len() <= from + quote.len()).then_some(())
    };
    match tool {
        Tool::ReadDocument(_) => None,
        _ if selection.action != SelectionAction::Change => Some("The person does not want it changed.".into()),
        Tool::EditDocument(edit) if within(&edit.old).is_some() => None,
        _ => Some("Only what the person selected may change, with `edit_document`.".into()),
    }
}

/// The document that a call names, where it is not the run's own.
fn elsewhere(tool: &Tool, own: DocumentId) -> Option<DocumentId> {
    let named = match tool {
        Tool::ReadDocument(read) => read.document_id,
        Tool::EditDocument(edit) => edit.document_id,
        _ => None,
    };
    named.filter(|named| *named != own)
}

fn not_its_own(other: DocumentId, own: DocumentId) -> String {
    format!(
        "A run writes one document, and this one's is {own}. Document {other} stays as it is: say what should change there."
    )
}

fn put_away() -> Performed {
    Performed::new(ToolOutcome::Error, "The document was put away.".into())
}
