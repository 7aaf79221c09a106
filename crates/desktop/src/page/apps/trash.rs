//! What was deleted: its own name, when that was, and the way back.

use super::files::{EntryRow, Folder};
use crate::page::desk::late;
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Failure};
use choir_desktop::files::{Entry, Kind, Listing, deleted_at, join, plainly, query, restored};
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::words::moment;
use dioxus::prelude::*;

/// Folders on the way to what was deleted that are looked into.
const DEPTH_MAX: usize = 32;

/// What lies in a folder of the trash: the path of the one thing that was deleted then, and whether it is a folder with nothing
/// in it.
pub(super) async fn kept(moment: &str) -> Result<(String, bool), Failure> {
    let mut path = moment.to_owned();
    for _ in 0..DEPTH_MAX {
        let listing: Listing = server::get(&format!("/api/files/list?path={}", query(&path))).await?;
        match listing.files.as_slice() {
            // The way to it: it lies under the path that it had.
            [Entry { name, kind: Kind::Directory, .. }] => path = join(&path, name),
            [Entry { name, .. }] => return Ok((join(&path, name), false)),
            files => return Ok((path, files.is_empty())),
        }
    }
    Ok((path, false))
}

/// One deletion. The folder that holds it is named by its moment, which says nothing to people.
#[component]
pub(super) fn TrashRow(folder: Folder, entry: Entry) -> Element {
    let here = join(&folder.path.read(), &entry.name);
    let Some(at) = deleted_at(&here) else { return rsx! { EntryRow { folder, entry } } };
    let mut found = use_signal(|| None::<String>);
    let gone = use_signal(|| false);
    use_hook(|| {
        let here = here.clone();
        spawn(async move {
            match kept(&here).await {
                // A folder with nothing in it was brought back, or is worth as little.
                Ok((_, true)) => late(gone, true),
                Ok((path, false)) => found.set(Some(path)),
                // Its date is said all the same.
                Err(_) => {}
            }
        });
    });
    if gone() {
        return rsx! {};
    }
    let place = found.read().clone().and_then(|path| restored(&path).map(|origin| (path.clone(), origin.to_owned())));
    let name = place.as_ref().map(|(_, origin)| plainly(origin)).unwrap_or_default();
    rsx! {
        div { class: "entry",
            button { r#type: "button", class: "row", onclick: move |_| folder.go(here.clone()),
                Glyph { icon: Icon::Trash }
                span { class: "name", "{name}" }
                span { class: "figure", "deleted {moment(at)}" }
            }
            span { class: "acts",
                if let Some((from, to)) = place {
                    IconButton {
                        icon: Icon::Archive,
                        label: "Restore {name}",
                        onclick: move |_| {
                            late(gone, true);
                            folder.restore(from.clone(), to.clone());
                        },
                    }
                }
            }
        }
    }
}

/// Putting away and moving ask nothing and can be taken back.
#[component]
pub(super) fn Done(said: Option<String>, undo: EventHandler<()>) -> Element {
    rsx! {
        div { role: "status", class: "undo",
            if let Some(said) = said {
                span { "{said}" }
                button { r#type: "button", class: "secondary", "data-act": Act::BringBack.name(), onclick: move |_| undo.call(()),
                    Glyph { icon: Icon::Undo }
                    "Undo"
                }
            }
        }
    }
}
