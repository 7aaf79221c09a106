//! A client that sends exactly what it is told, Host and Origin included.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, headers: vec![("host".into(), address.to_string())] }
    }

    /// With a header, replacing one of the same name.
    pub(crate) fn header(&self, name: &str, value: impl Into<String>) -> Self {
        let mut client = self.without(name);
        client.headers.push((name.into(), value.into()));
        client
    }

    /// The same client at another address.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.header("host", address.to_string()) }
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(other, _)| other != name);
        client
    }

    /// The headers as they are written.
    pub(crate) fn head(&self) -> String {
        self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn json(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
        self.header("content-type", "application/json").send(method, path, body.into()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        Answer { status: head.status, headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    /// Sends bytes that are not always a request and reads whatever comes until the other side has nothing more to say.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A peer that is cut off in the middle of a flood may see a reset after the answer.
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a WebSocket, or says with which status it was refused.
    pub(crate) async fn upgrade(&self, path: &str) -> Result<Socket, StatusCode> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.upgrade_on(stream, path).await
    }

    pub(crate) async fn upgrade_on(&self, stream: TcpStream, path: &str) -> Result<Socket, StatusCode> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in &self.headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(tungstenite::Error::Http(response)) => Err(response.status()),
            Err(other) => panic!("the upgrade failed in another way: {other}"),
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// `name=value` of the session cookie, if one was set.
    pub(crate) fn cookie(&self) -> Option<String> {
        let line = self.headers.get("set-cookie")?.to_str().unwrap();
        Some(line.split(';').next().unwrap().to_owned())
    }

    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The code of a refusal; every refusal has a message and a hint too.
    pub(crate) fn code(&self) -> String {
        let value = self.value();
        let error = &value["error"];
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{value}");
        error["code"].as_str().unwrap().to_owned()
    }
}

pub(crate) struct Socket(pub(crate) WebSocketStream<TcpStream>);

/// How a socket ended.
#[derive(Debug)]
pub(crate) struct Closed {
    /// Of RFC 6455; 0 when the connection just broke.
    pub(crate) code: u16,
    pub(crate) reason: String,
}

impl Closed {
    fn without_code(reason: String) -> Self {
        Self { code: 0, reason }
    }
}

impl Socket {
    /// The next text frame.
    pub(crate) async fn next(&mut self) -> Result<String, Closed> {
        use futures_util::StreamExt;
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Close(frame))) => {
                    let said = frame.map(|frame| (u16::from(frame.code), frame.reason.to_string()));
                    let (code, reason) = said.unwrap_or_default();
                    return Err(Closed { code, reason });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Closed::without_code(error.to_string())),
                None => return Err(Closed::without_code(String::new())),
            }
        }
    }

    /// Reads binary frames until these bytes have been shown.
    pub(crate) async fn shows(&mut self, wanted: &[u8]) {
        use futures_util::StreamExt;
        let mut seen = Vec::new();
        while !seen.windows(wanted.len()).any(|window| window == wanted) {
            match self.0.next().await {
                Some(Ok(Message::Binary(bytes))) => seen.extend_from_slice(&bytes),
                Some(Ok(_)) => {}
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&seen)),
            }
        }
    }

    /// Reads to the end and says why it ended.
    pub(crate) async fn end(&mut self) -> String {
        loop {
            if let Err(closed) = self.next().await {
                return closed.reason;
            }
        }
    }

    /// The positions of the next events; live lines are skipped.
    pub(crate) async fn events(&mut self, count: usize) -> Vec<u64> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let line = self.next().await.expect("the stream goes on");
            seen.extend(seq_of(&line));
        }
        seen
    }
}

pub(crate) fn seq_of(line: &str) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["seq"].as_u64()
}
