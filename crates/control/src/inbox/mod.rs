//! What waits for a person's word. Whoever asks is a computer on its own socket; whoever decides is a person at the front.

mod judge;
mod policy;
mod router;

pub(crate) use judge::{Judge, Said};
pub(crate) use policy::ELSEWHERE;
pub use policy::{Bound, Policy, Tools, hash_of_call};
pub use router::service;

use crate::clock::Clock;
use crate::db::{self, Approval, Db, Outcome};
use crate::gateway::Gateway;
use crate::sandboxes::Sandboxes;
use choir_proto::inbox::{Ask, AskKind, Asked, Matter, Reach, Verdict, Waits};
use choir_proto::{Hash, InboxId};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// A handle; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inbox {
    db: Db,
    judge: Judge,
    /// Who knows under what a call would be made.
    sandboxes: Sandboxes,
    clock: Clock,
    /// Rings after every decision.
    decided: watch::Sender<()>,
}

impl Inbox {
    /// Over control's database; `gateway` knows the settings.
    pub fn new(db: Db, gateway: Gateway, sandboxes: Sandboxes, clock: Clock) -> Self {
        Self { judge: Judge::new(db.clone(), gateway), db, sandboxes, clock, decided: watch::channel(()).0 }
    }

    /// Everything that waits, oldest first.
    pub async fn waiting(&self) -> Result<Vec<Approval>, db::Error> {
        self.db.waiting().await
    }

    /// One question.
    pub async fn find(&self, id: InboxId) -> Result<Option<Approval>, db::Error> {
        self.db.approval(id).await
    }

    /// Keeps a person's word and tells whoever waits for it.
    pub async fn decide(&self, id: InboxId, hash: Hash, verdict: Verdict) -> Result<Outcome, db::Error> {
        let outcome = self.db.decide(id, hash, verdict, self.clock.now()).await?;
        self.decided.send_replace(());
        Ok(outcome)
    }

    /// Puts something to the person, unless it is decided already. Too many open questions are as good as a no.
    async fn ask(&self, id: InboxId, ask: Ask) -> Result<Asked, db::Error> {
        let (kind, entry, question, hash, answers) = match &ask.matter {
            Matter::Question { question, answers } => {
                let parts: [&[u8]; 3] = [b"choir.question.1\0", ask.task.as_bytes(), question.as_bytes()];
                let hash = Hash(Sha256::digest(parts.concat()).into());
                (AskKind::Question, question.clone(), question.clone(), hash, answers.clone())
            }
            Matter::Call { tool, subject, definition } => {
                let reach = self.sandboxes.reach_of(ask.sandbox.unwrap_or(ask.task)).await;
                let bound = definition.map_or(Bound::Reach(&reach), Bound::Definition);
                match self.judge.says(tool, subject, bound, id, ask.run).await? {
                    Said::Decided(verdict) => return Ok(Asked::Decided { verdict }),
                    Said::Ask { hash, question } => (AskKind::Tool, subject.clone(), question, hash, Vec::new()),
                }
            }
        };
        let (run, task, asked) = (Some(ask.run), Some(ask.task), self.clock.now());
        let approval = Approval { id, kind, run, task, entry, question, hash, answers, asked, decided: None };
        Ok(match self.db.ask(approval).await? {
            None => Asked::Decided { verdict: Verdict::Denied { scope: Reach::Once } },
            // Somebody else's question, or another one under the same name: a word about that is no word about this.
            Some(kept) if kept.hash != hash => Asked::Decided { verdict: Verdict::Denied { scope: Reach::Once } },
            Some(Approval { decided: Some(verdict), .. }) => Asked::Decided { verdict },
            Some(kept) => Asked::Waits(waits(kept)),
        })
    }

    /// Waits for a word. A question that is gone was taken back.
    async fn verdict(&self, id: InboxId) -> Result<Verdict, db::Error> {
        let mut decided = self.decided.subscribe();
        loop {
            decided.mark_unchanged();
            match self.db.approval(id).await? {
                None => return Ok(Verdict::Withdrawn),
                Some(Approval { decided: Some(verdict), .. }) => return Ok(verdict),
                Some(_) => {}
            }
            if decided.changed().await.is_err() {
                return Ok(Verdict::Withdrawn);
            }
        }
    }

    async fn withdraw(&self, id: InboxId) -> Result<Option<Verdict>, db::Error> {
        let verdict = self.db.withdraw(id).await?;
        self.decided.send_replace(());
        Ok(verdict)
    }
}

/// A question as the computer copies it into its log.
pub(crate) fn waits(approval: Approval) -> Waits {
    let Approval { id, kind, question, entry, hash, answers, .. } = approval;
    Waits { id, kind, question, subject: entry, hash, answers }
}
