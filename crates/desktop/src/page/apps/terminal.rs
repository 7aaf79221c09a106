//! A terminal of the session associate. It outlives this page; only closing its window ends it.

use crate::page::bridge::{self, Held};
use crate::page::desk::{Desk, use_desk};
use crate::page::server::{self, Failure};
use choir_proto::desktop::{App, DesktopCommand, Subject};
use choir_proto::{TerminalId, WindowId};
use dioxus::prelude::*;
use serde::{Deserialize, Serialize};
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// The size until the window has measured itself.
const FIRST_SIZE: NewTerminal = NewTerminal { cols: 80, rows: 24 };

#[derive(Serialize)]
struct NewTerminal {
    cols: u16,
    rows: u16,
}

#[derive(Deserialize)]
struct Created {
    terminal_id: TerminalId,
}

async fn create() -> Result<Subject, Failure> {
    let created: Created = server::send("POST", "/api/terminals", &FIRST_SIZE).await?;
    Ok(Subject::Terminal(created.terminal_id))
}

/// Starts a terminal and opens its window. Where none can be had, the window says so.
pub(crate) fn open(desk: Desk) {
    spawn_local(async move { desk.open(App::Terminal, create().await.ok()) });
}

/// Ends a terminal whose window is closed.
pub(crate) fn close(id: TerminalId) {
    spawn_local(async move {
        // It may have ended by itself; then there is nothing left to end.
        server::act("DELETE", &format!("/api/terminals/{id}")).await.ok();
    });
}

#[component]
pub(crate) fn Terminal(id: TerminalId) -> Element {
    let desk = use_desk();
    let mut held = use_signal(|| None::<Held>);
    let mut state = use_signal(|| "connecting".to_owned());
    rsx! {
        div { class: "console",
            div {
                class: "screen",
                onmounted: move |event| {
                    let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                    spawn_local(async move {
                        match bridge::open_terminal(&element, &id.to_string(), move |said| state.set(said)).await {
                            Ok(opened) => held.set(Some(opened)),
                            Err(why) => desk.tell(format!("The terminal could not be loaded ({why}).")),
                        }
                    });
                },
            }
            if *state.read() == "away" {
                p { class: "veil", role: "status", "The terminal is away; trying to reach it again." }
            }
        }
    }
}

/// A window that waits for a terminal.
#[component]
pub(crate) fn NoTerminal(window_id: WindowId) -> Element {
    let desk = use_desk();
    let mut reason = use_signal(|| None::<String>);
    let start = move |_| {
        spawn_local(async move {
            match create().await {
                Ok(subject) => desk.command(DesktopCommand::Show { window_id, subject }),
                Err(failure) => reason.set(Some(failure.to_string())),
            }
        });
    };
    rsx! {
        div { class: "empty",
            h2 { "No terminal runs here" }
            match &*reason.read() {
                Some(reason) => rsx! { p { role: "alert", "{reason}" } },
                None => rsx! { p { "Terminals run in a sandbox of this computer. It did not give one when this window opened." } },
            }
            button { r#type: "button", class: "secondary", "data-focus": "", onclick: start, "Start a terminal" }
        }
    }
}
