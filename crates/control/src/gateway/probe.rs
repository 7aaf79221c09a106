//! Whether a provider answers, and what it has: for a person who wants to know before anything depends on it.

use super::Gateway;
use super::model::{UNNAMED_MODEL, keyless, no_model, outgoing, prefix, refused, unreachable};
use super::provider::{KeyFrom, Provider};
use crate::config::ProviderKind;
use choir_llm::price;
use choir_proto::Role;
use choir_proto::model::{ErrorClass, Message, ModelError, ModelRequest};

/// Longest list of models that is read.
const LIST_BYTES_MAX: usize = 1 << 20;

/// Headers that carry a key.
const KEY_HEADERS: [&str; 2] = ["authorization", "x-api-key"];

/// Whether a provider is shown the key that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Shown,
    Withheld,
}

impl Gateway {
    /// Tries a provider: its models, or why it does not answer. A server need not list what it has, and a list that everybody
    /// may read says nothing about a key: then it is asked for one token.
    pub async fn test(&self, provider: &Provider) -> Result<Vec<String>, ModelError> {
        let models = self.probe(provider).await?;
        // Whoever waits for it may ask again.
        if self.forgive(&provider.name) {
            self.announce(true);
        }
        Ok(models)
    }

    async fn probe(&self, provider: &Provider) -> Result<Vec<String>, ModelError> {
        if provider.key_from == KeyFrom::Missing {
            return Err(keyless(&provider.name));
        }
        if !provider.is_usable() {
            return Err(no_model(Some(&provider.name)));
        }
        // It plays whatever it is asked for, so there is nothing to list.
        if provider.scenario.is_some() {
            return Ok(Vec::new());
        }
        let models = match self.models_of(provider).await {
            Ok(models) => models,
            Err(error) if is_unlisted(provider, &error) => {
                return self.one_token(provider, UNNAMED_MODEL).await.map(|()| Vec::new());
            }
            Err(error) => return Err(error),
        };
        let is_public = provider.key.is_some() && self.list(provider, Key::Withheld).await.is_ok();
        if let Some(model) = models.first().filter(|_| is_public) {
            // Whether just this model wants to say just one word is another matter.
            self.one_token(provider, model).await.or_else(|error| match error.class {
                ErrorClass::Auth => Err(error),
                _ => Ok(()),
            })?;
        }
        Ok(models)
    }

    /// The first model whose price is known, else the first.
    pub(super) async fn first_listed(&self, provider: &Provider) -> Option<String> {
        let models = self.models_of(provider).await.unwrap_or_default();
        let priced = |model: &&String| price::listed(&format!("{}/{model}", provider.name)).is_some();
        models.iter().find(priced).or(models.first()).cloned()
    }

    /// The models that a provider offers, in its order.
    async fn models_of(&self, provider: &Provider) -> Result<Vec<String>, ModelError> {
        if provider.kind == ProviderKind::Bedrock {
            let message = format!("the models of `{0}` cannot be listed here; name one as {0}/MODEL", provider.name);
            return Err(ModelError { class: ErrorClass::BadRequest, message, retry_after_ms: None });
        }
        self.list(provider, Key::Shown).await
    }

    async fn list(&self, provider: &Provider, key: Key) -> Result<Vec<String>, ModelError> {
        let (format, mut outgoing) = outgoing(provider, UNNAMED_MODEL, &short())?;
        if key == Key::Withheld {
            outgoing.headers.retain(|(name, _)| !KEY_HEADERS.contains(name));
        }
        let url = models_url(&outgoing.url);
        let sent = self.0.outbound.get(&url, &outgoing.headers).await;
        let mut response = sent.map_err(|error| unreachable(provider, error))?;
        if !response.status().is_success() {
            return Err(refused(provider, format, response).await);
        }
        let body = prefix(&mut response, LIST_BYTES_MAX).await;
        let list: ModelList = serde_json::from_slice(&body).map_err(|_| {
            let message = format!("`{}` answered with something that is no list of models", provider.name);
            ModelError { class: ErrorClass::Garbage, message, retry_after_ms: None }
        })?;
        Ok(list.data.into_iter().map(|model| model.id).collect())
    }

    /// Asks for the shortest answer that there is; what it says is of no interest.
    async fn one_token(&self, provider: &Provider, model: &str) -> Result<(), ModelError> {
        let (format, outgoing) = outgoing(provider, model, &short())?;
        let sent = self.0.outbound.post(&outgoing.url, &outgoing.headers, outgoing.body).await;
        let response = sent.map_err(|error| unreachable(provider, error))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(refused(provider, format, response).await),
        }
    }
}

fn short() -> ModelRequest {
    ModelRequest {
        model: None,
        role: Role::Conductor,
        system: String::new(),
        messages: vec![Message::user("Hello")],
        tools: Vec::new(),
        tokens_max: 1,
    }
}

/// Whether a server has no list, which is no fault of it.
fn is_unlisted(provider: &Provider, error: &ModelError) -> bool {
    provider.kind != ProviderKind::Bedrock && matches!(error.class, ErrorClass::BadRequest | ErrorClass::Garbage)
}

#[derive(serde::Deserialize)]
struct ModelList {
    data: Vec<ModelName>,
}

#[derive(serde::Deserialize)]
struct ModelName {
    id: String,
}

/// The list stands beside the place where questions are asked, in both formats.
fn models_url(url: &str) -> String {
    let (path, query) = url.split_once('?').map_or((url, String::new()), |(path, query)| (path, format!("?{query}")));
    let base = path.strip_suffix("/chat/completions").or_else(|| path.strip_suffix("/messages")).unwrap_or(path);
    format!("{base}/models{query}")
}
