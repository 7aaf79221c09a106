//! Changes that an agent would make to a person's words, and what the person says to them.

use super::room::Room;
use super::{Base, DocumentError, Documents, Edit, Held, Manner};
use crate::journal::Scope;
use crate::merge::changes;
use choir_core::fold::proposal::{Open, Proposals};
use choir_core::fold::{in_document, of_document};
use choir_proto::document::{Decision, Proposal, TextChange};
use choir_proto::event::{Actor, ProposalDecided, ProposalMade};
use choir_proto::{DocumentId, Event, Seq};
use choir_store::{Query, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Proposals shown at once.
const PROPOSALS_LISTED_MAX: usize = 200;
/// Proposals that are looked through for those: what was rejected lies among them.
const PROPOSALS_READ_MAX: usize = 2_000;
/// Versions that a text is compared with when its proposals are listed.
const VERSIONS_COMPARED_MAX: usize = 8;
/// The event that says what was decided.
const DECIDED: &str = "proposal.decided";
/// Decisions that are read at once.
const DECISIONS_AT_ONCE: usize = 1_000;

/// What came of a person's word on a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It is done.
    Now,
    /// This was said before, and stays.
    Before(Decision),
    /// Somebody has written there since: nobody has proposed what would come of it.
    Outdated,
    /// There is no such proposal.
    Missing,
}

impl Documents {
    /// What waits for a person, over the text as it stands.
    pub async fn proposals(&self, id: DocumentId, text: &str) -> Result<Vec<Proposal>, StoreError> {
        let open = self.views.with_prefix::<Proposals>(of_document(id), PROPOSALS_READ_MAX).await?;
        let waiting = open.into_iter().filter(|open| !open.rejected).map(|open| open.proposal);
        let mut since: BTreeMap<u32, Vec<TextChange>> = BTreeMap::new();
        let mut proposals: Vec<_> = waiting.take(PROPOSALS_LISTED_MAX).collect();
        for proposal in &mut proposals {
            let version = proposal.version;
            if !since.contains_key(&version) && since.len() < VERSIONS_COMPARED_MAX {
                let (base, text) = (self.text(id, version).await?.unwrap_or_default(), text.to_owned());
                let compared = tokio::task::spawn_blocking(move || changes(&base, &text)).await;
                since.insert(version, compared.map_err(|_| StoreError::Closed)?);
            }
            // Of those that were made over many other versions it is seen when they are accepted.
            proposal.outdated = since.get(&version).is_some_and(|since| is_elsewhere(since, proposal));
        }
        Ok(proposals)
    }

    /// Does what a person said. While it is looked at nobody else decides, and nobody writes.
    pub async fn decide(&self, id: DocumentId, proposal: &str, decision: Decision) -> Result<Decided, DocumentError> {
        let room = self.room(id);
        let Some(held) = self.hold(&room).await? else { return Ok(Decided::Missing) };
        let found = self.views.get::<Proposals>(in_document(id, proposal)).await?;
        let Some(open) = found.filter(|open| !open.rejected) else {
            return Ok(self.said_before(id, proposal).await?.map_or(Decided::Missing, Decided::Before));
        };
        let decided = ProposalDecided { document_id: id, proposal_id: proposal.to_owned(), decision };
        match decision {
            Decision::Accept => self.accept(room, held, &open, decided).await,
            Decision::Reject => {
                self.journal.append(&Scope::of(Actor::Person), vec![decided.into()]).await?;
                Ok(Decided::Now)
            }
        }
    }

    /// What the log says was decided about a proposal that waits no more.
    async fn said_before(&self, id: DocumentId, proposal: &str) -> Result<Option<Decision>, StoreError> {
        let (mut after, mut said) = (Seq::ZERO, None);
        loop {
            let kind = Some(DECIDED.to_owned());
            let query = Query { after, limit: DECISIONS_AT_ONCE, kind, ..Query::default() };
            let events = self.journal.log().read(query).await?;
            let Some(last) = events.last() else { return Ok(said) };
            after = last.header.seq;
            for event in &events {
                if let Ok(Event::ProposalDecided(decided)) = event.event()
                    && decided.document_id == id
                    && decided.proposal_id == proposal
                {
                    said = Some(decided.decision);
                }
            }
        }
    }

    /// Takes a no back: the proposal is made again, by whom it was made. Nothing: it was not rejected.
    pub async fn reopen(&self, id: DocumentId, proposal: &str) -> Result<Option<()>, DocumentError> {
        let room = self.room(id);
        let Some(_held) = self.hold(&room).await? else { return Ok(None) };
        let open = self.views.get::<Proposals>(in_document(id, proposal)).await?.filter(|open| open.rejected);
        let Some(Open { proposal, author, run, task, effect_id, .. }) = open else { return Ok(None) };
        let Proposal { proposal_id, old, new, version, from, .. } = proposal;
        let again = ProposalMade { document_id: id, proposal_id, version, from, old, new, effect_id };
        self.journal.append(&Scope { actor: author, run, task }, vec![again.into()]).await?;
        Ok(Some(()))
    }

    /// The words are the agent's, the decision is the person's: both are in the log as one unit.
    async fn accept(
        &self,
        room: Arc<Room>,
        held: Held,
        open: &Open,
        decided: ProposalDecided,
    ) -> Result<Decided, DocumentError> {
        let Proposal { version, .. } = open.proposal;
        let Some(base) = self.text(room.id, version).await? else { return Ok(Decided::Missing) };
        let Some(wanted) = replaced(&base, &open.proposal) else { return Ok(Decided::Missing) };
        let since = held.live().map(|live| changes(&base, live.replica.content())).unwrap_or_default();
        if is_elsewhere(&since, &open.proposal) {
            return Ok(Decided::Outdated);
        }
        let edit = Edit {
            base: Base::Version(version),
            title: None,
            content: &wanted,
            reason: "accepted by a person",
            effect_id: open.effect_id.as_deref(),
            manner: Manner::Free,
        };
        let Some(mut change) = self.change_held(room, held, edit).await? else { return Ok(Decided::Missing) };
        let scope = Scope { actor: open.author.clone(), run: open.run, task: open.task };
        let world = self.journal.world();
        let facts = std::mem::take(&mut change.facts).into_iter();
        let mut drafts: Vec<_> = facts.map(|fact| self.journal.draft(&scope, world.uuid(), fact)).collect();
        drafts.push(self.journal.draft(&Scope::of(Actor::Person), world.uuid(), decided.into()));
        self.journal.append_drafts(drafts).await?;
        change.kept();
        Ok(Decided::Now)
    }
}

/// Whether somebody has written since where a proposal would: into its words or over them, or over those that it would go on
/// from. What was written beside them is no concern of it.
fn is_elsewhere(since: &[TextChange], proposal: &Proposal) -> bool {
    let (from, to) = (proposal.from, proposal.from + proposal.old.len() as u64);
    let touches = |change: &TextChange| match (change.from, change.from + change.removed) {
        (begin, end) if begin == end => from < begin && begin < to,
        (begin, end) if from == to => begin <= from && end >= from,
        (begin, end) => begin < to && end > from,
    };
    since.iter().any(touches)
}

/// The text that a proposal was made for, with what it wants.
fn replaced(base: &str, proposal: &Proposal) -> Option<String> {
    let from = usize::try_from(proposal.from).ok()?;
    let (head, rest) = (base.get(..from)?, base.get(from..)?);
    let tail = rest.strip_prefix(proposal.old.as_str())?;
    Some(format!("{head}{}{tail}", proposal.new))
}
