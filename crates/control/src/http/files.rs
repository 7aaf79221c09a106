//! `/api/files…`: the workspace through the keeper. Control passes bytes along and opens nothing.

use super::App;
use super::error::Refused;
use super::extract::Asked;
use super::json::{self, Json};
use super::limits::{FILE_BYTES_MAX, JSON_BYTES_MAX};
use super::upload::Upload;
use crate::sandboxes::{Error, files, parse_path};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use choir_proto::api::Acknowledged;
use choir_proto::event::{Actor, Event, FileChanged};
use choir_proto::task::ChangeKind;
use choir_proto::{Hash, Timestamp};
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{Entry, FaultCode, FileKind, Removal};
use choir_sandbox::runtime::{CallError, Guest};
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The longest file whose length need not be announced, in bytes. It is held as a whole, which longer ones never are.
const UNANNOUNCED_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    #[serde(default)]
    path: String,
}

/// Which part of a folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    #[serde(default)]
    path: String,
    after: Option<String>,
}

/// What is put where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    #[serde(default)]
    path: String,
    #[serde(default)]
    kind: PutKind,
    /// Permission bits in octal digits.
    mode: Option<String>,
}

/// What a body is to become.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PutKind {
    /// A file with these bytes.
    #[default]
    File,
    /// A symbolic link that names this.
    Link,
    /// An empty folder; the body says nothing.
    Directory,
}

impl Put {
    fn mode(&self) -> Result<Option<u32>, Refused> {
        let Some(text) = &self.mode else { return Ok(None) };
        let wrong = || Refused::bad_field(format!("`{text}` are no permissions."), "Give octal digits, like 755.");
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= MODE_MAX).map(Some).ok_or_else(wrong)
    }
}

/// Permission bits, without those that make a program somebody else's.
const MODE_MAX: u32 = 0o777;

/// What is in a folder.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Files {
    files: Vec<File>,
    /// The last name, when there are more after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// One entry of a folder.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct File {
    name: String,
    /// `file`, `directory`, `link` or `other`.
    kind: &'static str,
    size: u64,
    mode: u32,
    modified_at: Timestamp,
    /// What a link names.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// From where to where.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    from: String,
    to: String,
}

fn path(at: &At) -> Result<RelativePath, Refused> {
    Ok(parse_path(&at.path)?)
}

/// What is in a folder.
#[utoipa::path(get, path = "/api/files/list", tag = "files",
    params(("path" = Option<String>, Query, description = "relative to the workspace"),
        ("after" = Option<String>, Query, description = "only names after this one")),
    responses((status = 200, body = Files), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn list(State(app): State<App>, Asked(wanted): Asked<Listing>) -> Result<Json<Files>, Refused> {
    let (path, after) = (parse_path(&wanted.path)?, wanted.after.as_deref().map(parse_path).transpose()?);
    let (path, after) = (&path, after.as_ref());
    let listed = app.sandboxes.by_keeper(|keeper| async move { files::list(&keeper, path, after).await });
    let (entries, more) = listed.await?;
    let files: Vec<File> = entries.iter().map(shown).collect();
    let next = files.last().filter(|_| more).map(|last| last.name.clone());
    Ok(Json(Files { files, next }))
}

/// A file's bytes.
#[utoipa::path(get, path = "/api/files", tag = "files",
    params(("path" = String, Query, description = "relative to the workspace")),
    responses((status = 200, content_type = "application/octet-stream"), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn read(State(app): State<App>, Asked(at): Asked<At>) -> Result<Response, Refused> {
    let path = path(&at)?;
    if path.is_root() {
        return Err(Refused::bad_field("`path` is missing.", "Name a file, relative to the workspace."));
    }
    let (metadata, body) = app.sandboxes.by_keeper(|keeper| files::read(keeper, path.clone())).await?;
    let mut response = body.into_response();
    let headers = response.headers_mut();
    // Whatever it is, a browser that is sent here keeps it as a file: nothing of a workspace runs on our origin.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(metadata.size));
    Ok(response)
}

/// Replaces a file, making the folders above it; or makes a link or a folder.
#[utoipa::path(put, path = "/api/files", tag = "files",
    params(("path" = String, Query, description = "relative to the workspace"),
        ("kind" = Option<String>, Query, description = "`file`, or `link` to what the body names, or `directory`"),
        ("mode" = Option<String>, Query, description = "permissions of a file, like 755")),
    request_body(content_type = "application/octet-stream"),
    responses((status = 200, body = Acknowledged), (status = 413, body = choir_proto::ApiError)))]
pub(super) async fn write(
    State(app): State<App>,
    Asked(put): Asked<Put>,
    request: Request,
) -> Result<Json<Acknowledged>, Refused> {
    let (path, mode) = (parse_path(&put.path)?, put.mode()?);
    if !matches!(put.kind, PutKind::File) {
        let content = json::read(request.into_body(), JSON_BYTES_MAX).await?;
        return store(&app, &path, put.kind, mode, content).await;
    }
    let mut upload = Upload::new(request.into_body(), FILE_BYTES_MAX)?;
    match upload.size() {
        Some(size) => pass_on(&app, &path, size, mode, upload).await,
        None => {
            let content = unannounced(&mut upload).await?;
            store(&app, &path, put.kind, mode, content).await
        }
    }
}

/// Passes a file on as it comes: no more of it is here than the keeper is about to take.
async fn pass_on(
    app: &App,
    path: &RelativePath,
    size: u64,
    mode: Option<u32>,
    mut upload: Upload,
) -> Result<Json<Acknowledged>, Refused> {
    let change = if exists(app, path).await? { ChangeKind::Modified } else { ChangeKind::Added };
    let begun =
        app.sandboxes.by_keeper(|keeper| async move { files::begin_write(&keeper, path, size, mode).await }).await;
    let mut writing = begun?;
    let mut digest = Sha256::new();
    while let Some(bytes) = upload.next().await? {
        digest.update(&bytes);
        if writing.append(bytes).await.is_err() {
            break;
        }
    }
    writing.finish().await.map_err(Error::from)?;
    changed(app, path, change, Some(Hash(digest.finalize().into()))).await
}

/// A file whose length nobody has said: the keeper must know it first.
async fn unannounced(upload: &mut Upload) -> Result<Bytes, Refused> {
    let mut content = BytesMut::new();
    while let Some(bytes) = upload.next().await? {
        content.extend_from_slice(&bytes);
        if content.len() > UNANNOUNCED_BYTES_MAX {
            let message = format!("A file of more than {UNANNOUNCED_BYTES_MAX} bytes must say its length.");
            let hint = "Send it with Content-Length.";
            return Err(Refused::new(StatusCode::LENGTH_REQUIRED, "length_required", message, hint));
        }
    }
    Ok(content.freeze())
}

/// Puts something into the workspace, and tells the log.
pub(super) async fn store(
    app: &App,
    path: &RelativePath,
    kind: PutKind,
    mode: Option<u32>,
    content: Bytes,
) -> Result<Json<Acknowledged>, Refused> {
    let hash = Hash(Sha256::digest(&content).into());
    let change = if exists(app, path).await? { ChangeKind::Modified } else { ChangeKind::Added };
    let put = |keeper: Guest| {
        let content = content.clone();
        async move {
            match kind {
                PutKind::File => files::write(&keeper, path, content, mode).await,
                PutKind::Link => files::link(&keeper, path, content).await,
                PutKind::Directory => Ok(keeper.make_directory(path).await?),
            }
        }
    };
    app.sandboxes.by_keeper(put).await?;
    changed(app, path, change, Some(hash)).await
}

/// Removes a file, or a folder with all that is in it.
#[utoipa::path(delete, path = "/api/files", tag = "files",
    params(("path" = String, Query, description = "relative to the workspace")),
    responses((status = 200, body = Acknowledged), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn remove(State(app): State<App>, Asked(at): Asked<At>) -> Result<Json<Acknowledged>, Refused> {
    let path = path(&at)?;
    // Looked for first: whoever is asked to remove it twice and finds nothing the second time has removed it.
    let was_there = exists(&app, &path).await?;
    let removed = app.sandboxes.by_keeper(|keeper| {
        let path = &path;
        async move { files::remove(&keeper, path).await }
    });
    match removed.await {
        Err(error) if was_there && is_absent(&error) => {}
        other => other?,
    }
    changed(&app, &path, ChangeKind::Deleted, None).await
}

/// Renames a file or folder, making the folders above its new name. What is there already is not replaced.
#[utoipa::path(post, path = "/api/files/move", tag = "files", request_body = Move,
    responses((status = 200, body = Acknowledged), (status = 404, body = choir_proto::ApiError),
        (status = 409, body = choir_proto::ApiError)))]
pub(super) async fn rename(State(app): State<App>, Json(wanted): Json<Move>) -> Result<Json<Acknowledged>, Refused> {
    let (from, to) = (parse_path(&wanted.from)?, parse_path(&wanted.to)?);
    // Once only: a second time it might be another file that has the name.
    let keeper = app.sandboxes.keeper().await?;
    keeper.stat(&from).await.map_err(Error::from)?;
    let missing = missing_above(&keeper, &to).await?;
    let moved = async {
        if let Some(folder) = missing.first() {
            keeper.make_directory(folder).await?;
        }
        keeper.rename(&from, &to).await
    };
    if let Err(error) = moved.await {
        // What is refused changes nothing. A folder in which somebody has put something meanwhile stays.
        for folder in &missing {
            keeper.remove(folder, Removal::EmptyDirectory).await.ok();
        }
        return Err(Error::from(error).into());
    }
    changed(&app, &from, ChangeKind::Deleted, None).await?;
    changed(&app, &to, ChangeKind::Added, None).await
}

/// The folders above a path that are not there, the deepest first.
async fn missing_above(keeper: &Guest, path: &RelativePath) -> Result<Vec<RelativePath>, Refused> {
    let above = |path: &RelativePath| path.split().map(|(above, _)| above).filter(|above| !above.is_root());
    let mut missing = Vec::new();
    for folder in std::iter::successors(above(path), above) {
        match keeper.stat(&folder).await.map_err(Error::from) {
            Err(error) if is_absent(&error) => missing.push(folder),
            // What is wrong with it is said by whoever wants to go through.
            Ok(_) | Err(_) => break,
        }
    }
    Ok(missing)
}

async fn exists(app: &App, path: &RelativePath) -> Result<bool, Refused> {
    match app.sandboxes.by_keeper(|keeper| async move { Ok(keeper.stat(path).await?) }).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_absent(error: &Error) -> bool {
    matches!(error, Error::Call(CallError::Fault(fault)) if fault.code == FaultCode::NotFound)
}

/// Tells the log. The change has been made: if the log cannot be told, that is said and not hidden.
async fn changed(
    app: &App,
    path: &RelativePath,
    change: ChangeKind,
    content_hash: Option<Hash>,
) -> Result<Json<Acknowledged>, Refused> {
    let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
    let event = Event::from(FileChanged { path, change, content_hash });
    Ok(Json(app.record(Actor::Person, &event).await?))
}

fn shown(entry: &Entry) -> File {
    let kind = match entry.metadata.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    File {
        name: String::from_utf8_lossy(entry.name.as_bytes()).into_owned(),
        kind,
        size: entry.metadata.size,
        mode: entry.metadata.mode,
        modified_at: Timestamp(entry.metadata.modified_ns / 1000),
        target: entry.target.as_ref().map(|target| String::from_utf8_lossy(target.as_bytes()).into_owned()),
    }
}
