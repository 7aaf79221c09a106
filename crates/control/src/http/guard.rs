//! Who is asking, before anything is looked at: Host, Origin and Fetch-Metadata, on requests and upgrades alike.

use super::App;
use super::error::Refused;
use super::serve::{Peer, Way};
use crate::audit::quoted;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use choir_proto::event::{RefusalReason, RequestRefused};
use http::header::{HOST, ORIGIN, SEC_WEBSOCKET_KEY, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The names under which this instance may be addressed.
#[derive(Debug)]
pub struct Names {
    listen: String,
}

impl Names {
    /// Loopback names, the address that a connection arrived at, and the one that was configured.
    pub fn new(listen_host: &str) -> Self {
        Self { listen: listen_host.trim_matches(['[', ']']).to_ascii_lowercase() }
    }

    fn knows(&self, host: &str, local: IpAddr) -> bool {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        match host.parse::<IpAddr>() {
            // A literal address cannot be rebound by DNS, but it must be one that leads here: where `localhost` leads, or where
            // the connection came in. Of the other addresses of loopback nobody knows who listens there.
            Ok(address) => {
                let is_localhost = address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
                is_localhost || address.to_canonical() == local.to_canonical()
            }
            Err(_) => host == "localhost" || (host == self.listen && !host.is_empty()),
        }
    }
}

/// The middleware.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Result<Response, Refused> {
    let local = request.extensions().get::<Peer>().map(|peer| peer.local);
    let host = one_host(&request).filter(|host| local.is_some_and(|local| app.names.knows(host.host(), local)));
    let Some(host) = host else {
        note(&app, &request, RefusalReason::WrongHost);
        let message = "This server does not go by that name.";
        let hint = "Open the address that `choir up` printed.";
        return Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message, hint));
    };
    if !is_ours(&request, &host) {
        note(&app, &request, RefusalReason::ForeignOrigin);
        let message = "Requests from other sites are refused.";
        let hint = "Use the desktop, or a program with an API token.";
        return Err(Refused::new(StatusCode::FORBIDDEN, "foreign_origin", message, hint));
    }
    if request.headers().contains_key(UPGRADE) && !has_key(request.headers()) {
        let hint = "Send sixteen random bytes in base64 as Sec-WebSocket-Key.";
        return Err(Refused::bad_request("The key of the WebSocket is none.", hint));
    }
    Ok(next.run(request).await)
}

/// The middleware behind which is known who asks: whoever names what is not theirs is told nothing, and noted. So is whoever
/// asks for a task that cannot be.
pub(super) async fn note_refused(State(app): State<App>, request: Request, next: Next) -> Response {
    let noted = may_be_noted(&request).map(|(status, reason)| (status, refusal(&request, reason)));
    let response = next.run(request).await;
    match noted {
        Some((status, refusal)) if status == response.status() => app.audit.note(refusal),
        _ => {}
    }
    response
}

/// The answer that is worth a note, and why.
fn may_be_noted(request: &Request) -> Option<(StatusCode, RefusalReason)> {
    let path = request.uri().path();
    let is_task = request.method() == Method::POST && path == "/api/tasks";
    let of_task = is_task.then_some((StatusCode::BAD_REQUEST, RefusalReason::ImpossibleTask));
    of_task.or_else(|| names_one(path).then_some((StatusCode::NOT_FOUND, RefusalReason::UnknownId)))
}

/// Whether a path names one of many by its id.
fn names_one(path: &str) -> bool {
    const MANY: [&str; 8] = ["artifacts", "blobs", "documents", "events", "inbox", "runs", "tasks", "terminals"];
    let mut parts = path.strip_prefix("/api/").unwrap_or_default().split('/');
    parts.next().is_some_and(|first| MANY.contains(&first)) && parts.next().is_some_and(|id| !id.is_empty())
}

fn note(app: &App, request: &Request, reason: RefusalReason) {
    tracing::debug!(reason = reason.name(), method = %request.method(), path = request.uri().path(), "a request was refused");
    app.audit.note(refusal(request, reason));
}

fn refusal(request: &Request, reason: RefusalReason) -> RequestRefused {
    let peer = match request.extensions().get::<Peer>() {
        Some(Peer { way: Way::Network, remote, .. }) => remote.to_string(),
        Some(Peer { way: Way::Door, .. }) | None => "the owner's door".to_owned(),
    };
    RequestRefused {
        reason,
        method: quoted(request.method().as_str()),
        path: quoted(request.uri().path()),
        origin: text(request.headers(), "origin").map(quoted),
        peer,
        count: 1,
    }
}

/// Exactly one Host header, agreeing with an absolute request target if there is one.
fn one_host(request: &Request) -> Option<Authority> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host: Authority = hosts.next()?.to_str().ok()?.parse().ok()?;
    let agrees = request.uri().authority().is_none_or(|target| *target == host);
    (hosts.next().is_none() && agrees && !host.as_str().contains('@')).then_some(host)
}

/// Programs send neither header. A browser sends at least one of them with everything that could do harm.
fn is_ours(request: &Request, host: &Authority) -> bool {
    let (headers, method) = (request.headers(), request.method());
    let harmless = matches!(*method, Method::GET | Method::HEAD) && !headers.contains_key(UPGRADE);
    // Two of a kind are a riddle, as is what is no text, and whoever sets riddles is not ours.
    if ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "origin"].iter().any(|name| is_riddle(headers, name)) {
        return false;
    }
    let site = text(headers, "sec-fetch-site");
    match site {
        None | Some("same-origin") => {}
        // A typed address or a bookmark.
        Some("none") if harmless => {}
        // A link from elsewhere may open the desktop, never the API.
        Some(_) if harmless && is_navigation(headers) && !is_api(request) => {}
        Some(_) => return false,
    }
    match headers.get(ORIGIN) {
        None => true,
        Some(origin) => origin.to_str().is_ok_and(|origin| is_same_origin(origin, host)),
    }
}

fn is_riddle(headers: &HeaderMap, name: &str) -> bool {
    let mut said = headers.get_all(name).iter();
    said.next().is_some_and(|first| first.to_str().is_err()) || said.next().is_some()
}

/// Whether the key of an upgrade is one: sixteen bytes in base64. Whoever sends another does not speak the protocol.
fn has_key(headers: &HeaderMap) -> bool {
    let key = headers.get(SEC_WEBSOCKET_KEY).map(|key| STANDARD.decode(key.as_bytes()));
    key.is_none_or(|key| key.is_ok_and(|bytes| bytes.len() == 16))
}

fn is_same_origin(origin: &str, host: &Authority) -> bool {
    origin.strip_prefix("http://").is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
}

fn is_navigation(headers: &HeaderMap) -> bool {
    text(headers, "sec-fetch-mode") == Some("navigate") && text(headers, "sec-fetch-dest") == Some("document")
}

fn is_api(request: &Request) -> bool {
    request.uri().path().starts_with("/api")
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let mut builder = http::Request::builder().method(method).uri("/api/runs");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::empty()).unwrap()
    }

    fn ours(method: &str, headers: &[(&str, &str)]) -> bool {
        is_ours(&request(method, headers), &"127.0.0.1:8080".parse().unwrap())
    }

    #[test]
    fn only_names_that_lead_here_are_known() {
        let names = Names::new("box.example");
        let local: IpAddr = "192.168.1.5".parse().unwrap();
        for host in ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "192.168.1.5", "box.example"] {
            assert!(names.knows(host, local), "{host}");
        }
        for host in ["evil.example", "192.168.1.6", "127.0.0.1.evil.example", "0.0.0.0", "", "localhost.", "127.5.5.5"]
        {
            assert!(!names.knows(host, local), "{host}");
        }
        assert!(names.knows("127.5.5.5", "127.5.5.5".parse().unwrap()), "it came in there");
    }

    #[test]
    fn other_origins_are_refused_on_writes_and_upgrades() {
        assert!(ours("POST", &[]));
        assert!(ours("POST", &[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]));
        assert!(!ours("POST", &[("origin", "http://127.0.0.1:3000")]));
        assert!(!ours("POST", &[("origin", "null")]));
        assert!(!ours("POST", &[("sec-fetch-site", "cross-site")]));
        assert!(!ours("POST", &[("sec-fetch-site", "none")]));
        assert!(!ours("GET", &[("upgrade", "websocket"), ("origin", "http://evil.example")]));
        assert!(ours("GET", &[("upgrade", "websocket"), ("origin", "http://127.0.0.1:8080")]));
        let twice = [("origin", "http://127.0.0.1:8080"), ("origin", "http://evil.example")];
        assert!(!ours("POST", &twice), "the first of two origins is not believed");
        assert!(!ours("POST", &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]));
        for name in ["sec-fetch-site", "sec-fetch-mode", "origin"] {
            let mut odd = request("POST", &[]);
            odd.headers_mut().insert(name, http::HeaderValue::from_bytes(b"\xffcross-site").unwrap());
            assert!(!is_ours(&odd, &"127.0.0.1:8080".parse().unwrap()), "{name}: what is no text is not absent");
        }
        assert!(!ours("GET", &[("sec-fetch-site", "same-site")]), "another port of this machine may not read the API");
    }

    #[test]
    fn only_what_is_one_of_many_is_named() {
        assert!(names_one("/api/runs/x") && names_one("/api/documents/x/versions/1") && names_one("/api/blobs/x"));
        assert!(
            !names_one("/api/runs") && !names_one("/api/runs/") && !names_one("/api/files") && !names_one("/runs/x")
        );
    }

    #[test]
    fn a_key_is_sixteen_bytes() {
        let key = |value: &str| has_key(request("GET", &[("sec-websocket-key", value)]).headers());
        assert!(key("AAAAAAAAAAAAAAAAAAAAAA=="));
        for wrong in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAA", "!AAAAAAAAAAAAAAAAAAAAA=="] {
            assert!(!key(wrong), "{wrong}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        assert!(one_host(&request("GET", &[("host", "localhost"), ("host", "evil.example")])).is_none());
        assert!(one_host(&request("GET", &[("host", "user@localhost")])).is_none());
        assert!(one_host(&request("GET", &[])).is_none());
    }
}
