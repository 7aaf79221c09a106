//! The formats that providers speak, and the doors into each.

use crate::endpoint::{Endpoint, Outgoing};
use crate::{anthropic, openai};
use choir_proto::model::{Answer, ModelRequest};

/// A family of providers that speak the same wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI chat completions, and everything that is compatible with them.
    OpenAi,
    /// AWS Bedrock Converse.
    #[cfg(feature = "bedrock")]
    Bedrock,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Anthropic,
        Self::OpenAi,
        #[cfg(feature = "bedrock")]
        Self::Bedrock,
    ];

    /// The word for it in the configuration: `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            #[cfg(feature = "bedrock")]
            Self::Bedrock => "bedrock",
        }
    }

    /// The format of a configured `kind`; nothing for kinds that are no wire format.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

/// A request as it goes to a provider. Streaming and usage reports are always asked for.
pub fn encode(format: Format, endpoint: &Endpoint<'_>, request: &ModelRequest) -> Outgoing {
    match format {
        Format::Anthropic => anthropic::request::encode(endpoint, request),
        Format::OpenAi => openai::request::encode(endpoint, request),
        #[cfg(feature = "bedrock")]
        Format::Bedrock => crate::bedrock::request::encode(endpoint, request),
    }
}

/// The bytes that a provider would have streamed for an answer, its text in pieces of so many characters: for servers
/// that stand in for providers. Money is not on the wire.
pub fn encode_stream(format: Format, answer: &Answer, chunk_chars: usize) -> Vec<u8> {
    match format {
        Format::Anthropic => anthropic::speak::stream(answer, chunk_chars),
        Format::OpenAi => openai::speak::stream(answer, chunk_chars),
        #[cfg(feature = "bedrock")]
        Format::Bedrock => crate::bedrock::speak::stream(answer, chunk_chars),
    }
}
