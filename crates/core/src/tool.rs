//! The tools of each role: how a model sees them, and what its words mean once parsed.

mod spec;

pub use spec::specs;

use choir_proto::egress::impossible;
use choir_proto::event::OfferedTool;
use choir_proto::model::ToolCall;
use choir_proto::task::{Delegation, TaskStatus};
use choir_proto::{Hash, Role};
use serde::Deserialize;

/// The tool that ends an agent's work. Nobody can be without it.
pub const FINISH: &str = "finish";

/// How the names of tools from elsewhere begin.
pub const ELSEWHERE: &str = "mcp__";

/// The tool that begins another agent.
pub const DELEGATE: &str = "delegate";

/// A tool call whose arguments are understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Tool {
    /// Give work to another agent.
    Delegate(Box<Delegation>),
    /// The run's short answer.
    Answer(Answer),
    /// The agent has nothing more to do.
    Finish(Finish),
    /// Put something to the conductor or the person, and wait for the answer.
    Request(Request),
    /// Read the run's document.
    ReadDocument(ReadDocument),
    /// Write the run's document as a whole.
    WriteDocument(WriteDocument),
    /// Change one place of the run's document.
    EditDocument(Replace),
    /// Run a command.
    Bash(Bash),
    /// Read a file.
    ReadFile(PathOnly),
    /// Write a file as a whole.
    WriteFile(WriteFile),
    /// Change one place of a file.
    EditFile(ReplaceInFile),
    /// List a folder.
    ListFiles(PathOnly),
    /// Show that a source holds words.
    Cite(Cite),
    /// Read a page.
    FetchUrl(FetchUrl),
    /// Look for pages.
    WebSearch(Query),
    /// Look through what is kept here.
    Search(Query),
    /// Look for lines in files.
    SearchFiles(SearchFiles),
    /// A tool of an MCP server.
    Elsewhere(Elsewhere),
}

/// A call of a tool that somebody else made.
#[derive(Debug, Clone, PartialEq)]
pub struct Elsewhere {
    /// The tool as it was offered: another one of the same name is not meant.
    pub definition: Hash,
    /// They fit its schema.
    pub arguments: serde_json::Value,
}

/// Arguments of `fetch_url`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchUrl {
    /// Where.
    pub url: String,
}

/// Arguments of `web_search` and `search`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// What for.
    pub query: String,
}

/// Arguments of `search_files`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchFiles {
    /// An extended regular expression.
    pub pattern: String,
    /// Relative to the workspace.
    #[serde(default = "here")]
    pub path: String,
}

/// Arguments of `cite`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cite {
    /// An artifact's id, a content hash, or `output` for what the commands of this run printed.
    pub source: String,
    /// The words, exactly as they stand there.
    pub quote: String,
}

/// Arguments of `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The words.
    pub text: String,
}

/// Arguments of `finish`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// What was done.
    pub summary: String,
    /// How it went; nothing means well.
    #[serde(default)]
    pub status: Option<FinishStatus>,
}

/// Arguments of `request`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Why the worker cannot go on.
    pub kind: RequestKind,
    /// What it needs to know, complete in itself.
    pub question: String,
    /// How long it can wait.
    #[serde(default)]
    pub deadline_s: Option<f64>,
}

/// Why a worker cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Something is missing.
    Blocked,
    /// Something needs a yes.
    Approval,
    /// Two things cannot both be.
    Conflict,
    /// Something else should come first.
    Reprioritise,
}

impl RequestKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Approval => "approval",
            Self::Conflict => "conflict",
            Self::Reprioritise => "reprioritise",
        }
    }
}

/// What an agent may say of its own work. Whether it is true is somebody else's to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishStatus {
    /// Done as asked.
    #[serde(alias = "completed", alias = "success", alias = "done")]
    Ok,
    /// Not done.
    #[serde(alias = "error")]
    Failed,
    /// Cannot go on without an answer.
    #[serde(alias = "blocked")]
    NeedsInput,
}

impl From<FinishStatus> for TaskStatus {
    fn from(status: FinishStatus) -> Self {
        match status {
            FinishStatus::Ok => Self::Ok,
            FinishStatus::Failed => Self::Failed,
            FinishStatus::NeedsInput => Self::NeedsInput,
        }
    }
}

/// Arguments of `write_document`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteDocument {
    /// For people.
    pub title: String,
    /// Markdown.
    pub content: String,
}

/// Arguments of `read_document`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadDocument {
    /// Nothing means the run's own.
    #[serde(default)]
    pub document_id: Option<choir_proto::DocumentId>,
}

/// Arguments of `edit_document`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// Nothing means the run's own.
    #[serde(default)]
    pub document_id: Option<choir_proto::DocumentId>,
    /// What is there, exactly once.
    pub old: String,
    /// What shall be there.
    pub new: String,
}

/// Arguments of `edit_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceInFile {
    /// Relative to the workspace.
    pub path: String,
    /// What is there, exactly once.
    pub old: String,
    /// What shall be there.
    pub new: String,
}

/// Arguments of `bash`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bash {
    /// For `sh -c`.
    pub command: String,
    /// Wall.
    #[serde(default)]
    pub timeout_s: Option<f64>,
}

/// Arguments of tools that need a path only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathOnly {
    /// Relative to the workspace.
    #[serde(default = "here")]
    pub path: String,
}

/// Arguments of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Relative to the workspace.
    pub path: String,
    /// The whole text.
    pub content: String,
}

fn here() -> String {
    ".".into()
}

/// What happens when a call is cut short by a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Changes nothing: just do it again.
    Pure,
    /// Done again under its name it is done once: it ends at the same, what it appends comes with its result, or whoever
    /// does it knows the name.
    Idempotent,
    /// Leaves a mark outside of the log: look it up, and if nobody knows, say so.
    Effect,
}

/// What a call may find as an earlier one of the same answer has left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Files,
    Document,
}

/// What a call does to its ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touch {
    Looks,
    Changes,
}

impl Tool {
    /// What happens when this call is cut short by a crash.
    pub fn nature(&self) -> Nature {
        match self {
            // Nobody here has read what a tool from elsewhere does, whatever it says of itself.
            Self::Bash(_) | Self::Elsewhere(_) => Nature::Effect,
            // Writing the same bytes to the same file again gives the same file.
            Self::WriteFile(_) => Nature::Idempotent,
            // An edit that was made finds its old text again, or not at all: control knows by its name whether it was.
            Self::EditFile(_) => Nature::Idempotent,
            Self::Delegate(_) | Self::Answer(_) | Self::Finish(_) => Nature::Idempotent,
            // Asked again under the same name, the person is not asked again.
            Self::Request(_) => Nature::Idempotent,
            Self::WriteDocument(_) | Self::EditDocument(_) | Self::Cite(_) => Nature::Idempotent,
            // A page that is fetched twice is read twice; nothing outside changes by a `GET`.
            Self::FetchUrl(_) => Nature::Idempotent,
            Self::ReadDocument(_) | Self::ReadFile(_) | Self::ListFiles(_) => Nature::Pure,
            Self::WebSearch(_) | Self::Search(_) | Self::SearchFiles(_) => Nature::Pure,
        }
    }

    /// Whether this call has to wait for an earlier one of the same answer, because it may find something else after it, or
    /// change what the earlier one was to find. Whoever works elsewhere is independent, and so are all who only look.
    pub fn follows(&self, earlier: &Self) -> bool {
        match (self.touches(), earlier.touches()) {
            (Some((ground, touch)), Some((before, touched))) => {
                ground == before && (touch == Touch::Changes || touched == Touch::Changes)
            }
            _ => false,
        }
    }

    fn touches(&self) -> Option<(Ground, Touch)> {
        match self {
            // What a command does nobody knows beforehand.
            Self::Bash(_) | Self::WriteFile(_) | Self::EditFile(_) => Some((Ground::Files, Touch::Changes)),
            Self::ReadFile(_) | Self::ListFiles(_) | Self::SearchFiles(_) => Some((Ground::Files, Touch::Looks)),
            Self::WriteDocument(_) | Self::EditDocument(_) => Some((Ground::Document, Touch::Changes)),
            Self::ReadDocument(_) => Some((Ground::Document, Touch::Looks)),
            Self::Delegate(_) | Self::Answer(_) | Self::Finish(_) | Self::Request(_) | Self::Elsewhere(_) => None,
            Self::Cite(_) | Self::FetchUrl(_) | Self::WebSearch(_) | Self::Search(_) => None,
        }
    }

    /// What a person sees before they say yes to a call: the command itself, or the arguments. Nothing for calls that
    /// touch nothing but the agent's own work.
    pub fn subject(&self, call: &ToolCall) -> Option<String> {
        match self {
            Self::Finish(_) | Self::Answer(_) | Self::Request(_) => None,
            Self::Bash(bash) => Some(bash.command.clone()),
            _ => Some(call.arguments.to_string()),
        }
    }

    /// The tool itself, where it comes from elsewhere.
    pub fn definition(&self) -> Option<Hash> {
        match self {
            Self::Elsewhere(elsewhere) => Some(elsewhere.definition),
            _ => None,
        }
    }

    /// Understands a call, or says to the model what is wrong with it. `offered` are tools from elsewhere.
    pub fn parse(role: Role, offered: &[OfferedTool], call: &ToolCall) -> Result<Self, String> {
        let elsewhere = offered.iter().find(|tool| tool.name == call.name);
        if elsewhere.is_none() && !specs(role).iter().any(|spec| spec.name == call.name) {
            let own = specs(role).iter().map(|spec| spec.name.as_str());
            let names: Vec<_> = own.chain(offered.iter().map(|tool| tool.name.as_str())).collect();
            return Err(format!("There is no tool `{}` here. The tools are: {}.", call.name, names.join(", ")));
        }
        if let Some(raw) = &call.malformed {
            return Err(format!("The arguments of `{}` are not JSON: {raw}", call.name));
        }
        let unfit = |error: String| format!("The arguments of `{}` do not fit its schema: {error}.", call.name);
        let tool = match elsewhere {
            Some(tool) => Self::parse_elsewhere(tool, &call.arguments).map_err(unfit)?,
            None => {
                Self::parse_arguments(&call.name, call.arguments.clone()).map_err(|error| unfit(error.to_string()))?
            }
        };
        match tool.blank() {
            Some(field) => Err(format!("`{field}` of `{}` says nothing.", call.name)),
            None => tool.possible(),
        }
    }

    /// Work that could never begin is refused with a reason before anybody is asked to do it.
    fn possible(self) -> Result<Self, String> {
        match &self {
            Self::Delegate(delegation) => impossible(delegation.egress.as_ref()).map_or(Ok(self), Err),
            _ => Ok(self),
        }
    }

    /// The argument that has to say something and does not: an empty word is no result, no plan and no document.
    fn blank(&self) -> Option<&'static str> {
        let (field, text) = match self {
            Self::Finish(finish) => ("summary", &finish.summary),
            Self::Answer(answer) => ("text", &answer.text),
            Self::Request(request) => ("question", &request.question),
            Self::Delegate(delegation) => ("objective", &delegation.objective),
            Self::WriteDocument(write) => ("content", &write.content),
            Self::Cite(cite) => ("quote", &cite.quote),
            Self::WebSearch(search) | Self::Search(search) => ("query", &search.query),
            Self::SearchFiles(search) => ("pattern", &search.pattern),
            _ => return None,
        };
        text.trim().is_empty().then_some(field)
    }

    fn parse_elsewhere(tool: &OfferedTool, arguments: &serde_json::Value) -> Result<Self, String> {
        crate::schema::check(&tool.input_schema, arguments)?;
        if !arguments.is_object() {
            return Err("the whole must be object".to_owned());
        }
        Ok(Self::Elsewhere(Elsewhere { definition: tool.definition, arguments: arguments.clone() }))
    }

    fn parse_arguments(name: &str, arguments: serde_json::Value) -> Result<Self, serde_json::Error> {
        use serde_json::from_value;
        Ok(match name {
            DELEGATE => Self::Delegate(Box::new(from_value(arguments)?)),
            "answer" => Self::Answer(from_value(arguments)?),
            FINISH => Self::Finish(from_value(arguments)?),
            "request" => Self::Request(from_value(arguments)?),
            "read_document" => Self::ReadDocument(from_value(arguments)?),
            "write_document" => Self::WriteDocument(from_value(arguments)?),
            "edit_document" => Self::EditDocument(from_value(arguments)?),
            "bash" => Self::Bash(from_value(arguments)?),
            "read_file" => Self::ReadFile(from_value(arguments)?),
            "write_file" => Self::WriteFile(from_value(arguments)?),
            "edit_file" => Self::EditFile(from_value(arguments)?),
            "list_files" => Self::ListFiles(from_value(arguments)?),
            "cite" => Self::Cite(from_value(arguments)?),
            "fetch_url" => Self::FetchUrl(from_value(arguments)?),
            "web_search" => Self::WebSearch(from_value(arguments)?),
            "search" => Self::Search(from_value(arguments)?),
            "search_files" => Self::SearchFiles(from_value(arguments)?),
            other => return Err(serde::de::Error::custom(format_args!("no tool is called {other}"))),
        })
    }
}

/// Replaces the only occurrence of a text.
pub fn replace_once(text: &str, old: &str, new: &str) -> Result<String, String> {
    let Some(step) = old.chars().next().map(char::len_utf8) else { return Err("`old` is empty.".into()) };
    let next = |from: usize| text[from..].find(old).map(|at| from + at);
    // Two that overlap are two: which of them is meant nobody knows.
    let count = std::iter::successors(next(0), |at| next(at + step)).count();
    match count {
        0 => Err("`old` does not occur in the text. Read it again; somebody may have changed it.".into()),
        1 => Ok(text.replacen(old, new, 1)),
        count => Err(format!("`old` occurs {count} times. Give more of its surroundings.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments, malformed: None }
    }

    #[test]
    fn every_tool_that_a_model_sees_is_understood_and_no_other() {
        for role in Role::ALL {
            for spec in specs(role) {
                let parsed = Tool::parse(role, &[], &call(&spec.name, serde_json::json!({"nonsense": 1})));
                assert!(parsed.is_err_and(|why| why.contains("do not fit")), "{}", spec.name);
            }
        }
        let command = serde_json::json!({"command": "true"});
        assert!(Tool::parse(Role::Terminal, &[], &call("bash", command.clone())).is_ok());
        let refused = Tool::parse(Role::Conductor, &[], &call("bash", command)).unwrap_err();
        assert!(refused.contains("There is no tool `bash` here"), "{refused}");
    }

    #[test]
    fn an_empty_word_is_no_result() {
        let parse = |role, name: &str, arguments| Tool::parse(role, &[], &call(name, arguments));
        for (role, name, arguments) in [
            (Role::Terminal, "finish", serde_json::json!({"summary": " \n"})),
            (Role::Conductor, "answer", serde_json::json!({"text": ""})),
            (Role::Conductor, "delegate", serde_json::json!({"role": "terminal", "objective": ""})),
            (Role::Writer, "write_document", serde_json::json!({"title": "T", "content": ""})),
        ] {
            let refused = parse(role, name, arguments).unwrap_err();
            assert!(refused.ends_with("says nothing."), "{refused}");
        }
        assert!(parse(Role::Terminal, "finish", serde_json::json!({"summary": "done"})).is_ok());
    }

    #[test]
    fn work_that_could_never_begin_is_refused_with_a_reason() {
        let parse = |entry: &str| {
            let arguments = serde_json::json!({"role": "terminal", "objective": "x", "egress": {"allow": [entry]}});
            Tool::parse(Role::Conductor, &[], &call("delegate", arguments))
        };
        assert!(parse("example.org:443").is_ok() && parse("registries").is_ok());
        assert!(parse("*").is_err_and(|why| why.contains("cannot be allowed to reach `*`")));
    }

    #[test]
    fn a_tool_from_elsewhere_is_called_as_its_schema_says() {
        let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let definition = Hash([7; 32]);
        let offered =
            [OfferedTool { name: "mcp__x__y".into(), description: String::new(), input_schema: schema, definition }];
        let parse = |role, arguments| Tool::parse(role, &offered, &call("mcp__x__y", arguments));
        let good = parse(Role::Terminal, serde_json::json!({"n": 1})).unwrap();
        assert!(good.definition() == Some(definition) && good.nature() == Nature::Effect);
        assert!(parse(Role::Terminal, serde_json::json!({"n": "1"})).is_err_and(|why| why.contains("`n` must be")));
        let other = Tool::parse(Role::Terminal, &offered, &call("mcp__x__z", serde_json::json!({"n": 1})));
        assert!(other.is_err_and(|why| why.contains("no tool") && why.contains("mcp__x__y")));
    }

    #[test]
    fn an_edit_needs_exactly_one_place() {
        assert_eq!(replace_once("a b a", "b", "c"), Ok("a c a".into()));
        assert!(replace_once("a b a", "a", "c").is_err() && replace_once("a", "x", "c").is_err());
        assert!(replace_once("a", "", "c").is_err());
        assert!(replace_once("ababa", "aba", "c").is_err_and(|why| why.contains("2 times")), "they overlap");
        assert_eq!(replace_once("éaé", "aé", "c"), Ok("éc".into()));
    }

    #[test]
    fn calls_of_one_answer_keep_its_order_where_one_may_see_the_other() {
        let tool = |role, name: &str, arguments| Tool::parse(role, &[], &call(name, arguments)).unwrap();
        let edit = tool(Role::Terminal, "edit_file", serde_json::json!({"path": "a", "old": "x", "new": "y"}));
        let write = tool(Role::Terminal, "write_file", serde_json::json!({"path": "s.sh", "content": "true"}));
        let bash = tool(Role::Terminal, "bash", serde_json::json!({"command": "sh s.sh"}));
        let read = tool(Role::Terminal, "read_file", serde_json::json!({"path": "a"}));
        let delegate = tool(Role::Conductor, "delegate", serde_json::json!({"role": "terminal", "objective": "x"}));
        let document = tool(Role::Writer, "write_document", serde_json::json!({"title": "t", "content": "c"}));
        for (later, earlier) in [(&edit, &edit), (&bash, &write), (&bash, &bash), (&read, &edit), (&edit, &read)] {
            assert!(later.follows(earlier), "{later:?} after {earlier:?}");
        }
        for (later, earlier) in [(&read, &read), (&delegate, &delegate), (&bash, &delegate), (&bash, &document)] {
            assert!(!later.follows(earlier), "{later:?} beside {earlier:?}");
        }
        assert_eq!([&read, &edit, &bash].map(Tool::nature), [Nature::Pure, Nature::Idempotent, Nature::Effect]);
    }
}
