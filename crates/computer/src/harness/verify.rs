//! Checks of a task's result: in a fresh sandbox on the result's tree, by commands that its worker did not run.

use super::HarnessError;
use super::exec::{BASH, Place, TIMEOUT_MS};
use super::finish::{Home, let_go, say_too};
use crate::control::ControlError;
use crate::journal::Scope;
use choir_core::command::Step;
use choir_core::data::is_data;
use choir_core::discover::{NAMES, discover};
use choir_core::fold::carried::{ALL, Carried, Touched, is_same};
use choir_core::told::{CODE, Told, is_helper};
use choir_core::verify::{Checks, Plan, Ran, TOOL, egress, judge, named, to_accept};
use choir_core::{beside, checks, effect, reach};
use choir_proto::event::{Actor, ToolOutcome, VerifyFinished, VerifyStarted};
use choir_proto::task::{FileChange, TaskResult, TaskStatus, VerifyResult, VerifySource};
use choir_proto::wire::{AssociateCaptured, CallOf, Check, ReadTree, StartAssociate, TreeFiles};
use choir_proto::{Event, Hash, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How far scripts are followed that run or take in others: what a command names, what that names, and so on.
const SCRIPT_LEVELS: usize = 8;

/// Paths that are asked for at once: one answer tells of no more than 512.
const PATHS_READ_MAX: usize = 500;

impl Home<'_> {
    /// Checks the result and says so in it. The tree that was checked, if it may be merged.
    pub(super) async fn check(&self, checks: &Checks, result: &mut TaskResult) -> Result<Option<Hash>, HarnessError> {
        let carried = self.context.harness.views.get::<Carried>(ALL).await?.unwrap_or_default();
        let examined = async {
            let captured = self.context.harness.control.capture_associate(self.task).await?;
            let examination = self.examination(checks, captured, &carried).await?;
            Ok::<_, ControlError>(examination)
        };
        let mut examination = match examined.await {
            Ok(examination) => examination,
            Err(error) => {
                tracing::warn!(%error, "a result could not be taken to be checked");
                conclude(result, checks.unchecked());
                return Ok(None);
            }
        };
        let result_tree = examination.captured.result_tree;
        if examination.plan.steps.is_empty() {
            // The project brings no checks: what was made is merged, and nothing is claimed.
            let VerifyResult { doubtful, .. } = examination.plan.unchecked();
            let checks_changed = examination.changed;
            result.verify = Some(VerifyResult { checks_changed, doubtful, ..checks.unchecked() });
            return Ok(Some(result_tree));
        }
        let left_out = std::mem::take(&mut examination.left_out);
        let verify = match self.earlier(result_tree) {
            Some(verify) => verify,
            None => self.check_anew(examination).await?,
        };
        conclude(result, verify);
        name_left_out(result, &left_out);
        name_touched(result);
        Ok(Some(result_tree))
    }

    /// What will be run, over what, and which changes of the worker touch it.
    async fn examination(
        &self,
        checks: &Checks,
        captured: AssociateCaptured,
        carried: &BTreeMap<String, Touched>,
    ) -> Result<Examination, ControlError> {
        let control = &self.context.harness.control;
        let (files, base_tree) = (&captured.files_changed, captured.base_tree);
        let mut plan = match checks.plan() {
            Some(plan) => plan,
            None => {
                let base = self.named(base_tree, &NAMES).await?;
                checks.found(discover(&base.files, files, checks.verify.mode), files)
            }
        };
        plan.code = reach::code(files);
        let told = if files.is_empty() { Told::of(plan.scripts()) } else { self.told(&plan, files, base_tree).await? };
        plan.hears(&told);
        let mut called = BTreeSet::new();
        for says in plan.runners() {
            let base = self.named(base_tree, says.files()).await?;
            plan.expects(says, &base);
            called.extend(beside::called(&base.files));
        }
        plan.doubt_silent(&told);
        self.doubt_carried(&mut plan, &told, carried, &captured).await;
        let mut changed = checks::changed(files, &told);
        let paths = reach::code(files);
        if !paths.is_empty() {
            let wanted = ReadTree { names: Vec::new(), paths: paths.clone() };
            let base = control.read_tree(base_tree, wanted.clone()).await?;
            let result = control.read_tree(captured.result_tree, wanted).await?;
            changed.extend(beside::tests_changed(files, &base.files, &result.files, &called));
            changed.sort();
            changed.dedup();
            plan.doubt_reaching(&reach::reaches(&paths, &base.files, &result.files));
            plan.doubt_unread(&reach::unread(&paths, &result.files));
        }
        let from_base = checks::from_base(files, &told);
        let left_out = checks::left_out(files, &told);
        Ok(Examination { plan, changed, from_base, left_out, captured })
    }

    /// Doubts a check that relies on what earlier workers made of it, as far as that stands there still.
    async fn doubt_carried(
        &self,
        plan: &mut Plan,
        told: &Told,
        carried: &BTreeMap<String, Touched>,
        captured: &AssociateCaptured,
    ) {
        let places = plan.places(&captured.files_changed);
        let mut trees: BTreeMap<(Hash, Option<Hash>), Vec<String>> = BTreeMap::new();
        for (path, touched) in carried.iter().filter(|(path, _)| told.relies_on(path, &places)) {
            trees.entry((touched.tree, touched.before)).or_default().push(path.clone());
        }
        let mut doubtful = Vec::new();
        for ((tree, before), paths) in trees {
            for paths in paths.chunks(PATHS_READ_MAX) {
                let left = self.alike(paths, tree, captured.base_tree).await.unwrap_or_else(|| paths.to_vec());
                let put_right = match before {
                    Some(before) => self.alike(&left, before, captured.result_tree).await.unwrap_or_default(),
                    None => Vec::new(),
                };
                doubtful.extend(left.into_iter().filter(|path| !put_right.contains(path)));
            }
        }
        doubtful.sort();
        let tasks =
            doubtful.iter().filter_map(|path| carried.get(path)).flat_map(|touched| touched.tasks.iter().copied());
        plan.doubt_carried(&doubtful, &tasks.collect());
    }

    /// Those of these paths that are in one tree what they are in the other; nothing, if nobody knows.
    async fn alike(&self, paths: &[String], one: Hash, other: Hash) -> Option<Vec<String>> {
        let wanted = ReadTree { names: Vec::new(), paths: paths.to_vec() };
        let control = &self.context.harness.control;
        let read = async {
            let (one, other) = (control.read_tree(one, wanted.clone()).await?, control.read_tree(other, wanted).await?);
            Ok::<_, ControlError>((one.files, other.files))
        };
        match read.await {
            Ok((one, other)) => Some(paths.iter().filter(|path| is_same(path, &one, &other)).cloned().collect()),
            Err(error) => {
                tracing::warn!(%error, "what became of a check is not known");
                None
            }
        }
    }

    async fn named(&self, tree: Hash, names: &[&str]) -> Result<TreeFiles, ControlError> {
        let names = names.iter().map(ToString::to_string).collect();
        self.context.harness.control.read_tree(tree, ReadTree { names, paths: Vec::new() }).await
    }

    /// Everything that the checks run and take in, as far as what was there before says it.
    async fn told(&self, plan: &Plan, files: &[FileChange], base: Hash) -> Result<Told, ControlError> {
        let (mut told, mut read) = (Told::of(plan.scripts()), BTreeSet::new());
        for _ in 0..SCRIPT_LEVELS {
            let names = told.names();
            let new: Vec<&str> = names.iter().filter(|name| read.insert((*name).clone())).map(String::as_str).collect();
            if new.is_empty() {
                break;
            }
            self.named(base, &new).await?.files.iter().for_each(|file| told.add(file));
        }
        if files.iter().any(|file| is_helper(&file.path) || is_data(&file.path)) {
            self.named(base, &CODE).await?.files.iter().for_each(|file| told.add_code(file));
        }
        told.compare();
        Ok(told)
    }

    /// What a check of this very tree said before a crash.
    fn earlier(&self, result_tree: Hash) -> Option<VerifyResult> {
        self.past().find_map(|event| match event {
            Event::VerifyFinished(finished) if finished.result_tree == result_tree => Some(finished.result.clone()),
            _ => None,
        })
    }

    async fn check_anew(&self, examination: Examination) -> Result<VerifyResult, HarnessError> {
        let begun = self.past().filter(|event| matches!(event, Event::VerifyStarted(_))).count();
        // A check that a crash cut off is begun anew, in another sandbox and under other names.
        let attempt = begun as u32 + 1;
        let Examination { plan, changed, from_base, captured, .. } = examination;
        let AssociateCaptured { base_tree, result_tree, files_changed } = captured;
        let commands = plan.commands();
        self.append(VerifyStarted { attempt, result_tree, source: plan.source, commands }.into()).await?;
        let verifier = TaskId::new(effect::derived(&self.task.to_string(), &format!("{TOOL} {attempt}")));
        let start = StartAssociate {
            egress: Some(egress(self.egress)),
            run: None,
            base: None,
            check: Some(Check { base_tree, result_tree, from_base }),
        };
        let ready = async {
            self.context.harness.control.start_associate(verifier, start).await?;
            self.restore_packages(verifier, base_tree, &checks::packages(&files_changed)).await
        };
        let mut result = match ready.await {
            Ok(()) => plan.concluded(self.run(verifier, attempt, &plan).await?),
            Err(error) => {
                tracing::warn!(%error, "no sandbox to check in");
                plan.unchecked()
            }
        };
        result.checks_changed = changed;
        let_go(self.context, verifier).await;
        self.append(VerifyFinished { attempt, result_tree, result: result.clone() }.into()).await?;
        Ok(result)
    }

    /// Gives manifests of npm their former scripts back, where they are checked.
    async fn restore_packages(&self, verifier: TaskId, base: Hash, paths: &[String]) -> Result<(), ControlError> {
        if paths.is_empty() {
            return Ok(());
        }
        let control = &self.context.harness.control;
        let before = control.read_tree(base, ReadTree { names: Vec::new(), paths: paths.to_vec() }).await?;
        for file in before.files {
            let after = control.read_file(verifier, file.path.clone()).await?;
            let restored =
                file.text.as_deref().and_then(|base| checks::package(base, &String::from_utf8_lossy(&after)));
            // What cannot be read as a manifest cannot be run as one either: as it was, it shows that.
            let content = restored.or(file.text).map(String::into_bytes).unwrap_or(after);
            control.write_file(verifier, file.path, content).await?;
        }
        Ok(())
    }

    /// How long the next check may take.
    fn time_left_ms(&self) -> u64 {
        let left = |until: Duration| until.saturating_sub(self.context.harness.journal.world().elapsed());
        self.until.map_or(TIMEOUT_MS, |until| left(until).as_millis() as u64)
    }

    /// Runs the checks in order until one does not succeed, or the task's time is over.
    async fn run(&self, verifier: TaskId, attempt: u32, plan: &Plan) -> Result<Vec<Ran>, HarnessError> {
        let mut ran = Vec::new();
        for (index, command) in (0..).zip(plan.commands()) {
            let timeout_ms = self.time_left_ms();
            if timeout_ms == 0 {
                break;
            }
            let arguments = serde_json::json!({ "command": command });
            let effect_id = effect::id(self.context.run, self.task, attempt, index, TOOL, &arguments);
            // What an agent wants run is the call of a tool, wherever it runs; what the person or the project says is not.
            let (inbox_id, run) = (effect::question(&effect_id), self.context.run);
            let call = (plan.source == VerifySource::Agent).then(|| CallOf { tool: BASH.into(), inbox_id, run });
            let step = Step { effect_id, index, command };
            let place = Place { context: self.context, associate: verifier, timeout_ms, call };
            let (outcome, result) = place.run_if_allowed(&step, self.task).await?;
            let succeeded = outcome == ToolOutcome::Ok;
            let whole = match result.log.filter(|_| succeeded && result.truncated) {
                Some(log) => Some(self.context.harness.documents.blob_text(log).await?),
                None => None,
            };
            ran.push(Ran { outcome, result, whole });
            if !succeeded {
                break;
            }
        }
        Ok(ran)
    }

    fn past(&self) -> impl Iterator<Item = &Event> {
        let own = |header: &choir_proto::event::Header| header.task == Some(self.task);
        self.context.past.events().filter(move |(header, _)| own(header)).map(|(_, event)| event)
    }

    async fn append(&self, event: Event) -> Result<(), HarnessError> {
        let scope = Scope::of(Actor::Computer).run(self.context.run).task(self.task);
        self.context.harness.journal.append(&scope, vec![event]).await?;
        Ok(())
    }
}

/// A result that is about to be checked.
struct Examination {
    plan: Plan,
    /// What of the checks its worker touched.
    changed: Vec<String>,
    /// What of that is checked as it was before.
    from_base: Vec<String>,
    /// New tests that take no part.
    left_out: Vec<String>,
    captured: AssociateCaptured,
}

/// Says which checks its worker touched: until a person accepts that, nothing is verified by them.
fn name_touched(result: &mut TaskResult) {
    let touched = to_accept(result);
    if !touched.is_empty() {
        let named = named(&touched);
        result.summary = format!("{} It passed, but touched its checks: {named}.", result.summary).trim().to_owned();
    }
}

/// Says which new tests the check knows nothing of: it says nothing about them either.
fn name_left_out(result: &mut TaskResult, left_out: &[String]) {
    if left_out.is_empty() {
        return;
    }
    let named = named(left_out);
    result.summary = format!("{} New tests took no part in the check: {named}.", result.summary).trim().to_owned();
}

fn conclude(result: &mut TaskResult, verify: VerifyResult) {
    let (status, why) = judge(&verify);
    result.status = status;
    if let Some(why) = why {
        let merged = if status == TaskStatus::Ok { "" } else { " Nothing was merged." };
        result.summary = format!("{} {why}{merged}", result.summary).trim().to_owned();
    }
    verify.doubts.iter().for_each(|doubt| say_too(&mut result.summary, doubt));
    result.verify = Some(verify);
}
