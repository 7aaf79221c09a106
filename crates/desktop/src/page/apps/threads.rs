//! What is asked about parts of a text, and what a command made of it: in the margin, where it belongs.

use super::writer::Page;
use crate::page::cards::control;
use crate::page::rich::{Brief, Glyph, IconButton, Rich, Standing};
use crate::page::server::{self, Failure};
use choir_desktop::evidence::{action_words, figure_mark, figure_words};
use choir_desktop::files::query;
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::status::{Mark, run_words};
use choir_desktop::words::{headline, sentence};
use choir_proto::api::{RunAccepted, TaskAccepted};
use choir_proto::document::{Figure, FigureStatus, Place};
use choir_proto::run::{NewRun, Run, Selection, SelectionAction};
use dioxus::prelude::*;
use serde_json::json;
use wasm_bindgen_futures::spawn_local;

/// Threads listed, the newest first.
const THREADS_MAX: usize = 20;
/// Characters of what was asked.
const PROMPT_CHARACTERS_MAX: usize = 200;
/// Characters of the words that a thread is about.
const QUOTE_CHARACTERS_MAX: usize = 90;

const fn act(action: SelectionAction) -> Act {
    match action {
        SelectionAction::Ask => Act::Ask,
        SelectionAction::Change => Act::Change,
        SelectionAction::Verify => Act::Verify,
    }
}

/// What a person wants of a selection: ask, change or verify just that.
#[component]
pub(crate) fn AskSelection(page: Page, from: u64, to: u64) -> Element {
    let mut action = use_signal(|| None::<SelectionAction>);
    rsx! {
        for wanted in [SelectionAction::Ask, SelectionAction::Change, SelectionAction::Verify] {
            button {
                key: "{wanted:?}",
                r#type: "button",
                class: "secondary",
                "data-act": act(wanted).name(),
                "aria-pressed": "{action() == Some(wanted)}",
                onclick: move |_| action.set(Some(wanted).filter(|_| action() != Some(wanted))),
                {action_words(wanted).0}
            }
        }
        if let Some(wanted) = action() {
            for wanted in [wanted] { Words { key: "{wanted:?}", page, from, to, wanted, action } }
        }
    }
}

#[component]
fn Words(page: Page, from: u64, to: u64, wanted: SelectionAction, action: Signal<Option<SelectionAction>>) -> Element {
    let (_, hint, usual) = action_words(wanted);
    let mut words = use_signal(|| usual.to_owned());
    let mut action = action;
    let mut send = move || {
        let prompt = words.peek().trim().to_owned();
        if !prompt.is_empty() {
            action.set(None);
            start(page, prompt, Selection { from, to, action: wanted, quote: None });
        }
    };
    rsx! {
        form {
            class: "asking",
            onsubmit: move |event| {
                event.prevent_default();
                send();
            },
            textarea {
                rows: "2",
                "aria-label": "About the selection",
                placeholder: hint,
                value: "{words}",
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                oninput: move |event| words.set(event.value()),
                onkeydown: move |event| match event.key() {
                    Key::Enter if event.modifiers().is_empty() && !event.is_composing() => {
                        event.prevent_default();
                        send();
                    }
                    Key::Escape => {
                        // What else Esc would put away stays for the next one.
                        event.stop_propagation();
                        action.set(None);
                    }
                    _ => {}
                },
            }
            button { class: "primary small", disabled: words.read().trim().is_empty(), "Send" }
        }
    }
}

/// Starts a run about just this; what it says appears in the margin.
fn start(page: Page, prompt: String, selection: Selection) {
    // Not the field's own work, which ends with the field.
    spawn_local(async move {
        let body = NewRun { document_id: Some(page.id), selection: Some(selection), ..NewRun::new(prompt) };
        let answer: Result<RunAccepted, Failure> = server::send("POST", "/api/runs", &body).await;
        if let Err(failure) = answer {
            page.desk.undone("Nothing was asked.", &failure);
        }
    });
}

/// What was asked about parts of this text.
#[component]
pub(crate) fn Threads(page: Page) -> Element {
    let desk = page.desk;
    let threads = use_memo(move || {
        let runs = desk.runs.read();
        runs.about_parts_of(page.id).take(THREADS_MAX).cloned().collect::<Vec<Run>>()
    });
    if threads.read().is_empty() {
        return rsx! {};
    }
    rsx! {
        section { class: "threads", "aria-label": "Threads",
            h2 { "Threads" }
            for run in threads() { ThreadView { key: "{run.run_id}", page, run } }
        }
    }
}

#[component]
fn ThreadView(page: Page, run: Run) -> Element {
    let id = run.run_id;
    let Some(selection) = run.selection.clone() else { return rsx! {} };
    let quote = headline(selection.quote.as_deref().unwrap_or_default(), QUOTE_CHARACTERS_MAX);
    let document = page.document.read();
    let thread = document.as_ref().and_then(|document| document.threads.iter().find(|thread| thread.run_id == id));
    let at = thread.and_then(|thread| thread.at);
    let ended = run.status.is_ending();
    let said = run.answer.clone().or_else(|| run.reason.as_deref().map(sentence));
    rsx! {
        article { id: "thread-{id}", class: "thread", "aria-label": "Thread",
            header {
                Standing { mark: Mark::from(run.status), label: run_words(run.status) }
                strong { {action_words(selection.action).0} }
                span { class: "asked", title: "{run.prompt}", Brief { text: run.prompt.clone(), characters: PROMPT_CHARACTERS_MAX } }
                if ended {
                    IconButton { icon: Icon::Close, label: "Put the thread away", onclick: move |_| put_away(page, id) }
                } else {
                    IconButton { icon: Icon::Stop, label: "Cancel", onclick: move |_| control(page.desk, id, "cancel") }
                }
            }
            {quoted(page, &quote, at)}
            match said {
                Some(said) => rsx! { Rich { text: said } },
                None => rsx! { p { class: "none", "The answer comes here." } },
            }
        }
    }
}

/// The words that a thread is about; a click shows them, unless they are gone.
fn quoted(page: Page, quote: &str, at: Option<Place>) -> Element {
    rsx! {
        match at {
            Some(at) => rsx! {
                button { r#type: "button", class: "link quoted", title: "Show these words", onclick: move |_| page.show(at.from, at.to), "“{quote}”" }
            },
            None => rsx! { p { class: "quoted", "“{quote}”" } },
        }
    }
}

/// A thread is a run: it goes into the trash of the Library.
fn put_away(page: Page, id: choir_proto::RunId) {
    spawn_local(async move {
        if let Err(failure) = server::act("POST", &format!("/api/runs/{id}/trash")).await {
            page.desk.undone("The thread stays.", &failure);
        }
    });
}

/// Figures that commands made, and whether they still show what is so.
#[component]
pub(crate) fn MadeFigures(page: Page, figures: Vec<Figure>) -> Element {
    if figures.is_empty() {
        return rsx! {};
    }
    rsx! {
        section { class: "made", "aria-label": "Figures",
            h2 { "Figures" }
            for figure in figures { MadeFigure { key: "{figure.figure_id}", page, figure } }
        }
    }
}

#[component]
fn MadeFigure(page: Page, figure: Figure) -> Element {
    let (words, at) = (figure_words(figure.status), figure.at);
    let runs = figure.status == FigureStatus::Running;
    let id = figure.figure_id.clone();
    rsx! {
        article { class: "made-figure", "aria-label": "Figure, {words}",
            p {
                Standing { mark: figure_mark(figure.status) }
                strong { "{words}" }
                if let Some(because) = figure.because.clone() { span { class: "quietly", "{because}" } }
            }
            code { title: "{figure.command}", "{figure.command}" }
            div { class: "controls",
                button { r#type: "button", class: "secondary", disabled: runs, onclick: move |_| rerun(page, id.clone()),
                    Glyph { icon: Icon::Play }
                    if runs { "Running …" } else { "Run it again" }
                }
                if let Some(at) = at {
                    button { r#type: "button", class: "secondary", onclick: move |_| page.show(at.from, at.to), "Show" }
                }
            }
        }
    }
}

fn rerun(page: Page, figure: String) {
    spawn_local(async move {
        let path = format!("/api/documents/{}/figures/{}/rerun", page.id, query(&figure));
        let answer: Result<TaskAccepted, Failure> = server::send("POST", &path, &json!({})).await;
        if let Err(failure) = answer {
            page.desk.undone("The figure stays as it is.", &failure);
        }
    });
}
