//! A run beside its document: agents, progress, receipt, and what can be done about it.

use super::changes::{Changes, is_taken_back};
use crate::page::cards::{Receipt, control};
use crate::page::desk::{Desk, late, use_desk};
use crate::page::keys::PROMPT;
use crate::page::rich::{Brief, Glyph, Rich, Standing};
use crate::page::server::{self, Failure};
use crate::page::{bridge, cards};
use choir_desktop::files::plainly;
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::status::{Mark, task_words};
use choir_desktop::words::{count, objective};
use choir_proto::api::{Changes as Changed, NewUndo, Undo};
use choir_proto::desktop::App;
use choir_proto::event::BlockedOn;
use choir_proto::run::{Run, RunStatus, TaskSummary};
use choir_proto::task::TaskStatus;
use choir_proto::{RunId, TaskId};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// How long an undo rests before it can be asked for again.
const REST_MS: u32 = 600;
/// Characters of what a task is for, and of what it said at its end.
const OBJECTIVE_CHARACTERS_MAX: usize = 120;
const SAID_CHARACTERS_MAX: usize = 240;

/// A run without a document.
#[component]
pub(crate) fn RunPage(id: RunId) -> Element {
    let desk = use_desk();
    let mut changes = use_signal(|| false);
    let Some(run) = desk.runs.read().get(id).cloned() else {
        return rsx! { p { class: "empty", "This run is not in the log any more." } };
    };
    rsx! {
        div { class: "run-page page",
            blockquote { class: "prompted", "{run.prompt}" }
            if let Some(answer) = run.answer.clone() { Rich { text: answer } }
            Margin { run, reviewing: changes(), changes: move |()| changes.toggle() }
            if changes() { Changes { run: id } }
        }
    }
}

#[component]
pub(crate) fn Margin(run: Run, reviewing: bool, changes: EventHandler<()>) -> Element {
    let desk = use_desk();
    let waits =
        run.status == RunStatus::Blocked && desk.inbox.read().iter().any(|item| item.run_id == Some(run.run_id));
    rsx! {
        section { class: "margin", "aria-label": "Run",
            if !run.status.is_ending() { {progress(&run.tasks)} }
            if let Some(reason) = run.reason.clone().filter(|reason| run.answer.as_ref() != Some(reason)) {
                div { class: "reason", Rich { text: reason } }
            }
            Receipt { run: run.clone() }
            if waits {
                button { r#type: "button", class: "mend", onclick: move |_| desk.open(App::Inbox, None),
                    Glyph { icon: Icon::Inbox }
                    "Answer in the Inbox"
                }
            }
            Controls { run: run.clone(), reviewing, changes }
            // What is done keeps quiet until somebody asks, unless it has something to ask.
            details { class: "plan", open: !run.status.is_ending() || run.tasks.iter().any(|task| !task.checks_changed.is_empty()),
                summary { {count(run.tasks.len(), "agent", "agents")} }
                ol { class: "tasks", "aria-label": "Plan",
                    for task in run.tasks.clone() {
                        {line(&task, objective(&task, &run.tasks), run.reason.as_ref())}
                    }
                }
            }
        }
    }
}

/// How much of the plan is done.
fn progress(tasks: &[TaskSummary]) -> Element {
    let all = tasks.len();
    let done =
        tasks.iter().filter(|task| task.status != TaskStatus::Running && task.status != TaskStatus::NeedsInput).count();
    if all < 2 || done == all {
        return rsx! {};
    }
    rsx! {
        progress { max: "{all}", value: "{done}", "aria-label": "{done} of {all} agents are done" }
    }
}

fn line(task: &TaskSummary, objective: String, told: Option<&String>) -> Element {
    let role = task.role.map_or("task", |role| role.name());
    let said =
        task.waits.clone().or(task.summary.clone()).filter(|summary| !summary.is_empty() && told != Some(summary));
    rsx! {
        li { key: "{task.task_id}", class: "task-line", "data-role": role,
            Standing { mark: Mark::from(task), label: task_words(task) }
            div {
                strong { "{role}" }
                p { Brief { text: objective, characters: OBJECTIVE_CHARACTERS_MAX } }
                if let Some(said) = said { p { class: "said", Brief { text: said, characters: SAID_CHARACTERS_MAX } } }
                if !task.checks_changed.is_empty() { Touched { task: task.task_id, checks: task.checks_changed.clone() } }
            }
        }
    }
}

/// Checks that a worker passed and touched: it is verified by them when the person says so.
#[component]
fn Touched(task: TaskId, checks: Vec<String>) -> Element {
    let desk = use_desk();
    let accept = move |()| {
        spawn_local(async move {
            if let Err(failure) = server::act("POST", &format!("/api/tasks/{task}/accept")).await {
                desk.undone("Nothing was accepted.", &failure);
            }
        });
    };
    rsx! {
        p { class: "said", "Its checks passed, and it touched them:" }
        ul { class: "touched", "aria-label": "Checks that it touched",
            for path in checks {
                li { key: "{path}", {plainly(&path)} }
            }
        }
        Control { icon: Icon::Check, label: "Accept these checks", act: accept }
    }
}

/// Only what can be done now is offered, and once: who looks at the changes has their undo there.
#[component]
fn Controls(run: Run, reviewing: bool, changes: EventHandler<()>) -> Element {
    let desk = use_desk();
    let id = run.run_id;
    let open = !run.status.is_ending();
    rsx! {
        div { class: "controls",
            if run.blocked_on == Some(BlockedOn::Plan) {
                Control { icon: Icon::Check, label: "Go on with this plan", act: move |()| control(desk, id, "resume") }
            }
            if open && run.status == RunStatus::Paused {
                Control { icon: Icon::Play, label: "Resume", act: move |()| control(desk, id, "resume") }
            } else if open {
                Control { icon: Icon::Pause, label: "Pause", act: move |()| control(desk, id, "pause") }
            }
            if open {
                Control { icon: Icon::Steer, label: "Steer", mark: Act::Steer, act: move |()| bridge::focus(PROMPT) }
                Control { icon: Icon::Stop, label: "Cancel", act: move |()| control(desk, id, "cancel") }
            }
            Control { icon: Icon::Changes, label: "Changes", mark: Act::Changes, act: move |()| changes.call(()) }
            if !open && !reviewing { TakeBack { run: id } }
            Control { icon: Icon::Trace, label: "Trace", act: move |()| cards::open_trace(desk, id) }
        }
    }
}

/// Undo, or the way back, for a run that changed something. It rests for a moment after each: the second click of two was meant for
/// the first.
#[component]
fn TakeBack(run: RunId) -> Element {
    let desk = use_desk();
    let (taken, resting) = use_hook(|| (Signal::new(None::<bool>), Signal::new(false)));
    use_effect(move || {
        desk.changed.read();
        spawn(async move {
            // What cannot be read now is read when something changes.
            if let Ok(found) = server::get::<Changed>(&format!("/api/runs/{run}/changes")).await {
                late(taken, is_taken_back(&found.changes));
            }
        });
    });
    let turn = move |_| {
        if *resting.peek() {
            return;
        }
        late(resting, true);
        spawn_local(async move {
            undo_once(desk, run).await;
            bridge::pause(REST_MS).await;
            late(resting, false);
        });
    };
    let Some(taken) = taken() else { return rsx! {} };
    rsx! {
        button { r#type: "button", class: "secondary", disabled: resting(), onclick: turn,
            Glyph { icon: Icon::Undo }
            if taken { "Bring it back" } else { "Undo" }
        }
    }
}

/// Takes back what the run changed in the workspace; asked again, it brings it back.
pub(crate) fn undo(desk: Desk, id: RunId) {
    spawn_local(undo_once(desk, id));
}

async fn undo_once(desk: Desk, id: RunId) {
    let answer: Result<Undo, Failure> =
        server::send("POST", &format!("/api/runs/{id}/undo"), &NewUndo::default()).await;
    match answer {
        Ok(undo) => desk.tell(undo.summary),
        // That there is nothing to take back is no fault of anybody.
        Err(failure @ Failure::Refused(_)) => desk.tell(failure.to_string()),
        Err(failure) => desk.undone("The workspace stayed as it was.", &failure),
    }
}

#[component]
fn Control(
    icon: Icon,
    label: &'static str,
    /// What the menu calls it by.
    mark: Option<Act>,
    act: EventHandler<()>,
) -> Element {
    rsx! {
        button { r#type: "button", class: "secondary", "data-act": mark.map(Act::name), onclick: move |_| act.call(()),
            Glyph { icon }
            "{label}"
        }
    }
}
