//! Where a request goes, and what it looks like when it leaves.

use crate::secret::Secret;
use std::fmt;

/// A configured provider and one of its models.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'a> {
    /// With or without `/v1`, with or without a slash at the end.
    pub base_url: &'a str,
    /// The model's name as the provider knows it.
    pub model: &'a str,
    /// Servers on loopback want none.
    pub key: Option<&'a Secret>,
    /// The provider's habits.
    pub preset: Preset,
    /// How many tokens the model may think, for providers that want to be told; nothing leaves it to them.
    pub reasoning_tokens: Option<u32>,
}

/// A request, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Always `POST`.
    pub method: &'static str,
    /// Whole address.
    pub url: String,
    /// Names in lower case. One of them carries the key, so that values are not printed.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Vec<u8>,
}

impl Outgoing {
    /// A JSON body that asks for a stream of events.
    pub(crate) fn post(url: String, body: &serde_json::Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned()), ("accept", "text/event-stream".to_owned())];
        Self { method: "POST", url, headers, body: body.to_string().into_bytes() }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("Outgoing")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// Habits of a provider within its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preset {
    /// The format as it is documented, nothing more.
    #[default]
    Plain,
    /// OpenAI itself.
    OpenAi,
    /// Z.ai, the GLM models.
    Zai,
    /// Moonshot, the Kimi models.
    Kimi,
    /// OpenRouter.
    OpenRouter,
    /// Ollama.
    Ollama,
    /// The llama.cpp server.
    LlamaCpp,
}

impl Preset {
    /// Every preset of a provider with a name.
    pub const NAMED: [Self; 6] = [Self::OpenAi, Self::Zai, Self::Kimi, Self::OpenRouter, Self::Ollama, Self::LlamaCpp];

    /// The provider's name as people write it in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::OpenAi => "openai",
            Self::Zai => "zai",
            Self::Kimi => "kimi",
            Self::OpenRouter => "openrouter",
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llamacpp",
        }
    }

    /// Where the provider is when the configuration does not say.
    pub const fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::Zai => Some("https://api.z.ai/api/paas/v4"),
            Self::Kimi => Some("https://api.moonshot.ai/v1"),
            Self::OpenRouter => Some("https://openrouter.ai/api/v1"),
            Self::Ollama => Some("http://127.0.0.1:11434/v1"),
            Self::LlamaCpp => Some("http://127.0.0.1:8080/v1"),
        }
    }

    /// The preset that a provider's name or address tells; [`Preset::Plain`] for any other.
    pub fn guess(provider: &str, base_url: &str) -> Self {
        let host = host(base_url);
        let known = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        match () {
            () if known("openai.com") => Self::OpenAi,
            () if known("z.ai") || known("bigmodel.cn") => Self::Zai,
            () if known("moonshot.ai") || known("moonshot.cn") || known("kimi.com") => Self::Kimi,
            () if known("openrouter.ai") => Self::OpenRouter,
            () => Self::on_loopback(provider, base_url),
        }
    }

    fn on_loopback(provider: &str, base_url: &str) -> Self {
        match provider {
            "ollama" => Self::Ollama,
            "llamacpp" | "llama.cpp" | "llama-server" => Self::LlamaCpp,
            _ if base_url.contains(":11434") => Self::Ollama,
            _ => Self::Plain,
        }
    }
}

fn host(url: &str) -> &str {
    let authority = after_scheme(url).split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default()
}

fn after_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// `BASE/v1/messages`, whether or not the base ends in `/v1`.
pub(crate) fn messages_url(base_url: &str) -> String {
    let (base, query) = split_query(base_url);
    let base = base.strip_suffix("/messages").unwrap_or(base);
    let base = base.strip_suffix("/v1").unwrap_or(base);
    format!("{base}/v1/messages{query}")
}

/// `BASE/chat/completions`; a base that is only a host gets `/v1`.
pub(crate) fn completions_url(base_url: &str) -> String {
    let (base, query) = split_query(base_url);
    let base = base.strip_suffix("/chat/completions").unwrap_or(base);
    let version = if after_scheme(base).contains('/') { "" } else { "/v1" };
    format!("{base}{version}/chat/completions{query}")
}

fn split_query(base_url: &str) -> (&str, &str) {
    let base_url = base_url.trim();
    let (base, query) = base_url.split_at(base_url.find('?').unwrap_or(base_url.len()));
    (base.trim_end_matches('/'), query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_sensible_base_gives_the_right_address() {
        for base in ["https://a.com", "https://a.com/", "https://a.com/v1", "https://a.com/v1/messages/"] {
            assert_eq!(messages_url(base), "https://a.com/v1/messages");
        }
        assert_eq!(messages_url("http://127.0.0.1:8/proxy/"), "http://127.0.0.1:8/proxy/v1/messages");
        for base in ["https://a.com", "https://a.com/", "https://a.com/v1", "https://a.com/v1/chat/completions"] {
            assert_eq!(completions_url(base), "https://a.com/v1/chat/completions");
        }
        assert_eq!(completions_url("https://api.z.ai/api/paas/v4/"), "https://api.z.ai/api/paas/v4/chat/completions");
        assert_eq!(completions_url("https://a.com/x?api-version=2"), "https://a.com/x/chat/completions?api-version=2");
        assert_eq!(completions_url("https://a.com?v=2"), "https://a.com/v1/chat/completions?v=2");
    }

    #[test]
    fn presets_are_told_by_address_and_name() {
        for preset in Preset::NAMED {
            assert_eq!(Preset::guess(preset.name(), preset.base_url().unwrap()), preset);
        }
        assert_eq!(Preset::guess("mine", "https://openai.com.evil.org/v1"), Preset::Plain);
        assert_eq!(Preset::guess("mine", "https://evil.org/openai.com"), Preset::Plain);
        assert_eq!(Preset::guess("mine", "http://127.0.0.1:11434"), Preset::Ollama);
    }
}
