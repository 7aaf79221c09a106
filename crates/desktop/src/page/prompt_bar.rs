//! One line that grows to six. The answer is never here: it is a document or a card.

use super::bridge::{self, Held};
use super::completion::{Completion, Offer};
use super::desk::{Desk, Link, use_desk};
use super::rich::Glyph;
use super::sending::{remember_draft, submit};
use super::server::Failure;
use super::transfer::{Moved, listing, make_folder, upload};
use choir_desktop::computer::focused;
use choir_desktop::files::{free_name, is_name, join, plainly, query};
use choir_desktop::icon::Icon;
use choir_desktop::prompt::{Intention, Mention, Recall, history, intentions};
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::Element as Node;

/// Where attached files go.
const UPLOADS: &str = "uploads";

#[component]
pub(crate) fn PromptBar() -> Element {
    let desk = use_desk();
    let choice = Choice::follow(desk);
    let send = move || submit(desk, choice.now());
    use_effect(move || remember_draft(desk));
    let (mut drops, given) = use_hook(|| (Signal::new(None::<Held>), Signal::new(Vec::new())));
    let mut strays = use_signal(|| None::<Held>);
    rsx! {
        form {
            class: "prompt",
            onsubmit: move |event| { event.prevent_default(); send() },
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                drops.set(Some(bridge::drops(&element, move |name, file| attach(desk, given, name, file))));
                strays.set(Some(bridge::strays(&element, move |name, file| attach(desk, given, name, file))));
            },
            Precautions {}
            Mentions {}
            Chip { choice }
            Field { choice, send: move |()| send() }
            Means {}
            button {
                class: "send",
                "aria-label": "Send",
                title: "Send (Enter)",
                disabled: desk.prompt.read().trim().is_empty(),
                Glyph { icon: Icon::ArrowUp }
            }
        }
    }
}

/// What Enter could do, and what of it the person means.
#[derive(Clone, Copy, PartialEq)]
struct Choice {
    all: Memo<Vec<Intention>>,
    meant: Signal<Option<Intention>>,
}

impl Choice {
    /// Another window in focus is another question, but not under the hands of somebody who types.
    fn follow(desk: Desk) -> Self {
        let all =
            use_memo(move || intentions(focused(&desk.desktop.read()), &desk.runs.read(), &desk.documents.read()));
        let mut meant = use_signal(|| None::<Intention>);
        let choice = Self { all, meant };
        use_effect(move || {
            all.read();
            if desk.prompt.peek().trim().is_empty() {
                meant.set(None);
            }
        });
        use_effect(move || {
            if desk.prompt.read().trim().is_empty() {
                meant.set(None);
            } else if meant.peek().is_none() && *desk.link.peek() != Link::Loading {
                // A draft of an earlier visit belongs to no window until they are known.
                meant.set(Some(choice.now()));
            }
        });
        choice
    }

    fn now(self) -> Intention {
        let (all, meant) = (self.all.read(), self.meant.read());
        let is_meant = |one: &&Intention| meant.as_ref().is_some_and(|meant| meant.is_like(one));
        all.iter().find(is_meant).or(all.first()).cloned().unwrap_or(Intention::New)
    }

    fn several(self) -> bool {
        self.all.read().len() > 1
    }

    /// The next possibility.
    fn switch(mut self) {
        let now = self.now();
        let next = {
            let all = self.all.peek();
            let place = all.iter().position(|one| one.is_like(&now)).unwrap_or_default();
            all[(place + 1) % all.len()].clone()
        };
        self.meant.set(Some(next));
    }
}

/// What Enter will do; a click or Tab chooses the next possibility.
#[component]
fn Chip(choice: Choice) -> Element {
    let intention = choice.now();
    let (verb, title) = (intention.verb(), intention.title().unwrap_or_default());
    let several = choice.several();
    rsx! {
        button {
            r#type: "button",
            class: "chip",
            disabled: !several,
            title: if several { "What Enter will do; Tab switches" } else { "Enter starts something new" },
            onclick: move |_| choice.switch(),
            "{verb} "
            if !title.is_empty() { em { "{title}" } }
        }
    }
}

#[component]
fn Field(choice: Choice, send: EventHandler<()>) -> Element {
    let mut desk = use_desk();
    let mut recall = use_signal(Recall::default);
    let mut element = use_signal(|| None::<Node>);
    let offer = Offer::new(desk);
    use_effect(move || {
        desk.prompt.read();
        if let Some(element) = element.read().as_ref() {
            bridge::grow(element);
        }
    });
    rsx! {
        Completion { offer }
        textarea {
            id: "prompt",
            rows: "1",
            "aria-autocomplete": "list",
            "aria-controls": if offer.is_open() { "completion" },
            "aria-activedescendant": if offer.is_open() { "completion-{offer.at}" },
            "aria-label": "Prompt",
            placeholder: "Ask for anything",
            enterkeyhint: "send",
            value: "{desk.prompt}",
            onmounted: move |event| element.set(event.data().downcast::<Node>().cloned()),
            // Wherever the caret is put, by keys, hand or mouse.
            onkeyup: move |_| offer.follow(bridge::before("prompt")),
            onclick: move |_| offer.follow(bridge::before("prompt")),
            oninput: move |event| {
                offer.follow(bridge::before("prompt"));
                desk.prompt.set(event.value());
                recall.set(Recall::default());
            },
            onkeydown: move |event| {
                if offer.key(&event.key()) {
                    return event.prevent_default();
                }
                let plain = event.modifiers().is_empty();
                // In a text of several lines the arrows belong to its lines, unless it was brought by them.
                let single = !desk.prompt.peek().contains('\n') || recall.peek().is_walking();
                match event.key() {
                    Key::Enter if plain && !event.is_composing() => { event.prevent_default(); send.call(()) }
                    Key::Tab if plain && choice.several() => { event.prevent_default(); choice.switch() }
                    Key::Escape => bridge::leave(),
                    Key::ArrowUp if plain && single => {
                        let history = history(&desk.runs.peek());
                        let text = desk.prompt.peek().clone();
                        if let Some(found) = recall.write().older(&history, &text) { event.prevent_default(); desk.prompt.set(found) }
                    }
                    Key::ArrowDown if plain && single => {
                        let history = history(&desk.runs.peek());
                        if let Some(found) = recall.write().newer(&history) { event.prevent_default(); desk.prompt.set(found) }
                    }
                    _ => {}
                }
            },
        }
    }
}

/// What is wanted of the next run beside its work; each can be taken away.
#[component]
fn Precautions() -> Element {
    let desk = use_desk();
    let wanted = desk.precautions.read().clone();
    if wanted.is_empty() {
        return rsx! {};
    }
    rsx! {
        ul { class: "mentions", "aria-label": "Wanted of the next run",
            for precaution in wanted {
                li { key: "{precaution.name()}",
                    Glyph { icon: Icon::Check }
                    span { class: "name", "{precaution.name()}" }
                    button {
                        r#type: "button",
                        "aria-label": "Take {precaution.name()} away",
                        onclick: move |_| desk.toggle(precaution),
                        Glyph { icon: Icon::Close }
                    }
                }
            }
        }
    }
}

/// What the agents should look at; each can be taken away.
#[component]
fn Mentions() -> Element {
    let mut desk = use_desk();
    let mentions = desk.mentions.read().clone();
    if mentions.is_empty() {
        return rsx! {};
    }
    rsx! {
        ul { class: "mentions", "aria-label": "To look at",
            for (index, mention) in mentions.into_iter().enumerate() {
                li { key: "{mention.key()}",
                    Glyph { icon: if mention.kind() == "file" { Icon::File } else { Icon::FileText } }
                    span { class: "name", "{mention.name()}" }
                    button {
                        r#type: "button",
                        "aria-label": "Take {mention.name()} away",
                        onclick: move |_| drop(desk.mentions.write().remove(index)),
                        Glyph { icon: Icon::Close }
                    }
                }
            }
        }
    }
}

/// A file that was dropped or pasted goes into the workspace, and the agents are shown it.
fn attach(mut desk: Desk, given: Signal<Vec<String>>, name: String, file: wasm_bindgen::JsValue) {
    if js_sys::Array::is_array(&file) {
        return desk.tell("A folder goes into the workspace by being dropped on Files.");
    }
    if !is_name(&name) {
        return desk.tell(format!("“{name}” is not a name for a file."));
    }
    *desk.attaching.write() += 1;
    spawn_local(async move {
        let sent = async {
            let path = join(UPLOADS, &claim(given, &name).await?);
            let moved = upload(desk, &format!("/api/files?path={}", query(&path)), &name, file).await?;
            Ok((path, moved))
        };
        let sent = sent.await;
        if !matches!(sent, Ok((_, Moved::Whole))) {
            // Whoever meant to send it decides anew.
            desk.held.set(None);
        }
        match sent {
            Ok((path, Moved::Whole)) => desk.mention(Mention::Path(path)),
            Ok((_, Moved::Stopped)) => desk.tell(format!("{} was not attached.", plainly(&name))),
            Err(failure) => desk.fail(&format!("{} was not attached.", plainly(&name)), &failure),
        }
        *desk.attaching.write() -= 1;
        if *desk.attaching.peek() == 0
            && let Some(meant) = desk.held.take()
        {
            submit(desk, meant);
        }
    });
}

/// A name that no file there has. What comes from a clipboard is always called the same, and none of it may take another's place:
/// a name that was given to a file on its way is not given again.
async fn claim(mut given: Signal<Vec<String>>, name: &str) -> Result<String, Failure> {
    make_folder(UPLOADS).await?;
    let there = listing(&query(UPLOADS)).await?;
    let mut given = given.write();
    let name = free_name(name, |wanted| {
        given.iter().any(|other| other == wanted) || there.files.iter().any(|entry| entry.name == wanted)
    });
    given.push(name.clone());
    Ok(name)
}

/// With which model, and for how much at most.
#[component]
fn Means() -> Element {
    let desk = use_desk();
    let settings = desk.settings.read();
    let Some(settings) = settings.as_ref() else { return rsx! {} };
    let model = settings.model().unwrap_or_else(|| "no model".to_owned());
    let short = model.rsplit('/').next().unwrap_or_default().to_owned();
    let budget = settings.budget.usd_per_run;
    rsx! {
        span { class: "means", title: "Model and budget per run",
            span { class: "model", "{short}" }
            if !budget.is_nothing() { span { class: "figure", "≤ {budget}" } }
        }
    }
}
