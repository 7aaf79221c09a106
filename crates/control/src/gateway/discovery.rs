//! What could be used but nobody has chosen yet: keys in the environment and servers on loopback. Nothing is asked and no
//! money is spent before a person has said yes.

use super::{Gateway, KeyFrom};
use crate::config::ProviderKind;
use crate::outbound::Outbound;
use choir_llm::Preset;
use serde::Serialize;
use std::time::Duration;

/// A server on this machine answers at once or is not there.
const LOOPBACK: Duration = Duration::from_millis(500);

/// Where people keep keys.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("zai", "ZAI_API_KEY"),
    ("kimi", "MOONSHOT_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
];
const LOCAL: [Preset; 2] = [Preset::Ollama, Preset::LlamaCpp];

/// A provider that could be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = FoundProvider)]
pub struct Found {
    /// The name under which it would be added.
    pub name: String,
    /// What it speaks.
    pub kind: ProviderKind,
    /// Where it is; nothing means its own place.
    pub base_url: Option<String>,
    /// Where its key would come from.
    pub key: KeyFrom,
}

/// The variable that holds a provider's key by custom.
pub(super) fn variable(name: &str) -> Option<&'static str> {
    ENVIRONMENT.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable)
}

impl Found {
    /// For people: where it was found.
    pub fn place(&self) -> String {
        match (&self.base_url, variable(&self.name)) {
            (Some(url), _) => format!("{} at {url}", self.name),
            (None, Some(variable)) => format!("{} by {variable}", self.name),
            (None, None) => self.name.clone(),
        }
    }
}

/// What there is on this machine: keys in the environment, servers on loopback.
pub async fn look_around(outbound: &Outbound) -> Vec<Found> {
    let local = futures_util::future::join_all(LOCAL.iter().map(|preset| local(outbound, *preset))).await;
    in_environment().into_iter().chain(local.into_iter().flatten()).collect()
}

async fn local(outbound: &Outbound, preset: Preset) -> Option<Found> {
    let base_url = preset.base_url()?;
    let url = format!("{base_url}/models");
    let answer = tokio::time::timeout(LOOPBACK, outbound.get(&url, &[])).await.ok()?.ok()?;
    let found = Found {
        name: preset.name().to_owned(),
        kind: ProviderKind::Openai,
        base_url: Some(base_url.to_owned()),
        key: KeyFrom::NotNeeded,
    };
    answer.status().is_success().then_some(found)
}

impl Gateway {
    /// Looks around, leaving out what is in use already.
    pub async fn discover(&self) -> Vec<Found> {
        let used: Vec<String> = self.providers().iter().map(|provider| provider.name.clone()).collect();
        let found = look_around(&self.0.outbound).await.into_iter();
        found.filter(|found| !used.contains(&found.name)).collect()
    }
}

fn in_environment() -> Vec<Found> {
    let set =
        ENVIRONMENT.iter().filter(|(_, variable)| std::env::var_os(variable).is_some_and(|value| !value.is_empty()));
    set.map(|(name, _)| Found {
        name: (*name).to_owned(),
        kind: if *name == "anthropic" { ProviderKind::Anthropic } else { ProviderKind::Openai },
        base_url: None,
        key: KeyFrom::Environment,
    })
    .collect()
}
