//! The empty desktop: what could be asked, what was done lately, and whether everything is in order.

use super::apps::FoundProviders;
use super::bridge;
use super::desk::{Desk, use_desk};
use super::keys::PROMPT;
use super::rich::{Brief, Glyph, Phrase, Standing};
use super::tour::Offers;
use choir_desktop::icon::Icon;
use choir_desktop::settings::{Condition, model_condition, sandbox_condition};
use choir_desktop::status::{Mark, run_words};
use choir_desktop::surface::{Surface, surface};
use choir_desktop::words::ago;
use choir_proto::WindowId;
use choir_proto::desktop::{App, Subject};
use choir_proto::document::DocumentSummary;
use choir_proto::run::Run;
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Each shows another face: a document with sources, work with a check, a short answer.
const EXAMPLES: [(&str, &str); 3] = [
    ("A document with sources", "Compare SQLite, PostgreSQL and DuckDB for a small analytics service, with sources."),
    ("Work that is checked", "Write a command-line tool in Rust that finds duplicate files, with tests, and run them."),
    ("A short answer", "What day of the week was 29 February 2024, and when is the next such day?"),
];
/// Characters of a prompt in a list.
const PROMPT_CHARACTERS_MAX: usize = 80;
/// How many recent things are listed.
const RECENT_MAX: usize = 5;

#[component]
pub(crate) fn Home() -> Element {
    rsx! {
        div { class: "home",
            header {
                h1 { "What should be done?" }
                Order {}
            }
            div { class: "examples",
                for (title, prompt) in EXAMPLES { Example { title, prompt } }
            }
            Offers {}
            Recent {}
        }
    }
}

#[component]
fn Example(title: &'static str, prompt: &'static str) -> Element {
    let mut desk = use_desk();
    rsx! {
        button {
            r#type: "button",
            class: "example",
            onclick: move |_| {
                // Words that are there stay before it.
                let draft = desk.prompt.peek().trim_end().to_owned();
                let is_example = EXAMPLES.iter().any(|(_, other)| *other == draft);
                desk.prompt.set(if draft.is_empty() || is_example { prompt.to_owned() } else { format!("{draft}\n{prompt}") });
                bridge::focus(PROMPT);
            },
            strong { "{title}" }
            span { "{prompt}" }
        }
    }
}

/// One line on model and sandbox, with the button that mends it.
#[component]
fn Order() -> Element {
    let desk = use_desk();
    let model = desk.settings.read().as_ref().map(model_condition);
    let sandbox = desk.health.read().as_ref().map(sandbox_condition);
    let needs_sandbox = sandbox.clone().filter(|condition| !condition.is_good());
    let needs_key = model.as_ref().is_some_and(|condition| !condition.is_good());
    rsx! {
        p { class: "order",
            if let Some(condition) = model { {part(condition)} }
            if let Some(condition) = sandbox { {part(condition)} }
            if needs_key {
                FoundProviders {}
                button { r#type: "button", class: "mend", onclick: move |_| desk.open(App::Settings, None),
                    Glyph { icon: Icon::Key }
                    "Add a key"
                }
            }
            if let Some(condition) = needs_sandbox { {mends(desk, condition)} }
        }
    }
}

/// What mends a sandbox is done outside of the page; that it was done is seen here.
fn mends(desk: Desk, condition: Condition) -> Element {
    let command = condition.command().map(str::to_owned);
    rsx! {
        if let Some(command) = command {
            button {
                r#type: "button",
                class: "mend",
                onclick: move |_| {
                    let command = command.clone();
                    spawn_local(async move {
                        match bridge::copy(&command).await.is_truthy() {
                            true => desk.tell(format!("Copied: `{command}`")),
                            false => desk.tell(format!("Type this into a terminal: `{command}`")),
                        }
                    });
                },
                Glyph { icon: Icon::Copy }
                "Copy the command"
            }
        }
        button { r#type: "button", class: "mend", onclick: move |_| desk.look_again(),
            Glyph { icon: Icon::Retry }
            "Look again"
        }
    }
}

fn part(condition: Condition) -> Element {
    rsx! { span { class: "part", Standing { mark: condition.mark }, span { Phrase { text: condition.words } } } }
}

#[component]
fn Recent() -> Element {
    let desk = use_desk();
    let documents: Vec<_> = desk.documents.read().listed().take(RECENT_MAX).cloned().collect();
    let runs: Vec<_> = desk.runs.read().listed().take(RECENT_MAX).cloned().collect();
    if documents.is_empty() && runs.is_empty() {
        return rsx! {};
    }
    rsx! {
        div { class: "recent",
            section { "aria-label": "Recent documents",
                h2 { "Documents" }
                for document in documents { DocumentRow { key: "{document.document_id}", document } }
            }
            section { "aria-label": "Recent runs",
                h2 { "Runs" }
                for run in runs { RunRow { key: "{run.run_id}", run } }
            }
        }
    }
}

/// One document of a list, which may be shown in the window of that list.
#[component]
pub(crate) fn DocumentRow(document: DocumentSummary, within: Option<WindowId>) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), document.changed_at);
    let status = desk.runs.read().of_document(document.document_id).map(|run| run.status);
    rsx! {
        button {
            r#type: "button",
            class: "row",
            title: within.map(|_| BESIDE),
            onclick: move |event| show(desk, within, &event, Subject::Document(document.document_id)),
            Glyph { icon: Icon::FileText }
            span { class: "name", "{document.title}" }
            if let Some(status) = status { Standing { mark: Mark::from(status), label: run_words(status) } }
            span { class: "figure", "v{document.version} · {when}" }
        }
    }
}

/// One run of a list; it opens its document, or its progress where there is none.
#[component]
pub(crate) fn RunRow(run: Run, choose: Option<EventHandler<()>>, within: Option<WindowId>) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), run.accepted_at);
    let subject = run_subject(desk, &run);
    rsx! {
        button {
            r#type: "button",
            class: "row",
            title: within.map(|_| BESIDE),
            onclick: move |event| match choose {
                Some(choose) => choose.call(()),
                None => show(desk, within, &event, subject.clone()),
            },
            Standing { mark: Mark::from(run.status), label: run_words(run.status) }
            span { class: "name", Brief { text: run.prompt, characters: PROMPT_CHARACTERS_MAX } }
            span { class: "figure", "{when}" }
        }
    }
}

const BESIDE: &str = "With Ctrl or ⌘ it opens beside this";

/// Shows something in the window of the list that it was chosen from. Without such a window, and for whoever holds Ctrl or ⌘, it
/// has its own.
fn show(desk: Desk, within: Option<WindowId>, event: &MouseEvent, subject: Subject) {
    match within.filter(|_| !event.modifiers().ctrl() && !event.modifiers().meta()) {
        Some(window_id) => desk.show(window_id, subject),
        None => desk.open(App::Writer, Some(subject)),
    }
}

/// What to open for a run.
pub(crate) fn run_subject(desk: Desk, run: &Run) -> Subject {
    match surface(run, &desk.documents.peek()) {
        Surface::Document(id) => Subject::Document(id),
        Surface::Card => Subject::Run(run.run_id),
    }
}
