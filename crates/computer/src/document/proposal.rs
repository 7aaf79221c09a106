//! Changes that an agent would make to a person's words, and what the person says to them.

use super::{Base, DocumentError, Documents, Edit, Manner};
use crate::journal::Scope;
use choir_core::fold::proposal::{Open, Proposals};
use choir_core::fold::{in_document, of_document};
use choir_proto::DocumentId;
use choir_proto::document::{Decision, Proposal};
use choir_proto::event::{Actor, ProposalDecided, ProposalMade};
use choir_store::StoreError;

/// Proposals shown at once.
const PROPOSALS_LISTED_MAX: usize = 200;
/// Proposals that are looked through for those: what was rejected lies among them.
const PROPOSALS_READ_MAX: usize = 2_000;

impl Documents {
    /// What waits for a person.
    pub async fn proposals(&self, id: DocumentId) -> Result<Vec<Proposal>, StoreError> {
        let open = self.views.with_prefix::<Proposals>(of_document(id), PROPOSALS_READ_MAX).await?;
        let waiting = open.into_iter().filter(|open| !open.rejected).map(|open| open.proposal);
        Ok(waiting.take(PROPOSALS_LISTED_MAX).collect())
    }

    /// Does what a person said. Nothing: there is no such proposal, or it was decided before.
    pub async fn decide(
        &self,
        id: DocumentId,
        proposal: &str,
        decision: Decision,
    ) -> Result<Option<()>, DocumentError> {
        let key = in_document(id, proposal);
        let open = self.views.get::<Proposals>(key).await?.filter(|open| !open.rejected);
        let Some(open) = open else { return Ok(None) };
        let decided = ProposalDecided { document_id: id, proposal_id: proposal.to_owned(), decision };
        match decision {
            Decision::Accept => self.accept(id, &open, decided).await,
            Decision::Reject => {
                self.journal.append(&Scope::of(Actor::Person), vec![decided.into()]).await?;
                Ok(Some(()))
            }
        }
    }

    /// Takes a no back: the proposal is made again, by whom it was made. Nothing: it was not rejected.
    pub async fn reopen(&self, id: DocumentId, proposal: &str) -> Result<Option<()>, DocumentError> {
        let open = self.views.get::<Proposals>(in_document(id, proposal)).await?.filter(|open| open.rejected);
        let Some(Open { proposal, author, run, task, effect_id, .. }) = open else { return Ok(None) };
        let Proposal { proposal_id, old, new, version, from, .. } = proposal;
        let again = ProposalMade { document_id: id, proposal_id, version, from, old, new, effect_id };
        self.journal.append(&Scope { actor: author, run, task }, vec![again.into()]).await?;
        Ok(Some(()))
    }

    /// The words are the agent's, the decision is the person's: both are in the log as one unit.
    async fn accept(&self, id: DocumentId, open: &Open, decided: ProposalDecided) -> Result<Option<()>, DocumentError> {
        let Proposal { version, .. } = open.proposal;
        let Some(base) = self.text(id, version).await? else { return Ok(None) };
        let Some(wanted) = replaced(&base, &open.proposal) else { return Ok(None) };
        let edit = Edit {
            base: Base::Version(version),
            title: None,
            content: &wanted,
            reason: "accepted by a person",
            effect_id: open.effect_id.as_deref(),
            manner: Manner::Free,
        };
        let Some(mut change) = self.change(id, edit).await? else { return Ok(None) };
        let scope = Scope { actor: open.author.clone(), run: open.run, task: open.task };
        let world = self.journal.world();
        let facts = std::mem::take(&mut change.facts).into_iter();
        let mut drafts: Vec<_> = facts.map(|fact| self.journal.draft(&scope, world.uuid(), fact)).collect();
        drafts.push(self.journal.draft(&Scope::of(Actor::Person), world.uuid(), decided.into()));
        self.journal.append_drafts(drafts).await?;
        change.kept();
        Ok(Some(()))
    }
}

/// The text that a proposal was made for, with what it wants.
fn replaced(base: &str, proposal: &Proposal) -> Option<String> {
    let from = usize::try_from(proposal.from).ok()?;
    let (head, rest) = (base.get(..from)?, base.get(from..)?);
    let tail = rest.strip_prefix(proposal.old.as_str())?;
    Some(format!("{head}{}{tail}", proposal.new))
}
