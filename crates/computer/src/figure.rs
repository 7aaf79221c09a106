//! Numbers that stay alive: a figure knows the files that it was made from, becomes stale when one of them changes, and is
//! made again when the person wants it.

use crate::document::{Base, DocumentError, Edit, Manner};
use crate::harness::Harness;
use crate::journal::Scope;
use crate::mirror::Broken;
use choir_core::figure;
use choir_core::fold::figure::Figures as FiguresFold;
use choir_core::fold::task::{Tasks, run_of};
use choir_proto::document::{Figure, FigureInput, FigureStatus};
use choir_proto::event::{Actor, FigureChanged};
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::wire::{LiveFile, ReadTree, TreeFile};
use choir_proto::{DocumentId, Envelope, Event, Hash, Role, TaskId};
use choir_store::StoreError;
use std::sync::Arc;

/// Figures that are looked after.
const FIGURES_MAX: usize = 1000;

/// What is said of a figure of which no file is known that it was made from.
const WITHOUT_INPUTS: &str = "it is not known which files it was made from, so nobody can tell when they change";

/// The files that a command named, and those that a script named which it ran, as they are in a tree. Without a tree nothing
/// is known of them.
pub(crate) async fn inputs(harness: &Harness, tree: Option<Hash>, command: &str) -> Vec<FigureInput> {
    looked_for(harness, tree, command).await.found
}

/// What was looked for in a tree.
#[derive(Default)]
struct LookedFor {
    /// Whatever may be a path; nothing where it cannot be known what is there.
    named: Vec<String>,
    found: Vec<FigureInput>,
}

impl LookedFor {
    /// Files that a figure was made from, that its command still names, and that are not there.
    fn gone<'a>(&self, inputs: &'a [FigureInput]) -> Vec<&'a str> {
        let is_gone = |input: &&FigureInput| {
            self.named.contains(&input.path) && !self.found.iter().any(|found| found.path == input.path)
        };
        inputs.iter().filter(is_gone).map(|input| input.path.as_str()).collect()
    }
}

async fn looked_for(harness: &Harness, tree: Option<Hash>, command: &str) -> LookedFor {
    let Some(tree) = tree else { return LookedFor::default() };
    let mut named = figure::words(command);
    let Some(mut files) = in_tree(harness, tree, named.clone()).await else { return LookedFor::default() };
    let scripts = files.iter().filter(|file| figure::is_script(&file.path));
    let within: Vec<String> = scripts
        .flat_map(|file| figure::words_within(command, &file.path, file.text.as_deref().unwrap_or_default()))
        .filter(|path| !files.iter().any(|file| file.path == *path))
        .collect();
    if !within.is_empty() {
        let Some(more) = in_tree(harness, tree, within.clone()).await else { return LookedFor::default() };
        files.extend(more);
        named.extend(within);
    }
    let found = files.into_iter().map(|file| FigureInput { path: file.path, hash: file.hash }).collect();
    LookedFor { named, found }
}

/// The files of a tree at these paths; nothing where that cannot be known.
async fn in_tree(harness: &Harness, tree: Hash, paths: Vec<String>) -> Option<Vec<TreeFile>> {
    match harness.control.read_tree(tree, ReadTree { names: Vec::new(), paths }).await {
        Ok(found) => Some(found.files),
        Err(error) => {
            tracing::warn!(%error, "a figure's inputs cannot be known");
            None
        }
    }
}

/// How a figure stands that was just made, and why no better.
pub(crate) fn standing(inputs: &[FigureInput]) -> (FigureStatus, Option<String>) {
    match inputs.is_empty() {
        true => (FigureStatus::Unknown, Some(WITHOUT_INPUTS.to_owned())),
        false => (FigureStatus::Fresh, None),
    }
}

/// Looks after figures.
pub(crate) struct Figures {
    harness: Harness,
}

impl Figures {
    pub(crate) fn new(harness: Harness) -> Self {
        Self { harness }
    }

    async fn all(&self) -> Result<Vec<(DocumentId, Figure)>, StoreError> {
        let rows = self.harness.views.newest::<FiguresFold>(None, FIGURES_MAX).await?;
        let document = |key: String| key.split('/').next().and_then(|id| id.parse().ok());
        Ok(rows.into_iter().filter_map(|(key, figure)| Some((document(key)?, figure))).collect())
    }

    /// Every file that a figure was made from. What a crash cut off is finished first.
    pub(crate) async fn inputs(&self) -> Result<Vec<String>, Broken> {
        let figures = self.all().await?;
        for (document, figure) in &figures {
            if let (FigureStatus::Running, Some(task)) = (figure.status, figure.task_id)
                && let Some(result) = self.harness.views.get::<Tasks>(task).await?
                && result.status != TaskStatus::Running
            {
                self.made(*document, figure.clone(), &result).await?;
            }
        }
        let mut paths: Vec<String> =
            figures.into_iter().flat_map(|(_, figure)| figure.inputs).map(|input| input.path).collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// A file was found to be in some state.
    pub(crate) async fn seen(&self, file: &LiveFile) -> Result<(), Broken> {
        for (document, figure) in self.all().await? {
            let Some(input) = figure.inputs.iter().find(|input| input.path == file.path) else { continue };
            let same = file.hash == Some(input.hash);
            let (status, because) = match (figure.status, same) {
                (FigureStatus::Fresh, false) => (FigureStatus::Stale, Some(format!("{} has changed", file.path))),
                (FigureStatus::Stale, true) if figure.inputs.len() == 1 => (FigureStatus::Fresh, None),
                _ => continue,
            };
            self.tell(document, Figure { status, because, ..figure }, &Scope::of(Actor::Computer)).await?;
        }
        Ok(())
    }

    /// Something happened: a figure's command may have ended. Whether other files have to be heard of now.
    pub(crate) async fn heard(&self, events: &[Arc<Envelope>]) -> Result<bool, Broken> {
        let mut other = false;
        for event in events {
            match event.event() {
                Ok(Event::FigureChanged(changed)) => other |= changed.figure.status == FigureStatus::Fresh,
                Ok(Event::TaskFinished(finished)) => {
                    let task = finished.result.task_id;
                    let of_task = |(_, figure): &(DocumentId, Figure)| {
                        figure.task_id == Some(task) && figure.status == FigureStatus::Running
                    };
                    for (document, figure) in self.all().await?.into_iter().filter(of_task) {
                        self.made(document, figure, &finished.result).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(other)
    }

    /// Puts what a command printed into the document.
    async fn made(&self, document: DocumentId, figure: Figure, result: &TaskResult) -> Result<(), Broken> {
        let scope = worker(result.task_id);
        let failed =
            |why: &str| Figure { status: FigureStatus::Failed, because: Some(why.to_owned()), ..figure.clone() };
        let printed = result.commands.last().filter(|_| result.status == TaskStatus::Ok);
        let Some(printed) = printed.filter(|printed| !printed.truncated) else {
            return self.tell(document, failed(&result.summary), &scope).await;
        };
        let Some(output) = figure::printable(&printed.stdout) else {
            return self.tell(document, failed("what it printed does not fit into a document"), &scope).await;
        };
        let looked_for = looked_for(&self.harness, result.base_tree, &figure.command).await;
        // A pipe ends well whatever became of its first command: what it printed without its inputs is no figure.
        let gone = looked_for.gone(&figure.inputs);
        if !gone.is_empty() {
            let verb = if gone.len() == 1 { "is" } else { "are" };
            return self.tell(document, failed(&format!("{} {verb} gone", gone.join(", "))), &scope).await;
        }
        let Some(head) = self.harness.documents.find(document).await? else { return Ok(()) };
        let text = self.harness.documents.head_text(&head).await?;
        let Some(filled) = figure::filled(&text, &figure.command, output) else { return Ok(()) };
        let edit = Edit {
            base: Base::Version(head.version),
            title: None,
            content: &filled,
            reason: "a figure was made again",
            effect_id: None,
            // The person asked for it, and a figure is nobody's prose.
            manner: Manner::Free,
        };
        let inputs = looked_for.found;
        let (status, because) = standing(&inputs);
        let output = Some(choir_store::sha256(output.as_bytes()));
        let fresh = Figure { status, inputs, output, because, ..figure };
        match self.harness.documents.change(document, edit).await {
            Ok(Some(mut change)) => {
                change.facts.push(FigureChanged { document_id: document, figure: fresh }.into());
                match self.harness.documents.save(&scope, change).await {
                    Ok(()) => Ok(()),
                    Err(DocumentError::Refused(_)) => Ok(()),
                    Err(DocumentError::Read(error)) => Err(error.into()),
                    Err(DocumentError::Append(error)) => Err(error.into()),
                }
            }
            Ok(None) => Ok(()),
            Err(DocumentError::Refused(why)) => self.tell(document, failed_why(fresh, &why.to_string()), &scope).await,
            Err(DocumentError::Read(error)) => Err(error.into()),
            Err(DocumentError::Append(error)) => Err(error.into()),
        }
    }

    async fn tell(&self, document_id: DocumentId, figure: Figure, scope: &Scope) -> Result<(), Broken> {
        self.harness.journal.append(scope, vec![FigureChanged { document_id, figure }.into()]).await?;
        Ok(())
    }
}

fn failed_why(figure: Figure, why: &str) -> Figure {
    Figure { status: FigureStatus::Failed, because: Some(why.to_owned()), ..figure }
}

fn worker(task: TaskId) -> Scope {
    Scope::of(Actor::Agent(Role::Terminal)).run(run_of(task)).task(task)
}
