//! What somebody sees who is not signed in.

use super::bridge;
use dioxus::prelude::*;

#[component]
pub(crate) fn Locked() -> Element {
    let mut token = use_signal(String::new);
    rsx! {
        main { class: "locked",
            form {
                class: "door",
                onsubmit: move |event| {
                    event.prevent_default();
                    bridge::visit(&address(&token.read()));
                },
                Emblem {}
                h1 { "This computer is locked" }
                p { "Open the sign-in address that ", code { "choir up" }, " printed, or paste it here." }
                label { r#for: "token", "Sign-in address or token" }
                input {
                    id: "token",
                    r#type: "password",
                    autocomplete: "off",
                    spellcheck: "false",
                    value: "{token}",
                    oninput: move |event| token.set(event.value()),
                }
                button { class: "primary", disabled: token.read().trim().is_empty(), "Unlock" }
            }
        }
    }
}

/// A whole address works as well as the token in it.
fn address(pasted: &str) -> String {
    let token = pasted.trim().rsplit("token=").next().unwrap_or_default();
    let safe: String =
        token.chars().filter(|letter| letter.is_ascii_alphanumeric() || "-_.~".contains(*letter)).collect();
    format!("/?token={safe}")
}

/// Arcs like choir stalls.
#[component]
pub(crate) fn Emblem() -> Element {
    rsx! {
        svg { class: "emblem", view_box: "0 0 32 32", "aria-hidden": "true",
            path { d: "M2 18A15 15 0 0 1 30 18", opacity: "0.4" }
            path { d: "M5 25a11 11 0 0 1 22 0", opacity: "0.7" }
            path { d: "M10 25a6 6 0 0 1 12 0" }
            circle { cx: "16", cy: "25", r: "1.6" }
        }
    }
}
