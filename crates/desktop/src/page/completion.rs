//! `@` in the prompt bar: documents, files and runs that the agents should look at.

use super::bridge;
use super::desk::Desk;
use super::rich::Glyph;
use super::server;
use choir_desktop::files::{Listing, Sorted, folder, is_looked_into, join, query};
use choir_desktop::icon::Icon;
use choir_desktop::prompt::{Mention, around, candidates, completing};
use choir_proto::Seq;
use dioxus::prelude::*;
use std::collections::VecDeque;

/// So many folders are looked into for a name without its path.
const FOLDERS_MAX: usize = 40;

/// A folder, the paths in it, and the last event that it knows of.
type Known = (String, Vec<String>, Seq);

/// What is offered, and which of it Enter would take.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Offer {
    desk: Desk,
    pub(crate) at: Signal<usize>,
    /// A folder and the paths in it: the workspace at first, then whichever folder is being typed.
    files: Signal<Option<Known>>,
    found: Memo<Vec<Mention>>,
    /// What stands before the caret, which may be anywhere in the prompt.
    before: Signal<String>,
    /// The words before the caret for which the person closed the list.
    refused: Signal<String>,
}

impl Offer {
    /// Follows the prompt bar's text.
    pub(crate) fn new(desk: Desk) -> Self {
        let mut at = use_signal(|| 0);
        let files = use_signal(|| None::<Known>);
        let (before, refused) = use_hook(|| (Signal::new(String::new()), Signal::new(String::new())));
        let found = use_memo(move || {
            let (prompt, before) = (desk.prompt.read(), before.read());
            let (before, _) = around(&prompt, &before);
            let Some((_, word)) = completing(before).filter(|_| *refused.read() != before) else { return Vec::new() };
            let files = files.read();
            let paths = files.as_ref().map(|(_, paths, _)| paths.as_slice()).unwrap_or_default();
            candidates(word, &desk.runs.read(), &desk.documents.read(), paths)
        });
        use_effect(move || {
            let (prompt, before) = (desk.prompt.read(), before.read());
            let inside = completing(around(&prompt, &before).0).map(|(_, word)| folder(word).to_owned());
            let upto = *desk.files.read();
            at.set(0);
            if let Some(inside) = inside
                && files.peek().as_ref().is_none_or(|(known, _, seen)| *known != inside || *seen != upto)
            {
                read(inside, upto, files);
            }
        });
        Self { desk, at, files, found, before, refused }
    }

    /// The caret is somewhere else, or there are other words before it.
    pub(crate) fn follow(mut self, before: String) {
        if *self.before.peek() != before {
            self.before.set(before);
        }
    }

    /// Whether there is something to choose.
    pub(crate) fn is_open(self) -> bool {
        !self.found.read().is_empty()
    }

    /// Answers whether the key was for the list.
    pub(crate) fn key(mut self, key: &Key) -> bool {
        let count = self.found.peek().len();
        if count == 0 {
            return false;
        }
        let at = *self.at.peek();
        match key {
            Key::ArrowDown => self.at.set((at + 1) % count),
            Key::ArrowUp => self.at.set((at + count - 1) % count),
            Key::Enter | Key::Tab => self.take(at),
            Key::Escape => {
                let before = around(&self.desk.prompt.peek(), &self.before.peek()).0.to_owned();
                self.refused.set(before);
            }
            _ => return false,
        }
        true
    }

    fn take(mut self, index: usize) {
        let Some(mention) = self.found.peek().get(index).cloned() else { return };
        let (kept, after) = {
            let (prompt, before) = (self.desk.prompt.peek(), self.before.peek());
            let (before, after) = around(&prompt, &before);
            let Some((kept, _)) = completing(before) else { return };
            (kept.to_owned(), after.to_owned())
        };
        bridge::write("prompt", &kept, &after);
        self.desk.prompt.set(format!("{kept}{after}"));
        self.before.set(kept);
        self.desk.mention(mention);
    }
}

/// Looks into a folder and those in it, the nearest first: a name is often all that somebody remembers of a path.
fn read(inside: String, upto: Seq, mut files: Signal<Option<Known>>) {
    files.set(Some((inside.clone(), Vec::new(), upto)));
    spawn(async move {
        let mut ahead = VecDeque::from([inside.clone()]);
        for _ in 0..FOLDERS_MAX {
            let Some(next) = ahead.pop_front() else { break };
            // Without a workspace the list has documents and runs only.
            let Ok(listing) = server::get::<Listing>(&format!("/api/files/list?path={}", query(&next))).await else {
                break;
            };
            let entries = Sorted::from(listing);
            let found: Vec<_> = entries.shown("").into_iter().map(|entry| (join(&next, &entry.name), entry)).collect();
            ahead.extend(found.iter().filter(|(_, entry)| is_looked_into(entry)).map(|(path, _)| path.clone()));
            let mut known = files.write();
            // Somebody types another folder by now.
            let is_asked = |(known, _, seen): &&mut Known| *known == inside && *seen == upto;
            let Some((_, paths, _)) = known.as_mut().filter(is_asked) else { break };
            paths.extend(found.into_iter().map(|(path, _)| path));
        }
    });
}

#[component]
pub(crate) fn Completion(offer: Offer) -> Element {
    if !offer.is_open() {
        return rsx! {};
    }
    rsx! {
        div { class: "completion", id: "completion", role: "listbox", "aria-label": "To look at",
            for (index, mention) in offer.found.read().iter().cloned().enumerate() {
                div {
                    key: "{index}",
                    id: "completion-{index}",
                    role: "option",
                    "aria-selected": "{(offer.at)() == index}",
                    // Before the field loses the focus.
                    onpointerdown: move |event| {
                        event.prevent_default();
                        offer.take(index);
                    },
                    Glyph { icon: if mention.kind() == "file" { Icon::File } else { Icon::FileText } }
                    span { class: "name", "{mention.name()}" }
                    span { class: "kind", "{mention.kind()}" }
                }
            }
        }
    }
}
