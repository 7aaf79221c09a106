//! Writer without a document: every document and every run.

use super::trash::Done;
use crate::page::desk::{Desk, late, use_desk};
use crate::page::home::{DocumentRow, RunRow};
use crate::page::keys::perform;
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Kept};
use crate::page::stream::know_removed;
use choir_desktop::icon::Icon;
use choir_desktop::menu::Action;
use choir_desktop::status::run_words;
use choir_desktop::words::{headline, retitled};
use choir_proto::document::{Document, DocumentSummary, EditDocument};
use choir_proto::run::Run;
use choir_proto::{DocumentId, RunId, WindowId};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Rows drawn at once; the search finds the others.
const ROWS_MAX: usize = 200;

#[component]
pub(crate) fn Library(window_id: WindowId) -> Element {
    let desk = use_desk();
    let mut wanted = use_signal(String::new);
    let mut put_away: PutAway = use_signal(|| None);
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
            Documents { window_id, wanted, put_away }
            Runs { window_id, wanted, put_away }
            Trash { wanted }
        }
        Done {
            said: put_away.read().as_ref().map(|(_, title)| format!("“{title}” is in the trash.")),
            undo: move |()| {
                if let Some((thing, _)) = put_away.take() { restore(desk, thing) }
            },
        }
    }
}

/// What was put away last.
type PutAway = Signal<Option<(Thing, String)>>;

/// Says that a list is not all there is.
fn cut(all: usize) -> Element {
    match all > ROWS_MAX {
        true => rsx! { p { class: "none", role: "status", "{ROWS_MAX} of {all} are shown. Find narrows them down." } },
        false => rsx! {},
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
fn Documents(window_id: WindowId, wanted: Signal<String>, put_away: PutAway) -> Element {
    let desk = use_desk();
    let documents = desk.documents.read();
    let mut found: Vec<_> =
        documents.listed().filter(|document| document.title.to_lowercase().contains(&*wanted.read())).collect();
    let all = found.len();
    found.truncate(ROWS_MAX);
    let found: Vec<_> = found.into_iter().cloned().collect();
    rsx! {
        section { "aria-label": "Documents",
            h2 { "Documents" }
            {cut(all)}
            if found.is_empty() && !wanted.read().is_empty() { p { class: "none", "No document has these words." } }
            else if found.is_empty() { p { class: "none", "No document yet. A prompt that needs more than a short answer begins one." } }
            for document in found { Named { key: "{document.document_id}", window_id, document, put_away } }
        }
    }
}

/// A document and its name, which can be changed.
#[component]
fn Named(window_id: WindowId, document: DocumentSummary, put_away: PutAway) -> Element {
    let desk = use_desk();
    let mut name = use_signal(|| None::<String>);
    let id = document.document_id;
    let title = document.title.clone();
    let Some(wanted) = name() else {
        let renamed = title.clone();
        return rsx! {
            div { class: "entry",
                DocumentRow { document, within: window_id }
                span { class: "acts",
                    IconButton { icon: Icon::Pencil, label: "Rename {title}", onclick: move |_| name.set(Some(renamed.clone())) }
                    IconButton { icon: Icon::Trash, label: "Move {title} to the trash", onclick: {
                        let title = title.clone();
                        move |_| remove(desk, Thing::Document(id), title.clone(), put_away)
                    } }
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
            IconButton { icon: Icon::Close, label: "Keep the title", onclick: move |_| name.set(None) }
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
            server::send::<_, Kept>("PUT", &path, &body).await
        };
        if let Err(failure) = renamed.await {
            desk.undone("It kept its name.", &failure);
        }
    });
}

#[component]
fn Runs(window_id: WindowId, wanted: Signal<String>, put_away: PutAway) -> Element {
    let desk = use_desk();
    let runs = desk.runs.read();
    let mut found: Vec<_> = runs.listed().filter(|run| run.prompt.to_lowercase().contains(&*wanted.read())).collect();
    let all = found.len();
    found.truncate(ROWS_MAX);
    let found: Vec<_> = found.into_iter().cloned().collect();
    rsx! {
        section { "aria-label": "Runs",
            h2 { "Runs" }
            {cut(all)}
            if found.is_empty() && !wanted.read().is_empty() { p { class: "none", "No run has these words." } }
            else if found.is_empty() { p { class: "none", "No run yet. Type what you want into the prompt bar." } }
            for run in found { Ended { key: "{run.run_id}", window_id, run, put_away } }
        }
    }
}

/// A run; one that has ended can be put away.
#[component]
fn Ended(window_id: WindowId, run: Run, put_away: PutAway) -> Element {
    let desk = use_desk();
    let (id, title) = (run.run_id, headline(&run.prompt, 60));
    let ended = run.status.is_ending();
    rsx! {
        div { class: "entry",
            RunRow { run, within: window_id }
            if ended {
                span { class: "acts",
                    IconButton { icon: Icon::Trash, label: "Move {title} to the trash", onclick: {
                        let title = title.clone();
                        move |_| remove(desk, Thing::Run(id), title.clone(), put_away)
                    } }
                }
            }
        }
    }
}

/// What can be in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Document(DocumentId),
    Run(RunId),
}

impl Thing {
    fn path(self, verb: &str) -> String {
        match self {
            Self::Document(id) => format!("/api/documents/{id}/{verb}"),
            Self::Run(id) => format!("/api/runs/{id}/{verb}"),
        }
    }
}

fn remove(desk: Desk, thing: Thing, title: String, put_away: PutAway) {
    spawn_local(async move {
        match server::act("POST", &thing.path("trash")).await {
            Ok(()) => late(put_away, Some((thing, title))),
            Err(failure) => desk.undone("It stays where it is.", &failure),
        }
    });
}

pub(crate) fn restore(desk: Desk, thing: Thing) {
    spawn_local(async move {
        if let Err(failure) = server::act("POST", &thing.path("restore")).await {
            desk.undone("It stays in the trash.", &failure);
        }
    });
}

/// What was put away; all of it can be brought back.
#[component]
fn Trash(wanted: Signal<String>) -> Element {
    let desk = use_desk();
    let read = use_signal(|| false);
    let (documents, runs) = (desk.documents.read(), desk.runs.read());
    let is_wanted = |title: &str| title.to_lowercase().contains(&*wanted.read());
    let things: Vec<(Thing, String, String)> =
        documents
            .removed()
            .filter(|document| is_wanted(&document.title))
            .map(|document| (Thing::Document(document.document_id), document.title.clone(), "document".to_owned()))
            .chain(runs.removed().filter(|run| is_wanted(&run.prompt)).map(|run| {
                (Thing::Run(run.run_id), headline(&run.prompt, 80), format!("run, {}", run_words(run.status)))
            }))
            .take(ROWS_MAX)
            .collect();
    rsx! {
        details { class: "trash", ontoggle: move |_| read_trash(desk, read),
            summary { "Trash" }
            if things.is_empty() { p { class: "none", "The trash is empty." } }
            for (thing, title, what) in things {
                div { key: "{thing:?}", class: "entry",
                    span { class: "row", span { class: "name", "{title}" } span { class: "figure", "{what}" } }
                    span { class: "acts",
                        IconButton { icon: Icon::Archive, label: "Restore {title}", onclick: move |_| restore(desk, thing) }
                    }
                }
            }
        }
    }
}

/// The lists that every page begins with leave out what was put away; here it is wanted.
fn read_trash(desk: Desk, mut read: Signal<bool>) {
    if read.replace(true) {
        return;
    }
    spawn_local(async move {
        if let Err(failure) = know_removed(desk).await {
            late(read, false);
            desk.fail("The trash could not be read; open it again.", &failure);
        }
    });
}
