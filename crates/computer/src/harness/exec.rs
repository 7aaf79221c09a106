//! One command in an associate, with its output collected.

use super::person::Person;
use super::{Harness, HarnessError, RunContext, stopped};
use crate::journal::Scope;
use choir_core::command::Step;
use choir_proto::event::{Actor, ToolOutcome};
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::task::CommandResult;
use choir_proto::wire::{CallOf, EffectRecord, Exec, Exit, OutputStream};
use choir_proto::{Hash, TaskId};
use choir_store::{BlobWriter, Blobs, StoreError};
use std::sync::{Arc, Mutex};

/// The tool that runs commands for agents.
pub(super) const BASH: &str = "bash";

/// How long one command may take when the task has no time of its own.
pub(super) const TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// What a shell says of a command that it could not start.
const NOT_STARTED: i32 = 126;

/// Bytes of each stream that the result carries; the rest is in the blob.
const STREAM_BYTES_MAX: usize = 64 * 1024;

/// Bytes of output that are kept at all.
const OUTPUT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of output that are kept in memory until it has ended. Few commands say more.
const MEMORY_BYTES_MAX: usize = 256 * 1024;

/// Where commands run.
pub(super) struct Place<'a> {
    pub(super) context: &'a RunContext,
    pub(super) associate: TaskId,
    pub(super) timeout_ms: u64,
    /// The call of an agent's tool that it is, to whoever may have a word on it; nothing for commands that a person gave.
    pub(super) call: Option<CallOf>,
}

impl Place<'_> {
    /// Runs a command to its end, or until the person wants no more.
    pub(super) async fn run(&self, step: &Step) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        let exec = Exec {
            effect_id: step.effect_id.clone(),
            command: step.command.clone(),
            timeout_ms: self.timeout_ms,
            call: self.call.clone(),
        };
        let output = Arc::new(Mutex::new(Output::kept_in(&self.context.harness)));
        let collected = Arc::clone(&output);
        let on_output = Box::new(move |stream: OutputStream, bytes: &[u8]| {
            collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(stream, bytes);
        });
        let control = Arc::clone(&self.context.harness.control);
        let world = self.context.harness.journal.world();
        let began = world.elapsed();
        let exit = {
            let running = control.exec(self.associate, exec, on_output);
            tokio::pin!(running);
            tokio::select! {
                exit = running.as_mut() => exit.map(|exit| (exit, false)),
                stop = stopped(self.context.signal.clone()) => {
                    stop?;
                    if let Err(error) = control.kill_associate(self.associate).await {
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
                result.duration_ms = world.elapsed().saturating_sub(began).as_millis() as u64;
                // Whoever was stopped lost its sandbox by our own hand, and has nothing to say about it.
                if !stopped {
                    result.stderr.push_str(&error.to_string());
                }
                let outcome = match control.effect(step.effect_id.clone()).await {
                    _ if stopped => ToolOutcome::Cancelled,
                    Ok(EffectRecord::Absent) => {
                        result.exit_code = Some(NOT_STARTED);
                        ToolOutcome::Error
                    }
                    _ => ToolOutcome::Unknown,
                };
                Ok((outcome, result))
            }
        }
    }

    /// Runs a command of a task after the person's word, where an agent wants it and they want to have one.
    pub(super) async fn run_if_allowed(
        &self,
        step: &Step,
        task: TaskId,
    ) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        match self.refusal(step, task).await? {
            Some(refusal) => self.refused(step, refusal).await,
            None => self.run(step).await,
        }
    }

    /// Of a command that was not begun.
    pub(super) async fn refused(
        &self,
        step: &Step,
        (outcome, why): (ToolOutcome, String),
    ) -> Result<(ToolOutcome, CommandResult), HarnessError> {
        let result = self.result(step, None, Output::default()).await?;
        Ok((outcome, CommandResult { stderr: why, ..result }))
    }

    /// Why a command that an agent wants may not be run, if it may not.
    pub(super) async fn refusal(
        &self,
        step: &Step,
        task: TaskId,
    ) -> Result<Option<(ToolOutcome, String)>, HarnessError> {
        let Some(call) = &self.call else { return Ok(None) };
        let scope = Scope::of(Actor::Computer).run(self.context.run).task(task);
        let person = Person { context: self.context, scope, purse: None, seat: None };
        let matter = Matter::Call { tool: call.tool.clone(), subject: step.command.clone(), definition: None };
        let sandbox = (self.associate != task).then_some(self.associate);
        Ok(match person.ask_for(sandbox, call.inbox_id, matter, None).await? {
            Ok(Verdict::Approved { .. }) => None,
            Ok(Verdict::Withdrawn) => Some((ToolOutcome::Cancelled, "Stopped.".to_owned())),
            Ok(_) => Some((ToolOutcome::Refused, "The person does not allow this.".to_owned())),
            Err(error) => Some((ToolOutcome::Refused, format!("Whether this is allowed cannot be known: {error}"))),
        })
    }

    /// What one command did.
    pub(super) async fn result(
        &self,
        step: &Step,
        exit: Option<&Exit>,
        output: Output,
    ) -> Result<CommandResult, HarnessError> {
        let truncated = output.cut || exit.is_some_and(|exit| exit.missed_bytes > 0);
        let log = match exit.is_some() || truncated {
            true => Some(output.all.keep(&self.context.harness).await?),
            false => None,
        };
        Ok(CommandResult {
            command: step.command.clone(),
            exit_code: exit.and_then(|exit| exit.code),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            truncated,
            duration_ms: exit.map_or(0, |exit| exit.duration_ms),
            log,
            limit: exit.and_then(|exit| exit.limit),
        })
    }
}

/// What a command said.
#[derive(Default)]
pub(super) struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    all: Log,
    cut: bool,
}

/// Everything that a command said: in memory while it is little, in a blob when it is much.
#[derive(Default)]
struct Log {
    blobs: Option<Arc<Blobs>>,
    memory: Vec<u8>,
    blob: Option<BlobWriter>,
    bytes: usize,
    /// The disk took no more of it.
    failed: Option<StoreError>,
}

impl Log {
    /// Adds what was said; false when there was no room for all of it.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let kept = &bytes[..bytes.len().min(OUTPUT_BYTES_MAX.saturating_sub(self.bytes))];
        self.bytes += bytes.len();
        if self.blob.is_none() && self.memory.len() + kept.len() <= MEMORY_BYTES_MAX {
            self.memory.extend_from_slice(kept);
        } else if let Err(error) = self.write(kept) {
            self.failed.get_or_insert(error);
        }
        kept.len() == bytes.len()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.failed.is_some() {
            return Ok(());
        }
        let (Some(blobs), None) = (&self.blobs, &self.blob) else {
            return self.blob.as_mut().map_or(Ok(()), |blob| blob.write(bytes));
        };
        let mut blob = blobs.begin()?;
        blob.write(&std::mem::take(&mut self.memory))?;
        blob.write(bytes)?;
        self.blob = Some(blob);
        Ok(())
    }

    /// Keeps it for good, and says at its end what is missing there.
    async fn keep(mut self, harness: &Harness) -> Result<Hash, StoreError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(missing) = self.bytes.checked_sub(OUTPUT_BYTES_MAX).filter(|missing| *missing > 0) {
            self.write(format!("\n[{missing} more bytes were not kept]\n").as_bytes())?;
        }
        let Some(blob) = self.blob else { return harness.documents.keep(self.memory).await };
        tokio::task::spawn_blocking(|| blob.finish()).await.map_err(|_| StoreError::Closed)?
    }
}

impl Output {
    /// Of a command that begins now.
    fn kept_in(harness: &Harness) -> Self {
        let all = Log { blobs: Some(Arc::clone(harness.journal.log().blobs())), ..Log::default() };
        Self { all, ..Self::default() }
    }

    /// Of a command that ended while nobody listened.
    pub(super) fn lost() -> Self {
        Self { cut: true, ..Self::default() }
    }

    fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        let part = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        self.cut |= take_upto(part, bytes, STREAM_BYTES_MAX);
        self.cut |= !self.all.take(bytes);
    }
}

fn take_upto(into: &mut Vec<u8>, bytes: &[u8], limit: usize) -> bool {
    let space = limit.saturating_sub(into.len());
    into.extend_from_slice(&bytes[..bytes.len().min(space)]);
    bytes.len() > space
}
