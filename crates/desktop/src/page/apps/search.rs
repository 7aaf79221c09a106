//! Everything by words: documents, runs, files, artifacts and whatever was said or done.

use crate::page::desk::{Desk, use_desk};
use crate::page::rich::{Glyph, Phrase};
use crate::page::server;
use choir_desktop::files::{folder, plainly, query};
use choir_desktop::icon::Icon;
use choir_desktop::words::{ago, excerpt};
use choir_proto::desktop::{App, Subject};
use choir_proto::{DocumentId, RunId, Seq, Timestamp};
use dioxus::prelude::*;
use serde::Deserialize;

/// Results asked for.
const RESULTS_MAX: usize = 50;

#[derive(Deserialize)]
struct Results {
    results: Vec<Found>,
}

/// One thing that holds the words, as it is shown. All kinds in one: the page needs no reader of each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Found {
    kind: String,
    document_id: Option<DocumentId>,
    run_id: Option<RunId>,
    path: Option<String>,
    title: String,
    snippet: String,
    seq: Seq,
    at: Timestamp,
}

/// What is known of the words in the field.
#[derive(Clone, PartialEq)]
enum Answer {
    Nothing,
    Found(Vec<Found>),
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
                Answer::Found(results) => rsx! { Listed { results } },
            }
        }
    }
}

async fn find(words: &str) -> Answer {
    if words.trim().is_empty() {
        return Answer::Nothing;
    }
    let path = format!("/api/search?q={}&limit={RESULTS_MAX}", query(words));
    match server::get::<Results>(&path).await {
        Ok(answer) => Answer::Found(answer.results),
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}

#[component]
fn Listed(results: Vec<Found>) -> Element {
    let count = match results.len() {
        0 => "Nothing holds all of these words. Try fewer of them.".to_owned(),
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
fn ResultRow(result: Found) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), result.at);
    let (icon, kind) = (picture(&result.kind), result.kind.clone());
    let found = result.clone();
    let more = excerpt(&result.title, &result.snippet);
    rsx! {
        button { r#type: "button", class: "row result", onclick: move |_| show(desk, &found),
            Glyph { icon }
            span { class: "name",
                strong { {plainly(&result.title)} }
                if !more.is_empty() { span { class: "snippet", Phrase { text: more } } }
            }
            span { class: "figure", "{kind} · {when}" }
        }
    }
}

fn picture(kind: &str) -> Icon {
    match kind {
        "document" => Icon::FileText,
        "run" => Icon::Trace,
        "artifact" => Icon::Quote,
        "file" => Icon::File,
        _ => Icon::Timeline,
    }
}

/// Opens what was found, in the app that shows it best.
fn show(desk: Desk, found: &Found) {
    let (app, subject) = match (found.kind.as_str(), found.document_id, found.run_id, &found.path) {
        ("document", Some(id), ..) => (App::Writer, Some(Subject::Document(id))),
        ("run", _, Some(id), _) => (App::Writer, Some(Subject::Run(id))),
        ("file", .., Some(path)) => (App::Files, Some(Subject::Path(folder(path).to_owned()))),
        ("event", _, Some(id), _) => (App::Trace, Some(Subject::Run(id))),
        _ => (App::Timeline, None),
    };
    desk.open(app, subject);
}
