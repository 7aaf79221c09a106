//! What the settings and earlier words of the person say about a call.

use super::{Bound, Policy, hash_of_call};
use crate::db::{self, Db};
use crate::gateway::Gateway;
use choir_proto::inbox::{Reach, Verdict};
use choir_proto::{Hash, InboxId, RunId};

/// Judges calls; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    db: Db,
    gateway: Gateway,
}

/// What is known about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// It may be, or it may not.
    Decided(Verdict),
    /// Only the person knows; this is what to ask, and what their word is bound to.
    Ask {
        /// Of what is asked.
        hash: Hash,
        /// In a sentence.
        question: String,
    },
}

impl Said {
    /// Whether it may be, if that is decided.
    pub(crate) fn verdict(&self) -> Option<bool> {
        match self {
            Self::Decided(Verdict::Approved { .. }) => Some(true),
            Self::Decided(_) => Some(false),
            Self::Ask { .. } => None,
        }
    }
}

impl Judge {
    pub(crate) fn new(db: Db, gateway: Gateway) -> Self {
        Self { db, gateway }
    }

    /// Whether every call of a tool may be.
    pub(crate) fn is_free(&self, tool: &str) -> bool {
        self.gateway.settings().tools.is_free(tool)
    }

    /// About one call. A tool from elsewhere is known by its definition: who allowed it allowed that one.
    pub(crate) async fn says(
        &self,
        tool: &str,
        subject: &str,
        bound: Bound<'_>,
        id: InboxId,
        run: RunId,
    ) -> Result<Said, db::Error> {
        let shown = tool.escape_debug();
        match (self.gateway.settings().tools.policy(tool), bound) {
            (Policy::Deny, _) => Ok(Said::Decided(Verdict::Denied { scope: Reach::Always })),
            (Policy::Auto, Bound::Reach(_)) => Ok(Said::Decided(Verdict::Approved { scope: Reach::Always })),
            (Policy::Auto, Bound::Definition(now)) if self.db.tool_definition(tool.to_owned(), now).await? == now => {
                Ok(Said::Decided(Verdict::Approved { scope: Reach::Always }))
            }
            (Policy::Auto, Bound::Definition(_)) => {
                let question =
                    format!("`{shown}` is not the tool that you allowed: it has changed. May an agent use it now?");
                self.standing(hash_of_call(tool, "", bound), question, id, run).await
            }
            (Policy::Ask, bound) => {
                let question = match bound {
                    Bound::Reach(names) if !names.is_empty() => {
                        format!("May an agent use `{shown}`? It can reach {}.", names.escape_debug())
                    }
                    _ => format!("May an agent use `{shown}`?"),
                };
                self.standing(hash_of_call(tool, subject, bound), question, id, run).await
            }
        }
    }

    async fn standing(&self, hash: Hash, question: String, id: InboxId, run: RunId) -> Result<Said, db::Error> {
        Ok(match self.db.standing(hash, id, run).await? {
            Some(true) => Said::Decided(Verdict::Approved { scope: Reach::Once }),
            Some(false) => Said::Decided(Verdict::Denied { scope: Reach::Once }),
            None => Said::Ask { hash, question },
        })
    }
}
