//! A file beside its folder: text, Markdown or a picture, and never anything that runs.

use crate::page::bridge;
use crate::page::rich::{Glyph, Rich};
use crate::page::server;
use choir_desktop::files::{
    Entry, PREVIEW_CHARACTERS_MAX, Preview as How, TABLE_ROWS_MAX, is_binary, plainly, preview, table,
};
use choir_desktop::icon::Icon;
use choir_desktop::words::bytes;
use dioxus::prelude::*;

/// What was read.
#[derive(Clone, PartialEq)]
enum Content {
    Reading,
    Text(String),
    Picture(Picture),
    Nothing(String),
}

/// An address that only this page knows, given back when it is no longer shown.
#[derive(Clone, PartialEq)]
struct Picture(std::rc::Rc<Address>);

#[derive(PartialEq)]
struct Address(String);

impl Drop for Address {
    fn drop(&mut self) {
        bridge::forget(&self.0);
    }
}

#[component]
pub(crate) fn Preview(entry: Entry, address: String, onclose: EventHandler<()>) -> Element {
    let mut content = use_signal(|| Content::Reading);
    let how = preview(&entry.name, entry.size);
    use_hook(|| {
        let address = address.clone();
        spawn(async move { content.set(read(how, &address).await) });
    });
    let (name, size) = (plainly(&entry.name), bytes(entry.size));
    rsx! {
        section { class: "preview", "aria-label": "Preview of {name}",
            header { class: "preview-head",
                strong { class: "name", "{name}" }
                span { class: "figure", "{size}" }
                button {
                    r#type: "button",
                    class: "icon-button close-preview",
                    "aria-label": "Close preview",
                    title: "Close preview",
                    onclick: move |_| onclose.call(()),
                    Glyph { icon: Icon::Close }
                }
            }
            match content.read().clone() {
                Content::Reading => rsx! { p { class: "none", "Reading …" } },
                Content::Text(text) if how == How::Markdown => rsx! { Rich { text } },
                Content::Text(text) if how == How::Table => grid(table(&text)),
                Content::Text(text) => rsx! {
                    pre { tabindex: "0", "{text}" }
                    // As long as it may be: there is more of it, or just not.
                    if text.len() >= PREVIEW_CHARACTERS_MAX {
                        p { class: "none", "Only the beginning of a long file is shown. Download it to read all of it." }
                    }
                },
                Content::Picture(picture) => rsx! { img { src: "{picture.0.0}", alt: "{name}" } },
                Content::Nothing(why) => rsx! { p { class: "none", "{why}" } },
            }
        }
    }
}

/// The first row names the columns.
fn grid(rows: Vec<Vec<String>>) -> Element {
    let cut = rows.len() == TABLE_ROWS_MAX;
    let mut rows = rows.into_iter();
    let head = rows.next().unwrap_or_default();
    rsx! {
        div { class: "table", tabindex: "0", role: "group", "aria-label": "Table",
            table { class: "md-grid",
                thead { tr { for (index, cell) in head.into_iter().enumerate() { th { key: "{index}", scope: "col", "{cell}" } } } }
                tbody {
                    for (number, row) in rows.enumerate() {
                        tr { key: "{number}", for (index, cell) in row.into_iter().enumerate() { td { key: "{index}", "{cell}" } } }
                    }
                }
            }
            if cut { p { class: "none", "Only the first {TABLE_ROWS_MAX} rows are shown." } }
        }
    }
}

async fn read(how: How, address: &str) -> Content {
    match how {
        How::None => Content::Nothing("This file has no preview. Download it to look at it.".to_owned()),
        How::Image(kind) => match bridge::blob(address).await {
            Ok(blob) => Content::Picture(Picture(std::rc::Rc::new(Address(bridge::picture(&blob, kind))))),
            Err(why) => Content::Nothing(format!("The picture could not be read ({why}).")),
        },
        How::Text | How::Markdown | How::Table => match server::get_text(address).await {
            Ok(text) if is_binary(&text) => {
                Content::Nothing("This file is not text. Download it to look at it.".to_owned())
            }
            Ok(text) => Content::Text(text.chars().take(PREVIEW_CHARACTERS_MAX).collect()),
            Err(failure) => Content::Nothing(failure.to_string()),
        },
    }
}
