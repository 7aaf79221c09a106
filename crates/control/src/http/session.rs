//! Sessions of browsers: begun by a one-time address, ended by signing out.

use super::App;
use super::auth::{Account, CookieName, Proof};
use super::error::Refused;
use crate::secret::Secret;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::time::Duration;

/// A person signs in again once a month.
const SESSION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Uses up a sign-in address. The session's id is always fresh: one that was planted before is worth nothing after.
pub(super) async fn begin(app: &App, headers: &HeaderMap, token: &Secret) -> Result<Option<Response>, Refused> {
    let id = Secret::random();
    let (now, expires) = (app.clock.now(), app.clock.after(SESSION));
    if !app.db.sign_in(token.digest(), id.digest(), now, expires).await? {
        return Ok(None);
    }
    if let Some(old) = app.cookie.session(headers) {
        app.db.end_session(old.digest()).await?;
        app.revoked.send_replace(());
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().insert(SET_COOKIE, cookie(&app.cookie, id.expose(), SESSION));
    Ok(Some(response))
}

/// Signs out, here and in every open connection of this session.
#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 204)))]
pub(super) async fn end(State(app): State<App>, Extension(account): Extension<Account>) -> Result<Response, Refused> {
    let Proof::Session(session) = account.proof else {
        let hint = "A token is not a session; nothing has to be ended.";
        return Err(Refused::bad_request("There is no session to end.", hint));
    };
    app.db.end_session(session).await?;
    app.revoked.send_replace(());
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(SET_COOKIE, cookie(&app.cookie, "", Duration::ZERO));
    Ok(response)
}

fn cookie(name: &CookieName, value: &str, age: Duration) -> HeaderValue {
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", age.as_secs());
    let mut cookie = HeaderValue::from_str(&text).expect("digits and letters are a header");
    cookie.set_sensitive(true);
    cookie
}
