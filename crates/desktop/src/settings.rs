//! What the page shows of settings and health. Both are read leniently: a newer server may say more.

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
    pub providers: Providers,
    /// Walls.
    pub budget: Budget,
    /// How sandboxes are made.
    pub runtime: Runtime,
    /// Where tasks may connect to without asking.
    pub egress: Egress,
}

/// Which model does what.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Models {
    /// `PROVIDER/MODEL`; empty means the first provider found.
    pub default: String,
    /// Exceptions by role.
    pub roles: BTreeMap<String, String>,
}

/// A map by name or a list with names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Providers {
    /// By name.
    Map(BTreeMap<String, Provider>),
    /// With names.
    List(Vec<Provider>),
}

impl Default for Providers {
    fn default() -> Self {
        Self::List(Vec::new())
    }
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
    /// Whether a key is kept or found in the environment; keys themselves never come to the page.
    #[serde(alias = "key", alias = "key_set", alias = "configured", alias = "ready")]
    pub has_key: bool,
}

/// Walls.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Money per run.
    pub usd_per_run: f64,
}

/// How sandboxes are made.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// `process`, `container`, `microvm` or `tee`.
    pub mode: String,
}

/// Where tasks may connect to without asking.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Egress {
    /// Named profiles or `host:port`.
    pub ceiling: Vec<String>,
}

impl Settings {
    /// Every provider with its name.
    pub fn providers(&self) -> Vec<Provider> {
        match &self.providers {
            Providers::List(list) => list.clone(),
            Providers::Map(map) => {
                map.iter().map(|(name, provider)| Provider { name: name.clone(), ..provider.clone() }).collect()
            }
        }
    }

    /// The model that a prompt would use, as far as the page knows.
    pub fn model(&self) -> Option<String> {
        if !self.models.default.is_empty() {
            return Some(self.models.default.clone());
        }
        self.providers()
            .into_iter()
            .find(|provider| provider.has_key || provider.kind == "scripted")
            .map(|found| found.name)
    }
}

/// How one part of the system is, for one line on the desktop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Whether nothing needs mending.
    pub good: bool,
    /// One sentence.
    pub words: String,
}

/// Whether a prompt would find a model.
pub fn model_condition(settings: &Settings) -> Condition {
    match settings.model() {
        Some(model) => Condition { good: true, words: format!("Model {model}") },
        None => Condition { good: false, words: "No model yet: prompts are kept and wait".to_owned() },
    }
}

/// Whether a task would find a sandbox.
pub fn sandbox_condition(health: &Health) -> Condition {
    let part = ["sandbox", "runtime", "associate"].iter().find_map(|name| health.components.get(*name));
    match part {
        Some(part) if part.status == "ok" => Condition { good: true, words: "Sandbox ready".to_owned() },
        Some(part) => {
            let detail = part.detail.clone().unwrap_or_else(|| "`choir doctor` says how to mend it".to_owned());
            Condition { good: false, words: format!("Sandbox {}: {detail}", part.status) }
        }
        None => Condition { good: true, words: "Sandbox not reported".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_the_default_or_the_first_provider_with_a_key() {
        let read = |text: &str| serde_json::from_str::<Settings>(text).unwrap().model();
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"providers":{"anthropic":{"kind":"anthropic","has_key":false}}}"#), None);
        assert_eq!(read(r#"{"providers":[{"name":"glm","kind":"openai","has_key":true}]}"#), Some("glm".to_owned()));
        assert_eq!(read(r#"{"models":{"default":"a/b"},"newer":1}"#), Some("a/b".to_owned()));
    }
}
