//! Pages for agents. Only `GET`, without cookies or keys; every address is looked at before it is connected to, and every
//! redirect is a new question. What comes is bytes: nobody here reads them.

use super::Decision;
use super::address::is_public;
use super::pages::Pages;
use super::policy::Ceiling;
use crate::config::Engine;
use crate::gateway::Gateway;
use crate::http::Refused;
use crate::sandboxes::Sandboxes;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use choir_proto::TaskId;
use choir_proto::egress::{Host, WEB};
use choir_proto::wire::{Fetch, PAGE_URL_HEADER, Search, SearchHit, SearchHits};
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, StatusCode};
use reqwest::{Client, Url};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest page.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// How often a page may be somewhere else.
const REDIRECTS_MAX: usize = 5;
/// How long a page may take, with everything.
const PAGE_TIME: Duration = Duration::from_secs(30);
/// The longest address.
const URL_BYTES_MAX: usize = 2048;
/// What a search answers with.
const HITS_MAX: usize = 10;

/// Why a page was not fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("this is not an address of a web page")]
    Address,
    #[error("nobody gave this page; give its address yourself, or allow `{0}` in the settings")]
    Forbidden(String),
    #[error("{0} leads to an address that is not public")]
    Near(String),
    #[error("{0} is not known")]
    Unknown(String),
    #[error("the page is somewhere else, again and again")]
    Redirects,
    #[error("the page leads to what is not an address of a web page")]
    Astray,
    #[error("the page is longer than {PAGE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the page did not come in time")]
    Slow,
    #[error("the page answered with status {0}")]
    Status(u16),
    #[error("the page cannot be reached")]
    Failed(#[from] reqwest::Error),
    #[error("the search engine answered nonsense")]
    Nonsense,
}

impl FetchError {
    /// Whose fault it was: that of whoever asked, of a rule here, or of the site.
    fn status(&self) -> StatusCode {
        match self {
            Self::Address => StatusCode::BAD_REQUEST,
            Self::Forbidden(_) | Self::Near(_) => StatusCode::FORBIDDEN,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Unknown(_) | Self::Redirects | Self::Astray | Self::Status(_) | Self::Failed(_) | Self::Nonsense => {
                StatusCode::BAD_GATEWAY
            }
        }
    }
}

impl From<FetchError> for Refused {
    fn from(error: FetchError) -> Self {
        if let FetchError::Failed(source) = &error {
            tracing::debug!(error = source as &dyn std::error::Error, "a page could not be reached");
        }
        let hint = "Give another address, or bring the page in as a file.";
        Self::new(error.status(), "not_fetched", format!("Not fetched: {error}."), hint)
    }
}

/// Fetches pages for one computer.
#[derive(Clone)]
pub struct Fetcher {
    gateway: Gateway,
    /// Who knows what the person has said, and asks.
    sandboxes: Sandboxes,
    engines: Arc<[Engine]>,
    /// Which addresses nobody made up.
    pages: Pages,
    decisions: mpsc::Sender<Decision>,
}

/// A page as it came.
struct Page {
    url: Url,
    media_type: Option<HeaderValue>,
    bytes: Vec<u8>,
}

/// The routes for pages, on a computer's own socket.
pub fn service(fetcher: Fetcher) -> Router {
    Router::new().route("/fetch", post(fetch)).route("/search", post(search)).with_state(fetcher)
}

async fn fetch(State(fetcher): State<Fetcher>, body: Bytes) -> Result<Response, Refused> {
    let wish: Fetch = parse(&body)?;
    let said = fetcher.sandboxes.said(wish.task, wish.run).await?;
    let approved = said.iter().filter(|(_, allowed)| *allowed).map(|(entry, _)| entry.clone());
    let mut ceiling = Ceiling::new(fetcher.gateway.settings().egress.ceiling, approved);
    ceiling.entries = fetcher.pages.ceiling(ceiling.entries, &wish.url);
    let page = match within_time(fetcher.page(&wish.url, wish.task, &ceiling)).await {
        Err(FetchError::Forbidden(entry)) if wish.task.is_some() && !said.iter().any(|(known, _)| *known == entry) => {
            // What nobody has decided about yet is the person's to decide, once. What a search found is not asked about host by
            // host: they may let the run read all of that.
            let is_new = !said.iter().any(|(known, _)| known == WEB) && wish.run.is_some();
            let entry = if is_new && fetcher.pages.was_found(&wish.url) { WEB.to_owned() } else { entry };
            return match fetcher.sandboxes.ask_for(wish.task, wish.run, &entry).await? {
                Some(waits) => Ok((StatusCode::ACCEPTED, axum::Json(waits)).into_response()),
                None => Err(FetchError::Forbidden(entry).into()),
            };
        }
        page => page?,
    };
    let mut response = page.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, page.media_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    if let Ok(url) = HeaderValue::from_str(page.url.as_str()) {
        headers.insert(PAGE_URL_HEADER, url);
    }
    Ok(response)
}

async fn search(State(fetcher): State<Fetcher>, body: Bytes) -> Result<axum::Json<SearchHits>, Refused> {
    let wish: Search = parse(&body)?;
    let mut last = None;
    // One that is down or answers nonsense is no reason to find nothing.
    for engine in &*fetcher.engines {
        match fetcher.ask(engine, &wish).await {
            Ok(hits) => {
                fetcher.pages.found(hits.hits.iter().map(|hit| hit.url.as_str())).await;
                return Ok(axum::Json(hits));
            }
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error.into()),
        None => Ok(axum::Json(SearchHits { unset: true, ..SearchHits::default() })),
    }
}

fn hits(answer: &[u8]) -> Result<SearchHits, FetchError> {
    let answer: serde_json::Value = serde_json::from_slice(answer).map_err(|_| FetchError::Nonsense)?;
    let results = answer["results"].as_array().ok_or(FetchError::Nonsense)?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let hit = |result: &serde_json::Value| SearchHit {
        title: text(&result["title"]),
        url: text(&result["url"]),
        snippet: text(&result["content"]),
    };
    let hits = results.iter().map(hit).filter(|hit| !hit.url.is_empty()).take(HITS_MAX).collect();
    Ok(SearchHits { hits, unset: false })
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let hint = "Send what the wire says.";
    serde_json::from_slice(body).map_err(|error| Refused::bad_request(format!("This cannot be read: {error}."), hint))
}

async fn within_time(page: impl Future<Output = Result<Page, FetchError>>) -> Result<Page, FetchError> {
    tokio::time::timeout(PAGE_TIME, page).await.unwrap_or(Err(FetchError::Slow))
}

impl Fetcher {
    /// For a computer.
    pub fn new(
        gateway: Gateway,
        sandboxes: Sandboxes,
        engines: Vec<Engine>,
        pages: Pages,
        decisions: mpsc::Sender<Decision>,
    ) -> Self {
        Self { gateway, sandboxes, engines: engines.into(), pages, decisions }
    }

    /// Asks one engine.
    async fn ask(&self, engine: &Engine, wish: &Search) -> Result<SearchHits, FetchError> {
        let mut url = Url::parse(&engine.url).and_then(|base| base.join("search")).map_err(|_| FetchError::Address)?;
        url.query_pairs_mut().append_pair("q", &wish.query).append_pair("format", "json");
        // The person named this very engine: it may be near.
        let (host, port) = host_and_port(&url)?;
        let named = Ceiling::new(vec![format!("{host}:{port}")], []);
        hits(&within_time(self.page(url.as_str(), Some(wish.task), &named)).await?.bytes)
    }

    async fn page(&self, url: &str, task: Option<TaskId>, ceiling: &Ceiling) -> Result<Page, FetchError> {
        let mut url = Url::parse(url).map_err(|_| FetchError::Address)?;
        let mut place = host_and_port(&url)?;
        for _ in 0..=REDIRECTS_MAX {
            let (host, port) = place;
            let decided = decide(&host, port, ceiling).await;
            self.record(task, &host, port, &decided).await;
            let response = get(&url, decided?.1).await?;
            if !response.status().is_redirection() {
                return read(url, response).await;
            }
            let next = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            url = next.and_then(|next| url.join(next).ok()).ok_or(FetchError::Astray)?;
            place = host_and_port(&url).map_err(|_| FetchError::Astray)?;
        }
        Err(FetchError::Redirects)
    }

    async fn record(
        &self,
        task: Option<TaskId>,
        host: &Host,
        port: u16,
        decided: &Result<(String, SocketAddr), FetchError>,
    ) {
        let outcome = decided.as_ref().map(|(rule, _)| rule.clone()).map_err(ToString::to_string);
        // Nobody keeps decisions any more: control is stopping.
        self.decisions.send(Decision { task, host: host.to_string(), port, outcome }).await.ok();
    }
}

/// One grammar for hosts, and nothing in an address that only confuses.
pub(crate) fn host_and_port(url: &Url) -> Result<(Host, u16), FetchError> {
    let is_plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    if !is_plain || url.as_str().len() > URL_BYTES_MAX {
        return Err(FetchError::Address);
    }
    let host = url.host_str().and_then(|host| Host::parse(host).ok()).ok_or(FetchError::Address)?;
    Ok((host, url.port_or_known_default().ok_or(FetchError::Address)?))
}

/// The rule that allows a page, and the one address to get it from.
pub(crate) async fn decide(host: &Host, port: u16, ceiling: &Ceiling) -> Result<(String, SocketAddr), FetchError> {
    let shown = format!("{host}:{port}");
    let is_named = ceiling.names(host, port);
    // A yes would not help: nobody is asked for one.
    if is_own_machine(host) && !ceiling.may_be_near(host, port) {
        return Err(FetchError::Near(shown));
    }
    if !is_named && !ceiling.holds(WEB) {
        return Err(FetchError::Forbidden(shown));
    }
    let addresses: Vec<SocketAddr> = match host {
        Host::Address(address) => vec![SocketAddr::new(*address, port)],
        Host::Name(name) => {
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            found.map_err(|_| FetchError::Unknown(shown.clone()))?.collect()
        }
    };
    // One near address among public ones is a trap.
    if !ceiling.may_be_near(host, port) && addresses.iter().any(|address| !is_public(address.ip())) {
        return Err(FetchError::Near(shown));
    }
    let rule = if is_named { shown.clone() } else { WEB.to_owned() };
    addresses.first().map(|address| (rule, *address)).ok_or(FetchError::Unknown(shown))
}

/// Whether a name says by itself that it leads to this machine. What another leads to is known only once it is asked for.
fn is_own_machine(host: &Host) -> bool {
    matches!(host, Host::Name(name) if name == "localhost" || name.ends_with(".localhost"))
}

/// Asks the address that was decided about, and no other.
async fn get(url: &Url, address: SocketAddr) -> Result<reqwest::Response, FetchError> {
    // The first caller wins; every later one finds what it wanted.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = Client::builder()
        .resolve(url.host_str().unwrap_or_default(), address)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(PAGE_TIME)
        .timeout(PAGE_TIME)
        .user_agent(concat!("choir/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let response = client.get(url.clone()).send().await?;
    match response.remote_addr() {
        Some(peer) if peer == address => Ok(response),
        _ => Err(FetchError::Near(address.to_string())),
    }
}

async fn read(url: Url, mut response: reqwest::Response) -> Result<Page, FetchError> {
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let media_type = response.headers().get(CONTENT_TYPE).cloned();
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if bytes.len() + piece.len() > PAGE_BYTES_MAX {
            return Err(FetchError::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Page { url, media_type, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> bool {
        Url::parse(url).map_or(true, |url| host_and_port(&url).is_err())
    }

    #[test]
    fn only_plain_addresses_of_pages_are_taken() {
        for url in
            ["file:///etc/passwd", "gopher://x/", "http://user@example.org/", "ftp://x/", "//x", "http://", "data:,x"]
        {
            assert!(refused(url), "{url}");
        }
        assert!(!refused("https://example.org/a?b=c") && !refused("http://[2606:4700:4700::1111]:8080/"));
    }

    #[tokio::test]
    async fn near_addresses_are_refused_in_every_spelling_unless_the_person_named_them() {
        let web = Ceiling::new(vec![WEB.to_owned()], []);
        for url in [
            "http://127.0.0.1:9/",
            "http://2130706433:9/",
            "http://0x7f.1:9/",
            "http://[::ffff:127.0.0.1]:9/",
            "http://localhost:9/",
            "http://LOCALHOST:9/",
            "http://169.254.169.254/",
            "http://127.1:9/",
        ] {
            let Ok((host, port)) = host_and_port(&Url::parse(url).unwrap()) else { continue };
            assert!(matches!(decide(&host, port, &web).await, Err(FetchError::Near(_))), "{url}");
            let unasked = decide(&host, port, &Ceiling::default()).await;
            match url.to_lowercase().contains("localhost") {
                true => {
                    assert!(matches!(unasked, Err(FetchError::Near(_))), "a yes would not help, and nobody is asked")
                }
                false => assert!(matches!(unasked, Err(FetchError::Forbidden(_))), "{url}"),
            }
        }
        let (host, port) = host_and_port(&Url::parse("http://127.0.0.1:9/").unwrap()).unwrap();
        assert!(decide(&host, port, &Ceiling::new(vec!["127.0.0.1:9".to_owned()], [])).await.is_ok());
        let (host, port) = host_and_port(&Url::parse("http://localhost:9/").unwrap()).unwrap();
        let approved = Ceiling::new(Vec::new(), ["localhost:9".to_owned()]);
        assert!(matches!(decide(&host, port, &approved).await, Err(FetchError::Near(_))), "a name may lead anywhere");
    }

    #[test]
    fn what_an_engine_says_is_read_with_care() {
        let answer = br#"{"results": [{"title": "T", "url": "https://x/", "content": "c"}, {"title": 7}]}"#;
        assert_eq!(hits(answer).unwrap().hits.len(), 1);
        assert!(hits(b"<html>").is_err() && hits(b"{}").is_err());
    }
}
