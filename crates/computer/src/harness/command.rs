//! Tasks that run commands without a model.

use super::exec::{BASH, Output, Place, TIMEOUT_MS};
use super::finish::{Home, let_go};
use super::person::Person;
use super::{HarnessError, RunContext, start_associate};
use crate::journal::Scope;
use choir_core::command::{Commands, Next, Step, TOOL};
use choir_core::effect;
use choir_core::fold::task::running;
use choir_core::verify::Checks;
use choir_proto::event::{Actor, TaskFinished, TaskStarted, ToolFinished, ToolOutcome, ToolStarted};
use choir_proto::task::{CommandResult, TaskRequest, TaskResult, TaskStatus, TaskUsage, VerifySource};
use choir_proto::wire::{CallOf, EffectRecord, StartAssociate};
use choir_proto::{Event, Hash, TaskId};
use std::time::Duration;

/// What is said of a task in a large workspace.
const ALONE: &str = "The workspace is large, so its tasks run one at a time.";

/// Runs a task's commands from wherever its events say it is, and appends what came of it.
pub async fn run_commands(context: RunContext, task: TaskId, request: TaskRequest) -> Result<TaskResult, HarnessError> {
    let mut worker = Worker::new(context, task, request);
    let (status, summary) = match worker.start().await? {
        Some(ended) => ended,
        None => worker.work().await?,
    };
    worker.end(status, summary).await
}

/// Who wrote a task's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// The person who gave the task.
    Person,
    /// An agent, into a document: the person wants the figure made again, and may not have read what makes it.
    Agent,
}

impl Author {
    fn of(context: &RunContext, task: TaskId) -> Self {
        let is_figure =
            |event: &Event| matches!(event, Event::FigureChanged(changed) if changed.figure.task_id == Some(task));
        match context.past.of_agent(task, false).any(|(_, event)| is_figure(event)) {
            true => Self::Agent,
            false => Self::Person,
        }
    }
}

struct Worker {
    context: RunContext,
    task: TaskId,
    request: TaskRequest,
    commands: Commands,
    /// The tree it works on, once it has a place to work in.
    base_tree: Option<Hash>,
    /// Whether it had to wait for the tasks before it.
    alone: bool,
    /// Whose words its commands are.
    author: Author,
    /// When it began to work, by the clock that only goes forward. Whoever waits for the person, or in the line of a large
    /// workspace, is not at work.
    began: Duration,
}

impl Worker {
    fn new(context: RunContext, task: TaskId, request: TaskRequest) -> Self {
        let mut commands = Commands::new(context.run, task, request.commands.clone());
        for (_, event) in context.past.of_agent(task, false) {
            commands.apply(event);
        }
        let began = context.harness.journal.world().elapsed();
        let author = Author::of(&context, task);
        Self { context, task, request, commands, base_tree: None, alone: false, author, began }
    }

    /// How long it has been at work.
    fn time(&self) -> Duration {
        self.context.harness.journal.world().elapsed() - self.began
    }

    /// The time of all commands and checks, where the task has one.
    fn wall(&self) -> Option<Duration> {
        let time_s = self.request.budget.and_then(|budget| budget.time_s)?;
        Some(Duration::from_millis((time_s * 1000.0) as u64))
    }

    /// Where a command runs, with what is left of the time of all of them.
    fn place(&self, step: &Step) -> Place<'_> {
        let left = |wall: Duration| wall.saturating_sub(self.time()).as_millis() as u64;
        let timeout_ms = self.wall().map_or(TIMEOUT_MS, left);
        let (inbox_id, run) = (effect::question(&step.effect_id), self.context.run);
        let call = (self.author == Author::Agent).then(|| CallOf { tool: BASH.into(), inbox_id, run });
        Place { context: &self.context, associate: self.task, timeout_ms, call }
    }

    fn scope(&self) -> Scope {
        Scope::of(Actor::Computer).run(self.context.run).task(self.task)
    }

    /// The end already, when there is no sandbox to be had.
    async fn start(&mut self) -> Result<Option<(TaskStatus, String)>, HarnessError> {
        let start = StartAssociate {
            egress: self.request.egress.clone(),
            run: Some(self.context.run),
            base: self.request.base(),
            check: None,
        };
        let person = Person { context: &self.context, scope: self.scope(), purse: None, seat: None };
        match start_associate(&person, self.task, start).await? {
            Ok(Some(started)) => {
                self.began = self.context.harness.journal.world().elapsed();
                self.base_tree = started.base_tree;
                self.alone = started.alone;
                self.append(vec![TaskStarted { base_tree: started.base_tree, alone: started.alone }.into()])
                    .await
                    .map(|()| None)
            }
            Ok(None) => Ok(Some((TaskStatus::Cancelled, "Stopped.".to_owned()))),
            Err(error) => Ok(Some((TaskStatus::Failed, format!("No sandbox could be started: {error}")))),
        }
    }

    async fn work(&mut self) -> Result<(TaskStatus, String), HarnessError> {
        loop {
            let (step, finished) = match self.commands.next() {
                Next::End(status, summary) => return Ok((status, summary)),
                Next::Begin(step) => {
                    self.append(vec![intent(&step)]).await?;
                    let finished = self.run(&step).await?;
                    (step, finished)
                }
                Next::Outstanding(step) => {
                    let finished = self.pick_up(&step).await?;
                    (step, finished)
                }
            };
            let (outcome, result) = finished;
            let finished = ToolFinished {
                effect_id: step.effect_id,
                call_id: String::new(),
                outcome,
                duration_ms: result.duration_ms,
                output: result.log,
                content: serde_json::to_string(&result).unwrap_or_default(),
            };
            self.append(vec![finished.into()]).await?;
        }
    }

    /// Runs a command, after the person's word where they want to have one; waiting for that is no time at work.
    async fn run(&mut self, step: &Step) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        let before = self.time();
        let refusal = self.place(step).refusal(step, self.task).await?;
        self.began += self.time().saturating_sub(before);
        match refusal {
            Some(refusal) => self.place(step).refused(step, refusal).await,
            None => self.place(step).run(step).await,
        }
    }

    /// Goes on with a command whose result a crash swallowed.
    async fn pick_up(&mut self, step: &Step) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        match self.context.harness.control.effect(step.effect_id.clone()).await {
            Ok(EffectRecord::Absent) => self.run(step).await,
            Ok(EffectRecord::Exited(exit)) => {
                let outcome = if exit.code == Some(0) { ToolOutcome::Ok } else { ToolOutcome::Error };
                Ok((outcome, self.place(step).result(step, Some(&exit), Output::lost()).await?))
            }
            Ok(EffectRecord::Started) | Err(_) => {
                Ok((ToolOutcome::Unknown, self.place(step).result(step, None, Output::lost()).await?))
            }
        }
    }

    async fn end(&mut self, status: TaskStatus, summary: String) -> Result<TaskResult, HarnessError> {
        let summary = if self.alone { format!("{summary} {ALONE}") } else { summary };
        let mut result = TaskResult {
            status,
            summary,
            base_tree: self.base_tree,
            commands: self.commands.results(),
            ..running(self.task)
        };
        let checks = self.request.verify.clone().map(|verify| Checks { verify, source: VerifySource::Person });
        let (kind, egress) = (self.request.kind, self.request.egress.as_ref());
        let until = self.wall().map(|wall| self.began.saturating_add(wall));
        let home = Home { context: &self.context, task: self.task, kind, egress, checks, until };
        home.bring(&mut result).await?;
        result.usage = TaskUsage { time_s: self.time().as_secs_f64(), ..TaskUsage::default() };
        let person = Person { context: &self.context, scope: self.scope(), purse: None, seat: None };
        home.settle(&person, &mut result).await?;
        self.append(vec![TaskFinished { result: result.clone() }.into()]).await?;
        let_go(&self.context, self.task).await;
        Ok(result)
    }

    async fn append(&mut self, events: Vec<Event>) -> Result<(), HarnessError> {
        self.context.harness.journal.append(&self.scope(), events.clone()).await?;
        events.iter().for_each(|event| self.commands.apply(event));
        Ok(())
    }
}

fn intent(step: &Step) -> Event {
    ToolStarted {
        effect_id: step.effect_id.clone(),
        turn: 1,
        index: step.index,
        call_id: String::new(),
        name: TOOL.into(),
        arguments: serde_json::json!({ "command": step.command }),
    }
    .into()
}
