//! Which changes of the workspace a run or a task has made, which of them are in effect, and what an undo takes back.

use crate::fold::Fold;
use choir_proto::api::ChangeState;
use choir_proto::event::{Header, UndoFinished, UndoOutcome, Undone};
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::{Event, Hash, RunId, Seq, TaskId, UndoId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Whose changes are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Those of a whole run.
    Run(RunId),
    /// Those of one task of a run, or of a task of its own.
    Task(RunId, TaskId),
}

impl Scope {
    /// The run under which its events are kept.
    pub fn run(self) -> RunId {
        match self {
            Self::Run(run) | Self::Task(run, _) => run,
        }
    }

    /// The task that its events name.
    pub fn task(self) -> Option<TaskId> {
        match self {
            Self::Run(_) => None,
            Self::Task(_, task) => Some(task),
        }
    }

    fn of(header: &Header) -> Option<Self> {
        let run = header.run?;
        Some(header.task.map_or(Self::Run(run), |task| Self::Task(run, task)))
    }

    fn holds(self, task: Option<TaskId>) -> bool {
        self.task().is_none_or(|own| Some(own) == task)
    }
}

/// The changes of one run, folded from its events.
#[derive(Debug, Default)]
pub struct Changes {
    changes: Vec<Change>,
    undos: HashMap<UndoId, Intent>,
}

/// What an undo set out to do.
#[derive(Debug)]
struct Intent {
    scope: Scope,
    undoes: Vec<Seq>,
    path: Option<String>,
}

/// One change.
#[derive(Debug)]
pub struct Change {
    /// Where it is in the log.
    pub seq: Seq,
    /// The task of the event that says so.
    pub task: Option<TaskId>,
    /// Who made it.
    pub made: Made,
    trees: Option<(Hash, Hash)>,
}

/// Who made a change.
#[derive(Debug)]
pub enum Made {
    /// A task.
    Task(Box<TaskResult>),
    /// An undo.
    Undo(Box<UndoFinished>),
}

impl Changes {
    /// Folds an event of the run.
    pub fn apply(&mut self, header: &Header, event: &Event) {
        match event {
            Event::TaskFinished(finished) => {
                let result = finished.result.clone();
                self.push(header, merged(&result), Made::Task(Box::new(result)));
            }
            Event::UndoStarted(started) => {
                let undoes = started.undoes.iter().map(|undone| undone.seq).collect();
                let path = started.path.clone();
                let intent = Scope::of(header).map(|scope| (started.undo_id, Intent { scope, undoes, path }));
                self.undos.extend(intent);
            }
            Event::UndoFinished(finished) if finished.outcome == UndoOutcome::Ok => {
                let trees = finished.base_tree.zip(finished.result_tree).filter(|(base, result)| base != result);
                self.push(header, trees, Made::Undo(Box::new(finished.clone())));
            }
            _ => {}
        }
    }

    fn push(&mut self, header: &Header, trees: Option<(Hash, Hash)>, made: Made) {
        self.changes.push(Change { seq: header.seq, task: header.task, made, trees });
    }

    /// The changes in a scope that have something to show, in order, and where each stands. What was done to one path is said
    /// by [`Changes::turned`].
    pub fn of(&self, scope: Scope) -> impl Iterator<Item = (&Change, ChangeState)> {
        let whole = |change: &Change| self.intent(change).is_none_or(|intent| intent.path.is_none());
        let shown = move |change: &&Change| scope.holds(change.task) && change.shows_something() && whole(change);
        self.changes.iter().filter(shown).map(|change| (change, self.state(change)))
    }

    /// Paths of a change that were turned around one by one since it was last turned around as a whole.
    pub fn turned(&self, change: &Change) -> Vec<String> {
        let whole = |intent: &Intent| intent.path.is_none() && intent.scope.holds(change.task);
        let last =
            self.changes.iter().filter(|later| self.intent(later).is_some_and(whole)).map(|later| later.seq).max();
        let in_effect = |later: &&Change| Some(later.seq) > last && self.state(later) == ChangeState::Merged;
        let intents = self.changes.iter().filter(in_effect).filter_map(|later| self.intent(later));
        intents.filter(|intent| intent.undoes.contains(&change.seq)).filter_map(|intent| intent.path.clone()).collect()
    }

    /// What an undo of a scope, or of one path in it, takes back now: the last undo of the same when nothing came after it,
    /// else every change of a task that is in effect. Nothing when there is nothing to take back.
    pub fn next(&self, scope: Scope, path: Option<&str>) -> Vec<Undone> {
        let in_effect =
            |change: &&Change| self.concerns(change, scope, path) && self.state(change) == ChangeState::Merged;
        let last = self.changes.iter().rev().find(in_effect);
        if let Some(last) = last.filter(|last| self.intent(last).is_some_and(|intent| intent.scope == scope)) {
            return last.undone().into_iter().collect();
        }
        let of_tasks = self.changes.iter().filter(in_effect).filter(|change| matches!(change.made, Made::Task(_)));
        of_tasks.filter_map(Change::undone).collect()
    }

    /// What brings in now what a task's end held back, or one path of it: the way there, as the way back of a way back.
    pub fn held(&self, scope: Scope, path: Option<&str>) -> Vec<Undone> {
        let waits = |change: &Change| path.is_none_or(|path| !self.turned(change).iter().any(|other| other == path));
        let held = |change: &&Change| {
            self.concerns(change, scope, path) && self.state(change) == ChangeState::Held && waits(change)
        };
        let turned = |undone: Undone| Undone { base_tree: undone.result_tree, result_tree: undone.base_tree, ..undone };
        self.changes.iter().filter(held).filter_map(Change::undone).map(turned).collect()
    }

    /// Whether an intent brings in what was held, or takes something back.
    pub fn brings_in(&self, undoes: &[Undone]) -> bool {
        let way_there = |undone: &Undone, change: &Change| {
            change.seq == undone.seq && change.is_held() && change.trees == Some((undone.result_tree, undone.base_tree))
        };
        undoes.iter().any(|undone| self.changes.iter().any(|change| way_there(undone, change)))
    }

    /// Whether an intent takes back nothing but undos that took something, and so brings back what they took. An undo of one
    /// that brought something back takes it once more.
    pub fn brings_back(&self, undoes: &[Undone]) -> bool {
        self.restores(&undoes.iter().map(|undone| undone.seq).collect::<Vec<_>>())
    }

    fn restores(&self, undoes: &[Seq]) -> bool {
        let intent =
            |seq: &Seq| self.changes.iter().find(|change| change.seq == *seq).and_then(|change| self.intent(change));
        // What an undo takes back came before it, so this ends.
        !undoes.is_empty() && undoes.iter().all(|seq| intent(seq).is_some_and(|intent| !self.restores(&intent.undoes)))
    }

    fn state(&self, change: &Change) -> ChangeState {
        if change.trees.is_none() {
            return ChangeState::KeptOut;
        }
        // What turns it around comes later, so this ends. What was held is brought in by the first turn, and is out again
        // after the next.
        let turns = |later: &&Change| {
            later.seq > change.seq && self.takes_back(later, change) && self.state(later) == ChangeState::Merged
        };
        match (change.is_held(), self.changes.iter().filter(turns).count()) {
            (true, turns) if turns % 2 == 0 => ChangeState::Held,
            (false, turns) if turns > 0 => ChangeState::Undone,
            _ => ChangeState::Merged,
        }
    }

    /// Whether a later change turns this one around as a whole.
    fn takes_back(&self, later: &Change, change: &Change) -> bool {
        let of_path = self.intent(change).is_some_and(|intent| intent.path.is_some());
        let whole = |intent: &Intent| intent.path.is_none() || of_path;
        self.intent(later).is_some_and(|intent| intent.undoes.contains(&change.seq) && whole(intent))
    }

    /// Whether a change is what an undo of a scope, or of one path in it, is about.
    fn concerns(&self, change: &Change, scope: Scope, path: Option<&str>) -> bool {
        let same = match (&change.made, path) {
            (Made::Task(result), Some(path)) => result.files_changed.iter().any(|file| file.path == path),
            (Made::Task(_), None) => true,
            (Made::Undo(_), path) => self.intent(change).is_some_and(|intent| intent.path.as_deref() == path),
        };
        same && scope.holds(change.task)
    }

    fn intent(&self, change: &Change) -> Option<&Intent> {
        match &change.made {
            Made::Undo(finished) => self.undos.get(&finished.undo_id),
            Made::Task(_) => None,
        }
    }
}

impl Change {
    fn undone(&self) -> Option<Undone> {
        self.trees.map(|(base_tree, result_tree)| Undone { seq: self.seq, base_tree, result_tree })
    }

    fn is_held(&self) -> bool {
        matches!(&self.made, Made::Task(result) if result.held)
    }

    fn shows_something(&self) -> bool {
        match &self.made {
            Made::Task(result) => !result.files_changed.is_empty(),
            Made::Undo(_) => true,
        }
    }
}

/// What arrived in the workspace, or waits to. Results from before this was said apart arrived whole when they were `ok`.
fn merged(result: &TaskResult) -> Option<(Hash, Hash)> {
    let whole = result.result_tree.filter(|_| result.status == TaskStatus::Ok);
    // Where something gave way to it by a person's word, the way back leads there and not to the base.
    let before = result.over_tree.or(result.base_tree);
    before.zip(result.merged_tree.or(whole)).filter(|(base, merged)| base != merged)
}

/// Undos that were begun and have no result, by id: what a start has to finish.
pub struct ActiveUndos;

/// An undo that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// Whose changes.
    pub scope: Scope,
    /// Which.
    pub undoes: Vec<Undone>,
    /// Nothing but what they did to this path.
    #[serde(default)]
    pub path: Option<String>,
}

impl Fold for ActiveUndos {
    type Row = Undoing;
    const NAME: &'static str = "active_undos";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::UndoStarted(started) => Some(started.undo_id.to_string()),
            Event::UndoFinished(finished) => Some(finished.undo_id.to_string()),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Undoing>, header: &Header, event: &Event) {
        *row = match event {
            Event::UndoStarted(started) => {
                let (undoes, path) = (started.undoes.clone(), started.path.clone());
                Scope::of(header).map(|scope| Undoing { scope, undoes, path })
            }
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::task::running;
    use choir_proto::event::{Actor, TaskFinished, UndoStarted};
    use choir_proto::task::{ChangeKind, FileChange};
    use choir_proto::{EventId, Timestamp};
    use uuid::Uuid;

    const RUN: RunId = RunId::new(Uuid::from_u128(1));

    fn task(number: u128) -> TaskId {
        TaskId::new(Uuid::from_u128(number))
    }

    fn header(seq: u64, task: Option<TaskId>) -> Header {
        Header {
            seq: Seq(seq),
            id: EventId::new(Uuid::from_u128(seq.into())),
            epoch: 1,
            at: Timestamp(0),
            actor: Actor::Computer,
            run: Some(RUN),
            task,
            cause: None,
            kind: "".into(),
            version: 1,
            payload_hash: Hash::ZERO,
            prev: Hash::ZERO,
            hash: Hash::ZERO,
        }
    }

    fn finish(changes: &mut Changes, seq: u64, number: u128, status: TaskStatus) {
        let files_changed = vec![FileChange { path: "a".into(), change: ChangeKind::Added }];
        let (base_tree, result_tree) = (Some(Hash([0; 32])), Some(Hash([number as u8; 32])));
        let result = TaskResult { status, base_tree, result_tree, files_changed, ..running(task(number)) };
        changes.apply(&header(seq, Some(task(number))), &TaskFinished { result }.into());
    }

    /// A task that ended well and was held.
    fn hold(changes: &mut Changes, seq: u64, number: u128) {
        let files_changed = vec![FileChange { path: "a".into(), change: ChangeKind::Added }];
        let (base_tree, result_tree) = (Some(Hash([1; 32])), Some(Hash([2; 32])));
        let status = TaskStatus::Ok;
        let result = TaskResult { status, base_tree, result_tree, files_changed, held: true, ..running(task(number)) };
        changes.apply(&header(seq, Some(task(number))), &TaskFinished { result }.into());
    }

    /// Undoes what is next and gives the positions of what that was.
    fn undo(changes: &mut Changes, seq: u64, scope: Scope) -> Vec<u64> {
        let undoes = changes.next(scope, None);
        turn(changes, seq, scope, undoes, None)
    }

    fn turn(changes: &mut Changes, seq: u64, scope: Scope, undoes: Vec<Undone>, path: Option<&str>) -> Vec<u64> {
        let undo_id = UndoId::new(Uuid::from_u128(seq.into()));
        let started = UndoStarted { undo_id, undoes: undoes.clone(), path: path.map(str::to_owned) };
        changes.apply(&header(seq, scope.task()), &started.into());
        let finished = UndoFinished {
            undo_id,
            outcome: UndoOutcome::Ok,
            summary: String::new(),
            base_tree: Some(Hash([1; 32])),
            result_tree: Some(Hash([2; 32])),
            files_changed: Vec::new(),
            conflicts: Vec::new(),
            already: Vec::new(),
            diff: None,
        };
        changes.apply(&header(seq + 1, scope.task()), &finished.into());
        undoes.iter().map(|undone| undone.seq.0).collect()
    }

    fn states(changes: &Changes) -> Vec<ChangeState> {
        changes.of(Scope::Run(RUN)).map(|(_, state)| state).collect()
    }

    #[test]
    fn an_undo_is_undone_by_the_next_one() {
        use ChangeState::{KeptOut, Merged, Undone};
        let mut changes = Changes::default();
        finish(&mut changes, 1, 1, TaskStatus::Ok);
        finish(&mut changes, 2, 2, TaskStatus::Failed);
        finish(&mut changes, 3, 3, TaskStatus::Ok);
        let run = Scope::Run(RUN);
        assert_eq!(undo(&mut changes, 10, run), [1, 3], "only what was merged");
        assert_eq!(states(&changes), [Undone, KeptOut, Undone, Merged]);
        assert_eq!(undo(&mut changes, 20, run), [11]);
        assert_eq!(states(&changes), [Merged, KeptOut, Merged, Undone, Merged]);
        assert_eq!(undo(&mut changes, 30, run), [21]);
        assert_eq!(states(&changes), [Undone, KeptOut, Undone, Merged, Undone, Merged]);
    }

    #[test]
    fn what_an_undo_does_goes_this_way_and_that_by_turns() {
        let mut changes = Changes::default();
        finish(&mut changes, 1, 1, TaskStatus::Ok);
        let mut said = Vec::new();
        for seq in [2, 4, 6, 8] {
            said.push(changes.brings_back(&changes.next(Scope::Run(RUN), None)));
            undo(&mut changes, seq, Scope::Run(RUN));
        }
        assert_eq!(said, [false, true, false, true]);
    }

    #[test]
    fn what_is_held_is_brought_in_and_taken_back_like_anything_else() {
        use ChangeState::{Held, Merged, Undone};
        let mut changes = Changes::default();
        hold(&mut changes, 1, 1);
        finish(&mut changes, 2, 2, TaskStatus::Ok);
        let (run, held) = (Scope::Run(RUN), Scope::Task(RUN, task(1)));
        assert_eq!(states(&changes), [Held, Merged]);
        assert_eq!(changes.held(Scope::Task(RUN, task(2)), None), [], "only what waits");
        let wanted = changes.held(held, None);
        assert_eq!((wanted[0].base_tree, wanted[0].result_tree), (Hash([2; 32]), Hash([1; 32])), "the way there");
        assert!(changes.brings_in(&wanted) && !changes.brings_in(&changes.next(run, None)));
        turn(&mut changes, 10, held, wanted, None);
        assert_eq!(states(&changes), [Merged, Merged, Merged]);
        assert_eq!(changes.held(run, None), []);
        // Taken back with the run, brought back with it, and held again when its own merge is taken back.
        assert_eq!(undo(&mut changes, 20, run), [1, 2]);
        assert_eq!(states(&changes), [Held, Undone, Merged, Merged]);
        assert_eq!(undo(&mut changes, 30, run), [21]);
        assert_eq!(states(&changes)[..2], [Merged, Merged]);
        let back = undo(&mut changes, 40, held);
        assert_eq!((back, states(&changes)[0]), (vec![11], Held));
    }

    #[test]
    fn a_task_is_undone_alone_and_the_run_takes_back_the_rest() {
        let mut changes = Changes::default();
        finish(&mut changes, 1, 1, TaskStatus::Ok);
        finish(&mut changes, 2, 2, TaskStatus::Ok);
        assert_eq!(undo(&mut changes, 10, Scope::Task(RUN, task(1))), [1]);
        assert_eq!(undo(&mut changes, 20, Scope::Run(RUN)), [2]);
        assert_eq!(undo(&mut changes, 30, Scope::Run(RUN)), [21]);
        assert_eq!(undo(&mut changes, 40, Scope::Task(RUN, task(1))), [11]);
    }

    #[test]
    fn one_path_is_taken_back_and_brought_back_alone_and_the_change_as_a_whole_stays() {
        use ChangeState::{Merged, Undone};
        let mut changes = Changes::default();
        finish(&mut changes, 1, 1, TaskStatus::Ok);
        let (run, own) = (Scope::Run(RUN), Scope::Task(RUN, task(1)));
        let turned = |changes: &Changes| changes.turned(changes.of(run).next().unwrap().0);
        let toggle = |changes: &mut Changes, seq: u64| {
            let undoes = changes.next(own, Some("a"));
            turn(changes, seq, own, undoes, Some("a"))
        };
        assert_eq!(changes.next(own, Some("b")), [], "it did nothing to this path");
        assert_eq!(toggle(&mut changes, 10), [1]);
        assert_eq!((states(&changes), turned(&changes)), (vec![Merged], vec!["a".to_owned()]));
        assert_eq!(toggle(&mut changes, 20), [11]);
        assert_eq!((states(&changes), turned(&changes)), (vec![Merged], vec![]));
        assert_eq!(toggle(&mut changes, 30), [21]);
        assert_eq!(turned(&changes), ["a"]);
        // The run is taken back and brought back as a whole, that path with it.
        assert_eq!(undo(&mut changes, 40, run), [1]);
        assert_eq!(states(&changes), [Undone, Merged]);
        assert_eq!(undo(&mut changes, 50, run), [41]);
        assert_eq!((states(&changes)[0], turned(&changes)), (Merged, vec![]));
    }

    #[test]
    fn one_path_of_what_is_held_is_brought_in_once() {
        let mut changes = Changes::default();
        hold(&mut changes, 1, 1);
        let own = Scope::Task(RUN, task(1));
        let wanted = changes.held(own, Some("a"));
        assert!(changes.brings_in(&wanted));
        assert_eq!(turn(&mut changes, 10, own, wanted, Some("a")), [1]);
        assert_eq!(states(&changes), [ChangeState::Held], "the rest waits");
        assert_eq!((changes.held(own, Some("a")), changes.held(own, None).len()), (vec![], 1));
        let back = changes.next(own, Some("a"));
        assert_eq!(turn(&mut changes, 20, own, back, Some("a")), [11]);
        assert_eq!(changes.held(own, Some("a")).len(), 1, "it is held again");
    }

    #[test]
    fn where_nothing_was_merged_there_is_nothing_to_undo() {
        let mut changes = Changes::default();
        finish(&mut changes, 1, 1, TaskStatus::Cancelled);
        assert!(changes.next(Scope::Run(RUN), None).is_empty());
    }
}
