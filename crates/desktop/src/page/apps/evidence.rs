//! What stands behind a document, in its margin: changes that wait, sources, quotations without any, and where a
//! selection comes from.

use super::threads::AskSelection;
use super::trash::Done;
use super::writer::{Page, Shown};
use crate::page::desk::use_desk;
use crate::page::rich::{Glyph, IconButton};
use crate::page::server::{self, Failure, Kept};
use choir_desktop::diff::words as differing;
use choir_desktop::evidence::{Written, by_source, excerpt, source_name, unbroken};
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::trace::role;
use choir_desktop::words::{ago, cost, headline};
use choir_proto::DocumentId;
use choir_proto::document::{Citation, Decide, Decision, Document, Origin, Proposal, Provenance, Unsupported};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Pieces of a selection's origin that are listed.
const PIECES_MAX: usize = 12;
/// Characters of a quotation in a list.
const QUOTE_CHARACTERS_MAX: usize = 140;

/// Changes that wait for a person, each with the words that differ.
pub(crate) fn proposed(page: Page, proposals: Vec<Proposal>) -> Element {
    if proposals.is_empty() {
        return rsx! {};
    }
    rsx! {
        section { class: "proposals", "aria-label": "Proposals",
            h2 { "Proposals" }
            for proposal in proposals { ProposalCard { key: "{proposal.proposal_id}", page, proposal } }
        }
    }
}

#[component]
fn ProposalCard(page: Page, proposal: Proposal) -> Element {
    let (before, gone, come, after) = differing(&proposal.old, &proposal.new);
    let (near, far) = (ending(before), beginning(after));
    let (id, outdated) = (proposal.proposal_id.clone(), proposal.outdated);
    let decide = move |decision| {
        let id = id.clone();
        spawn(async move { decide(page, &id, decision).await });
    };
    let (accept, reject) = (decide.clone(), decide);
    rsx! {
        article { id: "proposal-{proposal.proposal_id}", class: "proposal", "aria-label": "Proposal",
            p { class: "difference",
                "{near}"
                if !gone.is_empty() { del { "{gone}" } }
                if !come.is_empty() { ins { "{come}" } }
                "{far}"
            }
            if outdated { p { class: "hint", "The place has changed since. This can only be rejected." } }
            div { class: "controls",
                button { r#type: "button", class: "secondary", disabled: outdated, "data-act": Act::Accept.name(), onclick: move |_| accept(Decision::Accept),
                    Glyph { icon: Icon::Check }
                    "Accept"
                }
                button { r#type: "button", class: "secondary", "data-act": Act::Reject.name(), onclick: move |_| reject(Decision::Reject), "Reject" }
            }
        }
    }
}

/// A little of what stands before, cut at its beginning.
fn ending(text: &str) -> String {
    let count = text.chars().count();
    if count <= 60 { text.to_owned() } else { format!("…{}", text.chars().skip(count - 60).collect::<String>()) }
}

fn beginning(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).collect::<String>() + "…" }
}

async fn decide(mut page: Page, proposal: &str, decision: Decision) {
    let path = format!("/api/documents/{}/proposals/{proposal}", page.id);
    let answer: Result<Kept, Failure> = server::send("POST", &path, &Decide { decision }).await;
    match answer {
        Ok(_) => {
            // What was decided is gone at once; the rest of the margin follows the log.
            let mut document = page.document.peek().clone();
            document.iter_mut().for_each(|document| document.proposals.retain(|one| one.proposal_id != proposal));
            page.document.set(document);
            match decision {
                Decision::Accept => page.desk.tell("Accepted. The text before is in its versions."),
                Decision::Reject => page.rejected.set(Some(proposal.to_owned())),
            }
        }
        Err(failure) => page.desk.undone("The text stayed as it was.", &failure),
    }
}

/// The way back from a no.
pub(crate) fn rejected(page: Page) -> Element {
    let mut page = page;
    let said = page.rejected.read().as_ref().map(|_| "Rejected. The text stays as it is.".to_owned());
    rsx! {
        Done { said, undo: move |()| {
            if let Some(proposal) = page.rejected.take() { reopen(page, proposal) }
        } }
    }
}

/// The margin follows the log: there the proposal is made again.
fn reopen(page: Page, proposal: String) {
    spawn_local(async move {
        let path = format!("/api/documents/{}/proposals/{proposal}/reopen", page.id);
        if let Err(failure) = server::act("POST", &path).await {
            page.desk.undone("It stays rejected.", &failure);
        }
    });
}

/// Sources, each with the words that are cited from it; a click opens the source at them.
#[component]
pub(crate) fn Sources(page: Page, citations: Vec<Citation>, bare: Vec<Unsupported>) -> Element {
    if citations.is_empty() && bare.is_empty() {
        return rsx! {};
    }
    let groups = by_source(&citations);
    rsx! {
        section { class: "sources", "aria-label": "Sources",
            h2 { "Sources" }
            for (number, group) in groups.into_iter().enumerate() {
                div { key: "{number}", class: "source",
                    for (index, citation) in group { Cited { key: "{index}", page, index, citation } }
                }
            }
            for (index, quotation) in bare.into_iter().enumerate() {
                button {
                    key: "bare-{index}",
                    r#type: "button",
                    class: "cited bare",
                    title: "No source holds these words",
                    onclick: move |_| page.show(quotation.from, quotation.to),
                    Glyph { icon: Icon::Warning }
                    span { "No source: “{headline(&quotation.text, QUOTE_CHARACTERS_MAX)}”" }
                }
            }
        }
    }
}

#[component]
fn Cited(page: Page, index: usize, citation: Citation) -> Element {
    let quote = headline(citation.quote.as_deref().unwrap_or("the cited words"), QUOTE_CHARACTERS_MAX);
    let mut view = page.view;
    let open = view() == Shown::Source(index);
    rsx! {
        button {
            r#type: "button",
            class: "cited",
            "aria-label": "Source of “{quote}”",
            "aria-pressed": "{open}",
            title: "Open the source at these words",
            onclick: move |_| view.set(if open { Shown::Text } else { Shown::Source(index) }),
            Glyph { icon: Icon::Quote }
            span { "“{quote}”" }
        }
    }
}

/// A source at the cited words, below the text that cites it.
#[component]
pub(crate) fn SourceCard(page: Page, index: usize) -> Element {
    let mut text = use_signal(|| None::<Result<String, String>>);
    let citation = page.document.read().as_ref().and_then(|document| document.citations.get(index).cloned());
    let source = citation.as_ref().map(|citation| citation.source);
    let name = match text.read().as_ref() {
        Some(Ok(text)) => source_name(text),
        _ => "Source".to_owned(),
    };
    let mut view = page.view;
    use_hook(move || {
        let Some(source) = source else { return };
        spawn(async move {
            let read = server::get_text(&format!("/api/blobs/{source}")).await;
            text.set(Some(read.map(|text| unbroken(&text)).map_err(|failure| failure.to_string())));
        });
    });
    // The words that cite it stay in sight, although there is less room for them now.
    use_effect(move || {
        text.read();
        page.reveal(index);
    });
    rsx! {
        article { class: "source-card", "aria-label": "{name}",
            header {
                Glyph { icon: Icon::Quote }
                strong { "{name}" }
                IconButton { icon: Icon::Close, label: "Put the source away", onclick: move |_| view.set(Shown::Text) }
            }
            match (citation, text.read().as_ref()) {
                (None, _) => rsx! { p { class: "none", "The document does not cite this any more." } },
                (_, None) => rsx! { p { class: "none", "Reading the source …" } },
                (_, Some(Err(why))) => rsx! { p { role: "alert", class: "none", "{why}" } },
                (Some(citation), Some(Ok(text))) => cut(citation, text),
            }
        }
    }
}

/// What stands around the cited words.
fn cut(citation: Citation, text: &str) -> Element {
    match excerpt(text, citation.from, citation.to) {
        Some(found) => rsx! {
            pre { class: "source-text", tabindex: "0", "aria-label": "Source",
                "{found.before}"
                mark { onmounted: move |event| async move {
                    // A card that is gone again needs no place.
                    event.scroll_to(ScrollBehavior::Instant).await.ok();
                }, "{found.quoted}" }
                "{found.after}"
            }
        },
        None => rsx! {
            p { class: "none", "The source is not text. The words that were cited from it:" }
            pre { class: "source-text", tabindex: "0", mark { {citation.quote.unwrap_or_default()} } }
        },
    }
}

/// What can be asked of a selection.
#[component]
pub(crate) fn SelectionTools(page: Page, from: u64, to: u64) -> Element {
    let mut origin = use_signal(|| None::<Result<Provenance, String>>);
    let known = use_signal(|| (from, to));
    let fresh = known() == (from, to);
    let mut known = known;
    rsx! {
        section { class: "selected", "aria-label": "Selection",
            h2 { "Selection" }
            div { class: "controls",
                AskSelection { page, from, to }
                button {
                    r#type: "button",
                    class: "secondary",
                    "data-act": Act::Origin.name(),
                    onclick: move |_| {
                        known.set((from, to));
                        spawn(async move {
                            let path = format!("/api/documents/{}/provenance?from={from}&to={to}", page.id);
                            let read: Result<Provenance, Failure> = server::get(&path).await;
                            origin.set(Some(read.map_err(|failure| failure.to_string())));
                        });
                    },
                    "Where from?"
                }
            }
            match origin.read().as_ref().filter(|_| fresh) {
                Some(Ok(found)) => pieces(page, &found.pieces),
                Some(Err(why)) => rsx! { p { role: "alert", class: "reason", "{why}" } },
                None => rsx! {},
            }
        }
    }
}

fn pieces(page: Page, all: &[Origin]) -> Element {
    let more = all.len().saturating_sub(PIECES_MAX);
    rsx! {
        ol { class: "origins", "aria-label": "Where the selection comes from",
            for origin in all.iter().take(PIECES_MAX).cloned() {
                Piece { key: "{origin.from}", page, origin }
            }
        }
        if more > 0 { p { class: "none", "and {more} more" } }
    }
}

#[component]
fn Piece(page: Page, origin: Origin) -> Element {
    let desk = use_desk();
    let who = role(&origin.author);
    let when = ago(*desk.now.read(), origin.at);
    let tool = origin.tool_call.as_ref().map(|span| span.name.clone());
    let cost = origin.usage.as_ref().map(cost);
    rsx! {
        li { class: "origin", "data-role": "{who}",
            p {
                button {
                    r#type: "button",
                    class: "link",
                    onclick: move |_| page.show(origin.from, origin.to),
                    strong { "{who}" }
                }
                span { class: "figure", " {when}" }
                if let Some(tool) = tool { span { class: "figure", " · {tool}" } }
                if let Some(cost) = cost { span { class: "figure", " · {cost}" } }
            }
            if let Some(prompt) = origin.prompt.clone() { p { class: "said", "“{headline(&prompt, 120)}”" } }
            for (index, source) in origin.sources.iter().enumerate() {
                p { key: "{index}", class: "said", "cites “{headline(source.quote.as_deref().unwrap_or_default(), 80)}”" }
            }
        }
    }
}

/// Reads what stands behind a document, and who wrote which line of it.
pub(crate) async fn read(id: DocumentId) -> Option<(Document, Vec<Written>)> {
    // What cannot be read now is read at the next change; the text itself comes by another way.
    let document: Document = server::get(&format!("/api/documents/{id}")).await.ok()?;
    let origins: Option<Provenance> = server::get(&format!("/api/documents/{id}/provenance")).await.ok();
    let written = origins.map(|found| found.pieces.iter().map(Written::from).collect()).unwrap_or_default();
    Some((document, written))
}
