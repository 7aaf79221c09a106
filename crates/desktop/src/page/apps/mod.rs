//! What windows show.

mod changes;
mod evidence;
mod files;
mod history;
mod inbox;
mod library;
mod log;
mod margin;
mod moving;
mod naming;
mod preview;
mod search;
mod settings;
mod terminal;
mod threads;
mod trash;
mod tree;
mod writer;

pub(crate) use margin::undo as undo_run;
pub(crate) use settings::FoundProviders;
pub(crate) use terminal::{close as close_terminal, open as open_terminal};

use choir_proto::desktop::{App, Subject, Window};
use dioxus::prelude::*;

/// The app of a window. Another subject is another view: the list of one makes Dioxus look at the key.
#[component]
pub(crate) fn AppView(window: Window) -> Element {
    let key = format!("{:?}", window.subject);
    rsx! {
        for (key, window) in [(key, window)] { AppBody { key: "{key}", window } }
    }
}

#[component]
fn AppBody(window: Window) -> Element {
    let window_id = window.window_id;
    match (window.app, window.subject) {
        (App::Writer, Some(Subject::Document(id))) => rsx! { writer::Writer { id } },
        (App::Writer, Some(Subject::Run(id))) => rsx! { margin::RunPage { id } },
        (App::Writer, _) => rsx! { library::Library { window_id } },
        (App::Terminal, Some(Subject::Terminal(id))) => rsx! { terminal::Terminal { id, window_id } },
        (App::Terminal, _) => rsx! { terminal::NoTerminal { window_id } },
        (App::Files, Some(Subject::Path(path))) => rsx! { files::Files { window_id, path } },
        (App::Files, _) => rsx! { files::Files { window_id, path: "" } },
        (App::Trace, Some(Subject::Run(id))) => rsx! { log::Trace { id } },
        (App::Trace, _) => rsx! { log::ChooseRun { window_id } },
        (App::Timeline, _) => rsx! { log::Timeline {} },
        (App::Inbox, _) => rsx! { inbox::Inbox {} },
        (App::Settings, _) => rsx! { settings::Settings {} },
        (App::Search, _) => rsx! { search::Search {} },
        (App::Preview, _) => rsx! { div { class: "empty", p { "Preview is not part of this version." } } },
    }
}
