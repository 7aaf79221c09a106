//! Living documents.

use super::App;
use super::reject::{OptionalJson, Rejection, TypedJson, id, limit};
use super::runs::{Nothing, Page};
use crate::actor::SessionMessage;
use crate::document::{Base, CONTENT_BYTES_MAX, Decided, Edit, Manner, VERSIONS_LISTED_MAX};
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, Query, State};
use choir_core::evidence::{Resolved, characters, resolved};
use choir_core::fold::document::Documents as DocumentsFold;
use choir_core::fold::run::Runs;
use choir_proto::DocumentId;
use choir_proto::api::TaskAccepted;
use choir_proto::document::{
    Citation, Decide, Document, DocumentSummary, EditDocument, FigureStatus, NewDocument, Place, Provenance, Thread,
    VersionSummary,
};
use choir_proto::event::Actor;
use choir_proto::run::Run;
use choir_store::StoreError;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The longest title of a document: lists show a hundred of them.
const TITLE_BYTES_MAX: usize = 1024;

/// Runs that are looked at for what they say about parts of a document.
const THREADS_RUNS_MAX: usize = 500;

/// Newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DocumentList {
    documents: Vec<DocumentSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VersionList {
    versions: Vec<VersionSummary>,
    /// Where those begin that are older still.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

/// Which part of a document's versions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionPage {
    /// Those before this one.
    before: Option<u32>,
    /// At most so many.
    limit: Option<usize>,
}

/// Lists documents, newest first.
#[utoipa::path(get, path = "/api/documents", params(Page), responses((status = 200, body = DocumentList)))]
pub(super) async fn list(State(app): State<App>, Query(page): Query<Page>) -> Result<Json<DocumentList>, Rejection> {
    let (documents, next) = page.fill::<DocumentsFold, DocumentId>(&app, |document| document.removed_at).await?;
    Ok(Json(DocumentList { documents, next }))
}

/// Begins a document.
#[utoipa::path(post, path = "/api/documents", request_body = NewDocument, responses((status = 201, body = Document)))]
pub(super) async fn create(
    State(app): State<App>,
    TypedJson(new): TypedJson<NewDocument>,
) -> Result<(StatusCode, Json<Document>), Rejection> {
    check_title(&new.title)?;
    check(&new.content)?;
    let document_id = DocumentId::new(app.harness.journal.world().uuid());
    let facts = app.harness.documents.create(document_id, &new.title, &new.content, "begun by a person").await?;
    app.harness.journal.append(&Scope::of(Actor::Person), facts).await?;
    let document = whole(document_id, new.title, 1, new.content);
    Ok((StatusCode::CREATED, Json(annotated(&app, document).await?)))
}

/// One document with its text.
#[utoipa::path(get, path = "/api/documents/{id}", params(("id" = String, Path)), responses((status = 200, body = Document)))]
pub(super) async fn get(State(app): State<App>, Path(document): Path<String>) -> Result<Json<Document>, Rejection> {
    let head = find(&app, &document).await?;
    let content = app.harness.documents.head_text(&head).await?;
    let document = whole(head.document_id, head.title, head.version, content);
    Ok(Json(annotated(&app, document).await?))
}

/// A document with everything that is known about its text.
pub(super) async fn annotated(app: &App, mut document: Document) -> Result<Document, Rejection> {
    let (documents, id) = (&app.harness.documents, document.document_id);
    document.proposals = documents.proposals(id, &document.content).await?;
    document.figures = documents.figures(id, &document.content).await?;
    let citations = documents.citations(id).await?;
    let runs = app.harness.views.newest::<Runs>(None, THREADS_RUNS_MAX).await?;
    apart(move || {
        document.threads = threads(runs.into_iter().map(|(_, run)| run), &document);
        with_evidence(document, citations)
    })
    .await
}

/// Does what takes long for a long text where it keeps nobody else waiting.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Rejection> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?)
}

fn with_evidence(document: Document, citations: Vec<Citation>) -> Document {
    let Resolved { citations, unsupported } = resolved(&document.content, &citations);
    Document { citations, unsupported, ..document }
}

/// Changes a document: merged with what happened since `base_version`, never overwriting it.
#[utoipa::path(put, path = "/api/documents/{id}", params(("id" = String, Path)), request_body = EditDocument,
    responses((status = 200, body = Document)))]
pub(super) async fn put(
    State(app): State<App>,
    Path(document): Path<String>,
    TypedJson(edit): TypedJson<EditDocument>,
) -> Result<Json<Document>, Rejection> {
    check(&edit.content)?;
    let head = find(&app, &document).await?;
    let documents = &app.harness.documents;
    if documents.text(head.document_id, edit.base_version).await?.is_none() {
        let message = format!("The document has no version {}.", edit.base_version);
        return Err(Rejection::bad("no_such_version", message, "Read the document again."));
    }
    let wanted = Edit {
        base: Base::Version(edit.base_version),
        title: None,
        content: &edit.content,
        reason: "edited by a person",
        effect_id: None,
        manner: Manner::Free,
    };
    let change = documents.change(head.document_id, wanted).await?;
    let change = change.ok_or_else(|| Rejection::missing("document"))?;
    let answer = whole(head.document_id, change.title.clone(), change.version, change.content.clone());
    // Saving what is there already makes no version: a retry after a lost answer changes nothing.
    documents.save(&Scope::of(Actor::Person), change).await?;
    Ok(Json(annotated(&app, answer).await?))
}

/// Says yes or no to a proposal.
#[utoipa::path(post, path = "/api/documents/{id}/proposals/{p}", params(("id" = String, Path), ("p" = String, Path)),
    request_body = Decide, responses((status = 200, body = Document)))]
pub(super) async fn decide(
    State(app): State<App>,
    Path((document, proposal)): Path<(String, String)>,
    TypedJson(decide): TypedJson<Decide>,
) -> Result<Json<Document>, Rejection> {
    let head = find(&app, &document).await?;
    let decided = app.harness.documents.decide(head.document_id, &proposal, decide.decision).await?;
    match decided {
        Decided::Now => {}
        // A retry after a lost answer says the same again.
        Decided::Before(before) if before == decide.decision => {}
        Decided::Before(_) => {
            let hint = "A no is taken back by opening it again, a yes by the versions.";
            return Err(Rejection::conflict_as("already_decided", "This was decided otherwise before.", hint));
        }
        Decided::Outdated => {
            let message = "The place has changed since this was proposed, and the text stays as it is.";
            return Err(Rejection::conflict_as("outdated", message, "Reject it, or ask again."));
        }
        Decided::Missing => return Err(Rejection::missing("proposal")),
    }
    get(State(app), Path(document)).await
}

/// Takes the no to a proposal back: it waits again.
#[utoipa::path(post, path = "/api/documents/{id}/proposals/{p}/reopen", params(("id" = String, Path), ("p" = String, Path)),
    responses((status = 200, body = Document)))]
pub(super) async fn reopen(
    State(app): State<App>,
    Path((document, proposal)): Path<(String, String)>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Document>, Rejection> {
    let head = find(&app, &document).await?;
    let reopened = app.harness.documents.reopen(head.document_id, &proposal).await?;
    reopened.ok_or_else(|| Rejection::missing("rejected proposal"))?;
    get(State(app), Path(document)).await
}

/// Runs a figure's command again. What it prints replaces the figure; the workspace stays as it is.
#[utoipa::path(post, path = "/api/documents/{id}/figures/{figure}/rerun",
    params(("id" = String, Path), ("figure" = String, Path)), responses((status = 202, body = TaskAccepted)))]
pub(super) async fn rerun(
    State(app): State<App>,
    Path((document, figure)): Path<(String, String)>,
    _: OptionalJson<Nothing>,
) -> Result<(StatusCode, Json<TaskAccepted>), Rejection> {
    let head = find(&app, &document).await?;
    let content = app.harness.documents.head_text(&head).await?;
    let figures = app.harness.documents.figures(head.document_id, &content).await?;
    let figure = figures.into_iter().find(|known| known.figure_id == figure);
    let figure = figure.ok_or_else(|| Rejection::missing("figure"))?;
    if let (FigureStatus::Running, Some(task_id)) = (figure.status, figure.task_id) {
        // Asked twice, it still runs once.
        return Ok((StatusCode::ACCEPTED, Json(TaskAccepted { task_id, seq: head.seq })));
    }
    let seat = app.session.seat().await?;
    let (task_id, seq) = app.harness.documents.rerun(head.document_id, figure).await?;
    app.session.tell(seat, SessionMessage::StartTask(task_id));
    Ok((StatusCode::ACCEPTED, Json(TaskAccepted { task_id, seq })))
}

/// A range of a text.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    /// First character; nothing means the beginning.
    #[serde(default)]
    from: u64,
    /// After the last; nothing means the end.
    to: Option<u64>,
}

/// Where a range of a document comes from: author, prompt, tool call, sources, cost.
#[utoipa::path(get, path = "/api/documents/{id}/provenance", params(("id" = String, Path), Range),
    responses((status = 200, body = Provenance)))]
pub(super) async fn provenance(
    State(app): State<App>,
    Path(document): Path<String>,
    Query(range): Query<Range>,
) -> Result<Json<Provenance>, Rejection> {
    let head = find(&app, &document).await?;
    let to = range.to.unwrap_or(u64::MAX);
    if range.from > to {
        return Err(Rejection::bad(
            "bad_range",
            "The range ends before it begins.",
            "Give `from` and `to` in characters.",
        ));
    }
    Ok(Json(app.harness.documents.provenance(&head, range.from, to).await?))
}

/// The newest named versions of a document, at most 1,000.
#[utoipa::path(get, path = "/api/documents/{id}/versions", params(("id" = String, Path), VersionPage),
    responses((status = 200, body = VersionList)))]
pub(super) async fn versions(
    State(app): State<App>,
    Path(document): Path<String>,
    Query(page): Query<VersionPage>,
) -> Result<Json<VersionList>, Rejection> {
    let limit = limit(page.limit, VERSIONS_LISTED_MAX, VERSIONS_LISTED_MAX)?;
    let head = find(&app, &document).await?;
    let versions = app.harness.documents.versions_before(head.document_id, page.before, limit).await?;
    let next = versions.first().filter(|_| versions.len() == limit).map(|oldest| oldest.version);
    Ok(Json(VersionList { versions, next }))
}

/// One version of a document with its text.
#[utoipa::path(get, path = "/api/documents/{id}/versions/{n}", params(("id" = String, Path), ("n" = u32, Path)),
    responses((status = 200, body = Document)))]
pub(super) async fn version(
    State(app): State<App>,
    Path((document, number)): Path<(String, String)>,
) -> Result<Json<Document>, Rejection> {
    let head = find(&app, &document).await?;
    let number: u32 = id(&number, "version")?;
    let content = app.harness.documents.text(head.document_id, number).await?;
    let content = content.ok_or_else(|| Rejection::missing("version"))?;
    Ok(Json(whole(head.document_id, head.title, number, content)))
}

pub(super) async fn find(app: &App, document: &str) -> Result<DocumentSummary, Rejection> {
    let document: DocumentId = id(document, "document")?;
    app.harness.documents.find(document).await?.ok_or_else(|| Rejection::missing("document"))
}

fn check_title(title: &str) -> Result<(), Rejection> {
    if title.len() <= TITLE_BYTES_MAX && !title.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("A title is one line of at most {TITLE_BYTES_MAX} bytes.");
    Err(Rejection::bad("bad_field", message, "Put the rest into the text."))
}

fn check(content: &str) -> Result<(), Rejection> {
    if content.len() > CONTENT_BYTES_MAX {
        let message = format!("A document holds at most {CONTENT_BYTES_MAX} bytes.");
        return Err(Rejection::bad("document_too_large", message, "Keep large texts as files."));
    }
    Ok(())
}

/// A document of which nothing but its text is told.
pub(super) fn whole(document_id: DocumentId, title: String, version: u32, content: String) -> Document {
    Document {
        document_id,
        title,
        version,
        content,
        citations: Vec::new(),
        unsupported: Vec::new(),
        proposals: Vec::new(),
        figures: Vec::new(),
        threads: Vec::new(),
    }
}

/// What was asked about parts of a document, newest first, with where these parts stand now.
fn threads(runs: impl Iterator<Item = Run>, document: &Document) -> Vec<Thread> {
    let text = &document.content;
    let thread = |run: Run| {
        let selection = run.selection.filter(|_| run.document_id == Some(document.document_id))?;
        let quote = selection.quote.unwrap_or_default();
        let at = text
            .find(&quote)
            .map(|from| Place { from: characters(text, from), to: characters(text, from + quote.len()) });
        let Run { run_id, prompt, status, answer, reason, .. } = run;
        Some(Thread { run_id, action: selection.action, prompt, quote, status, answer, reason, at })
    };
    runs.filter_map(thread).collect()
}
