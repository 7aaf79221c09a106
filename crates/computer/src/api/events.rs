//! The log, page by page.

use super::App;
use super::reject::{OptionalJson, Rejection, asked_id, id, limit};
use super::runs::Nothing;
use crate::actor::{ActorError, Reply, RunCommand, SessionMessage};
use crate::maintain::{self, ChoreError};
use axum::Json;
use axum::extract::{Path, Query, State};
use choir_core::fold::document::document_of;
use choir_proto::api::{Acknowledged, Events};
use choir_proto::{Envelope, Event, EventId, Seq, TaskId};
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

/// Events in one answer when nobody says.
const LIMIT: usize = 100;

/// Events in one answer at most.
const LIMIT_MAX: usize = 1000;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// Only later ones.
    #[serde(default)]
    after: u64,
    /// At most so many.
    limit: Option<usize>,
    /// Only of this run.
    run: Option<String>,
    /// Only of this kind.
    kind: Option<String>,
}

/// Reads the log. A position that it has not reached is refused: whoever knows it knows another log.
#[utoipa::path(get, path = "/api/events", params(Filter), responses((status = 200, body = Events)))]
pub(super) async fn list(State(app): State<App>, Query(filter): Query<Filter>) -> Result<Json<Events>, Rejection> {
    let log = app.harness.journal.log();
    let limit = limit(filter.limit, LIMIT, LIMIT_MAX)?;
    let run = filter.run.map(|run| asked_id(&run, "run")).transpose()?;
    let after = Seq(filter.after);
    // The head is read first: an event that arrives in between belongs to the next page, never to none.
    let head = log.head().seq;
    if after > head {
        let message = format!("The log ends at {head}, before {after}.");
        return Err(Rejection::bad("beyond_head", message, "Begin with after=0, or at a position that was told."));
    }
    let query = choir_store::Query { after, upto: Some(head), limit, run, kind: filter.kind };
    let events = log.read(query).await?;
    // A page may be cut short by its size as well as by its number: only an empty one says that there is no more.
    let next = events.last().map_or(head, |last| last.header.seq);
    Ok(Json(Events { events, next, head }))
}

/// Replaces the payload of an event by a tombstone, for good. The chain still verifies.
#[utoipa::path(post, path = "/api/events/{id}/erase", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn erase(
    State(app): State<App>,
    Path(event): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let event: EventId = id(&event, "event")?;
    end_run_of(&app, event).await?;
    let found = app.harness.journal.log().find(event).await?;
    let found = found.and_then(|found| found.event().ok());
    let erasing = erase_with_copy(&app, event, found.as_ref());
    let erased = match found.as_ref().and_then(document_of) {
        // Whoever wrote in between would write down once more what stands around their words.
        Some(document) => app.harness.documents.while_still(document, erasing).await,
        None => erasing.await,
    };
    match erased {
        Ok(seq) => {
            app.harness.documents.forget().await;
            Ok(Json(Acknowledged { seq }))
        }
        Err(ChoreError::NoEvent(_)) => Err(Rejection::missing("event")),
        Err(ChoreError::Read(error)) => Err(error.into()),
        Err(ChoreError::Append(error)) => Err(error.into()),
        Err(error @ ChoreError::Tombstone(_)) => {
            Err(Rejection::conflict(error.to_string(), "There is nothing in it to erase."))
        }
        Err(error @ (ChoreError::Open(_) | ChoreError::Unkept)) => {
            Err(Rejection::conflict(error.to_string(), "Try again in a moment."))
        }
    }
}

/// A text that was written down once more when something before it went, for those who look at the document, goes with the
/// version that it is the text of: whoever erases a document event by event has never seen that copy. It goes first, so that
/// an erasure that fails half-way finds it again.
async fn erase_with_copy(app: &App, event: EventId, found: Option<&Event>) -> Result<Seq, ChoreError> {
    if let Some(Event::DocumentVersioned(version)) = found
        && let Some(copy) = app.harness.documents.written_once_more(version).await?
    {
        maintain::erase(&app.harness.journal, copy).await?;
    }
    maintain::erase(&app.harness.journal, event).await
}

/// How long a run or a task may take to end before what it was told is erased under it.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Stops the run, or the task of its own, that an event belongs to, and waits for its end: its agents have the words in mind, and
/// would go on telling them to models.
async fn end_run_of(app: &App, event: EventId) -> Result<(), Rejection> {
    let log = app.harness.journal.log();
    let Some(run) = log.find(event).await?.and_then(|found| found.header.run) else { return Ok(()) };
    let mut events = log.subscribe(log.head().seq);
    // The events of a task of its own stand under a run of the same name.
    let task = TaskId::from(*run.as_bytes());
    let is_run = stop(app, |reply| SessionMessage::Run(run, RunCommand::Cancel, reply)).await?;
    if !is_run && !stop(app, |reply| SessionMessage::CancelTask(task, reply)).await? {
        return Ok(());
    }
    let is_end = |event: &Envelope| match event.event() {
        Ok(Event::RunEnded(_)) => event.header.run == Some(run),
        Ok(Event::TaskFinished(_)) => !is_run && event.header.task == Some(task),
        _ => false,
    };
    let ended = async {
        while let Ok(batch) = events.next().await {
            if batch.iter().any(|event| is_end(event)) {
                break;
            }
        }
    };
    let busy = "What it belongs to was told to stop and is still at it.";
    let late = |_| Rejection::unavailable("busy", busy.to_owned(), "Try again in a moment.");
    tokio::time::timeout(END_WITHIN, ended).await.map_err(late)
}

/// Tells a worker to stop; whether there was one.
async fn stop(app: &App, message: impl FnOnce(Reply) -> SessionMessage) -> Result<bool, Rejection> {
    match app.session.ask("the session", message).await {
        Err(ActorError::NotAtWork) => Ok(false),
        told => Ok(told.map(|_| true)?),
    }
}
