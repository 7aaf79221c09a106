//! What workers made of checks and no person has accepted. A run's changes are what the next run begins with: what was a changed
//! check in one would be how it had always been in the other.

use super::Fold;
use crate::checks;
use crate::discover::project;
use crate::told::Told;
use choir_proto::event::Header;
use choir_proto::task::TaskResult;
use choir_proto::wire::TreeFile;
use choir_proto::{Event, Hash, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Paths that are kept apart. Beyond them a project is one path, of which nobody can say that it changed since.
const PATHS_MAX: usize = 2_000;

/// Where the only row is.
pub const ALL: &str = "all";

/// Touched checks, by path.
pub struct Carried;

/// What became of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The workspace in which it is as workers left it. Where it is otherwise now, a person has seen to that.
    pub tree: Hash,
    /// What the first of them began with: where it is so again, nothing is left of what they did.
    pub before: Option<Hash>,
    /// Who touched it, and was not accepted.
    pub tasks: Vec<TaskId>,
}

impl Fold for Carried {
    type Row = BTreeMap<String, Touched>;
    const NAME: &'static str = "carried_checks";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        let concerned = match event {
            Event::TaskFinished(finished) => merged(&finished.result).is_some(),
            Event::ChecksAccepted(_) => true,
            _ => false,
        };
        concerned.then(|| ALL.to_owned())
    }

    fn apply(row: &mut Option<Self::Row>, header: &Header, event: &Event) {
        let all = row.get_or_insert_default();
        match event {
            Event::TaskFinished(finished) => add(all, &finished.result),
            Event::ChecksAccepted(_) => all.retain(|_, touched| {
                touched.tasks.retain(|task| Some(*task) != header.task);
                !touched.tasks.is_empty()
            }),
            _ => {}
        }
    }
}

fn add(all: &mut BTreeMap<String, Touched>, result: &TaskResult) {
    let Some(tree) = merged(result) else { return };
    // What is changed again is still what became of it.
    for file in &result.files_changed {
        all.get_mut(&file.path).into_iter().for_each(|touched| touched.tree = tree);
    }
    for path in to_accept(result) {
        let key = if all.len() < PATHS_MAX || all.contains_key(&path) { path } else { project(&path).to_owned() };
        let touched = all.entry(key).or_insert(Touched { tree, before: result.base_tree, tasks: Vec::new() });
        touched.tree = tree;
        if !touched.tasks.contains(&result.task_id) {
            touched.tasks.push(result.task_id);
        }
    }
}

/// The workspace that a task left behind, if it changed it.
fn merged(result: &TaskResult) -> Option<Hash> {
    result.merged_tree.filter(|tree| Some(*tree) != result.base_tree)
}

/// What a worker brought into the workspace that later checks rely on, and that no person has accepted. Who was not checked is
/// judged by the names of what it changed.
pub fn to_accept(result: &TaskResult) -> Vec<String> {
    if merged(result).is_none() {
        return Vec::new();
    }
    let touched = match &result.verify {
        Some(verify) if verify.accepted => Vec::new(),
        Some(verify) => verify.checks_changed.iter().chain(&verify.doubtful).cloned().collect(),
        None => checks::changed(&result.files_changed, &Told::of(Vec::new())),
    };
    touched.into_iter().filter(|path| !result.conflicts.contains(path)).collect()
}

/// Whether a file is as it was, or is as little there as it was.
pub fn is_same(path: &str, then: &[TreeFile], now: &[TreeFile]) -> bool {
    let hash = |files: &[TreeFile]| files.iter().find(|file| file.path == path).map(|file| file.hash);
    hash(then) == hash(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::task::running;
    use choir_proto::event::{ChecksAccepted, TaskFinished};
    use choir_proto::task::{ChangeKind, FileChange, Verify, VerifyMode, VerifyResult, VerifySource};
    use uuid::Uuid;

    fn task(number: u128, changed: &[&str], touched: &[&str]) -> TaskResult {
        let verify = Verify { mode: VerifyMode::Commands, commands: Vec::new() };
        let checks_changed = touched.iter().map(ToString::to_string).collect();
        let unchecked = crate::verify::Checks { verify, source: VerifySource::Base }.unchecked();
        let change = |path: &&str| FileChange { path: (*path).into(), change: ChangeKind::Modified };
        TaskResult {
            base_tree: Some(Hash::ZERO),
            merged_tree: Some(Hash([number as u8; 32])),
            files_changed: changed.iter().map(change).collect(),
            verify: Some(VerifyResult { checks_changed, ..unchecked }),
            ..running(TaskId::new(Uuid::from_u128(number)))
        }
    }

    fn header(task: &TaskResult, event: &Event) -> Header {
        Header { task: Some(task.task_id), ..crate::testing::header(1, event) }
    }

    fn carried(events: &[(&TaskResult, bool)]) -> Vec<(String, u8)> {
        let mut row = None;
        for (task, is_accepted) in events {
            let event: Event = match is_accepted {
                true => ChecksAccepted { checks: Vec::new(), run_status: None }.into(),
                false => TaskFinished { result: (*task).clone() }.into(),
            };
            let header = header(task, &event);
            if Carried::key(&header, &event).is_some() {
                Carried::apply(&mut row, &header, &event);
            }
        }
        row.unwrap_or_default().into_iter().map(|(path, touched)| (path, touched.tree.0[0])).collect()
    }

    #[test]
    fn touched_checks_are_carried_until_a_person_accepts_them() {
        let (first, second) = (task(1, &["a.rs", "b"], &["a.rs"]), task(2, &["a.rs"], &["a.rs"]));
        assert_eq!(carried(&[(&first, false)]), [("a.rs".to_owned(), 1)]);
        assert!(carried(&[(&first, false), (&first, true)]).is_empty());
        assert_eq!(
            carried(&[(&first, false), (&second, false), (&second, true)]).len(),
            1,
            "the first was not accepted"
        );
        assert!(carried(&[(&first, false), (&second, false), (&second, true), (&first, true)]).is_empty());
    }

    #[test]
    fn a_check_that_is_changed_again_beside_other_work_is_still_not_accepted() {
        let (first, later) = (task(1, &["a.rs"], &["a.rs"]), task(2, &["a.rs"], &[]));
        assert_eq!(carried(&[(&first, false), (&later, false)]), [("a.rs".to_owned(), 2)]);
    }

    #[test]
    fn what_never_came_into_the_workspace_is_not_carried_and_what_nobody_checked_is() {
        let lost = TaskResult { merged_tree: None, ..task(1, &["a.rs"], &["a.rs"]) };
        assert!(carried(&[(&lost, false)]).is_empty());
        let kept_out = TaskResult { conflicts: vec!["a.rs".into()], ..task(1, &["a.rs"], &["a.rs"]) };
        assert!(carried(&[(&kept_out, false)]).is_empty());
        let unchecked = TaskResult { verify: None, ..task(1, &[".cargo/config.toml", "src/lib.rs"], &[]) };
        assert_eq!(carried(&[(&unchecked, false)]), [(".cargo/config.toml".to_owned(), 1)]);
    }
}
