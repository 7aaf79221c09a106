//! The log, read as it is: a run's events as a trace, or all of them through time.

use crate::page::desk::{Desk, use_desk};
use crate::page::home::RunRow;
use crate::page::rich::Standing;
use crate::page::server::{self, Failure};
use choir_desktop::json;
use choir_desktop::status::{Mark, run_words};
use choir_desktop::trace::{describe, duration_ms, role, span};
use choir_desktop::words::{clock, headline, milliseconds};
use choir_proto::api::Events;
use choir_proto::desktop::{DesktopCommand, Subject};
use choir_proto::{Envelope, RunId, Seq, WindowId};
use dioxus::prelude::*;
use serde_json::Value;

/// Events asked for at once.
const PAGE: u64 = 200;
/// Events that a window keeps; the oldest give way.
const KEPT_MAX: usize = 400;

/// One event as a line.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    seq: u64,
    at_us: i64,
    clock: String,
    role: String,
    kind: String,
    words: String,
    duration_ms: Option<u64>,
}

impl From<&Envelope> for Line {
    fn from(envelope: &Envelope) -> Self {
        let header = &envelope.header;
        // What was erased says nothing.
        let payload: Value = json::read(envelope.payload.get()).unwrap_or_default();
        Self {
            seq: header.seq.0,
            at_us: header.at.0,
            clock: clock(header.at),
            role: role(&header.actor),
            kind: header.kind.to_string(),
            words: describe(&header.kind, &payload),
            duration_ms: duration_ms(&payload),
        }
    }
}

/// What a window has read of the log.
#[derive(Clone, Copy, PartialEq)]
struct Reader {
    desk: Desk,
    run: Option<RunId>,
    lines: Signal<Vec<Line>>,
    /// The last position read.
    read: Signal<u64>,
    /// The first position read.
    first: Signal<u64>,
    busy: Signal<bool>,
    failed: Signal<Option<String>>,
}

impl Reader {
    fn new(run: Option<RunId>, after: u64) -> Self {
        let desk = use_desk();
        let reader = use_hook(|| Self {
            desk,
            run,
            lines: Signal::new(Vec::new()),
            read: Signal::new(after),
            first: Signal::new(after),
            busy: Signal::new(false),
            failed: Signal::new(None),
        });
        // Once a second at most, and only if the log has grown.
        use_effect(move || {
            desk.now.read();
            if desk.seq.peek().0 > *reader.read.peek() && !*reader.busy.peek() {
                reader.newer();
            }
        });
        reader
    }

    fn path(self, after: u64) -> String {
        let run = self.run.map(|run| format!("&run={run}")).unwrap_or_default();
        format!("/api/events?after={after}&limit={PAGE}{run}")
    }

    fn newer(mut self) {
        self.busy.set(true);
        spawn(async move {
            let head = *self.desk.seq.peek();
            let answer: Result<Events, Failure> = server::get(&self.path(*self.read.peek())).await;
            self.busy.set(false);
            match answer {
                Ok(events) => self.append(&events, head),
                Err(failure) => self.failed.set(Some(failure.to_string())),
            }
        });
    }

    fn append(mut self, events: &Events, head: Seq) {
        self.failed.set(None);
        // A page that is not full ends at the head.
        let full = events.events.len() as u64 >= PAGE;
        let last = events.events.last().map_or(0, |envelope| envelope.header.seq.0);
        self.read.set(if full { last } else { last.max(head.0) });
        let mut lines = self.lines.write();
        lines.extend(events.events.iter().map(Line::from));
        let excess = lines.len().saturating_sub(KEPT_MAX);
        lines.drain(..excess);
    }

    fn older(mut self) {
        let before = *self.first.peek();
        let after = before.saturating_sub(PAGE);
        spawn(async move {
            let answer: Result<Events, Failure> = server::get(&self.path(after)).await;
            match answer {
                Ok(events) => {
                    let earlier =
                        events.events.iter().filter(|envelope| envelope.header.seq.0 <= before).map(Line::from);
                    let mut lines: Vec<Line> = earlier.collect();
                    lines.append(&mut self.lines.write());
                    self.lines.set(lines);
                    self.first.set(after);
                }
                Err(failure) => self.failed.set(Some(failure.to_string())),
            }
        });
    }
}

/// A run from its prompt to its end.
#[component]
pub(crate) fn Trace(id: RunId) -> Element {
    let desk = use_desk();
    let run = use_memo(move || desk.runs.read().get(id).cloned());
    let start = run.peek().as_ref().map_or(0, |run| run.seq.0.saturating_sub(1));
    let reader = Reader::new(Some(id), start);
    let lines = reader.lines.read();
    let began = lines.first().map_or(0, |line| line.at_us);
    let total = lines.last().map_or(0, |line| line.at_us - began);
    rsx! {
        div { class: "log page", tabindex: "0", role: "region", "aria-label": "Events of this run",
            if let Some(run) = run() {
                p { class: "log-head",
                    Standing { mark: Mark::from(run.status), label: run_words(run.status) }
                    strong { {headline(&run.prompt, 100)} }
                }
            }
            Failed { reader }
            ol { class: "lines",
                for line in lines.iter().cloned() { TraceLine { key: "{line.seq}", line, began, total } }
            }
        }
    }
}

#[component]
fn TraceLine(line: Line, began: i64, total: i64) -> Element {
    let bar = line.duration_ms.map(|ms| (span(began, total, line.at_us, ms), milliseconds(ms)));
    let since = milliseconds(((line.at_us - began) / 1_000).max(0) as u64);
    rsx! {
        li { class: "line", "data-role": "{line.role}",
            span { class: "figure when", "{since}" }
            span { class: "kind", "{line.kind}" }
            span { class: "said", title: "{line.words}", "{line.words}" }
            if let Some(((left, width), words)) = bar {
                span { class: "track", title: "{words}",
                    span { class: "span", left, width }
                }
                span { class: "figure took", "{words}" }
            }
        }
    }
}

/// The whole log, the newest first.
#[component]
pub(crate) fn Timeline() -> Element {
    let desk = use_desk();
    let reader = Reader::new(None, desk.seq.peek().0.saturating_sub(PAGE));
    let lines: Vec<Line> = reader.lines.read().iter().rev().cloned().collect();
    let more = *reader.first.read() > 0 && lines.len() < KEPT_MAX;
    rsx! {
        div { class: "log page", tabindex: "0", role: "region", "aria-label": "Events",
            Failed { reader }
            ol { class: "lines",
                for line in lines { TimelineLine { key: "{line.seq}", line } }
            }
            if more {
                button { r#type: "button", class: "secondary", onclick: move |_| reader.older(), "Earlier" }
            }
        }
    }
}

#[component]
fn TimelineLine(line: Line) -> Element {
    rsx! {
        li { class: "line plain", "data-role": "{line.role}",
            span { class: "figure when", title: "Place in the log", "{line.seq}" }
            span { class: "figure when", "{line.clock}" }
            span { class: "kind", "{line.kind}" }
            span { class: "said", title: "{line.words}", "{line.words}" }
        }
    }
}

#[component]
fn Failed(reader: Reader) -> Element {
    match &*reader.failed.read() {
        Some(why) => rsx! { p { class: "reason", role: "alert", "{why}" } },
        None => rsx! {},
    }
}

/// Trace without a run: which one?
#[component]
pub(crate) fn ChooseRun(window_id: WindowId) -> Element {
    let desk = use_desk();
    let runs: Vec<_> = desk.runs.read().listed().take(50).cloned().collect();
    let choose = move |id| desk.command(DesktopCommand::Show { window_id, subject: Subject::Run(id) });
    if runs.is_empty() {
        return rsx! {
            div { class: "empty",
                h2 { "No run yet" }
                p { "Type what you want into the prompt bar; every step of it is shown here." }
            }
        };
    }
    rsx! {
        div { class: "page",
            section { "aria-label": "Runs",
                h2 { "Which run?" }
                for run in runs {
                    RunRow { key: "{run.run_id}", run: run.clone(), choose: move |()| choose(run.run_id) }
                }
            }
        }
    }
}
