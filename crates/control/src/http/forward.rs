//! Everything that control does not answer itself goes to the computer, with a proven name and without its proof.

use super::App;
use super::error::Refused;
use super::extract::in_our_words;
use super::json;
use super::limits::{FILE_BYTES_MAX, JSON_BYTES_MAX};
use super::model;
use super::upload::Upload;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use choir_proto::event::Actor;
use choir_proto::wire::ACTOR_HEADER;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use std::time::Duration;
use tokio::sync::oneshot;

/// Request headers that mean something to the computer. All others stay here, cookies and claims of identity first.
const REQUEST_HEADERS: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONTENT_DISPOSITION,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::RANGE,
];
/// Answer headers that an untrusted process may set on our origin.
const ANSWER_HEADERS: [HeaderName; 9] = [
    header::ACCEPT_RANGES,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::ETAG,
    header::RETRY_AFTER,
];
/// How long the head of an answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How long it may take where a large body comes first.
const UPLOAD: Duration = Duration::from_secs(30 * 60);
/// Of a refusal that is not in our shape, so much is passed on.
const SAID_BYTES_MAX: usize = 1 << 10;
/// Routes whose body is raw bytes.
const RAW: [&str; 2] = [ARTIFACTS, "/api/import"];
/// Takes the bytes of a file, or the address of a page.
const ARTIFACTS: &str = "/api/artifacts";

/// The handler.
pub(super) async fn forward(State(app): State<App>, request: Request) -> Result<Response, Refused> {
    let time = if is_raw(request.uri().path()) { UPLOAD } else { ANSWER };
    let (request, broken) = translate(&app, request).await?;
    let answer = tokio::select! {
        biased;
        // A body that broke off is why, whatever the computer makes of it.
        Ok(refused) = broken => return Err(refused),
        answer = app.link.send_within(time, request) => answer?,
    };
    let (head, body) = answer.into_parts();
    if is_error(head.status) && !is_json(&head.headers) {
        return Err(shaped(head.status, body).await);
    }
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = only(&head.headers, &ANSWER_HEADERS);
    Ok(response)
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Whatever a computer says no with, outside it has the one shape.
async fn shaped(status: StatusCode, body: hyper::body::Incoming) -> Refused {
    let code = match status {
        // What cannot be read of a question or of a path, said in plain text by whoever read it.
        StatusCode::BAD_REQUEST => "bad_field",
        status if status.is_client_error() => "bad_request",
        _ => "computer_failed",
    };
    let said = Limited::new(body, SAID_BYTES_MAX).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let reason = status.canonical_reason().unwrap_or("the request was refused").to_owned();
    let message = if said.is_empty() { reason } else { in_our_words(&said) };
    Refused::new(status, code, format!("{message}."), "See /api/openapi.json.")
}

/// The request for the computer, and why its body broke off if it does.
async fn translate(app: &App, request: Request) -> Result<(Request, oneshot::Receiver<Refused>), Refused> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = only(&head.headers, &REQUEST_HEADERS);
    headers.insert(ACTOR_HEADER, HeaderValue::from_str(&Actor::Person.to_string()).expect("a word is a header"));
    let body = check_body(&head.method, head.uri.path(), &head.headers, body).await?;
    let (body, broken) = match body {
        Checked::Streamed(upload) => upload.passed_on(),
        Checked::Whole(body) => {
            if head.method == Method::POST && head.uri.path() == "/api/runs" {
                model::check_run(app, &body)?;
            }
            if head.method == Method::POST && gives_pages(head.uri.path()) {
                app.pages.gave(&body).await;
            }
            if head.method == Method::POST && gives_commands(head.uri.path()) {
                app.sandboxes.person_gave(&body).await;
            }
            // Nothing can break any more.
            (Body::from(body), oneshot::channel().1)
        }
    };
    let mut forwarded = crate::computer::request(head.method.clone(), path, body);
    *forwarded.headers_mut() = headers;
    Ok((forwarded, broken))
}

/// Small bodies are read here, so that a slow or oversized one costs the computer nothing; raw bytes stream.
async fn check_body(method: &Method, path: &str, headers: &HeaderMap, body: Body) -> Result<Checked, Refused> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(Checked::Whole(Bytes::new()));
    }
    if is_raw(path) && !(path == ARTIFACTS && is_request(headers)) {
        return Ok(Checked::Streamed(Upload::new(body, FILE_BYTES_MAX)?));
    }
    let body = json::read(body, JSON_BYTES_MAX).await?;
    if !body.is_empty() {
        json::require_json(headers)?;
        json::require_object(&body)?;
    }
    Ok(Checked::Whole(body))
}

/// A body that may go to the computer.
enum Checked {
    /// As it comes.
    Streamed(Upload),
    /// It has arrived.
    Whole(Bytes),
}

/// Whether a body is no file but says what is wanted: JSON, and no name of a file beside it.
fn is_request(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::CONTENT_DISPOSITION) && is_json(headers)
}

/// Whether what is said to a route are a person's own words to their agents, or a page to bring in.
fn gives_pages(path: &str) -> bool {
    let said_to_run = path.starts_with("/api/runs/") && path.ends_with("/steer");
    matches!(path, "/api/runs" | "/api/tasks" | ARTIFACTS) || said_to_run
}

/// Whether a person may say to a route which commands are to be run.
fn gives_commands(path: &str) -> bool {
    matches!(path, "/api/runs" | "/api/tasks")
}

fn is_raw(path: &str) -> bool {
    RAW.contains(&path)
}

fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}
