//! A run's trace, folded from its events. Every span but the run's own has a parent that is in the trace.

use crate::effect;
use crate::tool::DELEGATE;
use choir_proto::event::{Actor, Header, TaskDelayed};
use choir_proto::model::Usage;
use choir_proto::trace::{Span, SpanKind, Trace};
use choir_proto::{Event, Role, RunId, TaskId, Timestamp};
use std::collections::HashMap;

/// Spans in one trace. Work that takes more is looked at by its events.
pub const SPANS_MAX: usize = 20_000;

/// Characters of a span's detail.
const DETAIL_CHARACTERS_MAX: usize = 200;

/// A trace that is being folded.
#[derive(Debug)]
pub struct Tracing {
    trace: Trace,
    /// Where each span is.
    places: HashMap<String, usize>,
    /// The newest answer of each task: the parent of the calls that it asked for.
    answers: HashMap<TaskId, String>,
    /// What each task waits for now.
    waits: HashMap<TaskId, String>,
    /// The call that began each task that a call began.
    delegations: HashMap<TaskId, String>,
}

impl Tracing {
    /// Nothing has happened yet.
    pub fn new(run_id: RunId) -> Self {
        let trace = Trace { run_id, spans: Vec::new(), truncated: false, upto: Default::default() };
        let (answers, waits) = (HashMap::new(), HashMap::new());
        Self { trace, places: HashMap::new(), answers, waits, delegations: HashMap::new() }
    }

    /// Folds the next event of the run.
    pub fn apply(&mut self, header: &Header, event: &Event) {
        if header.seq <= self.trace.upto {
            return;
        }
        self.trace.upto = header.seq;
        match event {
            Event::RunAccepted(accepted) => {
                let detail = accepted.request.prompt.clone();
                self.begin(header, self.trace.run_id.to_string(), None, Begun::new(SpanKind::Run, "run", detail));
            }
            Event::RunStarted(_) | Event::RunResumed(_) => self.run_is("running"),
            Event::RunPaused(_) => self.run_is("paused"),
            Event::RunBlocked(_) => self.run_is("blocked"),
            Event::RunEnded(ended) => self.end(&self.trace.run_id.to_string(), ended.status.name(), header.at),
            _ => {
                if let Some(task) = header.task {
                    self.apply_to_task(header, task, event);
                }
            }
        }
    }

    fn apply_to_task(&mut self, header: &Header, task: TaskId, event: &Event) {
        if ends_wait(event)
            && let Some(wait) = self.waits.remove(&task)
        {
            self.end(&wait, "ok", header.at);
        }
        match event {
            Event::TaskDelayed(delayed) => self.wait(header, task, delayed),
            Event::TaskRequested(requested) => {
                let name = requested.role.map_or("task", Role::name);
                let begun = Begun::new(SpanKind::Task, name, requested.request.instruction.clone());
                let begun = Begun { role: requested.role, ..begun };
                let parent = self.delegations.get(&task).cloned().unwrap_or_else(|| self.trace.run_id.to_string());
                self.begin(header, task.to_string(), Some(parent), begun);
            }
            Event::TaskFinished(finished) => self.end(&task.to_string(), finished.result.status.name(), header.at),
            Event::ModelCalled(called) => {
                let id = header.id.to_string();
                let begun = Begun::new(SpanKind::Model, &called.model, called.message.text.clone());
                let began = Timestamp(header.at.0.saturating_sub(micros(called.duration_ms)));
                self.begin(header, id.clone(), Some(task.to_string()), Begun { at: Some(began), ..begun });
                self.end(&id, "ok", header.at);
                self.spend(&id, called.usage);
                self.answers.insert(task, id);
            }
            Event::ModelFailed(failed) => {
                let id = header.id.to_string();
                let begun = Begun::new(SpanKind::Model, "model", failed.message.clone());
                self.begin(header, id.clone(), Some(task.to_string()), begun);
                self.end(&id, "failed", header.at);
            }
            Event::ToolStarted(started) => {
                let parent = self.answers.get(&task).cloned().unwrap_or_else(|| task.to_string());
                let begun = Begun::new(SpanKind::Tool, &started.name, started.arguments.to_string());
                self.begin(header, started.effect_id.clone(), Some(parent), begun);
                if started.name == DELEGATE {
                    self.delegations.insert(effect::child(&started.effect_id), started.effect_id.clone());
                }
            }
            Event::ToolFinished(finished) => self.end(&finished.effect_id, finished.outcome.name(), header.at),
            _ => {}
        }
    }

    /// A task waits, or still does: one wait is one span, which says the newest of it.
    fn wait(&mut self, header: &Header, task: TaskId, delayed: &TaskDelayed) {
        if let Some(span) = self.waits.get(&task).cloned().and_then(|wait| self.span(&wait)) {
            span.detail = line(&delayed.message);
            return;
        }
        let id = header.id.to_string();
        let began = Timestamp(header.at.0.saturating_sub(micros(delayed.waited_ms.unwrap_or_default())));
        let begun = Begun::new(SpanKind::Wait, "wait", delayed.message.clone());
        self.begin(header, id.clone(), Some(task.to_string()), Begun { at: Some(began), ..begun });
        self.waits.insert(task, id);
    }

    /// The trace as far as it goes.
    pub fn finish(mut self) -> Trace {
        // Children come after their parents, so one pass from the end carries every amount up to the run.
        for index in (1..self.trace.spans.len()).rev() {
            let usage = self.trace.spans[index].usage;
            let parent = self.trace.spans[index].parent.as_ref().and_then(|parent| self.places.get(parent));
            if let Some(parent) = parent.copied() {
                self.trace.spans[parent].usage += usage;
            }
        }
        self.trace
    }

    fn begin(&mut self, header: &Header, span_id: String, parent: Option<String>, begun: Begun) {
        if self.trace.spans.len() >= SPANS_MAX {
            self.trace.truncated = true;
            return;
        }
        // A parent that is not shown would leave a child without one.
        let is_known = parent.as_ref().is_none_or(|parent| self.places.contains_key(parent));
        if !is_known || self.places.contains_key(&span_id) {
            return;
        }
        let role = begun.role.or(match header.actor {
            Actor::Agent(role) => Some(role),
            _ => None,
        });
        self.places.insert(span_id.clone(), self.trace.spans.len());
        self.trace.spans.push(Span {
            span_id,
            parent,
            kind: begun.kind,
            name: begun.name,
            detail: line(&begun.detail),
            role,
            status: "running".to_owned(),
            started_at: begun.at.unwrap_or(header.at),
            ended_at: None,
            usage: Usage::default(),
            seq: header.seq,
        });
    }

    fn end(&mut self, span_id: &str, status: &str, at: Timestamp) {
        if let Some(span) = self.span(span_id) {
            status.clone_into(&mut span.status);
            span.ended_at = Some(at);
        }
    }

    fn run_is(&mut self, status: &str) {
        let run = self.trace.run_id.to_string();
        if let Some(span) = self.span(&run) {
            status.clone_into(&mut span.status);
        }
    }

    fn spend(&mut self, span_id: &str, usage: Usage) {
        if let Some(span) = self.span(span_id) {
            span.usage += usage;
        }
    }

    fn span(&mut self, span_id: &str) -> Option<&mut Span> {
        self.places.get(span_id).and_then(|place| self.trace.spans.get_mut(*place))
    }
}

/// Whether a task no longer waits for what it waited for.
fn ends_wait(event: &Event) -> bool {
    use Event::{ModelCalled, ModelFailed, TaskFinished, TaskStarted};
    matches!(event, TaskStarted(_) | ModelCalled(_) | ModelFailed(_) | TaskFinished(_))
}

/// What begins.
struct Begun {
    kind: SpanKind,
    name: String,
    detail: String,
    role: Option<Role>,
    /// Nothing means when its event was written.
    at: Option<Timestamp>,
}

impl Begun {
    fn new(kind: SpanKind, name: &str, detail: String) -> Self {
        Self { kind, name: name.to_owned(), detail, role: None, at: None }
    }
}

fn micros(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

/// One line, cut where it is long.
fn line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = words.char_indices().nth(DETAIL_CHARACTERS_MAX) {
        words.truncate(at);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests;
