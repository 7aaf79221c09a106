//! What just happened, and what went wrong.

use super::desk::{Notice, Tone, use_desk};
use super::rich::{IconButton, Phrase};
use choir_desktop::icon::Icon;
use dioxus::prelude::*;
use wasm_bindgen::JsValue;

/// Both regions are always there: assistive technology announces what appears in a region, not a region that appears.
#[component]
pub(crate) fn Notices() -> Element {
    let desk = use_desk();
    let of = move |tone| desk.notices.read().iter().filter(|notice| notice.tone == tone).cloned().collect::<Vec<_>>();
    rsx! {
        div { class: "notices",
            div { role: "alert", class: "alerts",
                for notice in of(Tone::Warn) { Line { key: "{notice.id}", notice } }
            }
            div { role: "status", class: "tells",
                for notice in of(Tone::Tell) { Line { key: "{notice.id}", notice } }
            }
        }
    }
}

#[component]
fn Line(notice: Notice) -> Element {
    let desk = use_desk();
    let class = match (notice.tone, &notice.stop) {
        (Tone::Warn, _) => "notice warn",
        (Tone::Tell, Some(_)) => "notice moving",
        (Tone::Tell, None) => "notice",
    };
    rsx! {
        div { class,
            p { Phrase { text: notice.text } }
            match notice.stop {
                Some(stop) => rsx! {
                    IconButton { icon: Icon::Stop, label: "Cancel", onclick: move |_| {
                        // Stopping what has ended meanwhile does nothing.
                        stop.call0(&JsValue::NULL).ok();
                    } }
                },
                None => rsx! {
                    IconButton { icon: Icon::Close, label: "Dismiss", onclick: move |_| desk.dismiss_notice(notice.id) }
                },
            }
        }
    }
}
