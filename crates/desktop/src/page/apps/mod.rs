//! What windows show.

mod inbox;
mod library;
mod margin;
mod writer;

use choir_proto::desktop::{App, Subject, Window};
use dioxus::prelude::*;

/// The app of a window, about the window's subject.
#[component]
pub(crate) fn AppView(window: Window) -> Element {
    match (window.app, window.subject) {
        // The key makes another document another editor.
        (App::Writer, Some(Subject::Document(id))) => rsx! { writer::Writer { key: "{id}", id } },
        (App::Writer, Some(Subject::Run(id))) => rsx! { margin::RunPage { key: "{id}", id } },
        (App::Writer, _) => rsx! { library::Library {} },
        (App::Inbox, _) => rsx! { inbox::Inbox {} },
        (app, _) => rsx! { p { class: "empty", "{app.name()} is not part of this version." } },
    }
}
