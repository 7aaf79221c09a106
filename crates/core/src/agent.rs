//! The one loop of every agent, as a fold and a decision.
//!
//! An agent's state is folded from its task's events, and nothing else: after a crash the same events give the same
//! state, and [`Agent::next`] says where to go on. The shell does what is asked, appends what came of it, and folds that.

mod compact;
mod limit;
mod offer;
mod policy;
mod prompt;

pub use limit::{Account, Limits, Place, Spent};
pub use policy::{ATTEMPTS_MAX, Reaction, react};

use crate::effect;
use crate::tool::{FINISH, Finish, FinishStatus, Tool, specs};
use choir_proto::event::{ContextCompacted, Header, InboxDecided, ModelCalled, ToolOutcome, ToolStarted, ToolsOffered};
use choir_proto::model::{ErrorClass, Message, ModelRequest, StopReason, ToolCall, ToolResult, ToolSpec, Usage};
use choir_proto::task::{TaskKind, TaskRequest, TaskStatus};
use choir_proto::{Event, InboxId, Role, RunId, TaskId};

/// The longest answer that is asked for.
const ANSWER_TOKENS_MAX: u32 = 8192;

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The run it belongs to.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// What it is for.
    pub role: Role,
}

/// An agent at a moment.
#[derive(Debug, Clone)]
pub struct Agent {
    identity: Identity,
    place: Place,
    model: Option<String>,
    conversation: Vec<Message>,
    turn: u32,
    /// Failed attempts at the present turn.
    failures: u32,
    last_failure: Option<(ErrorClass, String)>,
    calls: Vec<Call>,
    /// Words that arrived while tools were running; they follow their results.
    steered: Vec<String>,
    usage: Usage,
    /// As the last answer's model has it.
    window: Option<u64>,
    /// Whether the model has refused the conversation as too long, and nothing was done about it yet.
    too_long: bool,
    /// What the person has to say before anything goes on.
    question: Option<Question>,
    /// Tools from elsewhere.
    offered: offer::Offered,
    /// The only tools that whoever asked wants used, apart from the one that ends.
    allowed: Option<Vec<String>>,
    ending: Option<Ending>,
}

/// Something that only the person knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The same after a crash.
    pub id: InboxId,
    /// In the agent's words.
    pub text: String,
}

#[derive(Debug, Clone)]
struct Call {
    call: ToolCall,
    effect_id: String,
    state: CallState,
}

#[derive(Debug, Clone)]
enum CallState {
    New,
    Started,
    Finished(ToolResult),
}

/// How an agent ended, in its own words or by a wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// How.
    pub status: TaskStatus,
    /// In a sentence.
    pub summary: String,
}

/// What an agent needs next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Ask the model, and append `model.called` or `model.failed`.
    Model(Box<ModelRequest>),
    /// Begin these calls: append `tool.started` for each, then act, then append `tool.finished`.
    Begin(Vec<Begin>),
    /// These were begun and nobody has appended what came of them: they are running, or a crash came between.
    Outstanding(Vec<Begin>),
    /// The conversation comes near the model's window: append this.
    Compact(ContextCompacted),
    /// Put this to the person, and append `inbox.decided`.
    Ask(Question),
    /// It is over.
    End(Ending),
}

/// A call to begin or to pick up.
#[derive(Debug, Clone)]
pub struct Begin {
    /// Its stable name.
    pub effect_id: String,
    /// The turn that asked for it.
    pub turn: u32,
    /// Position among the answer's calls.
    pub index: u32,
    /// As the model said it.
    pub call: ToolCall,
    /// What it means, or what to tell the model instead.
    pub tool: Result<Tool, String>,
}

impl Agent {
    /// An agent that has only been asked.
    pub fn new(identity: Identity, place: Place, request: &TaskRequest, model: Option<String>) -> Self {
        Self {
            identity,
            place,
            model,
            conversation: vec![Message::user(prompt::brief(request))],
            turn: 0,
            failures: 0,
            last_failure: None,
            calls: Vec::new(),
            steered: Vec::new(),
            usage: Usage::default(),
            window: None,
            too_long: false,
            question: None,
            offered: offer::Offered::default(),
            allowed: request.allowed_tools.clone(),
            ending: None,
        }
    }

    /// Which agent.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether a call was begun and nothing is known of its end.
    pub fn is_outstanding(&self, effect_id: &str) -> bool {
        let outstanding = |call: &&Call| matches!(call.state, CallState::Started) && call.effect_id == effect_id;
        self.calls.iter().any(|call| outstanding(&call))
    }

    /// Takes a call's name as it was given: for a replay of what was made unreadable.
    pub(crate) fn begin_as(&mut self, started: &ToolStarted) {
        if let Some(call) = self.calls.get_mut(started.index as usize) {
            call.effect_id.clone_from(&started.effect_id);
            call.state = CallState::Started;
        }
    }

    /// Whether an offer says nothing new.
    pub fn knows_offer(&self, offer: &ToolsOffered) -> bool {
        self.offered.knows(offer)
    }

    /// Tokens and money so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The number of the model's next turn.
    pub fn next_turn(&self) -> u32 {
        self.turn + 1
    }

    /// Failed attempts at the present turn.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Folds an event of this agent's task, or words from the person.
    pub fn apply(&mut self, _: &Header, event: &Event) {
        match event {
            Event::ModelCalled(called) => self.answered(called),
            Event::ModelFailed(failed) => {
                self.failures += 1;
                self.too_long = failed.class == ErrorClass::TooLong;
                self.last_failure = Some((failed.class, failed.message.clone()));
            }
            Event::ToolStarted(started) => self.set(&started.effect_id, CallState::Started),
            Event::ToolFinished(finished) => self.finished(finished),
            Event::ToolsOffered(offered) => self.offered.apply(offered),
            Event::RunSteered(steered) => self.steer(&steered.text),
            Event::InboxDecided(decided) => self.decided(decided),
            Event::ContextCompacted(done) => {
                self.too_long = false;
                compact::apply(&mut self.conversation, done.messages, done.text_bytes);
            }
            // A person or a model came: what failed before counts no more.
            Event::RunStarted(_) => self.failures = 0,
            Event::TaskFinished(finished) => {
                let result = &finished.result;
                self.ending = Some(Ending { status: result.status, summary: result.summary.clone() });
            }
            _ => {}
        }
    }

    /// What the agent needs now. `accounts` are its own and those of everybody above it.
    pub fn next(&self, accounts: &[Account]) -> Next {
        if let Some(ending) = &self.ending {
            return Next::End(ending.clone());
        }
        let fresh = self.calls_that(|state| matches!(state, CallState::New));
        if !fresh.is_empty() {
            return Next::Begin(fresh);
        }
        let outstanding = self.outstanding();
        if !outstanding.is_empty() {
            return Next::Outstanding(outstanding);
        }
        if let Some(question) = &self.question {
            return Next::Ask(question.clone());
        }
        if let Some(ending) = limit::wall(accounts) {
            return Next::End(ending);
        }
        if let (ATTEMPTS_MAX.., Some((class, message))) = (self.failures, &self.last_failure) {
            return Next::End(Ending { status: TaskStatus::Failed, summary: policy::given_up(*class, message) });
        }
        if self.too_long {
            return self.squeezed();
        }
        match compact::plan(self.next_turn(), &self.conversation, self.window) {
            Some(plan) => Next::Compact(plan),
            None => Next::Model(Box::new(self.request())),
        }
    }

    /// A conversation that was too long is shortened; where nothing more can be gained, that is the end.
    fn squeezed(&self) -> Next {
        let message = self.last_failure.as_ref().map_or("", |(_, message)| message);
        match compact::squeeze(self.next_turn(), &self.conversation) {
            Some(plan) => Next::Compact(plan),
            None => Next::End(Ending {
                status: TaskStatus::Failed,
                summary: policy::given_up(ErrorClass::TooLong, message),
            }),
        }
    }

    fn request(&self) -> ModelRequest {
        ModelRequest {
            model: self.model.clone(),
            role: self.identity.role,
            system: prompt::system(self.identity.role).to_owned(),
            messages: self.conversation.clone(),
            tools: self.tools(),
            tokens_max: ANSWER_TOKENS_MAX,
        }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let all = specs(self.identity.role).iter().cloned().chain(self.offered.specs());
        all.filter(|spec| self.allows(&spec.name)).collect()
    }

    fn allows(&self, tool: &str) -> bool {
        tool == FINISH || self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == tool))
    }

    fn understand(&self, call: &ToolCall) -> Result<Tool, String> {
        if !self.allows(&call.name) {
            return Err(format!("The tool `{}` is not among those that this task may use.", call.name));
        }
        Tool::parse(self.identity.role, self.offered.tools(), call)
    }

    fn answered(&mut self, called: &ModelCalled) {
        self.turn = called.turn;
        self.failures = 0;
        self.usage += called.usage;
        self.window = called.window.or(self.window);
        self.conversation.push(Message::Assistant(called.message.clone()));
        self.calls = self.named(called);
        if self.place == Place::Aside {
            self.ending = Some(self.said_aside(called));
        } else if self.calls.is_empty() {
            self.ending = Some(spoken_ending(called.stop, &called.message.text));
        }
    }

    fn finished(&mut self, finished: &choir_proto::event::ToolFinished) {
        let is_error = finished.outcome != ToolOutcome::Ok;
        let result = ToolResult { call_id: finished.call_id.clone(), content: finished.content.clone(), is_error };
        self.set(&finished.effect_id, CallState::Finished(result));
        let done: Option<Vec<ToolResult>> = self.calls.iter().map(Call::result).collect();
        if let Some(results) = done {
            let finish = self.calls.iter().find_map(|call| Some((call.finish(self.identity.role)?, &call.effect_id)));
            match finish {
                // Nobody stands above the first agent but the person: it asks and goes on.
                Some((Ending { status: TaskStatus::NeedsInput, summary }, effect_id)) if self.place == Place::First => {
                    self.question = Some(Question { id: effect::question(effect_id), text: summary });
                }
                finish => self.ending = finish.map(|(ending, _)| ending),
            }
            self.calls.clear();
            self.conversation.push(Message::Tools { results });
            for text in std::mem::take(&mut self.steered) {
                self.conversation.push(Message::user(prompt::steer(&text)));
            }
        }
    }

    fn decided(&mut self, decided: &InboxDecided) {
        if self.question.as_ref().is_some_and(|question| question.id == decided.inbox_id) {
            self.question = None;
            self.conversation.push(Message::user(prompt::answered(&decided.decision)));
        }
    }

    fn steer(&mut self, text: &str) {
        if self.calls.is_empty() {
            self.conversation.push(Message::user(prompt::steer(text)));
        } else {
            self.steered.push(text.to_owned());
        }
    }

    fn set(&mut self, effect_id: &str, state: CallState) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.effect_id == effect_id) {
            call.state = state;
        }
    }

    /// What a conductor says to a worker that waits. Only a plain `answer` is one: whatever else it says, the person is
    /// asked.
    fn said_aside(&self, called: &ModelCalled) -> Ending {
        let [call] = called.message.tool_calls.as_slice() else { return passed_on() };
        match self.understand(call) {
            Ok(Tool::Answer(answer)) => Ending { status: TaskStatus::Ok, summary: answer.text },
            _ => passed_on(),
        }
    }

    /// The calls of an answer, by names that a restart gives them again.
    fn named(&self, called: &ModelCalled) -> Vec<Call> {
        if self.place == Place::Aside {
            // Its one word is its end; nothing is begun for it.
            return Vec::new();
        }
        let Identity { run, task, .. } = self.identity;
        let name = |index: u32, call: &ToolCall| effect::id(run, task, called.turn, index, &call.name, &call.arguments);
        let calls = called.message.tool_calls.iter().zip(0..);
        calls
            .map(|(call, index)| Call { call: call.clone(), effect_id: name(index, call), state: CallState::New })
            .collect()
    }

    /// Calls that were begun and whose end nobody has appended.
    pub fn outstanding(&self) -> Vec<Begin> {
        self.calls_that(|state| matches!(state, CallState::Started))
    }

    fn calls_that(&self, wanted: impl Fn(&CallState) -> bool) -> Vec<Begin> {
        let calls = self.calls.iter().zip(0..).filter(|(call, _)| wanted(&call.state));
        calls.map(|(call, index)| self.begin(self.turn, index, call)).collect()
    }

    fn begin(&self, turn: u32, index: u32, call: &Call) -> Begin {
        Begin {
            effect_id: call.effect_id.clone(),
            turn,
            index,
            call: call.call.clone(),
            tool: self.understand(&call.call),
        }
    }
}

impl Call {
    fn result(&self) -> Option<ToolResult> {
        match &self.state {
            CallState::Finished(result) => Some(result.clone()),
            CallState::New | CallState::Started => None,
        }
    }

    /// The ending, if this was a `finish` that was understood.
    fn finish(&self, role: Role) -> Option<Ending> {
        if self.call.name != FINISH {
            return None;
        }
        match Tool::parse(role, &[], &self.call) {
            Ok(Tool::Finish(Finish { summary, status })) => {
                Some(Ending { status: status.unwrap_or(FinishStatus::Ok).into(), summary })
            }
            _ => None,
        }
    }
}

fn passed_on() -> Ending {
    Ending { status: TaskStatus::NeedsInput, summary: "That is for the person to say.".to_owned() }
}

/// Who does a task that names nobody.
pub fn role_of(kind: TaskKind) -> Role {
    match kind {
        TaskKind::Research => Role::Researcher,
        TaskKind::Edit | TaskKind::Run | TaskKind::Git | TaskKind::Inspect => Role::Terminal,
    }
}

/// A model that stops without calling a tool has said its last words.
fn spoken_ending(stop: StopReason, text: &str) -> Ending {
    let (status, summary) = match stop {
        StopReason::Refused => (TaskStatus::Failed, "The model refused to answer."),
        StopReason::Length => (TaskStatus::Failed, "The model's answer was cut off at its longest."),
        _ if text.trim().is_empty() => (TaskStatus::Failed, "The model answered with nothing."),
        _ => (TaskStatus::Ok, text),
    };
    Ending { status, summary: summary.to_owned() }
}

#[cfg(test)]
mod tests;
