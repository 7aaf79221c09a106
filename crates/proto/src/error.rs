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

/// The path at which a reader of JSON stopped, as far as it knows one: `.` is everything, and `?` what it had not read yet.
pub fn place(path: &str) -> Option<&str> {
    Some(path.trim_end_matches(['?', '.'])).filter(|known| !known.is_empty())
}

/// What a reader of JSON says is wrong, with the names of our own types replaced by what everybody calls them.
pub fn in_words(said: &str) -> String {
    let Some((before, after)) = said.split_once("expected ") else { return said.to_owned() };
    let (wanted, place) = after.split_at(after.find(" at line ").unwrap_or(after.len()));
    let wanted = match wanted.split(' ').next().unwrap_or_default() {
        "struct" | "map" | "internally" | "adjacently" | "externally" => "an object",
        "tuple" => "an array",
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "enum" => "one of the words of the description",
        "unit" => "`null`",
        _ => wanted,
    };
    format!("{before}expected {wanted}{place}")
}
