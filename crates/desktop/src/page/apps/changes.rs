//! What a run changed in the workspace: every file side by side, kept or taken back one by one, or all of it at once.

use crate::page::desk::{Desk, use_desk};
use crate::page::rich::Glyph;
use crate::page::server::{self, Failure};
use choir_desktop::diff::{File, Line, Row, parse};
use choir_desktop::files::plainly;
use choir_desktop::icon::Icon;
use choir_desktop::words::{count, objective};
use choir_proto::api::{Change, ChangeState, Changes as Answer, NewUndo, Undo};
use choir_proto::task::{ChangeKind, FileChange};
use choir_proto::{RunId, TaskId};
use dioxus::prelude::*;

/// What is known of a run's changes.
#[derive(Clone, Copy, PartialEq)]
struct Review {
    desk: Desk,
    run: RunId,
    found: Signal<Option<Result<Vec<Change>, String>>>,
    /// Files that were looked at and stay, as `seq/path`.
    kept: Signal<Vec<String>>,
    busy: Signal<bool>,
}

impl Review {
    fn load(mut self) {
        spawn(async move {
            let answer: Result<Answer, Failure> = server::get(&format!("/api/runs/{}/changes", self.run)).await;
            self.found.set(Some(answer.map(|answer| answer.changes).map_err(|failure| failure.to_string())));
        });
    }

    /// Takes back what is in effect of the run, or brings in what was held. Asked again, an undo brings back what it took.
    fn turn(self, verb: &str) {
        self.send(format!("/api/runs/{}/{verb}", self.run), None);
    }

    /// The same with one file of a task, of which is said what it is then.
    fn turn_file(self, task: TaskId, verb: &str, path: String, then: &'static str) {
        self.send(format!("/api/tasks/{task}/{verb}"), Some((path, then)));
    }

    fn send(mut self, address: String, file: Option<(String, &'static str)>) {
        self.busy.set(true);
        spawn(async move {
            let path = file.as_ref().map(|(path, _)| path.clone());
            let body = NewUndo { undo_id: None, path };
            let answer: Result<Undo, Failure> = server::send("POST", &address, &body).await;
            self.busy.set(false);
            match (answer, file) {
                (Ok(undo), Some((path, then))) if undo.conflicts.is_empty() => {
                    self.desk.tell(format!("{} {then}.", plainly(&path)))
                }
                (Ok(undo), _) => self.desk.tell(undo.summary),
                (Err(failure), _) => self.desk.undone("The workspace stayed as it was.", &failure),
            }
            self.load();
        });
    }
}

#[component]
pub(crate) fn Changes(run: RunId) -> Element {
    let desk = use_desk();
    let review = use_hook(|| Review {
        desk,
        run,
        found: Signal::new(None),
        kept: Signal::new(Vec::new()),
        busy: Signal::new(false),
    });
    // Read at first, and whenever a task of it has ended or was taken back.
    use_effect(move || {
        desk.changed.read();
        review.load();
    });
    rsx! {
        div { class: "pane changes",
            match review.found.read().clone() {
                None => rsx! { p { class: "none", "Reading what changed …" } },
                Some(Err(why)) => rsx! { p { role: "alert", class: "none", "{why}" } },
                Some(Ok(changes)) if changes.is_empty() => rsx! {
                    div { class: "empty",
                        h2 { "No file changed" }
                        p { "This run has left the workspace as it was." }
                    }
                },
                Some(Ok(changes)) => rsx! { Found { review, changes } },
            }
        }
    }
}

#[component]
fn Found(review: Review, changes: Vec<Change>) -> Element {
    let held = changes.iter().any(|change| change.state == ChangeState::Held);
    let taken_back = is_taken_back(&changes);
    let mut files: Vec<&str> = Vec::new();
    for FileChange { path, .. } in changes.iter().flat_map(listed) {
        if !files.contains(&path.as_str()) {
            files.push(path);
        }
    }
    let files = count(files.len(), "file changed", "files changed");
    rsx! {
        div { class: "changes-head",
            span { "{files}" }
            if held {
                button { r#type: "button", class: "primary small", disabled: (review.busy)(), onclick: move |_| review.turn("merge"),
                    Glyph { icon: Icon::Check }
                    "Keep all that was held"
                }
            }
            if let Some(undone) = taken_back {
                button {
                    r#type: "button",
                    class: "secondary",
                    disabled: (review.busy)(),
                    onclick: move |_| review.turn("undo"),
                    Glyph { icon: Icon::Undo }
                    if undone { "Bring it back" } else { "Undo this run" }
                }
            }
        }
        for change in changes { ChangeView { key: "{change.seq.0}", review, change } }
    }
}

/// Whether an undo of the run would bring back what another one took; nothing where there is nothing to undo.
pub(super) fn is_taken_back(changes: &[Change]) -> Option<bool> {
    let mut in_effect = changes.iter().filter(|change| change.state == ChangeState::Merged).peekable();
    in_effect.peek()?;
    // Once it is brought back, the tasks' own changes are in effect again.
    Some(!in_effect.any(|change| change.undo_id.is_none()))
}

/// The files of a change. A folder says nothing that its files do not say.
fn listed(change: &Change) -> impl Iterator<Item = &FileChange> {
    let all = &change.files_changed;
    let inside = |folder: &str, path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    all.iter().filter(move |file| !all.iter().any(|other| inside(&file.path, &other.path)))
}

#[component]
fn ChangeView(review: Review, change: Change) -> Element {
    let desk = review.desk;
    let runs = desk.runs.read();
    let of_task = runs.get(review.run).and_then(|run| {
        let task = run.tasks.iter().find(|task| Some(task.task_id) == change.task_id)?;
        Some((task.role.map_or("task", |role| role.name()), objective(task, &run.tasks)))
    });
    let state = match (change.undo_id, change.state) {
        (Some(_), ChangeState::Merged | ChangeState::Held) => "in effect",
        (Some(_), _) => "taken back since",
        (None, ChangeState::Merged) => "in the workspace",
        (None, ChangeState::Undone) => "taken back since",
        (None, ChangeState::KeptOut) => "kept out: the task did not end well",
        (None, ChangeState::Held) => "held until you have looked at it",
    };
    let listed: Vec<FileChange> = listed(&change).cloned().collect();
    let diffs = change.diff.as_ref().map(|diff| parse(&diff.content)).unwrap_or_default();
    let seq = change.seq.0;
    let task = change.task_id.filter(|_| change.undo_id.is_none());
    let turned = change.turned.clone();
    let stands = move |path: &str| Stands::of(change.state, turned.iter().any(|other| other == path));
    rsx! {
        section { class: "change", "aria-label": "Change",
            h3 {
                match of_task {
                    Some((role, objective)) if change.undo_id.is_none() => rsx! { strong { "{role}" } " {objective}" },
                    _ => rsx! { "Undo" },
                }
                span { class: "figure", "{state}" }
            }
            for path in change.conflicts.clone() {
                p { key: "conflict-{path}", class: "reason", "{plainly(&path)} did not arrive: it had changed on both sides." }
            }
            for listed in listed {
                FileView {
                    key: "{listed.path}",
                    review,
                    name: format!("{seq}/{}", listed.path),
                    diff: diffs.iter().find(|file| file.path == listed.path).cloned(),
                    stands: stands(&listed.path),
                    task,
                    listed,
                }
            }
        }
    }
}

/// Where one file of a change stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// In the workspace.
    There,
    /// It was there, and was taken back alone.
    TakenBack,
    /// It waits for a person.
    Waits,
    /// As the change as a whole says.
    Said,
}

impl Stands {
    fn of(change: ChangeState, turned: bool) -> Self {
        match (change, turned) {
            (ChangeState::Merged, false) | (ChangeState::Held, true) => Self::There,
            (ChangeState::Merged, true) => Self::TakenBack,
            (ChangeState::Held, false) => Self::Waits,
            (ChangeState::Undone | ChangeState::KeptOut, _) => Self::Said,
        }
    }
}

#[component]
fn FileView(
    review: Review,
    name: String,
    listed: FileChange,
    diff: Option<File>,
    stands: Stands,
    task: Option<TaskId>,
) -> Element {
    let kept = stands == Stands::There && review.kept.read().contains(&name);
    let word = match listed.change {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
    };
    let path = plainly(&listed.path);
    let (added, removed) = diff.as_ref().map_or((0, 0), |file| (file.added, file.removed));
    rsx! {
        article { class: "file-change", "aria-label": "{path}",
            header {
                code { "{path}" }
                span { class: "figure",
                    "{word} "
                    if added > 0 { span { class: "came", "+{added}" } }
                    if removed > 0 { span { class: "went", " −{removed}" } }
                }
                if stands == Stands::TakenBack { span { class: "figure", "taken back" } }
                if let Some(task) = task { FileTurns { review, name, path: listed.path.clone(), stands, task } }
            }
            if !kept && stands != Stands::TakenBack {
                match diff {
                    Some(file) => side_by_side(file),
                    None => rsx! { p { class: "none", "There is no difference to show: it is not text, or too long." } },
                }
            }
        }
    }
}

/// What can be done with one file. Keeping one that is there already puts its difference away.
#[component]
fn FileTurns(review: Review, name: String, path: String, stands: Stands, task: TaskId) -> Element {
    let mut kept = review.kept;
    let is_kept = stands == Stands::There && kept.read().contains(&name);
    const BEFORE: &str = "is as it was before";
    const THERE: &str = "is in the workspace";
    let (brought, taken, back, path) = (path.clone(), path.clone(), path.clone(), plainly(&path));
    rsx! {
        match stands {
            Stands::There => rsx! {
                button {
                    r#type: "button",
                    class: "secondary",
                    "aria-pressed": "{is_kept}",
                    "aria-label": if is_kept { "Kept {path}" } else { "Keep {path}" },
                    onclick: move |_| {
                        let mut kept = kept.write();
                        match kept.iter().position(|other| *other == name) {
                            Some(at) => drop(kept.remove(at)),
                            None => kept.push(name.clone()),
                        }
                    },
                    if is_kept { "Kept" } else { "Keep" }
                }
                Turn { review, label: "Undo", path: path.clone(), act: move |()| review.turn_file(task, "undo", taken.clone(), BEFORE) }
            },
            Stands::Waits => rsx! { Turn { review, label: "Keep", path, act: move |()| review.turn_file(task, "merge", brought.clone(), THERE) } },
            Stands::TakenBack => rsx! { Turn { review, label: "Bring back", path, act: move |()| review.turn_file(task, "undo", back.clone(), THERE) } },
            Stands::Said => rsx! {},
        }
    }
}

#[component]
fn Turn(review: Review, label: &'static str, path: String, act: EventHandler<()>) -> Element {
    rsx! {
        button {
            r#type: "button",
            class: "secondary",
            "aria-label": "{label} {path}",
            disabled: (review.busy)(),
            onclick: move |_| act.call(()),
            "{label}"
        }
    }
}

/// Drawn by plain functions: a component for each line would cost more than it draws.
fn side_by_side(file: File) -> Element {
    rsx! {
        if let Some(note) = file.note { p { class: "none", "{note}" } }
        div { class: "hunks", tabindex: "0", role: "group", "aria-label": "{plainly(&file.path)} before and after",
            for (index, hunk) in file.hunks.into_iter().enumerate() {
                div { key: "{index}", class: "hunk",
                    for row in hunk.rows { {diff_row(row)} }
                }
            }
        }
    }
}

fn diff_row(row: Row) -> Element {
    let class = if row.changed { "diff-row changed" } else { "diff-row" };
    rsx! {
        div { class,
            {half(row.left, "before")}
            {half(row.right, "after")}
        }
    }
}

fn half(line: Option<Line>, side: &'static str) -> Element {
    match line {
        Some(line) => rsx! {
            span { class: "number", "{line.number}" }
            code { class: "{side}", "{line.text}" }
        },
        None => rsx! {
            span { class: "number absent" }
            code { class: "absent" }
        },
    }
}
