//! The workspace: folders, files, and what can be done to them.

use super::preview::Preview;
use crate::page::bridge::{self, Held};
use crate::page::desk::{Desk, use_desk};
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Failure};
use choir_desktop::files::{Entry, Kind, Listing, crumbs, is_name, join, query, shown};
use choir_desktop::icon::Icon;
use choir_desktop::words::bytes;
use choir_proto::WindowId;
use choir_proto::desktop::{DesktopCommand, Subject};
use dioxus::prelude::*;
use serde::Serialize;
use serde::de::IgnoredAny;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// One folder as the window shows it.
#[derive(Clone, Copy, PartialEq)]
struct Folder {
    desk: Desk,
    window_id: WindowId,
    path: Signal<String>,
    listing: Signal<Option<Result<ListingView, String>>>,
    chosen: Signal<Option<Entry>>,
    renaming: Signal<Option<Entry>>,
    /// What was deleted last, with its bytes.
    deleted: Signal<Option<(String, JsValue)>>,
}

/// Signals compare what they hold; a listing is compared by its entries.
#[derive(Clone)]
struct ListingView(Listing);

impl PartialEq for ListingView {
    fn eq(&self, other: &Self) -> bool {
        self.0.files == other.0.files
    }
}

#[derive(Serialize)]
struct Move {
    from: String,
    to: String,
}

impl Folder {
    fn load(mut self) {
        spawn_local(async move {
            let path = format!("/api/files/list?path={}", query(&self.path.peek()));
            let listing: Result<Listing, Failure> = server::get(&path).await;
            self.listing.set(Some(listing.map(ListingView).map_err(|failure| failure.to_string())));
        });
    }

    /// The address of a file's bytes.
    fn address(self, name: &str) -> String {
        format!("/api/files?path={}", query(&join(&self.path.peek(), name)))
    }

    /// Another folder is another subject, so that every browser and the next visit show it.
    fn go(self, path: String) {
        self.desk.command(DesktopCommand::Show { window_id: self.window_id, subject: Subject::Path(path) });
    }

    fn put(self, name: String, file: JsValue) {
        if !is_name(&name) {
            return self.desk.tell(format!("“{name}” is not a name for a file."));
        }
        spawn_local(async move {
            let progress = self.desk.progress(format!("Uploading {name} …"));
            let answer = server::done(bridge::upload(&self.address(&name), file).await);
            self.desk.dismiss_notice(progress);
            match answer {
                Ok(()) => self.desk.tell(format!("{name} is in the workspace.")),
                Err(failure) => self.desk.fail(&format!("{name} was not uploaded."), &failure),
            }
            self.load();
        });
    }

    /// The bytes are kept first: without them there would be no undo.
    fn delete(mut self, entry: Entry) {
        spawn_local(async move {
            let address = self.address(&entry.name);
            let outcome = match bridge::blob(&address).await {
                Ok(kept) => server::act("DELETE", &address).await.map(|()| kept),
                Err(why) => Err(Failure::Unreachable(why)),
            };
            match outcome {
                Ok(kept) => {
                    self.deleted.set(Some((entry.name, kept)));
                    self.chosen.set(None);
                }
                Err(failure) => self.desk.fail("Nothing was deleted.", &failure),
            }
            self.load();
        });
    }

    fn undo(mut self) {
        if let Some((name, kept)) = self.deleted.take() {
            self.put(name, kept);
        }
    }

    fn rename(mut self, from: &str, to: &str) {
        self.renaming.set(None);
        if !is_name(to) || from == to {
            return;
        }
        let folder = self.path.peek().clone();
        let body = Move { from: join(&folder, from), to: join(&folder, to) };
        spawn_local(async move {
            let answer: Result<IgnoredAny, Failure> = server::send("POST", "/api/files/move", &body).await;
            if let Err(failure) = answer {
                self.desk.fail("It kept its name.", &failure);
            }
            self.chosen.set(None);
            self.load();
        });
    }
}

#[component]
pub(crate) fn Files(window_id: WindowId, path: String) -> Element {
    let desk = use_desk();
    let folder = Folder {
        desk,
        window_id,
        path: use_signal(|| path),
        listing: use_signal(|| None),
        chosen: use_signal(|| None),
        renaming: use_signal(|| None),
        deleted: use_signal(|| None),
    };
    let mut drops = use_signal(|| None::<Held>);
    let wanted = use_signal(String::new);
    use_hook(|| folder.load());
    rsx! {
        div {
            class: "files",
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                drops.set(Some(bridge::drops(&element, move |name, file| folder.put(name, file))));
            },
            Tools { folder, wanted }
            div { class: "split",
                List { folder, wanted }
                for entry in folder.chosen.read().clone() {
                    Preview { key: "{entry.name}", address: folder.address(&entry.name), entry }
                }
            }
            Undo { folder }
        }
    }
}

#[component]
fn Tools(folder: Folder, wanted: Signal<String>) -> Element {
    rsx! {
        div { class: "tools",
            nav { class: "crumbs", "aria-label": "Folders",
                button { r#type: "button", onclick: move |_| folder.go(String::new()), "Workspace" }
                for (name, path) in crumbs(&folder.path.read()) {
                    Glyph { icon: Icon::ChevronRight }
                    button { r#type: "button", onclick: move |_| folder.go(path.clone()), "{name}" }
                }
            }
            input {
                r#type: "search",
                "aria-label": "Find in this folder",
                placeholder: "Find",
                "data-focus": "",
                value: "{wanted}",
                oninput: move |event| wanted.set(event.value()),
            }
            button {
                r#type: "button",
                class: "secondary",
                onclick: move |_| bridge::choose(move |name, file| folder.put(name, file)),
                Glyph { icon: Icon::Upload }
                "Upload"
            }
        }
    }
}

#[component]
fn List(folder: Folder, wanted: Signal<String>) -> Element {
    let listing = folder.listing.read();
    let entries = match listing.as_ref() {
        None => return rsx! { p { class: "none", "Reading the folder …" } },
        Some(Err(why)) => {
            return rsx! {
                div { class: "empty", role: "alert",
                    h2 { "The folder cannot be read" }
                    p { "{why}" }
                    button { r#type: "button", class: "secondary", onclick: move |_| folder.load(), "Try again" }
                }
            };
        }
        Some(Ok(listing)) => shown(&listing.0, &wanted.read()),
    };
    if entries.is_empty() {
        return rsx! {
            div { class: "empty",
                h2 { "Nothing here" }
                p { "Drop files on this window, or upload them." }
            }
        };
    }
    rsx! {
        div { class: "list",
            for entry in entries { EntryRow { key: "{entry.name}", folder, entry } }
        }
    }
}

#[component]
fn EntryRow(folder: Folder, entry: Entry) -> Element {
    if folder.renaming.read().as_ref() == Some(&entry) {
        return rsx! { Rename { folder, entry } };
    }
    let mut folder = folder;
    let is_folder = entry.kind == Kind::Directory;
    let (opened, renamed, removed) = (entry.clone(), entry.clone(), entry.clone());
    let chosen = folder.chosen.read().as_ref() == Some(&entry);
    rsx! {
        div { class: if chosen { "entry chosen" } else { "entry" },
            button {
                r#type: "button",
                class: "row",
                onclick: move |_| match is_folder {
                    true => folder.go(join(&folder.path.peek(), &opened.name)),
                    false => folder.chosen.set(Some(opened.clone())),
                },
                Glyph { icon: if is_folder { Icon::Folder } else { Icon::File } }
                span { class: "name", "{entry.name}" }
                if !is_folder { span { class: "figure", {bytes(entry.size)} } }
            }
            span { class: "acts",
                if !is_folder {
                    a {
                        class: "icon-button",
                        href: folder.address(&entry.name),
                        download: "{entry.name}",
                        "aria-label": "Download {entry.name}",
                        title: "Download",
                        Glyph { icon: Icon::Download }
                    }
                }
                IconButton {
                    icon: Icon::Pencil,
                    label: "Rename {entry.name}",
                    onclick: move |_| folder.renaming.set(Some(renamed.clone())),
                }
                if !is_folder {
                    IconButton {
                        icon: Icon::Trash,
                        label: "Delete {entry.name}",
                        onclick: move |_| folder.delete(removed.clone()),
                    }
                }
            }
        }
    }
}

#[component]
fn Rename(folder: Folder, entry: Entry) -> Element {
    let mut name = use_signal(|| entry.name.clone());
    let mut folder = folder;
    rsx! {
        form {
            class: "entry rename",
            onsubmit: move |event| {
                event.prevent_default();
                folder.rename(&entry.name, name.peek().trim());
            },
            input {
                "aria-label": "New name",
                value: "{name}",
                autofocus: true,
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                oninput: move |event| name.set(event.value()),
                onkeydown: move |event| {
                    if event.key() == Key::Escape { folder.renaming.set(None) }
                },
            }
            button { class: "secondary", "Rename" }
        }
    }
}

/// Deleting asks nothing and can be taken back.
#[component]
fn Undo(folder: Folder) -> Element {
    let name = folder.deleted.read().as_ref().map(|(name, _)| name.clone());
    rsx! {
        div { role: "status", class: "undo",
            if let Some(name) = name {
                span { "{name} is deleted." }
                button { r#type: "button", class: "secondary", onclick: move |_| folder.undo(),
                    Glyph { icon: Icon::Undo }
                    "Undo"
                }
            }
        }
    }
}
