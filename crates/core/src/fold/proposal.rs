//! Proposals that wait for a person, and those that were rejected: a no can be taken back.

use super::{Fold, in_document};
use choir_proto::document::{Decision, Proposal};
use choir_proto::event::{Actor, Header};
use choir_proto::{Event, RunId, TaskId};
use serde::{Deserialize, Serialize};

/// Every proposal that nobody has accepted, by document and name.
pub struct Proposals;

/// A proposal with who made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// As people see it.
    pub proposal: Proposal,
    /// Who would write.
    pub author: Actor,
    /// For which run.
    pub run: Option<RunId>,
    /// For which task.
    pub task: Option<TaskId>,
    /// By which tool call.
    pub effect_id: Option<String>,
    /// Whether the person has said no.
    #[serde(default)]
    pub rejected: bool,
}

impl Fold for Proposals {
    type Row = Open;
    const NAME: &'static str = "proposals";
    const VERSION: u32 = 2;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::ProposalMade(made) => Some(in_document(made.document_id, &made.proposal_id)),
            Event::ProposalDecided(decided) => Some(in_document(decided.document_id, &decided.proposal_id)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Open>, header: &Header, event: &Event) {
        *row = match event {
            Event::ProposalDecided(decided) if decided.decision == Decision::Reject => {
                row.take().map(|open| Open { rejected: true, ..open })
            }
            Event::ProposalMade(made) => Some(Open {
                proposal: Proposal {
                    proposal_id: made.proposal_id.clone(),
                    old: made.old.clone(),
                    new: made.new.clone(),
                    version: made.version,
                    from: made.from,
                    run_id: header.run,
                    outdated: false,
                },
                author: header.actor.clone(),
                run: header.run,
                task: header.task,
                effect_id: made.effect_id.clone(),
                rejected: false,
            }),
            _ => None,
        };
    }
}
