//! Small pieces that every part of the page uses: icons, marks, and inert Markdown.

use choir_desktop::files::query;
use choir_desktop::icon::Icon;
use choir_desktop::markdown::{Block, Inline, brief, inline, parse, parse_whole};
use choir_desktop::menu::Act;
use choir_desktop::status::Mark;
use dioxus::prelude::*;

/// A picture without a name of its own.
#[component]
pub(crate) fn Glyph(icon: Icon) -> Element {
    let href = format!("#icon-{}", icon.name());
    rsx! {
        svg { class: "icon", "aria-hidden": "true", r#use { href } }
    }
}

/// A button that is a picture; its name is for everybody who asks.
#[component]
pub(crate) fn IconButton(
    icon: Icon,
    label: String,
    /// What the menu calls it by.
    act: Option<Act>,
    onclick: EventHandler<MouseEvent>,
) -> Element {
    rsx! {
        button {
            r#type: "button",
            class: "icon-button",
            "aria-label": "{label}",
            "data-act": act.map(Act::name),
            title: "{label}",
            onclick: move |event| onclick.call(event),
            Glyph { icon }
        }
    }
}

/// How something stands, by colour and shape; the words stand beside it or in `label`.
#[component]
pub(crate) fn Standing(mark: Mark, label: Option<String>) -> Element {
    let class = format!("mark {}", mark.class());
    match label {
        Some(label) => rsx! { span { class, role: "img", "aria-label": "{label}", title: "{label}", {shape(mark)} } },
        None => rsx! { span { class, "aria-hidden": "true", {shape(mark)} } },
    }
}

fn shape(mark: Mark) -> Element {
    rsx! {
        svg { view_box: "0 0 16 16",
            match mark {
                Mark::Working => rsx! { circle { class: "fill", cx: "8", cy: "8", r: "4" } },
                Mark::Paused => rsx! { path { d: "M6 4.5v7M10 4.5v7" } },
                Mark::Blocked => rsx! { path { d: "M3.5 8h9" } },
                Mark::Verified => rsx! {
                    circle { class: "fill", cx: "8", cy: "8", r: "6.5" }
                    path { class: "over", d: "M5.2 8.2l2 2 3.6-4" }
                },
                Mark::Unverified => rsx! {
                    circle { cx: "8", cy: "8", r: "6" }
                    path { d: "M5.4 8.2l1.9 1.9 3.3-3.7" }
                },
                Mark::Failed => rsx! { path { d: "M4.5 4.5l7 7M11.5 4.5l-7 7" } },
                Mark::Ahead => rsx! { circle { cx: "8", cy: "8", r: "3" } },
                Mark::Unknown => rsx! {
                    path { d: "M5.8 6.1a2.2 2.2 0 1 1 3.3 1.9c-.7.4-1.1.8-1.1 1.6" }
                    circle { class: "fill", cx: "8", cy: "12", r: "0.9" }
                },
            }
        }
    }
}

/// Markdown as known blocks; see `choir_desktop::markdown` for why nothing else can come of it.
#[component]
pub(crate) fn Rich(text: String) -> Element {
    rsx! {
        div { class: "rich",
            for block in parse(&text) { Piece { block } }
        }
    }
}

/// All of a document, as it goes on paper: with its headings and its pictures.
#[component]
pub(crate) fn Whole(text: String) -> Element {
    rsx! {
        div { class: "rich",
            for block in parse_whole(&text) {
                match block {
                    Block::Heading(1, parts) => rsx! { h1 { Parts { parts } } },
                    Block::Heading(2, parts) => rsx! { h2 { Parts { parts } } },
                    block => rsx! { Piece { block } },
                }
            }
        }
    }
}

#[component]
fn Piece(block: Block) -> Element {
    match block {
        Block::Picture(words, path) => rsx! { img { src: "/api/files?path={query(&path)}", alt: words } },
        Block::Heading(1 | 2, parts) => rsx! { h3 { Parts { parts } } },
        Block::Heading(_, parts) => rsx! { h4 { Parts { parts } } },
        Block::Paragraph(parts) => rsx! { p { Parts { parts } } },
        Block::Point(number, mut parts) => {
            let box_of = parts.first_mut().and_then(ticked);
            let bullet = number.map(|number| format!("{number}.")).unwrap_or_else(|| box_of.unwrap_or("•").to_owned());
            rsx! { p { class: "point", span { class: "bullet", "{bullet}" }, span { Parts { parts } } } }
        }
        Block::Quote(parts) => rsx! { blockquote { Parts { parts } } },
        Block::Code(code) => rsx! { pre { tabindex: "0", "{code}" } },
        Block::Table(rows) => grid(rows),
        Block::Rule => rsx! { hr {} },
    }
}

/// The box of a task, taken from its words.
fn ticked(first: &mut Inline) -> Option<&'static str> {
    let Inline::Text(text) = first else { return None };
    let (mark, shown) =
        [("[ ] ", "☐"), ("[x] ", "☑"), ("[X] ", "☑")].into_iter().find(|(mark, _)| text.starts_with(mark))?;
    text.drain(..mark.len());
    Some(shown)
}

fn grid(rows: Vec<Vec<Vec<Inline>>>) -> Element {
    let mut rows = rows.into_iter();
    let head = rows.next().unwrap_or_default();
    rsx! {
        table {
            thead { tr { for parts in head { th { Parts { parts } } } } }
            tbody {
                for row in rows { tr { for parts in row { td { Parts { parts } } } } }
            }
        }
    }
}

/// A sentence or two with their inner marks.
#[component]
pub(crate) fn Phrase(text: String) -> Element {
    rsx! { Parts { parts: inline(&text) } }
}

/// The beginning of somebody's words, where a line of them is enough.
#[component]
pub(crate) fn Brief(text: String, characters: usize) -> Element {
    rsx! { Parts { parts: brief(&text, characters) } }
}

#[component]
fn Parts(parts: Vec<Inline>) -> Element {
    rsx! {
        for part in parts {
            match part {
                Inline::Text(text) => rsx! { "{text}" },
                Inline::Strong(parts) => rsx! { strong { Parts { parts } } },
                Inline::Emphasis(parts) => rsx! { em { Parts { parts } } },
                Inline::Code(text) => rsx! { code { "{text}" } },
                Inline::Link(parts, address) => rsx! {
                    a { href: "{address}", target: "_blank", rel: "noopener noreferrer", title: "{address}", Parts { parts } }
                },
            }
        }
    }
}
