//! HTTP/2 over the socket that control gave us at birth.

use super::{Control, ControlError, Fetched, Heard, NotFetched, OnFile, OnHeard, OnOutput, Picture};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use choir_proto::inbox::{Ask, Asked, Verdict};
use choir_proto::model::{Answer, ErrorClass, ModelError, Paid};
use choir_proto::wire::mcp::{CallTool, Called, Offers, WhatTools};
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, ChangeSettings, ChangesUndone, DocumentSettings, EditFile,
    Edited, EffectRecord, Exec, ExecFrame, Exit, Fetch, FinishAssociate, LivePath, Mirror, Mirrored, ModelCall,
    ModelFrame, Models, NO_SANDBOX, PAGE_URL_HEADER, ReadTree, Search, SearchHits, StartAssociate, TakeSide,
    ToolSettings, TreeFiles, UndoChanges, WatchFiles, WatchFrame, WriteFile,
};
use choir_proto::{ApiError, Hash, InboxId, RunId, TaskId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use tokio::net::UnixStream;

/// Half of it is what may wait unread in small pieces before HTTP/2 breaks the connection off: two hundred models that speak at
/// once while this process has no processor for a moment.
const CONNECTION_WINDOW: u32 = 32 << 20;

/// One line of a streamed answer. A whole model answer is one line.
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The client end of the socket to control.
#[derive(Debug, Clone)]
pub struct ControlClient {
    sender: SendRequest<Full<Bytes>>,
}

impl ControlClient {
    /// Begins to speak. The connection is driven in the background until control goes away.
    pub async fn connect(stream: UnixStream) -> Result<Self, ControlError> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_connection_window_size(CONNECTION_WINDOW);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(gone)?;
        tokio::spawn(connection.map(|ended| {
            if let Err(error) = ended {
                tracing::warn!(%error, "the connection to control broke");
            }
        }));
        Ok(Self { sender })
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ControlError> {
        let response = self.answer(method, path, body).await?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }

    /// What control answers, be it a refusal.
    async fn answer(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ControlError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://control{path}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| ControlError::Refused(error.to_string()))?;
        self.sender.clone().send_request(request).await.map_err(gone)
    }

    async fn ask_for_page(&self, fetch: &Fetch) -> Result<Response<Incoming>, ControlError> {
        let body = serde_json::to_vec(fetch).map_err(|error| ControlError::Refused(error.to_string()))?;
        self.answer(Method::POST, "/fetch", body.into()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ControlError> {
        let body = serde_json::to_vec(body).map_err(|error| ControlError::Refused(error.to_string()))?;
        let response = self.send(method, path, body.into()).await?;
        let bytes = response.into_body().collect().await.map_err(gone)?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| ControlError::Gone(format!("it answered nonsense: {error}")))
    }

    /// Sends a request whose answer is lines of JSON, and hands each to `take` until it says that it has enough.
    async fn lines<F: DeserializeOwned, T>(
        &self,
        path: &str,
        body: &impl Serialize,
        mut take: impl FnMut(F) -> Option<T>,
    ) -> Result<T, ControlError> {
        let body = serde_json::to_vec(body).map_err(|error| ControlError::Refused(error.to_string()))?;
        let mut answer = self.send(Method::POST, path, body.into()).await?.into_body();
        let mut buffer = Vec::new();
        while let Some(frame) = answer.frame().await {
            let Ok(data) = frame.map_err(gone)?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            let mut from = 0;
            while let Some(length) = buffer[from..].iter().position(|byte| *byte == b'\n') {
                let line = &buffer[from..from + length];
                from += length + 1;
                if line.is_empty() {
                    continue;
                }
                let parsed = serde_json::from_slice(line);
                let parsed = parsed.map_err(|error| ControlError::Gone(format!("it answered nonsense: {error}")))?;
                if let Some(done) = take(parsed) {
                    return Ok(done);
                }
            }
            buffer.drain(..from);
            if buffer.len() > LINE_BYTES_MAX {
                return Err(ControlError::Gone("it answered with an endless line".into()));
            }
        }
        Err(ControlError::Gone("it broke off in the middle".into()))
    }
}

impl Control for ControlClient {
    fn model(&self, call: ModelCall, mut on_heard: OnHeard) -> BoxFuture<'_, Result<Answer, ModelError>> {
        async move {
            let answer = self.lines("/model", &call, |frame| match frame {
                ModelFrame::Asked { model } => {
                    on_heard(Heard::Asked(model));
                    None
                }
                ModelFrame::Delta(delta) => {
                    on_heard(Heard::Delta(delta));
                    None
                }
                ModelFrame::Took { usage } => {
                    on_heard(Heard::Took(usage));
                    None
                }
                ModelFrame::Answer(answer) => Some(Ok(answer)),
                ModelFrame::Error(error) => Some(Err(error)),
            });
            answer.await.unwrap_or_else(|error| {
                Err(ModelError { class: ErrorClass::Overloaded, message: error.to_string(), retry_after_ms: None })
            })
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Models, ControlError>> {
        async move { self.call(Method::GET, "/models", &()).await }.boxed()
    }

    fn document_settings(&self) -> BoxFuture<'_, Result<DocumentSettings, ControlError>> {
        async move { self.call(Method::GET, "/settings/documents", &()).await }.boxed()
    }

    fn paid(&self, run: RunId) -> BoxFuture<'_, Result<Option<Paid>, ControlError>> {
        async move { self.call(Method::GET, &format!("/paid/{run}"), &()).await.map(Some) }.boxed()
    }

    fn tool_settings(&self, tool: String) -> BoxFuture<'_, Result<ToolSettings, ControlError>> {
        async move { self.call(Method::GET, &format!("/settings/tools/{tool}"), &()).await }.boxed()
    }

    fn change_settings(&self) -> BoxFuture<'_, Result<ChangeSettings, ControlError>> {
        async move { self.call(Method::GET, "/settings/changes", &()).await }.boxed()
    }

    fn free_tools(&self, tools: BTreeSet<String>) -> BoxFuture<'_, Result<BTreeSet<String>, ControlError>> {
        async move { self.call(Method::POST, "/tools/free", &tools).await }.boxed()
    }

    fn ask(&self, id: InboxId, ask: Ask) -> BoxFuture<'_, Result<Asked, ControlError>> {
        async move { self.call(Method::PUT, &format!("/inbox/{id}"), &ask).await }.boxed()
    }

    fn verdict(&self, id: InboxId) -> BoxFuture<'_, Result<Verdict, ControlError>> {
        async move { self.call(Method::GET, &format!("/inbox/{id}"), &()).await }.boxed()
    }

    fn withdraw(&self, id: InboxId) -> BoxFuture<'_, Result<Option<Verdict>, ControlError>> {
        async move { self.call(Method::DELETE, &format!("/inbox/{id}"), &()).await }.boxed()
    }

    fn start_associate(
        &self,
        task: TaskId,
        start: StartAssociate,
    ) -> BoxFuture<'_, Result<AssociateStarted, ControlError>> {
        async move { self.call(Method::PUT, &format!("/associates/{task}"), &start).await }.boxed()
    }

    fn exec(&self, task: TaskId, exec: Exec, mut on_output: OnOutput) -> BoxFuture<'_, Result<Exit, ControlError>> {
        async move {
            let path = format!("/associates/{task}/exec");
            let ended = self.lines(&path, &exec, |frame| match frame {
                ExecFrame::Output { stream, data } => match BASE64_STANDARD.decode(data) {
                    Ok(bytes) => {
                        on_output(stream, &bytes);
                        None
                    }
                    Err(error) => Some(Err(ControlError::Gone(format!("it answered nonsense: {error}")))),
                },
                ExecFrame::Exit(exit) => Some(Ok(exit)),
                ExecFrame::Failed { message } => Some(Err(ControlError::Refused(message))),
            });
            ended.await?
        }
        .boxed()
    }

    fn effect(&self, effect_id: String) -> BoxFuture<'_, Result<EffectRecord, ControlError>> {
        async move { self.call(Method::GET, &format!("/effects/{effect_id}"), &()).await }.boxed()
    }

    fn read_file(&self, task: TaskId, path: String) -> BoxFuture<'_, Result<Vec<u8>, ControlError>> {
        async move {
            let path = format!("/associates/{task}/files?path={}", escape(&path));
            let response = self.send(Method::GET, &path, Bytes::new()).await?;
            Ok(response.into_body().collect().await.map_err(gone)?.to_bytes().to_vec())
        }
        .boxed()
    }

    fn live(&self, path: String) -> BoxFuture<'_, Result<LivePath, ControlError>> {
        async move {
            let response =
                self.send(Method::GET, &format!("/workspace/live?path={}", escape(&path)), Bytes::new()).await?;
            let body = response.into_body().collect().await.map_err(gone)?.to_bytes();
            serde_json::from_slice(&body).map_err(gone)
        }
        .boxed()
    }

    fn picture(&self, path: String) -> BoxFuture<'_, Result<Option<Picture>, ControlError>> {
        async move {
            let path = format!("/workspace/picture?path={}", escape(&path));
            let response = self.send(Method::GET, &path, Bytes::new()).await?;
            let named = response.headers().get(http::header::CONTENT_TYPE).and_then(|sort| sort.to_str().ok());
            let Some(media_type) = named.filter(|_| response.status() == StatusCode::OK).map(str::to_owned) else {
                return Ok(None);
            };
            let bytes = response.into_body().collect().await.map_err(gone)?.to_bytes().to_vec();
            Ok(Some(Picture { media_type, bytes }))
        }
        .boxed()
    }

    fn write_file(&self, task: TaskId, path: String, content: Vec<u8>) -> BoxFuture<'_, Result<(), ControlError>> {
        async move {
            let path = format!("/associates/{task}/files?path={}", escape(&path));
            self.send(Method::PUT, &path, content.into()).await.map(|_| ())
        }
        .boxed()
    }

    fn write_for(&self, task: TaskId, wanted: WriteFile) -> BoxFuture<'_, Result<(), ControlError>> {
        async move {
            let body = serde_json::to_vec(&wanted).map_err(gone)?;
            self.send(Method::POST, &format!("/associates/{task}/write"), body.into()).await.map(|_| ())
        }
        .boxed()
    }

    fn edit_file(&self, task: TaskId, edit: EditFile) -> BoxFuture<'_, Result<Edited, ControlError>> {
        async move { self.call(Method::POST, &format!("/associates/{task}/edit"), &edit).await }.boxed()
    }

    fn list_files(&self, task: TaskId, path: String) -> BoxFuture<'_, Result<String, ControlError>> {
        async move {
            let path = format!("/associates/{task}/files/list?path={}", escape(&path));
            let response = self.send(Method::GET, &path, Bytes::new()).await?;
            let bytes = response.into_body().collect().await.map_err(gone)?.to_bytes();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        .boxed()
    }

    fn capture_associate(&self, task: TaskId) -> BoxFuture<'_, Result<AssociateCaptured, ControlError>> {
        async move { self.call(Method::POST, &format!("/associates/{task}/capture"), &()).await }.boxed()
    }

    fn read_tree(&self, tree: Hash, wanted: ReadTree) -> BoxFuture<'_, Result<TreeFiles, ControlError>> {
        async move { self.call(Method::POST, &format!("/trees/{tree}/files"), &wanted).await }.boxed()
    }

    fn watch(&self, wanted: WatchFiles, mut on_file: OnFile) -> BoxFuture<'_, ControlError> {
        async move {
            let broken = self.lines("/workspace/watch", &wanted, |frame| match frame {
                WatchFrame::Failed { message } => Some(ControlError::Refused(message)),
                told @ (WatchFrame::File(_) | WatchFrame::Ready) => {
                    on_file(told);
                    None
                }
            });
            broken.await.unwrap_or_else(|error| error)
        }
        .boxed()
    }

    fn mirror(&self, mirror: Mirror) -> BoxFuture<'_, Result<Mirrored, ControlError>> {
        async move { self.call(Method::PUT, "/workspace/mirror", &mirror).await }.boxed()
    }

    fn finish_associate(
        &self,
        task: TaskId,
        finish: FinishAssociate,
    ) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        async move { self.call(Method::POST, &format!("/associates/{task}/finish"), &finish).await }.boxed()
    }

    fn take_side(&self, task: TaskId, take: TakeSide) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        async move { self.call(Method::POST, &format!("/associates/{task}/side"), &take).await }.boxed()
    }

    fn forget_associate(&self, task: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        let path = format!("/associates/{task}/finished");
        async move { self.send(Method::DELETE, &path, Bytes::new()).await.map(|_| ()) }.boxed()
    }

    fn undo(&self, changes: UndoChanges) -> BoxFuture<'_, Result<ChangesUndone, ControlError>> {
        async move { self.call(Method::POST, "/changes/undo", &changes).await }.boxed()
    }

    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Fetched, ControlError>> {
        async move {
            let response = self.ask_for_page(&fetch).await?;
            if response.status() == StatusCode::ACCEPTED {
                let bytes = response.into_body().collect().await.map_err(gone)?.to_bytes();
                let waits = serde_json::from_slice(&bytes);
                return Err(waits.map_or_else(|error| ControlError::Gone(error.to_string()), ControlError::Waits));
            }
            if !response.status().is_success() {
                return Err(refusal(response).await);
            }
            page(fetch.url, response).await
        }
        .boxed()
    }

    fn bring_in(&self, url: String) -> BoxFuture<'_, Result<Fetched, NotFetched>> {
        async move {
            let fetch = Fetch { task: None, run: None, url };
            let response = self.ask_for_page(&fetch).await?;
            let status = response.status();
            if !status.is_success() {
                return Err(NotFetched { status, message: refusal(response).await.to_string() });
            }
            Ok(page(fetch.url, response).await?)
        }
        .boxed()
    }

    fn search(&self, search: Search) -> BoxFuture<'_, Result<SearchHits, ControlError>> {
        async move { self.call(Method::POST, "/search", &search).await }.boxed()
    }

    fn offers(&self, what: WhatTools) -> BoxFuture<'_, Result<Offers, ControlError>> {
        async move { self.call(Method::POST, "/mcp/tools", &what).await }.boxed()
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<Called, ControlError>> {
        async move { self.call(Method::POST, "/mcp/call", &call).await }.boxed()
    }

    fn kill_associate(&self, task: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        async move { self.send(Method::DELETE, &format!("/associates/{task}"), Bytes::new()).await.map(|_| ()) }.boxed()
    }
}

/// Percent-encodes everything that is not plainly safe in a query.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn gone(error: impl std::fmt::Display) -> ControlError {
    ControlError::Gone(error.to_string())
}

/// The page in an answer; `asked` is where it was looked for.
async fn page(asked: String, response: Response<Incoming>) -> Result<Fetched, ControlError> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let url = header(PAGE_URL_HEADER).unwrap_or(asked);
    let media_type = header("content-type").unwrap_or_else(|| "application/octet-stream".into());
    let bytes = response.into_body().collect().await.map_err(gone)?.to_bytes().to_vec();
    Ok(Fetched { url, media_type, bytes })
}

async fn refusal(response: Response<Incoming>) -> ControlError {
    let status = response.status();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    match serde_json::from_slice::<ApiError>(&body) {
        Ok(error) if error.error.code == NO_SANDBOX => ControlError::NoSandbox(error.error.message),
        Ok(error) => ControlError::Refused(error.error.message),
        Err(_) if status == StatusCode::NOT_FOUND => ControlError::Refused("it is not there".into()),
        Err(_) => ControlError::Refused(format!("control answered {status}")),
    }
}
