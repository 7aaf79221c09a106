//! A provider on loopback, in the format of chat completions: it answers at once, or begins to and never ends.

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What it does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Answers at once.
    Prompt,
    /// Says one word and then nothing more.
    Slow,
}

/// A provider that runs until its runtime ends.
pub(super) struct Provider {
    pub(super) address: SocketAddr,
    /// Questions so far.
    pub(super) asked: watch::Receiver<usize>,
}

impl Provider {
    pub(super) async fn start(manner: Manner) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (count, asked) = watch::channel(0);
        tokio::spawn(serve(listener, manner, Arc::new(count)));
        Ok(Self { address, asked })
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

async fn serve(listener: TcpListener, manner: Manner, count: Arc<watch::Sender<usize>>) {
    while let Ok((stream, _)) = listener.accept().await {
        // A benchmark that cannot set this measures Nagle's algorithm.
        stream.set_nodelay(true).ok();
        let count = Arc::clone(&count);
        let service = service_fn(move |request| answer(request, manner, Arc::clone(&count)));
        // Whoever asked may break off.
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok() });
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    count: Arc<watch::Sender<usize>>,
) -> Result<Response<Body>, hyper::Error> {
    let path = request.uri().path().to_owned();
    request.into_body().collect().await?;
    if path.ends_with("/models") {
        return Ok(Response::new(Full::new(Bytes::from(r#"{"data":[{"id":"m"}]}"#)).boxed()));
    }
    count.send_modify(|count| *count += 1);
    let first = futures_util::stream::iter([event(json!({"content": "Hello"}), None)]);
    let body = match manner {
        Manner::Prompt => {
            let rest = futures_util::stream::iter([event(json!({}), Some("stop")), Bytes::from("data: [DONE]\n\n")]);
            BodyExt::boxed(StreamBody::new(first.chain(rest).map(frame)))
        }
        Manner::Slow => BodyExt::boxed(StreamBody::new(first.chain(futures_util::stream::pending()).map(frame))),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

fn frame(bytes: Bytes) -> Result<Frame<Bytes>, Infallible> {
    Ok(Frame::data(bytes))
}

fn event(delta: serde_json::Value, finish: Option<&str>) -> Bytes {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    Bytes::from(format!("data: {}\n\n", json!({"id": "1", "object": "chat.completion.chunk", "choices": [choice]})))
}
