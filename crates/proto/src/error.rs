//! The one shape in which anything is refused.

use serde::{Deserialize, Serialize};

/// Why a request was refused and how to mend it: `{"error": {"code", "message", "hint"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{}", error.message)]
pub struct ApiError {
    /// The refusal.
    pub error: Refusal,
}

/// What is inside every [`ApiError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Refusal {
    /// Stable, `snake_case`; programs decide by it.
    pub code: String,
    /// One sentence for a person.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl ApiError {
    /// Builds a refusal from its three parts.
    pub fn new(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { error: Refusal { code: code.into(), message: message.into(), hint: hint.into() } }
    }
}
