//! A program that uses the API of a running instance: one connection, kept open.

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes, protocol::WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Where an instance is, and what lets one in.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) token: String,
}

/// One connection.
pub(crate) struct Client {
    address: Address,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub(crate) async fn connect(address: &Address) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&address.host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { address: address.clone(), sender })
    }

    /// Sends JSON and reads the answer, whatever its status.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address.host)
            .header(AUTHORIZATION, format!("Bearer {}", self.address.token))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(bytes))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes).with_context(|| format!("{path} answered {status}"))?))
    }

    /// Sends JSON and insists on success.
    pub(crate) async fn send(&mut self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(method, path, Some(body)).await?;
        ensure!(status.is_success(), "{path} answered {status}: {answer}");
        Ok(answer)
    }

    /// Reads, and insists on success.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(Method::GET, path, None).await?;
        ensure!(status.is_success(), "{path} answered {status}: {answer}");
        Ok(answer)
    }
}

async fn web_socket(address: &Address, path: &str) -> anyhow::Result<WebSocketStream<TcpStream>> {
    let mut request = format!("ws://{}{path}", address.host).into_client_request()?;
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {}", address.token).parse()?);
    let stream = TcpStream::connect(&address.host).await?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(4096);
    Ok(client_async_with_config(request, stream, Some(config)).await?.0)
}

/// A terminal, as its viewer has it.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// A terminal that shows nothing for so long has nothing to show.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

impl Socket {
    pub(crate) async fn open(address: &Address, path: &str) -> anyhow::Result<Self> {
        Ok(Self(web_socket(address, path).await?))
    }

    /// Sends what is typed.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.send(Message::Binary(Bytes::copy_from_slice(bytes))).await?)
    }

    /// Reads until so many updates of a document are in the log.
    pub(crate) async fn acknowledged(&mut self, updates: u64) -> anyhow::Result<()> {
        loop {
            let message = self.binary().await?;
            if message.first() == Some(&ACKNOWLEDGED)
                && message.get(2..).is_some_and(|counted| number(counted) >= updates)
            {
                return Ok(());
            }
        }
    }

    /// Reads until a document has been sent as a whole; the length of that message.
    pub(crate) async fn whole(&mut self) -> anyhow::Result<usize> {
        loop {
            let message = self.binary().await?;
            if message.starts_with(&[0, 1]) {
                return Ok(message.len());
            }
        }
    }

    async fn binary(&mut self) -> anyhow::Result<Bytes> {
        loop {
            let next = tokio::time::timeout(SHOWN_WITHIN, self.0.next()).await.context("nothing came")?;
            match next.context("the connection was closed")?? {
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(frame) => anyhow::bail!("the connection was closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// Reads until some text was shown.
    pub(crate) async fn until(&mut self, text: &str) -> anyhow::Result<()> {
        let mut shown = String::new();
        while !shown.contains(text) {
            let next = tokio::time::timeout(SHOWN_WITHIN, self.0.next()).await;
            let next = next.with_context(|| format!("{text:?} was not shown, but {shown:?}"))?;
            match next.context("the terminal was closed")?? {
                Message::Binary(bytes) => shown.push_str(&String::from_utf8_lossy(&bytes)),
                Message::Close(frame) => anyhow::bail!("the terminal was closed: {frame:?}"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The message by which a document says how many updates are in the log; a length and two numbers follow.
const ACKNOWLEDGED: u8 = 100;

/// A number of variable length, as the Yjs protocol writes it.
fn number(bytes: &[u8]) -> u64 {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The log as it is pushed.
pub(crate) struct Stream(WebSocketStream<TcpStream>);

impl Stream {
    pub(crate) async fn open(address: &Address, after: u64) -> anyhow::Result<Self> {
        Ok(Self(web_socket(address, &format!("/api/stream?after={after}")).await?))
    }

    /// With what is said live and in no log.
    pub(crate) async fn open_live(address: &Address, after: u64) -> anyhow::Result<Self> {
        Ok(Self(web_socket(address, &format!("/api/stream?after={after}&live=true")).await?))
    }

    /// The next event, as it was sent.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Utf8Bytes> {
        loop {
            match self.0.next().await.context("the stream ended")?? {
                Message::Text(text) => return Ok(text),
                Message::Close(frame) => anyhow::bail!("the stream was closed: {frame:?}"),
                _ => {}
            }
        }
    }
}
