//! A model that asks for what was refused, word for word, again and again: each time is paid for, and nothing can come of it.

use super::{Call, Ending};
use choir_proto::model::ToolCall;
use choir_proto::task::TaskStatus;

/// How often in a row the same may be refused for the same reason. A model that understands a refusal needs one turn to mend its
/// call; the others are for those that need to read it twice.
pub(super) const REFUSALS_MAX: u32 = 5;

/// The calls of the newest answers, as long as they are the same and all of them are refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeated {
    refused: Vec<(ToolCall, String)>,
    times: u32,
}

impl Repeated {
    /// Takes what came of the calls of an answer; the ending, if that is enough.
    pub(super) fn note(&mut self, calls: &[Call]) -> Option<Ending> {
        let refused: Option<Vec<_>> = calls.iter().map(refused).collect();
        match refused {
            Some(refused) if refused == self.refused => self.times += 1,
            Some(refused) => *self = Self { refused, times: 1 },
            None => *self = Self::default(),
        }
        let (call, why) = self.refused.first().filter(|_| self.times >= REFUSALS_MAX)?;
        let (times, name) = (self.times, &call.name);
        let summary =
            format!("The model called `{name}` {times} times in the same words, and was refused each time: {why}");
        Some(Ending { status: TaskStatus::Failed, summary })
    }
}

/// A call that was refused and why, whatever the provider calls it.
fn refused(call: &Call) -> Option<(ToolCall, String)> {
    let why = call.result().filter(|_| call.refused)?.content;
    Some((ToolCall { id: String::new(), ..call.call.clone() }, why))
}
