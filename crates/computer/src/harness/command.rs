//! Tasks that run commands without a model.

use super::finish::{bring_home, let_go};
use super::{HarnessError, RunContext, stopped};
use crate::journal::Scope;
use choir_core::command::{Commands, Next, Step, TOOL};
use choir_core::fold::task::running;
use choir_proto::event::{Actor, TaskFinished, TaskStarted, ToolFinished, ToolOutcome, ToolStarted};
use choir_proto::task::{
    CommandResult, TaskRequest, TaskResult, TaskStatus, TaskUsage, VerifyResult, VerifySource, VerifyStatus,
};
use choir_proto::wire::{EffectRecord, Exec, Exit, OutputStream, StartAssociate};
use choir_proto::{Event, Hash, TaskId};
use std::sync::{Arc, Mutex};

/// How long one command may take when the task has no time of its own.
const TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// Bytes of each stream that the result carries; the rest is in the blob.
const STREAM_BYTES_MAX: usize = 64 * 1024;

/// Bytes of output that are kept at all.
const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Runs a task's commands from wherever its events say it is, and appends what came of it.
pub async fn run_commands(context: RunContext, task: TaskId, request: TaskRequest) -> Result<TaskResult, HarnessError> {
    let mut worker = Worker::new(context, task, request);
    let started = worker.context.harness.journal.world().elapsed();
    let (status, summary) = match worker.start().await? {
        Some(why) => (TaskStatus::Failed, why),
        None => worker.work().await?,
    };
    let time_s = (worker.context.harness.journal.world().elapsed() - started).as_secs_f64();
    worker.end(status, summary, time_s).await
}

struct Worker {
    context: RunContext,
    task: TaskId,
    request: TaskRequest,
    commands: Commands,
    /// The tree it works on, once it has a place to work in.
    base_tree: Option<Hash>,
}

impl Worker {
    fn new(context: RunContext, task: TaskId, request: TaskRequest) -> Self {
        let mut commands = Commands::new(context.run, task, request.commands.clone());
        for (_, event) in context.past.of_agent(task, false) {
            commands.apply(event);
        }
        Self { context, task, request, commands, base_tree: None }
    }

    fn scope(&self) -> Scope {
        Scope::of(Actor::Computer).run(self.context.run).task(self.task)
    }

    /// A reason, when there is no sandbox to be had.
    async fn start(&mut self) -> Result<Option<String>, HarnessError> {
        let start = StartAssociate { egress: self.request.egress.clone() };
        match self.context.harness.control.start_associate(self.task, start).await {
            Ok(started) => {
                self.base_tree = started.base_tree;
                self.append(vec![TaskStarted { base_tree: started.base_tree }.into()]).await.map(|()| None)
            }
            Err(error) => Ok(Some(format!("No sandbox could be started: {error}"))),
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

    async fn run(&self, step: &Step) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        let timeout_ms = self
            .request
            .budget
            .and_then(|budget| budget.time_s)
            .map_or(TIMEOUT_MS, |seconds| (seconds * 1000.0) as u64);
        let exec = Exec { effect_id: step.effect_id.clone(), command: step.command.clone(), timeout_ms };
        let output = Arc::new(Mutex::new(Output::default()));
        let collected = Arc::clone(&output);
        let on_output = Box::new(move |stream: OutputStream, bytes: &[u8]| {
            collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(stream, bytes);
        });
        let control = Arc::clone(&self.context.harness.control);
        let exit = {
            let running = control.exec(self.task, exec, on_output);
            tokio::pin!(running);
            tokio::select! {
                exit = running.as_mut() => exit.map(|exit| (exit, false)),
                stop = stopped(self.context.signal.clone()) => {
                    stop?;
                    if let Err(error) = control.kill_associate(self.task).await {
                        tracing::warn!(%error, "an associate could not be ended");
                    }
                    running.await.map(|exit| (exit, true))
                }
            }
        };
        let output = std::mem::take(&mut *output.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let stopped = self.context.signal.borrow().cancelled;
        match exit {
            Ok((exit, by_person)) => {
                let outcome = match exit.code {
                    _ if by_person => ToolOutcome::Cancelled,
                    Some(0) if !exit.timed_out => ToolOutcome::Ok,
                    _ => ToolOutcome::Error,
                };
                Ok((outcome, self.result(step, Some(&exit), output).await?))
            }
            Err(error) => {
                let mut result = self.result(step, None, output).await?;
                result.stderr.push_str(&error.to_string());
                Ok((if stopped { ToolOutcome::Cancelled } else { ToolOutcome::Unknown }, result))
            }
        }
    }

    async fn result(&self, step: &Step, exit: Option<&Exit>, output: Output) -> Result<CommandResult, HarnessError> {
        let truncated = output.truncated();
        let log = if truncated { Some(self.context.harness.documents.keep(output.all).await?) } else { None };
        Ok(CommandResult {
            command: step.command.clone(),
            exit_code: exit.and_then(|exit| exit.code),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            truncated,
            duration_ms: exit.map_or(0, |exit| exit.duration_ms),
            log,
        })
    }

    /// Goes on with a command whose result a crash swallowed.
    async fn pick_up(&self, step: &Step) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        match self.context.harness.control.effect(step.effect_id.clone()).await {
            Ok(EffectRecord::Absent) => self.run(step).await,
            Ok(EffectRecord::Exited(exit)) => {
                let outcome = if exit.code == Some(0) { ToolOutcome::Ok } else { ToolOutcome::Error };
                Ok((outcome, self.result(step, Some(&exit), Output::lost()).await?))
            }
            Ok(EffectRecord::Started) | Err(_) => {
                Ok((ToolOutcome::Unknown, self.result(step, None, Output::lost()).await?))
            }
        }
    }

    async fn end(&mut self, status: TaskStatus, summary: String, time_s: f64) -> Result<TaskResult, HarnessError> {
        let mut result = TaskResult {
            status,
            summary,
            base_tree: self.base_tree,
            commands: self.commands.results(),
            verify: self.request.verify.as_ref().map(|verify| VerifyResult {
                mode: verify.mode,
                // Nothing was checked, and nothing is claimed.
                status: VerifyStatus::Unknown,
                source: VerifySource::Person,
                checks_changed: Vec::new(),
                commands: Vec::new(),
            }),
            usage: TaskUsage { time_s, ..TaskUsage::default() },
            ..running(self.task)
        };
        bring_home(&self.context, self.task, &mut result).await;
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

#[derive(Default)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    all: Vec<u8>,
    cut: bool,
}

impl Output {
    /// Of a command that ended while nobody listened.
    fn lost() -> Self {
        Self { cut: true, ..Self::default() }
    }

    fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        let part = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        self.cut |= take_upto(part, bytes, STREAM_BYTES_MAX);
        self.cut |= take_upto(&mut self.all, bytes, OUTPUT_BYTES_MAX);
    }

    fn truncated(&self) -> bool {
        self.cut
    }
}

fn take_upto(into: &mut Vec<u8>, bytes: &[u8], limit: usize) -> bool {
    let space = limit.saturating_sub(into.len());
    into.extend_from_slice(&bytes[..bytes.len().min(space)]);
    bytes.len() > space
}
