//! What checks say of a task's result.

use crate::discover::{Found, is_within, is_words};
use crate::expect::Expected;
use crate::says::Says;
use crate::told::{Told, home};
use choir_proto::egress::REGISTRIES;
use choir_proto::event::ToolOutcome;
use choir_proto::task::{
    CommandResult, Egress, FileChange, TaskResult, TaskStatus, Verify, VerifyMode, VerifyResult, VerifySource,
    VerifyStatus,
};
use choir_proto::wire::TreeFiles;

/// The name under which a check's effect is recorded.
pub const TOOL: &str = "verify";

/// What is said of a check of nothing new.
const NOTHING_CHANGED: &str = "Nothing was changed, so a check that passes proves nothing.";

/// What is said of a check of what tests do not read.
const ONLY_WORDS: &str = "Only words for people were changed, which tests do not read.";

/// What is said of a check that a model made small.
const ONLY_LOOKED: &str = "It was only looked at in short, and no person wanted that: its tests did not run.";

/// How cargo is asked for every test there is.
const WORKSPACE: &str = "cargo test --workspace";

/// How node is.
const NODE: &str = "node --test";

/// Paths that a sentence names.
const PATHS_NAMED_MAX: usize = 5;

/// Checks of a result as they were asked for, and who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// As they were asked for.
    pub verify: Verify,
    /// Who asked.
    pub source: VerifySource,
}

impl Checks {
    /// Whether something is to be checked at all.
    pub fn is_wanted(&self) -> bool {
        self.verify.mode != VerifyMode::None
    }

    /// The commands that were asked for; nothing, if they have to be found.
    pub fn plan(&self) -> Option<Plan> {
        let Verify { mode, commands } = &self.verify;
        let given = *mode == VerifyMode::Commands && !commands.is_empty();
        let step = |command: &String| Step::check(command.clone(), Says::of(command));
        given.then(|| Plan { steps: commands.iter().map(step).collect(), ..Plan::empty(*mode, self.source) })
    }

    /// The checks that the project brings itself, whoever asked for them, over these changes.
    pub fn found(&self, found: Found, changed: &[FileChange]) -> Plan {
        let (mode, source, unseen) = (self.verify.mode, VerifySource::Base, found.unseen(changed));
        let mut doubts = Vec::new();
        if changed.is_empty() {
            doubts.push(NOTHING_CHANGED.to_owned());
        } else if changed.iter().all(|file| is_words(&file.path)) && !found.steps.iter().any(Step::may_read) {
            doubts.push(ONLY_WORDS.to_owned());
        }
        if mode == VerifyMode::Smoke && self.source == VerifySource::Agent {
            doubts.push(ONLY_LOOKED.to_owned());
        }
        if !unseen.is_empty() {
            doubts.push(format!("No check looks at {}.", named(&unseen)));
        }
        Plan { steps: found.steps, recipes: found.recipes, doubts, ..Plan::empty(mode, source) }
    }

    /// What is said when nothing was checked: nothing is claimed.
    pub fn unchecked(&self) -> VerifyResult {
        Plan::empty(self.verify.mode, self.source).unchecked()
    }
}

/// What will be run to check a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How it was asked for.
    pub mode: VerifyMode,
    /// Who chose the commands.
    pub source: VerifySource,
    /// In order.
    pub steps: Vec<Step>,
    /// What the commands run in turn, as far as it is known.
    pub recipes: Vec<String>,
    /// Why it will prove less than it seems to, if it passes.
    pub doubts: Vec<String>,
    /// Changed code because of which it will prove less.
    pub(crate) doubtful: Vec<String>,
    /// Changed code in which tests may have been that are not heard of.
    pub code: Vec<String>,
    /// Tests that were there before and have to be heard of.
    expected: Expected,
}

/// One command of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// For `sh -c`.
    pub command: String,
    /// What its failure means.
    pub kind: StepKind,
}

/// A command of a check that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Whether it did what it should.
    pub outcome: ToolOutcome,
    /// How it ended, and what it said.
    pub result: CommandResult,
    /// Everything that it said, where the result holds a part only.
    pub whole: Option<String>,
}

/// What a command of a check is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// Finds out whether a tool is there. Without it nothing can be said.
    Tool(String),
    /// Gets what the check needs. Without it nothing can be said.
    Preparation,
    /// Checks.
    Check(Says),
}

impl Step {
    /// Whether a program is there.
    pub fn tool(name: &str) -> Self {
        Self { command: format!("command -v {name}"), kind: StepKind::Tool(name.to_owned()) }
    }

    /// Whether a module of Python is there.
    pub fn module(name: &str) -> Self {
        Self { command: format!("python3 -c 'import {name}'"), kind: StepKind::Tool(name.to_owned()) }
    }

    /// Gets what the check needs.
    pub fn preparation(command: String) -> Self {
        Self { command, kind: StepKind::Preparation }
    }

    /// Whether it may be made for words: what a target of a Makefile looks at nobody knows.
    fn may_read(&self) -> bool {
        self.command.contains("make ")
    }

    /// Checks.
    pub fn check(command: String, says: Says) -> Self {
        Self { command, kind: StepKind::Check(says) }
    }
}

impl Ran {
    /// Everything that it said.
    fn said(&self) -> String {
        self.whole.clone().unwrap_or_else(|| format!("{}\n{}", self.result.stdout, self.result.stderr))
    }
}

impl Plan {
    fn empty(mode: VerifyMode, source: VerifySource) -> Self {
        let (steps, recipes, doubts) = (Vec::new(), Vec::new(), Vec::new());
        let (doubtful, code, expected) = (Vec::new(), Vec::new(), Expected::default());
        Self { mode, source, steps, recipes, doubts, doubtful, code, expected }
    }

    /// The commands, in order.
    pub fn commands(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.command.clone()).collect()
    }

    /// Everything in which the name of a script may stand.
    pub fn scripts(&self) -> Vec<String> {
        self.commands().into_iter().chain(self.recipes.iter().cloned()).collect()
    }

    /// The sorts of runners that it listens to.
    pub fn runners(&self) -> Vec<Says> {
        let mut runners: Vec<Says> = Vec::new();
        for (_, says) in self.checks().filter(|(_, says)| *says != Says::Nothing) {
            if !runners.contains(&says) {
                runners.push(says);
            }
        }
        runners
    }

    pub(crate) fn checks(&self) -> impl Iterator<Item = (&Step, Says)> {
        self.steps.iter().filter_map(|step| match step.kind {
            StepKind::Check(says) => Some((step, says)),
            StepKind::Tool(_) | StepKind::Preparation => None,
        })
    }

    /// Where its commands look: where they go, and where something was changed.
    pub fn places(&self, changed: &[FileChange]) -> Vec<String> {
        let homes = self.checks().map(|(step, _)| home(&step.command).unwrap_or_default().to_owned());
        match self.source {
            VerifySource::Base => changed.iter().map(|file| file.path.clone()).collect(),
            // What a person gave may look anywhere, unless it says where it goes.
            VerifySource::Person | VerifySource::Agent => homes.collect(),
        }
    }

    /// Listens to the runner that a command runs in the end.
    pub fn hears(&mut self, told: &Told) {
        for step in &mut self.steps {
            if let StepKind::Check(says) = &mut step.kind
                && *says == Says::Nothing
            {
                *says = told.says(&step.command);
            }
        }
    }

    /// Expects of a runner the tests that were there before, and no more than these let it say.
    pub fn expects(&mut self, says: Says, base: &TreeFiles) {
        if says == Says::NodeTests {
            self.expects_of(base);
        }
        if matches!(says, Says::OneOf(["\nOK"] | [" passed"])) {
            self.expected.add_skips(&base.files);
        }
        // Whoever names some tests wants no others, and of a part of them nothing can be counted.
        let asked: Vec<&Step> = self.checks().filter(|(_, other)| *other == says).map(|(step, _)| step).collect();
        if !base.more && asked.iter().all(|step| self.is_whole(step)) {
            let homes: Vec<String> =
                asked.iter().map(|step| home(&step.command).unwrap_or_default().to_owned()).collect();
            self.expected.add(says, &homes, &base.files);
        }
    }

    /// Whether a command leaves out none of the tests that its project has.
    fn is_whole(&self, step: &Step) -> bool {
        let is_alone = |script: &String| script.trim() == NODE;
        let by_script = step.command.ends_with("npm test") && self.recipes.last().is_some_and(is_alone);
        let whole = [WORKSPACE, NODE, "go test -v ./..."].iter().any(|command| step.command.ends_with(command));
        whole || by_script || self.source == VerifySource::Base && step.command.contains("python3 -m ")
    }

    /// Why what was said proves less than it seems to, and because of which code.
    fn doubts(&self, ran: &[Ran]) -> (Vec<String>, Vec<String>) {
        let said = self.steps.iter().zip(ran).filter_map(|(step, ran)| match step.kind {
            StepKind::Check(says) => Some((says, ran.said())),
            StepKind::Tool(_) | StepKind::Preparation => None,
        });
        let said: Vec<_> = said.collect();
        let unheard = self.expected.doubts(&said);
        // Where tests are missing, any of it may be why.
        let doubtful = if unheard.is_empty() { &self.doubtful } else { &self.code };
        (self.doubts.iter().cloned().chain(unheard).collect(), doubtful.clone())
    }

    /// Expects no more of node than the tests that were there before let it say.
    fn expects_of(&mut self, base: &TreeFiles) {
        for step in &mut self.steps {
            if let StepKind::Check(says) = &mut step.kind {
                let within = home(&step.command).unwrap_or_default();
                let tests = base.files.iter().filter(|file| is_within(&file.path, within)).cloned();
                *says = says.of_files(&tests.collect::<Vec<_>>());
            }
        }
    }

    /// What is said when nothing was checked: nothing is claimed.
    pub fn unchecked(&self) -> VerifyResult {
        self.result(VerifyStatus::Unknown, Vec::new())
    }

    /// What the commands that ran say. All were run, or the last one did not succeed, or the time was over.
    pub fn concluded(&self, ran: Vec<Ran>) -> VerifyResult {
        let last = ran.len().checked_sub(1).and_then(|last| Some((self.steps.get(last)?, &ran[last])));
        let (mut missing, timed_out) = (Vec::new(), self.timed_out(&ran));
        let status = match last {
            Some((_, Ran { outcome: ToolOutcome::Ok, .. })) if ran.len() == self.steps.len() => self.passed(&ran),
            // Whoever was stopped in the middle has said nothing yet.
            _ if timed_out => VerifyStatus::Unknown,
            Some((Step { kind: StepKind::Check(_), .. }, Ran { outcome: ToolOutcome::Error, .. })) => {
                VerifyStatus::Fail
            }
            Some((Step { kind: StepKind::Tool(name), .. }, Ran { outcome: ToolOutcome::Error, .. })) => {
                missing.push(name.clone());
                VerifyStatus::Unknown
            }
            _ => VerifyStatus::Unknown,
        };
        // What did not pass proves nothing anyway.
        let (doubts, doubtful) = match status {
            VerifyStatus::Pass => self.doubts(&ran),
            // What was not checked may be merged all the same.
            VerifyStatus::Fail | VerifyStatus::Unknown => (Vec::new(), self.doubtful.clone()),
        };
        let is_told = |(step, _): &(&Step, _)| !matches!(step.kind, StepKind::Tool(_));
        let commands = self.steps.iter().zip(ran).filter(is_told).map(|(_, ran)| ran.result).collect();
        VerifyResult { missing, timed_out, doubts, doubtful, ..self.result(status, commands) }
    }

    /// Whether the time was over: a command that is known to have ended has no code then, and of others none was begun.
    fn timed_out(&self, ran: &[Ran]) -> bool {
        match ran.last() {
            Some(Ran { outcome: ToolOutcome::Error, result, .. }) => result.exit_code.is_none(),
            Some(Ran { outcome: ToolOutcome::Ok, .. }) | None => ran.len() < self.steps.len(),
            Some(_) => false,
        }
    }

    /// Whether every check that ended well has also said what it says then.
    fn passed(&self, ran: &[Ran]) -> VerifyStatus {
        let honest = self.steps.iter().zip(ran).all(|(step, ran)| match step.kind {
            StepKind::Check(says) => says.holds(&ran.result, ran.whole.as_deref()),
            StepKind::Tool(_) | StepKind::Preparation => true,
        });
        if honest { VerifyStatus::Pass } else { VerifyStatus::Fail }
    }

    fn result(&self, status: VerifyStatus, mut commands: Vec<CommandResult>) -> VerifyResult {
        crate::command::fit(&mut commands);
        let Self { mode, source, .. } = *self;
        let (checks_changed, accepted, missing, timed_out) = (Vec::new(), false, Vec::new(), false);
        VerifyResult {
            mode,
            status,
            source,
            checks_changed,
            accepted,
            missing,
            timed_out,
            doubts: Vec::new(),
            doubtful: self.doubtful.clone(),
            commands,
        }
    }
}

/// The first of some paths, for a sentence.
pub fn named(paths: &[String]) -> String {
    let some = paths[..paths.len().min(PATHS_NAMED_MAX)].join(", ");
    let more = paths.len().saturating_sub(PATHS_NAMED_MAX);
    if more > 0 { format!("{some} and {more} more") } else { some }
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
        _ if verify.timed_out => (TaskStatus::OutOfTime, Some("Its time was over before it was checked.".to_owned())),
        VerifyStatus::Pass => (TaskStatus::Ok, None),
        VerifyStatus::Fail => (TaskStatus::Failed, last.map(failure)),
        // Nobody can be blamed for a tool that is not there, and nothing is claimed.
        VerifyStatus::Unknown if !verify.missing.is_empty() => {
            (TaskStatus::Ok, Some(format!("It was not checked: {} is not there.", verify.missing.join(", "))))
        }
        VerifyStatus::Unknown => (TaskStatus::Unknown, Some("The result could not be checked.".to_owned())),
    }
}

pub(crate) fn failure(check: &CommandResult) -> String {
    match check.exit_code {
        Some(0) => format!("The check `{}` ended well without having checked.", check.command),
        Some(code) => {
            let limit = check.limit.map(|limit| format!(" {}", limit.sentence())).unwrap_or_default();
            format!("The check `{}` ended with exit code {code}.{limit}", check.command)
        }
        None => format!("Nobody knows how the check `{}` ended.", check.command),
    }
}

/// Whether a task passed an examination: by checks that its worker neither chose nor touched.
pub fn passed(task: &TaskResult) -> bool {
    let counts = |verify: &VerifyResult| verify.source != VerifySource::Agent && verify.holds();
    let verify = task.verify.as_ref().filter(|verify| counts(verify));
    task.status == TaskStatus::Ok && verify.is_some_and(|verify| verify.status == VerifyStatus::Pass)
}

/// What a person has to accept before a task that passed counts as verified: the checks that its worker touched.
pub fn to_accept(task: &TaskResult) -> Vec<String> {
    let accepted = task.verify.as_ref().map(|verify| VerifyResult { accepted: true, ..verify.clone() });
    let would_pass = passed(&TaskResult { verify: accepted, ..task.clone() });
    task.verify
        .iter()
        .filter(|verify| would_pass && !verify.holds())
        .flat_map(|verify| verify.checks_changed.clone())
        .collect()
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

    fn found(steps: Vec<Step>) -> Plan {
        checks().found(Found { steps, ..Found::default() }, &[])
    }

    fn plan() -> Plan {
        checks().plan().unwrap()
    }

    fn ran(outcome: ToolOutcome) -> Ran {
        let (stdout, stderr) = (String::new(), String::new());
        let exit_code = Some(i32::from(outcome != ToolOutcome::Ok));
        let command = "one".to_owned();
        let (truncated, duration_ms, log, limit) = (false, 0, None, None);
        let result = CommandResult { command, exit_code, stdout, stderr, truncated, duration_ms, log, limit };
        Ran { outcome, result, whole: None }
    }

    #[test]
    fn only_checks_that_all_ran_and_succeeded_pass() {
        use ToolOutcome::{Cancelled, Error, Ok, Unknown};
        let status = |outcomes: &[ToolOutcome]| plan().concluded(outcomes.iter().map(|one| ran(*one)).collect()).status;
        assert_eq!(status(&[Ok, Ok]), VerifyStatus::Pass);
        assert_eq!(status(&[Ok, Error]), VerifyStatus::Fail);
        assert_eq!(status(&[Ok]), VerifyStatus::Unknown, "one did not run");
        assert_eq!(status(&[]), VerifyStatus::Unknown);
        assert_eq!((status(&[Ok, Unknown]), status(&[Cancelled])), (VerifyStatus::Unknown, VerifyStatus::Unknown));
        assert_eq!(judge(&plan().concluded(vec![ran(Error)])).0, TaskStatus::Failed);
        assert_eq!(judge(&checks().unchecked()).0, TaskStatus::Unknown);
    }

    #[test]
    fn time_that_is_over_while_checking_is_an_ending_of_its_own() {
        use ToolOutcome::{Error, Ok, Unknown};
        let steps = vec![Step::tool("go"), Step::preparation("get".into()), Step::check("go".into(), Says::Nothing)];
        let plan = found(steps);
        let stopped = |outcome| {
            let mut stopped = ran(outcome);
            stopped.result.exit_code = None;
            stopped
        };
        let judged = |ran| {
            let verify = plan.concluded(ran);
            (verify.status, verify.missing.len(), judge(&verify).0)
        };
        let over = |status| (status, 0, TaskStatus::OutOfTime);
        assert_eq!(judged(vec![ran(Ok), ran(Ok), stopped(Error)]), over(VerifyStatus::Unknown), "it has not failed");
        assert_eq!(judged(vec![ran(Ok), stopped(Error)]), over(VerifyStatus::Unknown), "while preparing");
        assert_eq!(judged(vec![stopped(Error)]), over(VerifyStatus::Unknown), "no tool is missing for that");
        assert_eq!(judged(vec![ran(Ok)]), over(VerifyStatus::Unknown), "the next one was not begun");
        assert_eq!(judged(vec![]), over(VerifyStatus::Unknown), "none was");
        assert_eq!(judged(vec![stopped(Unknown)]).2, TaskStatus::Unknown, "nobody knows is something else");
        assert_eq!(judged(vec![ran(Ok), ran(Ok), ran(Ok)]).2, TaskStatus::Ok);
    }

    #[test]
    fn a_missing_tool_is_nobodys_failure_and_proves_nothing() {
        let steps = vec![Step::tool("go"), Step::preparation("get".into()), Step::check("go".into(), Says::Nothing)];
        let plan = found(steps);
        let missing = plan.concluded(vec![ran(ToolOutcome::Error)]);
        assert_eq!((missing.status, missing.commands.len()), (VerifyStatus::Unknown, 0));
        assert_eq!((missing.missing.as_slice(), judge(&missing).0), (["go".to_owned()].as_slice(), TaskStatus::Ok));
        let unprepared = plan.concluded(vec![ran(ToolOutcome::Ok), ran(ToolOutcome::Error)]);
        assert_eq!((unprepared.status, judge(&unprepared).0), (VerifyStatus::Unknown, TaskStatus::Unknown));
        let passed = plan.concluded(vec![ran(ToolOutcome::Ok), ran(ToolOutcome::Ok), ran(ToolOutcome::Ok)]);
        assert_eq!((passed.status, passed.source), (VerifyStatus::Pass, VerifySource::Base));
    }

    #[test]
    fn code_that_ends_its_own_examination_does_not_pass() {
        let status = |says: Says, stdout: &str, stderr: &str| {
            let steps = vec![Step::check("test".into(), says)];
            let mut ran = ran(ToolOutcome::Ok);
            (ran.result.stdout, ran.result.stderr) = (stdout.into(), stderr.into());
            found(steps).concluded(vec![ran]).status
        };
        use VerifyStatus::{Fail, Pass};
        let (two, one) = ("test result: ok. 3 passed\ntest result: ok. 0 passed\n", "test result: ok. 0 passed\n");
        let begun = "     Running unittests src/lib.rs\n   Doc-tests x\n";
        assert_eq!(status(Says::CargoResults, two, begun), Pass);
        assert_eq!(status(Says::CargoResults, one, begun), Fail, "one program ended without a result");
        assert_eq!(status(Says::OneOf(&["\nOK"]), "", "Ran 1 test\n\nOK\n"), Pass);
        assert_eq!(status(Says::OneOf(&["\nOK"]), "", ""), Fail);
    }

    #[test]
    fn what_proves_less_than_it_seems_says_so() {
        let changed =
            |path: &str| vec![FileChange { path: path.into(), change: choir_proto::task::ChangeKind::Modified }];
        let doubts = |mode, source, files: &[FileChange], outcome| {
            let checks = Checks { verify: Verify { mode, commands: Vec::new() }, source };
            let steps = vec![Step::check("make test".into(), Says::Nothing)];
            let found = Found { steps, homes: vec!["p".into()], ..Found::default() };
            checks.found(found, files).concluded(vec![ran(outcome)]).doubts
        };
        let (ok, agent) = (ToolOutcome::Ok, VerifySource::Agent);
        assert_eq!(doubts(VerifyMode::Commands, agent, &[], ok), [NOTHING_CHANGED]);
        assert!(doubts(VerifyMode::Commands, agent, &changed("p/x"), ok).is_empty());
        assert_eq!(doubts(VerifyMode::Commands, agent, &changed("q/x"), ok), ["No check looks at q/x."]);
        assert_eq!(doubts(VerifyMode::Smoke, agent, &changed("p/x"), ok), [ONLY_LOOKED]);
        assert!(doubts(VerifyMode::Smoke, VerifySource::Person, &changed("p/x"), ok).is_empty());
        assert!(doubts(VerifyMode::Smoke, agent, &[], ToolOutcome::Error).is_empty());
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
    fn a_task_is_verified_only_by_checks_that_are_not_its_own() {
        use VerifySource::{Agent, Base, Person};
        use VerifyStatus::{Fail, Pass};
        let done = |source, status| TaskResult { status: TaskStatus::Ok, ..task(source, status, true) };
        assert!(passed(&done(Person, Some(Pass))) && passed(&done(Base, Some(Pass))));
        assert!(!passed(&done(Agent, Some(Pass))), "a model's checks prove nothing");
        assert!(!passed(&done(Person, Some(Fail))) && !passed(&done(Person, None)));
        assert!(!passed(&task(Person, Some(Pass), true)), "what has not ended well is not verified");
        let mut weakened = done(Person, Some(Pass));
        weakened.verify.as_mut().unwrap().checks_changed = vec!["tests/a.rs".into()];
        assert!(!passed(&weakened), "who changed a check is not verified by it");
        assert_eq!(to_accept(&weakened), ["tests/a.rs"]);
        weakened.verify.as_mut().unwrap().accepted = true;
        assert!(to_accept(&weakened).is_empty() && to_accept(&done(Person, Some(Fail))).is_empty());
        assert!(passed(&weakened), "until a person has accepted that");
    }
}
