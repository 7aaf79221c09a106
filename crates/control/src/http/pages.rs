//! Pages: the desktop for those who are signed in, the way in for those who are not.

use super::App;
use super::assets;
use super::auth;
use super::error::Refused;
use super::guard::text;
use super::limits::Key;
use super::serve::Peer;
use super::session;
use crate::secret::Secret;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

const SIGN_IN: &str = "Sign in";
const SIGN_IN_TEXT: &str = "<p>Open the address that <code>choir up</code> printed. It works once; \
    <code>choir token sign-in</code> prints a fresh one.</p>";
const USED: &str = "This sign-in address does not work any more";
const USED_TEXT: &str =
    "<p>Each address works once and for one day. <code>choir token sign-in</code> prints a fresh one.</p>";
const ELSEWHERE: &str = "Open the address yourself";
const ELSEWHERE_TEXT: &str = "<p>A sign-in address is not taken from another site or from a preview. \
    Copy it into the address bar.</p>";
const NO_DESKTOP: &str = "ChoirOS is running";
const NO_DESKTOP_TEXT: &str = "<p>This binary was built without the desktop. <code>cargo xtask up</code> builds it in; the \
    command line (<code>choir run</code>) and the API work without it.</p>";

/// `GET /`: the desktop, or `?token=…` to sign in.
pub(super) async fn root(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refused> {
    let headers = request.headers();
    if let Some(token) = token(request.uri().query()) {
        return sign_in(&app, peer, request.method(), headers, token).await;
    }
    app.limits.take(Key::Pages(peer.remote)).map_err(Refused::too_many)?;
    if auth::account(&app, Some(peer), headers).await?.is_none() {
        return Ok(page(StatusCode::UNAUTHORIZED, SIGN_IN, SIGN_IN_TEXT));
    }
    Ok(match assets::find("/index.html") {
        Some(index) => index.respond(headers),
        None => page(StatusCode::OK, NO_DESKTOP, NO_DESKTOP_TEXT),
    })
}

/// Any other path: a file of the desktop. They hold nothing private.
pub(super) async fn asset(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refused> {
    app.limits.take(Key::Pages(peer.remote)).map_err(Refused::too_many)?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refused::not_found());
    }
    let asset = assets::find(request.uri().path()).ok_or_else(Refused::not_found)?;
    Ok(asset.respond(request.headers()))
}

async fn sign_in(
    app: &App,
    peer: Peer,
    method: &Method,
    headers: &HeaderMap,
    token: Secret,
) -> Result<Response, Refused> {
    // A preview must not use up the address, and a link elsewhere must not sign a person in to somebody else's computer.
    if *method != Method::GET || is_foreign(headers) {
        return Ok(page(StatusCode::FORBIDDEN, ELSEWHERE, ELSEWHERE_TEXT));
    }
    if let Some(response) = session::begin(app, headers, &token).await? {
        return Ok(response);
    }
    app.limits.take(Key::Stranger(peer.remote)).map_err(Refused::too_many)?;
    Ok(page(StatusCode::UNAUTHORIZED, USED, USED_TEXT))
}

fn is_foreign(headers: &HeaderMap) -> bool {
    let purposes = ["sec-purpose", "purpose", "x-moz", "x-purpose"];
    let prefetch = purposes.iter().filter_map(|name| text(headers, name)).any(|purpose| {
        let purpose = purpose.to_ascii_lowercase();
        ["prefetch", "prerender", "preview"].iter().any(|word| purpose.contains(word))
    });
    prefetch || matches!(text(headers, "sec-fetch-site"), Some("cross-site" | "same-site"))
}

/// The value of `token` in a query. Our tokens are letters and digits, so nothing has to be decoded.
fn token(query: Option<&str>) -> Option<Secret> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token=")).map(Secret::new)
}

/// The texts are ours: no page of control shows anything that came from outside.
fn page(status: StatusCode, title: &'static str, text: &'static str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title} · ChoirOS</title>\n<link rel=\"stylesheet\" \
         href=\"/control.css\">\n<main>\n<h1>{title}</h1>\n{text}\n</main>\n</html>\n"
    );
    let mut response = (status, html).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
