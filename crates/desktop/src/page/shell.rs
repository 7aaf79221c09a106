//! The whole page: canvas, strip, notices, or the locked door.

use super::bridge::{self, Held};
use super::cards::Cards;
use super::desk::{Desk, Link, use_desk};
use super::home::Home;
use super::locked::Locked;
use super::notices::Notices;
use super::strip::Strip;
use super::window::WindowFrame;
use super::{keys, stream};
use choir_desktop::computer::focused;
use choir_desktop::geometry::Size;
use choir_desktop::order::order;
use choir_proto::desktop::Theme;
use dioxus::prelude::*;
use web_sys::Element as Node;

/// How often elapsed times are drawn anew.
const TICK_MS: u32 = 1_000;

#[component]
pub(crate) fn Shell() -> Element {
    let desk = Desk::provide();
    use_hook(|| wasm_bindgen_futures::spawn_local(stream::live(desk)));
    use_hook(|| wasm_bindgen_futures::spawn_local(tick(desk)));
    use_hook(|| std::rc::Rc::new(bridge::returns(move || returned(desk))));
    use_effect(move || bridge::theme(desk.desktop.read().theme.map(theme_name)));
    use_effect(move || bridge::set_title(&page_title(desk)));
    if *desk.link.read() == Link::Locked {
        return rsx! { Locked {} };
    }
    rsx! { Desktop {} }
}

fn theme_name(theme: Theme) -> String {
    match theme {
        Theme::Matins => "matins".to_owned(),
        Theme::Vespers => "vespers".to_owned(),
    }
}

fn page_title(desk: Desk) -> String {
    let ended = (*desk.ended.read()).map(choir_desktop::status::run_words);
    choir_desktop::words::page_title(super::strip::waiting(desk), ended, desk.runs.read().open().count())
}

/// The person is back: what they were told by the tab is over, and what others changed meanwhile is read.
fn returned(mut desk: Desk) {
    stream::hurry(desk);
    desk.refresh_condition();
    if desk.ended.peek().is_some() {
        desk.ended.set(None);
    }
}

async fn tick(mut desk: Desk) {
    loop {
        bridge::pause(TICK_MS).await;
        desk.now.set(bridge::time());
    }
}

#[component]
fn Desktop() -> Element {
    let desk = use_desk();
    let held = use_hook(|| std::rc::Rc::new(keys::listen(desk)));
    // Kept for as long as the desktop is shown.
    drop(held);
    rsx! {
        Canvas {}
        Notices {}
        Strip {}
    }
}

/// The space above the strip: the home page, and the windows over it.
#[component]
fn Canvas() -> Element {
    let mut desk = use_desk();
    let mut sizes = use_signal(|| None::<Held>);
    // By age, not by height: a window that comes to the front must not be taken out of the page and put back.
    let ids = use_memo(move || {
        let windows = &desk.desktop.read().windows;
        let places = order(windows.len(), &|one, other| windows[one].window_id < windows[other].window_id);
        places.into_iter().map(|place| windows[place].window_id).collect::<Vec<_>>()
    });
    let bare = use_memo(move || focused(&desk.desktop.read()).is_none());
    use_effect(move || {
        let top = focused(&desk.desktop.read()).map(|window| window.window_id);
        if let Some(id) = top.filter(|_| *desk.wants_focus.peek()) {
            desk.wants_focus.set(false);
            bridge::focus_window(&format!("window-{id}"));
        }
    });
    rsx! {
        main {
            class: "canvas",
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                let on_size = move |width, height| desk.canvas.set(Size { width: width as u32, height: height as u32 });
                sizes.set(Some(bridge::sizes(&element, on_size)));
            },
            if bare() && *desk.link.read() != Link::Loading { Home {} }
            div { class: "snap", "data-shape": "" }
            for id in ids() {
                WindowFrame { key: "{id}", id }
            }
            Cards {}
        }
    }
}
