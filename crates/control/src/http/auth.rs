//! Who an account is and what it may do. Identity comes from the session or the token and from nowhere else.

use super::App;
use super::error::Refused;
use super::limits::Key;
use super::serve::{Peer, Way};
use crate::computer::State as ComputerState;
use crate::db::{Grant, Scope, Session};
use crate::secret::{Digest, Secret};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use choir_proto::{ComputerId, Timestamp};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, COOKIE, UPGRADE};
use http::{HeaderMap, Method, StatusCode};
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks at a proof whose time is nearly over.
const EXPIRY_MIN: Duration = Duration::from_millis(10);

/// What an instance calls its session cookie. Browsers send a host's cookies to all of its ports, so two instances on one
/// machine would take each other's place under one name; and an instance keeps its sessions when it listens elsewhere, so the
/// name follows from its computer and not from its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(String);

impl CookieName {
    /// What every one of them begins with.
    pub(super) const PREFIX: &str = "choir_session_";

    /// Of the instance with this computer.
    pub fn of(computer: ComputerId) -> Self {
        Self(format!("{}{}", Self::PREFIX, Digest::of(computer.as_bytes()).short()))
    }

    /// The session that a browser sent, if it sent one of ours.
    pub(super) fn session(&self, headers: &HeaderMap) -> Option<Secret> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.0).map(|(_, value)| Secret::new(value))
    }
}

impl std::fmt::Display for CookieName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Somebody who proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// By what.
    pub proof: Proof,
    /// What they may do.
    pub scope: Scope,
    /// Until when.
    pub expires: Option<Timestamp>,
}

/// What was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A browser's cookie.
    Session(Digest),
    /// A program's token.
    Token(Digest),
    /// The way they came: the owner's door.
    Door,
}

impl Proof {
    const fn digest(self) -> Option<Digest> {
        match self {
            Self::Session(digest) | Self::Token(digest) => Some(digest),
            Self::Door => None,
        }
    }
}

/// The middleware in front of everything under `/api`.
pub(super) async fn require(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Refused> {
    let peer = request.extensions().get::<Peer>().copied();
    let Some(account) = account(&app, peer, request.headers()).await? else {
        return Err(stranger(&app, peer));
    };
    if let Some(digest) = account.proof.digest() {
        app.limits.take(Key::Account(digest)).map_err(Refused::too_many)?;
    }
    let needed = needed(&request);
    if account.scope < needed {
        let message = format!("This token may not do that: it takes the scope `{}`.", needed.name());
        let hint = format!("Make another one: choir token create --scope {}.", needed.name());
        return Err(Refused::new(StatusCode::FORBIDDEN, "wrong_scope", message, hint));
    }
    plain(request.headers())?;
    if needed > Scope::Read && !is_control_alone(request.uri().path()) {
        agreement(&app)?;
    }
    request.extensions_mut().insert(account);
    Ok(next.run(request).await)
}

/// Nothing is unpacked here: a body that says that it is packed would be taken for what it is not.
fn plain(headers: &HeaderMap) -> Result<(), Refused> {
    let is_plain = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    let message = "Bodies are taken as they are, not compressed.";
    let hint = "Send it without `Content-Encoding`.";
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoded", message, hint))
}

/// Nothing is written to a log that contradicts what control has signed: it may not be the one that people think it is.
fn agreement(app: &App) -> Result<(), Refused> {
    match &*app.computer.borrow() {
        ComputerState::Contradicted { reason, .. } => {
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

/// The account behind a request: whoever shows a token or a cookie is that, at the owner's door too.
pub(super) async fn account(app: &App, peer: Option<Peer>, headers: &HeaderMap) -> Result<Option<Account>, Refused> {
    let now = app.clock.now();
    if let Some(token) = bearer(headers) {
        let digest = token.digest();
        let grant = app.db.grant(digest, now).await?;
        return Ok(grant.map(|Grant { scope, expires }| Account { proof: Proof::Token(digest), scope, expires }));
    }
    if let Some(session) = app.cookie.session(headers) {
        let session = app.db.session(session.digest(), now).await?;
        let account = |session: Session| Account {
            proof: Proof::Session(session.digest),
            scope: Scope::Admin,
            expires: Some(session.expires),
        };
        return Ok(session.map(account));
    }
    let is_owner = peer.is_some_and(|peer| peer.way == Way::Door);
    Ok(is_owner.then_some(Account { proof: Proof::Door, scope: Scope::Admin, expires: None }))
}

/// How long a proof holds, for connections that outlive the request that opened them.
pub(super) struct Lease {
    app: App,
    account: Account,
    revoked: watch::Receiver<()>,
}

impl Lease {
    pub(super) fn of(app: &App, account: Account) -> Self {
        let mut revoked = app.revoked.subscribe();
        // Something may have been revoked since the request was looked at: it is doubted once from the beginning.
        revoked.mark_changed();
        Self { app: app.clone(), account, revoked }
    }

    /// Returns when the proof may have ended: somebody's was revoked, or its time is over. Nothing is lost when this is
    /// cancelled; the caller then asks whether it still holds.
    pub(super) async fn doubted(&mut self) {
        // Nobody is left to revoke anything once the front is gone, and then connections end anyway.
        tokio::select! {
            _ = self.revoked.changed() => {}
            () = expiry(&self.app, self.account) => {}
        }
    }

    pub(super) async fn holds(&self) -> bool {
        let now = self.app.clock.now();
        match self.account.proof {
            Proof::Session(digest) => matches!(self.app.db.session(digest, now).await, Ok(Some(_))),
            Proof::Token(digest) => matches!(self.app.db.grant(digest, now).await, Ok(Some(_))),
            Proof::Door => true,
        }
    }
}

/// The clock on the wall may be set; whether the time is really over is asked when it should be.
async fn expiry(app: &App, account: Account) {
    let Some(expires) = account.expires else { return std::future::pending().await };
    let left = u64::try_from(expires.0.saturating_sub(app.clock.now().0)).unwrap_or(0);
    tokio::time::sleep(Duration::from_micros(left).max(EXPIRY_MIN)).await;
}

/// Only refusals are counted against a peer: a flood of wrong guesses does not lock out whoever knows the right one.
fn stranger(app: &App, peer: Option<Peer>) -> Refused {
    if let Some(Err(wait)) = peer.map(|peer| app.limits.take(Key::Stranger(peer.remote))) {
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
    // A tour may kill the computer's process.
    const ADMIN: [&str; 6] =
        ["/api/settings", "/api/providers", "/api/inbox", "/api/import", "/api/tokens", "/api/tours"];
    // What is erased cannot be brought back by anybody.
    let erases = is_under(path, "/api/events");
    let is_admin = erases || ADMIN.iter().any(|prefix| is_under(path, prefix));
    match (reads, is_admin) {
        // Who else may come in is nobody else's business. Settings hold nothing secret: of a key they say where it is from.
        (true, _) if is_under(path, "/api/tokens") => Scope::Admin,
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
