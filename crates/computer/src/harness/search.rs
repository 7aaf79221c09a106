//! Looking for things: pages elsewhere, what is kept here, and words in files.

use super::past::Past;
use super::perform::{Performed, Performer, shorten};
use super::{Harness, HarnessError};
use crate::control::ControlError;
use crate::search::Finder;
use choir_core::look;
use choir_core::tool::SearchFiles;
use choir_proto::api::{Found, SearchResult};
use choir_proto::event::ToolOutcome;
use choir_proto::wire::{Exec, OutputStream, Search, SearchHit, SearchHits};
use choir_proto::{Event, TaskId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Results of one look into what is kept here.
const RESULTS_MAX: usize = 20;

/// How long a look around in a sandbox may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of what it prints that are kept.
const LOOK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What `grep` says when nothing was found.
const NOTHING: i32 = 1;

/// What everybody is told who wants the web searched where nobody can; the person is told too, at the agent's end.
pub(super) const NO_ENGINE: &str = "No search engine is configured, so the web was not searched. One is named in choir.toml: \
                                    `[search]` with `engines = [{ kind = \"searxng\", url = \"…\" }]`.";

/// Somewhere to look for sources. What it says is data; why it says nothing is for the agent to read.
trait Engine: Sync {
    fn search<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Result<Vec<SearchHit>, String>, HarnessError>>;
}

/// The engine that the person has set, behind control.
struct Web<'a>(&'a Performer);

impl Engine for Web<'_> {
    fn search<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Result<Vec<SearchHit>, String>, HarnessError>> {
        async move {
            let search = Search { task: self.0.task(), query: query.to_owned() };
            let found = self.0.context.harness.control.search(search).await;
            Ok(match found {
                Ok(SearchHits { unset: true, .. }) => Err(NO_ENGINE.to_owned()),
                Ok(found) => Ok(found.hits),
                Err(error) => Err(error.to_string()),
            })
        }
        .boxed()
    }
}

/// The sources that are kept on this computer: pages that were read, and what people brought in.
struct Local<'a>(&'a Finder);

impl Engine for Local<'_> {
    fn search<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Result<Vec<SearchHit>, String>, HarnessError>> {
        async move {
            let found = self.0.find(query, RESULTS_MAX).await?;
            Ok(Ok(found.into_iter().filter_map(source).collect()))
        }
        .boxed()
    }
}

impl Performer {
    /// Asks every engine that there is. Without one for the web the agent is told, and works from what it was given.
    pub(super) async fn web_search(&self, query: &str) -> Result<Performed, HarnessError> {
        let engines: [(&str, &dyn Engine); 2] =
            [("Found", &Web(self)), ("Kept here, to be cited by its id", &Local(&self.context.harness.finder))];
        let (mut told, mut outcome) = (String::new(), ToolOutcome::Error);
        let mut silent = false;
        for (heading, engine) in engines {
            match engine.search(query).await? {
                Ok(hits) if hits.is_empty() => {}
                Ok(hits) => {
                    outcome = ToolOutcome::Ok;
                    list(&mut told, heading, &hits);
                }
                // What is missing is said once; to say it at every look helps nobody.
                Err(why) if self.was_told(&why).await? => silent = true,
                // Writing to a string cannot fail.
                Err(why) => {
                    writeln!(told, "{why} Work from the addresses and files that you were given.").ok();
                }
            }
        }
        if told.is_empty() {
            let told_before = match silent {
                true => "Nothing was found in what is kept here. The web was not searched.",
                false => "Nothing was found.",
            };
            (told, outcome) = (told_before.to_owned(), ToolOutcome::Ok);
        }
        Ok(Performed::new(outcome, shorten(&told)))
    }

    /// Whether an agent of this run was told so by an earlier look.
    async fn was_told(&self, why: &str) -> Result<bool, HarnessError> {
        let past = Past::read(self.context.harness.journal.log(), self.context.run).await?;
        let says = |event: &Event| matches!(event, Event::ToolFinished(tool) if tool.content.contains(why));
        Ok(past.events().any(|(_, event)| says(event)))
    }

    /// Looks through everything that this computer keeps.
    pub(super) async fn search(&self, query: &str) -> Result<Performed, HarnessError> {
        let found = self.context.harness.finder.find(query, RESULTS_MAX).await?;
        let mut told = String::from("Found, as data:\n");
        for result in &found {
            // Writing to a string cannot fail.
            writeln!(told, "- {} {}: {}", name(&result.found), result.title, result.snippet).ok();
        }
        let told = if found.is_empty() { "Nothing was found.".to_owned() } else { shorten(&told) };
        Ok(Performed::new(ToolOutcome::Ok, told))
    }

    /// Looks for lines in the files of the agent's own copy of the workspace, in its sandbox.
    pub(super) async fn search_files(&self, search: &SearchFiles, effect_id: &str) -> Result<Performed, HarnessError> {
        Ok(match self.output_of(look::search(&search.pattern, &search.path), effect_id).await {
            Ok((Some(0), lines)) => Performed::new(ToolOutcome::Ok, lines),
            Ok((Some(NOTHING), _)) => Performed::new(ToolOutcome::Ok, "Nothing was found.".to_owned()),
            Ok((Some(_), said)) => Performed::new(ToolOutcome::Error, said),
            Ok((None, _)) => Performed::new(ToolOutcome::Error, "It took too long.".to_owned()),
            Err(error) => Performed::new(ToolOutcome::Error, error.to_string()),
        })
    }

    async fn output_of(&self, command: String, effect_id: &str) -> Result<(Option<i32>, String), ControlError> {
        let wall = LOOK_TIMEOUT.min(self.purse.time_left());
        let look = Look { task: self.task(), effect_id, command, wall };
        self.context.harness.look(look).await
    }
}

/// A command of ours that only looks.
pub(super) struct Look<'a> {
    /// In whose sandbox.
    pub(super) task: TaskId,
    /// For what.
    pub(super) effect_id: &'a str,
    pub(super) command: String,
    pub(super) wall: Duration,
}

impl Harness {
    /// What a command of ours prints in a sandbox, with its exit code; none when it took too long. It only looks, so it may be
    /// done again, and each time is a command of its own to the shim.
    pub(super) async fn look(&self, look: Look<'_>) -> Result<(Option<i32>, String), ControlError> {
        let again = self.journal.world().uuid().simple();
        let exec = Exec {
            effect_id: format!("{}-{again}", look.effect_id),
            command: look.command,
            timeout_ms: look.wall.as_millis() as u64,
            call: None,
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let on_output = Box::new(move |_: OutputStream, bytes: &[u8]| {
            let mut said = heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let space = LOOK_BYTES_MAX.saturating_sub(said.len());
            said.extend_from_slice(&bytes[..bytes.len().min(space)]);
        });
        let exit = self.control.exec(look.task, exec, on_output).await?;
        let said = std::mem::take(&mut *said.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let code = exit.code.filter(|_| !exit.timed_out);
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }
}

fn list(told: &mut String, heading: &str, hits: &[SearchHit]) {
    // Writing to a string cannot fail.
    writeln!(told, "{heading}, as data:").ok();
    for hit in hits {
        writeln!(told, "- {} <{}>\n  {}", hit.title, hit.url, hit.snippet).ok();
    }
}

/// What is kept as a source; nothing for the rest of what a computer knows.
fn source(result: SearchResult) -> Option<SearchHit> {
    match &result.found {
        Found::Artifact { .. } => {
            Some(SearchHit { title: result.title, url: name(&result.found), snippet: result.snippet })
        }
        Found::Document { .. } | Found::Run { .. } | Found::File { .. } | Found::Event { .. } => None,
    }
}

fn name(found: &Found) -> String {
    match found {
        Found::Document { document_id } => format!("document {document_id}"),
        Found::Run { run_id } => format!("run {run_id}"),
        Found::Artifact { artifact_id } => format!("source {artifact_id}"),
        Found::File { path } => format!("file {path}"),
        Found::Event { event_id, .. } => format!("event {event_id}"),
    }
}
