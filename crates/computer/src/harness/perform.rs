//! What each tool does.

use super::account::Purse;
use super::crew::{Seat, too_many};
use super::exec::BASH;
use super::finish::again;
use super::person::Person;
use super::printed::{Gone, Printed};
use super::{Assignment, Driver, HarnessError, Parent, RunContext, drive};
use crate::control::{ControlError, OnOutput};
use choir_core::agent::{Begin, Identity};
use choir_core::effect;
use choir_core::tool::{Bash, Tool};
use choir_proto::event::{RunAnswered, ToolFinished, ToolOutcome};
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::task::{Delegation, Egress, TaskKind, TaskRequest, TaskStatus};
use choir_proto::wire::{CallOf, EditFile, Edited, EffectRecord, Exec, Exit, OutputStream, StartAssociate, WriteFile};
use choir_proto::{Event, Hash, Role, Seq};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a command may take when nobody says.
const COMMAND_TIMEOUT_S: f64 = 120.0;

/// The longest that anybody may ask for.
const COMMAND_TIMEOUT_S_MAX: f64 = 3600.0;

/// Exit codes from here on tell of a signal.
const SIGNALLED: i32 = 128;

/// How often a command is begun whose sandbox dies before it has.
const BEGINNINGS_MAX: u32 = 4;

/// Bytes of text that a model is shown of one thing, whatever it can read at once; head and tail are kept.
const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// What came of a call.
pub(super) struct Performed {
    pub(super) outcome: ToolOutcome,
    pub(super) content: String,
    pub(super) output: Option<Hash>,
    pub(super) duration_ms: u64,
    /// Set when the result is in the log already.
    pub(super) appended: Option<Seq>,
    /// What the tool said, byte for byte, where that is not `content`.
    raw: Option<Vec<u8>>,
    /// How much of that was not kept, and what stands in its place.
    gone: Gone,
}

impl Performed {
    pub(super) fn new(outcome: ToolOutcome, content: String) -> Self {
        Self { outcome, content, output: None, duration_ms: 0, appended: None, raw: None, gone: Gone::default() }
    }

    fn of_bytes(result: Result<Vec<u8>, String>) -> Self {
        let mut performed =
            Self::of(result.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).map_err(Clone::clone));
        performed.raw = result.ok();
        performed
    }

    fn of(result: Result<String, String>) -> Self {
        match result {
            Ok(content) => Self::new(ToolOutcome::Ok, content),
            Err(why) => Self::new(ToolOutcome::Error, why),
        }
    }
}

/// Everything that one call needs, apart from the agent that waits for it.
pub(super) struct Performer {
    pub(super) context: RunContext,
    pub(super) identity: Identity,
    pub(super) depth: u32,
    pub(super) purse: Purse,
    /// The place among those at work, given away while it waits for the person.
    seat: Arc<Seat>,
    /// What its sandbox may wish to reach.
    egress: Option<Egress>,
    /// Tools that nobody has to be asked about.
    free: Arc<BTreeSet<String>>,
    /// Bytes of a result that the model is shown; head and tail are kept, the middle goes to the blob.
    bytes_max: usize,
}

impl Driver {
    pub(super) fn performer(&self) -> Performer {
        let (context, purse) = (self.context.clone(), self.purse.clone());
        let egress = self.request.egress.clone();
        let (seat, free) = (Arc::clone(&self.seat), Arc::clone(&self.free));
        let bytes_max = self.agent.result_bytes_max();
        Performer { context, identity: self.identity, depth: self.depth, purse, seat, egress, free, bytes_max }
    }
}

impl Performer {
    /// Does what was asked. A refusal or failure is a result like any other; only a failing log is an error.
    pub(super) async fn perform(&self, begin: &Begin) -> Result<Performed, HarnessError> {
        let world = Arc::clone(self.context.harness.journal.world());
        let before = world.elapsed();
        let mut performed = match &begin.tool {
            Err(why) => Performed::new(ToolOutcome::Refused, why.clone()),
            Ok(tool) => match self.refusal(tool, begin).await? {
                Some(refused) => refused,
                None => self.act(tool, begin).await?,
            },
        };
        performed.duration_ms = (world.elapsed() - before).as_millis() as u64;
        self.presentable(performed).await
    }

    /// What is too long or not fit to be shown goes to a blob as it is; the model gets what can be read of it.
    async fn presentable(&self, mut performed: Performed) -> Result<Performed, HarnessError> {
        let raw = performed.raw.take().unwrap_or_else(|| performed.content.clone().into_bytes());
        let shown = shorten_to(&readable(&performed.content), self.bytes_max, performed.gone);
        if performed.appended.is_none() && shown != performed.content {
            performed.output = Some(self.context.harness.documents.keep(raw).await?);
            performed.content = shown;
        }
        Ok(performed)
    }

    /// Why a call may not be, if it may not: control knows what the person has set, and asks them where they want that.
    async fn refusal(&self, tool: &Tool, begin: &Begin) -> Result<Option<Performed>, HarnessError> {
        if self.free.contains(&begin.call.name) {
            return Ok(None);
        }
        let Some(subject) = tool.subject(&begin.call) else { return Ok(None) };
        let matter = Matter::Call { tool: begin.call.name.clone(), subject, definition: tool.definition() };
        let said = self.person().ask(effect::question(&begin.effect_id), matter, None).await?;
        let (outcome, why) = match said {
            Ok(Verdict::Approved { .. } | Verdict::Answered { .. }) => return Ok(None),
            Ok(Verdict::Denied { .. } | Verdict::Expired) => {
                (ToolOutcome::Refused, "The person does not allow this.".to_owned())
            }
            Ok(Verdict::Withdrawn) => (ToolOutcome::Cancelled, "Stopped.".to_owned()),
            Err(error) => (ToolOutcome::Refused, format!("Whether this is allowed cannot be known: {error}")),
        };
        Ok(Some(Performed::new(outcome, why)))
    }

    async fn act(&self, tool: &Tool, begin: &Begin) -> Result<Performed, HarnessError> {
        let control = &self.context.harness.control;
        let task = self.identity.task;
        match tool {
            Tool::Finish(_) => Ok(Performed::new(ToolOutcome::Ok, "Noted.".into())),
            Tool::Answer(answer) => {
                let answered = RunAnswered { text: answer.text.clone() }.into();
                self.together(begin, vec![answered], "The person has the answer.").await
            }
            Tool::Request(request) => self.request(request, &begin.effect_id).await,
            Tool::Delegate(delegation) => self.delegate(delegation, &begin.effect_id).await,
            Tool::Bash(bash) => self.bash(bash, &begin.effect_id).await,
            Tool::Elsewhere(elsewhere) => Ok(self.elsewhere(elsewhere, begin).await),
            Tool::Cite(cite) => self.cite(cite, begin).await,
            Tool::FetchUrl(fetch) => self.fetch(&fetch.url, begin).await,
            Tool::WebSearch(search) => self.web_search(&search.query).await,
            Tool::Search(search) => self.search(&search.query).await,
            Tool::SearchFiles(search) => self.search_files(search, &begin.effect_id).await,
            Tool::ReadDocument(_) | Tool::WriteDocument(_) | Tool::EditDocument(_) => self.document(tool, begin).await,
            Tool::ReadFile(at) => {
                if let Err(why) = self.reading_room().await? {
                    return Ok(Performed::new(ToolOutcome::Error, why));
                }
                let read = self.in_sandbox(|| control.read_file(task, at.path.clone())).await;
                let read = read.map_err(|error| error.to_string());
                Ok(Performed::of_bytes(read))
            }
            Tool::ListFiles(at) => {
                let listed = self.in_sandbox(|| control.list_files(task, at.path.clone())).await;
                Ok(Performed::of(listed.map_err(|error| error.to_string())))
            }
            Tool::WriteFile(_) => {
                let wanted = WriteFile { arguments: begin.call.arguments.clone(), call: self.call_of(begin) };
                let written = self.in_sandbox(|| control.write_for(task, wanted.clone())).await;
                Ok(Performed::of(written.map(|()| "Written.".into()).map_err(|error| error.to_string())))
            }
            Tool::EditFile(_) => Ok(self.edit(begin).await),
        }
    }

    /// Changes one place of a file. Control does it under the call's name, so that a crash neither repeats nor loses it.
    async fn edit(&self, begin: &Begin) -> Performed {
        let effect_id = begin.effect_id.clone();
        let call = self.call_of(begin);
        let edit = EditFile { effect_id, arguments: begin.call.arguments.clone(), call };
        let control = &self.context.harness.control;
        match self.in_sandbox(|| control.edit_file(self.identity.task, edit.clone())).await {
            Ok(Edited::Done) => Performed::new(ToolOutcome::Ok, "Edited.".into()),
            Ok(Edited::Failed { message }) => Performed::new(ToolOutcome::Error, message),
            Ok(Edited::Unknown) => unknown(),
            Err(error) => match self.known(&begin.effect_id).await {
                Some(known) => known,
                None => Performed::new(ToolOutcome::Error, error.to_string()),
            },
        }
    }

    /// The call, as control knows it from the inbox.
    fn call_of(&self, begin: &Begin) -> CallOf {
        let (tool, inbox_id) = (begin.call.name.clone(), effect::question(&begin.effect_id));
        CallOf { tool, inbox_id, run: self.identity.run }
    }

    /// Appends facts and the call's result as one unit: after a crash either all of it happened or nothing did.
    pub(super) async fn together(
        &self,
        begin: &Begin,
        mut facts: Vec<Event>,
        content: &str,
    ) -> Result<Performed, HarnessError> {
        let mut performed = Performed::new(ToolOutcome::Ok, content.to_owned());
        let finished = ToolFinished {
            effect_id: begin.effect_id.clone(),
            call_id: begin.call.id.clone(),
            outcome: performed.outcome,
            content: performed.content.clone(),
            output: None,
            duration_ms: 0,
        };
        facts.push(finished.into());
        performed.appended = Some(self.context.harness.journal.append(&self.scope(), facts).await?);
        Ok(performed)
    }

    pub(super) fn task(&self) -> choir_proto::TaskId {
        self.identity.task
    }

    pub(super) fn scope(&self) -> crate::journal::Scope {
        let actor = choir_proto::event::Actor::Agent(self.identity.role);
        crate::journal::Scope::of(actor).run(self.identity.run).task(self.identity.task)
    }

    async fn delegate(&self, delegation: &Delegation, effect_id: &str) -> Result<Performed, HarnessError> {
        if delegation.role == Role::Conductor {
            return Ok(Performed::new(ToolOutcome::Refused, "A run has one conductor.".into()));
        }
        let identity = Identity { run: self.identity.run, task: effect::child(effect_id), role: delegation.role };
        // Whom the log knows was counted when it was asked for.
        if !self.context.past.knows(identity.task) && !self.context.crew.admits() {
            return Ok(Performed::new(ToolOutcome::Refused, too_many()));
        }
        let assignment = Assignment {
            identity,
            request: request(delegation, &self.context.material),
            parent: Some(Parent { task: self.identity.task, depth: self.depth, purse: self.purse.clone() }),
        };
        let result = drive(self.context.clone(), assignment).await?;
        let files: Vec<_> = result.files_changed.iter().map(|file| file.path.as_str()).collect();
        let told = serde_json::json!({"status": result.status, "summary": result.summary, "files_changed": files});
        let outcome = if result.status == TaskStatus::Ok { ToolOutcome::Ok } else { ToolOutcome::Error };
        Ok(Performed::new(outcome, told.to_string()))
    }

    pub(super) fn person(&self) -> Person<'_> {
        Person { context: &self.context, scope: self.scope(), purse: Some(&self.purse), seat: Some(&self.seat) }
    }

    /// Does something with files that may be done twice; in a new sandbox over the same layer, where the old one is gone.
    async fn in_sandbox<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, ControlError>
    where
        F: Future<Output = Result<T, ControlError>>,
    {
        let mut tries = 1;
        loop {
            match attempt().await {
                Err(ControlError::NoSandbox(_))
                    if tries < BEGINNINGS_MAX && !self.context.signal.borrow().cancelled =>
                {
                    self.start_again().await?;
                    tries += 1;
                }
                ended => return ended,
            }
        }
    }

    async fn start_again(&self) -> Result<(), ControlError> {
        let (egress, run) = (self.egress.clone(), Some(self.identity.run));
        let start = StartAssociate { egress, run, base: None, check: None };
        again(|| self.context.harness.control.start_associate(self.identity.task, start.clone())).await.map(drop)
    }

    /// Runs a command; in a new sandbox over the same layer, whenever the old one died before it began.
    async fn exec(&self, exec: Exec, on_output: OnOutput) -> Result<Exit, ControlError> {
        #[cfg(feature = "sabotage")]
        let exec = match crate::sabotage::journal_is_off() {
            true => Exec { effect_id: self.context.harness.journal.world().uuid().to_string(), ..exec },
            false => exec,
        };
        let control = &self.context.harness.control;
        let on_output = Arc::new(Mutex::new(on_output));
        let shared = || -> OnOutput {
            let on_output = Arc::clone(&on_output);
            Box::new(move |stream, bytes: &[u8]| {
                on_output.lock().unwrap_or_else(|poisoned| poisoned.into_inner())(stream, bytes);
            })
        };
        let mut tries = 1;
        loop {
            let ended = control.exec(self.identity.task, exec.clone(), shared()).await;
            let never_began =
                ended.is_err() && matches!(control.effect(exec.effect_id.clone()).await, Ok(EffectRecord::Absent));
            if !never_began || tries == BEGINNINGS_MAX || self.context.signal.borrow().cancelled {
                return ended;
            }
            self.start_again().await?;
            tries += 1;
        }
    }

    /// What the record knows of an effect that nobody heard the end of; nothing, if it never began.
    pub(super) async fn known(&self, effect_id: &str) -> Option<Performed> {
        match self.context.harness.control.effect(effect_id.to_owned()).await {
            Ok(EffectRecord::Absent) => None,
            Ok(EffectRecord::Exited(Exit { code: Some(code @ ..SIGNALLED), timed_out: false, .. })) => {
                let outcome = if code == 0 { ToolOutcome::Ok } else { ToolOutcome::Error };
                let said = format!("The call ended with exit code {code} while nobody listened; its output was lost.");
                Some(Performed::new(outcome, said))
            }
            Ok(EffectRecord::Exited(_) | EffectRecord::Started) | Err(_) => Some(unknown()),
        }
    }

    async fn bash(&self, bash: &Bash, effect_id: &str) -> Result<Performed, HarnessError> {
        let timeout =
            bash.timeout_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0).unwrap_or(COMMAND_TIMEOUT_S);
        // No command outlives the budget of its agent.
        let wall = Duration::from_secs_f64(timeout.min(COMMAND_TIMEOUT_S_MAX)).min(self.purse.time_left());
        let exec = Exec {
            effect_id: effect_id.to_owned(),
            command: bash.command.clone(),
            timeout_ms: wall.as_millis() as u64,
            call: Some(CallOf { tool: BASH.into(), inbox_id: effect::question(effect_id), run: self.identity.run }),
        };
        let output = Arc::new(Mutex::new(Printed::default()));
        let collected = Arc::clone(&output);
        let on_output = Box::new(move |_: OutputStream, bytes: &[u8]| {
            collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(bytes);
        });
        let ended = self.exec(exec, on_output).await;
        let (output, gone) =
            std::mem::take(&mut *output.lock().unwrap_or_else(|poisoned| poisoned.into_inner())).whole();
        let text = String::from_utf8_lossy(&output).into_owned();
        let (outcome, heading) = match ended {
            Ok(exit) if exit.timed_out => (ToolOutcome::Error, format!("Stopped after {:.1} s.", wall.as_secs_f64())),
            Ok(exit) => match exit.code {
                Some(0) => (ToolOutcome::Ok, with_limit("exit code 0".to_owned(), &exit)),
                Some(code) => (ToolOutcome::Error, with_limit(format!("exit code {code}"), &exit)),
                None => (ToolOutcome::Unknown, "Nobody knows how it ended.".to_owned()),
            },
            // Whoever ran it is gone. What the record says of it counts, not that nobody answered.
            Err(error) => match self.known(effect_id).await {
                Some(known) => return Ok(known),
                None => (ToolOutcome::Error, error.to_string()),
            },
        };
        let mut performed = Performed::new(outcome, format!("{heading}\n{text}"));
        (performed.raw, performed.gone) = (Some(output), gone);
        Ok(performed)
    }
}

fn unknown() -> Performed {
    let said = "The call was cut off. Nobody knows how far it came. Look before you repeat it.";
    Performed::new(ToolOutcome::Unknown, said.into())
}

/// How a command ended, the limit that it reached, and how much of its output nobody has.
fn with_limit(mut heading: String, exit: &Exit) -> String {
    if let Some(limit) = exit.limit {
        heading = format!("{heading}\n{}", limit.sentence());
    }
    if exit.missed_bytes > 0 {
        heading = format!("{heading}\n{} bytes of its output were not kept.", exit.missed_bytes);
    }
    heading
}

/// A delegated request. What the person points at reaches every agent, whatever the conductor says of it.
fn request(delegation: &Delegation, material: &str) -> TaskRequest {
    let kind = match delegation.role {
        Role::Researcher => TaskKind::Research,
        Role::Conductor | Role::Writer | Role::Terminal => TaskKind::Edit,
    };
    TaskRequest {
        kind,
        instruction: format!("{}{material}", delegation.objective),
        acceptance_criteria: delegation.acceptance_criteria.clone(),
        base_ref: None,
        commands: Vec::new(),
        git_action: None,
        allowed_tools: None,
        egress: delegation.egress.clone(),
        verify: delegation.verify.clone(),
        budget: delegation.budget,
        wanted: None,
    }
}

/// A text without what would steer a terminal: colours and titles are nothing to a model, and a page must not obey them.
fn readable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Head and tail of a text that is too long to show.
pub(super) fn shorten(text: &str) -> String {
    shorten_to(text, CONTENT_BYTES_MAX, Gone::default())
}

/// The same to a length, of a text in whose middle something is gone already.
fn shorten_to(text: &str, bytes_max: usize, gone: Gone) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = floor(text, bytes_max / 2);
    let tail = floor(text, text.len() - bytes_max / 2);
    let left_out = (tail - head).saturating_sub(gone.note_bytes) + gone.bytes;
    format!("{}\n… {left_out} bytes are left out …\n{}", &text[..head], &text[tail..])
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
