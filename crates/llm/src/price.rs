//! What answers cost, from a table that is checked in.

use choir_proto::Usd;
use choir_proto::model::{AssistantMessage, Message, ModelRequest, Part, Usage};
use serde::Deserialize;
use std::sync::LazyLock;

/// Longest price table.
pub const TABLE_BYTES_MAX: usize = 1024 * 1024;

/// Highest believable price, in dollars for a million tokens: a slip of the pen must not empty a budget at once.
pub const PRICE_MAX: f64 = 10_000.0;

/// See [`estimate`].
const BYTES_PER_TOKEN: u64 = 3;

/// Shortest answer that is worth asking for: a word to somebody, or a small call of a tool.
const ANSWER_TOKENS_MIN: u32 = 64;

/// What a large picture takes with the providers we know; smaller ones take less.
const IMAGE_TOKENS: u64 = 1600;

static CHECKED_IN: LazyLock<Result<Table, TableError>> = LazyLock::new(|| Table::parse(include_str!("prices.toml")));

/// The price of a `PROVIDER/MODEL` in the checked-in table; nothing for a model that is not in it.
pub fn listed(model: &str) -> Option<&'static Price> {
    CHECKED_IN.as_ref().ok()?.price(model)
}

/// What is assumed of a model whose price nobody knows: as dear as the dearest in the checked-in table, part by part. An
/// unknown price is not no price, and a budget that is too careful is better than one that is none.
pub fn dearest() -> Price {
    let prices = CHECKED_IN.as_ref().map(|table| table.prices.as_slice()).unwrap_or_default();
    prices.iter().map(|(_, price)| *price).fold(Price::FREE, Price::dearer)
}

/// What a call may take at most, roughly: for asking whether the budget allows it before it is made.
///
/// A token has four bytes in English and fewer in other languages and in code, so that three err on the careful side.
pub fn estimate(request: &ModelRequest) -> Usage {
    let tools =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len());
    let bytes: usize = tools.sum::<usize>() + request.system.len();
    let messages: u64 = request.messages.iter().map(message_tokens).sum();
    Usage { input_tokens: tokens(bytes) + messages, output_tokens: u64::from(request.tokens_max), ..Usage::default() }
}

/// What an answer took, roughly, of which its provider does not say it.
pub fn guess(request: &ModelRequest, message: &AssistantMessage) -> Usage {
    Usage { output_tokens: said_tokens(message), ..estimate(request) }
}

/// By four bytes to a token instead.
fn modest(careful: u64) -> u64 {
    careful * BYTES_PER_TOKEN / 4
}

fn message_tokens(message: &Message) -> u64 {
    match message {
        Message::User { parts } => parts.iter().map(part_tokens).sum(),
        Message::Tools { results } => results.iter().map(|result| tokens(result.content.len())).sum(),
        Message::Assistant(message) => said_tokens(message),
    }
}

fn said_tokens(message: &AssistantMessage) -> u64 {
    let calls = message.tool_calls.iter().map(|call| call.name.len() + call.arguments.to_string().len());
    tokens(message.text.len() + message.reasoning.len() + calls.sum::<usize>())
}

fn part_tokens(part: &Part) -> u64 {
    match part {
        Part::Text { text } => tokens(text.len()),
        Part::Image { .. } => IMAGE_TOKENS,
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Prices by pattern; the first pattern that fits a model's `PROVIDER/MODEL` holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Patterns and what they cost.
    prices: Vec<(Vec<String>, Price)>,
}

/// Why a price table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Longer than [`TABLE_BYTES_MAX`].
    #[error("the price table is longer than {TABLE_BYTES_MAX} bytes")]
    Long,
    /// Not the TOML that was expected; the message shows the line.
    #[error("the price table cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// A price that cannot be meant.
    #[error("the price of {models} is wrong: prices are from 0 to {PRICE_MAX} dollars for a million tokens")]
    Price {
        /// Its patterns.
        models: String,
    },
}

/// What a model's tokens cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    input: Rate,
    output: Rate,
    cache_read: Rate,
    cache_write: Rate,
}

/// Billionths of a dollar for one token, which is thousandths of a dollar for a million of them: whole numbers, so that
/// sums do not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rate(u64);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidTable {
    price: Vec<SaidPrice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidPrice {
    models: Vec<String>,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl SaidPrice {
    fn rates(&self) -> Rates {
        let Self { input, output, cache_read, cache_write, .. } = *self;
        Rates { input, output, cache_read, cache_write }
    }
}

/// A price as people write it: dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Of what the model reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of what it reads from the provider's cache; like input where nobody says.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Of what is written to the cache; like input where nobody says.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

impl Table {
    /// Reads a table in the form of `prices.toml`.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        if text.len() > TABLE_BYTES_MAX {
            return Err(TableError::Long);
        }
        let said: SaidTable = toml::from_str(text)?;
        let prices = said.price.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { prices })
    }

    /// The price of a model; nothing for one that is not in the table.
    pub fn price(&self, model: &str) -> Option<&Price> {
        let fitting = |(patterns, _): &&(Vec<String>, Price)| patterns.iter().any(|pattern| fits(pattern, model));
        self.prices.iter().find(fitting).map(|(_, price)| price)
    }
}

fn read(said: SaidPrice) -> Result<(Vec<String>, Price), TableError> {
    match Price::read(said.rates()) {
        Some(price) => Ok((said.models, price)),
        None => Err(TableError::Price { models: said.models.join(", ") }),
    }
}

impl Price {
    /// Nobody is paid.
    pub const FREE: Self = Self { input: Rate(0), output: Rate(0), cache_read: Rate(0), cache_write: Rate(0) };

    /// Nothing where a price cannot be meant: below nothing, or above [`PRICE_MAX`].
    pub fn read(said: Rates) -> Option<Self> {
        Some(Self {
            input: Rate::read(said.input)?,
            output: Rate::read(said.output)?,
            cache_read: Rate::read(said.cache_read.unwrap_or(said.input))?,
            cache_write: Rate::read(said.cache_write.unwrap_or(said.input))?,
        })
    }

    /// What a call cost, rounded up to the millionth of a dollar.
    pub fn cost(&self, usage: &Usage) -> Usd {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        let billionths: u128 = parts.into_iter().map(|(tokens, rate)| u128::from(tokens) * u128::from(rate.0)).sum();
        Usd(u64::try_from(billionths.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// What a call may cost at most.
    pub fn most(&self, request: &ModelRequest) -> Usd {
        // What is free is not worth counting a long conversation for.
        if *self == Self::FREE { Usd(0) } else { self.cost(&estimate(request)) }
    }

    /// How many tokens of an answer `left` pays for, with what is sent.
    pub fn affordable(&self, request: &ModelRequest, left: Usd) -> u32 {
        if self.output == Rate(0) {
            return u32::MAX;
        }
        let billionths = u128::from(left.0.saturating_sub(self.sent(request).0)) * 1000;
        u32::try_from(billionths / u128::from(self.output.0)).unwrap_or(u32::MAX)
    }

    /// What a call costs whose answer is as short as is of any use.
    pub fn least(&self, request: &ModelRequest) -> Usd {
        let output_tokens = u64::from(request.tokens_max.min(ANSWER_TOKENS_MIN));
        self.sent(request) + self.cost(&Usage { output_tokens, ..Usage::default() })
    }

    /// What a call took, roughly, that ended after so many bytes of its answer and without a word on what it took. More than was asked
    /// for is no answer of a model, and nobody is paid for it.
    pub fn unfinished(&self, request: &ModelRequest, said_bytes: usize) -> Usage {
        let output_tokens = (said_bytes as u64 / 4).min(u64::from(request.tokens_max));
        let usd = self.sent(request) + self.cost(&Usage { output_tokens, ..Usage::default() });
        let input_tokens = modest(estimate(request).input_tokens);
        Usage { input_tokens, output_tokens, usd, usd_guessed: usd, ..Usage::default() }
    }

    /// What is sent costs. Four bytes are a token; but none is counted on to come from the provider's cache, which may have
    /// forgotten it, and where keeping it there is dearer than reading it, it is kept.
    fn sent(&self, request: &ModelRequest) -> Usd {
        if *self == Self::FREE {
            return Usd(0);
        }
        let tokens = modest(estimate(request).input_tokens);
        let read = self.cost(&Usage { input_tokens: tokens, ..Usage::default() });
        read.max(self.cost(&Usage { cache_write_tokens: tokens, ..Usage::default() }))
    }

    fn dearer(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }
}

impl Rate {
    fn read(dollars: f64) -> Option<Self> {
        (0.0..=PRICE_MAX).contains(&dollars).then(|| Self((dollars * 1000.0).round() as u64))
    }
}

/// `*` stands for any text, also for none.
fn fits(pattern: &str, model: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| model.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, read: u64, write: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: write,
            ..Usage::default()
        }
    }

    #[test]
    fn the_checked_in_table_is_good_and_holds_the_default_models() {
        assert!(CHECKED_IN.is_ok(), "{:?}", CHECKED_IN.as_ref().err());
        let million = usage(1_000_000, 1_000_000, 1_000_000, 1_000_000);
        let cost = |model: &str, usage: &Usage| listed(model).map(|price| price.cost(usage));
        assert_eq!(cost("anthropic/claude-sonnet-4-5", &million), Some(Usd(22_050_000)));
        assert_eq!(cost("anthropic/claude-sonnet-4-5-20250929", &million), Some(Usd(22_050_000)));
        assert_eq!(cost("scripted/scenario", &million), Some(Usd(0)));
        assert_eq!(cost("ollama/qwen3:8b", &million), Some(Usd(0)));
        assert_eq!(cost("mine/unheard-of", &million), None);
        assert_eq!(cost("anthropic/claude-opus-4-7", &million), Some(Usd(36_750_000)));
        assert_eq!(cost("anthropic/claude-opus-4-1-20250805", &million), Some(Usd(110_250_000)));
        assert_eq!(cost("openrouter/anthropic/claude-haiku-4.5", &million), Some(Usd(7_350_000)));
        assert_eq!(cost("openai/gpt-5-2025-08-07", &million), cost("openai/gpt-5", &million));
        assert_eq!(cost("openai/gpt-5.9", &million), None);
    }

    #[test]
    fn parts_of_a_millionth_are_rounded_up() {
        let table = Table::parse("[[price]]\nmodels = ['a/*']\ninput = 0.05\noutput = 1\ncache_read = 0.001").unwrap();
        let cost = |usage: Usage| table.price("a/b").map(|price| price.cost(&usage));
        assert_eq!(cost(usage(1, 0, 0, 0)), Some(Usd(1)));
        assert_eq!(cost(usage(100, 7, 0, 0)), Some(Usd(12)));
        assert_eq!(cost(usage(0, 0, 1000, 0)), Some(Usd(1)));
        assert_eq!(cost(usage(0, 0, 0, 20)), Some(Usd(1)), "unpriced cache writes cost like input");
        assert_eq!(cost(usage(u64::MAX, u64::MAX, 0, 0)), Some(Usd(u64::MAX)));
    }

    #[test]
    fn what_nobody_knows_the_price_of_is_as_dear_as_the_dearest() {
        let million = usage(1_000_000, 1_000_000, 1_000_000, 1_000_000);
        let all = CHECKED_IN.as_ref().unwrap().prices.iter().map(|(_, price)| price.cost(&million));
        assert!(dearest().cost(&million) >= all.max().unwrap());
        assert!(dearest().cost(&usage(1_000_000, 0, 0, 0)) >= Usd(15_000_000), "{:?}", dearest());
    }

    fn three_hundred_letters() -> ModelRequest {
        let (role, system) = (choir_proto::Role::Writer, "x".repeat(300));
        ModelRequest { model: None, role, system, messages: Vec::new(), tools: Vec::new(), tokens_max: 50 }
    }

    #[test]
    fn an_answer_that_says_nothing_of_what_it_took_is_guessed_at() {
        let request = three_hundred_letters();
        let message = AssistantMessage { text: "y".repeat(30), ..AssistantMessage::default() };
        assert_eq!(guess(&request, &message), usage(100, 10, 0, 0));
    }

    #[test]
    fn an_estimate_counts_everything_that_is_sent() {
        let mut request = three_hundred_letters();
        assert_eq!((estimate(&request).input_tokens, estimate(&request).output_tokens), (100, 50));
        let image = Part::Image { media_type: "image/png".to_owned(), data: "A".repeat(1000) };
        request.messages = vec![Message::user("y".repeat(31)), Message::User { parts: vec![image] }];
        assert_eq!(estimate(&request).input_tokens, 100 + 11 + IMAGE_TOKENS);
    }

    #[test]
    fn an_answer_is_as_long_as_what_is_left_pays_for() {
        let rates = Rates { input: 10.0, output: 100.0, cache_read: Some(1.0), cache_write: None };
        let price = Price::read(rates).unwrap();
        let mut request = three_hundred_letters();
        // 75 tokens are sent, for 750 millionths of a dollar.
        assert_eq!(price.affordable(&request, Usd(10_750)), 100);
        assert_eq!((price.affordable(&request, Usd(749)), price.least(&request)), (0, Usd(5_750)));
        let broken = price.unfinished(&request, 40);
        assert_eq!((broken.tokens(), broken.usd, broken.usd_guessed), (85, Usd(1_750), Usd(1_750)));
        let endless = price.unfinished(&request, 10 << 20);
        assert_eq!(endless.output_tokens, u64::from(request.tokens_max), "what was not asked for is not paid for");
        request.tokens_max = 5_000;
        assert_eq!(price.least(&request), Usd(750 + 6_400), "a long one may be cut down to a short one");
        request.messages = vec![Message::Assistant(AssistantMessage::default()), Message::user("y".repeat(12))];
        assert_eq!(price.affordable(&request, Usd(10_780)), 100, "what was sent before may be forgotten");
        let kept = Price::read(Rates { cache_write: Some(12.5), ..rates }).unwrap();
        assert_eq!(kept.affordable(&request, Usd(10_975)), 100, "what is kept costs what keeping costs");
        assert_eq!((Price::FREE.affordable(&request, Usd(0)), Price::FREE.least(&request)), (u32::MAX, Usd(0)));
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, model, yes) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a/b*", "a/bc", true),
            ("*/b", "x/y/b", true),
            ("*/b*", "x/ab", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, model), yes, "{pattern} {model}");
        }
    }

    #[test]
    fn a_bad_table_is_refused() {
        let check = |text: &str, message: &str| {
            let problem = Table::parse(text).unwrap_err().to_string();
            assert!(problem.contains(message), "{problem}");
        };
        check("[[price]]\nmodels = ['a']\ninput = -1\noutput = 1", "the price of a is wrong");
        check("[[price]]\nmodels = ['a']\ninput = nan\noutput = 1", "the price of a is wrong");
        check("[[price]]\nmodels = ['a']\ninput = 1\noutpt = 1", "line 4");
        check("price = 3", "line 1");
    }
}
