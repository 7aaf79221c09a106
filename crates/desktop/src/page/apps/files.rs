//! The workspace: folders, files, and what can be done to them.

use super::preview::Preview;
use super::trash::{InTheTrash, TrashRow, kept};
use super::tree::Tree;
use crate::page::bridge::{self, Held};
use crate::page::desk::{Desk, late, use_desk};
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Failure};
use crate::page::transfer::{DOWNLOAD_BYTES_MAX, Moved, download, upload};
use choir_desktop::files::{
    ENTRIES_MAX, Entry, Kind, Listing, READ_MAX, Sorted, TRASH, crumbs, deleted_at, folder, is_name, join, not_a_name,
    plainly, query, restored, trashed,
};
use choir_desktop::icon::Icon;
use choir_desktop::words::{bytes, moment};
use choir_proto::WindowId;
use choir_proto::desktop::{DesktopCommand, Subject};
use dioxus::prelude::*;
use serde::Serialize;
use serde::de::IgnoredAny;
use std::pin::Pin;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// One folder as the window shows it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Folder {
    desk: Desk,
    window_id: WindowId,
    pub(super) path: Signal<String>,
    pub(super) listing: Signal<Option<Result<Sorted, String>>>,
    chosen: Signal<Option<Entry>>,
    renaming: Signal<Option<Entry>>,
    /// What was deleted last: where it was, and where it is in the trash.
    deleted: Signal<Option<(String, String)>>,
    /// The name of a folder that is being made.
    making: Signal<Option<String>>,
    /// Why a name that was typed is not taken.
    fault: Signal<Option<String>>,
    /// The name that was just given: its row takes the keyboard when it is there.
    fresh: Signal<Option<String>>,
}

#[derive(Serialize)]
struct Move {
    from: String,
    to: String,
}

impl Folder {
    pub(super) fn load(self) {
        let Ok(path) = self.path.try_peek().map(|path| query(&path)) else { return };
        spawn_local(async move {
            let listing = whole(&path).await;
            late(self.listing, Some(listing.map(Sorted::from).map_err(|failure| failure.to_string())));
        });
    }

    /// The address of a file's bytes.
    fn address(self, name: &str) -> String {
        format!("/api/files?path={}", query(&join(&self.path.peek(), name)))
    }

    /// Another folder is another subject, so that every browser and the next visit show it.
    pub(super) fn go(self, path: String) {
        self.desk.command(DesktopCommand::Show { window_id: self.window_id, subject: Subject::Path(path) });
    }

    fn put(self, name: String, file: JsValue) {
        if !is_name(&name) {
            return self.desk.tell(format!("“{}” is not a name for a file.", plainly(&name)));
        }
        spawn_local(async move {
            let sent = upload(self.desk, &self.address(&name), &name, file).await;
            let name = plainly(&name);
            match sent {
                Ok(Moved::Whole) => self.desk.tell(format!("{name} is in the workspace.")),
                Ok(Moved::Stopped) => self.desk.tell(format!("{name} was not uploaded.")),
                Err(failure) => self.desk.fail(&format!("{name} was not uploaded."), &failure),
            }
            self.load();
        });
    }

    fn get(self, entry: Entry) {
        spawn_local(async move {
            let Entry { name, size, .. } = entry;
            let got = download(self.desk, &self.address(&name), &name, size).await;
            let name = plainly(&name);
            match got {
                Ok(Moved::Whole) => self.desk.tell(format!("{name} is yours.")),
                Ok(Moved::Stopped) => self.desk.tell(format!("{name} was not downloaded.")),
                Err(failure) => self.desk.fail(&format!("{name} was not downloaded."), &failure),
            }
        });
    }

    /// Deleting is moving to the trash, so that it can be taken back, now and later.
    fn delete(self, entry: Entry) {
        let from = join(&self.path.peek(), &entry.name);
        let to = trashed(&from, bridge::time().0 / 1_000);
        spawn_local(async move {
            match shift(&from, &to).await {
                Ok(()) => {
                    late(self.deleted, Some((from, to)));
                    late(self.chosen, None);
                }
                Err(failure) => self.desk.undone("Nothing was deleted.", &failure),
            }
            self.load();
        });
    }

    fn undo(mut self) {
        if let Some((from, to)) = self.deleted.take() {
            self.restore(to, from);
        }
    }

    /// Brings something back from the trash.
    pub(super) fn restore(self, from: String, to: String) {
        spawn_local(async move {
            match shift(&from, &to).await {
                Ok(()) => {
                    self.desk.tell(format!("{} is back.", plainly(&to)));
                    sweep(&from).await;
                }
                Err(failure) => self.desk.undone("It stays in the trash.", &failure),
            }
            self.load();
        });
    }

    fn make(self) {
        let name = self.making.peek().clone().unwrap_or_default().trim().to_owned();
        let path = join(&self.path.peek(), &name);
        self.name(name, Box::pin(async move { make_folder(&path).await }));
    }

    fn rename(mut self, from: &str, to: &str) {
        if from == to {
            return self.renaming.set(None);
        }
        let folder = self.path.peek().clone();
        let (from, new) = (join(&folder, from), join(&folder, to));
        self.name(to.to_owned(), Box::pin(async move { move_path(&from, &new).await }));
    }

    /// Gives a name. One that is not taken stays in its field, with the reason.
    fn name(mut self, name: String, give: Pin<Box<dyn Future<Output = Result<(), Failure>>>>) {
        if let Some(why) = not_a_name(&name) {
            return self.fault.set(Some(why.to_owned()));
        }
        spawn_local(async move {
            match give.await {
                Ok(()) => {
                    late(self.fresh, Some(name));
                    late(self.making, None);
                    late(self.renaming, None);
                    late(self.chosen, None);
                    late(self.fault, None);
                }
                Err(failure) => late(self.fault, Some(failure.to_string())),
            }
            self.load();
        });
    }
}

/// A folder with all of its pages.
async fn whole(path: &str) -> Result<Listing, Failure> {
    let mut all: Listing = server::get(&format!("/api/files/list?path={path}")).await?;
    while all.files.len() < READ_MAX {
        let Some(after) = all.next.take() else { break };
        let page: Listing = server::get(&format!("/api/files/list?path={path}&after={}", query(&after))).await?;
        all.files.extend(page.files);
        all.next = page.next;
    }
    Ok(all)
}

async fn move_path(from: &str, to: &str) -> Result<(), Failure> {
    let body = Move { from: from.to_owned(), to: to.to_owned() };
    let _: IgnoredAny = server::send("POST", "/api/files/move", &body).await?;
    Ok(())
}

/// Moves something into a folder that may not be there yet.
async fn shift(from: &str, to: &str) -> Result<(), Failure> {
    if !folder(to).is_empty() {
        make_folder(folder(to)).await?;
    }
    move_path(from, to).await
}

/// Takes away the folders that something left behind in the trash, if nothing is in them.
async fn sweep(left: &str) {
    let Some(moment) = left.match_indices('/').nth(1).map(|(at, _)| &left[..at]) else { return };
    // What cannot be looked at or taken away stays, and harms nobody.
    if let Ok((_, true)) = kept(moment).await {
        server::act("DELETE", &format!("/api/files?path={}", query(moment))).await.ok();
    }
}

async fn make_folder(path: &str) -> Result<(), Failure> {
    server::act("PUT", &format!("/api/files?kind=directory&path={}", query(path))).await
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
        making: use_signal(|| None),
        fault: use_signal(|| None),
        fresh: use_signal(|| None),
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
                Tree { folder }
                List { folder, wanted }
                for entry in folder.chosen.read().clone() {
                    Preview {
                        key: "{entry.name}",
                        address: folder.address(&entry.name),
                        entry,
                        onclose: move |()| late(folder.chosen, None),
                    }
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
                    button {
                        r#type: "button",
                        onclick: {
                            let path = path.clone();
                            move |_| folder.go(path.clone())
                        },
                        {deleted_at(&path).map_or_else(|| plainly(&name), moment)}
                    }
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
            IconButton { icon: Icon::FolderPlus, label: "New folder", onclick: move |_| {
                late(folder.fault, None);
                late(folder.renaming, None);
                late(folder.making, Some(String::new()));
            } }
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
    let sorted = match listing.as_ref() {
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
        Some(Ok(sorted)) => sorted,
    };
    let (all, more, entries) = (sorted.count(), sorted.more, sorted.shown(&wanted.read()));
    let cut = entries.len() == ENTRIES_MAX && all > ENTRIES_MAX;
    if all > 0 && entries.is_empty() && folder.making.read().is_none() {
        return rsx! { p { class: "none", role: "status", "Nothing here is called “{wanted}”." } };
    }
    if entries.is_empty() && folder.making.read().is_none() {
        return rsx! {
            div { class: "empty",
                h2 { "Nothing here" }
                p { "Drop files on this window, or upload them." }
            }
        };
    }
    rsx! {
        div { class: "list",
            if cut { p { class: "none", role: "status", "{ENTRIES_MAX} of {all} are shown. Find narrows them down." } }
            if more { p { class: "none", role: "status", "This folder has more than the computer lists at once." } }
            NewFolder { folder }
            if *folder.path.read() == TRASH {
                // What was deleted last is what is most often missed.
                for entry in entries.into_iter().rev() { TrashRow { key: "{entry.name}", folder, entry } }
            } else {
                for entry in entries { EntryRow { key: "{entry.name}", folder, entry } }
            }
        }
    }
}

#[component]
fn NewFolder(folder: Folder) -> Element {
    let mut making = folder.making;
    let Some(name) = making() else { return rsx! {} };
    rsx! {
        form {
            class: "entry rename",
            onsubmit: move |event| {
                event.prevent_default();
                folder.make();
            },
            input {
                "aria-label": "Name of the folder",
                placeholder: "Name of the folder",
                value: "{name}",
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                "aria-invalid": folder.fault.read().is_some(),
                oninput: move |event| making.set(Some(event.value())),
                onkeydown: move |event| {
                    if event.key() == Key::Escape { making.set(None) }
                },
            }
            button { class: "secondary", "Make folder" }
            {fault(folder)}
        }
    }
}

/// Why a name is not taken, beneath its field.
fn fault(folder: Folder) -> Element {
    rsx! {
        p { class: "fault", role: "alert", {folder.fault.read().clone()} }
    }
}

#[component]
pub(super) fn EntryRow(folder: Folder, entry: Entry) -> Element {
    if folder.renaming.read().as_ref() == Some(&entry) {
        return rsx! { Rename { folder, entry } };
    }
    let mut folder = folder;
    let is_folder = entry.kind == Kind::Directory;
    let (opened, renamed, removed, wanted) = (entry.clone(), entry.clone(), entry.clone(), entry.clone());
    let chosen = folder.chosen.read().as_ref() == Some(&entry);
    let here = join(&folder.path.read(), &entry.name);
    let origin = restored(&here).map(|origin| (here.clone(), origin.to_owned()));
    let name = plainly(&entry.name);
    let fresh = folder.fresh.peek().as_ref() == Some(&entry.name);
    rsx! {
        div { class: if chosen { "entry chosen" } else { "entry" },
            button {
                r#type: "button",
                class: "row",
                onmounted: move |event| async move {
                    // A row that is gone again needs no focus.
                    if fresh {
                        late(folder.fresh, None);
                        event.set_focus(true).await.ok();
                    }
                },
                onclick: move |_| match is_folder {
                    true => folder.go(join(&folder.path.peek(), &opened.name)),
                    false => folder.chosen.set(Some(opened.clone())),
                },
                Glyph { icon: if is_folder { Icon::Folder } else { Icon::File } }
                span { class: "name", "{name}" }
                if !is_folder { span { class: "figure", {bytes(entry.size)} } }
            }
            span { class: "acts",
                if !is_folder {
                    a {
                        class: "icon-button",
                        href: folder.address(&entry.name),
                        download: "{entry.name}",
                        "aria-label": "Download {name}",
                        title: "Download",
                        onclick: move |event| {
                            // Nothing of an empty file can be counted, and too much of a long one would be held here.
                            if (1..=DOWNLOAD_BYTES_MAX).contains(&wanted.size) && event.modifiers().is_empty() {
                                event.prevent_default();
                                folder.get(wanted.clone());
                            }
                        },
                        Glyph { icon: Icon::Download }
                    }
                }
                if let Some((from, to)) = origin {
                    IconButton {
                        icon: Icon::Archive,
                        label: "Restore {name}",
                        onclick: move |_| folder.restore(from.clone(), to.clone()),
                    }
                } else {
                    IconButton {
                        icon: Icon::Pencil,
                        label: "Rename {name}",
                        onclick: move |_| {
                            folder.fault.set(None);
                            folder.making.set(None);
                            folder.renaming.set(Some(renamed.clone()));
                        },
                    }
                    IconButton {
                        icon: Icon::Trash,
                        label: "Delete {name}",
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
                "aria-invalid": folder.fault.read().is_some(),
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
            {fault(folder)}
        }
    }
}

/// Deleting asks nothing and can be taken back.
#[component]
fn Undo(folder: Folder) -> Element {
    let name = folder.deleted.read().as_ref().map(|(from, _)| plainly(from));
    rsx! { InTheTrash { name, undo: move |()| folder.undo() } }
}
