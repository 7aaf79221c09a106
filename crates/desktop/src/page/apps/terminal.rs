//! A terminal of the session associate. It outlives this page; only closing its window ends it.

use crate::page::bridge::{self, Held, Terminal as Screen};
use crate::page::desk::{Desk, late, use_desk};
use crate::page::rich::{IconButton, Phrase};
use crate::page::server::{self, Failure};
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_proto::desktop::{App, DesktopCommand, Subject};
use choir_proto::{TerminalId, WindowId};
use dioxus::prelude::*;
use js_sys::Promise;
use serde::{Deserialize, Serialize};
use wasm_bindgen_futures::{JsFuture, spawn_local};
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

/// Keys that a keyboard on a screen does not have: what they are called, and what they type.
const KEYS: [(&str, &str); 5] =
    [("Esc", "\u{1b}"), ("Tab", "\t"), ("Ctrl C", "\u{3}"), ("↑", "\u{1b}[A"), ("↓", "\u{1b}[B")];

/// What a window has of its terminal.
#[derive(Clone, Copy, PartialEq)]
struct Console {
    opened: Signal<Option<(Screen, Held)>>,
    state: Signal<String>,
    /// The words that are looked for; nothing while nobody looks.
    wanted: Signal<Option<String>>,
    missing: Signal<bool>,
}

impl Console {
    fn hear(mut self, said: String) {
        match said.as_str() {
            "find" => self.wanted.set(Some(String::new())),
            _ => self.state.set(said),
        }
    }

    fn seek(mut self, back: bool) {
        let words = self.wanted.peek().clone().unwrap_or_default();
        if let Some((screen, _)) = self.opened.peek().as_ref().filter(|_| !words.is_empty()) {
            self.missing.set(!screen.seek(&words, back));
        }
    }

    fn leave(mut self) {
        self.wanted.set(None);
        self.with_screen(Screen::take_keys);
    }

    fn with_screen(self, act: impl FnOnce(&Screen)) {
        if let Some((screen, _)) = self.opened.peek().as_ref() {
            act(screen);
        }
    }
}

#[component]
pub(crate) fn Terminal(id: TerminalId, window_id: WindowId) -> Element {
    let desk = use_desk();
    let console = use_hook(|| Console {
        opened: Signal::new(None),
        state: Signal::new("connecting".to_owned()),
        wanted: Signal::new(None),
        missing: Signal::new(false),
    });
    let opened = console.opened;
    rsx! {
        div { class: "console",
            div {
                class: "screen",
                onmounted: move |event| {
                    let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                    spawn_local(async move {
                        match bridge::open_terminal(&element, &id.to_string(), move |said| console.hear(said)).await {
                            Ok(screen) => late(opened, Some(screen)),
                            Err(why) => desk.tell(format!("The terminal could not be loaded ({why}).")),
                        }
                    });
                },
            }
            Find { console }
            Hand { console }
            {state(desk, console, window_id)}
        }
    }
}

/// What a person should know of a terminal that does not answer.
fn state(desk: Desk, console: Console, window_id: WindowId) -> Element {
    let state = console.state.read();
    // What it wrote can still be read above.
    let ended = state.strip_prefix("ended").map(|how| format!("Ended{how}."));
    rsx! {
        div { role: "status",
            if *state == "away" {
                p { class: "veil", "The terminal is away; trying to reach it again." }
            }
            if let Some(words) = ended {
                p { class: "veil ended",
                    "{words}"
                    button {
                        r#type: "button",
                        class: "secondary",
                        onclick: move |_| start(desk, window_id, Box::new(move |failure| desk.fail("No terminal was started.", &failure))),
                        "Start a terminal"
                    }
                }
            }
        }
    }
}

/// Starts a terminal in a window that has none.
fn start(desk: Desk, window_id: WindowId, refused: Box<dyn FnOnce(Failure)>) {
    spawn_local(async move {
        match create().await {
            Ok(subject) => desk.command(DesktopCommand::Show { window_id, subject }),
            Err(failure) => refused(failure),
        }
    });
}

/// What became of a wish for the clipboard, which some browsers give to no page.
fn heard(desk: Desk, given: Promise, done: Option<&'static str>) {
    spawn_local(async move {
        match JsFuture::from(given).await {
            Ok(given) if given.is_truthy() => done.into_iter().for_each(|words| desk.tell(words)),
            _ => desk.tell("The browser does not give the clipboard to this page."),
        }
    });
}

/// For hands without a keyboard and a mouse.
#[component]
fn Hand(console: Console) -> Element {
    let desk = use_desk();
    let mut wanted = console.wanted;
    rsx! {
        div { class: "hand", role: "toolbar", "aria-label": "Keys",
            for (label, keys) in KEYS {
                button { key: "{label}", r#type: "button", class: "secondary", onclick: move |_| console.with_screen(|screen| screen.press(keys)), "{label}" }
            }
            button { r#type: "button", class: "secondary", "data-act": Act::Paste.name(), onclick: move |_| console.with_screen(|screen| heard(desk, screen.paste_into(), None)), "Paste" }
            button {
                r#type: "button",
                class: "secondary",
                "data-act": Act::Copy.name(),
                onclick: move |_| console.with_screen(|screen| heard(desk, screen.copy_from(), Some("Copied."))),
                "Copy"
            }
            button { r#type: "button", class: "secondary", onclick: move |_| wanted.set(Some(String::new())), "Find" }
        }
    }
}

/// A field over the screen; the button that opens it teaches its keys.
#[component]
fn Find(console: Console) -> Element {
    let mut wanted = console.wanted;
    let Some(words) = wanted() else {
        return rsx! {
            div { class: "find",
                IconButton { icon: Icon::Search, label: "Find in this terminal (Ctrl Shift F)", act: Act::Find, onclick: move |_| wanted.set(Some(String::new())) }
            }
        };
    };
    rsx! {
        div { class: "find open",
            input {
                r#type: "search",
                "aria-label": "Find in this terminal",
                placeholder: "Find",
                value: "{words}",
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                oninput: move |event| {
                    wanted.set(Some(event.value()));
                    console.seek(true);
                },
                onkeydown: move |event| match event.key() {
                    Key::Enter => console.seek(!event.modifiers().shift()),
                    Key::Escape => console.leave(),
                    _ => {}
                },
            }
            span { role: "status", class: "quietly", if (console.missing)() && !words.is_empty() { "Not here" } }
            IconButton { icon: Icon::Close, label: "Stop looking", onclick: move |_| console.leave() }
        }
    }
}

/// A window that waits for a terminal.
#[component]
pub(crate) fn NoTerminal(window_id: WindowId) -> Element {
    let desk = use_desk();
    let reason = use_signal(|| None::<String>);
    let start = move |_| start(desk, window_id, Box::new(move |failure| late(reason, Some(failure.to_string()))));
    rsx! {
        div { class: "empty",
            h2 { "No terminal runs here" }
            match &*reason.read() {
                Some(reason) => rsx! { p { role: "alert", Phrase { text: reason.clone() } } },
                None => rsx! { p { "Terminals run in a sandbox of this computer. It did not give one when this window opened." } },
            }
            button { r#type: "button", class: "secondary", "data-focus": "", onclick: start, "Start a terminal" }
        }
    }
}
