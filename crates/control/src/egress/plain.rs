//! Requests in the clear. A program that has a proxy sends these to it whole: `GET http://host/path`.
//!
//! Each is decided about by itself and sent on over a connection of its own, which carries nothing else: a second request
//! of the same program is a new question. It is written anew from what was read, so that whoever answers cannot read
//! another host or another end into it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use choir_proto::egress::Host;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Where plain http is spoken unless another port is named.
const PORT: u16 = 80;
/// How long an answer may take to begin, what is sent before it included. Whoever asks gives up earlier, and their task ends
/// earlier still; a server that never answers holds nothing for good.
const ANSWER: Duration = Duration::from_secs(60 * 60);
/// Headers of one connection, which is not the next one; beside these, those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-authenticate"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whether this is a request that a proxy is meant to send on.
pub(super) fn is_plain(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTP) && uri.authority().is_some()
}

/// The host and port that a request is for, as they are asked for: what it says of itself has to be said once.
pub(super) fn asked(head: &Parts) -> Result<String, &'static str> {
    let authority = head.uri.authority().map(|authority| with_port(authority.as_str())).unwrap_or_default();
    let mut hosts = head.headers.get_all(HOST).iter();
    let (said, more) = (hosts.next(), hosts.next());
    let same = |said: &HeaderValue| {
        let said = said.to_str().map(with_port).unwrap_or_default();
        Host::parse_with_port(&said).is_ok_and(|said| Host::parse_with_port(&authority) == Ok(said))
    };
    match (said, more) {
        (_, Some(_)) => Err("its host is named twice"),
        (Some(said), None) if !same(said) => Err("it names one host and asks for another"),
        _ => Ok(authority),
    }
}

fn with_port(authority: &str) -> String {
    if Host::parse(authority).is_ok() { format!("{authority}:{PORT}") } else { authority.to_owned() }
}

/// Sends a request to whoever is at the other end, and passes the answer back as it comes. The connection ends with it.
pub(super) async fn send(outside: TcpStream, asked: &str, request: Request<Incoming>) -> Response {
    let Some(request) = anew(asked, request) else { return StatusCode::BAD_REQUEST.into_response() };
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(outside)).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    // Dropped with the answer's body, and so with the task that asked.
    let mut carrying = JoinSet::new();
    carrying.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a request in the clear ended early");
        }
    });
    match tokio::time::timeout(ANSWER, sender.send_request(request)).await {
        // Nobody asked for another protocol.
        Ok(Ok(answer)) if !answer.status().is_informational() => pass_back(answer, carrying),
        Ok(_) => StatusCode::BAD_GATEWAY.into_response(),
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    }
}

/// The request as it leaves: one host, one length, and nothing that was meant for us.
fn anew(asked: &str, request: Request<Incoming>) -> Option<Request<Incoming>> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    strip(&mut head.headers);
    // Whoever waits for leave to send its body gets it from us.
    for name in [EXPECT, CONTENT_LENGTH] {
        head.headers.remove(name);
    }
    let host = asked.strip_suffix(&format!(":{PORT}")).unwrap_or(asked).to_ascii_lowercase();
    head.headers.insert(HOST, HeaderValue::from_str(&host).ok()?);
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    match body.size_hint().exact() {
        Some(0) if body.is_end_stream() && !expects_body(&head.method) => {}
        Some(length) => drop(head.headers.insert(CONTENT_LENGTH, length.into())),
        None => drop(head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))),
    }
    Some(Request::from_parts(head, body))
}

/// Whether servers want to be told that there is no body.
fn expects_body(method: &http::Method) -> bool {
    matches!(*method, http::Method::POST | http::Method::PUT | http::Method::PATCH)
}

fn pass_back(answer: http::Response<Incoming>, carrying: JoinSet<()>) -> Response {
    let (mut head, body) = answer.into_parts();
    strip(&mut head.headers);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    let body = body.map_frame(move |frame| {
        let _held = &carrying;
        frame
    });
    Response::from_parts(head, Body::new(body))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(uri: &str, hosts: &[&str]) -> Result<String, &'static str> {
        let request = hosts.iter().fold(Request::builder().uri(uri), |request, host| request.header(HOST, *host));
        asked(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_request_names_its_host_once() {
        assert_eq!(asks("http://example.org/a?b", &["example.org"]).unwrap(), "example.org:80");
        assert_eq!(asks("http://Example.org:80/", &["example.ORG"]).unwrap(), "Example.org:80");
        assert_eq!(asks("http://[::1]/", &["[::1]:80"]).unwrap(), "[::1]:80");
        assert_eq!(asks("http://example.org:8080", &[]).unwrap(), "example.org:8080");
        for (uri, hosts) in [
            ("http://example.org/", &["other.example"][..]),
            ("http://example.org/", &["example.org:8080"]),
            ("http://example.org/", &["example.org", "example.org"]),
            ("http://example.org/", &["user@example.org"]),
            ("http://example.org/", &[""]),
            ("http://127.0.0.1/", &["2130706433"]),
        ] {
            assert!(asks(uri, hosts).is_err(), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn what_is_spelt_otherwise_stays_as_it_was_asked() {
        for (uri, left) in [("http://user@example.org/", "user@example.org"), ("http://127.1:80/", "127.1:80")] {
            assert_eq!(asks(uri, &[]).unwrap(), left);
            assert!(Host::parse_with_port(left).is_err());
        }
        for uri in ["https://example.org/", "gopher://example.org/", "/path", "example.org:80", "*"] {
            assert!(!is_plain(&uri.parse().unwrap()), "{uri}");
        }
    }

    #[test]
    fn what_belongs_to_one_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("proxy-authorization", "Basic eDp5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
