use super::*;
use crate::agent::patience;
use choir_proto::event::{ModelCalled, ModelFailed, RunEnded, TaskFinished, TaskRequested, ToolFinished, ToolStarted};
use choir_proto::{EventId, Hash, RunStatus, Seq, Usd};
use serde_json::json;
use uuid::Uuid;

const RUN: RunId = RunId::new(Uuid::from_u128(1));
const ROOT: TaskId = TaskId::new(Uuid::from_u128(2));

struct Log {
    tracing: Tracing,
    seq: u64,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { tracing: Tracing::new(RUN), seq: 0 };
        let request = serde_json::from_value(json!({"prompt": "count the\nfruit"})).unwrap();
        log.says(None, choir_proto::event::RunAccepted { request, document_id: None });
        log
    }

    fn says(&mut self, task: Option<TaskId>, event: impl Into<Event>) {
        self.seq += 1;
        let event = event.into();
        let header = Header {
            seq: Seq(self.seq),
            id: EventId::new(Uuid::from_u128(u128::from(self.seq) + 1000)),
            epoch: 1,
            at: Timestamp(self.seq as i64 * 1_000_000),
            actor: Actor::Computer,
            run: Some(RUN),
            task,
            cause: None,
            kind: event.kind(),
            version: 1,
            payload_hash: Hash::ZERO,
            prev: Hash::ZERO,
            hash: Hash::ZERO,
        };
        self.tracing.apply(&header, &event);
        // A follower that resumes may see an event again.
        self.tracing.apply(&header, &event);
    }

    fn asks(&mut self, task: TaskId, role: Role) {
        let request =
            serde_json::from_value(json!({"kind": "edit", "instruction": format!("be a {}", role.name())})).unwrap();
        self.says(Some(task), TaskRequested { request, role: Some(role), parent: None });
    }

    fn answers(&mut self, task: TaskId, usd: u64) {
        let usage = Usage { input_tokens: 5, usd: Usd(usd), ..Default::default() };
        let message = Default::default();
        let stop = choir_proto::model::StopReason::ToolUse;
        self.says(
            Some(task),
            ModelCalled {
                turn: 1,
                model: "a/b".into(),
                message,
                stop,
                usage,
                duration_ms: 500,
                window: None,
                heard: None,
            },
        );
    }

    fn calls(&mut self, task: TaskId, effect: &str, name: &str) {
        let arguments = json!({"x": 1});
        let (effect_id, call_id, name) = (effect.to_owned(), "c".to_owned(), name.to_owned());
        self.says(Some(task), ToolStarted { effect_id, turn: 1, index: 0, call_id, name, arguments });
    }

    fn ends(&mut self, task: TaskId, effect: &str) {
        let (effect_id, call_id) = (effect.to_owned(), "c".to_owned());
        let outcome = choir_proto::event::ToolOutcome::Ok;
        let finished =
            ToolFinished { effect_id, call_id, outcome, content: String::new(), output: None, duration_ms: 1 };
        self.says(Some(task), finished);
    }
}

/// Depth, kind, name, status and millionths of a dollar of every span.
fn shown(trace: &Trace) -> Vec<String> {
    let depth = |span: &Span| {
        let mut parent = span.parent.clone();
        let mut depth = 0;
        while let Some(id) = parent {
            depth += 1;
            parent = trace.spans.iter().find(|span| span.span_id == id).expect("its parent is there").parent.clone();
        }
        depth
    };
    let line = |span: &Span| {
        let (indent, kind) = (" ".repeat(depth(span)), format!("{:?}", span.kind));
        format!("{indent}{kind} {} {} {}", span.name, span.status, span.usage.usd.0)
    };
    trace.spans.iter().map(line).collect()
}

#[test]
fn a_delegated_task_stands_under_the_call_that_began_it_and_costs_add_up() {
    let mut log = Log::new();
    log.asks(ROOT, Role::Conductor);
    log.answers(ROOT, 10);
    log.calls(ROOT, "e1", "delegate");
    let child = effect::child("e1");
    log.asks(child, Role::Terminal);
    log.answers(child, 7);
    log.calls(child, "e2", "bash");
    log.ends(child, "e2");
    let result =
        choir_proto::task::TaskResult { status: choir_proto::TaskStatus::Ok, ..crate::fold::task::running(child) };
    log.says(Some(child), TaskFinished { result });
    log.ends(ROOT, "e1");
    log.answers(ROOT, 3);
    log.says(None, RunEnded { status: RunStatus::Completed, summary: String::new(), unanswered: None });
    let trace = log.tracing.finish();
    let expected = [
        "Run run completed 20",
        " Task conductor running 20",
        "  Model a/b ok 17",
        "   Tool delegate ok 7",
        "    Task terminal ok 7",
        "     Model a/b ok 7",
        "      Tool bash ok 0",
        "  Model a/b ok 3",
    ];
    assert_eq!(shown(&trace), expected);
    assert_eq!(trace.spans[0].detail, "count the fruit");
    let model = &trace.spans[2];
    assert_eq!(model.ended_at.unwrap().0 - model.started_at.0, 500_000, "a model's time is before its event");
}

#[test]
fn what_is_not_known_yet_is_running_and_failures_are_spans_too() {
    let mut log = Log::new();
    log.asks(ROOT, Role::Conductor);
    let class = choir_proto::model::ErrorClass::Overloaded;
    log.says(Some(ROOT), ModelFailed { turn: 1, attempt: 1, class, message: "no".into(), usage: Usage::default() });
    log.calls(ROOT, "e1", "bash");
    let trace = log.tracing.finish();
    let expected =
        ["Run run running 0", " Task conductor running 0", "  Model model failed 0", "  Tool bash running 0"];
    assert_eq!(shown(&trace), expected);
    assert_eq!(trace.spans[3].ended_at, None);
}

#[test]
fn a_wait_is_a_span_that_says_what_is_waited_for_and_ends_with_it() {
    let mut log = Log::new();
    log.asks(ROOT, Role::Conductor);
    log.says(Some(ROOT), patience::silent(Some("a/b"), 3_000, 0));
    log.says(Some(ROOT), patience::silent(Some("a/b"), 10_000, 0));
    log.answers(ROOT, 1);
    log.says(Some(ROOT), patience::in_line(8));
    let trace = log.tracing.finish();
    let expected = [
        "Run run running 1",
        " Task conductor running 1",
        "  Wait wait ok 0",
        "  Model a/b ok 1",
        "  Wait wait running 0",
    ];
    assert_eq!(shown(&trace), expected);
    let [.., over, _, lasts] = trace.spans.as_slice() else { panic!("{trace:?}") };
    assert_eq!(over.detail, "waiting for a/b: no word for 10 s, attempt 1 of 3", "the newest word");
    // Told of at second 3 of the log after three seconds of silence; the answer is its fifth event.
    assert_eq!((over.started_at, over.ended_at), (Timestamp(0), Some(Timestamp(5_000_000))));
    assert!(lasts.detail.contains("in line") && lasts.ended_at.is_none(), "{lasts:?}");
}

#[test]
fn a_trace_has_an_end_and_no_orphans() {
    let mut log = Log::new();
    log.calls(TaskId::new(Uuid::from_u128(9)), "orphan", "bash");
    log.asks(ROOT, Role::Conductor);
    for index in 0..SPANS_MAX {
        log.calls(ROOT, &format!("e{index}"), "bash");
    }
    let trace = log.tracing.finish();
    assert!(trace.truncated && trace.spans.len() == SPANS_MAX);
    assert!(trace.spans.iter().all(|span| span.span_id != "orphan"));
}
