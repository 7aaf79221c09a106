//! One command in an associate, with its output collected.

use super::{HarnessError, RunContext, stopped};
use choir_core::command::Step;
use choir_proto::TaskId;
use choir_proto::event::ToolOutcome;
use choir_proto::task::CommandResult;
use choir_proto::wire::{CallOf, EffectRecord, Exec, Exit, OutputStream};
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
const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

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
        let output = Arc::new(Mutex::new(Output::default()));
        let collected = Arc::clone(&output);
        let on_output = Box::new(move |stream: OutputStream, bytes: &[u8]| {
            collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(stream, bytes);
        });
        let control = Arc::clone(&self.context.harness.control);
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
                result.stderr.push_str(&error.to_string());
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

    /// Of a command that was not begun.
    pub(super) async fn not_run(&self, step: &Step) -> Result<CommandResult, HarnessError> {
        self.result(step, None, Output::default()).await
    }

    /// What one command did.
    pub(super) async fn result(
        &self,
        step: &Step,
        exit: Option<&Exit>,
        output: Output,
    ) -> Result<CommandResult, HarnessError> {
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
            limit: exit.and_then(|exit| exit.limit),
        })
    }
}

/// What a command said.
#[derive(Default)]
pub(super) struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    all: Vec<u8>,
    cut: bool,
}

impl Output {
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
