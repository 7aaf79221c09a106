//! Tools from elsewhere, as they were offered to an agent.

use crate::Hash;
use serde::{Deserialize, Serialize};

payload! {
    /// A server offered tools to a task. What it says of them is data; a later offer of the same server replaces this one.
    ToolsOffered {
        /// The server's name in the configuration.
        server: String,
        /// The tools, in the server's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<OfferedTool>,
        /// Why the server, or some of its tools, cannot be used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    }
}

/// A tool from elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OfferedTool {
    /// As the model sees it: `mcp__SERVER__TOOL`.
    pub name: String,
    /// What the server says of it; data.
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: serde_json::Value,
    /// Of name, description and schema, as the server gave them: what is approved is this very tool.
    pub definition: Hash,
}
