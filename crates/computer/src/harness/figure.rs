//! Figures that an agent writes into a document: each is held against what the commands of its run printed.

use super::HarnessError;
use super::exec::BASH;
use super::past::Past;
use super::perform::Performer;
use crate::figure::{inputs, standing};
use choir_core::evidence::testimony;
use choir_core::figure;
use choir_proto::document::Figure;
use choir_proto::event::{FigureChanged, ToolOutcome};
use choir_proto::{DocumentId, Event, Hash, TaskId};

impl Performer {
    /// What is to be known of the figures in a text: those that a command of this run printed, word for word.
    pub(super) async fn figures(&self, id: DocumentId, text: &str) -> Result<Vec<Event>, HarnessError> {
        let blocks = figure::blocks(text);
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let past = Past::read(self.context.harness.journal.log(), self.context.run).await?;
        let mut facts = Vec::new();
        for block in blocks {
            let Some((task, tree)) = self.printed(&past, block.command, block.body).await? else { continue };
            let inputs = inputs(&self.context.harness, tree, block.command).await;
            let (status, because) = standing(&inputs);
            let figure = Figure {
                figure_id: figure::id(id, block.command),
                command: block.command.to_owned(),
                status,
                inputs,
                output: Some(choir_store::sha256(block.body.as_bytes())),
                task_id: Some(task),
                because,
                at: None,
            };
            facts.push(FigureChanged { document_id: id, figure }.into());
        }
        Ok(facts)
    }

    /// The task whose command printed this, and the tree that it worked on.
    async fn printed(
        &self,
        past: &Past,
        command: &str,
        body: &str,
    ) -> Result<Option<(TaskId, Option<Hash>)>, HarnessError> {
        let mut started = std::collections::HashMap::new();
        let mut found = None;
        for (header, event) in past.events() {
            match event {
                Event::ToolStarted(tool) if tool.name == BASH && tool.arguments["command"] == command => {
                    started.insert(tool.effect_id.clone(), header.task);
                }
                Event::ToolFinished(tool) if tool.outcome == ToolOutcome::Ok => {
                    let Some(Some(task)) = started.get(&tool.effect_id) else { continue };
                    let output = match tool.output {
                        Some(blob) => self.context.harness.documents.blob_text(blob).await?,
                        None => testimony(BASH, tool).unwrap_or_default().to_owned(),
                    };
                    if figure::printable(&output) == Some(body) {
                        found = Some(*task);
                    }
                }
                _ => {}
            }
        }
        let tree = past.events().find_map(|(header, event)| match event {
            Event::TaskFinished(finished) if found.is_some() && header.task == found => {
                finished.result.result_tree.or(finished.result.base_tree)
            }
            _ => None,
        });
        Ok(found.map(|task| (task, tree)))
    }
}
