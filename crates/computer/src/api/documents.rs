//! Living documents.

use super::App;
use super::reject::{Rejection, TypedJson, id};
use super::runs::Page;
use crate::document::{Base, CONTENT_BYTES_MAX, Edit, Manner};
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, Query, State};
use choir_core::fold::document::Documents as DocumentsFold;
use choir_proto::DocumentId;
use choir_proto::document::{Decide, Document, DocumentSummary, EditDocument, NewDocument, VersionSummary};
use choir_proto::event::Actor;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

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
    let mut document = whole(head.document_id, head.title, head.version, content);
    document.proposals = app.harness.documents.proposals(head.document_id).await?;
    Ok(Json(document))
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
    Ok(Json(answer))
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
    decided.ok_or_else(|| Rejection::missing("proposal"))?;
    get(State(app), Path(document)).await
}

/// Every named version of a document.
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
    let content = app.harness.documents.text(head.document_id, number).await?;
    let content = content.ok_or_else(|| Rejection::missing("version"))?;
    Ok(Json(whole(head.document_id, head.title, number, content)))
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
