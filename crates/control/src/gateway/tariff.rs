//! What a provider's model costs, and whether anybody knows it.

use super::provider::Provider;
use choir_llm::price::{self, Price};
use choir_proto::model::{Answer, ModelRequest, Usage};
use reqwest::Url;
use std::net::IpAddr;

/// The price by which calls to one model are reserved and paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tariff {
    pub(super) price: Price,
    /// Whether nobody knows the price, so that the dearest is taken for it.
    pub(super) is_assumed: bool,
}

impl Tariff {
    /// As the person says, else as the table says; else nothing for a server on this machine, and the dearest for any other:
    /// an unknown price is not no price.
    pub(super) fn of(provider: &Provider, model: Option<&str>) -> Self {
        let known = |price| Self { price, is_assumed: false };
        // A scenario says itself what its answers cost.
        if provider.scenario.is_some() {
            return known(Price::FREE);
        }
        let listed = || price::listed(&format!("{}/{}", provider.name, model.unwrap_or_default())).copied();
        match provider.price.or_else(listed) {
            Some(price) => known(price),
            None if is_here(&provider.base_url) => known(Price::FREE),
            None => Self { price: price::dearest(), is_assumed: true },
        }
    }

    /// Writes down what an answer cost. One whose provider does not say what it took is guessed at, so that no budget is
    /// blind to it.
    pub(super) fn charge(&self, request: &ModelRequest, answer: &mut Answer) {
        let is_silent = answer.usage.tokens() == 0;
        let took = if is_silent { price::guess(request, &answer.message) } else { answer.usage };
        let usd = self.price.cost(&took);
        let guessed = if is_silent { usd } else { Default::default() };
        answer.usage = self.honest(Usage { usd, usd_guessed: guessed, ..took });
    }

    /// What an answer took that broke off after so many bytes.
    pub(super) fn unfinished(&self, request: &ModelRequest, said_bytes: usize) -> Usage {
        self.honest(self.price.unfinished(request, said_bytes))
    }

    fn honest(&self, usage: Usage) -> Usage {
        let usd_assumed = if self.is_assumed { usage.usd } else { Default::default() };
        Usage { usd_assumed, ..usage }
    }
}

/// Whether a server is on this machine: nobody is paid for it.
fn is_here(base_url: &str) -> bool {
    let Some(host) = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned)) else { return false };
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.map_or(host == "localhost" || host.ends_with(".localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, ProviderKind};
    use choir_llm::price::Rates;
    use choir_proto::Usd;
    use choir_proto::model::{AssistantMessage, StopReason};
    use std::path::Path;

    fn provider(name: &str, base_url: &str, usd_per_million: Option<Rates>) -> Provider {
        let said = config::Provider {
            kind: ProviderKind::Openai,
            base_url: Some(base_url.to_owned()),
            api_key_env: None,
            script: None,
            context_tokens: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            usd_per_million,
        };
        Provider::configured(name, &said, Path::new("")).unwrap()
    }

    #[test]
    fn an_unknown_price_is_not_no_price() {
        let elsewhere = provider("mine", "https://models.example.org/v1", None);
        let unknown = Tariff::of(&elsewhere, Some("unheard-of"));
        assert_eq!(unknown, Tariff { price: price::dearest(), is_assumed: true });
        let listed = Tariff::of(&elsewhere, Some("gpt-5"));
        assert_eq!((Some(&listed.price), listed.is_assumed), (price::listed("openai/gpt-5"), false));
        for here in ["http://127.0.0.1:8080/v1", "http://localhost:1/", "http://[::1]:1", "http://a.localhost"] {
            let tariff = Tariff::of(&provider("mine", here, None), Some("unheard-of"));
            assert_eq!(tariff, Tariff { price: Price::FREE, is_assumed: false }, "{here}");
        }
        for elsewhere in ["http://192.168.1.2/v1", "http://127.0.0.1.example.org", "http://localhost.example.org", ""] {
            assert!(Tariff::of(&provider("mine", elsewhere, None), None).is_assumed, "{elsewhere}");
        }
        let rates = Rates { input: 1.0, output: 2.0, cache_read: None, cache_write: None };
        let said = Tariff::of(&provider("mine", "https://models.example.org", Some(rates)), Some("gpt-5"));
        assert_eq!(said, Tariff { price: Price::read(rates).unwrap(), is_assumed: false });
    }

    #[test]
    fn what_is_assumed_is_said_and_what_nobody_counted_is_guessed() {
        let request = ModelRequest {
            model: None,
            role: choir_proto::Role::Terminal,
            system: "x".repeat(300),
            messages: Vec::new(),
            tools: Vec::new(),
            tokens_max: 8,
        };
        let charged = |tariff: Tariff, usage: Usage| {
            let message = AssistantMessage { text: "y".repeat(30), ..AssistantMessage::default() };
            let mut answer =
                Answer { message, stop: StopReason::Finished, usage, model: "m".to_owned(), window: None, free: None };
            tariff.charge(&request, &mut answer);
            answer.usage
        };
        let rates = Rates { input: 10.0, output: 100.0, cache_read: None, cache_write: None };
        let price = Price::read(rates).unwrap();
        let said = Usage { input_tokens: 1_000, output_tokens: 10, ..Usage::default() };
        let known = charged(Tariff { price, is_assumed: false }, said);
        assert_eq!((known.usd, known.usd_assumed), (Usd(11_000), Usd(0)));
        let assumed = charged(Tariff { price, is_assumed: true }, said);
        assert_eq!((assumed.usd, assumed.usd_assumed), (Usd(11_000), Usd(11_000)));
        let silent = charged(Tariff { price, is_assumed: false }, Usage::default());
        assert_eq!((silent.tokens(), silent.usd, silent.usd_guessed), (110, Usd(2_000), Usd(2_000)));
        assert_eq!(silent.usd_assumed, Usd(0), "the price is known");
    }
}
