//! The menu: every app and every action, reachable by mouse, touch and arrow keys.

use super::bridge;
use super::desk::use_desk;
use super::keys::perform;
use super::rich::Glyph;
use choir_desktop::icon::Icon;
use choir_desktop::menu::{Item, SECTIONS};
use dioxus::prelude::*;

#[component]
pub(crate) fn MenuButton() -> Element {
    let mut open = use_signal(|| false);
    rsx! {
        button {
            r#type: "button",
            class: "icon-button menu-button",
            "aria-label": "Menu",
            "aria-haspopup": "menu",
            "aria-expanded": "{open}",
            onclick: move |_| open.toggle(),
            Glyph { icon: Icon::Menu }
        }
        if open() { Menu { open } }
    }
}

#[component]
fn Menu(open: Signal<bool>) -> Element {
    let count: usize = SECTIONS.iter().map(|(_, items)| items.len()).sum();
    let mut at = use_signal(|| 0_usize);
    use_effect(move || bridge::focus(&format!("[data-item='{at}']")));
    let mut close = move || {
        open.set(false);
        bridge::focus(".menu-button");
    };
    rsx! {
        // Anything outside closes the menu; Escape does the same for the keyboard.
        div { class: "backdrop", onclick: move |_| close() }
        div {
            class: "menu",
            role: "menu",
            "aria-label": "Menu",
            onkeydown: move |event| {
                let next = match event.key() {
                    Key::ArrowDown => (at() + 1) % count,
                    Key::ArrowUp => (at() + count - 1) % count,
                    Key::ArrowRight => first((section(at()) + 1) % SECTIONS.len()),
                    Key::ArrowLeft => first((section(at()) + SECTIONS.len() - 1) % SECTIONS.len()),
                    Key::Character(letter) if event.modifiers().is_empty() => beginning(at(), &letter),
                    Key::Home => 0,
                    Key::End => count - 1,
                    Key::Escape | Key::Tab => { close(); return event.prevent_default() }
                    _ => return,
                };
                event.prevent_default();
                at.set(next);
            },
            // As high as its columns, inside a menu that scrolls: columns in a menu of a given height go on sideways.
            div { class: "sections", role: "none",
                for (index, (title, items)) in SECTIONS.into_iter().enumerate() {
                    div { role: "group", "aria-label": "{title}",
                        span { class: "group", "aria-hidden": "true", "{title}" }
                        for (offset, item) in items.iter().enumerate() {
                            MenuItem { item: *item, index: first(index) + offset, open }
                        }
                    }
                }
            }
        }
    }
}

/// The section of an item.
fn section(item: usize) -> usize {
    (0..SECTIONS.len()).rfind(|section| first(*section) <= item).unwrap_or_default()
}

/// The next item that begins with a letter; the same one where none does.
fn beginning(at: usize, letter: &str) -> usize {
    let labels: Vec<&str> = SECTIONS.iter().flat_map(|(_, items)| items.iter().map(|item| item.label)).collect();
    let begins =
        |place: &usize| labels[*place].get(..letter.len()).is_some_and(|start| start.eq_ignore_ascii_case(letter));
    (1..labels.len()).map(|step| (at + step) % labels.len()).find(begins).unwrap_or(at)
}

/// The number of a section's first item.
fn first(section: usize) -> usize {
    SECTIONS[..section].iter().map(|(_, items)| items.len()).sum()
}

#[component]
fn MenuItem(item: Item, index: usize, open: Signal<bool>) -> Element {
    let desk = use_desk();
    rsx! {
        button {
            r#type: "button",
            role: "menuitem",
            tabindex: "-1",
            "data-item": "{index}",
            onclick: move |_| {
                open.set(false);
                perform(desk, item.action);
            },
            Glyph { icon: item.icon }
            span { "{item.label}" }
            if !item.keys.is_empty() { kbd { "aria-hidden": "true", "{item.keys}" } }
        }
    }
}
