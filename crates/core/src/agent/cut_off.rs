//! Time at work that no event says, because the process died in the middle of it.
//!
//! What has ended says how long it took. For what has not, the times of events are looked at: from the last that ended something
//! to the last of the run in that life of the computer, and from there to the first in the next. Nobody knows how much of that was
//! before the crash, so all of it counts, but no more than could go by without a word. Waiting for the person or for a model is no
//! work here either. The times are labels of a clock that may jump: each step is bounded by that as well, and none goes back.

use choir_proto::event::{Header, ToolStarted};
use choir_proto::{Event, TaskId, Timestamp};
use std::collections::BTreeMap;

/// How long an agent may be at work without a word, where no call of it says otherwise: as long as a command is let run by default,
/// and twice as long as a silent model is left without one.
const SILENT_MS_MAX: u64 = 120_000;

/// The longest that a call may ask for.
const CALL_MS_MAX: u64 = 3_600_000;

/// What a task had worked and no event says. `now` is when somebody takes it up again.
pub(super) fn ms(past: &[(Header, Event)], task: TaskId, now: Option<Timestamp>) -> u64 {
    let mut watch = Watch::default();
    for (header, event) in past {
        watch.pass(header.at, Some(header.epoch));
        watch.hear(header.task == Some(task), event);
    }
    if let Some(now) = now {
        watch.pass(now, None);
    }
    watch.lost_ms
}

#[derive(Default)]
struct Watch {
    /// The life of the computer, and the time of the last event in it.
    last: Option<(u32, Timestamp)>,
    is_at_work: bool,
    is_waiting: bool,
    /// Since the last thing that ended.
    pending_ms: u64,
    /// Calls that have not ended, and how long each may take.
    open: BTreeMap<String, u64>,
    lost_ms: u64,
}

impl Watch {
    /// Time goes by, to an event of this life or, where that is another, the end of it.
    fn pass(&mut self, at: Timestamp, epoch: Option<u32>) {
        let last = self.last;
        self.last = epoch.map(|epoch| (epoch, at)).or(last);
        let Some((before, since)) = last else { return };
        if self.is_at_work && !self.is_waiting {
            let passed = u64::try_from((at.0 - since.0) / 1000).unwrap_or_default();
            let longest = self.open.values().copied().max().unwrap_or_default().max(SILENT_MS_MAX);
            self.pending_ms += passed.min(longest);
        }
        if epoch != Some(before) {
            self.lost_ms += std::mem::take(&mut self.pending_ms);
        }
    }

    fn hear(&mut self, is_own: bool, event: &Event) {
        match event {
            Event::RunBlocked(_) | Event::RunPaused(_) => self.is_waiting = true,
            Event::RunStarted(_) | Event::RunResumed(_) => self.is_waiting = false,
            Event::ToolStarted(started) => drop(self.open.insert(started.effect_id.clone(), may_take_ms(started))),
            Event::ToolFinished(finished) => drop(self.open.remove(&finished.effect_id)),
            _ => {}
        }
        match event {
            Event::TaskRequested(_) if is_own => self.is_at_work = true,
            Event::TaskFinished(_) if is_own => (self.is_at_work, self.pending_ms) = (false, 0),
            // They say themselves how long they took.
            Event::ModelCalled(_) | Event::ToolFinished(_) if is_own => self.pending_ms = 0,
            _ => {}
        }
    }
}

fn may_take_ms(started: &ToolStarted) -> u64 {
    let seconds = started.arguments["timeout_s"].as_f64().filter(|seconds| *seconds > 0.0);
    seconds.map_or(SILENT_MS_MAX, |seconds| ((seconds * 1000.0) as u64).min(CALL_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::header;
    use choir_proto::event::{
        BlockedOn, ModelCalled, RunBlocked, RunStarted, TaskRequested, ToolFinished, ToolOutcome,
    };
    use choir_proto::model::{AssistantMessage, StopReason, Usage};
    use uuid::Uuid;

    const TASK: TaskId = TaskId::new(Uuid::from_u128(1));

    fn requested() -> Event {
        let request = serde_json::from_value(serde_json::json!({"kind": "run", "instruction": "x"})).unwrap();
        TaskRequested { request, role: None, parent: None }.into()
    }

    fn answered() -> Event {
        let (message, usage) = (AssistantMessage::default(), Usage::default());
        let (turn, model, stop) = (1, "a/b".to_owned(), StopReason::ToolUse);
        ModelCalled { turn, model, message, stop, usage, duration_ms: 2_000, window: None, heard: None }.into()
    }

    fn started(arguments: serde_json::Value) -> Event {
        let (effect_id, call_id, name) = ("e".to_owned(), "c".to_owned(), "bash".to_owned());
        ToolStarted { effect_id, turn: 1, index: 0, call_id, name, arguments }.into()
    }

    fn finished() -> Event {
        let (effect_id, call_id, content) = ("e".to_owned(), "c".to_owned(), String::new());
        let outcome = ToolOutcome::Unknown;
        ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 }.into()
    }

    /// What is lost of events that are said in lives of the computer, each with the second at which it is.
    fn lost_s(said: Vec<(u32, i64, Event)>, now: i64) -> u64 {
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        let event = |(epoch, seconds, event): (u32, i64, Event)| {
            (Header { epoch, at: at(seconds), task: Some(TASK), ..header(1, &event) }, event)
        };
        let past: Vec<_> = said.into_iter().map(event).collect();
        ms(&past, TASK, Some(at(now))) / 1000
    }

    #[test]
    fn what_a_crash_cut_off_counts_once_for_each_crash() {
        let bash = || started(serde_json::json!({"command": "x"}));
        let one = vec![(1, 0, requested()), (1, 2, answered()), (1, 2, bash())];
        assert_eq!(lost_s(one.clone(), 5), 3, "a command, until somebody looks");
        let mut two = one.clone();
        two.extend([(2, 5, finished()), (2, 5, bash())]);
        assert_eq!(lost_s(two, 9), 3 + 4);
        assert_eq!(lost_s(vec![(1, 0, requested())], 4), 4, "and a question, however often it was cut off");
    }

    #[test]
    fn what_ended_says_itself_how_long_it_took() {
        let said =
            vec![(1, 0, requested()), (1, 2, answered()), (1, 2, started(serde_json::json!({}))), (1, 50, finished())];
        assert_eq!(lost_s(said, 51), 1);
    }

    #[test]
    fn a_night_or_a_clock_that_jumps_counts_as_no_more_than_could_go_by_without_a_word() {
        let begun = |arguments| vec![(1, 0, requested()), (1, 2, answered()), (1, 2, started(arguments))];
        assert_eq!(lost_s(begun(serde_json::json!({})), 40_000), 120);
        assert_eq!(lost_s(begun(serde_json::json!({"timeout_s": 900})), 40_000), 900);
        assert_eq!(lost_s(begun(serde_json::json!({})), -40_000), 0);
    }

    #[test]
    fn who_waits_for_somebody_is_not_at_work() {
        let blocked = || RunBlocked { on: BlockedOn::Inbox, message: String::new() }.into();
        let mut said = vec![(1, 0, requested()), (1, 3, blocked())];
        assert_eq!(lost_s(said.clone(), 100), 3);
        said.push((2, 100, RunStarted {}.into()));
        assert_eq!(lost_s(said, 105), 3 + 5);
    }
}
