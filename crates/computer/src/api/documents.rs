//! Living documents.

use super::App;
use super::reject::{Rejection, TypedJson, id};
use super::runs::Page;
use crate::harness::Base;
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, Query, State};
use choir_core::fold::document::Documents as DocumentsFold;
use choir_proto::DocumentId;
use choir_proto::document::{Document, DocumentSummary, EditDocument, NewDocument, VersionSummary};
use choir_proto::event::Actor;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// The longest text of a document.
const CONTENT_BYTES_MAX: usize = 20 * 1024 * 1024;

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
}

/// Lists documents, newest first.
#[utoipa::path(get, path = "/api/documents", params(Page), responses((status = 200, body = DocumentList)))]
pub(super) async fn list(State(app): State<App>, Query(page): Query<Page>) -> Result<Json<DocumentList>, Rejection> {
    let limit = page.limit();
    let rows = app.harness.views.newest::<DocumentsFold>(page.before, limit).await?;
    let next = (rows.len() == limit).then(|| rows.last().map(|(key, _)| key.clone())).flatten();
    Ok(Json(DocumentList { documents: rows.into_iter().map(|(_, document)| document).collect(), next }))
}

/// Begins a document.
#[utoipa::path(post, path = "/api/documents", request_body = NewDocument, responses((status = 201, body = Document)))]
pub(super) async fn create(
    State(app): State<App>,
    TypedJson(new): TypedJson<NewDocument>,
) -> Result<(StatusCode, Json<Document>), Rejection> {
    check(&new.content)?;
    let document_id = DocumentId::new(app.harness.journal.world().uuid());
    let facts = app.harness.documents.create(document_id, &new.title, &new.content, "begun by a person").await?;
    app.harness.journal.append(&Scope::of(Actor::Person), facts).await?;
    Ok((StatusCode::CREATED, Json(whole(document_id, new.title, 1, new.content))))
}

/// One document with its text.
#[utoipa::path(get, path = "/api/documents/{id}", params(("id" = String, Path)), responses((status = 200, body = Document)))]
pub(super) async fn get(State(app): State<App>, Path(document): Path<String>) -> Result<Json<Document>, Rejection> {
    let head = find(&app, &document).await?;
    let content = app.harness.documents.head_text(&head).await?;
    Ok(Json(whole(head.document_id, head.title, head.version, content)))
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
    if documents.version(head.document_id, edit.base_version).await?.is_none() {
        let message = format!("The document has no version {}.", edit.base_version);
        return Err(Rejection::bad("no_such_version", message, "Read the document again."));
    }
    let base = Base::Version(edit.base_version);
    let change = documents.change(head.document_id, base, None, &edit.content, "edited by a person").await?;
    let change = change.ok_or_else(|| Rejection::missing("document"))?;
    // Saving what is there already makes no version: a retry after a lost answer changes nothing.
    let current = find(&app, &document).await?;
    if documents.head_text(&current).await? == change.content {
        return Ok(Json(whole(current.document_id, current.title, current.version, change.content)));
    }
    let (version, content) = documents.save(&app.harness.journal, &Scope::of(Actor::Person), change).await?;
    let title = find(&app, &document).await?.title;
    Ok(Json(whole(current.document_id, title, version, content)))
}

/// Every version of a document.
#[utoipa::path(get, path = "/api/documents/{id}/versions", params(("id" = String, Path)), responses((status = 200, body = VersionList)))]
pub(super) async fn versions(
    State(app): State<App>,
    Path(document): Path<String>,
) -> Result<Json<VersionList>, Rejection> {
    let head = find(&app, &document).await?;
    Ok(Json(VersionList { versions: app.harness.documents.versions(head.document_id).await? }))
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
    let found = app.harness.documents.version(head.document_id, number).await?;
    let found = found.ok_or_else(|| Rejection::missing("version"))?;
    let content = app.harness.documents.text(head.document_id, found.version, found.content_hash).await?;
    Ok(Json(whole(head.document_id, head.title, found.version, content)))
}

async fn find(app: &App, document: &str) -> Result<DocumentSummary, Rejection> {
    let document: DocumentId = id(document, "document")?;
    app.harness.documents.find(document).await?.ok_or_else(|| Rejection::missing("document"))
}

fn check(content: &str) -> Result<(), Rejection> {
    if content.len() > CONTENT_BYTES_MAX {
        let message = format!("A document holds at most {CONTENT_BYTES_MAX} bytes.");
        return Err(Rejection::bad("document_too_large", message, "Keep large texts as files."));
    }
    Ok(())
}

fn whole(document_id: DocumentId, title: String, version: u32, content: String) -> Document {
    Document { document_id, title, version, content, citations: Vec::new(), proposals: Vec::new() }
}
