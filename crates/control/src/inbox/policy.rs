//! Which tool calls need a yes.

use choir_proto::Hash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// How names of tools from elsewhere begin: nobody here has read what they do.
pub(crate) const ELSEWHERE: &str = "mcp__";

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ToolPolicy)]
pub enum Policy {
    /// It is done.
    Auto,
    /// A person is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// `[tools]`: a policy for each tool, by name, or by a beginning of names that ends in `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Tools(pub BTreeMap<String, Policy>);

impl Tools {
    /// The policy for a tool: its own, else that of the longest beginning that fits, else what is usual.
    pub fn policy(&self, tool: &str) -> Policy {
        let fits = |name: &str| name.strip_suffix('*').is_some_and(|start| tool.starts_with(start));
        let longest = self.0.iter().filter(|(name, _)| fits(name)).max_by_key(|(name, _)| name.len());
        let said = self.0.get(tool).or(longest.map(|(_, policy)| policy));
        let usual = if is_from_elsewhere(tool) { Policy::Ask } else { Policy::Auto };
        said.copied().unwrap_or(usual)
    }

    /// Whether every call of a tool may be. One from elsewhere is looked at each time: it may have changed.
    pub fn is_free(&self, tool: &str) -> bool {
        !is_from_elsewhere(tool) && self.policy(tool) == Policy::Auto
    }
}

/// Whether a server elsewhere has the tool.
pub(super) fn is_from_elsewhere(tool: &str) -> bool {
    tool.starts_with(ELSEWHERE)
}

/// Under what a call is made, apart from what it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<'a> {
    /// In a sandbox that can reach this, by name. Where it runs and with what variables is the same for every task.
    Reach(&'a str),
    /// By a server elsewhere that offered the tool as this.
    Definition(Hash),
}

/// What an approval of a call is bound to: which tool, under what it would run or as what it was offered, and what it would
/// do, byte for byte.
pub fn hash_of_call(tool: &str, subject: &str, bound: Bound<'_>) -> Hash {
    let (sort, bound): (&[u8], &[u8]) = match &bound {
        Bound::Reach(names) => (b"\0reach\0", names.as_bytes()),
        Bound::Definition(definition) => (b"\0definition\0", &definition.0),
    };
    let parts: [&[u8]; 6] = [b"choir.call.2\0", tool.as_bytes(), &[0], subject.as_bytes(), sort, bound];
    Hash(Sha256::digest(parts.concat()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_about_a_tool_counts() {
        let said = [("bash", Policy::Ask), ("mcp__files__*", Policy::Auto), ("mcp__files__delete", Policy::Deny)];
        let tools = Tools(said.map(|(name, policy)| (name.to_owned(), policy)).into());
        assert_eq!(tools.policy("bash"), Policy::Ask);
        assert_eq!(tools.policy("read_file"), Policy::Auto);
        assert_eq!(tools.policy("mcp__files__read"), Policy::Auto);
        assert_eq!(tools.policy("mcp__files__delete"), Policy::Deny);
        assert_eq!(tools.policy("mcp__other__read"), Policy::Ask, "what comes from elsewhere is asked about");
    }

    #[test]
    fn a_call_that_differs_in_a_byte_has_another_hash() {
        let alone = Bound::Reach("");
        let hash = hash_of_call("bash", "rm a", alone);
        assert_ne!(hash, hash_of_call("bash", "rm a ", alone));
        assert_ne!(hash, hash_of_call("bas", "hrm a", alone));
        assert_ne!(hash, hash_of_call("bash", "rm a", Bound::Definition(Hash::ZERO)));
        assert_ne!(hash, hash_of_call("bash", "rm a", Bound::Reach("registries")), "with another way out");
    }
}
