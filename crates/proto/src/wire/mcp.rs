//! Tools of MCP servers: control speaks to the servers, the computer to control.

use crate::event::ToolsOffered;
use crate::{Hash, InboxId, Role, RunId, TaskId};
use serde::{Deserialize, Serialize};

/// Which tools from elsewhere a task has: `POST /mcp/tools`, answered by [`Offers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatTools {
    /// Whose sandbox the servers run in.
    pub task: TaskId,
    /// Who would use them.
    pub role: Role,
}

/// What every configured server offers, or why it does not. Nothing is configured where this is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offers {
    /// One for each server, by name.
    pub offers: Vec<ToolsOffered>,
}

/// Call a tool: `POST /mcp/call`, answered by [`Called`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTool {
    /// Whose sandbox the server runs in.
    pub task: TaskId,
    /// The run that it belongs to.
    pub run: RunId,
    /// Under which start and end are recorded.
    pub effect_id: String,
    /// Under which the person was asked.
    pub inbox_id: InboxId,
    /// `mcp__SERVER__TOOL`
    pub tool: String,
    /// The tool as the model was told of it; another one is not called.
    pub definition: Hash,
    /// What it is called with.
    pub arguments: serde_json::Value,
    /// Wall; the server's own may be nearer.
    pub timeout_ms: u64,
}

/// What a tool from elsewhere answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "called", rename_all = "snake_case")]
pub enum Called {
    /// An answer; data.
    Answered {
        /// Text, and words about what is not text.
        content: String,
        /// Whether the tool says that it failed.
        is_error: bool,
    },
    /// It did not happen.
    Failed {
        /// Why.
        message: String,
    },
    /// It was sent, and nobody knows what came of it.
    Unknown {
        /// Why.
        message: String,
    },
}
