//! The command line as a client of a running instance: plain HTTP and one WebSocket.

use bytes::Bytes;
use choir_control::data::DataDir;
use choir_control::door;
use choir_control::secret::Secret;
use choir_proto::ApiError;
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Longest answer that is read whole.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Longest event that is taken from a stream: the longest payload, and room for what stands around it.
const EVENT_BYTES_MAX: usize = choir_proto::event::PAYLOAD_BYTES_MAX + (1 << 20);

/// Why an instance did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("no ChoirOS runs here")]
    NotRunning,
    #[error("the ChoirOS here cannot be reached")]
    Door(#[source] std::io::Error),
    #[error("CHOIR_URL needs CHOIR_TOKEN")]
    NoToken,
    #[error("`{0}` is not an address like http://127.0.0.1:8080")]
    Url(String),
    #[error("ChoirOS at {0} does not answer")]
    Connect(String, #[source] std::io::Error),
    #[error("the connection to ChoirOS broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("ChoirOS refused: {}", .0.error.message)]
    Refused(ApiError, StatusCode),
    #[error("ChoirOS answered with status {0}")]
    Status(StatusCode),
}

impl Error {
    /// Whether it may be otherwise in a moment: a computer that is being started again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Refused(_, status) | Self::Status(status) => status.is_server_error(),
            Self::Broken(_) | Self::NotRunning | Self::Connect(..) => true,
            Self::Door(_) | Self::NoToken | Self::Url(_) => false,
        }
    }

    /// What programs decide by: the instance's own word where it gave one.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::NotRunning => "not_running",
            Self::Door(_) => "not_yours",
            Self::NoToken => "no_token",
            Self::Url(_) => "bad_url",
            Self::Connect(..) => "not_reached",
            Self::Broken(_) => "connection_broken",
            Self::Refused(refusal, _) => &refusal.error.code,
            Self::Status(_) => "bad_answer",
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotRunning | Self::Connect(..) => Some("Start it with `choir up`, or name it with CHOIR_URL.".into()),
            Self::Door(_) => Some("Run it as the owner of the data directory, or name another one with --data.".into()),
            Self::NoToken => Some("Make one on that machine with `choir token create`.".into()),
            Self::Url(_) => Some("TLS is spoken by a proxy in front of it, not by the command line.".into()),
            Self::Refused(refusal, _) => Some(refusal.error.hint.clone()).filter(|hint| !hint.is_empty()),
            Self::Broken(_) => Some("Is it still running? `choir doctor` tells; then try again.".into()),
            Self::Status(_) => Some("Is there a proxy in front of it, or something else at that address?".into()),
        }
    }
}

/// A handle to one instance.
#[derive(Debug)]
pub(crate) struct Client {
    place: Place,
    /// What is shown there; the owner's door needs nothing.
    token: Option<Secret>,
}

/// Where an instance is reached.
#[derive(Debug)]
enum Place {
    Network(Authority),
    Door(DataDir),
}

/// A connection, whichever way it goes.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// The log as it is pushed.
pub(crate) struct Stream(WebSocketStream<Box<dyn Wire>>);

/// Whether something stands where a port would.
fn has_port(authority: &Authority) -> bool {
    let place = authority.as_str().rsplit('@').next().unwrap_or_default();
    place.len() > authority.host().len()
}

impl Client {
    pub(crate) fn new(url: &str, token: Secret) -> Result<Self, Error> {
        let wrong = || Error::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        match (uri.scheme_str(), uri.authority()) {
            // A port that is none would be left out, and the request would go somewhere else.
            (Some("http"), Some(authority)) if authority.port().is_some() || !has_port(authority) => {
                Ok(Self { place: Place::Network(authority.clone()), token: Some(token) })
            }
            _ => Err(wrong()),
        }
    }

    /// By the door of a data directory: it leads to the instance that holds it and to nobody else.
    pub(crate) fn at_door(data: DataDir, token: Option<Secret>) -> Self {
        Self { place: Place::Door(data), token }
    }

    /// `GET`, decoded.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        decode(&self.send(Method::GET, path, Bytes::new()).await?)
    }

    /// `POST` of JSON, decoded.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, Error> {
        decode(&self.send(Method::POST, path, Bytes::from(body.to_string())).await?)
    }

    /// `GET`, as it comes.
    pub(crate) async fn get_bytes(&self, path: &str) -> Result<Bytes, Error> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    /// `PUT` of bytes.
    pub(crate) async fn put(&self, path: &str, body: Bytes) -> Result<(), Error> {
        self.send_as(Method::PUT, path, body, "application/octet-stream").await.map(drop)
    }

    /// `DELETE`.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), Error> {
        self.send(Method::DELETE, path, Bytes::new()).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Error> {
        self.send_as(method, path, body, "application/json").await
    }

    async fn send_as(&self, method: Method, path: &str, body: Bytes, media_type: &str) -> Result<Bytes, Error> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.host());
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, media_type);
        }
        let mut request = request.body(Full::new(body)).map_err(broken)?;
        self.show_token(request.headers_mut())?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(Error::Broken)?.to_bytes();
        match serde_json::from_slice(&body) {
            _ if status.is_success() => Ok(body),
            Ok(refusal) => Err(Error::Refused(refusal, status)),
            Err(_) => Err(Error::Status(status)),
        }
    }

    /// Opens the log after a position.
    pub(crate) async fn stream(&self, after: u64) -> Result<Stream, Error> {
        use tungstenite::client::IntoClientRequest;
        let url = format!("ws://{}/api/stream?after={after}", self.host());
        let mut request = url.into_client_request().map_err(broken)?;
        self.show_token(request.headers_mut())?;
        // An event comes whole, however long it is.
        let config =
            WebSocketConfig::default().max_message_size(Some(EVENT_BYTES_MAX)).max_frame_size(Some(EVENT_BYTES_MAX));
        let connecting = client_async_with_config(request, self.connect().await?, Some(config));
        let (socket, _) = connecting.await.map_err(|error| match error {
            tungstenite::Error::Http(response) => refusal(&response),
            other => broken(other),
        })?;
        Ok(Stream(socket))
    }

    fn host(&self) -> &str {
        match &self.place {
            Place::Network(authority) => authority.as_str(),
            Place::Door(_) => "localhost",
        }
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, Error> {
        match &self.place {
            Place::Network(authority) => {
                let port = authority.port_u16().unwrap_or(80);
                let host = authority.host().trim_matches(['[', ']']);
                let connected = TcpStream::connect((host, port)).await;
                Ok(Box::new(connected.map_err(|source| Error::Connect(authority.to_string(), source))?))
            }
            Place::Door(data) => Ok(Box::new(knock(data).await?)),
        }
    }

    fn show_token(&self, headers: &mut HeaderMap) -> Result<(), Error> {
        let Some(token) = &self.token else { return Ok(()) };
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(broken)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }
}

/// Knocks at the door of a data directory. Nobody there, or no door: nothing runs.
pub(crate) async fn knock(data: &DataDir) -> Result<UnixStream, Error> {
    door::knock(data).await.map_err(unopened)
}

fn unopened(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory => Error::NotRunning,
        // An instance that was stopping just then.
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => broken(error),
        _ => Error::Door(error),
    }
}

impl Stream {
    /// The next line; nothing when the instance has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.to_string())),
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(error)),
            }
        }
    }
}

fn decode<T: DeserializeOwned>(body: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(broken)
}

fn refusal(response: &http::Response<Option<Vec<u8>>>) -> Error {
    let body = response.body().as_deref().unwrap_or_default();
    let status = response.status();
    serde_json::from_slice(body).map_or(Error::Status(status), |refusal| Error::Refused(refusal, status))
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Broken(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_is_just_being_closed_may_be_open_in_a_moment() {
        let passing = |kind| unopened(std::io::Error::from(kind)).is_passing();
        assert!(
            passing(ErrorKind::ConnectionReset)
                && passing(ErrorKind::ConnectionRefused)
                && passing(ErrorKind::NotFound)
        );
        assert!(!passing(ErrorKind::PermissionDenied), "whoever may not come in waits in vain");
    }
}
