//! A living document: the text, and its run in the margin.

use super::history::{History, Past};
use super::margin::Margin;
use crate::page::bridge::{self, Editor, Held};
use crate::page::desk::{Desk, use_desk};
use crate::page::rich::Glyph;
use choir_desktop::files::file_name;
use choir_desktop::icon::Icon;
use choir_proto::DocumentId;
use dioxus::prelude::*;
use serde::Deserialize;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// What the editor says of itself.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct State {
    /// `loading`, `saved`, `editing`, `saving` or `failed`.
    phase: String,
    #[serde(default)]
    version: u32,
    #[serde(default)]
    words: u32,
    /// For `failed`.
    #[serde(default)]
    message: String,
}

/// An open editor and what keeps it alive.
type Opened = Option<(Editor, Held)>;

#[component]
pub(crate) fn Writer(id: DocumentId) -> Element {
    let desk = use_desk();
    let mut state = use_signal(|| State { phase: "loading".to_owned(), ..State::default() });
    let opened = use_signal(|| None as Opened);
    let run = use_memo(move || desk.runs.read().of_document(id).cloned());
    let version = use_memo(move || desk.documents.read().get(id).map_or(0, |document| document.version));
    use_effect(move || {
        let version = version();
        if let Some((editor, _)) = opened.read().as_ref() {
            editor.refresh(version);
        }
    });
    let past = use_signal(|| None::<u32>);
    rsx! {
        div { class: "writer",
            for number in past() { Past { key: "{number}", id, number, past, head: version } }
            div { class: "paper", "data-phase": "{state.read().phase}", hidden: past().is_some(),
                div {
                    class: "editor",
                    onmounted: move |event| {
                        let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                        open(desk, id, element, state, opened);
                    },
                }
            }
            aside { class: "side", "aria-label": "About this document",
                Figures { state: state.read().clone(), retry: move |()| {
                    state.write().phase = "editing".to_owned();
                    if let Some((editor, _)) = opened.read().as_ref() { editor.refresh(version()) }
                } }
                if let Some(run) = run() { Margin { run } }
                History { id, past, head: version }
                button {
                    r#type: "button",
                    class: "plain",
                    onclick: move |_| {
                        let title = desk.documents.peek().get(id).map(|document| document.title.clone());
                        if let Some((editor, _)) = opened.peek().as_ref() {
                            bridge::save(&file_name(&title.unwrap_or_default()), &editor.document());
                        }
                    },
                    Glyph { icon: Icon::Download }
                    "Save as Markdown"
                }
            }
        }
    }
}

fn open(desk: Desk, id: DocumentId, element: Node, mut state: Signal<State>, mut opened: Signal<Opened>) {
    let on_state = move |text: String| {
        if let Ok(said) = serde_json::from_str(&text) {
            state.set(said);
        }
    };
    spawn_local(async move {
        match bridge::open_editor(&element, &id.to_string(), on_state).await {
            Ok(editor) => opened.set(Some(editor)),
            Err(why) => {
                desk.tell(format!("The editor could not be loaded ({why}). Close the window and open it again."))
            }
        }
    });
}

/// Version, length, and whether everything typed is kept.
#[component]
fn Figures(state: State, retry: EventHandler<()>) -> Element {
    let kept = match state.phase.as_str() {
        "loading" => "Opening",
        "saved" => "Saved",
        "failed" => "Not saved",
        _ => "Saving",
    };
    rsx! {
        p { class: "figures",
            span { "{kept}" }
            if state.version > 0 { span { class: "figure", "version {state.version}" } }
            span { class: "figure", "{state.words} words" }
        }
        if state.phase == "failed" {
            p { class: "reason", role: "alert", "{state.message}" }
            button { r#type: "button", class: "secondary", onclick: move |_| retry.call(()), "Try again" }
        }
    }
}
