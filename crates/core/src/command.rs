//! A task that runs commands without a model, as a fold and a decision: in order, stopping at the first failure.

use crate::effect;
use choir_proto::event::ToolOutcome;
use choir_proto::task::{CommandResult, TaskStatus};
use choir_proto::{Event, RunId, TaskId};

/// The name under which such a command is journalled.
pub const TOOL: &str = "command";

/// A task's commands at a moment.
#[derive(Debug, Clone)]
pub struct Commands {
    run: RunId,
    task: TaskId,
    commands: Vec<String>,
    finished: Vec<(ToolOutcome, CommandResult)>,
    /// The effect of the command that was begun and has no result yet.
    begun: Option<String>,
}

/// What such a task needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Begin this command: append its intent, run it, append its result.
    Begin(Step),
    /// This one was begun, and a crash came before its result.
    Outstanding(Step),
    /// It is over.
    End(TaskStatus, String),
}

/// Bytes of output that the commands of one result show together. A result is one event, and an event goes whole through every
/// stream; all of the output is in the logs that the commands name.
pub const SHOWN_BYTES_MAX: usize = 1024 * 1024;

/// Lets commands show no more than a result may carry, the first ones first.
pub fn fit(results: &mut [CommandResult]) {
    let mut room = SHOWN_BYTES_MAX;
    for result in results {
        for text in [&mut result.stdout, &mut result.stderr] {
            let shown = text.floor_char_boundary(room);
            result.truncated |= shown < text.len();
            text.truncate(shown);
            room -= shown;
        }
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its stable name.
    pub effect_id: String,
    /// Its place.
    pub index: u32,
    /// For `sh -c`.
    pub command: String,
}

impl Commands {
    /// A task of which nothing has happened yet.
    pub fn new(run: RunId, task: TaskId, commands: Vec<String>) -> Self {
        Self { run, task, commands, finished: Vec::new(), begun: None }
    }

    /// Folds an event of the task.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::ToolStarted(started) if started.name == TOOL => self.begun = Some(started.effect_id.clone()),
            Event::ToolFinished(finished) if self.begun.as_deref() == Some(&finished.effect_id) => {
                let index = self.finished.len();
                let result = serde_json::from_str(&finished.content).unwrap_or_else(|_| unread(&self.commands[index]));
                self.finished.push((finished.outcome, result));
                self.begun = None;
            }
            _ => {}
        }
    }

    /// What came of the commands so far.
    pub fn results(&self) -> Vec<CommandResult> {
        let mut results: Vec<_> = self.finished.iter().map(|(_, result)| result.clone()).collect();
        fit(&mut results);
        results
    }

    /// What the task needs now.
    pub fn next(&self) -> Next {
        if let Some((outcome, result)) = self.finished.last()
            && *outcome != ToolOutcome::Ok
        {
            return ended(*outcome, result);
        }
        let Some(command) = self.commands.get(self.finished.len()) else {
            return Next::End(TaskStatus::Ok, succeeded(self.finished.len()));
        };
        let step = self.step(self.finished.len() as u32, command);
        if self.begun.is_some() { Next::Outstanding(step) } else { Next::Begin(step) }
    }

    fn step(&self, index: u32, command: &str) -> Step {
        let arguments = serde_json::json!({ "command": command });
        let effect_id = effect::id(self.run, self.task, 1, index, TOOL, &arguments);
        Step { effect_id, index, command: command.to_owned() }
    }
}

fn ended(outcome: ToolOutcome, result: &CommandResult) -> Next {
    match (outcome, result.exit_code) {
        (ToolOutcome::Cancelled, _) => Next::End(TaskStatus::Cancelled, "Stopped.".into()),
        (ToolOutcome::Refused, _) => {
            Next::End(TaskStatus::Failed, format!("`{}` was not run. {}", result.command, result.stderr))
        }
        (ToolOutcome::Unknown, _) => {
            Next::End(TaskStatus::Unknown, format!("Nobody knows how `{}` ended.", result.command))
        }
        // Only a command whose time was up ends without a code, and is known to have ended.
        (_, None) => Next::End(TaskStatus::OutOfTime, format!("`{}` was stopped: its time was over.", result.command)),
        (_, Some(code)) => Next::End(TaskStatus::Failed, with_limit(result, code)),
    }
}

fn with_limit(result: &CommandResult, code: i32) -> String {
    let ended = format!("`{}` ended with exit code {code}.", result.command);
    result.limit.map_or(ended.clone(), |limit| format!("{ended} {}", limit.sentence()))
}

fn succeeded(count: usize) -> String {
    match count {
        1 => "The command succeeded.".into(),
        count => format!("All {count} commands succeeded."),
    }
}

fn unread(command: &str) -> CommandResult {
    CommandResult {
        command: command.to_owned(),
        exit_code: None,
        stdout: String::new(),
        stderr: String::new(),
        truncated: true,
        duration_ms: 0,
        log: None,
        limit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_result_show_no_more_than_an_event_may_carry() {
        let long = "é".repeat(SHOWN_BYTES_MAX / 5);
        let mut results: Vec<_> =
            (0..5).map(|_| CommandResult { stdout: long.clone(), truncated: false, ..unread("x") }).collect();
        fit(&mut results);
        let shown: usize = results.iter().map(|result| result.stdout.len()).sum();
        assert!(shown <= SHOWN_BYTES_MAX && shown > SHOWN_BYTES_MAX - 2, "{shown}");
        let cut: Vec<bool> = results.iter().map(|result| result.truncated).collect();
        assert_eq!(cut, [false, false, true, true, true], "the first ones come first");
    }
    use choir_proto::event::{ToolFinished, ToolStarted};
    use choir_proto::task::Limit;
    use uuid::Uuid;

    fn task() -> Commands {
        let commands = vec!["one".to_owned(), "two".to_owned()];
        Commands::new(RunId::new(Uuid::from_u128(1)), TaskId::new(Uuid::from_u128(1)), commands)
    }

    fn begin(commands: &mut Commands) -> Step {
        let Next::Begin(step) = commands.next() else { panic!("a command is next") };
        let arguments = serde_json::json!({"command": step.command});
        let (effect_id, call_id) = (step.effect_id.clone(), String::new());
        let started = ToolStarted { effect_id, turn: 1, index: step.index, call_id, name: TOOL.into(), arguments };
        commands.apply(&started.into());
        step
    }

    fn finish(commands: &mut Commands, step: &Step, outcome: ToolOutcome, exit_code: impl Into<Option<i32>>) {
        let result = CommandResult { exit_code: exit_code.into(), ..unread(&step.command) };
        let content = serde_json::to_string(&result).unwrap();
        let effect_id = step.effect_id.clone();
        let finished =
            ToolFinished { effect_id, call_id: String::new(), outcome, content, output: None, duration_ms: 0 };
        commands.apply(&finished.into());
    }

    #[test]
    fn commands_run_in_order_and_stop_at_the_first_failure() {
        let mut commands = task();
        let one = begin(&mut commands);
        assert!(matches!(commands.next(), Next::Outstanding(step) if step == one));
        finish(&mut commands, &one, ToolOutcome::Ok, 0);
        let two = begin(&mut commands);
        assert_eq!(two.command, "two");
        finish(&mut commands, &two, ToolOutcome::Ok, 0);
        assert_eq!(commands.next(), Next::End(TaskStatus::Ok, "All 2 commands succeeded.".into()));

        let mut commands = task();
        let one = begin(&mut commands);
        finish(&mut commands, &one, ToolOutcome::Error, 3);
        assert_eq!(commands.next(), Next::End(TaskStatus::Failed, "`one` ended with exit code 3.".into()));
    }

    #[test]
    fn a_limit_that_was_reached_has_its_name() {
        let mut commands = task();
        let one = begin(&mut commands);
        let result = CommandResult { exit_code: Some(137), limit: Some(Limit::Memory), ..unread("one") };
        let content = serde_json::to_string(&result).unwrap();
        let (effect_id, call_id, outcome) = (one.effect_id, String::new(), ToolOutcome::Error);
        commands.apply(&ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 }.into());
        let said = "`one` ended with exit code 137. The sandbox reached its memory limit.";
        assert_eq!(commands.next(), Next::End(TaskStatus::Failed, said.into()));
    }

    #[test]
    fn a_command_whose_time_was_up_is_known_to_have_ended() {
        let ended = |outcome| {
            let mut commands = task();
            let one = begin(&mut commands);
            finish(&mut commands, &one, outcome, None);
            match commands.next() {
                Next::End(status, _) => status,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended(ToolOutcome::Error), TaskStatus::OutOfTime);
        assert_eq!(ended(ToolOutcome::Refused), TaskStatus::Failed, "nobody began it");
        assert_eq!(ended(ToolOutcome::Unknown), TaskStatus::Unknown);
    }
}
