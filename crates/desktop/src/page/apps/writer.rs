//! A living document: the text, and beside it the run that writes it, what stands behind it, and its past.

use super::changes::Changes;
use super::evidence::{self, SelectionTools, SourceCard, Sources, proposed, rejected};
use super::history::{History, Past, SinceYouLooked};
use super::library::{Thing, restore};
use super::margin::Margin;
use super::threads::{MadeFigures, Threads};
use crate::page::bridge::{self, Editor, Held, Length};
use crate::page::desk::{Desk, late, use_desk};
use crate::page::rich::{Glyph, Whole};
use choir_desktop::computer::focused;
use choir_desktop::evidence::marks;
use choir_desktop::files::file_name;
use choir_desktop::icon::Icon;
use choir_desktop::json;
use choir_desktop::menu::{Act, Wish};
use choir_desktop::surface::is_bare;
use choir_desktop::words::count;
use choir_proto::desktop::Subject;
use choir_proto::document::{Document, VersionSummary};
use choir_proto::{DocumentId, TaskStatus};
use dioxus::prelude::*;
use serde::Deserialize;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// What stands behind a text is read anew at most so often.
const READ_AFTER_MS: u32 = 600;

/// A replica of a longer document would be larger than a message may be, and slower than a hand.
const REPLICA_BYTES_MAX: u64 = 4_000_000;

/// What the editor says of itself.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// `loading`, `saved`, `editing`, `saving`, `away`, `failed` or `reading`.
    phase: String,
    version: u32,
    /// Not known until they were counted.
    words: Option<u32>,
    /// For `away` and `failed`.
    message: String,
    outline: Vec<Heading>,
    selection: Option<Selection>,
    /// A mark that was clicked just now.
    mark: Option<Clicked>,
    /// What the person should know of just now.
    notice: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Heading {
    level: u8,
    text: String,
    at: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Selection {
    from: u64,
    to: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Clicked {
    kind: String,
    key: String,
}

/// What stands in the place of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The text itself.
    Text,
    /// One version, with what changed since another.
    Version { number: u32, against: u32 },
    /// The text, and below it a source, by the number of its citation.
    Source(usize),
    /// What the run changed in the workspace.
    Changes,
}

impl Shown {
    /// Whether the text itself is seen.
    const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Source(_))
    }
}

/// One document that is open, for everything that is drawn of it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Page {
    pub(crate) desk: Desk,
    pub(crate) id: DocumentId,
    pub(crate) view: Signal<Shown>,
    pub(crate) document: Signal<Option<Document>>,
    /// Whether what stands behind the text is about to be read.
    reads: Signal<bool>,
    /// Those that are listed, the newest first; read when somebody looks at the past.
    pub(crate) versions: Signal<Vec<VersionSummary>>,
    /// Whether a margin that has no room beside the text is unfolded.
    unfolded: Signal<bool>,
    /// The proposal that was rejected last.
    pub(crate) rejected: Signal<Option<String>>,
    opened: Signal<Opened>,
    state: Signal<State>,
}

/// An open editor and what keeps it alive.
type Opened = Option<(Editor, Held)>;

impl Page {
    /// Brings a place of the text into view.
    pub(crate) fn show(mut self, from: u64, to: u64) {
        self.view.set(Shown::Text);
        self.with_editor(|editor| editor.show(from as f64, to as f64));
    }

    /// Brings the words into view that cite a source.
    pub(crate) fn reveal(self, citation: usize) {
        let document = self.document.peek();
        let at = document.as_ref().and_then(|document| document.citations.get(citation)?.at);
        if let Some(at) = at {
            self.with_editor(|editor| editor.reveal(at.from as f64));
        }
    }

    /// Brings a part of the margin into view, also where the margin is folded.
    fn unfold(mut self, part: &str) {
        self.unfolded.set(true);
        bridge::bring(part);
    }

    fn with_editor(self, act: impl FnOnce(&Editor)) {
        if let Some((editor, _)) = self.opened.peek().as_ref() {
            act(editor);
        }
    }

    fn hear(mut self, text: &str) {
        let Ok(said) = json::read::<State>(text) else { return };
        match said.mark.as_ref().map(|Clicked { kind, key }| (kind.as_str(), key)) {
            Some(("citation", key)) => {
                if let Ok(index) = key.parse() {
                    self.view.set(Shown::Source(index));
                }
            }
            Some((kind @ ("proposal" | "thread"), key)) => self.unfold(&format!("{kind}-{key}")),
            _ => {}
        }
        if let Some(notice) = &said.notice {
            self.desk.tell(notice.clone());
        }
        self.state.set(said);
    }

    fn grant(mut self, wish: Wish) {
        match wish {
            Wish::Find => {
                self.view.set(Shown::Text);
                self.with_editor(|editor| editor.find());
            }
            // What was typed and is not kept yet is only here.
            Wish::Save if !matches!(self.state.peek().phase.as_str(), "saved" | "reading") => {
                self.with_editor(|editor| bridge::save(&file_name(&self.title()), &editor.document()));
            }
            Wish::Save => self.export("markdown"),
            Wish::SavePage => self.export("html"),
            Wish::Print => print(self),
        }
    }

    /// Gives the document away as a file, with what is known of it: its sources, or the doubts about its quotations and figures.
    /// It comes with its own name, and is no page to go to.
    fn export(self, format: &str) {
        bridge::visit(&format!("/api/documents/{}/export?format={format}", self.id));
    }

    fn is_long(self) -> bool {
        self.desk.documents.peek().get(self.id).is_some_and(|document| document.size > REPLICA_BYTES_MAX)
    }

    fn is_bare(self) -> bool {
        self.desk.documents.peek().get(self.id).is_some_and(is_bare)
    }

    fn title(self) -> String {
        self.desk.documents.peek().get(self.id).map(|document| document.title.clone()).unwrap_or_default()
    }
}

#[component]
pub(crate) fn Writer(id: DocumentId) -> Element {
    let desk = use_desk();
    // One hook for all of them: each of its own would be in the page as often.
    let page = use_hook(|| Page {
        desk,
        id,
        view: Signal::new(Shown::Text),
        document: Signal::new(None),
        reads: Signal::new(false),
        versions: Signal::new(Vec::new()),
        unfolded: Signal::new(false),
        rejected: Signal::new(None),
        opened: Signal::new(None),
        state: Signal::new(State { phase: "loading".to_owned(), ..State::default() }),
    });
    let version = use_memo(move || desk.documents.read().get(id).map_or(0, |document| document.version));
    follow_evidence(page);
    follow_agents(page);
    follow_wishes(page);
    let view = (page.view)();
    let removed = use_memo(move || desk.documents.read().get(id).is_some_and(|document| document.removed_at.is_some()));
    rsx! {
        div {
            class: "writer",
            onkeydown: move |event| {
                if event.key() == Key::Escape && view != Shown::Text { late(page.view, Shown::Text) }
            },
            if removed() { {in_trash(page)} }
            match view {
                Shown::Version { number, against } => rsx! {
                    for number in [number] { Past { key: "{number}-{against}", page, number, against, head: version } }
                },
                Shown::Changes => rsx! { ChangesPane { page } },
                Shown::Text | Shown::Source(_) => rsx! {},
            }
            Text { page, hidden: !view.is_text() }
            Side { page, head: version }
            Printed { page }
        }
    }
}

/// What is in the trash can be read, and brought back.
fn in_trash(page: Page) -> Element {
    rsx! {
        div { class: "in-trash", role: "status",
            Glyph { icon: Icon::Trash }
            span { "This document is in the trash." }
            button { r#type: "button", class: "secondary", onclick: move |_| restore(page.desk, Thing::Document(page.id)),
                "Restore it"
            }
        }
    }
}

/// Something in the place of the text, and the way back.
#[component]
fn ChangesPane(page: Page) -> Element {
    let mut page = page;
    let run = page.desk.runs.read().of_document(page.id).map(|run| run.run_id);
    rsx! {
        div { class: "paper past",
            div { class: "past-bar",
                span { "Changes" }
                button { r#type: "button", class: "secondary", onclick: move |_| page.view.set(Shown::Text), "Back to the text" }
            }
            match run {
                Some(run) => rsx! { Changes { run } },
                None => rsx! { p { class: "none", "No run has written this document." } },
            }
        }
    }
}

#[component]
fn Text(page: Page, hidden: bool) -> Element {
    let mut held = use_signal(|| None::<(Held, Held)>);
    rsx! {
        div { class: "paper", "data-phase": "{page.state.read().phase}", hidden,
            div {
                class: "editor",
                onmounted: move |event| {
                    let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                    open(page, element);
                    let returns = bridge::returns(move || page.with_editor(|editor| editor.retry()));
                    held.set(Some((returns, bridge::prints(move |begins| lay_out(page, begins)))));
                },
            }
            if let Shown::Source(index) = (page.view)() {
                for index in [index] { SourceCard { key: "{index}", page, index } }
            }
        }
    }
}

fn open(page: Page, element: Node) {
    let opened = page.opened;
    let length = if page.is_long() { Length::ForReading } else { Length::ForWriting };
    spawn_local(async move {
        match bridge::open_editor(&element, &page.id.to_string(), length, move |text: String| page.hear(&text)).await {
            Ok(editor) => late(opened, Some(editor)),
            Err(why) => {
                page.desk.tell(format!("The editor could not be loaded ({why}). Close the window and open it again."));
            }
        }
    });
}

/// Reads what stands behind the text whenever it may have changed, and marks it there.
fn follow_evidence(mut page: Page) {
    let mut waiting = page.reads;
    use_effect(move || {
        page.desk.evidence.read();
        let ready = page.opened.read().is_some();
        if !ready || *waiting.peek() || page.is_long() || page.is_bare() {
            return;
        }
        waiting.set(true);
        spawn(async move {
            bridge::pause(READ_AFTER_MS).await;
            waiting.set(false);
            let Some((document, written)) = evidence::read(page.id).await else { return };
            page.with_editor(|editor| {
                editor.mark(&json::write(&marks(&document)));
                editor.authors(&json::write(&written));
            });
            show_new_proposal(page, &document);
            page.document.set(Some(document));
        });
    });
}

/// Whoever writes now has a caret of their own.
fn follow_agents(page: Page) {
    let writing = use_memo(move || {
        let runs = page.desk.runs.read();
        let run = runs.of_document(page.id).filter(|run| !run.status.is_ending())?;
        let writes = |role: &str| matches!(role, "writer" | "conductor");
        let roles = run.tasks.iter().filter(|task| task.status == TaskStatus::Running).filter_map(|task| task.role);
        roles.map(|role| role.name()).rfind(|role| writes(role))
    });
    use_effect(move || {
        let role = writing().unwrap_or_default();
        if let Some((editor, _)) = page.opened.read().as_ref() {
            editor.writes(role);
        }
    });
}

/// A change that was proposed just now comes into view in the margin; the text beside it stays where it is.
fn show_new_proposal(page: Page, document: &Document) {
    let known = page.document.peek();
    let is_known =
        |id: &String| known.as_ref().is_none_or(|known| known.proposals.iter().any(|one| one.proposal_id == *id));
    if let Some(fresh) = document.proposals.iter().map(|one| &one.proposal_id).find(|id| !is_known(id)) {
        bridge::bring(&format!("proposal-{fresh}"));
    }
}

/// What the menu asks of this document.
fn follow_wishes(page: Page) {
    let mut wish = page.desk.wish;
    use_effect(move || {
        let wanted = wish.read().filter(|(id, _)| *id == page.id);
        if let Some((_, wanted)) = wanted {
            wish.set(None);
            page.grant(wanted);
        }
    });
}

/// The hanging margin; where there is no room for it, a line below the text that unfolds.
#[component]
fn Side(page: Page, head: Memo<u32>) -> Element {
    let desk = page.desk;
    let mut unfolded = page.unfolded;
    let run = use_memo(move || desk.runs.read().of_document(page.id).cloned());
    let document = page.document.read();
    let selection = page.state.read().selection.clone();
    let mut view = page.view;
    rsx! {
        aside { class: "side", "aria-label": "About this document", "data-unfolded": "{unfolded}",
            button {
                r#type: "button",
                class: "unfold icon-button",
                "aria-label": "About this document",
                "aria-expanded": "{unfolded}",
                onclick: move |_| unfolded.toggle(),
                Glyph { icon: Icon::ChevronDown }
            }
            Figures { page }
            if let Some(document) = document.as_ref() { {waiting(page, document)} }
            SinceYouLooked { page, head }
            if let Some(Selection { from, to }) = selection.filter(|_| view().is_text()) {
                SelectionTools { page, from, to }
            }
            Threads { page }
            if let Some(document) = document.as_ref() {
                {proposed(page, document.proposals.clone())}
            }
            {rejected(page)}
            if let Some(document) = document.as_ref() { MadeFigures { page, figures: document.figures.clone() } }
            if let Some(run) = run() { Margin { run, reviewing: view() == Shown::Changes, changes: move |()| view.set(Shown::Changes) } }
            if let Some(document) = document.as_ref() {
                Sources { page, citations: document.citations.clone(), bare: document.unsupported.clone() }
            }
            Outline { page }
            History { page }
            {tools(page)}
        }
    }
}

/// What waits in a margin that is folded, and the way to it.
fn waiting(page: Page, document: &Document) -> Element {
    let Some(first) = document.proposals.first().map(|one| format!("proposal-{}", one.proposal_id)) else {
        return rsx! {};
    };
    rsx! {
        button { r#type: "button", class: "link waiting", onclick: move |_| page.unfold(&first),
            {count(document.proposals.len(), "proposal", "proposals")}
        }
    }
}

#[component]
fn Outline(page: Page) -> Element {
    let outline = page.state.read().outline.clone();
    if outline.len() < 2 {
        return rsx! {};
    }
    rsx! {
        details { class: "outline",
            summary { "data-act": Act::Outline.name(), "Outline" }
            for (index, heading) in outline.into_iter().enumerate() {
                button {
                    key: "{index}",
                    r#type: "button",
                    class: "heading",
                    "data-level": "{heading.level}",
                    onclick: move |_| {
                        let mut view = page.view;
                        view.set(Shown::Text);
                        page.with_editor(|editor| editor.line(heading.at));
                    },
                    "{heading.text}"
                }
            }
        }
    }
}

fn tools(page: Page) -> Element {
    rsx! {
        div { class: "tools-list",
            button { r#type: "button", class: "plain", title: "Find and replace (Ctrl F)",
                onclick: move |_| page.grant(Wish::Find),
                Glyph { icon: Icon::Search }
                "Find and replace"
            }
            button { r#type: "button", class: "plain",
                onclick: move |_| page.grant(Wish::Save),
                Glyph { icon: Icon::Download }
                "Save as Markdown"
            }
            button { r#type: "button", class: "plain",
                onclick: move |_| page.grant(Wish::SavePage),
                Glyph { icon: Icon::FileText }
                "Save as a web page"
            }
            button { r#type: "button", class: "plain", onclick: move |_| page.grant(Wish::Print),
                Glyph { icon: Icon::Print }
                "Print"
            }
        }
    }
}

/// What goes on paper: the text alone, drawn whole only for that.
#[component]
fn Printed(page: Page) -> Element {
    let wanted = page.desk.printed.read();
    match wanted.as_ref().filter(|(id, _)| *id == page.id) {
        Some((_, text)) => rsx! { div { class: "printed", "aria-hidden": "true", Whole { text: text.clone() } } },
        None => rsx! {},
    }
}

fn print(page: Page) {
    fill_sheet(page);
    bridge::print();
}

fn fill_sheet(page: Page) {
    let mut printed = page.desk.printed;
    page.with_editor(|editor| printed.set(Some((page.id, editor.document()))));
}

/// Whoever prints by the browser's own key means the document in front, unless a button said which.
fn lay_out(page: Page, begins: bool) {
    let mut printed = page.desk.printed;
    let front = focused(&page.desk.desktop.peek()).and_then(|window| window.subject.clone());
    if !begins {
        printed.set(None);
    } else if printed.peek().is_none() && front == Some(Subject::Document(page.id)) {
        fill_sheet(page);
    }
}

/// Version, length, and whether everything typed is kept.
#[component]
fn Figures(page: Page) -> Element {
    let state = page.state.read();
    let kept = match state.phase.as_str() {
        "loading" => "Opening",
        "saved" => "Saved",
        "away" => "Kept here",
        "failed" => "Not saved",
        "reading" => "For reading",
        _ => "Saving",
    };
    let version = page.desk.documents.read().get(page.id).map_or(state.version, |document| document.version);
    let troubled = matches!(state.phase.as_str(), "failed" | "away");
    rsx! {
        p { class: "figures", role: "status", "aria-label": "Saving",
            span { "{kept}" }
            if version > 0 { span { class: "figure", "version {version}" } }
            if let Some(words) = state.words { span { class: "figure", {count(words as usize, "word", "words")} } }
        }
        if state.phase == "reading" { p { class: "reason", "{state.message}" } }
        if troubled {
            p { class: "reason", role: "alert", "{state.message}" }
            button { r#type: "button", class: "secondary", onclick: move |_| page.with_editor(|editor| editor.retry()), "Try again" }
        }
    }
}
