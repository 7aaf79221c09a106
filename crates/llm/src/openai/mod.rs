//! OpenAI chat completions, and the many servers that speak nearly the same.

pub(crate) mod request;
pub(crate) mod speak;
pub(crate) mod stream;
mod tags;

/// What the last event says instead of JSON.
pub(crate) const DONE: &str = "[DONE]";
