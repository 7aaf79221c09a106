//! What the page shows of settings and health. Both are read leniently: a newer server may say more.

use crate::status::Mark;
use crate::words::count;
use choir_proto::Usd;
use choir_proto::api::Health;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The part of `GET /api/settings` that the page shows.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Which model does what.
    pub models: Models,
    /// Where models live.
    pub providers: Vec<Provider>,
    /// Walls.
    pub budget: Budget,
    /// Where tasks may connect to without asking.
    pub egress: Egress,
    /// What waits for the person's eyes.
    pub changes: Changes,
    /// What waits for the person's word.
    pub documents: Documents,
    /// While there is no model: what could be used.
    pub found: Vec<Found>,
}

/// A provider that could be used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Found {
    /// The name under which it would be added.
    pub name: String,
    /// What it speaks.
    pub kind: String,
    /// Where it is; nothing means its own place.
    pub base_url: Option<String>,
    /// Where its key would come from.
    pub key: Key,
}

impl Found {
    /// The button that adds it.
    pub fn words(&self) -> String {
        let Self { name, base_url, .. } = self;
        match (base_url, self.key) {
            (Some(address), _) => format!("Use {name} at {address}"),
            (None, Key::Environment) => format!("Use {name} with the key from the environment"),
            (None, _) => format!("Use {name}"),
        }
    }

    /// What adds it.
    pub fn body(&self) -> serde_json::Value {
        let mut body = serde_json::json!({ "kind": self.kind });
        if let Some(address) = &self.base_url {
            body["base_url"] = address.as_str().into();
        }
        body
    }
}

/// Which model does what.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Models {
    /// `PROVIDER/MODEL`; empty means the first provider found.
    pub default: String,
    /// Exceptions by role.
    pub roles: BTreeMap<String, String>,
    /// Whether prompts can be worked on now.
    pub available: bool,
}

/// One provider.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// `anthropic`, `openai`, `bedrock` or `scripted`.
    pub kind: String,
    /// Where it is.
    pub base_url: String,
    /// Where its key comes from; keys themselves never come to the page.
    pub key: Key,
    /// Whether it could be asked now.
    pub usable: bool,
}

/// Where a key comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// One is needed and missing.
    #[default]
    Missing,
    /// None is needed.
    NotNeeded,
    /// The environment.
    Environment,
    /// Entered here, sealed by the server.
    Stored,
    /// Something newer.
    #[serde(other)]
    Other,
}

impl Key {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Missing => "no key yet",
            Self::NotNeeded => "needs no key",
            Self::Environment => "key from the environment",
            Self::Stored => "key kept",
            Self::Other => "key",
        }
    }
}

/// Walls.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Money per run.
    pub usd_per_run: Usd,
}

/// How what tasks changed comes into the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// Whether it waits until the person has looked at it.
    pub hold: bool,
}

/// How documents are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Documents {
    /// Whether what agents would change of a person's words is accepted without asking.
    pub auto_accept: bool,
}

/// Where tasks may connect to without asking.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Egress {
    /// Named profiles or `host:port`.
    pub ceiling: Vec<String>,
}

impl Settings {
    /// The model that a prompt would use, as far as the page knows.
    pub fn model(&self) -> Option<String> {
        if !self.models.available {
            return None;
        }
        let first = || self.providers.iter().find(|provider| provider.usable).map(|provider| provider.name.clone());
        Some(self.models.default.clone()).filter(|model| !model.is_empty()).or_else(first)
    }
}

/// What a provider answered to being tried.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Tested {
    /// Whether it answers.
    pub ok: bool,
    /// In a sentence.
    pub message: String,
    /// What it offers; nothing where that cannot be listed.
    pub models: Vec<String>,
}

impl Tested {
    /// For people.
    pub fn words(&self) -> String {
        match self.models.len() {
            0 => self.message.clone(),
            models => format!("{} It offers {}.", self.message, count(models, "model", "models")),
        }
    }

    /// What that says of one of its models.
    pub fn of_model(&self, provider: &str, model: &str) -> String {
        let listed = self.models.is_empty() || self.models.iter().any(|offered| offered == model);
        match (self.ok, listed) {
            (false, _) => self.message.clone(),
            (true, true) => format!("`{provider}` answers and has it."),
            (true, false) => format!("`{provider}` answers, but offers no `{model}`."),
        }
    }
}

/// An amount as a field for numbers takes it: `5.00`.
pub fn amount(usd: Usd) -> String {
    usd.to_string().split_off(1)
}

/// The amount that somebody typed into such a field.
pub fn dollars_of(text: &str) -> Option<Usd> {
    let (whole, broken) = text.trim().split_once(['.', ',']).unwrap_or((text.trim(), ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(broken) || (whole.is_empty() && broken.is_empty()) {
        return None;
    }
    let millionths = broken.bytes().chain(std::iter::repeat(b'0')).take(6);
    let digits = whole.bytes().chain(millionths);
    let add = |sum: u64, digit: u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    digits.into_iter().try_fold(0, add).map(Usd)
}

/// The provider and the model of `PROVIDER/MODEL`.
pub fn named(model: &str) -> Option<(&str, &str)> {
    model.trim().split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
}

/// How one part of the system is, for one line on the desktop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// As a mark: what has not been tried is not called verified.
    pub mark: Mark,
    /// One sentence.
    pub words: String,
}

impl Condition {
    /// Whether nothing needs mending.
    pub fn is_good(&self) -> bool {
        self.mark != Mark::Blocked
    }

    /// The command that would mend it, where its words name one: a name alone says nothing to a shell.
    pub fn command(&self) -> Option<&str> {
        self.words.split('`').skip(1).step_by(2).find(|quoted| quoted.contains(' '))
    }
}

/// Whether a prompt would find a model.
pub fn model_condition(settings: &Settings) -> Condition {
    match settings.model() {
        Some(model) => Condition { mark: Mark::Unverified, words: format!("Model {model}") },
        None => Condition { mark: Mark::Blocked, words: "No model yet: prompts are kept and wait".to_owned() },
    }
}

/// Whether a task would find a sandbox.
pub fn sandbox_condition(health: &Health) -> Condition {
    let part = ["sandbox", "runtime", "associate"].iter().find_map(|name| health.components.get(*name));
    match part {
        Some(part) if part.status == "ok" => Condition { mark: Mark::Verified, words: "Sandbox ready".to_owned() },
        Some(part) => {
            let detail = part.detail.clone().unwrap_or_else(|| "`choir doctor` says how to mend it".to_owned());
            Condition { mark: Mark::Blocked, words: format!("Sandbox {}: {detail}", part.status) }
        }
        None => Condition { mark: Mark::Unknown, words: "Sandbox not reported".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_the_default_or_the_first_provider_with_a_key() {
        let read = |text: &str| serde_json::from_str::<Settings>(text).unwrap().model();
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"models":{"default":"a/b","available":false}}"#), None);
        assert_eq!(read(r#"{"models":{"default":"a/b","available":true},"newer":1}"#), Some("a/b".to_owned()));
        let listed = r#"{"models":{"available":true},"providers":[
            {"name":"one","key":"missing","usable":false},{"name":"two","key":"stored","usable":true}]}"#;
        assert_eq!(read(listed), Some("two".to_owned()));
    }

    #[test]
    fn a_test_says_whether_a_provider_answers_and_has_a_model() {
        let offers = |models: &[&str]| Tested {
            ok: true,
            message: "`a` answers.".to_owned(),
            models: models.iter().map(|model| (*model).to_owned()).collect(),
        };
        assert_eq!(offers(&["b", "c"]).words(), "`a` answers. It offers 2 models.");
        assert_eq!(offers(&["b"]).of_model("a", "b"), "`a` answers and has it.");
        assert_eq!(offers(&["b"]).of_model("a", "x"), "`a` answers, but offers no `x`.");
        // What cannot be listed is not held against a model.
        assert_eq!(offers(&[]).of_model("a", "x"), "`a` answers and has it.");
        let refused = Tested { ok: false, message: "No.".to_owned(), ..offers(&["b"]) };
        assert_eq!(refused.of_model("a", "b"), "No.");
        assert_eq!(named(" openrouter/meta/llama "), Some(("openrouter", "meta/llama")));
        assert_eq!((named("claude"), named("a/"), named("/b")), (None, None, None));
    }

    #[test]
    fn a_condition_gives_the_command_that_mends_it() {
        let words = |words: &str| Condition { mark: Mark::Blocked, words: words.to_owned() };
        let named = words("Sandbox degraded: `landlock` is off; run `choir doctor` and start again");
        assert_eq!(named.command(), Some("choir doctor"));
        assert_eq!(words("Sandbox degraded: no `landlock` here").command(), None);
    }

    #[test]
    fn an_amount_is_read_as_it_is_written() {
        for (text, micros) in
            [("5", 5_000_000), ("5.00", 5_000_000), (" 0,25 ", 250_000), (".5", 500_000), ("0.0000019", 1)]
        {
            assert_eq!(dollars_of(text), Some(Usd(micros)), "{text}");
        }
        for text in ["", ".", "-1", "1.2.3", "five", "1e3", "99999999999999999999"] {
            assert_eq!(dollars_of(text), None, "{text}");
        }
        assert_eq!(amount(Usd(1_250_000)), "1.25");
    }

    #[test]
    fn only_what_was_tried_is_called_verified() {
        let read = |text: &str| model_condition(&serde_json::from_str(text).unwrap());
        assert_eq!(read(r#"{"models":{"default":"a/b","available":true}}"#).mark, Mark::Unverified);
        assert!(!read("{}").is_good());
    }
}
