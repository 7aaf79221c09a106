//! Anthropic's reasoning comes in blocks, each signed, and wants to come back exactly so. Between the calls it is one text
//! and one opaque token; this is the token.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One block of reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Thought {
    /// So many bytes of the reasoning text, with the provider's signature.
    Signed { bytes: usize, signature: String },
    /// Reasoning that only the provider can read.
    Redacted { redacted: String },
}

/// The token for some blocks: the bare signature in the common case of one block, else a list.
pub(super) fn token(thoughts: &[Thought]) -> String {
    match thoughts {
        [] => String::new(),
        [Thought::Signed { signature, .. }] => signature.clone(),
        several => json!(several).to_string(),
    }
}

/// The blocks of a reasoning text as the wire wants them back; none without signatures, because unsigned ones are refused.
pub(super) fn blocks(reasoning: &str, token: &str) -> Vec<Value> {
    if token.is_empty() {
        return Vec::new();
    }
    let Ok(thoughts) = serde_json::from_str::<Vec<Thought>>(token) else {
        return vec![thinking(reasoning, token)];
    };
    let mut rest = reasoning;
    let mut blocks = Vec::with_capacity(thoughts.len());
    for thought in thoughts {
        match thought {
            Thought::Redacted { redacted } => blocks.push(json!({"type": "redacted_thinking", "data": redacted})),
            Thought::Signed { bytes, signature } => {
                // A token that does not fit its text was not made here: better no reasoning than a false one.
                let Some((text, after)) = rest.split_at_checked(bytes) else { return Vec::new() };
                blocks.push(thinking(text, &signature));
                rest = after;
            }
        }
    }
    blocks
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_went() {
        let signed = |bytes, signature: &str| Thought::Signed { bytes, signature: signature.to_owned() };
        assert_eq!(token(&[signed(3, "s")]), "s");
        assert_eq!(blocks("abc", "s"), [thinking("abc", "s")]);
        let several = token(&[signed(3, "s"), Thought::Redacted { redacted: "r".to_owned() }, signed(2, "t")]);
        let redacted = json!({"type": "redacted_thinking", "data": "r"});
        assert_eq!(blocks("abcde", &several), [thinking("abc", "s"), redacted, thinking("de", "t")]);
    }

    #[test]
    fn a_token_that_does_not_fit_gives_nothing() {
        assert!(blocks("abc", "").is_empty());
        assert!(blocks("a", r#"[{"bytes": 3, "signature": "s"}]"#).is_empty());
    }
}
