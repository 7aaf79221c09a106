//! Evidence: words are cited only if a stored source holds them, letter by letter.

use super::HarnessError;
use super::past::Past;
use super::perform::{Performed, Performer};
use choir_core::agent::Begin;
use choir_core::evidence::{is_written, plain, testimony, written};
use choir_core::fold::evidence::Artifacts;
use choir_core::tool::Cite;
use choir_proto::document::Artifact;
use choir_proto::event::{CitationMade, ToolFinished, ToolOutcome};
use choir_proto::wire::ReadTree;
use choir_proto::{ArtifactId, Event, Hash, TaskId};
use choir_store::StoreError;
use std::collections::HashMap;

/// The longest quotation. More than that is the source itself.
const QUOTE_BYTES_MAX: usize = 4 * 1024;

/// The name by which an agent means what the commands of its run printed.
const OUTPUT: &str = "output";

/// The tool that reads files.
const READ_FILE: &str = "read_file";

/// The tool that fetches pages.
const FETCH_URL: &str = "fetch_url";

/// Artifacts that are looked through at once.
const ARTIFACTS_AT_ONCE: usize = 500;

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
        let past = Past::read(self.context.harness.journal.log(), self.context.run).await?;
        if cite.source == OUTPUT {
            return Ok(self.in_calls(&past, &cite.quote, |_| true).await?.ok_or_else(absent));
        }
        let called = |call: &Call<'_>| call.is_of(&cite.source);
        if testimonies(&past).any(|(call, _)| call.file.is_some() && called(&call)) {
            return Ok(self.in_calls(&past, &cite.quote, called).await?.ok_or_else(absent));
        }
        let (source, artifact) = match (cite.source.parse::<ArtifactId>(), cite.source.parse::<Hash>()) {
            (Ok(id), _) => match self.context.harness.views.get::<Artifacts>(id).await? {
                Some(artifact) => (artifact.text.unwrap_or(artifact.content_hash), Some(id)),
                None => return Ok(Err(unknown(&cite.source))),
            },
            (_, Ok(hash)) if self.is_evidence(&past, hash).await? => (hash, None),
            (_, Ok(_)) => return Ok(Err(unknown(&cite.source))),
            // Models call a source what they were told that it is: the address of a page, the name of a file.
            (Err(_), Err(_)) => match self.brought_in(|artifact| artifact.origin == cite.source).await? {
                Some((id, artifact)) => (artifact.text.unwrap_or(artifact.content_hash), Some(id)),
                None if testimonies(&past).any(|(call, _)| called(&call)) => {
                    return Ok(self.in_calls(&past, &cite.quote, called).await?.ok_or_else(absent));
                }
                None => return Ok(Err(unknown(&cite.source))),
            },
        };
        let bytes = match self.context.harness.documents.blob(source).await {
            Ok(bytes) => bytes,
            Err(StoreError::Missing(_) | StoreError::Damaged(_)) => return Ok(Err(unknown(&cite.source))),
            Err(error) => return Err(error.into()),
        };
        Ok(position(&bytes, &cite.quote).map(|from| Found { source, artifact, from }).ok_or_else(absent))
    }

    /// Looks through what commands printed, and files and pages said, in this run. What holds the words is kept as a source of
    /// its own.
    async fn in_calls(
        &self,
        past: &Past,
        quote: &str,
        wanted: impl Fn(&Call<'_>) -> bool,
    ) -> Result<Option<Found>, HarnessError> {
        for (read, shown) in testimonies(past).filter(|(call, _)| wanted(call)) {
            let (finished, said) = (read.finished, self.said(&read, shown).await?);
            if let Some(from) = position(&said, quote)
                && self.is_from_outside(past, &read, &said).await
            {
                let source = match finished.output {
                    Some(source) => source,
                    None => self.context.harness.documents.keep(said).await?,
                };
                return Ok(Some(Found { source, artifact: None, from }));
            }
        }
        Ok(None)
    }

    async fn said(&self, read: &Call<'_>, shown: &str) -> Result<Vec<u8>, HarnessError> {
        Ok(match read.finished.output {
            Some(source) => self.context.harness.documents.blob(source).await?,
            None => shown.as_bytes().to_vec(),
        })
    }

    /// Whether what a call brought is no word of this run's own agents. A file that one of them wrote is: it may be quoted where
    /// it came from, or as what a command printed.
    async fn is_from_outside(&self, past: &Past, read: &Call<'_>, said: &[u8]) -> bool {
        let Some(path) = read.file else { return true };
        if is_written(&written(past.events().map(|(header, event)| (header, event))), path) {
            return false;
        }
        // Who has commands may have made it by one, and is perhaps still at work: then it is not as it was before.
        let Some(base) = past.base_tree(read.task) else { return true };
        let wanted = ReadTree { names: Vec::new(), paths: vec![plain(path)] };
        let before = self.context.harness.control.read_tree(base, wanted).await;
        before.is_ok_and(|before| before.files.iter().any(|file| file.hash == choir_store::sha256(said)))
    }

    /// Whether a content is one that somebody brought in, or that came of a call of this run: everything else that is kept here
    /// may be the words of an agent.
    async fn is_evidence(&self, past: &Past, source: Hash) -> Result<bool, HarnessError> {
        for (read, shown) in testimonies(past).filter(|(read, _)| read.finished.output == Some(source)) {
            let said = self.said(&read, shown).await?;
            if self.is_from_outside(past, &read, &said).await {
                return Ok(true);
            }
        }
        let holds = |artifact: &Artifact| artifact.content_hash == source || artifact.text == Some(source);
        Ok(self.brought_in(holds).await?.is_some())
    }

    /// The newest that somebody brought in and that is wanted.
    async fn brought_in(
        &self,
        wanted: impl Fn(&Artifact) -> bool,
    ) -> Result<Option<(ArtifactId, Artifact)>, HarnessError> {
        let mut before = None;
        loop {
            let page = self.context.harness.views.newest::<Artifacts>(before, ARTIFACTS_AT_ONCE).await?;
            let Some((last, _)) = page.last() else { return Ok(None) };
            before = Some(last.clone());
            if let Some((_, artifact)) = page.into_iter().find(|(_, artifact)| wanted(artifact)) {
                return Ok(Some((artifact.artifact_id, artifact)));
            }
        }
    }
}

/// A call that brought something.
struct Call<'a> {
    task: Option<TaskId>,
    finished: &'a ToolFinished,
    /// The file that it read, if that is what it did.
    file: Option<&'a str>,
    /// The page that it fetched, if that is what it did.
    page: Option<&'a str>,
}

impl Call<'_> {
    /// Whether what it brought is what somebody calls by a name.
    fn is_of(&self, name: &str) -> bool {
        self.page == Some(name) || self.file.is_some_and(|file| plain(file) == plain(name))
    }
}

/// What the calls of a run brought that no model said, in order.
fn testimonies(past: &Past) -> impl Iterator<Item = (Call<'_>, &str)> {
    let mut tools = HashMap::new();
    past.events().filter_map(move |(header, event)| {
        let finished = match event {
            Event::ToolStarted(started) => {
                tools.insert(&started.effect_id, started);
                return None;
            }
            Event::ToolFinished(finished) => finished,
            _ => return None,
        };
        let started = tools.get(&finished.effect_id)?;
        let shown = testimony(&started.name, finished)?;
        let argument = |name: &str| started.arguments.get(name).and_then(|value| value.as_str()).unwrap_or_default();
        let file = (started.name == READ_FILE).then(|| argument("path"));
        let page = (started.name == FETCH_URL).then(|| argument("url"));
        Some((Call { task: header.task, finished, file, page }, shown))
    })
}

fn unknown(source: &str) -> String {
    format!(
        "There is no source `{source}`. Give the address of a page or the path of a file that was read, an artifact's id or name, a content hash, or `{OUTPUT}`."
    )
}

/// Where a text stands in bytes that need not be text.
fn position(bytes: &[u8], quote: &str) -> Option<usize> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.find(quote),
        Err(_) => bytes.windows(quote.len()).position(|window| window == quote.as_bytes()),
    }
}
