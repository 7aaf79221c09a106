//! The folders of the workspace as a tree beside the list; each is read when it is opened.

use super::files::Folder;
use crate::page::rich::Glyph;
use crate::page::server;
use choir_desktop::files::{Kind, Listing, Sorted, deleted_at, join, plainly, query};
use choir_desktop::icon::Icon;
use choir_desktop::words::moment;
use dioxus::prelude::*;

/// Folders drawn of one folder; the list beside it has the others.
const BRANCHES_MAX: usize = 200;

#[component]
pub(super) fn Tree(folder: Folder) -> Element {
    rsx! {
        nav { class: "tree", "aria-label": "Folder tree",
            Branch { folder, path: String::new(), name: "Workspace", open: true }
        }
    }
}

#[component]
fn Branch(folder: Folder, path: String, name: String, open: bool) -> Element {
    let here = folder.path.read().clone();
    let inside = here == path || here.starts_with(&format!("{path}/"));
    let mut open = use_signal(|| open || inside);
    let mut inner = use_signal(|| None::<Vec<String>>);
    let read = path.clone();
    // Read when it is opened, and again when the list beside it was.
    use_effect(move || {
        folder.listing.read();
        if open() {
            let path = format!("/api/files/list?path={}", query(&read));
            spawn(async move {
                // A folder that cannot be read has no branches; the list beside it says why.
                let listing = server::get::<Listing>(&path).await.unwrap_or_default();
                inner.set(Some(folders(listing)));
            });
        }
    });
    let (go, below) = (path.clone(), path.clone());
    let name = deleted_at(&path).map_or_else(|| plainly(&name), moment);
    let icon = if open() { Icon::ChevronDown } else { Icon::ChevronRight };
    rsx! {
        div { class: "branch",
            button {
                r#type: "button",
                class: "twist",
                "aria-label": "Show what is in {name}",
                "aria-expanded": "{open}",
                onclick: move |_| open.toggle(),
                Glyph { icon }
            }
            button {
                r#type: "button",
                class: "leaf",
                "data-folder": "{path}",
                "aria-current": if here == path { "true" },
                onclick: move |_| folder.go(go.clone()),
                "{name}"
            }
        }
        if open() {
            div { class: "below",
                for name in inner().unwrap_or_default() {
                    Branch { key: "{name}", folder, path: join(&below, &name), name, open: false }
                }
            }
        }
    }
}

fn folders(listing: Listing) -> Vec<String> {
    let all = Sorted::from(listing).shown("").into_iter().filter(|entry| entry.kind == Kind::Directory);
    all.map(|entry| entry.name).take(BRANCHES_MAX).collect()
}
