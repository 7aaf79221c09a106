//! The broker: repositories over `http://broker/NAME/…`, fetched and never pushed to.
//!
//! Fetching is two requests whose names are known, so that control can tell it from everything else without looking into
//! anybody's TLS. A credential that a place of repositories wants is attached here: no sandbox ever holds it.

use crate::config;
use crate::outbound::Outbound;
use crate::secret::Secret;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use choir_llm::SecretError;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The name by which sandboxes know it.
pub(super) const NAME: &str = "broker";
/// Whose repositories are fetched by everybody.
const HOSTS: [&str; 4] = ["github.com", "gitlab.com", "codeberg.org", "bitbucket.org"];
/// As whom a token is shown where nobody says.
const USER: &str = "x-access-token";
/// What a client says it has; far below this for any repository that people work on.
const WANTS_BYTES_MAX: usize = 4 << 20;
/// How long it may take to say it.
const WANTS_TIME: Duration = Duration::from_secs(30);
/// How many of one task may be saying it at once; together with the others this bounds what control holds of it.
const WANTS_AT_ONCE: usize = 4;
/// Headers that fetching needs, in both directions.
const PASSED: [&str; 3] = ["git-protocol", "user-agent", "cache-control"];

/// The places of repositories; a cheap handle.
#[derive(Debug, Clone)]
pub struct Broker(Arc<[Endpoint]>);

/// One place.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// What stands after `http://broker/`.
    name: String,
    /// What that stands for; it ends with a slash.
    url: String,
    pub(super) host: String,
    pub(super) port: u16,
    credential: Credential,
}

#[derive(Debug)]
enum Credential {
    None,
    /// The value of a header.
    Authorization(Secret),
    /// One was meant to be there.
    Missing,
}

/// Why a configured place cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("the environment variable `{variable}` of the broker's `{name}` holds no token")]
pub struct TokenError {
    name: String,
    variable: String,
    source: SecretError,
}

impl Default for Broker {
    /// The public ones.
    fn default() -> Self {
        Self(HOSTS.iter().map(|host| public(host)).collect())
    }
}

fn public(host: &str) -> Endpoint {
    let url = format!("https://{host}/");
    Endpoint { name: host.to_owned(), url, host: host.to_owned(), port: 443, credential: Credential::None }
}

impl Broker {
    /// The configured places, and the public ones that none of them replaces.
    pub fn new(configured: &BTreeMap<String, config::BrokerEndpoint>) -> Result<Self, TokenError> {
        let mut endpoints: Vec<Endpoint> =
            configured.iter().map(|(name, endpoint)| read(name, endpoint)).collect::<Result<_, _>>()?;
        let replaced = |host: &str| configured.values().any(|endpoint| endpoint.url == format!("https://{host}/"));
        endpoints.extend(HOSTS.iter().filter(|host| !replaced(host)).map(|host| public(host)));
        Ok(Self(endpoints.into()))
    }

    /// Git's settings that lead it here.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([("GIT_CONFIG_COUNT".to_owned(), self.0.len().to_string())]);
        for (index, Endpoint { name, url, .. }) in self.0.iter().enumerate() {
            variables.insert(format!("GIT_CONFIG_KEY_{index}"), format!("url.http://{NAME}/{name}/.insteadOf"));
            variables.insert(format!("GIT_CONFIG_VALUE_{index}"), url.clone());
        }
        variables
    }

    /// Where a request leads, if it is one of the two of a fetch.
    pub(super) fn target<B>(&self, request: &Request<B>) -> Result<Target<'_>, &'static str> {
        let path = request.uri().path().trim_start_matches('/');
        let (name, repository) = path.split_once('/').ok_or("a repository has to be named")?;
        let known = self.0.iter().find(|endpoint| endpoint.name == name);
        let endpoint = known.ok_or("the broker does not know this host")?;
        let clean = repository.split('/').all(is_plain);
        let query = request.uri().query();
        let fetches = match (request.method(), query) {
            (&Method::GET, Some("service=git-upload-pack")) => repository.ends_with("/info/refs"),
            (&Method::POST, None) => repository.ends_with("/git-upload-pack"),
            _ => false,
        };
        if !clean || !fetches {
            return Err("only fetching is allowed");
        }
        let authorization = match &endpoint.credential {
            Credential::None => None,
            Credential::Authorization(value) => Some(value),
            Credential::Missing => return Err("its credential is not in the environment of this instance"),
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}{repository}{query}", endpoint.url);
        // Whoever sends it reads the address once more: what it reads must be what was looked at here.
        match reqwest::Url::parse(&url) {
            Ok(read) if read.as_str() == url => Ok(Target { endpoint, url, authorization }),
            _ => Err("only fetching is allowed"),
        }
    }
}

/// Whether a part of a path is a name that every reader reads alike: no way up, no other spelling of a slash.
fn is_plain(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+-".contains(&byte);
    !matches!(part, "" | "." | "..") && part.bytes().all(plain)
}

/// Where a request leads.
pub(super) struct Target<'a> {
    pub(super) endpoint: &'a Endpoint,
    url: String,
    authorization: Option<&'a Secret>,
}

fn read(name: &str, from: &config::BrokerEndpoint) -> Result<Endpoint, TokenError> {
    let url = reqwest::Url::parse(&from.url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default().to_owned();
    let port = url.as_ref().and_then(reqwest::Url::port_or_known_default).unwrap_or_default();
    let credential = credential(name, from)?;
    Ok(Endpoint { name: name.to_owned(), url: from.url.clone(), host, port, credential })
}

fn credential(name: &str, from: &config::BrokerEndpoint) -> Result<Credential, TokenError> {
    let Some(variable) = &from.token_env else { return Ok(Credential::None) };
    let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) else {
        // Asked without it, the place would say that there is no such repository, and nobody would know why.
        tracing::warn!(name, variable, "a credential of the broker is not in the environment");
        return Ok(Credential::Missing);
    };
    let wrong = |source| TokenError { name: name.to_owned(), variable: variable.clone(), source };
    let token = choir_llm::Secret::parse(&value).map_err(wrong)?;
    let user = from.user.as_deref().unwrap_or(USER);
    let pair = BASE64_STANDARD.encode(format!("{user}:{}", token.expose()));
    Ok(Credential::Authorization(Secret::new(format!("Basic {pair}"))))
}

/// Room for what the clients of one task say that they want.
pub(super) struct Wants(Semaphore);

impl Default for Wants {
    fn default() -> Self {
        Self(Semaphore::new(WANTS_AT_ONCE))
    }
}

impl Wants {
    /// Reads all of it before the outside is asked, so that nothing stays open there for a client that is slow on purpose. Its
    /// room is taken until the outside has heard it.
    async fn hear<B>(&self, body: B) -> Result<(SemaphorePermit<'_>, Bytes), StatusCode>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let room = self.0.acquire().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let heard = tokio::time::timeout(WANTS_TIME, Limited::new(body, WANTS_BYTES_MAX).collect()).await;
        let heard = heard.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
        let heard = heard.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        Ok((room, heard.to_bytes()))
    }
}

/// Does the request outside and passes the answer back.
pub(super) async fn fetch<B>(outbound: &Outbound, wants: &Wants, target: Target<'_>, request: Request<B>) -> Response
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let Target { url, authorization, .. } = target;
    let names = PASSED.iter().copied().chain([ACCEPT.as_str(), CONTENT_TYPE.as_str(), CONTENT_ENCODING.as_str()]);
    let mut headers: Vec<(&str, String)> =
        names.filter_map(|name| Some((name, head.headers.get(name)?.to_str().ok()?.to_owned()))).collect();
    headers.extend(authorization.map(|value| (AUTHORIZATION.as_str(), value.expose().to_owned())));
    let answer = match head.method {
        Method::POST => match wants.hear(body).await {
            Ok((_room, body)) => outbound.post(&url, &headers, body.into()).await,
            Err(status) => return status.into_response(),
        },
        _ => outbound.get_stream(&url, &headers).await,
    };
    match answer {
        // What a refusal says is for whoever holds the credential, and may repeat it.
        Ok(answer) if authorization.is_some() && !answer.status().is_success() => answer.status().into_response(),
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
        Broker::default().target(&request).map(|target| target.url)
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
            ("POST", "/github.com/..\\other/git-upload-pack"),
            ("POST", "/github.com/a\\..\\..\\b/git-upload-pack"),
            ("POST", "/github.com/a/b;x/git-upload-pack"),
            ("POST", "/github.com/login/oauth/access_token"),
            ("DELETE", "/github.com/a/b/git-upload-pack"),
            ("GET", "/"),
        ] {
            assert!(leads(method, path).is_err(), "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_too_much_or_never_ends_holds_nothing_for_long() {
        let wants = Wants::default();
        let endless = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(wants.hear(endless()).await.err(), Some(StatusCode::REQUEST_TIMEOUT));
        let large = Body::from(vec![0; WANTS_BYTES_MAX + 1]);
        assert_eq!(wants.hear(large).await.err(), Some(StatusCode::PAYLOAD_TOO_LARGE));
        let held = [(); WANTS_AT_ONCE].map(|()| wants.0.try_acquire().expect("room was given back"));
        let fifth = tokio::time::timeout(WANTS_TIME, wants.hear(Body::from("0000"))).await;
        assert!(fifth.is_err(), "the next one waits");
        drop(held);
        assert_eq!(wants.hear(Body::from("0000")).await.unwrap().1, "0000");
    }

    #[test]
    fn a_configured_place_stands_before_the_public_one_and_says_when_its_credential_is_missing() {
        let endpoint = |url: &str, variable: Option<&str>| config::BrokerEndpoint {
            url: url.to_owned(),
            token_env: variable.map(ToOwned::to_owned),
            user: None,
        };
        let broker = Broker::new(&BTreeMap::from([
            ("hub".to_owned(), endpoint("https://github.com/", None)),
            ("acme".to_owned(), endpoint("https://git.example/acme/", Some("CHOIR_TEST_NO_SUCH_TOKEN"))),
        ]))
        .unwrap();
        let variables = broker.environment();
        assert_eq!(variables["GIT_CONFIG_COUNT"], "5");
        let leads: Vec<_> = variables.values().filter(|value| *value == "https://github.com/").collect();
        assert_eq!(leads.len(), 1, "{variables:?}");
        let ask = |path: &str| {
            let uri = format!("http://broker{path}/info/refs?service=git-upload-pack");
            broker.target(&Request::builder().uri(uri).body(()).unwrap()).map(|target| target.url)
        };
        assert_eq!(ask("/hub/a/b").unwrap(), "https://github.com/a/b/info/refs?service=git-upload-pack");
        assert!(ask("/github.com/a/b").is_err());
        assert_eq!(ask("/acme/b"), Err("its credential is not in the environment of this instance"));
        assert!(
            ask("/acme/../other/b").is_err() && ask("/acme/%2e%2e/b").is_err(),
            "what lies beneath, and nothing else"
        );
    }
}
