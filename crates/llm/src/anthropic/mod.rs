//! Anthropic Messages.

pub(crate) mod request;
pub(crate) mod speak;
pub(crate) mod stream;
mod thoughts;
