//! What is said to model providers and how their answers are read, as pure functions over bytes.
//!
//! A request becomes an [`Outgoing`] by [`encode`]; the bytes that come back go through a [`Decoder`] or, when the
//! status was no success, through [`classify`]. [`scripted`] answers from a file instead of a model, and [`price`] says
//! what an answer cost.
//!
//! Deliberately absent: sockets, async, clocks, retries and any knowledge of tools. Control opens the connection, `core`
//! decides what a failure means, and a tool call is only a name with arguments here.

mod anthropic;
mod arguments;
mod assembly;
#[cfg(feature = "bedrock")]
pub mod bedrock;
mod classify;
mod conversation;
mod decode;
mod endpoint;
mod format;
mod openai;
pub mod price;
pub mod scripted;
mod secret;
mod sse;
pub mod transcript;

pub use arguments::{ARGUMENTS_BYTES_MAX, MALFORMED_BYTES_MAX};
pub use assembly::{ANSWER_BYTES_MAX, NAME_BYTES_MAX, TOOL_CALLS_MAX, USAGE_TOKENS_MAX};
pub use classify::{MESSAGE_CHARS_MAX, RETRY_AFTER_MS_MAX, classify};
pub use decode::{BODY_BYTES_MAX, Decoder};
pub use endpoint::{Endpoint, Outgoing, Preset};
pub use format::{Format, encode, encode_stream};
pub use secret::{KEY_BYTES_MAX, REDACTED, Secret, SecretError, redact};
pub use sse::{EVENT_BYTES_MAX, Parser as EventParser};
