//! Runs that need no document: their progress, then a card with the answer that stays until it is dismissed.

use super::desk::{Desk, use_desk};
use super::home::run_subject;
use super::rich::{Brief, IconButton, Rich, Standing};
use super::server;
use super::tour::TourCard;
use choir_desktop::icon::Icon;
use choir_desktop::status::{Mark, run_words};
use choir_desktop::surface::{Surface, surface};
use choir_desktop::tour::tour;
use choir_desktop::words::{cost, elapsed, tokens};
use choir_proto::desktop::{App, Subject, Window};
use choir_proto::event::BlockedOn;
use choir_proto::run::{Run, RunStatus};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Cards drawn at once, the newest first; the next come as these are put away.
const CARDS_MAX: usize = 50;
/// From so many on, all can be put away at once.
const MANY: usize = 3;
/// Characters of what was asked.
const TITLE_CHARACTERS_MAX: usize = 64;

#[component]
pub(crate) fn Cards() -> Element {
    let desk = use_desk();
    let cards = use_memo(move || choose(desk));
    rsx! {
        aside { class: "cards", "aria-label": "Answers and progress",
            for run in cards() { Card { key: "{run.run_id}", run } }
            if cards.read().len() >= MANY {
                div { class: "head",
                    span { "Answers" }
                    button { r#type: "button", class: "link", onclick: move |_| dismiss_all(desk, &cards.peek()), "Dismiss all" }
                }
            }
        }
    }
}

/// Puts away all answers that are on the desktop.
pub(crate) fn dismiss_answers(desk: Desk) {
    let cards = choose(desk);
    if !cards.iter().any(|run| run.status.is_ending()) {
        desk.tell("No answer is on the desktop.");
    }
    dismiss_all(desk, &cards);
}

/// Puts away what has ended; what is being worked on stays.
fn dismiss_all(desk: Desk, cards: &[Run]) {
    cards.iter().filter(|run| run.status.is_ending()).for_each(|run| desk.dismiss_card(run.run_id));
}

/// Runs whose place is a card.
fn choose(desk: Desk) -> Vec<Run> {
    let (runs, documents) = (desk.runs.read(), desk.documents.read());
    let fresh = |run: &&Run| run.dismissed_at.is_none();
    // A document that is open says more than a card about it.
    let open = |run: &Run| run.document_id.is_some_and(|id| has_window(desk, &Subject::Document(id)));
    let small = |run: &&Run| surface(run, &documents) == Surface::Card && (shows_answer(run) || !open(run));
    // The tour says what to watch for while its document is open, too.
    let shown = |run: &&Run| tour(run).is_some() || small(run);
    runs.listed().filter(fresh).filter(shown).take(CARDS_MAX).cloned().collect()
}

/// What is answered in the margin needs no card.
fn shows_answer(run: &Run) -> bool {
    run.answer.is_some() && run.selection.is_none()
}

fn has_window(desk: Desk, about: &Subject) -> bool {
    let shows = |window: &Window| window.app == App::Writer && window.subject.as_ref() == Some(about);
    desk.desktop.read().windows.iter().any(shows)
}

#[component]
fn Card(run: Run) -> Element {
    if let Some(tour) = tour(&run) {
        return rsx! { TourCard { run, tour } };
    }
    let name = if run.answer.is_some() { "Answer" } else { "Run" };
    rsx! {
        article { class: "card", "aria-label": name,
            CardHead { run: run.clone(), title: run.prompt.clone() }
            CardBody { run: run.clone() }
            Receipt { run: run.clone() }
        }
    }
}

/// How a run stands, what it is about, and the way to put the card away or to stop it.
#[component]
pub(crate) fn CardHead(run: Run, title: String) -> Element {
    let desk = use_desk();
    let id = run.run_id;
    let subject = run_subject(desk, &run);
    rsx! {
        header {
            Standing { mark: Mark::from(run.status), label: run_words(run.status) }
            button {
                r#type: "button",
                class: "asked",
                title: "{run.prompt}",
                onclick: move |_| desk.open(App::Writer, Some(subject.clone())),
                Brief { text: title, characters: TITLE_CHARACTERS_MAX }
            }
            if run.status.is_ending() {
                IconButton { icon: Icon::Close, label: "Dismiss", onclick: move |_| desk.dismiss_card(id) }
            } else {
                IconButton { icon: Icon::Stop, label: "Cancel", onclick: move |_| control(desk, id, "cancel") }
            }
        }
    }
}

#[component]
fn CardBody(run: Run) -> Element {
    let desk = use_desk();
    let no_model =
        run.status == RunStatus::Blocked && desk.settings.read().as_ref().is_some_and(|all| all.model().is_none());
    rsx! {
        if let Some(answer) = run.answer.clone() {
            Rich { text: answer }
        } else if let Some(reason) = run.reason.clone() {
            div { class: "reason", Rich { text: reason } }
        }
        if no_model {
            button { r#type: "button", class: "mend", onclick: move |_| desk.open(App::Settings, None),
                super::rich::Glyph { icon: Icon::Key }
                "Add a key"
            }
        }
        GoOn { run }
    }
}

/// The yes to a plan, wherever the plan is shown.
#[component]
pub(crate) fn GoOn(run: Run) -> Element {
    let desk = use_desk();
    if run.blocked_on != Some(BlockedOn::Plan) {
        return rsx! {};
    }
    rsx! {
        button { r#type: "button", class: "mend", onclick: move |_| control(desk, run.run_id, "resume"),
            super::rich::Glyph { icon: Icon::Check }
            "Go on with this plan"
        }
    }
}

/// Time, tokens and money: small, and always in the same place.
#[component]
pub(crate) fn Receipt(run: Run) -> Element {
    let desk = use_desk();
    let until = run.ended_at.unwrap_or_else(|| *desk.now.read());
    let words = run_words(run.status);
    // Whoever asked no model is not told that it was for nothing.
    let has_cost = run.ended_at.is_none() || run.usage.tokens() > 0;
    rsx! {
        p { class: "receipt",
            span { "{words}" }
            span { class: "figure", {elapsed(run.accepted_at, until)} }
            if has_cost {
                span { class: "figure", {format!("{} tokens", tokens(run.usage.tokens()))} }
                span { class: "figure", {cost(&run.usage)} }
            }
        }
    }
}

/// Cancel, pause or resume.
pub(crate) fn control(desk: Desk, id: choir_proto::RunId, verb: &'static str) {
    spawn_local(async move {
        if let Err(failure) = server::act("POST", &format!("/api/runs/{id}/{verb}")).await {
            desk.undone("", &failure);
        }
    });
}

/// Opens a run's own page.
pub(crate) fn open_trace(desk: Desk, id: choir_proto::RunId) {
    desk.open(App::Trace, Some(Subject::Run(id)));
}
