//! Writer without a document: every document and every run.

use crate::page::desk::{Desk, use_desk};
use crate::page::home::{DocumentRow, RunRow};
use crate::page::keys::perform;
use crate::page::rich::{Glyph, IconButton};
use crate::page::server;
use choir_desktop::icon::Icon;
use choir_desktop::menu::Action;
use choir_desktop::words::retitled;
use choir_proto::DocumentId;
use choir_proto::document::{Document, DocumentSummary, EditDocument};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

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
            for document in found { Named { key: "{document.document_id}", document } }
        }
    }
}

/// A document and its name, which can be changed.
#[component]
fn Named(document: DocumentSummary) -> Element {
    let desk = use_desk();
    let mut name = use_signal(|| None::<String>);
    let id = document.document_id;
    let title = document.title.clone();
    let Some(wanted) = name() else {
        return rsx! {
            div { class: "entry",
                DocumentRow { document }
                span { class: "acts",
                    IconButton { icon: Icon::Pencil, label: "Rename {title}", onclick: move |_| name.set(Some(title.clone())) }
                }
            }
        };
    };
    rsx! {
        form {
            class: "entry rename",
            onsubmit: move |event| {
                event.prevent_default();
                rename(desk, id, name.take().unwrap_or_default());
            },
            input {
                "aria-label": "New title",
                value: "{wanted}",
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                oninput: move |event| name.set(Some(event.value())),
                onkeydown: move |event| {
                    if event.key() == Key::Escape { name.set(None) }
                },
            }
            button { class: "secondary", "Rename" }
        }
    }
}

/// A document is named by its first heading, so that is what changes.
fn rename(desk: Desk, id: DocumentId, title: String) {
    if title.trim().is_empty() {
        return;
    }
    spawn_local(async move {
        let path = format!("/api/documents/{id}");
        let renamed = async {
            let document: Document = server::get(&path).await?;
            let content = retitled(&document.content, &title);
            let body = EditDocument { base_version: document.version, content };
            server::send::<_, Document>("PUT", &path, &body).await
        };
        if let Err(failure) = renamed.await {
            desk.undone("It kept its name.", &failure);
        }
    });
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
