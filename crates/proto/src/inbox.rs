//! What only a person can decide, and what they said. Control keeps both; the log has copies.

use crate::task::Side;
use crate::{Hash, InboxId, RunId, TaskId};
use serde::{Deserialize, Serialize};

/// What sort of word is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// A task wants to reach what lies above the ceiling.
    Egress,
    /// A tool call needs a yes.
    Tool,
    /// An agent needs to know something.
    Question,
}

impl AskKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Egress, Self::Tool, Self::Question];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Tool => "tool",
            Self::Question => "question",
        }
    }
}

/// For how much a decision counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// For the one who asked.
    #[default]
    Once,
    /// For its run.
    Run,
    /// From now on.
    Always,
}

impl Reach {
    /// Every reach.
    pub const ALL: [Self; 3] = [Self::Once, Self::Run, Self::Always];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Always => "always",
        }
    }
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It may be.
    Approved {
        /// For how much.
        scope: Reach,
    },
    /// It may not be.
    Denied {
        /// For how much.
        scope: Reach,
    },
    /// A question was answered.
    Answered {
        /// The person's words.
        text: String,
    },
    /// Nobody said anything in time.
    Expired,
    /// Whoever asked needs no answer any more.
    Withdrawn,
}

/// Something to put to the person: `PUT /inbox/{id}`. Asking again under the same id changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The run it belongs to.
    pub run: RunId,
    /// The task it belongs to.
    pub task: TaskId,
    /// In whose sandbox it would be done, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<TaskId>,
    /// What is wanted.
    #[serde(flatten)]
    pub matter: Matter,
}

/// What is wanted of the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "matter", rename_all = "snake_case")]
pub enum Matter {
    /// Words.
    Question {
        /// As the agent asks.
        question: String,
        /// The words of which one is an answer; none where any text is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<Side>,
    },
    /// A yes to one call of a tool. Control may know the answer without the person.
    Call {
        /// The tool's name.
        tool: String,
        /// What it would do, exactly: a command, or arguments as JSON.
        subject: String,
        /// The tool itself, where it comes from elsewhere and may change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definition: Option<Hash>,
    },
}

/// What control says to an [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "asked", rename_all = "snake_case")]
pub enum Asked {
    /// It is decided: by the person, earlier or now, or by what they have set.
    Decided {
        /// How.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// It waits in the inbox.
    Waits(Waits),
}

/// A question in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Its name.
    pub id: InboxId,
    /// What sort of word is wanted.
    pub kind: AskKind,
    /// In a sentence.
    pub question: String,
    /// What is wanted, exactly.
    pub subject: String,
    /// Of what is wanted; the decision repeats it.
    pub hash: Hash,
    /// The words of which one is an answer; none where any text is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Side>,
}
