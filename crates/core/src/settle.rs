//! How a run ends that says it is done.

use crate::agent::Ending;
use crate::discover::project;
use crate::tool::DELEGATE;
use crate::verify::failure;
use crate::walled::walled;
use choir_proto::event::{Header, ToolOutcome};
use choir_proto::task::{Side, TaskResult, TaskStatus, VerifyResult, VerifySource, VerifyStatus};
use choir_proto::{Event, RunStatus, Seq};
use std::collections::{BTreeSet, HashMap};

/// Paths that a sentence names; the tasks name them all.
const PATHS_NAMED_MAX: usize = 5;

/// How a run ends whose first agent has said its last word, and what is said of it. Checks that a worker did not choose have the
/// last word about a run that says it is done.
pub fn ending(result: TaskResult, past: &[(Header, Event)]) -> (RunStatus, String) {
    let (said, tasks) = (said(result.status), results(past));
    let add = |more: &str| format!("{} {more}", result.summary).trim().to_owned();
    let (status, summary) = match settle(said, tasks.iter()) {
        RunStatus::Failed if said == RunStatus::Completed => {
            (RunStatus::Failed, overruled(&result.summary, tasks.iter()))
        }
        RunStatus::Verified if kept_out(tasks.iter()) => (RunStatus::Completed, add(NOT_ALL)),
        RunStatus::Verified if apart(past.iter().map(|(header, event)| (header, event))) => {
            (RunStatus::Completed, add(APART))
        }
        RunStatus::Completed => (RunStatus::Completed, add(&doubts(tasks.iter()))),
        status => (status, result.summary),
    };
    match unknown(events(past)) {
        Some(unknown) => (status, format!("{summary} {unknown}")),
        None => (status, summary),
    }
}

/// What a run's first agent says of it, as far as the rest of the run bears it out.
pub fn borne_out(result: TaskResult, past: &[(Header, Event)]) -> TaskResult {
    let result = within_walls(result, past);
    if result.status != TaskStatus::Ok {
        return result;
    }
    match left_alone(results(past).iter()).or_else(|| in_vain(events(past))) {
        Some(summary) => TaskResult { status: TaskStatus::Failed, summary, ..result },
        None => result,
    }
}

/// A run is out of what its wall is made of when that has stopped a worker for good, whatever is said above it.
fn within_walls(result: TaskResult, past: &[(Header, Event)]) -> TaskResult {
    let has_last_word = matches!(result.status, TaskStatus::Ok | TaskStatus::Failed);
    match walled(past).filter(|_| has_last_word) {
        Some(Ending { status, summary }) => {
            let summary = format!("{summary} The last word was: {}", result.summary);
            TaskResult { status, summary, ..result }
        }
        None => result,
    }
}

/// What came of a run's tasks, in order, with what the person accepted of it since.
pub fn results(past: &[(Header, Event)]) -> Vec<TaskResult> {
    let mut results: Vec<TaskResult> = Vec::new();
    for (header, event) in past {
        match event {
            Event::TaskFinished(finished) => results.push(finished.result.clone()),
            Event::ChecksAccepted(_) => {
                let accepted = results.iter_mut().filter(|result| header.task == Some(result.task_id));
                accepted.filter_map(|result| result.verify.as_mut()).for_each(|verify| verify.accepted = true);
            }
            _ => {}
        }
    }
    results
}

fn events(past: &[(Header, Event)]) -> impl Iterator<Item = &Event> {
    past.iter().map(|(_, event)| event)
}

/// How a run ends, if its first agent is believed.
fn said(status: TaskStatus) -> RunStatus {
    match status {
        TaskStatus::Ok => RunStatus::Completed,
        TaskStatus::Cancelled => RunStatus::Cancelled,
        TaskStatus::OutOfTime => RunStatus::OutOfTime,
        TaskStatus::OutOfSteps => RunStatus::OutOfSteps,
        TaskStatus::OutOfBudget => RunStatus::OutOfBudget,
        TaskStatus::Failed | TaskStatus::NeedsInput => RunStatus::Failed,
        TaskStatus::Unknown | TaskStatus::Running => RunStatus::Unknown,
    }
}

/// Why a run that says it is done is not: it asked others for work, and nothing came of any of it.
fn in_vain<'a>(events: impl Iterator<Item = &'a Event>) -> Option<String> {
    let (mut begun, mut last) = (Vec::new(), None);
    for event in events {
        match event {
            Event::ToolStarted(tool) if tool.name == DELEGATE => begun.push(&tool.effect_id),
            Event::ToolFinished(tool) if begun.contains(&&tool.effect_id) => {
                if tool.outcome == ToolOutcome::Ok {
                    return None;
                }
                last = Some(tool.content.clone());
            }
            _ => {}
        }
    }
    last.map(|said| format!("Nothing came of what was delegated. The last word was: {}", in_words(&said)))
}

/// What a conductor was told of a worker, for people: the worker's own words, without their JSON dress.
fn in_words(told: &str) -> String {
    let told_of: Option<serde_json::Value> = serde_json::from_str(told).ok();
    let summary = told_of.as_ref().and_then(|told| told.get("summary")?.as_str());
    summary.unwrap_or(told).to_owned()
}

/// What a person is asked about paths that changed on both sides.
pub fn which_side(conflicts: &[String]) -> String {
    format!(
        "While this was made, somebody else changed {}. Everything else was brought in. Answer `mine` to keep what is in the \
         workspace now, `theirs` to put this version in its place, or `both` to keep what is there and put this version beside \
         it, under the same name with `.theirs` behind it.",
        named(conflicts.iter().map(String::as_str))
    )
}

/// What a person says of them, if it is one of the three words and no other of them.
pub fn side(answer: &str) -> Option<Side> {
    let said: BTreeSet<String> =
        answer.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase).collect();
    let mut named = Side::ALL.into_iter().filter(|side| said.contains(side.name()));
    named.next().filter(|_| named.next().is_none())
}

/// What is said of a result when the person has spoken.
pub fn decided(side: Side, conflicts: &[String], beside: &[String]) -> String {
    let paths = named(conflicts.iter().map(String::as_str));
    match side {
        Side::Mine => format!("Changed by somebody else meanwhile, and kept as it was, as you decided: {paths}."),
        Side::Theirs => {
            format!("Changed by somebody else meanwhile, and replaced by this version, as you decided: {paths}.")
        }
        Side::Both if beside.is_empty() => format!("Changed by somebody else meanwhile, and kept as it was: {paths}."),
        Side::Both => {
            let beside = named(beside.iter().map(String::as_str));
            format!(
                "Changed by somebody else meanwhile, and kept as it was, as you decided: {paths}. This version is beside it: {beside}."
            )
        }
    }
}

/// The first of some paths.
fn named<'a>(paths: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = if paths.len() > PATHS_NAMED_MAX { " and others" } else { "" };
    format!("{}{more}", paths.take(PATHS_NAMED_MAX).collect::<Vec<_>>().join(", "))
}

/// Whether of a task that ended well not everything is in the workspace, because a person wanted it so.
fn is_kept_out(task: &TaskResult) -> bool {
    task.status == TaskStatus::Ok && !task.conflicts.is_empty()
}

/// What is said of a run that passed its checks with more than what is in the workspace.
const NOT_ALL: &str = "What was checked is not all in the workspace: you kept yours where both had changed.";

/// Whether a run's checks saw what a person then kept out.
fn kept_out<'a>(mut tasks: impl Iterator<Item = &'a TaskResult>) -> bool {
    tasks.any(is_kept_out)
}

/// Paths of which a run's work did not come into the workspace, because somebody else had changed them, said in a sentence.
fn left_alone<'a>(tasks: impl Iterator<Item = &'a TaskResult>) -> Option<String> {
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for task in tasks {
        // Whoever did it again on what stood there then has settled it.
        if task.merged_tree.is_some() {
            paths.retain(|path| !task.files_changed.iter().any(|file| file.path == *path));
        }
        // What a person decided is settled, too.
        if !is_kept_out(task) {
            paths.extend(task.conflicts.iter().map(String::as_str));
        }
    }
    (!paths.is_empty()).then(|| {
        let named = named(paths.into_iter());
        format!(
            "Not all of it is in the workspace: somebody else changed {named} meanwhile, and that stayed as it is. What \
             was made of it is kept with its task."
        )
    })
}

/// What is said of a run whose tasks passed one by one.
const APART: &str = "Its tasks were at work at once and were checked one by one, not together.";

/// Whether a run merged what no check has seen together: of two tasks at work at once, each was checked without what the
/// other changed.
pub fn apart<'a>(events: impl Iterator<Item = (&'a Header, &'a Event)>) -> bool {
    let (mut begun, mut merged) = (HashMap::new(), Vec::<(Seq, &TaskResult)>::new());
    for (header, event) in events {
        match (header.task, event) {
            // Whoever comes back to work goes on with what it had.
            (Some(task), Event::TaskStarted(_)) => drop(begun.entry(task).or_insert(header.seq)),
            (Some(task), Event::TaskFinished(finished)) if merges(&finished.result) => {
                let (result, since) = (&finished.result, begun.get(&task).copied().unwrap_or(Seq::ZERO));
                let unseen = |other: &TaskResult, seq| seq > since || other.base_tree == result.base_tree;
                if merged.iter().any(|(seq, other)| unseen(other, *seq) && concern(other, result)) {
                    return true;
                }
                merged.push((header.seq, result));
            }
            _ => {}
        }
    }
    false
}

fn merges(task: &TaskResult) -> bool {
    task.merged_tree.is_some() && task.merged_tree != task.base_tree
}

/// Whether what one task changed can matter to the checks of another. What a project brings itself looks at that project
/// only; what a person gave may look anywhere.
fn concern(one: &TaskResult, other: &TaskResult) -> bool {
    let own = |task: &TaskResult| task.verify.as_ref().is_some_and(|verify| verify.source == VerifySource::Base);
    let projects = |task: &TaskResult| task.files_changed.iter().map(|file| project(&file.path).to_owned()).collect();
    let (ones, others): (BTreeSet<String>, BTreeSet<String>) = (projects(one), projects(other));
    let everywhere = ones.contains("") || others.contains("");
    !own(one) || !own(other) || everywhere || !ones.is_disjoint(&others)
}

/// How a run ends that says it is done: the checks that a person chose have the last word.
pub fn settle<'a>(ended: RunStatus, tasks: impl Iterator<Item = &'a TaskResult>) -> RunStatus {
    if ended != RunStatus::Completed {
        return ended;
    }
    let (mut failed, mut proved, mut unchecked) = (Vec::new(), false, false);
    for task in tasks {
        let Some((verify, status)) = chosen(task) else {
            unchecked |= merges(task);
            continue;
        };
        outdate(&mut failed, verify);
        match status {
            // Until a person has looked at it, a changed check proves nothing.
            _ if verify.doubts.is_empty() => unchecked |= !verify.holds(),
            // Who brought nothing takes nothing away from what others proved.
            _ => unchecked |= merges(task),
        }
        proved |= status == VerifyStatus::Pass && verify.doubts.is_empty();
    }
    match (failed.is_empty(), proved && !unchecked) {
        (false, _) => RunStatus::Failed,
        (true, true) => RunStatus::Verified,
        (true, false) => RunStatus::Completed,
    }
}

/// What a task's check says, where it says something and no model chose it.
fn chosen(task: &TaskResult) -> Option<(&VerifyResult, VerifyStatus)> {
    let verify = task.verify.as_ref().filter(|verify| verify.source != VerifySource::Agent)?;
    (verify.status != VerifyStatus::Unknown).then_some((verify, verify.status))
}

/// Adds a check that failed, or takes out those that a later one has outdated: what failed must have passed since. What another
/// project's checks say is nothing about this one.
fn outdate<'a>(failed: &mut Vec<&'a VerifyResult>, verify: &'a VerifyResult) {
    match verify.status {
        VerifyStatus::Fail => failed.push(verify),
        VerifyStatus::Pass => failed.retain(|failed| {
            failed.commands.last().is_some_and(|last| verify.commands.iter().all(|ran| ran.command != last.command))
        }),
        VerifyStatus::Unknown => {}
    }
}

/// What is said of a run that says it is done when a check that a person chose says it is not.
fn overruled<'a>(said: &str, tasks: impl Iterator<Item = &'a TaskResult>) -> String {
    let mut failed = Vec::new();
    tasks.filter_map(chosen).for_each(|(verify, _)| outdate(&mut failed, verify));
    let why = failed.last().and_then(|verify| verify.commands.last().map(failure));
    format!("{} It was said to be done: {said}", why.unwrap_or_else(|| "A check failed.".to_owned()))
}

/// Why a run whose checks passed is not verified by them, in sentences.
fn doubts<'a>(tasks: impl Iterator<Item = &'a TaskResult>) -> String {
    let passed = |(verify, status): (&'a VerifyResult, _)| (status == VerifyStatus::Pass).then_some(&verify.doubts);
    let said: BTreeSet<&str> = tasks.filter_map(chosen).filter_map(passed).flatten().map(String::as_str).collect();
    said.into_iter().collect::<Vec<_>>().join(" ")
}

/// Calls of a run of which nobody knows whether they were done, said in a sentence.
pub fn unknown<'a>(events: impl Iterator<Item = &'a Event>) -> Option<String> {
    let is_unknown =
        |event: &&Event| matches!(event, Event::ToolFinished(tool) if tool.outcome == ToolOutcome::Unknown);
    match events.filter(is_unknown).count() {
        0 => None,
        1 => Some("Nobody knows how one of its calls ended: look at its trace.".to_owned()),
        count => Some(format!("Nobody knows how {count} of its calls ended: look at its trace.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::task::running;
    use crate::verify::Checks;
    use choir_proto::event::ToolFinished;
    use choir_proto::task::{CommandResult, Verify, VerifyMode};
    use choir_proto::{Hash, TaskId};
    use uuid::Uuid;

    #[test]
    fn a_run_whose_every_delegation_failed_has_done_nothing() {
        use choir_proto::event::{RunAnswered, ToolFinished, ToolStarted};
        let started = |id: &str| -> Event {
            ToolStarted {
                effect_id: id.into(),
                turn: 1,
                index: 0,
                call_id: id.into(),
                name: DELEGATE.into(),
                arguments: serde_json::Value::Null,
            }
            .into()
        };
        let finished = |id: &str, outcome| -> Event {
            let content = "no such role".to_owned();
            ToolFinished { effect_id: id.into(), call_id: id.into(), outcome, content, output: None, duration_ms: 0 }
                .into()
        };
        let failed = [started("a"), finished("a", ToolOutcome::Refused)];
        assert!(in_vain(failed.iter()).is_some_and(|why| why.ends_with("no such role")));
        assert_eq!(in_words(r#"{"status":"failed","summary":"It broke.","files_changed":[]}"#), "It broke.");
        let one = [started("a"), finished("a", ToolOutcome::Error), started("b"), finished("b", ToolOutcome::Ok)];
        assert_eq!(in_vain(one.iter()), None);
        let said = [failed[0].clone(), failed[1].clone(), RunAnswered { text: "It is all done.".into() }.into()];
        assert!(in_vain(said.iter()).is_some(), "words are no work");
        assert_eq!(in_vain([].iter()), None);
    }

    fn checked(source: VerifySource, status: VerifyStatus) -> VerifyResult {
        let verify = Verify { mode: VerifyMode::Commands, commands: Vec::new() };
        VerifyResult { status, ..Checks { verify, source }.unchecked() }
    }

    fn task(source: VerifySource, status: Option<VerifyStatus>, merges: bool) -> TaskResult {
        let verify = status.map(|status| checked(source, status));
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
        assert_eq!(settle(&[weakened.clone()]), RunStatus::Completed, "who changed a check is not verified by it");
        weakened.verify.as_mut().unwrap().accepted = true;
        assert_eq!(settle(&[weakened]), RunStatus::Verified, "until a person has accepted that");
        let failed = super::settle(RunStatus::Failed, [task(Person, Some(Pass), true)].iter());
        assert_eq!(failed, RunStatus::Failed);
    }

    fn with(command: &str, task: TaskResult) -> TaskResult {
        let ran = CommandResult { exit_code: Some(0), ..crate::testing::ran(command) };
        let verify = task.verify.map(|verify| VerifyResult { commands: vec![ran], ..verify });
        TaskResult { verify, ..task }
    }

    #[test]
    fn a_check_that_failed_is_outdated_by_the_same_one_only() {
        let (fail, pass) = (
            |command| with(command, task(VerifySource::Base, Some(VerifyStatus::Fail), false)),
            |command| with(command, task(VerifySource::Base, Some(VerifyStatus::Pass), true)),
        );
        let end = |tasks: &[TaskResult]| settle(RunStatus::Completed, tasks.iter());
        let (x, y) = ("cd x && make test", "cd y && make test");
        assert_eq!(end(&[fail(x), pass(y)]), RunStatus::Failed, "another project says nothing about this one");
        assert_eq!(end(&[fail(x), pass(y), pass(x)]), RunStatus::Verified);
        let said = overruled("Done.", [fail(x), pass(y)].iter());
        assert!(said.contains(x), "{said}");
    }

    #[test]
    fn what_is_doubted_proves_nothing_and_takes_nothing_away() {
        let doubted = |merges| {
            let mut task = task(VerifySource::Base, Some(VerifyStatus::Pass), merges);
            task.verify.as_mut().unwrap().doubts = vec!["Nothing was changed.".into()];
            task
        };
        let end = |tasks: &[TaskResult]| settle(RunStatus::Completed, tasks.iter());
        let solid = || task(VerifySource::Base, Some(VerifyStatus::Pass), true);
        assert_eq!(end(&[doubted(false)]), RunStatus::Completed);
        assert_eq!(end(&[solid(), doubted(false)]), RunStatus::Verified, "who only looked changed nothing");
        assert_eq!(end(&[solid(), doubted(true)]), RunStatus::Completed);
        assert_eq!(doubts([doubted(false), doubted(false)].iter()), "Nothing was changed.");
    }

    fn merging(seq: u64, own: u8, base: u8, path: &str) -> [(Header, Event); 2] {
        use choir_proto::event::{TaskFinished, TaskStarted};
        use choir_proto::task::{ChangeKind, FileChange};
        let id = TaskId::new(Uuid::from_bytes([own; 16]));
        let files_changed = vec![FileChange { path: path.into(), change: ChangeKind::Modified }];
        let done = task(VerifySource::Base, Some(VerifyStatus::Pass), true);
        let result = TaskResult { task_id: id, files_changed, base_tree: Some(Hash([base; 32])), ..done };
        let started = Event::from(TaskStarted { base_tree: result.base_tree, alone: false });
        let finished = Event::from(TaskFinished { result });
        let of_task = |seq, event: Event| (Header { task: Some(id), ..crate::testing::header(seq, &event) }, event);
        [of_task(seq, started), of_task(seq + 2, finished)]
    }

    #[test]
    fn what_was_merged_together_was_checked_together_or_nothing_is_claimed() {
        let at_once = |tasks: [[(Header, Event); 2]; 2]| {
            let mut events = tasks.concat();
            events.sort_by_key(|(header, _)| header.seq);
            apart(events.iter().map(|(header, event)| (header, event)))
        };
        assert!(at_once([merging(1, 1, 1, "a"), merging(2, 2, 3, "b")]), "at once");
        assert!(!at_once([merging(1, 1, 1, "a"), merging(4, 2, 3, "b")]), "one after the other");
        assert!(at_once([merging(1, 1, 1, "a"), merging(4, 2, 1, "b")]), "the second had not seen the first");
        let project = |name: &str| format!("projects/{name}/x");
        assert!(!at_once([merging(1, 1, 1, &project("a")), merging(2, 2, 1, &project("b"))]), "they do not meet");
        assert!(at_once([merging(1, 1, 1, &project("a")), merging(2, 2, 1, &project("a"))]));
    }

    #[test]
    fn a_run_says_it_is_verified_only_of_what_was_checked_as_it_stands() {
        use choir_proto::event::TaskFinished;
        let end = |past: &[(Header, Event)]| {
            let done =
                TaskResult { status: TaskStatus::Ok, summary: "Done.".into(), ..running(TaskId::new(Uuid::nil())) };
            ending(done, past)
        };
        let finished = |result: TaskResult| {
            let event = Event::from(TaskFinished { result });
            (crate::testing::header(1, &event), event)
        };
        let passed = task(VerifySource::Person, Some(VerifyStatus::Pass), true);
        assert_eq!(end(&[finished(passed.clone())]), (RunStatus::Verified, "Done.".into()));
        let kept = TaskResult { conflicts: vec!["a".into()], status: TaskStatus::Ok, ..passed };
        assert_eq!(end(&[finished(kept)]), (RunStatus::Completed, format!("Done. {NOT_ALL}")));
        let mut at_once = [merging(1, 1, 1, "a"), merging(2, 2, 3, "b")].concat();
        at_once.sort_by_key(|(header, _)| header.seq);
        assert_eq!(end(&at_once), (RunStatus::Completed, format!("Done. {APART}")));
        let failed = finished(task(VerifySource::Person, Some(VerifyStatus::Fail), true));
        let overruled = "A check failed. It was said to be done: Done.".to_owned();
        assert_eq!(end(&[failed]), (RunStatus::Failed, overruled));
    }

    #[test]
    fn every_way_to_end_stays_what_it_is() {
        for (status, wanted) in [
            (TaskStatus::Ok, RunStatus::Completed),
            (TaskStatus::Cancelled, RunStatus::Cancelled),
            (TaskStatus::OutOfTime, RunStatus::OutOfTime),
            (TaskStatus::OutOfSteps, RunStatus::OutOfSteps),
            (TaskStatus::OutOfBudget, RunStatus::OutOfBudget),
            (TaskStatus::Failed, RunStatus::Failed),
            (TaskStatus::NeedsInput, RunStatus::Failed),
            (TaskStatus::Unknown, RunStatus::Unknown),
        ] {
            let result = TaskResult { status, ..running(TaskId::new(Uuid::nil())) };
            assert_eq!(ending(result, &[]).0, wanted, "{status:?}");
        }
    }

    #[test]
    fn a_changed_check_that_the_person_accepted_counts_with_its_own_task_only() {
        use choir_proto::event::ChecksAccepted;
        let past = [merging(1, 1, 1, "a"), merging(5, 2, 2, "b")].concat();
        let accepted = Event::from(ChecksAccepted { checks: Vec::new(), run_status: None });
        let said = |past: &[(Header, Event)]| {
            results(past).iter().map(|task| task.verify.as_ref().unwrap().accepted).collect::<Vec<_>>()
        };
        assert_eq!(said(&past), [false, false]);
        let of_first = past[0].0.clone();
        assert_eq!(said(&[past, vec![(of_first, accepted)]].concat()), [true, false]);
    }

    #[test]
    fn who_was_left_alone_with_its_work_is_not_done_whatever_it_says() {
        use choir_proto::event::TaskFinished;
        let left = TaskResult { conflicts: vec!["a".into()], ..task(VerifySource::Person, None, true) };
        let event = Event::from(TaskFinished { result: left });
        let past = [(crate::testing::header(1, &event), event)];
        let said = |status| borne_out(TaskResult { status, ..running(TaskId::new(Uuid::nil())) }, &past);
        let done = said(TaskStatus::Ok);
        assert_eq!((done.status, done.summary.contains("somebody else changed a")), (TaskStatus::Failed, true));
        assert_eq!(said(TaskStatus::Cancelled).summary, "", "who says no more is believed");
    }

    #[test]
    fn what_stayed_out_is_named_until_it_was_done_again() {
        use choir_proto::task::{ChangeKind, FileChange};
        let path = || "a.txt".to_owned();
        let left = TaskResult { conflicts: vec![path()], ..task(VerifySource::Person, None, true) };
        assert!(left_alone([&left].into_iter()).is_some_and(|said| said.contains("a.txt meanwhile")));
        let files_changed = vec![FileChange { path: path(), change: ChangeKind::Modified }];
        let again = TaskResult { files_changed, ..task(VerifySource::Person, None, true) };
        assert_eq!(left_alone([&left, &again].into_iter()), None);
        assert!(left_alone([&again, &left].into_iter()).is_some());
    }

    #[test]
    fn one_of_three_words_is_an_answer_and_what_was_decided_is_settled() {
        for (answer, meant) in [
            ("mine", Some(Side::Mine)),
            ("Keep MINE.", Some(Side::Mine)),
            ("take theirs", Some(Side::Theirs)),
            ("leave both!", Some(Side::Both)),
            ("not theirs but mine", None),
            ("undermine", None),
            ("", None),
        ] {
            assert_eq!(side(answer), meant, "{answer}");
        }
        let conflicts = vec!["a.txt".to_owned()];
        let kept = TaskResult { conflicts, status: TaskStatus::Ok, ..task(VerifySource::Person, None, true) };
        assert_eq!(left_alone([&kept].into_iter()), None, "the person wanted it so");
        assert!(kept_out([&kept].into_iter()), "and what was checked is not what is there");
        assert!(!kept_out([&task(VerifySource::Person, None, true)].into_iter()));
    }

    #[test]
    fn a_check_that_failed_is_named_where_the_run_says_it_is_done() {
        let ran = CommandResult { exit_code: Some(1), ..crate::testing::ran("one") };
        let verify = VerifyResult { commands: vec![ran], ..checked(VerifySource::Person, VerifyStatus::Fail) };
        let task = TaskResult { verify: Some(verify), ..running(TaskId::new(Uuid::nil())) };
        let said = overruled("All done.", [task].iter());
        assert_eq!(said, "The check `one` ended with exit code 1. It was said to be done: All done.");
    }

    #[test]
    fn calls_of_which_nobody_knows_are_counted() {
        let finished = |outcome| {
            let (effect_id, call_id, content) = (String::new(), String::new(), String::new());
            Event::from(ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 })
        };
        let events = [ToolOutcome::Ok, ToolOutcome::Unknown, ToolOutcome::Error, ToolOutcome::Unknown].map(finished);
        assert_eq!(unknown(events[..1].iter()), None);
        assert!(unknown(events[..2].iter()).is_some_and(|said| said.contains("one of its calls")));
        assert!(unknown(events.iter()).is_some_and(|said| said.contains("2 of its calls")));
    }
}
