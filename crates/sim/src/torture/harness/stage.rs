//! What the agents of the simulation meet: models, tools, a person, and a clock, all played by one seed.

use super::Sabotage;
use choir_computer::control::{Control, ControlError, OnHeard, OnOutput};
use choir_computer::world::World;
use choir_proto::inbox::{Ask, AskKind, Asked, Matter, Reach, Verdict, Waits};
use choir_proto::model::{Answer, AssistantMessage, ErrorClass, Message, ModelError, StopReason, ToolCall, Usage};
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, ChangesUndone, EditFile, Edited, EffectRecord, Exec, Exit,
    FinishAssociate, ModelCall, Models, OutputStream, StartAssociate, UndoChanges,
};
use choir_proto::{Hash, InboxId, Role, TaskId, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use uuid::Uuid;

/// When nothing was appended for so long, nothing will be before somebody speaks.
pub(super) const QUIET: Duration = Duration::from_millis(20);

/// Answers of one agent before it ends.
const TURNS_MAX: usize = 6;

/// Calls in one answer.
const CALLS_MAX: usize = 3;

/// Outlives every life of the computer, as control and the world do.
pub(super) struct Stage {
    sabotage: Sabotage,
    random: Mutex<fastrand::Rng>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often each effect was done.
    done: BTreeMap<String, u32>,
    /// How often each command was run, whatever it was called; no two that a model asks for are alike.
    marks: BTreeMap<String, u32>,
    commands: u32,
    record: BTreeMap<String, EffectRecord>,
    /// What was asked and what the person says.
    said: BTreeMap<InboxId, Verdict>,
}

impl Stage {
    pub(super) fn new(random: fastrand::Rng, sabotage: Sabotage) -> Self {
        Self { sabotage, random: Mutex::new(random), state: Mutex::default() }
    }

    pub(super) fn done(&self) -> BTreeMap<String, u32> {
        self.state().done.clone()
    }

    pub(super) fn marks(&self) -> BTreeMap<String, u32> {
        self.state().marks.clone()
    }

    /// A command that nobody has asked for before.
    fn command(&self) -> String {
        let mut state = self.state();
        state.commands += 1;
        format!("do {}", state.commands)
    }

    /// Whether something was asked for that leaves a mark.
    pub(super) fn is_effect(&self, effect: &str) -> bool {
        self.state().record.contains_key(effect)
    }

    /// What is known of an edit that was begun before.
    fn edited(&self, effect: &str) -> Edited {
        match self.state().record.get(effect) {
            Some(EffectRecord::Exited(_)) => Edited::Done,
            _ => Edited::Unknown,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn draw(&self, upto: usize) -> usize {
        self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).usize(..upto)
    }

    /// Others go first, a few times: here a crash may come.
    async fn wait(&self) {
        for _ in 0..self.draw(4) {
            tokio::task::yield_now().await;
        }
    }

    fn answer(&self, call: &ModelCall) -> Result<Answer, ModelError> {
        const TROUBLE: [ErrorClass; 5] = [
            ErrorClass::RateLimit,
            ErrorClass::Overloaded,
            ErrorClass::Timeout,
            ErrorClass::Truncated,
            ErrorClass::Garbage,
        ];
        if self.draw(8) == 0 {
            let class = TROUBLE[self.draw(TROUBLE.len())];
            return Err(ModelError { class, message: "played".into(), retry_after_ms: Some(0) });
        }
        let turns = call.request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let calls = if turns > self.draw(TURNS_MAX) { 0 } else { 1 + self.draw(CALLS_MAX) };
        let mut tool_calls: Vec<ToolCall> = (0..calls).map(|index| self.call(call.request.role, index)).collect();
        if calls == 0 && self.draw(2) == 0 {
            tool_calls.push(said("finish", json!({"summary": "done"}), 0));
        }
        let stop = if tool_calls.is_empty() { StopReason::Finished } else { StopReason::ToolUse };
        let message = AssistantMessage { text: "played".into(), tool_calls, ..AssistantMessage::default() };
        Ok(Answer { message, stop, usage: Usage::default(), model: "played/one".into(), window: None, free: None })
    }

    fn call(&self, role: Role, index: usize) -> ToolCall {
        let path = format!("file-{}", self.draw(3));
        let (name, arguments) = match (role, self.draw(11)) {
            (_, 0) => ("sing", json!({"song": "x"})),
            (_, 1) => ("finish", json!({"wrong": 1})),
            (Role::Conductor, 2..6) => {
                let role = ["terminal", "writer", "researcher"][self.draw(3)];
                ("delegate", json!({"role": role, "objective": "do something"}))
            }
            (Role::Conductor, _) => ("answer", json!({"text": "so far so good"})),
            (Role::Writer, _) => ("read_document", json!({})),
            (Role::Researcher, _) => ("request", json!({"kind": "blocked", "question": "may I?"})),
            (Role::Terminal, 2..7) => ("bash", json!({"command": self.command()})),
            (Role::Terminal, 7) => ("write_file", json!({"path": path, "content": "x"})),
            (Role::Terminal, 8) => ("edit_file", json!({"path": path, "old": "x", "new": "y"})),
            (Role::Terminal, 9) => ("request", json!({"kind": "blocked", "question": "may I?"})),
            (Role::Terminal, _) => ("list_files", json!({"path": "."})),
        };
        said(name, arguments, index)
    }
}

fn said(name: &str, arguments: Value, index: usize) -> ToolCall {
    ToolCall { id: format!("c{index}"), name: name.to_owned(), arguments, malformed: None }
}

impl Control for Stage {
    fn model(&self, call: ModelCall, _: OnHeard) -> BoxFuture<'_, Result<Answer, ModelError>> {
        async move {
            self.wait().await;
            self.answer(&call)
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Models, ControlError>> {
        async { Ok(Models { available: true }) }.boxed()
    }

    fn ask(&self, id: InboxId, ask: Ask) -> BoxFuture<'_, Result<Asked, ControlError>> {
        async move {
            self.wait().await;
            if let Some(verdict) = self.state().said.get(&id).cloned() {
                return Ok(Asked::Decided { verdict });
            }
            let scope = Reach::Once;
            match ask.matter {
                Matter::Call { .. } => {
                    let verdict =
                        if self.draw(12) == 0 { Verdict::Denied { scope } } else { Verdict::Approved { scope } };
                    self.state().said.insert(id, verdict.clone());
                    Ok(Asked::Decided { verdict })
                }
                Matter::Question { question, answers } => {
                    let (kind, subject, hash) = (AskKind::Question, question.clone(), Hash::ZERO);
                    Ok(Asked::Waits(Waits { id, kind, question, subject, hash, answers }))
                }
            }
        }
        .boxed()
    }

    fn verdict(&self, id: InboxId) -> BoxFuture<'_, Result<Verdict, ControlError>> {
        async move {
            self.wait().await;
            let verdict = Verdict::Answered { text: "yes".into() };
            Ok(self.state().said.entry(id).or_insert(verdict).clone())
        }
        .boxed()
    }

    fn withdraw(&self, id: InboxId) -> BoxFuture<'_, Result<Option<Verdict>, ControlError>> {
        async move { Ok(self.state().said.get(&id).cloned()) }.boxed()
    }

    fn start_associate(&self, _: TaskId, _: StartAssociate) -> BoxFuture<'_, Result<AssociateStarted, ControlError>> {
        async {
            self.wait().await;
            Ok(AssociateStarted::default())
        }
        .boxed()
    }

    fn exec(&self, _: TaskId, exec: Exec, mut on_output: OnOutput) -> BoxFuture<'_, Result<Exit, ControlError>> {
        async move {
            if self.sabotage != Sabotage::ForgetfulRecord && self.state().record.contains_key(&exec.effect_id) {
                return Err(ControlError::Refused("the effect was started before".into()));
            }
            self.state().record.insert(exec.effect_id.clone(), EffectRecord::Started);
            self.wait().await;
            if self.sabotage != Sabotage::LostResult {
                *self.state().done.entry(exec.effect_id.clone()).or_default() += 1;
                *self.state().marks.entry(exec.command).or_default() += 1;
            }
            if self.sabotage == Sabotage::NoJournal {
                // Long enough for a crash to come between: what was done is then in nobody's log.
                tokio::time::sleep(QUIET * 2).await;
            }
            on_output(OutputStream::Stdout, b"did it\n");
            self.wait().await;
            let exit = Exit {
                code: Some(i32::from(self.draw(10) == 0)),
                timed_out: false,
                duration_ms: 1,
                limit: None,
                missed_bytes: 0,
            };
            self.state().record.insert(exec.effect_id, EffectRecord::Exited(exit.clone()));
            self.wait().await;
            Ok(exit)
        }
        .boxed()
    }

    fn effect(&self, effect_id: String) -> BoxFuture<'_, Result<EffectRecord, ControlError>> {
        async move {
            let known = self.state().record.get(&effect_id).cloned();
            let forgotten = self.sabotage == Sabotage::ForgetfulRecord;
            Ok(known.filter(|_| !forgotten).unwrap_or(EffectRecord::Absent))
        }
        .boxed()
    }

    fn read_file(&self, _: TaskId, _: String) -> BoxFuture<'_, Result<Vec<u8>, ControlError>> {
        async { Err(ControlError::Refused("it is not there".into())) }.boxed()
    }

    fn write_file(&self, _: TaskId, _: String, _: Vec<u8>) -> BoxFuture<'_, Result<(), ControlError>> {
        async {
            self.wait().await;
            Ok(())
        }
        .boxed()
    }

    fn edit_file(&self, _: TaskId, edit: EditFile) -> BoxFuture<'_, Result<Edited, ControlError>> {
        async move {
            if self.sabotage != Sabotage::ForgetfulRecord && self.state().record.contains_key(&edit.effect_id) {
                return Ok(self.edited(&edit.effect_id));
            }
            self.state().record.insert(edit.effect_id.clone(), EffectRecord::Started);
            self.wait().await;
            if self.sabotage != Sabotage::LostResult {
                *self.state().done.entry(edit.effect_id.clone()).or_default() += 1;
            }
            let exit = Exit { code: Some(0), timed_out: false, duration_ms: 1, limit: None, missed_bytes: 0 };
            self.state().record.insert(edit.effect_id, EffectRecord::Exited(exit));
            self.wait().await;
            Ok(Edited::Done)
        }
        .boxed()
    }

    fn list_files(&self, _: TaskId, _: String) -> BoxFuture<'_, Result<String, ControlError>> {
        async { Ok(String::new()) }.boxed()
    }

    fn capture_associate(&self, _: TaskId) -> BoxFuture<'_, Result<AssociateCaptured, ControlError>> {
        async { Ok(AssociateCaptured { base_tree: Hash::ZERO, result_tree: Hash::ZERO, files_changed: Vec::new() }) }
            .boxed()
    }

    fn finish_associate(
        &self,
        _: TaskId,
        _: FinishAssociate,
    ) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        async {
            self.wait().await;
            Ok(AssociateFinished::default())
        }
        .boxed()
    }

    fn forget_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        async { Ok(()) }.boxed()
    }

    fn undo(&self, _: UndoChanges) -> BoxFuture<'_, Result<ChangesUndone, ControlError>> {
        async { Err(ControlError::Refused("nothing is undone here".into())) }.boxed()
    }

    fn kill_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        async { Ok(()) }.boxed()
    }
}

/// A clock that moves a little whenever it is looked at, and names and luck from the seed.
pub(super) struct Clock {
    random: Mutex<(fastrand::Rng, u64)>,
}

impl Clock {
    pub(super) fn new(random: fastrand::Rng) -> Self {
        Self { random: Mutex::new((random, 0)) }
    }

    fn draw(&self) -> u128 {
        self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0.u128(..)
    }
}

impl World for Clock {
    fn now(&self) -> Timestamp {
        // The wall clock is a label: it may say anything.
        Timestamp((self.draw() % (1 << 50)) as i64)
    }

    fn elapsed(&self) -> Duration {
        let mut random = self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        random.1 += 1;
        Duration::from_millis(random.1)
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.draw())
    }

    fn chance(&self) -> f64 {
        (self.draw() % 1000) as f64 / 1000.0
    }
}
