//! The events that the page folds, and of these what its folds look at, and only that: reading every kind as a whole would make
//! the page a quarter heavier. A test holds it against what the whole events would have made.

use crate::json;
use choir_core::fold::task::running;
use choir_proto::desktop::{App, Rect, Shape, Subject, Theme};
use choir_proto::event::{
    BlockedOn, ChecksAccepted, DocumentCreated, DocumentRemoved, DocumentRestored, DocumentTrashed, DocumentUpdated,
    DocumentVersioned, Envelope, Event, ModelCalled, RunAccepted, RunAnswered, RunBlocked, RunDismissed, RunEnded,
    RunPaused, RunRemoved, RunRestored, RunResumed, RunStarted, TaskConflicted, TaskDelayed, TaskFinished,
    TaskRequested, TaskStarted, ThemeChosen, WindowClosed, WindowFocused, WindowMoved, WindowOpened, WindowShaped,
    WindowShown,
};
use choir_proto::model::{AssistantMessage, Paid, StopReason, Usage};
use choir_proto::run::{NewRun, RunStatus, Selection};
use choir_proto::task::{
    TaskKind, TaskRequest, TaskResult, TaskStatus, VerifyMode, VerifyResult, VerifySource, VerifyStatus,
};
use choir_proto::{DocumentId, Hash, Role, TaskId, WindowId};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The only version of a payload that there is so far; what is of another is not folded, as with kinds of newer computers.
const VERSION: u16 = 1;

/// A payload of a known kind that cannot be read: from there on the view may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Everything that a fold looks at, of whichever kind. One reader for all of them is a tenth as long as one for each.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    document_id: Option<DocumentId>,
    title: Option<String>,
    version: Option<u32>,
    content_hash: Option<Hash>,
    size: Option<u64>,
    window_id: Option<WindowId>,
    app: Option<App>,
    subject: Option<Subject>,
    rect: Option<Rect>,
    shape: Option<Shape>,
    theme: Option<Theme>,
    on: Option<BlockedOn>,
    /// Of a model it is more than a text, and nobody looks at it.
    message: Option<Box<RawValue>>,
    text: Option<String>,
    status: Option<RunStatus>,
    summary: Option<String>,
    request: Option<Asked>,
    role: Option<Role>,
    parent: Option<TaskId>,
    result: Option<Ended>,
    usage: Option<Usage>,
    unanswered: Option<Paid>,
    run_status: Option<RunStatus>,
}

/// What a run or a task was asked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    prompt: Option<String>,
    model: Option<String>,
    selection: Option<Selection>,
    instruction: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Ended {
    task_id: TaskId,
    status: TaskStatus,
    summary: String,
    #[serde(default)]
    verify: Option<Checked>,
}

/// What makes the difference between done and verified.
#[derive(Debug, Deserialize)]
struct Checked {
    status: VerifyStatus,
    source: VerifySource,
    #[serde(default)]
    checks_changed: Vec<String>,
    #[serde(default)]
    doubts: Vec<String>,
}

impl Checked {
    fn result(self) -> VerifyResult {
        let Self { status, source, checks_changed, doubts } = self;
        let (mode, missing, commands) = (VerifyMode::Commands, Vec::new(), Vec::new());
        let (accepted, timed_out, doubtful) = (false, false, Vec::new());
        VerifyResult { mode, status, source, checks_changed, accepted, missing, timed_out, doubts, doubtful, commands }
    }
}

/// What an event means, if the page folds its kind.
pub fn folded(envelope: &Envelope) -> Result<Option<Event>, Unreadable> {
    let (kind, payload) = (envelope.header.kind.as_ref(), envelope.payload.get());
    if payload == "null" || envelope.header.version != VERSION || !is_folded(kind) {
        return Ok(None);
    }
    let said: Said = json::read(payload).map_err(|_| Unreadable)?;
    said.event(kind).map(Some).ok_or(Unreadable)
}

/// What the person is asked, if that is what an event says.
pub fn question(envelope: &Envelope) -> Option<String> {
    let payload: serde_json::Value = json::read(envelope.payload.get()).ok()?;
    Some(payload.get("question").filter(|_| envelope.header.kind == "inbox.asked")?.as_str()?.to_owned())
}

fn is_folded(kind: &str) -> bool {
    const KINDS: [&str; 30] = [
        "run.accepted",
        "run.started",
        "run.blocked",
        "run.paused",
        "run.resumed",
        "run.answered",
        "run.ended",
        "run.removed",
        "run.restored",
        "run.dismissed",
        "task.requested",
        "task.started",
        "task.delayed",
        "task.conflicted",
        "task.finished",
        "checks.accepted",
        "model.called",
        "document.created",
        "document.versioned",
        "document.updated",
        "document.trashed",
        "document.removed",
        "document.restored",
        "window.opened",
        "window.focused",
        "window.moved",
        "window.shaped",
        "window.shown",
        "window.closed",
        "theme.chosen",
    ];
    KINDS.contains(&kind)
}

impl Said {
    /// The event of a kind. Nothing: something that the kind must have is not there. What no fold looks at is left as if nobody
    /// had said anything of it.
    fn event(self, kind: &str) -> Option<Event> {
        let Self { document_id, window_id, subject, rect, .. } = self;
        Some(match kind {
            "run.accepted" => RunAccepted { request: self.request?.run()?, document_id }.into(),
            "run.started" => RunStarted {}.into(),
            "run.blocked" => {
                let message = json::read(self.message?.get()).ok()?;
                RunBlocked { on: self.on?, message }.into()
            }
            "task.started" => TaskStarted { base_tree: None, alone: false }.into(),
            "task.delayed" => {
                let message = json::read(self.message?.get()).ok()?;
                TaskDelayed { message, model: None, attempt: None, waited_ms: None }.into()
            }
            "run.paused" => RunPaused {}.into(),
            "run.resumed" => RunResumed {}.into(),
            "run.answered" => RunAnswered { text: self.text? }.into(),
            "run.ended" => {
                let unanswered = self.unanswered;
                RunEnded { status: self.status?, summary: self.summary?, unanswered }.into()
            }
            "run.removed" => RunRemoved {}.into(),
            "run.restored" => RunRestored {}.into(),
            "run.dismissed" => RunDismissed {}.into(),
            "task.requested" => {
                TaskRequested { request: self.request?.task()?, role: self.role, parent: self.parent }.into()
            }
            "task.conflicted" => {
                let Ended { task_id, status, summary, .. } = self.result?;
                TaskConflicted { result: TaskResult { status, summary, ..running(task_id) } }.into()
            }
            "task.finished" => {
                let Ended { task_id, status, summary, verify } = self.result?;
                let verify = verify.map(Checked::result);
                TaskFinished { result: TaskResult { status, summary, verify, ..running(task_id) } }.into()
            }
            "checks.accepted" => ChecksAccepted { checks: Vec::new(), run_status: self.run_status }.into(),
            "model.called" => {
                let (message, stop, usage) = (AssistantMessage::default(), StopReason::Finished, self.usage?);
                let (turn, model, duration_ms, window, heard) = (0, String::new(), 0, None, None);
                ModelCalled { turn, model, message, stop, usage, duration_ms, window, heard }.into()
            }
            "document.created" => DocumentCreated { document_id: document_id?, title: self.title? }.into(),
            "document.versioned" => DocumentVersioned {
                document_id: document_id?,
                version: self.version?,
                title: self.title?,
                content_hash: self.content_hash?,
                content: None,
                size: self.size?,
                reason: String::new(),
            }
            .into(),
            "document.updated" => DocumentUpdated {
                document_id: document_id?,
                version: self.version?,
                changes: Vec::new(),
                update: None,
                content_hash: self.content_hash?,
                size: self.size?,
                effect_id: None,
                sketch: None,
            }
            .into(),
            "document.trashed" => DocumentTrashed { document_id: document_id?, reason: String::new() }.into(),
            "document.removed" => DocumentRemoved { document_id: document_id? }.into(),
            "document.restored" => DocumentRestored { document_id: document_id? }.into(),
            "window.opened" => WindowOpened { window_id: window_id?, app: self.app?, subject, rect }.into(),
            "window.focused" => WindowFocused { window_id: window_id? }.into(),
            "window.moved" => WindowMoved { window_id: window_id?, rect: rect? }.into(),
            "window.shaped" => WindowShaped { window_id: window_id?, shape: self.shape? }.into(),
            "window.shown" => WindowShown { window_id: window_id?, subject: subject? }.into(),
            "window.closed" => WindowClosed { window_id: window_id? }.into(),
            "theme.chosen" => ThemeChosen { theme: self.theme }.into(),
            _ => return None,
        })
    }
}

impl Asked {
    fn run(self) -> Option<NewRun> {
        let Self { prompt, model, selection, .. } = self;
        Some(NewRun { model, selection, ..NewRun::new(prompt?) })
    }

    fn task(self) -> Option<TaskRequest> {
        self.instruction.map(|instruction| TaskRequest::new(TaskKind::Edit, instruction))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::computer::{Documents, Runs, Touches};
    use choir_core::fold::desktop;
    use choir_proto::desktop::{Desktop, Window};
    use choir_proto::{Run, Seq};
    use serde_json::json;

    /// Every kind and a payload of it, as they are kept for good.
    pub(crate) fn golden() -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = include_str!("../../proto/tests/main/golden/events.txt").lines();
        lines.filter_map(|line| line.split_once(' ').and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?.1))))
    }

    /// The task of which a payload says that it has finished.
    const TASK: &str = "01890a5d-ac96-774b-bcce-b302099a8054";

    fn envelope(seq: u64, kind: &str, payload: &str) -> Envelope {
        let zero = "0".repeat(64);
        let id = "01970000-0000-7000-8000-000000000001";
        let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
        let frame = json!({
            "seq": seq, "id": id, "epoch": 1, "at": "2026-01-01T00:00:00Z", "actor": "person", "run": id, "task": TASK,
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
                    desktop::apply(&mut self.2, envelope.header.run, event);
                }
                Touches::Desktop => desktop::apply(&mut self.2, envelope.header.run, event),
                Touches::Inbox | Touches::Evidence | Touches::Changes | Touches::Files | Touches::Nothing => {}
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
                    if kind == "window.opened" {
                        // A second one, over which the first can be raised.
                        let window_id = TASK.parse().unwrap();
                        views.2.windows.push(Window { window_id, ..views.2.windows[0].clone() });
                    }
                }
                None => {
                    let mut changed = views.clone();
                    changed.apply(&envelope, &envelope.event().unwrap());
                    assert_eq!(changed.shown(), views.shown(), "{kind} changes a view and is not read");
                }
            }
        }
        assert!(read > 20, "only {read} kinds were read");
    }

    #[test]
    fn what_verified_a_task_is_read() {
        let finished = |source: &str| {
            let verify = json!({"mode": "commands", "status": "pass", "source": source, "checks_changed": []});
            let result = json!({"task_id": TASK, "status": "ok", "summary": "s", "verify": verify});
            let envelope = envelope(1, "task.finished", &json!({"result": result}).to_string());
            match folded(&envelope).unwrap() {
                Some(Event::TaskFinished(finished)) => choir_core::verify::passed(&finished.result),
                other => panic!("{other:?}"),
            }
        };
        assert!(finished("person"));
        assert!(!finished("agent"));
    }

    #[test]
    fn what_was_erased_or_is_newer_is_passed_over_and_what_is_broken_is_said() {
        assert!(folded(&envelope(1, "run.accepted", "null")).unwrap().is_none());
        assert!(folded(&envelope(1, "choir.sung", "{}")).unwrap().is_none());
        // Every kind that must say something, saying nothing.
        let silent = [
            "run.started",
            "run.paused",
            "run.resumed",
            "run.removed",
            "run.restored",
            "run.dismissed",
            "theme.chosen",
            "task.started",
            "checks.accepted",
        ];
        for (kind, _) in golden().filter(|(kind, _)| is_folded(kind) && !silent.contains(kind)) {
            assert_eq!(folded(&envelope(1, kind, "{}")).err(), Some(Unreadable), "{kind}");
        }
    }

    #[test]
    fn a_question_is_told_and_nothing_else_is() {
        let (_, asked) = golden().find(|(kind, _)| *kind == "inbox.asked").unwrap();
        assert!(question(&envelope(1, "inbox.asked", asked)).is_some_and(|question| !question.is_empty()));
        assert_eq!(question(&envelope(1, "inbox.decided", asked)), None);
    }
}
