//! What waits for a person's word, as the page shows it.

use choir_proto::inbox::{AskKind, Reach};
use choir_proto::task::Side;
use choir_proto::{Hash, InboxId, RunId, TaskId, Timestamp};
use serde::Deserialize;

/// The answer of `GET /api/inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Inbox {
    /// Oldest first.
    pub inbox: Vec<Item>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Item {
    /// Its name.
    pub id: InboxId,
    /// What sort of word is wanted.
    pub kind: AskKind,
    /// In a sentence.
    pub question: String,
    /// What is wanted, exactly.
    pub subject: String,
    /// Of what is shown; the decision repeats it.
    pub hash: Hash,
    /// The words of which one is an answer; none where any text is.
    #[serde(default)]
    pub answers: Vec<Side>,
    /// The run it belongs to.
    #[serde(default)]
    pub run_id: Option<RunId>,
    /// The task it belongs to.
    #[serde(default)]
    pub task_id: Option<TaskId>,
    /// When it was asked.
    pub asked_at: Timestamp,
}

impl Item {
    /// What a person is asked for, in a word or two.
    pub const fn title(&self) -> &'static str {
        match self.kind {
            AskKind::Egress => "Network",
            AskKind::Tool => "Approval",
            AskKind::Question => "Question",
        }
    }

    /// For how much a yes can count.
    pub fn reaches(&self) -> impl Iterator<Item = Reach> {
        let of_run = self.run_id.is_some();
        Reach::ALL.into_iter().filter(move |reach| of_run || *reach != Reach::Run)
    }
}

/// A yes, in words.
pub const fn approve_words(reach: Reach) -> &'static str {
    match reach {
        Reach::Once => "Approve once",
        Reach::Run => "For this run",
        Reach::Always => "Always",
    }
}

/// What a yes of this reach means.
pub const fn reach_words(reach: Reach) -> &'static str {
    match reach {
        Reach::Once => "Only what is shown here, only now",
        Reach::Run => "The same again in this run needs no further word",
        Reach::Always => "The same never asks again",
    }
}

/// A button for what stays where two changed the same.
pub const fn side_words(side: Side) -> &'static str {
    match side {
        Side::Mine => "Keep mine",
        Side::Theirs => "Take theirs",
        Side::Both => "Keep both",
    }
}

/// What comes of it.
pub const fn side_meaning(side: Side) -> &'static str {
    match side {
        Side::Mine => "What is in the workspace stays, and nothing comes",
        Side::Theirs => "The agent’s version takes its place; an undo brings back what was there",
        Side::Both => "What is there stays, and the agent’s version comes beside it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_run_cannot_be_allowed_for_one() {
        let text = r#"{"inbox":[{"id":"01970000-0000-7000-8000-000000000001","kind":"egress","question":"q","subject":"s",
            "hash":"0000000000000000000000000000000000000000000000000000000000000000","asked_at":"2026-01-01T00:00:00Z","newer":1}]}"#;
        let inbox: Inbox = serde_json::from_str(text).unwrap();
        let reaches: Vec<_> = inbox.inbox[0].reaches().collect();
        assert_eq!(reaches, [Reach::Once, Reach::Always]);
        assert_eq!(inbox.inbox[0].answers, [], "any text is an answer to a question that names none");
    }
}
