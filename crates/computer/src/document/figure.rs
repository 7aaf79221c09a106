//! Figures of a document: what is known of each block that a command made.

use super::{DocumentError, Documents};
use crate::journal::Scope;
use choir_core::figure;
use choir_core::fold::figure::Figures;
use choir_core::fold::in_document;
use choir_core::fold::task::run_of;
use choir_proto::document::{Figure, FigureStatus, Place};
use choir_proto::event::{Actor, FigureChanged, TaskRequested};
use choir_proto::task::{Egress, TaskKind, TaskRequest};
use choir_proto::{DocumentId, Seq, TaskId};
use choir_store::StoreError;

impl Documents {
    /// The figures that stand in a text, in order.
    pub async fn figures(&self, id: DocumentId, text: &str) -> Result<Vec<Figure>, StoreError> {
        let mut figures = Vec::new();
        for block in figure::blocks(text) {
            let figure_id = figure::id(id, block.command);
            let known = self.views.get::<Figures>(in_document(id, &figure_id)).await?;
            let mut shown = known.unwrap_or_else(|| unknown(figure_id, block.command));
            let output = choir_store::sha256(block.body.as_bytes());
            if matches!(shown.status, FigureStatus::Fresh | FigureStatus::Stale) && shown.output != Some(output) {
                shown.status = FigureStatus::Unknown;
                shown.because = Some("the text was changed".to_owned());
            }
            let characters = |at: usize| text[..at].chars().count() as u64;
            shown.at = Some(Place { from: characters(block.from), to: characters(block.to) });
            figures.push(shown);
        }
        Ok(figures)
    }

    /// Asks for a figure's command to be run once more, by a task of its own that changes nothing.
    pub async fn rerun(&self, id: DocumentId, figure: Figure) -> Result<(TaskId, Seq), DocumentError> {
        let task_id = TaskId::new(self.journal.world().uuid());
        let request = TaskRequest {
            commands: vec![figure.command.clone()],
            egress: Some(Egress { allow: Vec::new() }),
            ..TaskRequest::new(TaskKind::Inspect, "make a figure again".to_owned())
        };
        let running =
            Figure { status: FigureStatus::Running, task_id: Some(task_id), because: None, at: None, ..figure };
        let scope = Scope::of(Actor::Person).run(run_of(task_id)).task(task_id);
        let requested = TaskRequested { request, role: None, parent: None };
        let changed = FigureChanged { document_id: id, figure: running };
        Ok((task_id, self.journal.append(&scope, vec![requested.into(), changed.into()]).await?))
    }
}

fn unknown(figure_id: String, command: &str) -> Figure {
    Figure {
        figure_id,
        command: command.to_owned(),
        status: FigureStatus::Unknown,
        inputs: Vec::new(),
        output: None,
        task_id: None,
        because: Some("no command is known to have printed this".to_owned()),
        at: None,
    }
}
