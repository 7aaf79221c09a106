//! A document's versions: who, why, when, what changed, and the way back.

use super::writer::{Page, Shown};
use crate::page::bridge::{self, Held};
use crate::page::desk::use_desk;
use crate::page::rich::IconButton;
use crate::page::server::{self, Failure, Kept};
use choir_desktop::icon::Icon;
use choir_desktop::menu::Act;
use choir_desktop::trace::role;
use choir_desktop::versions::{neighbours, version_title};
use choir_desktop::words::{ago, version_words};
use choir_proto::desktop::{Shape, Subject, Window};
use choir_proto::document::{EditDocument, VersionSummary};
use dioxus::prelude::*;
use serde::Deserialize;
use web_sys::Element as Node;

/// Versions listed, the newest first.
const LISTED_MAX: usize = 100;

#[derive(Deserialize)]
struct Versions {
    versions: Vec<VersionSummary>,
}

/// The list, read when it is opened and whenever a version was written down.
#[component]
pub(crate) fn History(page: Page) -> Element {
    let mut open = use_signal(|| false);
    let mut versions = page.versions;
    use_effect(move || {
        page.desk.versioned.read();
        // Whoever looks at one walks through all of them.
        let looks = matches!((page.view)(), Shown::Version { .. });
        if !open() && !looks {
            return;
        }
        spawn(async move {
            // A list that cannot be read now stays as it was.
            if let Ok(list) = server::get::<Versions>(&format!("/api/documents/{}/versions", page.id)).await {
                versions.set(list.versions.into_iter().rev().collect());
            }
        });
    });
    let listed = versions.read();
    let before = listed.iter().skip(1).map(|version| version.version).chain([0]);
    rsx! {
        details { class: "history", ontoggle: move |_| open.toggle(),
            summary { "data-act": Act::Versions.name(), "Versions" }
            for (version, against) in listed.iter().cloned().zip(before).take(LISTED_MAX) {
                VersionRow { key: "{version.version}", page, version, against }
            }
            if listed.len() > LISTED_MAX {
                p { class: "none", "The newest {LISTED_MAX} are listed. All of them are in the log." }
            }
        }
    }
}

#[component]
fn VersionRow(page: Page, version: VersionSummary, against: u32) -> Element {
    let desk = use_desk();
    let when = ago(*desk.now.read(), version.at);
    let who = role(&version.author);
    let number = version.version;
    let mut view = page.view;
    let shown = matches!(view(), Shown::Version { number: shown, .. } if shown == number);
    rsx! {
        button {
            r#type: "button",
            class: "version",
            "data-role": "{who}",
            "aria-pressed": "{shown}",
            onclick: move |_| view.set(Shown::Version { number, against }),
            span { class: "figure", "{number}" }
            span { class: "name", "{who}, {version_words(&version.reason)}" }
            span { class: "figure", "{when}" }
        }
    }
}

/// One version in place of the text.
#[component]
pub(crate) fn Past(page: Page, number: u32, against: u32, head: Memo<u32>) -> Element {
    let mut shown = use_signal(|| None::<(String, Held)>);
    let mut view = page.view;
    let numbers: Vec<u32> = page.versions.read().iter().map(|version| version.version).collect();
    let (earlier, later) = neighbours(&numbers, number);
    let mut walk = move |number: u32| {
        let against = neighbours(&numbers, number).0.unwrap_or_default();
        view.set(Shown::Version { number, against });
    };
    let mut back = walk.clone();
    let title = version_title(number, against);
    rsx! {
        div { class: "paper past",
            div { class: "past-bar", role: "status",
                if let Some(earlier) = earlier {
                    IconButton { icon: Icon::ChevronLeft, label: "Earlier version", onclick: move |_| back(earlier) }
                }
                if let Some(later) = later {
                    IconButton { icon: Icon::ChevronRight, label: "Later version", onclick: move |_| walk(later) }
                }
                span { "{title}" }
                if number != head() {
                    button {
                        r#type: "button",
                        class: "secondary",
                        onclick: move |_| {
                            let content = shown.peek().as_ref().map(|(content, _)| content.clone());
                            if let Some(content) = content { bring_back(page, head(), content) }
                        },
                        "Bring this text back"
                    }
                }
                button { r#type: "button", class: "secondary", onclick: move |_| view.set(Shown::Text), "Back to now" }
            }
            div {
                class: "editor",
                onmounted: move |event| {
                    let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                    spawn(async move {
                        match bridge::open_version(&element, &page.id.to_string(), number, against).await {
                            Ok(opened) => shown.set(Some(opened)),
                            Err(why) => page.desk.tell(format!("Version {number} could not be read ({why}).")),
                        }
                    });
                },
            }
        }
    }
}

/// An old text becomes a new version; nothing is lost.
fn bring_back(page: Page, base_version: u32, content: String) {
    let mut view = page.view;
    spawn(async move {
        let body = EditDocument { base_version, content };
        let answer: Result<Kept, Failure> = server::send("PUT", &format!("/api/documents/{}", page.id), &body).await;
        match answer {
            Ok(document) => {
                view.set(Shown::Text);
                page.desk.tell(format!("The text is back, as version {}.", document.version));
            }
            Err(failure) => page.desk.undone("The document stayed as it was.", &failure),
        }
    });
}

/// What happened to the text while nobody looked: neither a window that is closed nor one that is put down shows it. The browser
/// remembers the last version that was seen.
#[component]
pub(crate) fn SinceYouLooked(page: Page, head: Memo<u32>) -> Element {
    let subject = Subject::Document(page.id);
    let seen_here = use_memo(move || {
        let desktop = page.desk.desktop.read();
        let shows = |window: &Window| window.subject.as_ref() == Some(&subject) && window.shape != Shape::Minimised;
        desktop.windows.iter().any(shows)
    });
    // The version that was seen last before the text came into sight.
    let mut since = use_signal(|| None::<u32>);
    let mut away = use_signal(|| true);
    use_effect(move || {
        let (key, head) = (format!("choir.seen.{}", page.id), head());
        if !seen_here() {
            away.set(true);
            return;
        }
        if *away.peek() {
            away.set(false);
            let seen = bridge::recall(&key).and_then(|text| text.parse().ok());
            since.set(seen.filter(|seen| *seen < head));
        }
        bridge::remember(&key, &head.to_string());
    });
    let mut view = page.view;
    let Some(against) = since() else { return rsx! {} };
    rsx! {
        p { class: "since",
            "Changed since you looked. "
            button {
                r#type: "button",
                class: "link",
                onclick: move |_| {
                    since.set(None);
                    view.set(Shown::Version { number: head(), against });
                },
                "Show what"
            }
        }
    }
}
