//! A computer that a test plays: the same two sockets, the same HTTP/2, a log in memory.

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use bytes::Bytes;
use choir_control::computer::{Launched, Launcher};
use choir_proto::Hash;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone, Default)]
pub(crate) struct FakeComputer(Arc<Shared>);

struct Shared {
    /// Lines, with a live one under position 0.
    log: Mutex<Vec<(u64, String)>>,
    grown: watch::Sender<usize>,
    told: watch::Sender<Vec<(String, Bytes)>>,
    service: Mutex<Option<SendRequest<Body>>>,
    serving: Mutex<Vec<JoinHandle<()>>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            log: Mutex::default(),
            grown: watch::channel(0).0,
            told: watch::channel(Vec::new()).0,
            service: Mutex::default(),
            serving: Mutex::default(),
        }
    }
}

impl FakeComputer {
    pub(crate) fn with_events(count: u64) -> Self {
        let computer = Self::default();
        computer.append(count);
        computer
    }

    /// Appends events, each naming the hash of the one before.
    pub(crate) fn append(&self, count: u64) {
        for _ in 0..count {
            self.append_of(1);
        }
    }

    /// Appends one event with a payload of so many bytes.
    pub(crate) fn append_of(&self, bytes: usize) {
        let mut log = self.0.log.lock().unwrap();
        let seq = log.iter().map(|(seq, _)| *seq).max().unwrap_or(0) + 1;
        let payload = "x".repeat(bytes);
        let (prev, hash) = (hash(seq - 1), hash(seq));
        log.push((
            seq,
            format!(r#"{{"seq":{seq},"kind":"test.happened","payload":"{payload}","prev":"{prev}","hash":"{hash}"}}"#),
        ));
        self.0.grown.send_replace(log.len());
    }

    /// Erases what an event says and appends that it did.
    pub(crate) fn erase(&self, erased: u64) {
        let mut log = self.0.log.lock().unwrap();
        let seq = log.iter().map(|(seq, _)| *seq).max().unwrap_or(0) + 1;
        let line = |seq: u64, kind: &str, payload: &str| {
            let (prev, hash) = (hash(seq - 1), hash(seq));
            format!(r#"{{"seq":{seq},"kind":"{kind}","payload":{payload},"prev":"{prev}","hash":"{hash}"}}"#)
        };
        let target = log.iter_mut().find(|(seq, _)| *seq == erased).unwrap();
        target.1 = line(erased, "test.happened", "null");
        log.push((seq, line(seq, "payload.erased", &format!(r#"{{"seq":{erased}}}"#))));
        self.0.grown.send_replace(log.len());
    }

    /// Publishes a line that is in no log.
    pub(crate) fn publish_live(&self, text: &str) {
        let mut log = self.0.log.lock().unwrap();
        log.push((0, format!(r#"{{"kind":"live","text":"{text}"}}"#)));
        self.0.grown.send_replace(log.len());
    }

    /// Puts a line into the log as it is, for logs that lie.
    pub(crate) fn forge(&self, seq: u64, line: String) {
        let mut log = self.0.log.lock().unwrap();
        log.push((seq, line));
        self.0.grown.send_replace(log.len());
    }

    /// Dies as a process does: both sockets close.
    pub(crate) fn die(&self) {
        for task in self.0.serving.lock().unwrap().drain(..) {
            task.abort();
        }
        *self.0.service.lock().unwrap() = None;
    }

    /// What control has told it, when it has told that.
    pub(crate) async fn told(&self, path: &str) -> Bytes {
        let mut told = self.0.told.subscribe();
        let told = told.wait_for(|told| told.iter().any(|(to, _)| to == path)).await.unwrap();
        told.iter().rev().find(|(to, _)| to == path).unwrap().1.clone()
    }

    /// Everything that control has told it.
    pub(crate) fn all_told(&self) -> Vec<(String, Bytes)> {
        self.0.told.borrow().clone()
    }

    /// Waits until control was told something that fits.
    pub(crate) async fn told_that(&self, path: &str, fits: impl Fn(&[u8]) -> bool) {
        let mut told = self.0.told.subscribe();
        told.wait_for(|told| told.iter().any(|(to, body)| to == path && fits(body))).await.unwrap();
    }

    /// Waits until control has told it something so often.
    pub(crate) async fn told_times(&self, path: &str, times: usize) {
        let mut told = self.0.told.subscribe();
        told.wait_for(|told| told.iter().filter(|(to, _)| to == path).count() >= times).await.unwrap();
    }

    /// Asks control, as only this computer can.
    pub(crate) async fn ask(&self, request: http::Request<Body>) -> http::Response<hyper::body::Incoming> {
        let mut service = self.0.service.lock().unwrap().clone().expect("the computer runs");
        service.send_request(request).await.unwrap()
    }

    pub(crate) fn launcher(&self) -> Launcher {
        let computer = self.clone();
        Arc::new(move |_| {
            let (api, their_api) = UnixStream::pair()?;
            let (service, their_service) = UnixStream::pair()?;
            let tasks = [
                tokio::spawn(computer.clone().serve(their_api)),
                tokio::spawn(computer.clone().connect(their_service)),
            ];
            computer.0.serving.lock().unwrap().extend(tasks);
            Ok(Launched { api, service, child: None })
        })
    }

    async fn serve(self, stream: UnixStream) {
        let service = TowerToHyperService::new(self.router());
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.serve_connection(TokioIo::new(stream), service).await.ok();
    }

    async fn connect(self, stream: UnixStream) {
        let client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
        *self.0.service.lock().unwrap() = Some(sender);
        connection.await.ok();
    }

    fn router(&self) -> Router {
        Router::new()
            .route("/api/events", get(events))
            .route("/api/echo", any(echo))
            .route("/api/plain", get(async || (http::StatusCode::BAD_REQUEST, "limit: invalid digit")))
            .route("/internal/head", get(head))
            .route("/internal/holds", post(holds))
            .route("/internal/record", post(record))
            .route("/internal/stream", get(stream))
            .route("/internal/health", get(health))
            .route("/internal/models", post(tell))
            .route("/internal/shutdown", post(tell))
            .with_state(self.clone())
    }
}

fn hash(seq: u64) -> Hash {
    let mut hash = Hash::ZERO;
    hash.0[..8].copy_from_slice(&seq.to_be_bytes());
    hash
}

#[derive(Deserialize)]
struct Page {
    after: u64,
    #[serde(default)]
    limit: usize,
}

async fn holds(
    State(computer): State<FakeComputer>,
    axum::Json(signed): axum::Json<choir_proto::wire::Head>,
) -> http::StatusCode {
    let log = computer.0.log.lock().unwrap();
    let is_it =
        |(seq, line): &(u64, String)| *seq == signed.seq.0 && line.contains(&format!(r#""hash":"{}""#, signed.hash));
    if log.iter().any(is_it) { http::StatusCode::NO_CONTENT } else { http::StatusCode::CONFLICT }
}

async fn events(State(computer): State<FakeComputer>, Query(page): Query<Page>) -> Response {
    let log = computer.0.log.lock().unwrap();
    let head = log.iter().map(|(seq, _)| *seq).max().unwrap_or(0);
    let events: Vec<&str> =
        log.iter().filter(|(seq, _)| *seq > page.after).take(page.limit).map(|(_, line)| line.as_str()).collect();
    format!(r#"{{"events":[{}],"next":0,"head":{head}}}"#, events.join(",")).into_response()
}

async fn stream(State(computer): State<FakeComputer>, Query(page): Query<Page>) -> Response {
    let start = computer.0.log.lock().unwrap().iter().position(|(seq, _)| *seq > page.after);
    let start = start.unwrap_or_else(|| computer.0.log.lock().unwrap().len());
    let grown = computer.0.grown.subscribe();
    let lines = futures_util::stream::unfold((computer, grown, start), |(computer, mut grown, mut at)| async move {
        grown.wait_for(|length| *length > at).await.ok()?;
        let log = computer.0.log.lock().unwrap();
        let new: String = log[at..].iter().map(|(_, line)| format!("{line}\n")).collect();
        at = log.len();
        drop(log);
        Some((Ok::<_, Infallible>(Bytes::from(new)), (computer, grown, at)))
    });
    Body::from_stream(lines).into_response()
}

async fn head(State(computer): State<FakeComputer>) -> String {
    let head = computer.0.log.lock().unwrap().iter().map(|(seq, _)| *seq).max().unwrap_or(0);
    format!(r#"{{"seq":{head},"hash":"{}"}}"#, hash(head))
}

async fn record(State(computer): State<FakeComputer>, request: Request) -> String {
    let seq = computer.0.log.lock().unwrap().len() as u64 + 1;
    computer.append(1);
    tell(State(computer), request).await;
    format!(r#"{{"seq":{seq}}}"#)
}

async fn health() -> &'static str {
    r#"{"status":"ok","version":"0","components":{"log":{"status":"ok"},"control":{"status":"degraded"}}}"#
}

async fn tell(State(computer): State<FakeComputer>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    computer.0.told.send_modify(|told| told.push((path, body)));
    http::StatusCode::OK.into_response()
}

/// Answers with what arrived, and with headers that an untrusted process has no business setting.
async fn echo(request: Request) -> Response {
    let headers: Vec<String> = request.headers().keys().map(ToString::to_string).collect();
    let actor = request.headers().get("x-choir-actor").map(|value| value.to_str().unwrap().to_owned());
    let method = request.method().to_string();
    let body = axum::body::to_bytes(request.into_body(), 4 << 20).await.unwrap();
    let answer = serde_json::json!({ "headers": headers, "actor": actor, "method": method, "bytes": body.len() });
    let evil =
        [("set-cookie", "choir_session=planted"), ("content-type", "application/json"), ("clear-site-data", "\"*\"")];
    (evil, answer.to_string()).into_response()
}
