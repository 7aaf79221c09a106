//! A run beside its document: agents, progress, receipt, and what can be done about it.

use crate::page::cards::{Receipt, control};
use crate::page::desk::use_desk;
use crate::page::keys::PROMPT;
use crate::page::rich::{Glyph, Rich, Standing};
use crate::page::{bridge, cards};
use choir_desktop::icon::Icon;
use choir_desktop::status::{Mark, task_words};
use choir_desktop::words::headline;
use choir_proto::RunId;
use choir_proto::run::{Run, RunStatus, TaskSummary};
use dioxus::prelude::*;

/// A run without a document.
#[component]
pub(crate) fn RunPage(id: RunId) -> Element {
    let desk = use_desk();
    let run = use_memo(move || desk.runs.read().get(id).cloned());
    let Some(run) = run() else {
        return rsx! { p { class: "empty", "This run is not in the log any more." } };
    };
    rsx! {
        div { class: "run-page page",
            blockquote { class: "prompted", "{run.prompt}" }
            if let Some(answer) = run.answer.clone() { Rich { text: answer } }
            Margin { run }
        }
    }
}

#[component]
pub(crate) fn Margin(run: Run) -> Element {
    rsx! {
        section { class: "margin", "aria-label": "Run",
            if let Some(reason) = run.reason.clone() { p { class: "reason", "{reason}" } }
            ol { class: "tasks",
                for task in run.tasks.clone() { Task { key: "{task.task_id}", task } }
            }
            Receipt { run: run.clone() }
            Controls { run }
        }
    }
}

#[component]
fn Task(task: TaskSummary) -> Element {
    let role = task.role.map_or("task", |role| role.name());
    let said = task.summary.clone().filter(|summary| !summary.is_empty());
    let objective = headline(&task.objective, 120);
    rsx! {
        li { class: "task-line", "data-role": role, title: "{task.objective}",
            Standing { mark: Mark::from(task.status), label: task_words(task.status) }
            div {
                strong { "{role}" }
                p { "{objective}" }
                if let Some(said) = said { p { class: "said", "{said}" } }
            }
        }
    }
}

/// Only what can be done now is offered.
#[component]
fn Controls(run: Run) -> Element {
    let desk = use_desk();
    let id = run.run_id;
    let open = !run.status.is_ending();
    rsx! {
        div { class: "controls",
            if open && run.status == RunStatus::Paused {
                Control { icon: Icon::Play, label: "Resume", act: move |()| control(desk, id, "resume") }
            } else if open {
                Control { icon: Icon::Pause, label: "Pause", act: move |()| control(desk, id, "pause") }
            }
            if open {
                Control { icon: Icon::Steer, label: "Steer", act: move |()| bridge::focus(PROMPT) }
                Control { icon: Icon::Stop, label: "Cancel", act: move |()| control(desk, id, "cancel") }
            }
            Control { icon: Icon::Trace, label: "Trace", act: move |()| cards::open_trace(desk, id) }
        }
    }
}

#[component]
fn Control(icon: Icon, label: &'static str, act: EventHandler<()>) -> Element {
    rsx! {
        button { r#type: "button", class: "secondary", onclick: move |_| act.call(()),
            Glyph { icon }
            "{label}"
        }
    }
}
