//! The one loop of every agent, as a fold and a decision.
//!
//! An agent's state is folded from its task's events, and nothing else: after a crash the same events give the same
//! state, and [`Agent::next`] says where to go on. The shell does what is asked, appends what came of it, and folds that.

mod compact;
mod cut_off;
mod hear;
mod limit;
mod offer;
pub mod patience;
mod policy;
mod prompt;
mod repeat;
mod spoken;

pub use limit::{
    Account, DEPTH_MAX, Limits, Patience, Place, Spent, WORKERS_AT_ONCE_MAX, WORKERS_MAX, most_tokens, wall,
};
pub use policy::{ATTEMPTS_MAX, Reaction, attempts, is_hopeless, react};

use crate::effect;
use crate::tool::{DELEGATE, FINISH, Finish, FinishStatus, Tool, specs};
use choir_proto::event::{ContextCompacted, Header, InboxDecided, ModelCalled, ToolOutcome, ToolStarted, ToolsOffered};
use choir_proto::model::{
    ErrorClass, Message, ModelRequest, STILL_AT_WORK, StopReason, ToolCall, ToolResult, ToolSpec, Usage,
};
use choir_proto::task::{TaskKind, TaskRequest, TaskStatus};
use choir_proto::{Event, InboxId, Role, RunId, TaskId};

/// How often in a row a conductor may want to end while others are at work before it is not asked any more until one is done.
const EARLY_ENDS_MAX: u32 = 2;

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
    /// Calls of earlier turns that the model knows to be at work still.
    away: Vec<Call>,
    /// What was said to it since the last answer.
    heard: hear::Heard,
    /// Whether the model has said all that it wants to say until something is heard of those at work.
    waits: bool,
    /// How often in a row it wanted to end before those at work for it.
    early_ends: u32,
    /// How many answers in a row were cut off at their longest.
    cut_short: u32,
    /// What is refused again and again.
    repeated: repeat::Repeated,
    usage: Usage,
    /// Whether nobody knows how one of its calls ended.
    has_unknown: bool,
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
    turn: u32,
    index: u32,
    call: ToolCall,
    effect_id: String,
    state: CallState,
    refused: bool,
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
#[derive(Debug, Clone, PartialEq)]
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
            away: Vec::new(),
            heard: hear::Heard::default(),
            waits: false,
            early_ends: 0,
            cut_short: 0,
            repeated: repeat::Repeated::default(),
            usage: Usage::default(),
            has_unknown: false,
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
        self.at_work().any(|call| call.effect_id == effect_id)
    }

    /// Whether nothing can be decided before one of those at work is done.
    pub fn is_held_up(&self) -> bool {
        let is_out = self.at_work().next().is_some();
        is_out && (self.ending.is_some() || self.waits || !self.calls.is_empty() && !self.has_news())
    }

    /// Whether a conductor has something to decide about while others are still at work: it is told of every result, and
    /// not only when all have come, and of the person's words as soon as they are said.
    fn has_news(&self) -> bool {
        let is_first_conductor = self.identity.role == Role::Conductor && self.place == Place::First;
        let may_take_long = |call: &Call| call.is_finished() || call.is_begun() && call.call.name == DELEGATE;
        let is_told = self.calls.iter().any(Call::is_finished) || self.heard.has_words_of_person();
        is_first_conductor && is_told && self.calls.iter().all(may_take_long)
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

    /// Whether nobody knows how one of its calls ended.
    pub fn has_unknown(&self) -> bool {
        self.has_unknown
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
    pub fn apply(&mut self, header: &Header, event: &Event) {
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
            Event::RunSteered(steered) => self.steered(header.seq, &steered.text),
            Event::InboxDecided(decided) => self.decided(decided),
            Event::ContextCompacted(done) => {
                self.too_long = false;
                compact::apply(&mut self.conversation, done);
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

    /// What an answer that is not in the log yet makes it begin: as [`Self::next`] says once that is folded. The intents may be
    /// written down with the answer.
    pub fn begun_by(&self, called: &ModelCalled) -> Vec<Begin> {
        // Whoever is at work now was asked by an earlier turn then.
        let not_yet = self.at_work().next().map(|_| prompt::NOT_YET);
        self.named(called).iter().map(|call| self.begin(call, not_yet)).collect()
    }

    /// What the agent needs now. `accounts` are its own and those of everybody above it.
    pub fn next(&self, accounts: &[Account]) -> Next {
        let fresh: Vec<Begin> = self.calls.iter().filter(|call| call.is_new()).map(|call| self.begun(call)).collect();
        if self.ending.is_none() && !fresh.is_empty() {
            return Next::Begin(fresh);
        }
        if self.is_held_up() {
            return Next::Outstanding(self.outstanding());
        }
        if let Some(ending) = &self.ending {
            return Next::End(ending.clone());
        }
        if let Some(question) = &self.question {
            return Next::Ask(question.clone());
        }
        if let Some(ending) = self.walled(accounts) {
            return self.stopped(ending);
        }
        if self.too_long {
            return self.squeezed();
        }
        match compact::plan(self.next_turn(), &self.conversation, self.window, self.beside()) {
            Some(plan) => Next::Compact(plan),
            None => self.asking(accounts),
        }
    }

    /// The model is asked, if what is left of the tokens is enough for the question.
    fn asking(&self, accounts: &[Account]) -> Next {
        let mut request = self.request();
        match limit::answer_tokens(accounts, limit::question_tokens(&request)) {
            Ok(left) => {
                let fits = compact::answer_tokens(self.window, &request.messages, self.beside());
                request.tokens_max = request.tokens_max.min(left).min(fits);
                Next::Model(Box::new(request))
            }
            Err(ending) => self.stopped(ending),
        }
    }

    /// Nobody ends before those who work for it.
    fn stopped(&self, ending: Ending) -> Next {
        let outstanding = self.outstanding();
        if outstanding.is_empty() { Next::End(ending) } else { Next::Outstanding(outstanding) }
    }

    /// Why there is no further turn, if there is none.
    fn walled(&self, accounts: &[Account]) -> Option<Ending> {
        let failed = self.last_failure.as_ref().filter(|(class, _)| {
            // What passes is waited for: see `react`.
            self.failures >= attempts(*class) && !policy::passes(*class)
        });
        let given_up = |(class, message): &(ErrorClass, String)| Ending {
            status: TaskStatus::Failed,
            summary: policy::given_up(*class, message),
        };
        wall(accounts).map(|ending| self.told_of_failure(ending)).or_else(|| failed.map(given_up))
    }

    /// Whose time went by while a model failed is told why nothing came of it.
    fn told_of_failure(&self, ending: Ending) -> Ending {
        match &self.last_failure {
            Some((class, message)) if self.failures > 0 && ending.status == TaskStatus::OutOfTime => {
                Ending { summary: format!("{} {}", ending.summary, policy::given_up(*class, message)), ..ending }
            }
            _ => ending,
        }
    }

    fn request(&self) -> ModelRequest {
        ModelRequest {
            model: self.model.clone(),
            role: self.identity.role,
            system: prompt::system(self.identity.role).to_owned(),
            messages: self.messages(),
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

    /// `not_yet` is why it may not end now, if it may not.
    fn understand(&self, call: &ToolCall, not_yet: Option<&str>) -> Result<Tool, String> {
        if !self.allows(&call.name) {
            return Err(format!("The tool `{}` is not among those that this task may use.", call.name));
        }
        if let Some(why) = not_yet.filter(|_| call.name == FINISH) {
            return Err(why.to_owned());
        }
        Tool::parse(self.identity.role, self.offered.tools(), call)
    }

    fn answered(&mut self, called: &ModelCalled) {
        self.turn = called.turn;
        self.failures = 0;
        self.cut_short = if called.stop == StopReason::Length { self.cut_short + 1 } else { 0 };
        self.usage += called.usage;
        self.window = called.window.or(self.window);
        let later = self.put(called.heard);
        self.conversation.push(Message::Assistant(called.message.clone()));
        let named = self.named(called);
        let before = std::mem::replace(&mut self.calls, named);
        self.away.extend(before.into_iter().filter(|call| !call.is_finished()));
        if self.place == Place::Aside {
            self.ending = Some(self.said_aside(called));
        } else if self.calls.is_empty() && !self.away.is_empty() {
            // Words without a call, while others are at work, are no last words.
            self.waits = true;
        } else if self.calls.is_empty() {
            self.spoken(called);
        }
        self.hear_all(later);
    }

    /// What came of the present calls, for a model that is asked before all of it is known.
    fn results_so_far(&self) -> Option<Message> {
        let still = |call: &Call| {
            let (call_id, content) = (call.call.id.clone(), STILL_AT_WORK.to_owned());
            ToolResult { call_id, content, is_error: false }
        };
        let result = |call: &Call| call.result().unwrap_or_else(|| still(call));
        (!self.calls.is_empty()).then(|| Message::Tools { results: self.calls.iter().map(result).collect() })
    }

    fn finished(&mut self, finished: &choir_proto::event::ToolFinished) {
        let is_error = finished.outcome != ToolOutcome::Ok;
        self.has_unknown |= finished.outcome == ToolOutcome::Unknown;
        let result = ToolResult { call_id: finished.call_id.clone(), content: finished.content.clone(), is_error };
        if let Some(at) = self.away.iter().position(|call| call.effect_id == finished.effect_id) {
            self.away.remove(at);
            return self.hear(None, prompt::late(&result));
        }
        if let Some(call) = self.calls.iter_mut().find(|call| call.effect_id == finished.effect_id) {
            (call.state, call.refused) = (CallState::Finished(result), finished.outcome == ToolOutcome::Refused);
        }
        let done: Option<Vec<ToolResult>> = self.calls.iter().map(Call::result).collect();
        if let Some(results) = done {
            let finish = self.calls.iter().find_map(|call| Some((call.finish(self.identity.role)?, &call.effect_id)));
            let is_early = finish.is_none() && self.calls.iter().any(|call| call.call.name == FINISH);
            match finish {
                // Nobody stands above the first agent but the person: it asks and goes on.
                Some((Ending { status: TaskStatus::NeedsInput, summary }, effect_id)) if self.place == Place::First => {
                    self.question = Some(Question { id: effect::question(effect_id), text: summary });
                }
                finish => self.ending = finish.map(|(ending, _)| ending),
            }
            let in_vain = self.repeated.note(&self.calls);
            self.ending = self.ending.take().or(in_vain);
            self.calls.clear();
            self.conversation.push(Message::Tools { results });
            if is_early && !self.away.is_empty() {
                // Told once, it may say that it waits. Who wants to end again waits as well: asking on and on would only
                // use up the run.
                self.early_ends += 1;
                self.waits = self.early_ends >= EARLY_ENDS_MAX;
            }
            let words = self.heard.words();
            self.hear_all(words);
        }
    }

    fn decided(&mut self, decided: &InboxDecided) {
        if self.question.as_ref().is_some_and(|question| question.id == decided.inbox_id) {
            self.question = None;
            self.conversation.push(Message::user(prompt::answered(&decided.decision)));
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
        match self.understand(call, None) {
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
            .map(|(call, index)| Call {
                turn: called.turn,
                index,
                call: call.clone(),
                effect_id: name(index, call),
                state: CallState::New,
                refused: false,
            })
            .collect()
    }

    /// Calls that were begun and whose end nobody has appended.
    pub fn outstanding(&self) -> Vec<Begin> {
        self.at_work().map(|call| self.begun(call)).collect()
    }

    fn at_work(&self) -> impl Iterator<Item = &Call> {
        self.away.iter().chain(&self.calls).filter(|call| call.is_begun())
    }

    fn begun(&self, call: &Call) -> Begin {
        self.begin(call, self.away.first().map(|_| prompt::NOT_YET))
    }

    fn begin(&self, call: &Call, not_yet: Option<&str>) -> Begin {
        Begin {
            effect_id: call.effect_id.clone(),
            turn: call.turn,
            index: call.index,
            call: call.call.clone(),
            tool: self.understand(&call.call, not_yet),
        }
    }
}

impl Call {
    fn is_new(&self) -> bool {
        matches!(self.state, CallState::New)
    }

    fn is_begun(&self) -> bool {
        matches!(self.state, CallState::Started)
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, CallState::Finished(_))
    }

    fn result(&self) -> Option<ToolResult> {
        match &self.state {
            CallState::Finished(result) => Some(result.clone()),
            CallState::New | CallState::Started => None,
        }
    }

    /// The ending, if this was a `finish` that was understood.
    fn finish(&self, role: Role) -> Option<Ending> {
        // One that came too early was refused.
        if self.call.name != FINISH || self.result().is_some_and(|result| result.is_error) {
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

#[cfg(test)]
mod tests;
