//! A document to take away: as Markdown, or as one HTML file with its sources.

use super::App;
use super::documents::{annotated, apart, find, whole};
use super::reject::Rejection;
use crate::harness::Past;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use choir_core::evidence::file_read;
use choir_core::export::{Doubts, Source, html, markdown};
use choir_core::fold::evidence::Artifacts;
use choir_proto::document::Citation;
use choir_proto::{Event, Hash};
use choir_store::StoreError;
use http::header;
use serde::Deserialize;
use std::collections::HashMap;
use utoipa::{IntoParams, ToSchema};

/// Bytes of one source in a file. What is longer is named by its hash.
const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// How a document is taken away.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// `markdown` or `html`.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// What it becomes.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Format {
    /// The text as it is, with a list of its sources.
    #[default]
    Markdown,
    /// One file, with the sources of its quotations.
    Html,
}

/// A document as a file.
#[utoipa::path(get, path = "/api/documents/{id}/export", params(("id" = String, Path), Wanted),
    responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn export(
    State(app): State<App>,
    Path(document): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Rejection> {
    let head = find(&app, &document).await?;
    let text = app.harness.documents.head_text(&head).await?;
    let mut document = annotated(&app, whole(head.document_id, head.title, head.version, text)).await?;
    let (media_type, extension) = match wanted.format {
        Format::Markdown => ("text/markdown; charset=utf-8", "md"),
        Format::Html => ("text/html; charset=utf-8", "html"),
    };
    let citations = std::mem::take(&mut document.citations);
    let sources = sources(&app, citations).await?;
    // A file to save, never a page on our own origin.
    let disposition = format!("attachment; filename=\"{}.{extension}\"", file_name(&document.title));
    let body = apart(move || {
        let doubts = Doubts::new(&document.content, &document.unsupported, &document.figures);
        match wanted.format {
            Format::Markdown => markdown(&document.content, &sources, &doubts),
            Format::Html => html(&document.title, &document.content, &sources, &doubts),
        }
    })
    .await?;
    let headers = [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, body).into_response())
}

/// Every source once, in the order in which they are first cited.
async fn sources(app: &App, citations: Vec<Citation>) -> Result<Vec<Source>, Rejection> {
    let mut sources: Vec<Source> = Vec::new();
    let mut known: HashMap<Hash, usize> = HashMap::new();
    for citation in citations {
        match known.get(&citation.source) {
            Some(place) => sources[*place].citations.push(citation),
            None => {
                known.insert(citation.source, sources.len());
                sources.push(source(app, citation).await?);
            }
        }
    }
    Ok(sources)
}

async fn source(app: &App, citation: Citation) -> Result<Source, Rejection> {
    let origin = match citation.artifact_id {
        Some(id) => app.harness.views.get::<Artifacts>(id).await?.map(|artifact| artifact.origin),
        None => read_from(app, &citation).await?,
    };
    let text = match app.harness.documents.blob(citation.source).await {
        Ok(bytes) if bytes.len() <= SOURCE_BYTES_MAX => String::from_utf8(bytes).ok(),
        // A source that was erased is still named.
        Ok(_) | Err(StoreError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let origin = origin.unwrap_or_else(|| "what a command printed".to_owned());
    Ok(Source { citations: vec![citation], origin, text })
}

/// The file that an agent read the cited words in, if it was one.
async fn read_from(app: &App, citation: &Citation) -> Result<Option<String>, Rejection> {
    let Some(run) = citation.run_id else { return Ok(None) };
    let past = Past::read(app.harness.journal.log(), run).await?;
    let events = || past.events().map(|(_, event)| event);
    let said = events().find_map(|event| match event {
        Event::ToolFinished(finished) => {
            let said = finished.output.unwrap_or_else(|| choir_store::sha256(finished.content.as_bytes()));
            (said == citation.source).then_some(finished)
        }
        _ => None,
    });
    Ok(said.and_then(|said| file_read(said, events())).map(str::to_owned))
}

/// A title that every file system takes.
fn file_name(title: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '-' };
    let name: String = title.chars().take(60).map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "document".to_owned() } else { name.to_owned() }
}
