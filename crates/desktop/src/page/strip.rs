//! The reserved strip: windows at left, the prompt bar in the middle, the state of things at right.

use super::desk::{Desk, Link, use_desk};
use super::menu_button::MenuButton;
use super::prompt_bar::PromptBar;
use super::rich::{Glyph, Standing};
use super::stream::hurry;
use choir_desktop::computer::{focused, title};
use choir_desktop::icon::Icon;
use choir_desktop::status::Mark;
use choir_desktop::words::count;
use choir_proto::desktop::{App, DesktopCommand, Window};
use choir_proto::run::{Run, RunStatus};
use dioxus::prelude::*;

#[component]
pub(crate) fn Strip() -> Element {
    rsx! {
        footer { class: "strip",
            div { class: "left",
                MenuButton {}
                Taskbar {}
            }
            PromptBar {}
            State {}
        }
    }
}

#[component]
fn Taskbar() -> Element {
    let desk = use_desk();
    // By age, so that a button stays where it was.
    let windows = use_memo(move || {
        let mut windows = desk.desktop.read().windows.clone();
        windows.sort_by_key(|window| window.window_id);
        let (runs, documents) = (desk.runs.read(), desk.documents.read());
        windows.into_iter().map(|window| (title(&window, &runs, &documents), window)).collect::<Vec<_>>()
    });
    rsx! {
        nav { class: "taskbar", "aria-label": "Taskbar",
            for (name, window) in windows() { TaskButton { key: "{window.window_id}", window, name } }
        }
    }
}

#[component]
fn TaskButton(window: Window, name: String) -> Element {
    let desk = use_desk();
    let id = window.window_id;
    let front = use_memo(move || focused(&desk.desktop.read()).map(|window| window.window_id) == Some(id));
    rsx! {
        button {
            r#type: "button",
            class: "task",
            "aria-pressed": "{front}",
            "aria-label": "{name}",
            title: "{name}",
            onclick: move |_| match front() {
                true => desk.command(DesktopCommand::Shape { window_id: id, shape: choir_proto::desktop::Shape::Minimised }),
                false => desk.raise(&window),
            },
            Glyph { icon: Icon::of(window.app) }
        }
    }
}

/// Everything that needs a word of the person: questions, and runs that wait for something else.
pub(crate) fn waiting(desk: Desk) -> usize {
    let inbox = desk.inbox.read();
    let asks = |run: &&Run| inbox.iter().any(|item| item.run_id == Some(run.run_id));
    let others =
        desk.runs.read().open().filter(|run| run.status == RunStatus::Blocked).filter(|run| !asks(run)).count();
    inbox.len() + others
}

/// Connection and work under way.
#[component]
fn State() -> Element {
    let desk = use_desk();
    let waits = |run: &&Run| run.status == RunStatus::Blocked;
    let waiting = use_memo(move || waiting(desk));
    let open = use_memo(move || desk.runs.read().open().filter(|run| !waits(run)).count());
    rsx! {
        div { class: "state",
            if waiting() > 0 {
                button {
                    r#type: "button",
                    class: "quiet waits",
                    title: "Show what waits for you",
                    "aria-label": "Inbox, {waiting} waiting",
                    onclick: move |_| desk.open(App::Inbox, None),
                    Standing { mark: Mark::Blocked }
                    {format!("{} waiting", waiting())}
                }
            }
            if open() > 0 {
                button {
                    r#type: "button",
                    class: "quiet works",
                    title: "Show every run",
                    onclick: move |_| desk.open(App::Writer, None),
                    Standing { mark: Mark::Working }
                    {count(open(), "run", "runs")}
                }
            }
            Connection {}
        }
    }
}

#[component]
fn Connection() -> Element {
    let desk = use_desk();
    let link = desk.link.read().clone();
    rsx! {
        span { class: "connection", role: "status", "aria-label": "Connection",
            match link {
                Link::Live => rsx! { span { class: "dot live" } span { class: "words", "Live" } },
                Link::Loading => rsx! { span { class: "dot" } span { class: "words", "Connecting" } },
                Link::Away { retry_s } => rsx! {
                    Glyph { icon: Icon::WifiOff }
                    span { class: "words away", if retry_s == 0 { "Away, trying now" } else { "Away, next try in {retry_s} s" } }
                    if retry_s > 0 {
                        button { r#type: "button", class: "link", onclick: move |_| hurry(desk), "Try now" }
                    }
                },
                Link::Locked => rsx! { span { class: "words", "Locked" } },
            }
        }
    }
}
