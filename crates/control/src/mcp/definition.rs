//! What a server says of its tools, taken with care: names that cannot be mistaken, texts that end, and a hash by which
//! the very tool is known again.

use crate::gateway::veil;
use choir_llm::Secret;
use choir_proto::Hash;
use choir_proto::event::OfferedTool;
use rmcp::model::Tool;
use sha2::{Digest, Sha256};

/// How the names of tools from elsewhere begin.
pub(super) const PREFIX: &str = "mcp__";
/// What stands between server and tool.
pub(super) const BETWEEN: &str = "__";
/// Longest name that every provider takes.
const NAME_BYTES_MAX: usize = 64;
/// Tools of one server. A model does not choose well among more.
const TOOLS_MAX: usize = 64;
/// Of one tool's description, in characters. More is not a description.
const DESCRIPTION_CHARS_MAX: usize = 1024;
/// Of one tool's schema.
const SCHEMA_BYTES_MAX: usize = 16 << 10;
/// Of all that one server says: it is told to the model with every turn, and kept in one event.
const OFFER_BYTES_MAX: usize = 48 << 10;
/// How much of a bad name is shown.
const SHOWN_CHARS_MAX: usize = 64;

/// The tools of a server, and what was wrong with others.
#[derive(Debug, Clone, Default)]
pub(super) struct Definitions {
    pub(super) tools: Vec<OfferedTool>,
    pub(super) problem: Option<String>,
}

/// Reads what a server says, without the token that it was given.
pub(super) fn read(server: &str, token: Option<&Secret>, tools: Vec<Tool>) -> Definitions {
    let token = token.and_then(veil::to_hide);
    let mut read = Definitions::default();
    let (mut refused, mut bytes) = (Vec::new(), 0);
    for tool in tools {
        let taken = read_one(server, token, &tool).and_then(|offered| {
            bytes += offered.description.len() + offered.input_schema.to_string().len();
            match () {
                () if read.tools.len() >= TOOLS_MAX || bytes > OFFER_BYTES_MAX => Err("there are too many".to_owned()),
                () if read.tools.iter().any(|known| known.name == offered.name) => Err("it is there twice".to_owned()),
                () => Ok(offered),
            }
        });
        match taken {
            Ok(offered) => read.tools.push(offered),
            Err(why) => refused.push(format!("`{}`: {why}", shown(token, &tool.name))),
        }
    }
    if let Some(first) = refused.first() {
        let others = refused.len() - 1;
        let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
        read.problem = Some(format!("The server `{server}` has tools that cannot be used. {first}{more}."));
    }
    read
}

fn read_one(server: &str, token: Option<&str>, tool: &Tool) -> Result<OfferedTool, String> {
    let name = format!("{PREFIX}{server}{BETWEEN}{}", tool.name);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if tool.name.is_empty() || name.len() > NAME_BYTES_MAX || !tool.name.bytes().all(good) {
        return Err("this is no name for a tool".to_owned());
    }
    if token.is_some_and(|token| tool.name.contains(token)) {
        return Err("its name holds the token of the server".to_owned());
    }
    let mut input_schema = serde_json::Value::Object((*tool.input_schema).clone());
    let schema = input_schema.to_string();
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!("its schema is longer than {SCHEMA_BYTES_MAX} bytes"));
    }
    if input_schema.get("type").is_some_and(|kind| kind != "object") {
        return Err("its arguments are no object".to_owned());
    }
    let said = tool.description.as_deref().unwrap_or_default();
    let parts: [&[u8]; 6] = [b"choir.tool.1\0", name.as_bytes(), &[0], schema.as_bytes(), &[0], said.as_bytes()];
    let definition = Hash(Sha256::digest(parts.concat()).into());
    let mut description = said.to_owned();
    // Before it is cut: of what is cut, a part would be left.
    if let Some(token) = token {
        veil::hide(&mut description, token);
        veil::hide_in(&mut input_schema, token);
    }
    Ok(OfferedTool { name, description: plain(&description), input_schema, definition })
}

/// Without what would steer a terminal or fill a page.
fn plain(text: &str) -> String {
    let mut plain: String =
        text.chars().filter(|c| !c.is_control() || *c == '\n').take(DESCRIPTION_CHARS_MAX).collect();
    if plain.len() < text.len() && plain.chars().count() == DESCRIPTION_CHARS_MAX {
        plain.push('…');
    }
    plain
}

fn shown(token: Option<&str>, name: &str) -> String {
    let mut name = name.to_owned();
    if let Some(token) = token {
        veil::hide(&mut name, token);
    }
    name.chars().take(SHOWN_CHARS_MAX).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, schema: serde_json::Value) -> Tool {
        let text = serde_json::json!({"name": name, "description": description, "inputSchema": schema});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn good_tools_are_taken_and_bad_ones_are_named() {
        let object = serde_json::json!({"type": "object"});
        let huge = serde_json::json!({"type": "object", "description": "x".repeat(SCHEMA_BYTES_MAX)});
        let read = read(
            "s",
            None,
            vec![
                tool("good", "Reads.\u{1b}[2J", object.clone()),
                tool("good", "Again.", object.clone()),
                tool("bash; rm", "", object.clone()),
                tool(&"n".repeat(60), "", object.clone()),
                tool("list", "", serde_json::json!({"type": "array"})),
                tool("huge", "", huge),
                tool("long", &"y".repeat(5000), object),
            ],
        );
        let names: Vec<_> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["mcp__s__good", "mcp__s__long"]);
        assert_eq!(read.tools[0].description, "Reads.[2J");
        assert_eq!(read.tools[1].description.chars().count(), DESCRIPTION_CHARS_MAX + 1);
        let problem = read.problem.unwrap();
        assert!(problem.contains("`good`: it is there twice") && problem.contains("and 4 more"), "{problem}");
    }

    #[test]
    fn a_tool_that_differs_in_anything_is_another_one() {
        let object = serde_json::json!({"type": "object"});
        let definition = |tool: Tool| read("s", None, vec![tool]).tools[0].definition;
        let first = definition(tool("a", "x", object.clone()));
        assert_eq!(first, definition(tool("a", "x", object.clone())));
        let long = "y".repeat(5000);
        for other in [
            tool("b", "x", object.clone()),
            tool("a", "x ", object.clone()),
            tool("a", "x", serde_json::json!({"type": "object", "required": ["n"]})),
        ] {
            assert_ne!(first, definition(other));
        }
        // What is too long to be shown counts too.
        assert_ne!(
            definition(tool("a", &long, object.clone())),
            definition(tool("a", &format!("{long} and more"), object))
        );
    }

    #[test]
    fn what_a_server_says_of_its_tools_is_said_without_its_token() {
        let token = "tok-plain-words-1";
        let secret = Secret::parse(token).unwrap();
        let object = serde_json::json!({"type": "object", "properties": {token: {"description": token}}});
        // The cut would leave all but the last letter of it.
        let said = format!("{}{token}", "y".repeat(DESCRIPTION_CHARS_MAX - token.len() + 1));
        let tools = vec![
            tool("good", &said, object.clone()),
            tool(token, "", object.clone()),
            tool(&format!("{token}!"), "", object),
        ];
        let read = read("s", Some(&secret), tools);
        assert_eq!(read.tools.len(), 1, "{read:?}");
        assert!(!format!("{read:?}").contains(&token[..token.len() - 1]), "{read:?}");
        assert!(read.problem.is_some_and(|problem| problem.contains("holds the token")));
    }
}
