//! Models, keys, budgets, the network, and the theme.

use crate::page::bridge;
use crate::page::desk::{Desk, use_desk};
use crate::page::rich::{Glyph, Phrase, Standing};
use crate::page::server::{self, Failure};
use choir_desktop::icon::Icon;
use choir_desktop::settings::{Key, Provider, Settings as View, Tested, amount, dollars_of, named};
use choir_desktop::status::Mark;
use choir_proto::Role;
use choir_proto::desktop::{DesktopCommand, Theme};
use dioxus::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wasm_bindgen_futures::spawn_local;

/// What is known of a provider by trying it.
#[derive(Clone, PartialEq)]
enum Trial {
    Untried,
    Asking,
    Ended(Tested),
}

/// Models that providers offered when they were tried, as they are written in a field.
#[derive(Clone, Copy, PartialEq)]
struct Offered(Signal<Vec<String>>);

impl Offered {
    fn add(mut self, provider: &str, tested: &Tested) {
        let mut known = self.0.write();
        for model in &tested.models {
            let name = format!("{provider}/{model}");
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
}

#[component]
pub(crate) fn Settings() -> Element {
    let desk = use_desk();
    use_hook(|| desk.refresh_condition());
    let settings = desk.settings.read().clone();
    let offered = Offered(use_signal(Vec::new));
    rsx! {
        div { class: "settings page",
            datalist { id: "offered",
                for model in offered.0.read().iter() { option { key: "{model}", value: "{model}" } }
            }
            match settings {
                Some(settings) => rsx! {
                    {providers(settings.providers.clone(), offered)}
                    Models { settings: settings.clone(), offered }
                    Walls { settings: settings.clone() }
                    Looking { settings }
                },
                None => rsx! { p { class: "none", "Settings cannot be read now. They are kept; try again in a moment." } },
            }
            Themes {}
            Notifications {}
        }
    }
}

/// A word to somebody who looks elsewhere: asked for, never assumed.
#[component]
fn Notifications() -> Element {
    let mut state = use_signal(bridge::notifications);
    let words = match state.read().as_str() {
        "granted" => "This browser tells you when a run ends or needs you, while you look elsewhere.",
        "denied" => "This browser refuses notifications from this address. Its own settings change that.",
        "unsupported" => "This browser has no notifications.",
        _ => "Be told when a run ends or needs you, while you look elsewhere.",
    };
    rsx! {
        section { "aria-labelledby": "settings-notifications",
            h2 { id: "settings-notifications", "Notifications" }
            p { class: "quietly", "{words}" }
            if *state.read() == "default" {
                button {
                    r#type: "button",
                    class: "secondary",
                    onclick: move |_| {
                        spawn(async move { state.set(bridge::allow_notifications().await) });
                    },
                    "Allow notifications"
                }
            }
        }
    }
}

/// Changes settings and shows what holds now.
fn change(mut desk: Desk, body: Value, done: &'static str) {
    spawn_local(async move {
        let answer: Result<View, Failure> = server::send("PUT", "/api/settings", &body).await;
        match answer {
            Ok(settings) => {
                desk.settings.set(Some(settings));
                desk.tell(done);
            }
            Err(failure) => {
                desk.undone("Nothing was changed.", &failure);
                // What is shown is what holds, whatever became of the change.
                desk.refresh_condition();
            }
        }
    });
}

fn providers(known: Vec<Provider>, offered: Offered) -> Element {
    let wanted = known.is_empty();
    rsx! {
        section { "aria-labelledby": "settings-providers",
            h2 { id: "settings-providers", "Providers" }
            FoundProviders {}
            for provider in known { ProviderRow { key: "{provider.name}", provider, offered } }
            NewProvider { wanted }
        }
    }
}

/// Providers that answer on this machine, or whose key is in the environment, and are not used yet.
#[component]
pub(crate) fn FoundProviders() -> Element {
    let desk = use_desk();
    let found = desk.settings.read().as_ref().map(|settings| settings.found.clone()).unwrap_or_default();
    rsx! {
        for found in found {
            button {
                key: "{found.name}",
                r#type: "button",
                class: "mend",
                onclick: move |_| put_provider(desk, found.name.clone(), found.body()),
                Glyph { icon: Icon::Plug }
                {found.words()}
            }
        }
    }
}

#[component]
fn ProviderRow(provider: Provider, offered: Offered) -> Element {
    let desk = use_desk();
    // An address holds until somebody types another.
    let (name, mut key, mut moved, mut trial) = use_hook(|| {
        let name = Signal::new(provider.name.clone());
        (name, Signal::new(String::new()), Signal::new(None::<String>), Signal::new(Trial::Untried))
    });
    let address = moved().unwrap_or_else(|| provider.base_url.clone());
    let is_moved = moved.read().as_ref().is_some_and(|moved| moved.trim() != provider.base_url);
    let (mark, label, words) = match &*trial.read() {
        Trial::Ended(tested) if tested.ok => (Mark::Verified, "answers", tested.words()),
        Trial::Ended(tested) => (Mark::Failed, "does not answer", tested.words()),
        Trial::Asking => (Mark::Working, "asked", "Asking …".to_owned()),
        Trial::Untried if provider.usable => (Mark::Unverified, "not tried yet", String::new()),
        Trial::Untried => (Mark::Blocked, "cannot be asked", String::new()),
    };
    let asks_key = provider.key != Key::NotNeeded;
    rsx! {
        form {
            class: "provider",
            onsubmit: move |event| {
                event.prevent_default();
                put_provider(desk, name.peek().clone(), changed(&[("base_url", &moved.take().unwrap_or_default()), ("key", &key.take())]));
                trial.set(Trial::Untried);
            },
            p { class: "provider-name",
                Standing { mark, label }
                strong { "{provider.name}" }
                span { class: "quietly", {provider.key.words()} }
            }
            div { class: "fields",
                if asks_key {
                    input {
                        r#type: "password",
                        autocomplete: "off",
                        "aria-label": "Key for {provider.name}",
                        placeholder: if provider.key == Key::Stored { "Replace the key" } else { "Paste a key" },
                        value: "{key}",
                        oninput: move |event| key.set(event.value()),
                    }
                }
                if !provider.base_url.is_empty() {
                    input {
                        r#type: "url",
                        "aria-label": "Address of {provider.name}",
                        title: "Another address asks for the key again",
                        required: true,
                        value: "{address}",
                        oninput: move |event| moved.set(Some(event.value())),
                    }
                }
                if asks_key || !provider.base_url.is_empty() {
                    button { class: "secondary", disabled: key.read().trim().is_empty() && !is_moved, "Keep" }
                }
                button {
                    r#type: "button",
                    class: "secondary",
                    onclick: move |_| test_provider(name.peek().clone(), trial, offered),
                    "Test"
                }
            }
            p { role: "status", class: "quietly", Phrase { text: words } }
        }
    }
}

fn test_provider(name: String, mut trial: Signal<Trial>, offered: Offered) {
    trial.set(Trial::Asking);
    spawn(async move {
        let tested = test(&name).await;
        offered.add(&name, &tested);
        trial.set(Trial::Ended(tested));
    });
}

/// Tries a provider; where it cannot be asked, that is what came of it.
async fn test(name: &str) -> Tested {
    let answer: Result<Tested, Failure> =
        server::send("POST", &format!("/api/providers/{name}/test"), &json!({})).await;
    answer.unwrap_or_else(|failure| Tested { message: failure.to_string(), ..Tested::default() })
}

pub(crate) fn put_provider(desk: Desk, name: String, body: Value) {
    spawn_local(async move {
        let text = body.to_string();
        let answer = bridge::call("PUT", &format!("/api/providers/{name}"), Some(&text)).await;
        match server::done(answer) {
            Ok(()) if body.get("key").is_some() => {
                desk.tell(format!("{name} is kept. Its key is sealed and cannot be read back."));
            }
            Ok(()) => desk.tell(format!("{name} is kept.")),
            Err(failure) => desk.undone("The provider was not changed.", &failure),
        }
        desk.refresh_condition();
    });
}

/// What changes of a provider: what is left empty stays.
fn changed(fields: &[(&str, &str)]) -> Value {
    let mut body = json!({});
    for (field, value) in fields {
        if !value.trim().is_empty() {
            body[*field] = value.trim().into();
        }
    }
    body
}

/// A provider that is not in the list yet. Where there is none, a key is all that is missing.
#[component]
fn NewProvider(wanted: bool) -> Element {
    let desk = use_desk();
    let [mut name, mut kind, mut address, mut key] =
        use_hook(|| ["anthropic", "anthropic", "", ""].map(|text| Signal::new(text.to_owned())));
    rsx! {
        details { class: "more", open: wanted,
            summary { "Add a provider" }
            form {
                class: "grid",
                onsubmit: move |event| {
                    event.prevent_default();
                    let body = changed(&[("kind", &kind.peek()), ("base_url", &address.peek()), ("key", &key.take())]);
                    put_provider(desk, name.peek().trim().to_owned(), body);
                },
                label { "Name", input { value: "{name}", required: true, autocapitalize: "off", spellcheck: "false", oninput: move |event| name.set(event.value()) } }
                label { "Speaks",
                    select {
                        value: "{kind}",
                        onchange: move |event| {
                            // A name that nobody chose goes with the kind.
                            if *name.peek() == *kind.peek() { name.set(event.value()) }
                            kind.set(event.value());
                        },
                        option { value: "anthropic", "Anthropic Messages" }
                        option { value: "openai", "OpenAI chat completions" }
                    }
                }
                label { "Address",
                    input { r#type: "url", placeholder: "the usual one", value: "{address}", oninput: move |event| address.set(event.value()) }
                }
                label { "Key",
                    input { r#type: "password", autocomplete: "off", placeholder: "Paste a key", "data-focus": wanted.then_some(""), value: "{key}", oninput: move |event| key.set(event.value()) }
                }
                button { class: "primary", "Keep provider" }
            }
        }
    }
}

#[component]
fn Models(settings: View, offered: Offered) -> Element {
    let desk = use_desk();
    let (mut default, mut roles, verdicts) = use_hook(|| {
        let models = settings.models.clone();
        (Signal::new(models.default), Signal::new(models.roles), Signal::new(BTreeMap::new()))
    });
    let first = settings.model().map_or_else(|| "PROVIDER/MODEL".to_owned(), |model| format!("the first of {model}"));
    rsx! {
        section { "aria-labelledby": "settings-models",
            h2 { id: "settings-models", "Models" }
            form {
                class: "grid models",
                onsubmit: move |event| {
                    event.prevent_default();
                    let body = json!({ "models": { "default": default.peek().trim(), "roles": *roles.peek() } });
                    change(desk, body, "Models are kept.");
                },
                ModelField { name: "For everything", hint: first, model: default(), verdicts, oninput: move |model| default.set(model) }
                for role in Role::ALL {
                    ModelField {
                        name: format!("For the {}", role.name()),
                        hint: "the same",
                        model: roles.read().get(role.name()).cloned().unwrap_or_default(),
                        verdicts,
                        oninput: move |model: String| { roles.write().insert(role.name().to_owned(), model.trim().to_owned()); },
                    }
                }
                div { class: "controls",
                    button { class: "secondary", "Keep models" }
                    button {
                        r#type: "button",
                        class: "secondary",
                        onclick: move |_| {
                            let mut all = vec![default()];
                            all.extend(roles.peek().values().cloned());
                            test_models(all, verdicts, offered);
                        },
                        "Test models"
                    }
                }
            }
        }
    }
}

/// What was found out of each model, by its name.
type Verdicts = BTreeMap<String, String>;

/// A model by its name, and below it what is known of it.
#[component]
fn ModelField(
    name: String,
    hint: String,
    model: String,
    verdicts: Signal<Verdicts>,
    oninput: EventHandler<String>,
) -> Element {
    let words = verdicts.read().get(model.trim()).cloned().unwrap_or_default();
    rsx! {
        div {
            label { "{name}",
                input { list: "offered", placeholder: hint, value: "{model}", oninput: move |event| oninput.call(event.value()) }
            }
            p { role: "status", "aria-label": "{name}", class: "quietly", Phrase { text: words } }
        }
    }
}

/// Tries each of these; no name is no model, and a name that is there twice is tried once.
fn test_models(wanted: Vec<String>, mut verdicts: Signal<Verdicts>, offered: Offered) {
    verdicts.write().clear();
    spawn(async move {
        for model in wanted {
            let model = model.trim().to_owned();
            if model.is_empty() || verdicts.peek().contains_key(&model) {
                continue;
            }
            let words = match named(&model) {
                Some((provider, name)) => {
                    verdicts.write().insert(model.clone(), "Asking …".to_owned());
                    let tested = test(provider).await;
                    offered.add(provider, &tested);
                    tested.of_model(provider, name)
                }
                None => "It is written PROVIDER/MODEL.".to_owned(),
            };
            verdicts.write().insert(model, words);
        }
    });
}

/// Money and network.
#[component]
fn Walls(settings: View) -> Element {
    let desk = use_desk();
    // What was typed and not kept yet. What nobody touched is as it holds now, whoever changed it.
    let [mut dollars, mut ceiling] = use_hook(|| [None::<String>, None].map(Signal::new));
    let held_dollars = amount(settings.budget.usd_per_run);
    let held_ceiling = settings.egress.ceiling.join(", ");
    rsx! {
        section { "aria-labelledby": "settings-walls",
            h2 { id: "settings-walls", "Limits" }
            form {
                class: "grid",
                onsubmit: move |event| {
                    event.prevent_default();
                    let Ok(limits) = limits(dollars.peek().as_deref(), ceiling.peek().as_deref()) else {
                        return desk.tell("The budget is a number of dollars.");
                    };
                    change(desk, limits, "Limits are kept.");
                    dollars.set(None);
                    ceiling.set(None);
                },
                label { "Dollars per run",
                    input { r#type: "number", min: "0", step: "0.01", inputmode: "decimal", value: dollars().unwrap_or(held_dollars), oninput: move |event| dollars.set(Some(event.value())) }
                }
                label { "Network without asking",
                    input { placeholder: "nothing", value: ceiling().unwrap_or(held_ceiling), oninput: move |event| ceiling.set(Some(event.value())) }
                }
                button { class: "secondary", "Keep limits" }
            }
        }
    }
}

/// What is to be kept of what was typed: a stale form must not bring back what somebody changed elsewhere.
fn limits(dollars: Option<&str>, ceiling: Option<&str>) -> Result<Value, ()> {
    let mut kept = json!({});
    if let Some(dollars) = dollars {
        kept["budget"] = json!({ "usd_per_run": dollars_of(dollars).ok_or(())? });
    }
    if let Some(ceiling) = ceiling {
        let allowed: Vec<&str> = ceiling.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        kept["egress"] = json!({ "ceiling": allowed });
    }
    Ok(kept)
}

/// What agents do only after the person has looked at it.
#[component]
fn Looking(settings: View) -> Element {
    let desk = use_desk();
    let (hold, accept) = (settings.changes.hold, settings.documents.auto_accept);
    rsx! {
        section { "aria-labelledby": "settings-review",
            h2 { id: "settings-review", "Review" }
            label { class: "tick",
                input {
                    r#type: "checkbox",
                    checked: hold,
                    onchange: move |event| change(desk, json!({ "changes": { "hold": event.checked() } }), "Kept."),
                }
                "Hold what agents change in files until I have looked at it, in Changes"
            }
            label { class: "tick",
                input {
                    r#type: "checkbox",
                    checked: accept,
                    onchange: move |event| change(desk, json!({ "documents": { "auto_accept": event.checked() } }), "Kept."),
                }
                "Accept what agents would change of my own words, without asking"
            }
        }
    }
}

#[component]
fn Themes() -> Element {
    let desk = use_desk();
    let theme = desk.desktop.read().theme;
    rsx! {
        section { "aria-labelledby": "settings-theme",
            h2 { id: "settings-theme", "Theme" }
            div { class: "choices", role: "radiogroup", "aria-labelledby": "settings-theme",
                for (value, label) in [(Some(Theme::Matins), "Matins"), (Some(Theme::Vespers), "Vespers"), (None, "As the system")] {
                    button {
                        r#type: "button",
                        role: "radio",
                        "aria-checked": "{theme == value}",
                        onclick: move |_| desk.command(DesktopCommand::Theme { theme: value }),
                        "{label}"
                    }
                }
            }
        }
    }
}
