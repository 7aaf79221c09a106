//! Writer without a document: every document and every run.

use crate::page::desk::use_desk;
use crate::page::home::{DocumentRow, RunRow};
use crate::page::keys::perform;
use crate::page::rich::Glyph;
use choir_desktop::icon::Icon;
use choir_desktop::menu::Action;
use dioxus::prelude::*;

/// Rows drawn at once; the search finds the others.
const ROWS_MAX: usize = 200;

#[component]
pub(crate) fn Library() -> Element {
    let mut wanted = use_signal(String::new);
    rsx! {
        div { class: "library page",
            div { class: "tools",
                input {
                    r#type: "search",
                    "aria-label": "Find documents and runs",
                    placeholder: "Find",
                    "data-focus": "",
                    value: "{wanted}",
                    oninput: move |event| wanted.set(event.value().to_lowercase()),
                }
                NewDocument {}
            }
            Documents { wanted }
            Runs { wanted }
        }
    }
}

#[component]
fn NewDocument() -> Element {
    let desk = use_desk();
    rsx! {
        button { r#type: "button", class: "secondary", onclick: move |_| perform(desk, Action::NewDocument),
            Glyph { icon: Icon::Plus }
            "New document"
        }
    }
}

#[component]
fn Documents(wanted: Signal<String>) -> Element {
    let desk = use_desk();
    let documents = desk.documents.read();
    let found: Vec<_> = documents
        .newest()
        .filter(|document| document.title.to_lowercase().contains(&*wanted.read()))
        .take(ROWS_MAX)
        .cloned()
        .collect();
    rsx! {
        section { "aria-label": "Documents",
            h2 { "Documents" }
            if found.is_empty() { p { class: "none", "No document yet. A prompt that needs more than a short answer begins one." } }
            for document in found { DocumentRow { key: "{document.document_id}", document } }
        }
    }
}

#[component]
fn Runs(wanted: Signal<String>) -> Element {
    let desk = use_desk();
    let runs = desk.runs.read();
    let found: Vec<_> = runs
        .newest()
        .filter(|run| run.prompt.to_lowercase().contains(&*wanted.read()))
        .take(ROWS_MAX)
        .cloned()
        .collect();
    rsx! {
        section { "aria-label": "Runs",
            h2 { "Runs" }
            if found.is_empty() { p { class: "none", "No run yet. Type what you want into the prompt bar." } }
            for run in found { RunRow { key: "{run.run_id}", run } }
        }
    }
}
