//! How an agent ends: its changes come home or stay out, and everybody who asked is told.

use super::past::Past;
use super::person::Person;
use super::search::NO_ENGINE;
use super::{Driver, Harness, HarnessError, RunContext};
use crate::control::ControlError;
use choir_core::agent::{Ending, Identity};
use choir_core::doubt::doubt_beside;
use choir_core::fold::replica::Authors;
use choir_core::fold::task::{run_of, running};
use choir_core::settle;
use choir_core::text::{Authorship, Piece};
use choir_core::told::Told;
use choir_core::verify::Checks;
use choir_core::visible::is_blank;
use choir_proto::event::{Actor, TaskFinished};
use choir_proto::task::{Diff, Egress, LeftOut, TaskKind, TaskResult, TaskStatus, TaskUsage, VerifySource};
use choir_proto::wire::FinishAssociate;
use choir_proto::{Event, Hash, Role, TaskId};
use std::time::Duration;

/// Bytes of a difference that an event carries itself.
const DIFF_BYTES_INLINE_MAX: usize = 32 * 1024;

/// Said of a writer that is done where nothing but the prompt stands.
const UNWRITTEN: &str = "Nothing was written.";

/// Said of a writer that is done where nobody reads anything.
const BLANK: &str = "Nothing was written. The document is blank.";

/// Whether nobody put a word into a text that the computer keeps the place of: the prompt is nobody's words in its document.
fn is_only_kept(text: &str, authorship: &Authorship) -> bool {
    let pieces = authorship.within(0, text.len() as u64);
    let written = pieces.iter().filter(|(_, piece)| piece.author != Actor::Computer);
    let words =
        |(from, piece): &(u64, Piece)| text.get(*from as usize..(from + piece.length) as usize).unwrap_or_default();
    written.map(words).all(is_blank)
}

impl Driver {
    /// Appends what came of the agent.
    pub(super) async fn end(&mut self, mut ending: Ending) -> Result<TaskResult, HarnessError> {
        self.retract().await?;
        if let Some(unknown) = self.unknown().await? {
            ending.summary = format!("{} {unknown}", ending.summary);
        }
        if ending.status == TaskStatus::Ok
            && let Some(lack) = self.lacks().await?
        {
            ending.status = TaskStatus::Failed;
            ending.summary = format!("{lack} Its last word was: {}", ending.summary);
        }
        let usage = self.agent.usage();
        let questions = Vec::from_iter((ending.status == TaskStatus::NeedsInput).then(|| ending.summary.clone()));
        let mut result = TaskResult {
            status: ending.status,
            summary: ending.summary,
            questions,
            base_tree: self.base_tree,
            usage: TaskUsage {
                time_s: self.time_ms() as f64 / 1000.0,
                tokens: usage.tokens(),
                usd: usage.usd,
                usd_assumed: usage.usd_assumed,
            },
            ..running(self.identity.task)
        };
        if self.identity.role == Role::Terminal {
            let egress = self.request.egress.as_ref();
            let (kind, checks) = (self.request.kind, self.checks());
            let until = Some(self.context.harness.journal.world().elapsed() + self.purse.time_left());
            let home = Home { context: &self.context, task: self.identity.task, kind, egress, checks, until };
            home.bring(&mut result).await?;
            let person = Person { seat: None, ..self.person() };
            home.settle(&person, &mut result).await?;
            result.usage.time_s = self.time_ms() as f64 / 1000.0;
        }
        if self.identity.role == Role::Researcher && self.wanted_the_web().await? {
            say_too(&mut result.summary, NO_ENGINE);
        }
        self.add_unanswered(&mut result.usage).await?;
        self.append(vec![TaskFinished { result: result.clone() }.into()]).await?;
        match self.identity.role {
            Role::Terminal => let_go(&self.context, self.identity.task).await,
            Role::Researcher => self.leave_reading_room().await,
            Role::Conductor | Role::Writer => {}
        }
        Ok(result)
    }

    /// A task of its own has no run whose receipt would tell what broken answers cost: its own does.
    async fn add_unanswered(&self, usage: &mut TaskUsage) -> Result<(), HarnessError> {
        let Identity { run, task, .. } = self.identity;
        if run != run_of(task) {
            return Ok(());
        }
        let past = Past::read(self.context.harness.journal.log(), run).await?;
        if let Some(paid) = self.context.harness.unanswered(run, &past).await {
            usage.tokens += paid.tokens;
            usage.usd = usage.usd + paid.usd;
            usage.usd_assumed = usage.usd_assumed + paid.usd;
        }
        Ok(())
    }

    /// What is missing where a writer says it is done: a document in which nobody reads anything, or, where its run began it,
    /// nothing but the prompt. One that was there before says something already: there may be nothing to add.
    async fn lacks(&self) -> Result<Option<&'static str>, HarnessError> {
        let (Role::Writer, Some(id)) = (self.identity.role, self.context.document) else { return Ok(None) };
        let harness = &self.context.harness;
        let past = Past::read(harness.journal.log(), self.identity.run).await?;
        let facts = || past.events().map(|(_, event)| event);
        let proposes = |event: &Event| matches!(event, Event::ProposalMade(made) if made.document_id == id && !is_blank(&made.new));
        if facts().any(proposes) {
            return Ok(None);
        }
        let begun = facts().any(|event| matches!(event, Event::DocumentCreated(created) if created.document_id == id));
        let Some(head) = harness.documents.find(id).await? else { return Ok(begun.then_some(UNWRITTEN)) };
        let text = harness.documents.text_at_work(&head).await?;
        if is_blank(&text) {
            return Ok(Some(BLANK));
        }
        let written = harness.views.get::<Authors>(id).await?.unwrap_or_default();
        Ok((begun && is_only_kept(&text, &written.authorship)).then_some(UNWRITTEN))
    }

    /// Whether it would have searched the web, and nobody can: only the person can mend that.
    async fn wanted_the_web(&self) -> Result<bool, HarnessError> {
        let past = Past::read(self.context.harness.journal.log(), self.identity.run).await?;
        let told = |event: &Event| matches!(event, Event::ToolFinished(tool) if tool.content.contains(NO_ENGINE));
        Ok(past.of_agent(self.identity.task, false).any(|(_, event)| told(event)))
    }

    /// Which of its calls nobody knows the end of, in a sentence.
    async fn unknown(&self) -> Result<Option<String>, HarnessError> {
        if !self.agent.has_unknown() {
            return Ok(None);
        }
        let past = Past::read(self.context.harness.journal.log(), self.identity.run).await?;
        Ok(settle::unknown(past.of_agent(self.identity.task, false).map(|(_, event)| event)))
    }

    /// Where a researcher read, nothing is left behind.
    async fn leave_reading_room(&self) {
        let (control, task) = (&self.context.harness.control, self.identity.task);
        // Most had none.
        if control.finish_associate(task, FinishAssociate { merge: false, checked: None }).await.is_ok() {
            let_go(&self.context, task).await;
        }
    }
}

impl Driver {
    /// What a person chose for the run goes before what a model chose for the task.
    fn checks(&self) -> Option<Checks> {
        let by_person = self.context.verify.clone().map(|verify| Checks { verify, source: VerifySource::Person });
        let source = if self.parent.is_none() { VerifySource::Person } else { VerifySource::Agent };
        by_person.or_else(|| self.request.verify.clone().map(|verify| Checks { verify, source }))
    }
}

/// A task whose worker is done.
pub(super) struct Home<'a> {
    pub(super) context: &'a RunContext,
    pub(super) task: TaskId,
    pub(super) kind: TaskKind,
    /// What the task was allowed to reach.
    pub(super) egress: Option<&'a Egress>,
    pub(super) checks: Option<Checks>,
    /// When the task's time is over, by the clock that only goes forward. Its checks are done by then.
    pub(super) until: Option<Duration>,
}

impl Home<'_> {
    /// Checks what the worker says is well, and merges it. Any other ending keeps its tree and merges nothing.
    pub(super) async fn bring(&self, result: &mut TaskResult) -> Result<(), HarnessError> {
        result.verify = self.checks.as_ref().map(Checks::unchecked);
        let (is_well, mut checked) = (result.status == TaskStatus::Ok, None);
        if let Some(checks) = self.checks.as_ref().filter(|checks| checks.is_wanted())
            && is_well
        {
            checked = self.check(checks, result).await?;
        }
        // Until here a stop is heard, also one that broke a check off; but not where its changes came home before a crash.
        let came_home = self.context.past.conflicts(self.task, 0).is_some();
        if is_well && !came_home && (self.context.signal.borrow().cancelled || !self.context.gate.come_home()) {
            result.status = TaskStatus::Cancelled;
            result.summary = "Stopped before its changes came into the workspace.".to_owned();
        }
        self.finish(result, checked).await;
        Ok(())
    }

    async fn finish(&self, result: &mut TaskResult, checked: Option<Hash>) {
        // Whoever only looks changes nothing, whatever it did.
        let well = result.status == TaskStatus::Ok && self.kind != TaskKind::Inspect;
        // What cannot be asked now is held: that can be brought in later, and the other way round is too late.
        let hold = well && self.context.harness.control.change_settings().await.map_or(true, |settings| settings.hold);
        let merge = well && !hold;
        let finish = || self.context.harness.control.finish_associate(self.task, FinishAssociate { merge, checked });
        match again(finish).await {
            Ok(finished) => {
                result.result_tree = finished.result_tree;
                result.merged_tree = finished.merged_tree;
                result.over_tree = finished.over_tree;
                result.held = hold && result.result_tree != result.base_tree;
                result.files_changed = finished.files_changed;
                self.name_changed_checks(result);
                if let Some(verify) = &mut result.verify
                    && let Some(doubt) = doubt_beside(verify, &result.files_changed, &finished.meanwhile)
                {
                    say_too(&mut result.summary, &doubt);
                }
                result.diff = self.context.harness.keep_diff(finished.diff).await;
                if let Some(left_out) = &finished.left_out {
                    say_too(&mut result.summary, &not_kept(left_out));
                }
                result.left_out = finished.left_out.map(Box::new);
                if !finished.refused.is_empty() {
                    say_too(&mut result.summary, &not_reached(&finished.refused));
                }
                if self.kind == TaskKind::Inspect && !result.files_changed.is_empty() {
                    // The base with nothing added: it is in no workspace.
                    result.merged_tree = result.base_tree;
                    say_too(&mut result.summary, "What it changed stayed out: it was only to look.");
                }
                if result.held {
                    say_too(&mut result.summary, "Its changes wait for your review.");
                }
                if !finished.conflicts.is_empty() {
                    result.status = TaskStatus::NeedsInput;
                    result.conflicts = finished.conflicts;
                }
                if !finished.forbidden.is_empty() {
                    result.status = TaskStatus::NeedsInput;
                    say_too(&mut result.summary, &kept_out(&finished.forbidden));
                    result.forbidden = finished.forbidden;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "an associate could not be ended in order");
                if merge {
                    result.status = TaskStatus::Unknown;
                    result.summary = format!("{} (Whether its changes arrived is not known: {error})", result.summary);
                }
            }
        }
    }
}

pub(super) fn say_too(summary: &mut String, sentence: &str) {
    if !summary.is_empty() {
        summary.push(' ');
    }
    summary.push_str(sentence);
}

/// What a person has to know of paths that were changed by somebody else meanwhile.
pub(super) fn left_alone(conflicts: &[String]) -> String {
    let named = named(conflicts);
    format!("Changed by somebody else meanwhile, and left as it is: {named}. Everything else was brought in.")
}

/// What a person has to know of paths that could not be changed.
fn kept_out(forbidden: &[String]) -> String {
    format!("Not brought in, because its permissions forbid it: {}. Give it to your computer's user.", named(forbidden))
}

/// What a person has to know of hosts that were refused.
fn not_reached(refused: &[String]) -> String {
    format!("Not reached, because this task may not: {}.", named(refused))
}

/// The first of some paths or hosts.
fn named(paths: &[String]) -> String {
    let named = paths.iter().take(CONFLICTS_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if paths.len() > CONFLICTS_NAMED_MAX { " and others" } else { "" };
    format!("{named}{more}")
}

/// What a person has to know of paths that are in no tree.
fn not_kept(left_out: &LeftOut) -> String {
    let LeftOut { count, paths, forbidden } = left_out;
    let unseen = (!forbidden.is_empty())
        .then(|| format!("Not seen by it, because their permissions forbid it: {}.", named(forbidden)));
    if *count == 0 {
        return unseen.unwrap_or_default();
    }
    let named = paths.iter().take(CONFLICTS_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    // What lies too deep may have a name that is too long to be said.
    let named = match *count > paths.len().min(CONFLICTS_NAMED_MAX) as u64 {
        _ if paths.is_empty() => String::new(),
        true => format!(": {named} and others"),
        false => format!(": {named}"),
    };
    let left_out = format!(
        "Left out, because pipes, sockets, devices, files over 2 GiB, what lies too deep and directories that are made from \
         the rest are not kept ({count}){named}."
    );
    [Some(left_out), unseen].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Conflicts that a summary names; the result names them all.
const CONFLICTS_NAMED_MAX: usize = 5;

/// Tries of what a sandbox that just died may refuse.
const TRIES: u32 = 4;

/// Before the second try; each further one doubles it. A killed sandbox is gone by then, and a new one is started.
const PAUSE: Duration = Duration::from_millis(100);

/// Does what can be done again, until it works or has failed too often.
pub(super) async fn again<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, ControlError>
where
    F: Future<Output = Result<T, ControlError>>,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if tries < TRIES => tracing::warn!(%error, tries, "a sandbox failed, and is tried again"),
            ended => return ended,
        }
        tokio::time::sleep(PAUSE * (1 << (tries - 1))).await;
        tries += 1;
    }
}

impl Home<'_> {
    /// A worker may change what it is judged by; then the judgement says so, and proves less. Whoever checked knows best.
    fn name_changed_checks(&self, result: &mut TaskResult) {
        if let (Some(checks), Some(verify)) = (&self.checks, &mut result.verify)
            && verify.commands.is_empty()
            && verify.checks_changed.is_empty()
        {
            let told = Told::of(checks.verify.commands.clone());
            verify.checks_changed = choir_core::checks::changed(&result.files_changed, &told);
        }
    }
}

/// The result is in the log: control need not keep it any longer.
pub(super) async fn let_go(context: &RunContext, task: TaskId) {
    if let Err(error) = context.harness.control.forget_associate(task).await {
        // A few bytes stay behind, and nothing depends on them.
        tracing::debug!(%error, "an associate could not be let go");
    }
}

impl Harness {
    /// A long difference is content, not an event: everybody who follows the log would have to carry it.
    pub(crate) async fn keep_diff(&self, content: String) -> Option<Diff> {
        let format = "git".to_owned();
        if content.len() <= DIFF_BYTES_INLINE_MAX {
            return Some(Diff { format, content, blob: None, whole: None });
        }
        match self.documents.keep(content.into_bytes()).await {
            Ok(blob) => Some(Diff { format, content: String::new(), blob: Some(blob), whole: None }),
            Err(error) => {
                // The trees are named beside it, so the difference can be made again.
                tracing::warn!(%error, "a difference could not be kept");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_named_where_it_has_a_name() {
        let said = |count, paths: &[&str]| {
            let paths = paths.iter().map(ToString::to_string).collect();
            let said = not_kept(&LeftOut { count, paths, forbidden: Vec::new() });
            said.split_once("not kept ").map(|(_, named)| named.to_owned()).unwrap_or_default()
        };
        assert_eq!(said(1, &["pipe"]), "(1): pipe.");
        assert_eq!(said(3, &["pipe", "socket"]), "(3): pipe, socket and others.");
        assert_eq!(said(2, &[]), "(2).", "their names are too long to be said");
    }
}
