//! Questions and approvals.

use crate::page::desk::use_desk;
use crate::page::home::RunRow;
use choir_proto::run::RunStatus;
use dioxus::prelude::*;

/// Runs that wait for a person.
#[component]
pub(crate) fn Inbox() -> Element {
    let desk = use_desk();
    let waiting: Vec<_> = desk.runs.read().open().filter(|run| run.status == RunStatus::Blocked).cloned().collect();
    if waiting.is_empty() {
        return rsx! {
            div { class: "empty",
                h2 { "Nothing waits for you" }
                p { "When an agent has a question or wants to do something that needs your word, it is here." }
            }
        };
    }
    rsx! {
        div { class: "page",
            h2 { "Waiting" }
            for run in waiting {
                div { key: "{run.run_id}", class: "waiting",
                    RunRow { run: run.clone() }
                    if let Some(reason) = run.reason { p { class: "reason", "{reason}" } }
                }
            }
        }
    }
}
