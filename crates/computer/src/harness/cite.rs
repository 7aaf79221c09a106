//! Evidence: words are cited only if a stored source holds them, letter by letter.

use super::HarnessError;
use super::past::Past;
use super::perform::{Performed, Performer};
use choir_core::agent::Begin;
use choir_core::evidence::testimony;
use choir_core::fold::evidence::Artifacts;
use choir_core::tool::Cite;
use choir_proto::event::{CitationMade, ToolOutcome};
use choir_proto::{ArtifactId, Event, Hash};
use choir_store::StoreError;
use std::collections::HashMap;

/// The longest quotation. More than that is the source itself.
const QUOTE_BYTES_MAX: usize = 4 * 1024;

/// The name by which an agent means what the commands of its run printed.
const OUTPUT: &str = "output";

/// Words that were found.
struct Found {
    source: Hash,
    artifact: Option<ArtifactId>,
    from: usize,
}

impl Performer {
    pub(super) async fn cite(&self, cite: &Cite, begin: &Begin) -> Result<Performed, HarnessError> {
        if cite.quote.trim().is_empty() || cite.quote.len() > QUOTE_BYTES_MAX {
            let why = format!("A quotation has 1 to {QUOTE_BYTES_MAX} bytes.");
            return Ok(Performed::new(ToolOutcome::Error, why));
        }
        let found = match self.look_up(cite).await? {
            Ok(found) => found,
            Err(why) => return Ok(Performed::new(ToolOutcome::Error, why)),
        };
        let made = CitationMade {
            citation_id: begin.effect_id.clone(),
            document_id: self.context.document,
            source: found.source,
            artifact_id: found.artifact,
            from: found.from as u64,
            to: (found.from + cite.quote.len()) as u64,
            hash: choir_store::sha256(cite.quote.as_bytes()),
            quote: cite.quote.clone(),
        };
        let told = format!("Found in {} at bytes {} to {}.", made.source, made.from, made.to);
        self.together(begin, vec![made.into()], &told).await
    }

    /// Where the words stand, or what to tell the model.
    async fn look_up(&self, cite: &Cite) -> Result<Result<Found, String>, HarnessError> {
        let absent = || format!("These words do not stand in `{}`. Quote it exactly, or do not quote it.", cite.source);
        if cite.source == OUTPUT {
            return Ok(self.in_output(&cite.quote).await?.ok_or_else(absent));
        }
        let (source, artifact) = match (cite.source.parse::<ArtifactId>(), cite.source.parse::<Hash>()) {
            (Ok(id), _) => match self.context.harness.views.get::<Artifacts>(id).await? {
                Some(artifact) => (artifact.text.unwrap_or(artifact.content_hash), Some(id)),
                None => return Ok(Err(unknown(&cite.source))),
            },
            (_, Ok(hash)) => (hash, None),
            _ => return Ok(Err(unknown(&cite.source))),
        };
        let bytes = match self.context.harness.documents.blob(source).await {
            Ok(bytes) => bytes,
            Err(StoreError::Missing(_) | StoreError::Damaged(_)) => return Ok(Err(unknown(&cite.source))),
            Err(error) => return Err(error.into()),
        };
        Ok(position(&bytes, &cite.quote).map(|from| Found { source, artifact, from }).ok_or_else(absent))
    }

    /// Looks through what commands printed and files said in this run. What holds the words is kept as a source of its own.
    async fn in_output(&self, quote: &str) -> Result<Option<Found>, HarnessError> {
        let documents = &self.context.harness.documents;
        let past = Past::read(self.context.harness.journal.log(), self.context.run).await?;
        let mut tools = HashMap::new();
        for (_, event) in past.events() {
            let finished = match event {
                Event::ToolStarted(started) => {
                    tools.insert(&started.effect_id, started.name.as_str());
                    continue;
                }
                Event::ToolFinished(finished) => finished,
                _ => continue,
            };
            let tool = tools.get(&finished.effect_id).copied().unwrap_or_default();
            let Some(shown) = testimony(tool, finished) else { continue };
            let said = match finished.output {
                Some(source) => documents.blob(source).await?,
                None => shown.as_bytes().to_vec(),
            };
            if let Some(from) = position(&said, quote) {
                let source = match finished.output {
                    Some(source) => source,
                    None => documents.keep(said).await?,
                };
                return Ok(Some(Found { source, artifact: None, from }));
            }
        }
        Ok(None)
    }
}

fn unknown(source: &str) -> String {
    format!("There is no source `{source}`. Give an artifact's id, a content hash, or `{OUTPUT}`.")
}

/// Where a text stands in bytes that need not be text.
fn position(bytes: &[u8], quote: &str) -> Option<usize> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.find(quote),
        Err(_) => bytes.windows(quote.len()).position(|window| window == quote.as_bytes()),
    }
}
