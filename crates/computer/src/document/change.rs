//! Changes by whole texts: a program's `PUT`, an agent's tools, an accepted proposal. All of them pass through the replica.

use super::replica::{Applied, Refused, STATE_BYTES_MAX};
use super::room::{Live, Room};
use super::{DocumentError, Documents, Held, TEXT_INLINE_BYTES_MAX};
use crate::journal::Scope;
use crate::merge::{changes, merge};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use choir_core::fold::document::Titles;
use choir_core::fold::replica::Authors;
use choir_core::proposal::{self, Divided};
use choir_core::title::{new_heading, typed_heading};
use choir_proto::document::{DocumentSummary, Sketch, TextChange};
use choir_proto::event::{Actor, DocumentCompacted, DocumentUpdated, ProposalMade};
use choir_proto::{DocumentId, Event};
use std::sync::Arc;
use uuid::Uuid;

/// Updates after which a state is kept: opening a document reads at most so many.
const TAIL_UPDATES_MAX: usize = 200;

/// Bytes of updates after which a state is kept.
const TAIL_BYTES_MAX: usize = 256 * 1024;

/// A wanted text.
pub struct Edit<'a> {
    /// What its author had in mind.
    pub base: Base,
    /// A new title; nothing lets a new heading name the document. A title that a person gave stays where the manner is not
    /// free.
    pub title: Option<&'a str>,
    /// The whole text.
    pub content: &'a str,
    /// Why, for the list of versions.
    pub reason: &'a str,
    /// The tool call that wants it.
    pub effect_id: Option<&'a str>,
    /// Where it may write.
    pub manner: Manner,
}

/// Where somebody may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Everywhere.
    Free,
    /// Where no person has written; the rest is proposed.
    Careful,
    /// Nowhere: everything is proposed.
    Ask,
}

/// The version that somebody had in mind when they wrote.
pub enum Base {
    /// This one.
    Version(u32),
    /// The newest of this author.
    NewestOf(Actor),
    /// The first.
    First,
    /// None: this text, which is what of an author's own words is in the document.
    Text(String),
}

/// Why a text changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cause<'a> {
    /// Somebody typed, or asked for it themselves.
    Hand,
    /// A tool call.
    Call(&'a str),
    /// An answer that was still being said.
    Sketch(Sketch),
}

/// What a version is called.
pub(super) struct Name {
    pub(super) title: String,
    pub(super) reason: String,
}

/// A change that is ready to be appended. Holding it keeps everybody else waiting.
pub struct Change {
    /// What to append, as one unit and by its author. Empty when nothing changes.
    pub facts: Vec<Event>,
    /// The whole text after it.
    pub content: String,
    /// The version's number.
    pub version: u32,
    /// The title after it.
    pub title: String,
    /// How many places wait for a person.
    pub proposed: usize,
    update: Option<Vec<u8>>,
    room: Arc<Room>,
    held: Held,
}

impl Change {
    /// The facts are in the log: everybody who looks at the document is told.
    pub fn kept(mut self) {
        self.held.kept();
        if let Some(update) = &self.update {
            self.room.tell_update(update);
        }
    }
}

impl Documents {
    /// Prepares a change of a document, merged with whatever happened since its base. Nothing: there is no such document.
    pub async fn change(&self, id: DocumentId, edit: Edit<'_>) -> Result<Option<Change>, DocumentError> {
        let room = self.room(id);
        let Some(held) = self.hold(&room).await? else { return Ok(None) };
        self.change_held(room, held, edit).await
    }

    /// The same, for whoever keeps everybody else waiting already.
    pub(super) async fn change_held(
        &self,
        room: Arc<Room>,
        mut held: Held,
        edit: Edit<'_>,
    ) -> Result<Option<Change>, DocumentError> {
        let id = room.id;
        let (Some(head), Some(live)) = (self.find(id).await?, held.changing()) else { return Ok(None) };
        let base = self.base_text(id, &edit.base).await?;
        let is_sketched = matches!(edit.base, Base::Text(_));
        let wanted = match base {
            // The rest of an answer belongs to what of it is there, before what was written below it meanwhile.
            Some(base) if is_sketched => merge(&base, edit.content, live.replica.content()),
            Some(base) => merge(&base, live.replica.content(), edit.content),
            None => edit.content.to_owned(),
        };
        let hunks = changes(live.replica.content(), &wanted);
        let Divided { free, proposed } = match edit.manner {
            Manner::Free => Divided { free: hunks, proposed: Vec::new() },
            Manner::Ask => proposal::all(live.replica.content(), hunks),
            Manner::Careful => {
                let written = self.views.get::<Authors>(id).await?.unwrap_or_default();
                proposal::divide(live.replica.content(), hunks, &written.authorship)
            }
        };
        let before = live.replica.content().to_owned();
        let standing = self.title(id, live).await?;
        let applied = if free.is_empty() { None } else { live.replica.edit(&free)? };
        let title = match edit.manner {
            Manner::Careful | Manner::Ask if self.is_named_by_a_person(id).await? => standing,
            _ => edit.title.or_else(|| new_heading(&before, live.replica.content())).map_or(standing, str::to_owned),
        };
        let name = Name { title: title.clone(), reason: edit.reason.to_owned() };
        let update = applied.as_ref().map(|applied| applied.update.clone());
        let mut facts = match applied {
            Some(applied) => {
                let cause = edit.effect_id.map_or(Cause::Hand, Cause::Call);
                self.facts(id, live, applied, Some(name), cause).await?
            }
            // What a person typed is their version, also where it is only looked at and something else proposed.
            None if live.typed == live.version => {
                if let Some(event) = self.name(id, live).await? {
                    self.journal.append(&Scope::of(Actor::Person), vec![event]).await?;
                }
                self.rename(&head, live, name, false).await?
            }
            None => self.rename(&head, live, name, is_sketched || !proposed.is_empty()).await?,
        };
        let place = Place { document_id: id, version: live.version, name: self.journal.world().uuid() };
        facts.extend(proposals(&place, &before, &proposed, edit.effect_id));
        let (content, version) = (live.replica.content().to_owned(), live.version);
        Ok(Some(Change { facts, content, version, title, proposed: proposed.len(), update, room, held }))
    }

    pub(super) async fn base_text(&self, id: DocumentId, base: &Base) -> Result<Option<String>, DocumentError> {
        let version = match base {
            Base::Version(version) => Some(*version),
            Base::NewestOf(author) => self.newest_of(id, author).await?,
            Base::First => Some(1),
            Base::Text(text) => return Ok(Some(text.clone())),
        };
        match version {
            Some(version) => Ok(self.text(id, version).await?),
            None => Ok(None),
        }
    }

    /// The facts of a change that the replica has taken: the update, and a name or a kept state where they are due.
    pub(super) async fn facts(
        &self,
        id: DocumentId,
        live: &mut Live,
        applied: Applied,
        name: Option<Name>,
        cause: Cause<'_>,
    ) -> Result<Vec<Event>, DocumentError> {
        let content = live.replica.content().to_owned();
        live.version += 1;
        let Applied { update, mut changes } = applied;
        let texts: usize = changes.iter().filter_map(|change| change.text.as_ref()).map(String::len).sum();
        let is_short = update.len() <= TEXT_INLINE_BYTES_MAX && texts <= TEXT_INLINE_BYTES_MAX;
        live.tail += 1;
        live.tail_bytes += update.len();
        let compacts = !is_short || live.tail >= TAIL_UPDATES_MAX || live.tail_bytes >= TAIL_BYTES_MAX;
        if !is_short {
            changes.iter_mut().for_each(|change| change.text = None);
        }
        let updated = DocumentUpdated {
            document_id: id,
            version: live.version,
            changes,
            update: is_short.then(|| STANDARD.encode(&update)),
            content_hash: choir_store::sha256(content.as_bytes()),
            size: content.len() as u64,
            effect_id: match cause {
                Cause::Call(effect_id) => Some(effect_id.to_owned()),
                Cause::Hand | Cause::Sketch(_) => None,
            },
            sketch: match cause {
                Cause::Sketch(sketch) => Some(sketch),
                Cause::Hand | Cause::Call(_) => None,
            },
        };
        let mut facts = vec![updated.into()];
        if name.is_some() || compacts {
            let name = name.unwrap_or_else(|| Name { title: live.title.clone(), reason: WRITTEN.to_owned() });
            live.title.clone_from(&name.title);
            live.named = live.version;
            facts.push(self.named(id, live.version, &content, name).await?);
        }
        if compacts {
            facts.push(self.compacted(id, live).await?);
        }
        Ok(facts)
    }

    async fn compacted(&self, id: DocumentId, live: &mut Live) -> Result<Event, DocumentError> {
        let state = live.replica.state();
        if state.len() > STATE_BYTES_MAX {
            return Err(Refused::TooLong.into());
        }
        (live.tail, live.tail_bytes) = (0, 0);
        let state = self.keep(state).await?;
        Ok(DocumentCompacted { document_id: id, version: live.version, state }.into())
    }

    /// The text stays as it is; its version gets a name where it needs one.
    async fn rename(
        &self,
        head: &DocumentSummary,
        live: &mut Live,
        name: Name,
        needs_name: bool,
    ) -> Result<Vec<Event>, DocumentError> {
        let is_named = live.named == live.version;
        if name.title == head.title && (is_named || !needs_name) {
            return Ok(Vec::new());
        }
        live.named = live.version;
        live.title.clone_from(&name.title);
        Ok(vec![self.named(head.document_id, live.version, live.replica.content(), name).await?])
    }

    /// What a document is called now: what was typed since it was named last may have given it another heading.
    async fn title(&self, id: DocumentId, live: &Live) -> Result<String, DocumentError> {
        if live.named == live.version {
            return Ok(live.title.clone());
        }
        let named = self.text(id, live.named).await?.unwrap_or_default();
        let written = self.views.get::<Authors>(id).await?.unwrap_or_default();
        let typed = typed_heading(&named, live.replica.content(), &written.authorship);
        Ok(typed.unwrap_or(&live.title).to_owned())
    }

    async fn is_named_by_a_person(&self, id: DocumentId) -> Result<bool, DocumentError> {
        Ok(self.views.get::<Titles>(id).await?.is_some_and(|title| title.is_persons))
    }

    /// Names the newest version, if nobody has: what a person typed becomes a point to return to.
    pub(super) async fn name(&self, id: DocumentId, live: &mut Live) -> Result<Option<Event>, DocumentError> {
        if live.named == live.version {
            return Ok(None);
        }
        let title = self.title(id, live).await?;
        live.named = live.version;
        live.title.clone_from(&title);
        let name = Name { title, reason: WRITTEN.to_owned() };
        Ok(Some(self.named(id, live.version, live.replica.content(), name).await?))
    }
}

/// Why a version exists that came from somebody's typing.
const WRITTEN: &str = "written";

/// What proposals are made for.
struct Place {
    document_id: DocumentId,
    /// The named version.
    version: u32,
    /// Of this change: others may be proposed for the same version, and none may take another's name.
    name: Uuid,
}

/// Hunks that wait for a person. Their names are in the order of their places.
fn proposals(place: &Place, before: &str, proposed: &[proposal::Hunk], effect_id: Option<&str>) -> Vec<Event> {
    let made = |(index, hunk): (usize, &proposal::Hunk)| {
        let TextChange { from, removed, text, .. } = &hunk.change;
        let (start, end) = (*from as usize, (*from + *removed) as usize);
        ProposalMade {
            document_id: place.document_id,
            proposal_id: format!("{}.{:03}", place.name, index + 1),
            version: place.version,
            from: hunk.from_after,
            old: before.get(start..end).unwrap_or_default().to_owned(),
            new: text.clone().unwrap_or_default(),
            effect_id: effect_id.map(Into::into),
        }
        .into()
    };
    proposed.iter().enumerate().map(made).collect()
}
