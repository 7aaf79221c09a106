//! Who an account is and what it may do. Identity comes from the session or the token and from nowhere else.

use super::App;
use super::error::Refused;
use super::limits::Key;
use super::serve::Peer;
use crate::computer::State as ComputerState;
use crate::db::Scope;
use crate::secret::{Digest, Secret};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, COOKIE, UPGRADE};
use http::{HeaderMap, Method, StatusCode};

/// The cookie's name.
pub const COOKIE_NAME: &str = "choir_session";

/// Somebody who proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// By what.
    pub proof: Proof,
    /// What they may do.
    pub scope: Scope,
}

/// What was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A browser's cookie.
    Session(Digest),
    /// A program's token.
    Token(Digest),
}

impl Proof {
    const fn digest(self) -> Digest {
        match self {
            Self::Session(digest) | Self::Token(digest) => digest,
        }
    }
}

/// The middleware in front of everything under `/api`.
pub(super) async fn require(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Refused> {
    let Some(account) = account(&app, request.headers()).await? else {
        return Err(stranger(&app, &request));
    };
    app.limits.take(Key::Account(account.proof.digest())).map_err(Refused::too_many)?;
    let needed = needed(&request);
    if account.scope < needed {
        let message = format!("This token may not do that: it takes the scope `{}`.", needed.name());
        let hint = format!("Make another one: choir token create --scope {}.", needed.name());
        return Err(Refused::new(StatusCode::FORBIDDEN, "wrong_scope", message, hint));
    }
    if needed > Scope::Read && !is_control_alone(request.uri().path()) {
        agreement(&app)?;
    }
    request.extensions_mut().insert(account);
    Ok(next.run(request).await)
}

/// Nothing is written to a log that contradicts what control has signed: it may not be the one that people think it is.
fn agreement(app: &App) -> Result<(), Refused> {
    match &*app.computer.borrow() {
        ComputerState::Contradicted { reason } => {
            let message = format!("Nothing is written: {reason}.");
            Err(Refused::unavailable("log_contradicted", message, "Stop and run `choir verify`."))
        }
        _ => Ok(()),
    }
}

/// What is kept in control's own database and nowhere else.
fn is_control_alone(path: &str) -> bool {
    const OWN: [&str; 4] = ["/api/session", "/api/settings", "/api/providers", "/api/tokens"];
    OWN.iter().any(|prefix| is_under(path, prefix))
}

/// The account behind a request's cookie or token.
pub(super) async fn account(app: &App, headers: &HeaderMap) -> Result<Option<Account>, Refused> {
    let now = app.clock.now();
    if let Some(token) = bearer(headers) {
        let digest = token.digest();
        let scope = app.db.token_scope(digest, now).await?;
        return Ok(scope.map(|scope| Account { proof: Proof::Token(digest), scope }));
    }
    let Some(session) = session_cookie(headers) else { return Ok(None) };
    let session = app.db.session(session.digest(), now).await?;
    Ok(session.map(|session| Account { proof: Proof::Session(session.digest), scope: Scope::Admin }))
}

/// Whether an account still is one: asked again by connections that live long.
pub(super) async fn is_valid(app: &App, proof: Proof) -> bool {
    let now = app.clock.now();
    match proof {
        Proof::Session(digest) => matches!(app.db.session(digest, now).await, Ok(Some(_))),
        Proof::Token(digest) => matches!(app.db.token_scope(digest, now).await, Ok(Some(_))),
    }
}

/// Only refusals are counted against a peer: a flood of wrong guesses does not lock out whoever knows the right one.
fn stranger(app: &App, request: &Request) -> Refused {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.remote);
    if let Some(Err(wait)) = peer.map(|peer| app.limits.take(Key::Stranger(peer))) {
        return Refused::too_many(wait);
    }
    let message = "Nobody is signed in.";
    let hint = "Open the address that `choir up` printed, or send `Authorization: Bearer TOKEN` (choir token create).";
    Refused::new(StatusCode::UNAUTHORIZED, "not_signed_in", message, hint)
}

/// What a request takes. Upgrades other than the event stream carry keystrokes and edits: they are writes.
fn needed(request: &Request) -> Scope {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD)
        && (path == "/api/stream" || !request.headers().contains_key(UPGRADE));
    const ADMIN: [&str; 5] = ["/api/settings", "/api/providers", "/api/inbox", "/api/import", "/api/tokens"];
    // What is erased cannot be brought back by anybody.
    let erases = is_under(path, "/api/events");
    let is_admin = erases || ADMIN.iter().any(|prefix| is_under(path, prefix));
    match (reads, is_admin) {
        (true, _) => Scope::Read,
        (false, true) => Scope::Admin,
        (false, false) => Scope::Run,
    }
}

fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::new(token.trim()))
}

pub(super) fn session_cookie(headers: &HeaderMap) -> Option<Secret> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| Secret::new(value))
}
