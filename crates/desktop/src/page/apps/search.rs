//! Everything by words: documents, runs, files, artifacts and whatever was said or done.

use crate::page::desk::{Desk, use_desk};
use crate::page::rich::Glyph;
use crate::page::server;
use choir_desktop::files::{folder, query};
use choir_desktop::icon::Icon;
use choir_desktop::words::ago;
use choir_proto::api::{Found, SearchResult, SearchResults};
use choir_proto::desktop::{App, Subject};
use dioxus::prelude::*;

/// Results asked for.
const RESULTS_MAX: usize = 50;

/// What is known of the words in the field.
#[derive(Clone, PartialEq)]
enum Answer {
    Nothing,
    Found(Vec<SearchResult>),
    Failed(String),
}

#[component]
pub(crate) fn Search() -> Element {
    let mut answer = use_signal(|| Answer::Nothing);
    // Answers may overtake each other; only the newest question's counts.
    let mut asked = use_signal(|| 0_u64);
    let mut ask = move |words: String| {
        let number = *asked.peek() + 1;
        asked.set(number);
        spawn(async move {
            let found = find(&words).await;
            if *asked.peek() == number {
                answer.set(found);
            }
        });
    };
    rsx! {
        div { class: "search page",
            div { class: "tools",
                input {
                    r#type: "search",
                    "aria-label": "Search",
                    placeholder: "Documents, runs, files, anything said or done",
                    "data-focus": "",
                    oninput: move |event| ask(event.value()),
                }
            }
            match answer.read().clone() {
                Answer::Nothing => rsx! { p { class: "none", "Type a few words. The last one may be only begun." } },
                Answer::Failed(why) => rsx! { p { role: "alert", class: "none", "{why}" } },
                Answer::Found(results) => rsx! { Results { results } },
            }
        }
    }
}

async fn find(words: &str) -> Answer {
    if words.trim().is_empty() {
        return Answer::Nothing;
    }
    let path = format!("/api/search?q={}&limit={RESULTS_MAX}", query(words));
    match server::get::<SearchResults>(&path).await {
        Ok(answer) => Answer::Found(answer.results),
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}

#[component]
fn Results(results: Vec<SearchResult>) -> Element {
    let count = match results.len() {
        0 => "Nothing holds all of these words.".to_owned(),
        1 => "1 result".to_owned(),
        many => format!("{many} results"),
    };
    rsx! {
        p { role: "status", class: "none", "{count}" }
        section { "aria-label": "Results",
            for result in results { ResultRow { key: "{result.seq}", result } }
        }
    }
}

#[component]
fn ResultRow(result: SearchResult) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), result.at);
    let (icon, kind) = picture(&result.found);
    let found = result.found.clone();
    rsx! {
        button { r#type: "button", class: "row result", onclick: move |_| show(desk, &found),
            Glyph { icon }
            span { class: "name",
                strong { "{result.title}" }
                span { class: "snippet", "{result.snippet}" }
            }
            span { class: "figure", "{kind} · {when}" }
        }
    }
}

const fn picture(found: &Found) -> (Icon, &'static str) {
    match found {
        Found::Document { .. } => (Icon::FileText, "document"),
        Found::Run { .. } => (Icon::Trace, "run"),
        Found::Artifact { .. } => (Icon::Image, "artifact"),
        Found::File { .. } => (Icon::File, "file"),
        Found::Event { .. } => (Icon::Timeline, "event"),
    }
}

/// Opens what was found, in the app that shows it best.
fn show(desk: Desk, found: &Found) {
    match found {
        Found::Document { document_id } => desk.open(App::Writer, Some(Subject::Document(*document_id))),
        Found::Run { run_id } => desk.open(App::Writer, Some(Subject::Run(*run_id))),
        Found::File { path } => desk.open(App::Files, Some(Subject::Path(folder(path).to_owned()))),
        Found::Event { run_id: Some(run_id), .. } => desk.open(App::Trace, Some(Subject::Run(*run_id))),
        Found::Event { run_id: None, .. } | Found::Artifact { .. } => desk.open(App::Timeline, None),
    }
}
