//! The events that the page folds, and only these: reading every kind would make the page a third heavier.

use choir_core::fold::task::running;
use choir_proto::event::{
    DocumentCreated, DocumentRemoved, DocumentRestored, DocumentTrashed, DocumentUpdated, DocumentVersioned, Envelope,
    Event, InboxAsked, ModelCalled, RunAccepted, RunAnswered, RunBlocked, RunEnded, RunPaused, RunRemoved, RunRestored,
    RunResumed, RunStarted, TaskFinished, TaskRequested, ThemeChosen, WindowClosed, WindowFocused, WindowMoved,
    WindowOpened, WindowShaped, WindowShown,
};

use choir_proto::model::{AssistantMessage, StopReason, Usage};
use choir_proto::run::{NewRun, Selection};
use choir_proto::task::{TaskKind, TaskRequest, TaskResult, TaskStatus};
use choir_proto::{DocumentId, Role, TaskId};
use serde::Deserialize;

/// The only version of a payload that there is so far; what is of another is not folded, as with kinds of newer computers.
const VERSION: u16 = 1;

/// What an event means, if the page folds its kind. An error is a known kind that cannot be read: then the view may be wrong.
pub fn folded(envelope: &Envelope) -> Result<Option<Event>, serde_json::Error> {
    let (kind, payload) = (envelope.header.kind.as_ref(), envelope.payload.get());
    if payload == "null" || envelope.header.version != VERSION {
        return Ok(None);
    }
    macro_rules! read {
        ($($known:literal: $name:ident,)*) => {
            match kind {
                $( $known => serde_json::from_str::<$name>(payload).map(|read| Some(read.into())), )*
                _ => Ok(None),
            }
        };
    }
    read! {
        "run.accepted": Accepted,
        "run.started": RunStarted,
        "run.blocked": RunBlocked,
        "run.paused": RunPaused,
        "run.resumed": RunResumed,
        "run.answered": RunAnswered,
        "run.ended": RunEnded,
        "run.removed": RunRemoved,
        "run.restored": RunRestored,
        "task.requested": Requested,
        "task.finished": Finished,
        "model.called": Called,
        "inbox.asked": InboxAsked,
        "document.created": DocumentCreated,
        "document.versioned": DocumentVersioned,
        "document.updated": DocumentUpdated,
        "document.trashed": DocumentTrashed,
        "document.removed": DocumentRemoved,
        "document.restored": DocumentRestored,
        "window.opened": WindowOpened,
        "window.focused": WindowFocused,
        "window.moved": WindowMoved,
        "window.shaped": WindowShaped,
        "window.shown": WindowShown,
        "window.closed": WindowClosed,
        "theme.chosen": ThemeChosen,
    }
}

// Of the four long ones only what the folds look at is read; the rest is left as if nobody had said anything of it.

#[derive(Deserialize)]
struct Accepted {
    request: Asked,
    document_id: Option<DocumentId>,
}

#[derive(Deserialize)]
struct Asked {
    prompt: String,
    model: Option<String>,
    selection: Option<Selection>,
}

impl From<Accepted> for Event {
    fn from(Accepted { request: Asked { prompt, model, selection }, document_id }: Accepted) -> Self {
        let request = NewRun {
            prompt,
            document_id: None,
            context: Vec::new(),
            plan_first: None,
            budget: None,
            model,
            verify: None,
            selection,
        };
        RunAccepted { request, document_id }.into()
    }
}

#[derive(Deserialize)]
struct Requested {
    request: Instruction,
    role: Option<Role>,
    parent: Option<TaskId>,
}

#[derive(Deserialize)]
struct Instruction {
    instruction: String,
}

impl From<Requested> for Event {
    fn from(Requested { request: Instruction { instruction }, role, parent }: Requested) -> Self {
        let request = TaskRequest {
            kind: TaskKind::Edit,
            instruction,
            acceptance_criteria: Vec::new(),
            base_ref: None,
            commands: Vec::new(),
            git_action: None,
            allowed_tools: None,
            egress: None,
            verify: None,
            budget: None,
            wanted: None,
        };
        TaskRequested { request, role, parent }.into()
    }
}

#[derive(Deserialize)]
struct Finished {
    result: Ended,
}

#[derive(Deserialize)]
struct Ended {
    task_id: TaskId,
    status: TaskStatus,
    summary: String,
}

impl From<Finished> for Event {
    fn from(Finished { result: Ended { task_id, status, summary } }: Finished) -> Self {
        TaskFinished { result: TaskResult { status, summary, ..running(task_id) } }.into()
    }
}

#[derive(Deserialize)]
struct Called {
    usage: Usage,
}

impl From<Called> for Event {
    fn from(Called { usage }: Called) -> Self {
        let (message, stop) = (AssistantMessage::default(), StopReason::Finished);
        ModelCalled { turn: 0, model: String::new(), message, stop, usage, duration_ms: 0, window: None }.into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::computer::{Documents, Runs, Touches};
    use choir_core::fold::desktop;
    use choir_proto::desktop::Desktop;
    use choir_proto::{Run, Seq};
    use serde_json::json;

    /// Every kind and a payload of it, as they are kept for good.
    pub(crate) fn golden() -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = include_str!("../../proto/tests/main/golden/events.txt").lines();
        lines.filter_map(|line| line.split_once(' ').and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?.1))))
    }

    fn envelope(seq: u64, kind: &str, payload: &str) -> Envelope {
        let zero = "0".repeat(64);
        let id = "01970000-0000-7000-8000-000000000001";
        let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
        let frame = json!({
            "seq": seq, "id": id, "epoch": 1, "at": "2026-01-01T00:00:00Z", "actor": "person", "run": id, "task": id,
            "kind": kind, "version": 1, "payload": payload, "payload_hash": zero, "prev": zero, "hash": zero,
        });
        serde_json::from_str(&frame.to_string()).unwrap()
    }

    /// Everything that the page shows all the time.
    #[derive(Debug, Clone, Default)]
    struct Views(Runs, Documents, Desktop);

    impl Views {
        /// Without the position of the last event, which is no part of what is seen.
        fn shown(&self) -> (Vec<Run>, &Documents, &Desktop) {
            (self.0.newest().map(|run| Run { upto: Seq(0), ..run.clone() }).collect(), &self.1, &self.2)
        }

        fn apply(&mut self, envelope: &Envelope, event: &Event) {
            match Touches::of(&envelope.header.kind) {
                Touches::Runs => self.0.apply(envelope, event),
                Touches::Documents => {
                    self.1.apply(envelope, event);
                    self.0.apply(envelope, event);
                }
                Touches::Desktop => desktop::apply(&mut self.2, event),
                Touches::Inbox | Touches::Evidence | Touches::Changes | Touches::Nothing => {}
            }
        }
    }

    #[test]
    fn what_is_not_read_would_have_changed_nothing() {
        let (mut views, mut read) = (Views::default(), 0);
        for (index, (kind, payload)) in golden().enumerate() {
            let envelope = envelope(index as u64 + 1, kind, payload);
            match folded(&envelope).unwrap() {
                Some(event) => {
                    read += 1;
                    let mut whole = views.clone();
                    whole.apply(&envelope, &envelope.event().unwrap());
                    views.apply(&envelope, &event);
                    assert_eq!(whole.shown(), views.shown(), "{kind} is not read as a whole, and misses something");
                }
                None => {
                    let mut changed = views.clone();
                    changed.apply(&envelope, &envelope.event().unwrap());
                    assert_eq!(changed.shown(), views.shown(), "{kind} changes a view and is not read");
                }
            }
        }
        assert!(read > 15, "only {read} kinds were read");
    }

    #[test]
    fn what_was_erased_or_is_newer_is_passed_over_and_what_is_broken_is_said() {
        assert!(folded(&envelope(1, "run.accepted", "null")).unwrap().is_none());
        assert!(folded(&envelope(1, "choir.sung", "{}")).unwrap().is_none());
        assert!(folded(&envelope(1, "run.accepted", "{}")).is_err());
    }
}
