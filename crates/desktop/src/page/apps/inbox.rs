//! Questions and approvals: exactly what will run, and what the person says to it.

use crate::page::cards::GoOn;
use crate::page::desk::{Desk, use_desk};
use crate::page::home::RunRow;
use crate::page::rich::{Brief, Glyph, Rich};
use crate::page::server;
use choir_desktop::icon::Icon;
use choir_desktop::inbox::{Item, approve_words, reach_words, side_meaning, side_words};
use choir_desktop::words::ago;
use choir_proto::desktop::App;
use choir_proto::inbox::{AskKind, Reach};
use choir_proto::run::{Run, RunStatus};
use dioxus::prelude::*;
use serde_json::{Value, json};
use wasm_bindgen_futures::spawn_local;

/// Characters of the prompt that a question belongs to.
const PROMPT_CHARACTERS_MAX: usize = 90;

#[component]
pub(crate) fn Inbox() -> Element {
    let desk = use_desk();
    use_hook(|| desk.refresh_inbox());
    let items = desk.inbox.read().clone();
    let others = waiting_for_a_model(desk, &items);
    if items.is_empty() && others.is_empty() {
        return rsx! {
            div { class: "empty",
                h2 { "Nothing waits for you" }
                p { "When an agent has a question or wants to do something that needs your word, it is here." }
            }
        };
    }
    rsx! {
        div { class: "inbox page",
            for item in items { ItemView { key: "{item.id}", item } }
            for run in others { WaitingRun { key: "{run.run_id}", run } }
        }
    }
}

/// Runs that wait for something else than a word: a model, most of the time.
fn waiting_for_a_model(desk: Desk, items: &[Item]) -> Vec<Run> {
    let asks = |run: &&Run| items.iter().any(|item| item.run_id == Some(run.run_id));
    let runs = desk.runs.read();
    runs.open().filter(|run| run.status == RunStatus::Blocked).filter(|run| !asks(run)).cloned().collect()
}

#[component]
fn WaitingRun(run: Run) -> Element {
    let desk = use_desk();
    let no_model = desk.settings.read().as_ref().is_some_and(|settings| settings.model().is_none());
    rsx! {
        article { class: "ask", "aria-label": "Waiting run",
            RunRow { run: run.clone() }
            if let Some(reason) = run.reason.clone() { div { class: "reason", Rich { text: reason } } }
            if no_model {
                div { class: "controls",
                    button { r#type: "button", class: "mend", onclick: move |_| desk.open(App::Settings, None),
                        Glyph { icon: Icon::Key }
                        "Add a key"
                    }
                }
            }
            div { class: "controls", GoOn { run } }
        }
    }
}

#[component]
fn ItemView(item: Item) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), item.asked_at);
    let about = item.run_id.and_then(|id| desk.runs.read().get(id).map(|run| run.prompt.clone()));
    let title = item.title();
    rsx! {
        article { class: "ask", "aria-label": "{title}",
            header {
                strong { "{title}" }
                span { class: "figure", "{when}" }
            }
            if item.kind == AskKind::Question {
                Rich { text: item.question.clone() }
                if item.subject != item.question && !item.subject.is_empty() { Rich { text: item.subject.clone() } }
            } else {
                Rich { text: item.question.clone() }
                pre { class: "exactly", tabindex: "0", "aria-label": "Exactly this", "{item.subject}" }
            }
            if let Some(about) = about { p { class: "reason", "For “" Brief { text: about, characters: PROMPT_CHARACTERS_MAX } "”" } }
            if !item.answers.is_empty() {
                Choosing { item }
            } else if item.kind == AskKind::Question {
                Answering { item }
            } else {
                Approving { item }
            }
        }
    }
}

#[component]
fn Approving(item: Item) -> Element {
    let desk = use_desk();
    let reaches: Vec<Reach> = item.reaches().collect();
    let denied = item.clone();
    rsx! {
        div { class: "controls",
            for reach in reaches {
                button {
                    key: "{reach.name()}",
                    r#type: "button",
                    class: if reach == Reach::Once { "primary small" } else { "secondary" },
                    title: reach_words(reach),
                    onclick: {
                        let item = item.clone();
                        move |_| decide(desk, &item, json!({ "decision": "approve", "scope": reach.name() }))
                    },
                    {approve_words(reach)}
                }
            }
            button {
                r#type: "button",
                class: "secondary deny",
                onclick: move |_| decide(desk, &denied, json!({ "decision": "deny" })),
                "Deny"
            }
        }
    }
}

/// A question that only some words answer has a button for each.
#[component]
fn Choosing(item: Item) -> Element {
    let desk = use_desk();
    rsx! {
        div { class: "controls",
            for side in item.answers.clone() {
                button {
                    key: "{side.name()}",
                    r#type: "button",
                    class: "secondary",
                    title: side_meaning(side),
                    onclick: {
                        let item = item.clone();
                        move |_| decide(desk, &item, json!({ "decision": "answer", "text": side.name() }))
                    },
                    {side_words(side)}
                }
            }
        }
    }
}

#[component]
fn Answering(item: Item) -> Element {
    let desk = use_desk();
    let mut text = use_signal(String::new);
    let denied = item.clone();
    rsx! {
        form {
            class: "answering",
            onsubmit: move |event| {
                event.prevent_default();
                let answer = text.peek().trim().to_owned();
                if !answer.is_empty() { decide(desk, &item, json!({ "decision": "answer", "text": answer })) }
            },
            textarea {
                rows: "2",
                "aria-label": "Your answer",
                placeholder: "Your answer",
                value: "{text}",
                oninput: move |event| text.set(event.value()),
            }
            div { class: "controls",
                button { class: "primary small", disabled: text.read().trim().is_empty(), "Answer" }
                button {
                    r#type: "button",
                    class: "secondary deny",
                    title: "The agent goes on without an answer",
                    onclick: move |_| decide(desk, &denied, json!({ "decision": "deny" })),
                    "Do not answer"
                }
            }
        }
    }
}

/// Says a word to exactly what was shown.
fn decide(desk: Desk, item: &Item, mut body: Value) {
    body["hash"] = item.hash.to_string().into();
    let id = item.id;
    spawn_local(async move {
        let answer = crate::page::bridge::call("POST", &format!("/api/inbox/{id}"), Some(&body.to_string())).await;
        if let Err(failure) = server::done(answer) {
            desk.undone("", &failure);
        }
        desk.refresh_inbox();
    });
}
