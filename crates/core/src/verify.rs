//! What checks say: of a task's result, and of a run.

use choir_proto::RunStatus;
use choir_proto::event::ToolOutcome;
use choir_proto::task::{
    CommandResult, Egress, TaskResult, TaskStatus, Verify, VerifyMode, VerifyResult, VerifySource, VerifyStatus,
};

/// The name under which a check's effect is recorded.
pub const TOOL: &str = "verify";

/// The one profile that checks may reach.
const REGISTRIES: &str = "registries";

/// Checks of a result, and who chose them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// As they were asked for.
    pub verify: Verify,
    /// Who asked.
    pub source: VerifySource,
}

impl Checks {
    /// Whether there is something to run.
    pub fn is_runnable(&self) -> bool {
        self.verify.mode == VerifyMode::Commands && !self.verify.commands.is_empty()
    }

    /// What is said when nothing was checked: nothing is claimed.
    pub fn unchecked(&self) -> VerifyResult {
        self.result(VerifyStatus::Unknown, Vec::new())
    }

    /// What the commands that ran say. All were run, or the last one did not succeed.
    pub fn concluded(&self, ran: Vec<(ToolOutcome, CommandResult)>) -> VerifyResult {
        let status = match ran.last() {
            Some((ToolOutcome::Ok, _)) if ran.len() == self.verify.commands.len() => VerifyStatus::Pass,
            Some((ToolOutcome::Error, _)) => VerifyStatus::Fail,
            _ => VerifyStatus::Unknown,
        };
        self.result(status, ran.into_iter().map(|(_, result)| result).collect())
    }

    fn result(&self, status: VerifyStatus, commands: Vec<CommandResult>) -> VerifyResult {
        VerifyResult { mode: self.verify.mode, status, source: self.source, checks_changed: Vec::new(), commands }
    }
}

/// Where checks may connect to: package registries, if the task itself was allowed these.
pub fn egress(of_task: Option<&Egress>) -> Egress {
    let allowed = of_task.is_none_or(|egress| egress.allow.iter().any(|entry| entry == REGISTRIES));
    Egress { allow: if allowed { vec![REGISTRIES.to_owned()] } else { Vec::new() } }
}

/// How a task ends whose work was well and whose result was checked.
pub fn judge(verify: &VerifyResult) -> (TaskStatus, Option<String>) {
    let last = verify.commands.last();
    match verify.status {
        VerifyStatus::Pass => (TaskStatus::Ok, None),
        VerifyStatus::Fail => (TaskStatus::Failed, last.map(failure)),
        VerifyStatus::Unknown => (TaskStatus::Unknown, Some("The result could not be checked.".to_owned())),
    }
}

fn failure(check: &CommandResult) -> String {
    match check.exit_code {
        Some(code) => format!("The check `{}` ended with exit code {code}.", check.command),
        None => format!("The check `{}` did not end in time.", check.command),
    }
}

/// How a run ends that says it is done: the checks that a person chose have the last word.
pub fn settle<'a>(ended: RunStatus, tasks: impl Iterator<Item = &'a TaskResult>) -> RunStatus {
    if ended != RunStatus::Completed {
        return ended;
    }
    let chosen_by_person = |verify: &&VerifyResult| verify.source != VerifySource::Agent;
    let (mut last, mut unchecked) = (None, false);
    for task in tasks {
        match task.verify.as_ref().filter(chosen_by_person).map(|verify| verify.status) {
            Some(VerifyStatus::Unknown) | None => {
                unchecked |= task.merged_tree.is_some() && task.merged_tree != task.base_tree
            }
            Some(status) => {
                last = Some(status);
                // Until a person has looked at it, a changed check proves nothing.
                unchecked |= task.verify.as_ref().is_some_and(|verify| !verify.checks_changed.is_empty());
            }
        }
    }
    match last {
        Some(VerifyStatus::Fail) => RunStatus::Failed,
        Some(VerifyStatus::Pass) if !unchecked => RunStatus::Verified,
        _ => RunStatus::Completed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::task::running;
    use choir_proto::{Hash, TaskId};
    use uuid::Uuid;

    fn checks() -> Checks {
        let commands = vec!["one".to_owned(), "two".to_owned()];
        Checks { verify: Verify { mode: VerifyMode::Commands, commands }, source: VerifySource::Person }
    }

    fn ran(outcome: ToolOutcome) -> (ToolOutcome, CommandResult) {
        let (stdout, stderr) = (String::new(), String::new());
        let exit_code = Some(i32::from(outcome != ToolOutcome::Ok));
        let command = "one".to_owned();
        (outcome, CommandResult { command, exit_code, stdout, stderr, truncated: false, duration_ms: 0, log: None })
    }

    #[test]
    fn only_checks_that_all_ran_and_succeeded_pass() {
        use ToolOutcome::{Cancelled, Error, Ok, Unknown};
        let status =
            |outcomes: &[ToolOutcome]| checks().concluded(outcomes.iter().map(|one| ran(*one)).collect()).status;
        assert_eq!(status(&[Ok, Ok]), VerifyStatus::Pass);
        assert_eq!(status(&[Ok, Error]), VerifyStatus::Fail);
        assert_eq!(status(&[Ok]), VerifyStatus::Unknown, "one did not run");
        assert_eq!(status(&[]), VerifyStatus::Unknown);
        assert_eq!((status(&[Ok, Unknown]), status(&[Cancelled])), (VerifyStatus::Unknown, VerifyStatus::Unknown));
        assert_eq!(judge(&checks().concluded(vec![ran(Error)])).0, TaskStatus::Failed);
        assert_eq!(judge(&checks().unchecked()).0, TaskStatus::Unknown);
    }

    #[test]
    fn checks_reach_registries_at_most() {
        let allow =
            |entries: &[&str]| egress(Some(&Egress { allow: entries.iter().map(ToString::to_string).collect() }));
        assert_eq!(egress(None).allow, ["registries"]);
        assert_eq!(allow(&["git", "registries", "example.org:443"]).allow, ["registries"]);
        assert_eq!((allow(&[]).allow.len(), allow(&["git"]).allow.len()), (0, 0));
    }

    fn task(source: VerifySource, status: Option<VerifyStatus>, merges: bool) -> TaskResult {
        let verify = status.map(|status| VerifyResult { status, source, ..checks().unchecked() });
        let (base_tree, merged_tree) = (Some(Hash([1; 32])), merges.then_some(Hash([2; 32])));
        TaskResult { verify, base_tree, merged_tree, ..running(TaskId::new(Uuid::nil())) }
    }

    #[test]
    fn a_run_is_verified_when_everything_that_it_merged_was() {
        use VerifySource::{Agent, Person};
        use VerifyStatus::{Fail, Pass};
        let settle = |tasks: &[TaskResult]| settle(RunStatus::Completed, tasks.iter());
        assert_eq!(settle(&[task(Person, Some(Pass), true)]), RunStatus::Verified);
        assert_eq!(settle(&[task(Person, Some(Fail), false), task(Person, Some(Pass), true)]), RunStatus::Verified);
        assert_eq!(settle(&[task(Person, Some(Pass), true), task(Person, Some(Fail), false)]), RunStatus::Failed);
        assert_eq!(settle(&[task(Person, Some(Pass), true), task(Person, None, true)]), RunStatus::Completed);
        assert_eq!(settle(&[task(Agent, Some(Pass), true)]), RunStatus::Completed, "a model's checks prove nothing");
        assert_eq!(settle(&[]), RunStatus::Completed);
        let mut weakened = task(Person, Some(Pass), true);
        weakened.verify.as_mut().unwrap().checks_changed = vec!["tests/a.rs".into()];
        assert_eq!(settle(&[weakened]), RunStatus::Completed, "who changed a check is not verified by it");
        let failed = super::settle(RunStatus::Failed, [task(Person, Some(Pass), true)].iter());
        assert_eq!(failed, RunStatus::Failed);
    }
}
