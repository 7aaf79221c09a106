//! `@` in the prompt bar: documents, files and runs that the agents should look at.

use super::desk::Desk;
use super::rich::Glyph;
use super::server;
use choir_desktop::files::{Listing, Sorted, folder, join, query};
use choir_desktop::icon::Icon;
use choir_desktop::prompt::{Mention, candidates, completing};
use dioxus::prelude::*;

/// What is offered, and which of it Enter would take.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Offer {
    desk: Desk,
    pub(crate) at: Signal<usize>,
    /// A folder and the paths in it: the workspace at first, then whichever folder is being typed.
    files: Signal<Option<(String, Vec<String>)>>,
    found: Memo<Vec<Mention>>,
    /// The prompt for which the person closed the list.
    refused: Signal<String>,
}

impl Offer {
    /// Follows the prompt bar's text.
    pub(crate) fn new(desk: Desk) -> Self {
        let mut at = use_signal(|| 0);
        let files = use_signal(|| None::<(String, Vec<String>)>);
        let refused = use_signal(String::new);
        let found = use_memo(move || {
            let prompt = desk.prompt.read();
            let Some((_, word)) = completing(&prompt).filter(|_| *refused.read() != *prompt) else { return Vec::new() };
            let files = files.read();
            let paths = files.as_ref().map(|(_, paths)| paths.as_slice()).unwrap_or_default();
            candidates(word, &desk.runs.read(), &desk.documents.read(), paths)
        });
        use_effect(move || {
            let inside = completing(&desk.prompt.read()).map(|(_, word)| folder(word).to_owned());
            at.set(0);
            if let Some(inside) = inside
                && files.peek().as_ref().is_none_or(|(known, _)| *known != inside)
            {
                read(inside, files);
            }
        });
        Self { desk, at, files, found, refused }
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
            Key::Escape => self.refused.set(self.desk.prompt.peek().clone()),
            _ => return false,
        }
        true
    }

    fn take(mut self, index: usize) {
        let Some(mention) = self.found.peek().get(index).cloned() else { return };
        let before = completing(&self.desk.prompt.peek()).map(|(before, _)| before.to_owned());
        self.desk.prompt.set(before.unwrap_or_default());
        self.desk.mention(mention);
    }
}

fn read(inside: String, mut files: Signal<Option<(String, Vec<String>)>>) {
    files.set(Some((inside.clone(), Vec::new())));
    spawn(async move {
        // Without a workspace the list has documents and runs only.
        if let Ok(listing) = server::get::<Listing>(&format!("/api/files/list?path={}", query(&inside))).await {
            let paths = Sorted::from(listing).shown("").into_iter().map(|entry| join(&inside, &entry.name)).collect();
            files.set(Some((inside, paths)));
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
