//! One provider as the gateway uses it.

use super::minute::Limits;
use crate::config::{self, ProviderKind};
use crate::db::Stored;
use crate::seal::Seal;
use choir_llm::price::Price;
use choir_llm::scripted::{Scenario, ScenarioError};
use choir_llm::{Preset, Secret, SecretError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::OnceCell;

const ANTHROPIC: &str = "https://api.anthropic.com";

/// Why a configured provider cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The environment holds something that is no key.
    #[error("the environment variable `{variable}` of provider `{name}` holds no key")]
    Key {
        /// The provider.
        name: String,
        /// Where the key should be.
        variable: String,
        /// Why it is none.
        source: SecretError,
    },
    /// The scenario cannot be read.
    #[error("the scenario `{path}` of provider `{name}` cannot be read")]
    Read {
        /// The provider.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The scenario is wrong.
    #[error("the scenario `{path}` of provider `{name}` is wrong")]
    Scenario {
        /// The provider.
        name: String,
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: ScenarioError,
    },
}

/// Where a provider's key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyFrom {
    /// There is none, and none is needed.
    NotNeeded,
    /// One is needed and missing.
    Missing,
    /// The environment.
    Environment,
    /// Entered in the desktop, sealed in control's database.
    Stored,
}

/// A provider: where it is, what it speaks, and its key.
#[derive(Debug)]
pub struct Provider {
    /// Its name in `PROVIDER/MODEL`.
    pub name: String,
    /// Which wire format it speaks.
    pub kind: ProviderKind,
    /// Where it is; empty for a scenario.
    pub base_url: String,
    pub(super) key: Option<Secret>,
    /// Where the key came from.
    pub key_from: KeyFrom,
    pub(super) scenario: Option<Scenario>,
    /// How long an answer of the scenario takes to come.
    pub(super) pause: Duration,
    /// How many tokens its models read at once, if somebody said so.
    pub(super) context_tokens: Option<u64>,
    /// How often it may be asked.
    pub(super) limits: Limits,
    /// What its models cost, if somebody said so.
    pub(super) price: Option<Price>,
    /// The model to ask when nobody named one; found out at the first call.
    pub(super) first_model: OnceCell<String>,
}

impl Provider {
    /// From the configuration file.
    pub(super) fn configured(name: &str, from: &config::Provider, base: &Path) -> Result<Self, ProviderError> {
        let key = environment_key(name, from.api_key_env.as_deref())?;
        let base_url = base_url(name, from.kind, from.base_url.as_deref());
        let key_from = match (&key, from.kind, &from.base_url) {
            (_, ProviderKind::Scripted, _) => KeyFrom::NotNeeded,
            (Some(_), ..) => KeyFrom::Environment,
            (None, ProviderKind::Bedrock, _) if signs() => KeyFrom::Environment,
            // Somebody who named a server and no key means a server that wants none; the well-known ones all want one.
            (None, _, Some(_)) if from.api_key_env.is_none() && !is_well_known(&base_url) => KeyFrom::NotNeeded,
            (None, ..) => KeyFrom::Missing,
        };
        let scenario = from.script.as_ref().map(|script| read_scenario(name, &base.join(script))).transpose()?;
        Ok(Self {
            name: name.to_owned(),
            kind: from.kind,
            base_url,
            key,
            key_from,
            scenario,
            pause: Duration::ZERO,
            context_tokens: from.context_tokens,
            limits: Limits { requests: from.requests_per_minute, tokens: from.tokens_per_minute },
            price: from.usd_per_million.and_then(Price::read),
            first_model: OnceCell::new(),
        })
    }

    /// From control's database, over one of the same name in the configuration file.
    pub(super) fn stored(stored: &Stored, seal: &Seal, under: Option<&Self>) -> Option<Self> {
        let kind = ProviderKind::from_name(&stored.kind)?;
        let name = stored.name.clone();
        let key = stored.sealed_key.as_ref().and_then(|sealed| match seal.open_sealed(&name, sealed) {
            Ok(key) => Secret::parse(key.expose()).ok(),
            Err(error) => {
                tracing::error!(%error, "a stored key was ignored");
                None
            }
        });
        let given = stored.base_url.as_deref();
        let base_url = match (given, under) {
            (None, Some(under)) => under.base_url.clone(),
            (given, _) => base_url(&name, kind, given),
        };
        let (key, key_from) = match (key, under) {
            (Some(key), _) => (Some(key), KeyFrom::Stored),
            (None, Some(under)) => (under.key.clone(), under.key_from),
            (None, None) if kind == ProviderKind::Bedrock && signs() => (None, KeyFrom::Environment),
            (None, None) if given.is_some() && !is_well_known(&base_url) => (None, KeyFrom::NotNeeded),
            (None, None) if customary_key(&name).is_some() => (customary_key(&name), KeyFrom::Environment),
            (None, None) => (None, KeyFrom::Missing),
        };
        let scenario = under.and_then(|under| under.scenario.clone());
        let context_tokens = under.and_then(|under| under.context_tokens);
        let price = under.and_then(|under| under.price);
        let limits = under.map(|under| under.limits).unwrap_or_default();
        let pause = Duration::ZERO;
        Some(Self {
            name,
            kind,
            base_url,
            key,
            key_from,
            scenario,
            pause,
            context_tokens,
            limits,
            price,
            first_model: OnceCell::new(),
        })
    }

    /// From a scenario that is part of the program.
    pub(crate) fn recorded(name: &str, scenario: Scenario, pause: Duration) -> Self {
        Self {
            name: name.to_owned(),
            kind: ProviderKind::Scripted,
            base_url: String::new(),
            key: None,
            key_from: KeyFrom::NotNeeded,
            scenario: Some(scenario),
            pause,
            context_tokens: None,
            limits: Limits::default(),
            price: None,
            first_model: OnceCell::new(),
        }
    }

    /// Whether its key was given for this place. Sent elsewhere, a key that nobody can read would be read there.
    pub(crate) fn key_is_for(&self, base_url: &str) -> bool {
        let origin = |url: &str| reqwest::Url::parse(url).map(|url| url.origin()).ok();
        self.key.is_none() || origin(base_url) == origin(&self.base_url)
    }

    /// Whether it can be asked.
    pub fn is_usable(&self) -> bool {
        match self.kind {
            ProviderKind::Scripted => self.scenario.is_some(),
            ProviderKind::Bedrock if !cfg!(feature = "bedrock") => false,
            ProviderKind::Bedrock | ProviderKind::Anthropic | ProviderKind::Openai => {
                self.key_from != KeyFrom::Missing && !self.base_url.is_empty()
            }
        }
    }
}

/// Whether requests to Bedrock can be signed without a key of their own.
fn signs() -> bool {
    #[cfg(feature = "bedrock")]
    return super::aws::is_known();
    #[cfg(not(feature = "bedrock"))]
    false
}

/// Where Bedrock is.
fn bedrock_url() -> String {
    #[cfg(feature = "bedrock")]
    return format!("https://bedrock-runtime.{}.amazonaws.com", super::aws::region());
    #[cfg(not(feature = "bedrock"))]
    String::new()
}

fn environment_key(name: &str, variable: Option<&str>) -> Result<Option<Secret>, ProviderError> {
    let Some(variable) = variable else { return Ok(None) };
    let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) else { return Ok(None) };
    let wrong = |source| ProviderError::Key { name: name.to_owned(), variable: variable.to_owned(), source };
    Secret::parse(&value).map(Some).map_err(wrong)
}

/// A key that the environment holds under the provider's usual variable.
fn customary_key(name: &str) -> Option<Secret> {
    environment_key(name, super::discovery::variable(name)).ok().flatten()
}

fn base_url(name: &str, kind: ProviderKind, given: Option<&str>) -> String {
    let usual = match kind {
        ProviderKind::Bedrock => return given.map_or_else(bedrock_url, str::to_owned),
        ProviderKind::Anthropic => ANTHROPIC,
        ProviderKind::Openai => {
            let preset = Preset::NAMED.into_iter().find(|preset| preset.name() == name).unwrap_or(Preset::OpenAi);
            preset.base_url().unwrap_or_default()
        }
        ProviderKind::Scripted => "",
    };
    given.unwrap_or(usual).to_owned()
}

/// Whether a server is one that answers nobody without a key.
fn is_well_known(base_url: &str) -> bool {
    let host = |url: &str| reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let on_loopback = [Preset::Ollama, Preset::LlamaCpp];
    let presets = Preset::NAMED.into_iter().filter(|preset| !on_loopback.contains(preset));
    let known = presets.filter_map(Preset::base_url).chain([ANTHROPIC]).filter_map(host);
    host(base_url).is_some_and(|wanted| known.into_iter().any(|host| host == wanted))
}

fn read_scenario(name: &str, path: &Path) -> Result<Scenario, ProviderError> {
    let (name, path) = (name.to_owned(), path.to_owned());
    match std::fs::read_to_string(&path) {
        Ok(text) => Scenario::parse(&text).map_err(|source| ProviderError::Scenario { name, path, source }),
        Err(source) => Err(ProviderError::Read { name, path, source }),
    }
}
