//! Giving a name in Files: to a new folder, and to what has one already.

use super::files::Folder;
use crate::page::rich::IconButton;
use choir_desktop::files::Entry;
use choir_desktop::icon::Icon;
use dioxus::prelude::*;

#[component]
pub(super) fn NewFolder(folder: Folder) -> Element {
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
            IconButton { icon: Icon::Close, label: "Make no folder", onclick: move |_| making.set(None) }
            {fault(folder)}
        }
    }
}

#[component]
pub(super) fn Rename(folder: Folder, entry: Entry) -> Element {
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
            IconButton { icon: Icon::Close, label: "Keep the name", onclick: move |_| folder.renaming.set(None) }
            {fault(folder)}
        }
    }
}

/// Why a name is not taken, beneath its field.
pub(super) fn fault(folder: Folder) -> Element {
    rsx! {
        p { class: "fault", role: "alert", {folder.fault.read().clone()} }
    }
}
