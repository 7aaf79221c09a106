//! Where words come from.

use super::Documents;
use crate::harness::Past;
use choir_core::evidence::{byte, characters, resolved, stands_within};
use choir_core::fold::evidence::Citations;
use choir_core::fold::of_document;
use choir_core::fold::replica::Authors;
use choir_core::fold::run::Runs;
use choir_core::text::Piece;
use choir_core::trace::Tracing;
use choir_proto::document::{Citation, DocumentSummary, Origin, Provenance};
use choir_proto::event::{DocumentUpdated, Header};
use choir_proto::trace::{Span, Trace};
use choir_proto::{DocumentId, Event, RunId, Seq};
use choir_store::{Query, StoreError};
use std::collections::BTreeMap;

/// Pieces in one answer.
const PIECES_MAX: usize = 200;

/// Citations of one document.
const CITATIONS_MAX: usize = 1000;

impl Documents {
    /// Evidence for a document, whether or not its words are still in the text.
    pub async fn citations(&self, id: DocumentId) -> Result<Vec<Citation>, StoreError> {
        self.views.with_prefix::<Citations>(of_document(id), CITATIONS_MAX).await
    }

    /// Where a range of a document comes from. The range is in characters, and cut to the text.
    pub async fn provenance(&self, head: &DocumentSummary, from: u64, to: u64) -> Result<Provenance, StoreError> {
        let text = self.head_text(head).await?;
        let written = self.views.get::<Authors>(head.document_id).await?.unwrap_or_default();
        let citations = self.citations(head.document_id).await?;
        let sources = Sources::of(text.clone(), citations).await?;
        let range = (byte(&text, from) as u64, byte(&text, to) as u64);
        let mut found = written.authorship.within(range.0, range.1);
        let truncated = found.len() > PIECES_MAX;
        found.truncate(PIECES_MAX);
        let mut traces = BTreeMap::new();
        let mut pieces = Vec::with_capacity(found.len());
        for (begin, piece) in found {
            pieces.push(self.origin(&text, begin, &piece, &sources, &mut traces).await?);
        }
        Ok(Provenance { document_id: head.document_id, version: head.version, pieces, truncated })
    }

    async fn origin(
        &self,
        text: &str,
        begin: u64,
        piece: &Piece,
        sources: &Sources,
        traces: &mut BTreeMap<RunId, Trace>,
    ) -> Result<Origin, StoreError> {
        let (start, end) = (begin as usize, (begin + piece.length) as usize);
        let (header, effect_id) = self.written_by(piece.seq).await?;
        let run_id = header.as_ref().and_then(|header| header.run);
        let run = match run_id {
            Some(run) => self.views.get::<Runs>(run).await?,
            None => None,
        };
        let (tool_call, model_call) = match (run_id, effect_id) {
            (Some(run), Some(effect_id)) => call(self.trace(run, traces).await?, &effect_id),
            _ => (None, None),
        };
        Ok(Origin {
            from: characters(text, start),
            to: characters(text, end),
            author: piece.author.clone(),
            at: header.map(|header| header.at).unwrap_or_default(),
            seq: piece.seq,
            run_id,
            prompt: run.map(|run| run.prompt),
            tool_call,
            usage: model_call.map(|span| span.usage),
            sources: sources.under(text, start, end),
        })
    }

    /// The event by which words came, and the tool call behind it.
    async fn written_by(&self, seq: Seq) -> Result<(Option<Header>, Option<String>), StoreError> {
        let query = Query { after: Seq(seq.0.saturating_sub(1)), limit: 1, ..Query::default() };
        let Some(envelope) = self.journal.log().read(query).await?.pop() else { return Ok((None, None)) };
        let effect_id = match envelope.event() {
            Ok(Event::DocumentUpdated(DocumentUpdated { sketch: Some(sketch), .. })) => {
                self.sketched_by(&envelope.header, sketch.turn).await?
            }
            Ok(Event::DocumentUpdated(updated)) => updated.effect_id,
            _ => None,
        };
        Ok((Some(envelope.header), effect_id))
    }

    /// The call whose words were written while they were being said.
    async fn sketched_by(&self, header: &Header, turn: u32) -> Result<Option<String>, StoreError> {
        let Some(run) = header.run else { return Ok(None) };
        let past = Past::read_after(self.journal.log(), run, header.seq).await?;
        let call = past.events().find_map(|(later, event)| match event {
            Event::ToolStarted(started) if later.task == header.task && started.turn == turn => {
                Some(started.effect_id.clone())
            }
            _ => None,
        });
        Ok(call)
    }

    async fn trace<'a>(&self, run: RunId, traces: &'a mut BTreeMap<RunId, Trace>) -> Result<&'a Trace, StoreError> {
        use std::collections::btree_map::Entry;
        Ok(match traces.entry(run) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let mut tracing = Tracing::new(run);
                for (header, event) in Past::read(self.journal.log(), run).await?.events() {
                    tracing.apply(header, event);
                }
                place.insert(tracing.finish())
            }
        })
    }
}

/// What stands behind a text.
struct Sources {
    citations: Vec<Citation>,
    /// Shorter quotations, each with its own part of a source and its place in the text, in characters.
    parts: Vec<Citation>,
}

impl Sources {
    /// Looks through the text where that keeps nobody else waiting.
    async fn of(text: String, citations: Vec<Citation>) -> Result<Self, StoreError> {
        let look = move || {
            let is_part = |found: &Citation| !citations.iter().any(|known| known.quote == found.quote);
            let parts = resolved(&text, &citations).citations.into_iter().filter(is_part).collect();
            Self { citations, parts }
        };
        tokio::task::spawn_blocking(look).await.map_err(|_| StoreError::Closed)
    }

    /// The sources under a range of the text, in bytes.
    fn under(&self, text: &str, start: usize, end: usize) -> Vec<Citation> {
        let (from, to) = (characters(text, start), characters(text, end));
        let stands = |citation: &&Citation| stands_within(text, citation, start, end);
        let reaches = |part: &&Citation| part.at.is_some_and(|at| at.from < to && at.to > from);
        let parts = self.parts.iter().filter(reaches);
        let whole = self.citations.iter().filter(stands);
        whole.chain(parts).map(|found| Citation { at: None, ..found.clone() }).collect()
    }
}

/// A tool call, and the model's answer that asked for it.
fn call(trace: &Trace, effect_id: &str) -> (Option<Span>, Option<Span>) {
    let find = |id: &str| trace.spans.iter().find(|span| span.span_id == id).cloned();
    let call = find(effect_id);
    let asked = call.as_ref().and_then(|call| call.parent.as_deref()).and_then(find);
    (call, asked)
}
