//! An answer without a call: last words, or half of an answer.

use super::{Agent, Ending, prompt};
use crate::agent::repeat::REFUSALS_MAX;
use choir_proto::event::ModelCalled;
use choir_proto::model::{Message, StopReason};
use choir_proto::task::TaskStatus;

impl Agent {
    /// A model whose answer was cut off within its call is told, as often as one whose call was refused.
    pub(super) fn spoken(&mut self, called: &ModelCalled) {
        if called.stop != StopReason::Length || self.cut_short >= REFUSALS_MAX {
            self.ending = Some(spoken_ending(called.stop, &called.message.text));
            return;
        }
        if called.message.text.is_empty() {
            // Providers refuse a message without a word.
            self.conversation.pop();
        }
        self.conversation.push(Message::user(prompt::CUT_OFF));
    }
}

/// A model that stops without calling a tool has said its last words.
fn spoken_ending(stop: StopReason, text: &str) -> Ending {
    let (status, summary) = match stop {
        StopReason::Refused => (TaskStatus::Failed, "The model refused to answer."),
        StopReason::Length => (TaskStatus::Failed, "The model's answer was cut off at its longest."),
        StopReason::Budget => {
            (TaskStatus::OutOfBudget, "What was left of the budget did not pay for the whole answer.")
        }
        _ if text.trim().is_empty() => (TaskStatus::Failed, "The model answered with nothing."),
        _ => (TaskStatus::Ok, text),
    };
    Ending { status, summary: summary.to_owned() }
}
