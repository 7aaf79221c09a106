//! The workspace: folders, files, and what can be done to them.

use super::moving::{MoveTo, Moving};
use super::naming::{NewFolder, Rename};
use super::preview::Preview;
use super::trash::{Done, TrashRow, kept};
use super::tree::Tree;
use crate::page::bridge::{self, Gift, Held};
use crate::page::desk::{Desk, late, use_desk};
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Failure};
use crate::page::transfer::{DOWNLOAD_BYTES_MAX, Moved, download, listing, make_folder, upload};
use choir_desktop::computer::focused;
use choir_desktop::files::{
    ENTRIES_MAX, Entry, Kind, Sorted, TRASH, crumbs, deleted_at, folder, is_name, join, not_a_name, plainly, query,
    restored, trashed,
};
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::words::{bytes, moment};
use choir_proto::desktop::{DesktopCommand, Subject};
use choir_proto::{Seq, WindowId};
use dioxus::prelude::*;
use js_sys::Array;
use serde::Serialize;
use serde::de::IgnoredAny;
use std::pin::Pin;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// What happens within so long is looked at once.
const SETTLE_MS: u32 = 250;

/// One folder as the window shows it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Folder {
    pub(super) desk: Desk,
    window_id: WindowId,
    pub(super) path: Signal<String>,
    pub(super) listing: Signal<Option<Result<Sorted, String>>>,
    chosen: Signal<Option<Entry>>,
    /// The name that is being changed.
    pub(super) renaming: Signal<Option<String>>,
    /// The name of what is being moved.
    pub(super) moving: Signal<Option<String>>,
    /// What was put away last.
    pub(super) gone: Signal<Option<Gone>>,
    /// The name of a folder that is being made.
    pub(super) making: Signal<Option<String>>,
    /// Why a name that was typed is not taken.
    pub(super) fault: Signal<Option<String>>,
    /// The name that was just given: its row takes the keyboard when it is there.
    fresh: Signal<Option<String>>,
    /// The last event after which the workspace may be another, when that was looked at last.
    seen: Signal<Seq>,
    /// Whether the window was in front then.
    front: Signal<bool>,
    /// Whether the folder is about to be read.
    waits: Signal<bool>,
}

/// Something that is elsewhere now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gone {
    /// Where it was.
    pub(super) from: String,
    /// Where it is.
    pub(super) to: String,
    /// Why.
    pub(super) by: By,
}

/// What put something elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The person's word: it is in the trash.
    Deletion,
    /// A file that has its name now: it is in the trash.
    Upload,
    /// The person, into another folder.
    Move,
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
            let listing = listing(&path).await.map(Sorted::from);
            if let Ok(sorted) = &listing {
                self.look_again(sorted);
            }
            late(self.listing, Some(listing.map_err(|failure| failure.to_string())));
        });
    }

    /// The chosen file as it is now. One that is not there stays as it was seen: it may be about to come back.
    fn look_again(self, sorted: &Sorted) {
        let chosen = self.chosen.try_peek().ok().and_then(|chosen| chosen.clone());
        if let Some(now) = chosen.as_ref().and_then(|chosen| sorted.find(&chosen.name))
            && chosen.as_ref() != Some(now)
        {
            late(self.chosen, Some(now.clone()));
        }
    }

    /// Reads the folder again when the log says that files changed, and when the window comes to the front: what a terminal did
    /// is in no log.
    fn follow(mut self) {
        let desk = self.desk;
        use_effect(move || {
            let front = focused(&desk.desktop.read()).map(|top| top.window_id) == Some(self.window_id);
            let seq = *desk.files.read();
            let news = seq != *self.seen.peek() || (front && !*self.front.peek());
            self.seen.set(seq);
            self.front.set(front);
            if !news || *self.waits.peek() {
                return;
            }
            self.waits.set(true);
            spawn(async move {
                // Many files change at once, more often than one.
                bridge::pause(SETTLE_MS).await;
                self.waits.set(false);
                self.load();
            });
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
        if let Ok(all) = file.clone().dyn_into::<Array>() {
            return self.put_all(name, all);
        }
        if !is_name(&name) {
            return self.desk.tell(format!("“{}” is not a name for a file.", plainly(&name)));
        }
        // The window may show another folder before all of it is there.
        let path = join(&self.path.peek(), &name);
        spawn_local(async move {
            let sent = self.replace(&path, &name, file).await;
            let name = plainly(&name);
            match sent {
                Ok(Moved::Whole) => self.desk.tell(format!("{name} is in the workspace.")),
                Ok(Moved::Stopped) => self.desk.tell(format!("{name} was not uploaded.")),
                Err(failure) => self.desk.fail(&format!("{name} was not uploaded."), &failure),
            }
            self.load();
        });
    }

    fn choose(self, gift: Gift) {
        bridge::choose(gift, move |name, file| self.put(name, file));
    }

    /// Uploads. A file that had the name goes to the trash before, and comes back if the new one does not come.
    async fn replace(self, path: &str, name: &str, file: JsValue) -> Result<Moved, Failure> {
        let there = listing(&query(folder(path))).await?;
        let old = there.files.iter().find(|entry| entry.name == name && entry.kind != Kind::Directory);
        let gone = old.map(|_| Gone::now(path.to_owned(), By::Upload));
        if let Some(gone) = &gone {
            shift(&gone.from, &gone.to).await?;
        }
        let sent = upload(self.desk, &format!("/api/files?path={}", query(path)), name, file).await;
        match (&sent, gone) {
            (Ok(Moved::Whole), gone @ Some(_)) => late(self.gone, gone),
            (_, Some(gone)) => self.restore(gone.to, gone.from),
            (_, None) => {}
        }
        sent
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
        let gone = Gone::now(join(&self.path.peek(), &entry.name), By::Deletion);
        spawn_local(async move {
            match shift(&gone.from, &gone.to).await {
                Ok(()) => {
                    late(self.gone, Some(gone));
                    late(self.chosen, None);
                }
                Err(failure) => self.desk.undone("Nothing was deleted.", &failure),
            }
            self.load();
        });
    }

    fn undo(mut self) {
        match self.gone.take() {
            Some(Gone { from, to, by: By::Deletion | By::Move }) => self.restore(to, from),
            Some(Gone { from, to, by: By::Upload }) => {
                let new = Gone::now(from.clone(), By::Deletion);
                spawn_local(async move {
                    match shift(&new.from, &new.to).await {
                        Ok(()) => self.restore(to, from),
                        Err(failure) => self.desk.undone("The new one stays, and the old one in the trash.", &failure),
                    }
                });
            }
            None => {}
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
                Err(failure) => self.desk.undone("It stays where it is.", &failure),
            }
            self.load();
        });
    }

    pub(super) fn make(self) {
        let name = self.making.peek().clone().unwrap_or_default().trim().to_owned();
        let path = join(&self.path.peek(), &name);
        self.name(name, Box::pin(async move { make_folder(&path).await }));
    }

    pub(super) fn rename(mut self, from: &str, to: &str) {
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

impl Gone {
    /// What goes to the trash now.
    fn now(from: String, by: By) -> Self {
        let to = trashed(&from, bridge::time().0 / 1_000);
        Self { from, to, by }
    }
}

async fn move_path(from: &str, to: &str) -> Result<(), Failure> {
    let body = Move { from: from.to_owned(), to: to.to_owned() };
    let _: IgnoredAny = server::send("POST", "/api/files/move", &body).await?;
    Ok(())
}

/// Moves something into a folder that may not be there yet.
pub(super) async fn shift(from: &str, to: &str) -> Result<(), Failure> {
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

#[component]
pub(crate) fn Files(window_id: WindowId, path: String) -> Element {
    let desk = use_desk();
    // One hook for all of them: each of its own would be in the page as often.
    let (folder, wanted, mut drops) = use_hook(|| {
        let folder = Folder {
            desk,
            window_id,
            path: Signal::new(path),
            listing: Signal::new(None),
            chosen: Signal::new(None),
            renaming: Signal::new(None),
            moving: Signal::new(None),
            gone: Signal::new(None),
            making: Signal::new(None),
            fault: Signal::new(None),
            fresh: Signal::new(None),
            seen: Signal::new(*desk.files.peek()),
            front: Signal::new(true),
            waits: Signal::new(false),
        };
        folder.load();
        (folder, Signal::new(String::new()), Signal::new(None::<(Held, Held)>))
    });
    folder.follow();
    rsx! {
        div {
            class: "files",
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                let moves = bridge::moves(&element, move |path, to| folder.relocate(path, &to, Moving::ByHand));
                drops.set(Some((bridge::drops(&element, move |name, file| folder.put(name, file)), moves)));
            },
            Tools { folder, wanted }
            div { class: "split",
                Tree { folder }
                List { folder, wanted }
                for entry in folder.chosen.read().clone() {
                    Preview {
                        key: "{entry.name} {entry.modified_at}",
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
                button { r#type: "button", "data-folder": "", onclick: move |_| folder.go(String::new()), "Workspace" }
                for (name, path) in crumbs(&folder.path.read()) {
                    Glyph { icon: Icon::ChevronRight }
                    button {
                        r#type: "button",
                        "data-folder": "{path}",
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
            IconButton { icon: Icon::FolderPlus, label: "New folder", act: Act::NewFolder, onclick: move |_| {
                late(folder.fault, None);
                late(folder.renaming, None);
                late(folder.making, Some(String::new()));
            } }
            IconButton { icon: Icon::FolderUp, label: "Bring in a folder", act: Act::UploadFolder, onclick: move |_| folder.choose(Gift::Folder) }
            button {
                r#type: "button",
                class: "secondary",
                "data-act": Act::Upload.name(),
                onclick: move |_| folder.choose(Gift::Files),
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
                p { "Drop files and folders on this window, or upload them." }
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
pub(super) fn EntryRow(folder: Folder, entry: Entry) -> Element {
    if folder.renaming.read().as_ref() == Some(&entry.name) {
        return rsx! { Rename { folder, entry } };
    }
    if folder.moving.read().as_ref() == Some(&entry.name) {
        return rsx! { MoveTo { folder, entry } };
    }
    let mut folder = folder;
    let is_folder = entry.kind == Kind::Directory;
    let [opened, renamed, removed, wanted, carried] = [(); 5].map(|()| entry.clone());
    let chosen = folder.chosen.read().as_ref() == Some(&entry);
    let here = join(&folder.path.read(), &entry.name);
    let origin = restored(&here).map(|origin| (here.clone(), origin.to_owned()));
    let (name, stays) = (plainly(&entry.name), origin.is_some());
    let fresh = folder.fresh.peek().as_ref() == Some(&entry.name);
    rsx! {
        div {
            class: if chosen { "entry chosen" } else { "entry" },
            draggable: !stays,
            "data-path": "{here}",
            "data-folder": is_folder.then(|| here.clone()),
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
                            folder.renaming.set(Some(renamed.name.clone()));
                        },
                    }
                    IconButton {
                        icon: Icon::FolderInput,
                        label: "Move {name}",
                        onclick: move |_| {
                            folder.fault.set(None);
                            folder.making.set(None);
                            folder.moving.set(Some(carried.name.clone()));
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

/// Deleting, replacing and moving ask nothing and can be taken back.
#[component]
fn Undo(folder: Folder) -> Element {
    let said = folder.gone.read().as_ref().map(|gone| match gone.by {
        By::Deletion => format!("{} is in the trash.", plainly(&gone.from)),
        By::Upload => format!("The old {} is in the trash.", plainly(&gone.from)),
        By::Move => format!("{} is now {}.", plainly(&gone.from), plainly(&gone.to)),
    });
    rsx! { Done { said, undo: move |()| folder.undo() } }
}
