//! What a run changed in the workspace: every file side by side, kept or taken back one by one, or all of it at once.

use crate::page::bridge;
use crate::page::desk::{Desk, use_desk};
use crate::page::rich::Glyph;
use crate::page::server::{self, Failure};
use choir_desktop::diff::{File, Hunk, Line, Row, Turn, parse};
use choir_desktop::files::query;
use choir_desktop::icon::Icon;
use choir_desktop::words::{count, objective};
use choir_proto::RunId;
use choir_proto::api::{Change, ChangeState, Changes as Answer, NewUndo, Undo};
use choir_proto::task::{ChangeKind, FileChange};
use dioxus::prelude::*;
use std::collections::BTreeSet;

/// What is known of a run's changes.
#[derive(Clone, Copy, PartialEq)]
struct Review {
    desk: Desk,
    run: RunId,
    found: Signal<Option<Result<Vec<Change>, String>>>,
    /// Files that were looked at and stay, as `seq/path`.
    kept: Signal<BTreeSet<String>>,
    /// Files whose change was taken back here.
    reverted: Signal<BTreeSet<String>>,
    busy: Signal<bool>,
}

impl Review {
    fn load(mut self) {
        spawn(async move {
            let answer: Result<Answer, Failure> = server::get(&format!("/api/runs/{}/changes", self.run)).await;
            self.found.set(Some(answer.map(|answer| answer.changes).map_err(|failure| failure.to_string())));
        });
    }

    /// Takes everything back that is in effect; asked again, it brings it back.
    fn undo(mut self) {
        self.busy.set(true);
        spawn(async move {
            let path = format!("/api/runs/{}/undo", self.run);
            let answer: Result<Undo, Failure> = server::send("POST", &path, &NewUndo::default()).await;
            self.busy.set(false);
            match answer {
                Ok(undo) => self.desk.tell(undo.summary),
                Err(failure) => self.desk.undone("The workspace stayed as it was.", &failure),
            }
            self.load();
        });
    }

    /// Brings in everything that was held.
    fn merge(mut self) {
        self.busy.set(true);
        spawn(async move {
            let path = format!("/api/runs/{}/merge", self.run);
            let answer: Result<Undo, Failure> = server::send("POST", &path, &NewUndo::default()).await;
            self.busy.set(false);
            match answer {
                Ok(merged) => self.desk.tell(merged.summary),
                Err(failure) => self.desk.undone("What was held is held still.", &failure),
            }
            self.load();
        });
    }

    /// Takes one file's change back, unless the file has changed since.
    fn revert(mut self, key: String, file: File) {
        spawn(async move {
            match turn(&file, File::revert).await {
                Ok(()) => {
                    self.reverted.write().insert(key);
                    self.desk.tell(format!("{} is as it was before.", file.path));
                }
                Err(why) => self.desk.tell(why),
            }
        });
    }

    /// Brings in one file of what was held, unless the file has changed since.
    fn apply(mut self, key: String, file: File) {
        spawn(async move {
            match turn(&file, File::apply).await {
                Ok(()) => {
                    self.kept.write().insert(key);
                    self.desk.tell(format!("{} is in the workspace.", file.path));
                }
                Err(why) => self.desk.tell(why),
            }
        });
    }
}

/// Turns one file around, whichever way.
async fn turn(file: &File, way: impl Fn(&File, Option<&str>) -> Turn) -> Result<(), String> {
    let address = format!("/api/files?path={}", query(&file.path));
    let now = match server::get_text(&address).await {
        Ok(text) => Some(text),
        Err(Failure::Refused(refusal)) if refusal.error.code == "not_found" => None,
        Err(failure) => return Err(failure.to_string()),
    };
    let done = match way(file, now.as_deref()) {
        Turn::Delete => server::act("DELETE", &address).await,
        Turn::Write(text) => server::done(bridge::upload(&address, text.into(), |_| {}).await),
        Turn::Unknown => {
            return Err(format!("{} has changed since, or is not text. It was left as it is.", file.path));
        }
    };
    done.map_err(|failure| failure.to_string())
}

#[component]
pub(crate) fn Changes(run: RunId) -> Element {
    let desk = use_desk();
    let review = Review {
        desk,
        run,
        found: use_signal(|| None),
        kept: use_signal(BTreeSet::new),
        reverted: use_signal(BTreeSet::new),
        busy: use_signal(|| false),
    };
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
    let mut in_effect = changes.iter().filter(|change| change.state == ChangeState::Merged).peekable();
    let any = in_effect.peek().is_some();
    // What an undo took back, another one brings back: then the tasks' own changes are in effect again.
    let undone = !in_effect.any(|change| change.undo_id.is_none());
    rsx! {
        div { class: "changes-head",
            span { {count(changes.len(), "change", "changes")} }
            if held {
                button { r#type: "button", class: "primary small", disabled: (review.busy)(), onclick: move |_| review.merge(),
                    Glyph { icon: Icon::Check }
                    "Keep all that was held"
                }
            }
            if any {
                button {
                    r#type: "button",
                    class: "secondary",
                    disabled: (review.busy)(),
                    onclick: move |_| review.undo(),
                    Glyph { icon: Icon::Undo }
                    if undone { "Bring it back" } else { "Undo this run" }
                }
            }
        }
        for change in changes { ChangeView { key: "{change.seq.0}", review, change } }
    }
}

#[component]
fn ChangeView(review: Review, change: Change) -> Element {
    let desk = review.desk;
    let of_task = use_memo(move || {
        let runs = desk.runs.read();
        let tasks = &runs.get(review.run)?.tasks;
        let task = tasks.iter().find(|task| Some(task.task_id) == change.task_id)?;
        Some((task.role.map_or("task", |role| role.name()).to_owned(), objective(task, tasks)))
    });
    let state = match (change.undo_id, change.state) {
        (Some(_), ChangeState::Merged | ChangeState::Held) => "in effect",
        (Some(_), _) => "taken back since",
        (None, ChangeState::Merged) => "in the workspace",
        (None, ChangeState::Undone) => "taken back since",
        (None, ChangeState::KeptOut) => "kept out: the task did not end well",
        (None, ChangeState::Held) => "held until you have looked at it",
    };
    // A folder says nothing that its files do not say.
    let folder = |path: &str| {
        change.files_changed.iter().any(|other| other.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    };
    let listed: Vec<FileChange> = change.files_changed.iter().filter(|file| !folder(&file.path)).cloned().collect();
    let diffs = change.diff.as_ref().map(|diff| parse(&diff.content)).unwrap_or_default();
    let seq = change.seq.0;
    let can_revert = change.state == ChangeState::Merged && change.undo_id.is_none();
    let held = change.state == ChangeState::Held;
    rsx! {
        section { class: "change", "aria-label": "Change",
            h3 {
                match of_task() {
                    Some((role, objective)) if change.undo_id.is_none() => rsx! { strong { "{role}" } " {objective}" },
                    _ => rsx! { "Undo" },
                }
                span { class: "figure", "{state}" }
            }
            for path in change.conflicts.clone() {
                p { key: "conflict-{path}", class: "reason", "{path} did not arrive: it had changed on both sides." }
            }
            for listed in listed {
                FileView {
                    key: "{listed.path}",
                    review,
                    name: format!("{seq}/{}", listed.path),
                    diff: diffs.iter().find(|file| file.path == listed.path).cloned(),
                    listed,
                    can_revert,
                    held,
                }
            }
        }
    }
}

#[component]
fn FileView(
    review: Review,
    name: String,
    listed: FileChange,
    diff: Option<File>,
    can_revert: bool,
    held: bool,
) -> Element {
    let kept = review.kept.read().contains(&name);
    let reverted = review.reverted.read().contains(&name);
    let word = match listed.change {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
    };
    let (added, removed) = diff.as_ref().map_or((0, 0), |file| (file.added, file.removed));
    let mut marks = review.kept;
    let (keep, back, file) = (name.clone(), name, diff.clone());
    let brought = diff.clone().filter(|_| held);
    rsx! {
        article { class: "file-change", "aria-label": "{listed.path}",
            header {
                code { "{listed.path}" }
                span { class: "figure",
                    "{word} "
                    if added > 0 { span { class: "came", "+{added}" } }
                    if removed > 0 { span { class: "went", " −{removed}" } }
                }
                if reverted {
                    span { class: "figure", "taken back" }
                } else {
                    button {
                        r#type: "button",
                        class: "secondary",
                        "aria-pressed": "{kept}",
                        "aria-label": if kept { "Kept {listed.path}" } else { "Keep {listed.path}" },
                        disabled: held && (kept || brought.is_none()),
                        onclick: move |_| match brought.clone() {
                            Some(file) => review.apply(keep.clone(), file),
                            None => {
                                let mut marks = marks.write();
                                if !marks.remove(&keep) { marks.insert(keep.clone()); }
                            }
                        },
                        if kept { "Kept" } else { "Keep" }
                    }
                    if let Some(file) = file.filter(|_| can_revert) {
                        button {
                            r#type: "button",
                            class: "secondary",
                            "aria-label": "Undo {listed.path}",
                            onclick: move |_| review.revert(back.clone(), file.clone()),
                            "Undo"
                        }
                    }
                }
            }
            if !kept && !reverted {
                match diff {
                    Some(file) => rsx! { SideBySide { file } },
                    None => rsx! { p { class: "none", "There is no difference to show: it is not text, or too long." } },
                }
            }
        }
    }
}

#[component]
fn SideBySide(file: File) -> Element {
    rsx! {
        if let Some(note) = file.note { p { class: "none", "{note}" } }
        div { class: "hunks", tabindex: "0", role: "group", "aria-label": "{file.path} before and after",
            for (index, hunk) in file.hunks.into_iter().enumerate() { HunkView { key: "{index}", hunk } }
        }
    }
}

#[component]
fn HunkView(hunk: Hunk) -> Element {
    rsx! {
        div { class: "hunk",
            for (index, row) in hunk.rows.into_iter().enumerate() { RowView { key: "{index}", row } }
        }
    }
}

#[component]
fn RowView(row: Row) -> Element {
    let class = if row.changed { "diff-row changed" } else { "diff-row" };
    rsx! {
        div { class,
            Half { line: row.left, side: "before" }
            Half { line: row.right, side: "after" }
        }
    }
}

#[component]
fn Half(line: Option<Line>, side: &'static str) -> Element {
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
