//! The broker: repositories over `http://broker/HOST/…`, fetched and never pushed to.
//!
//! Fetching is two requests whose names are known, so that control can tell it from everything else without looking into
//! anybody's TLS.

use crate::outbound::Outbound;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use choir_proto::egress::Host;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use std::collections::BTreeMap;

/// The name by which sandboxes know it.
pub(super) const NAME: &str = "broker";
/// Whose repositories are fetched.
const HOSTS: [&str; 4] = ["github.com", "gitlab.com", "codeberg.org", "bitbucket.org"];
/// What a client says it has; far below this for any repository that people work on.
const WANTS_BYTES_MAX: usize = 16 << 20;
/// Headers that fetching needs, in both directions.
const PASSED: [&str; 3] = ["git-protocol", "user-agent", "cache-control"];

/// Git's settings that lead it here.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([("GIT_CONFIG_COUNT".to_owned(), HOSTS.len().to_string())]);
    for (index, host) in HOSTS.iter().enumerate() {
        variables.insert(format!("GIT_CONFIG_KEY_{index}"), format!("url.http://{NAME}/{host}/.insteadOf"));
        variables.insert(format!("GIT_CONFIG_VALUE_{index}"), format!("https://{host}/"));
    }
    variables
}

/// Where a request leads, if it is one of the two of a fetch.
pub(super) fn target<B>(request: &Request<B>) -> Result<(Host, String), &'static str> {
    let path = request.uri().path().trim_start_matches('/');
    let (host, repository) = path.split_once('/').ok_or("a repository has to be named")?;
    if !HOSTS.contains(&host) {
        return Err("the broker does not know this host");
    }
    let clean =
        repository.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('%'));
    let query = request.uri().query();
    let fetches = match (request.method(), query) {
        (&Method::GET, Some("service=git-upload-pack")) => repository.ends_with("/info/refs"),
        (&Method::POST, None) => repository.ends_with("/git-upload-pack"),
        _ => false,
    };
    match clean && fetches {
        true => {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            Ok((Host::Name(host.to_owned()), format!("https://{host}/{repository}{query}")))
        }
        false => Err("only fetching is allowed"),
    }
}

/// Does the request outside and passes the answer back.
pub(super) async fn fetch<B>(outbound: &Outbound, url: &str, request: Request<B>) -> Response
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let names = PASSED.iter().copied().chain([ACCEPT.as_str(), CONTENT_TYPE.as_str(), CONTENT_ENCODING.as_str()]);
    let headers: Vec<(&str, String)> =
        names.filter_map(|name| Some((name, head.headers.get(name)?.to_str().ok()?.to_owned()))).collect();
    let answer = match head.method {
        Method::POST => match Limited::new(body, WANTS_BYTES_MAX).collect().await {
            Ok(body) => outbound.post(url, &headers, body.to_bytes().into()).await,
            Err(_) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        },
        _ => outbound.get_stream(url, &headers).await,
    };
    match answer {
        Ok(answer) => pass_back(answer),
        Err(error) => {
            tracing::debug!(error = &error.without_url() as &dyn std::error::Error, "a fetch failed");
            StatusCode::BAD_GATEWAY.into_response()
        }
    }
}

fn pass_back(answer: reqwest::Response) -> Response {
    let status = answer.status();
    let kept =
        [CONTENT_TYPE, CONTENT_ENCODING].map(|name| answer.headers().get(&name).map(|value| (name, value.clone())));
    let mut response = (status, Body::from_stream(answer.bytes_stream())).into_response();
    for (name, value) in kept.into_iter().flatten() {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(method: &str, path: &str) -> Result<String, &'static str> {
        let request = Request::builder().method(method).uri(format!("http://broker{path}")).body(()).unwrap();
        target(&request).map(|(_, url)| url)
    }

    #[test]
    fn the_two_requests_of_a_fetch_pass() {
        let refs = leads("GET", "/github.com/a/b.git/info/refs?service=git-upload-pack").unwrap();
        assert_eq!(refs, "https://github.com/a/b.git/info/refs?service=git-upload-pack");
        assert_eq!(leads("POST", "/gitlab.com/a/b/git-upload-pack").unwrap(), "https://gitlab.com/a/b/git-upload-pack");
    }

    #[test]
    fn pushing_and_everything_else_is_refused() {
        for (method, path) in [
            ("GET", "/github.com/a/b/info/refs?service=git-receive-pack"),
            ("POST", "/github.com/a/b/git-receive-pack"),
            ("GET", "/github.com/a/b/info/refs"),
            ("GET", "/github.com/a/b/info/refs?service=git-upload-pack&x=1"),
            ("POST", "/github.com/a/b/git-upload-pack?x=secret"),
            ("GET", "/evil.example/a/b/info/refs?service=git-upload-pack"),
            ("POST", "/github.com/../evil/git-upload-pack"),
            ("POST", "/github.com/a/%2e%2e/git-upload-pack"),
            ("POST", "/github.com/login/oauth/access_token"),
            ("DELETE", "/github.com/a/b/git-upload-pack"),
            ("GET", "/"),
        ] {
            assert!(leads(method, path).is_err(), "{method} {path}");
        }
    }
}
