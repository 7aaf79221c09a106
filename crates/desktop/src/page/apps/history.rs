//! A document's versions: who, why, when, what changed, and the way back.

use crate::page::bridge::{self, Held};
use crate::page::desk::{Desk, use_desk};
use crate::page::server::{self, Failure};
use choir_desktop::trace::role;
use choir_desktop::words::ago;
use choir_proto::DocumentId;
use choir_proto::document::{Document, EditDocument, VersionSummary};
use dioxus::prelude::*;
use serde::Deserialize;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// Versions listed, the newest first.
const LISTED_MAX: usize = 100;

#[derive(Deserialize)]
struct Versions {
    versions: Vec<VersionSummary>,
}

/// The list, read when it is opened and whenever the document has another version.
#[component]
pub(crate) fn History(id: DocumentId, past: Signal<Option<u32>>, head: Memo<u32>) -> Element {
    let mut open = use_signal(|| false);
    let mut versions = use_signal(Vec::<VersionSummary>::new);
    use_effect(move || {
        if !open() || head() == 0 {
            return;
        }
        spawn_local(async move {
            // A list that cannot be read now stays as it was.
            if let Ok(list) = server::get::<Versions>(&format!("/api/documents/{id}/versions")).await {
                versions.set(list.versions.into_iter().rev().take(LISTED_MAX).collect());
            }
        });
    });
    rsx! {
        details { class: "history", ontoggle: move |_| open.toggle(),
            summary { "Versions" }
            for version in versions() { VersionRow { key: "{version.version}", version, past } }
        }
    }
}

#[component]
fn VersionRow(version: VersionSummary, past: Signal<Option<u32>>) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), version.at);
    let who = role(&version.author);
    rsx! {
        button {
            r#type: "button",
            class: "version",
            "data-role": "{who}",
            "aria-pressed": "{past() == Some(version.version)}",
            onclick: move |_| past.set(Some(version.version)),
            span { class: "figure", "{version.version}" }
            span { class: "name", "{who}, {version.reason}" }
            span { class: "figure", "{when}" }
        }
    }
}

/// One version in place of the text.
#[component]
pub(crate) fn Past(id: DocumentId, number: u32, past: Signal<Option<u32>>, head: Memo<u32>) -> Element {
    let desk = use_desk();
    let mut shown = use_signal(|| None::<(String, Held)>);
    rsx! {
        div { class: "paper past",
            div { class: "past-bar", role: "status",
                span { "Version {number}, with what it changed" }
                if number != head() {
                    button {
                        r#type: "button",
                        class: "secondary",
                        onclick: move |_| {
                            let content = shown.peek().as_ref().map(|(content, _)| content.clone());
                            if let Some(content) = content { bring_back(desk, id, head(), content, past) }
                        },
                        "Bring this text back"
                    }
                }
                button { r#type: "button", class: "secondary", onclick: move |_| past.set(None), "Back to now" }
            }
            div {
                class: "editor",
                onmounted: move |event| {
                    let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                    spawn_local(async move {
                        match bridge::open_version(&element, &id.to_string(), number).await {
                            Ok(opened) => shown.set(Some(opened)),
                            Err(why) => desk.tell(format!("Version {number} could not be read ({why}).")),
                        }
                    });
                },
            }
        }
    }
}

/// An old text becomes a new version; nothing is lost.
fn bring_back(desk: Desk, id: DocumentId, base_version: u32, content: String, mut past: Signal<Option<u32>>) {
    spawn_local(async move {
        let body = EditDocument { base_version, content };
        let answer: Result<Document, Failure> = server::send("PUT", &format!("/api/documents/{id}"), &body).await;
        match answer {
            Ok(document) => {
                past.set(None);
                desk.tell(format!("The text is back, as version {}.", document.version));
            }
            Err(failure) => desk.fail("The document stayed as it was.", &failure),
        }
    });
}
