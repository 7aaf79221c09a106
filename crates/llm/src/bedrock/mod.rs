//! AWS Bedrock Converse: JSON in frames of an event stream, requests signed with the account's secret.

pub(crate) mod frames;
pub(crate) mod request;
mod sign;
pub(crate) mod speak;
pub(crate) mod stream;

pub use sign::{Credentials, amz_date, sign};
