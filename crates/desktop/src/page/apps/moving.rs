//! What comes into the workspace as a whole folder, and what changes its folder: by hand, or by a field.

use super::files::{By, Folder, Gone, shift};
use super::naming::fault;
use crate::page::desk::late;
use crate::page::rich::IconButton;
use crate::page::server::Failure;
use crate::page::transfer::{Moved, listing, make_folder, upload};
use choir_desktop::files::{Entry, Kind, crumbs, folder as folder_of, free_name, join, moved, plainly, query};
use choir_desktop::icon::Icon;
use choir_desktop::words::count;
use dioxus::prelude::*;
use js_sys::Array;
use wasm_bindgen_futures::spawn_local;

/// Files and folders of a folder that are taken at once: each is a request of its own.
const TAKEN_MAX: u32 = 5_000;

/// How something is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// It is dragged there.
    ByHand,
    /// The folder is named in a field.
    ByName,
}

impl Folder {
    /// Moves something into another folder, which is made where it is missing.
    pub(super) fn relocate(mut self, from: String, to: &str, moving: Moving) {
        let to = match moved(&from, to) {
            Ok(to) => to,
            Err(why) if moving == Moving::ByName => return self.fault.set(Some(why.to_owned())),
            Err(why) => return self.desk.tell(why),
        };
        spawn_local(async move {
            match shift(&from, &to).await {
                Ok(()) => {
                    late(self.gone, Some(Gone { from, to, by: By::Move }));
                    late(self.moving, None);
                    late(self.fault, None);
                }
                Err(failure) if moving == Moving::ByName => late(self.fault, Some(failure.to_string())),
                Err(failure) => self.desk.undone("Nothing was moved.", &failure),
            }
            self.load();
        });
    }

    /// Uploads a folder, under a name that nothing else has: two of one name are not mixed.
    pub(super) fn put_all(self, name: String, all: Array) {
        let told = plainly(&name);
        if all.length() == 0 {
            return self.desk.tell(format!("{told} could not be read, and nothing was uploaded."));
        }
        if all.length() > TAKEN_MAX {
            let words = format!("{told} has more than {TAKEN_MAX} files. `choir add` brings in folders of any size.");
            return self.desk.tell(words);
        }
        let into = self.path.peek().clone();
        spawn_local(async move {
            let mut done = 0;
            let sent = self.take(&into, &name, &all, &mut done).await;
            let files = count(done, "file", "files");
            match sent {
                Ok(Moved::Whole) => self.desk.tell(format!("{told} is in the workspace, with {files}.")),
                Ok(Moved::Stopped) => self.desk.tell(format!("{told} was stopped; {files} of it came in.")),
                Err(failure) => self.desk.fail(&format!("Of {told}, {files} came in."), &failure),
            }
            self.load();
        });
    }

    async fn take(self, into: &str, name: &str, all: &Array, done: &mut usize) -> Result<Moved, Failure> {
        let there = listing(&query(into)).await?;
        let own = join(into, &free_name(name, |wanted| there.files.iter().any(|entry| entry.name == wanted)));
        let mut made = String::new();
        for pair in all.iter().map(|pair| Array::from(&pair)) {
            let path = pair.get(0).as_string().unwrap_or_default();
            let place = format!("{own}{}", path.strip_prefix(name).unwrap_or_default());
            let file = pair.get(1);
            let needed = if file.is_undefined() { place.as_str() } else { folder_of(&place) };
            if made != needed {
                make_folder(needed).await?;
                made = needed.to_owned();
            }
            if file.is_undefined() {
                continue;
            }
            if upload(self.desk, &format!("/api/files?path={}", query(&place)), &path, file).await? == Moved::Stopped {
                return Ok(Moved::Stopped);
            }
            *done += 1;
        }
        Ok(Moved::Whole)
    }
}

/// The folder that something goes into, by name; those that are near are offered.
#[component]
pub(super) fn MoveTo(folder: Folder, entry: Entry) -> Element {
    let mut folder = folder;
    let here = folder.path.read().clone();
    let mut to = use_signal(|| here.clone());
    let path = join(&here, &entry.name);
    let mut near: Vec<String> = crumbs(&here).into_iter().map(|(_, path)| path).collect();
    if let Some(Ok(sorted)) = folder.listing.read().as_ref() {
        let beside = sorted.shown("").into_iter().filter(|one| one.kind == Kind::Directory && one.name != entry.name);
        near.extend(beside.map(|one| join(&here, &one.name)));
    }
    rsx! {
        form {
            class: "entry rename",
            onsubmit: move |event| {
                event.prevent_default();
                folder.relocate(path.clone(), &to.peek(), Moving::ByName);
            },
            span { class: "name", "{plainly(&entry.name)} →" }
            input {
                "aria-label": "Folder for {plainly(&entry.name)}",
                placeholder: "Workspace",
                list: "near-folders",
                value: "{to}",
                "aria-invalid": folder.fault.read().is_some(),
                onmounted: move |event| async move {
                    // A field that is gone again needs no focus.
                    event.set_focus(true).await.ok();
                },
                oninput: move |event| to.set(event.value()),
                onkeydown: move |event| {
                    if event.key() == Key::Escape { folder.moving.set(None) }
                },
            }
            datalist { id: "near-folders", for path in near { option { key: "{path}", value: "{path}" } } }
            button { class: "secondary", "Move" }
            IconButton { icon: Icon::Close, label: "Leave it here", onclick: move |_| folder.moving.set(None) }
            {fault(folder)}
        }
    }
}
