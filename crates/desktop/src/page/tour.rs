//! The tour: recorded answers, real tools, and a plug that is pulled for real.

use super::bridge::Transfer;
use super::cards::{CardHead, Receipt};
use super::desk::{Desk, use_desk};
use super::rich::{Glyph, Standing};
use super::server::{self, Failure};
use choir_desktop::files::query;
use choir_desktop::icon::Icon;
use choir_desktop::tour::{ROW, TABLE, about, steps};
use choir_proto::RunId;
use choir_proto::api::RunAccepted;
use choir_proto::run::Run;
use choir_proto::tour::{NewTour, Pace, PlugPulled, Tour};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// What can be watched without a model.
#[component]
pub(crate) fn Offers() -> Element {
    rsx! {
        section { class: "tours", "aria-label": "Tour",
            h2 { "See it work " span { "recorded model, real tools" } }
            div { class: "examples",
                for tour in Tour::ALL { OfferTour { tour } }
            }
        }
    }
}

#[component]
fn OfferTour(tour: Tour) -> Element {
    let desk = use_desk();
    rsx! {
        button { r#type: "button", class: "example", onclick: move |_| begin(desk, tour),
            strong { Glyph { icon: Icon::Play } {tour.title()} }
            span { {about(tour)} }
        }
    }
}

/// Begins a part; its document opens by itself, like that of a prompt.
pub(crate) fn begin(mut desk: Desk, tour: Tour) {
    spawn_local(async move {
        let body = NewTour { tour, pace: Pace::Watched };
        let answer: Result<RunAccepted, Failure> = server::send("POST", "/api/tours", &body).await;
        match answer {
            Ok(accepted) => {
                desk.sent.write().push(accepted.run_id);
                super::stream::open_if_ready(desk, accepted.run_id);
            }
            Err(failure) => desk.undone("The tour did not begin.", &failure),
        }
    });
}

/// Beside what is played: what to watch for, and what to do.
#[component]
pub(crate) fn TourCard(run: Run, tour: Tour) -> Element {
    let pulled = use_signal(|| None::<PlugPulled>);
    let id = run.run_id;
    let open = !run.status.is_ending();
    rsx! {
        article { class: "card tour", "aria-label": "Tour",
            CardHead { run: run.clone(), title: tour.title() }
            p { class: "caption", "Recorded model, real tools" }
            ol { class: "steps",
                for (index, step) in steps(&run, tour, pulled()).into_iter().enumerate() {
                    li { key: "{index}", "data-done": "{step.is_seen()}",
                        Standing { mark: step.mark, label: if step.is_seen() { "seen" } else { "to come" } }
                        span { "{step.words}" }
                    }
                }
            }
            div { class: "controls",
                if open { Plug { id, pulled } }
                if !open && tour == Tour::Numbers { EditRow {} }
            }
            Receipt { run: run.clone() }
        }
    }
}

#[component]
fn Plug(id: RunId, pulled: Signal<Option<PlugPulled>>) -> Element {
    let desk = use_desk();
    let mut busy = use_signal(|| false);
    rsx! {
        button {
            r#type: "button",
            class: "secondary",
            disabled: busy(),
            title: "Kills the computer’s process, as kill -9 does",
            onclick: move |_| {
                busy.set(true);
                spawn(async move {
                    pull(desk, id, pulled).await;
                    busy.set(false);
                });
            },
            Glyph { icon: Icon::Plug }
            if busy() { "Killed. Waiting for it to stand again …" } else { "Pull the plug" }
        }
    }
}

async fn pull(desk: Desk, id: RunId, mut pulled: Signal<Option<PlugPulled>>) {
    let answer: Result<PlugPulled, Failure> = server::send("POST", &format!("/api/tours/{id}/plug"), &()).await;
    match answer {
        Ok(back) => {
            pulled.set(Some(back));
            desk.tell(format!(
                "The computer’s process was killed. It stood again after {} ms; the run goes on.",
                back.away_ms
            ));
        }
        Err(failure) => desk.undone("The plug was not pulled.", &failure),
    }
}

/// Changes the table under the figure, as a person would in Files.
#[component]
fn EditRow() -> Element {
    let desk = use_desk();
    let mut edited = use_signal(|| false);
    rsx! {
        if edited() {
            p { class: "reason", "{TABLE} says pears,9 now. The margin of the document says that the figure is stale, and makes it again." }
        } else {
            button {
                r#type: "button",
                class: "secondary",
                onclick: move |_| {
                    spawn(async move {
                        match edit_row().await {
                            Ok(()) => edited.set(true),
                            Err(failure) => desk.undone("The table is as it was.", &failure),
                        }
                    });
                },
                Glyph { icon: Icon::Pencil }
                "Edit a row of the table"
            }
        }
    }
}

async fn edit_row() -> Result<(), Failure> {
    let address = format!("/api/files?path={}", query(TABLE));
    let table = server::get_text(&address).await?.replace(ROW[0], ROW[1]);
    server::done(Transfer::silent().upload(&address, table.into()).await)
}
