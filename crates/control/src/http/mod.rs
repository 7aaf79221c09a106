//! The front: HTTP and WebSocket for browsers and programs.
//!
//! Every request passes, in this order: the security headers (on the way out), [`guard`], and under `/api`
//! authentication with its limits. Upgrades take the same way as requests.

mod assets;
mod auth;
mod error;
mod extract;
mod files;
mod forward;
mod goodbye;
mod guard;
mod headers;
mod health;
mod inbox;
mod json;
mod limits;
mod line;
mod model;
mod openapi;
mod pages;
mod providers;
mod queries;
mod serve;
mod session;
mod settings;
mod stream;
mod supervision;
mod sync;
mod terminals;
mod tokens;
mod tours;
mod trees;
mod upload;

pub use auth::{Account, CookieName, Proof};
pub use error::Refused;
pub use guard::Names;
pub use limits::{JSON_BYTES_MAX, Limits};
pub use openapi::openapi;
pub use serve::{Front, Peer, Way, serve};

use crate::audit::Audit;
use crate::clock::Clock;
use crate::computer::{Hub, Link, Plug, State};
use crate::db::Db;
use crate::egress::Pages;
use crate::gateway::Gateway;
use crate::inbox::Inbox;
use crate::sandboxes::Sandboxes;
use crate::stop::Stop;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, delete, get, post, put};
use choir_proto::api::Acknowledged;
use choir_proto::event::{Actor, Event};
use choir_proto::wire::Record;
use http::StatusCode;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of an [`App`].
pub struct Parts {
    /// Control's database.
    pub db: Db,
    /// For expiry.
    pub clock: Clock,
    /// Who asked how often.
    pub limits: Limits,
    /// Under which names we are reached.
    pub names: Names,
    /// What browsers know their session by.
    pub cookie: CookieName,
    /// What was refused because of where it came from.
    pub audit: Audit,
    /// The computer.
    pub link: Link,
    /// Its log.
    pub hub: Arc<Hub>,
    /// How it is.
    pub computer: watch::Receiver<State>,
    /// To kill it, where a person wants to see that.
    pub plug: Plug,
    /// Associates, terminals and the keeper.
    pub sandboxes: Sandboxes,
    /// Providers and settings.
    pub gateway: Gateway,
    /// What waits for a person's word.
    pub inbox: Inbox,
    /// Which addresses the person gave.
    pub pages: Pages,
    /// Heard when connections should end.
    pub stop: Stop,
    /// The computer's part of the API description.
    pub computer_api: fn() -> utoipa::openapi::OpenApi,
    /// Rings when a session or token ended, so that long-lived connections look again.
    pub revoked: watch::Sender<()>,
}

impl App {
    /// From its parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Tells the computer's log a fact that control knows first.
    pub(crate) async fn record(&self, actor: Actor, event: &Event) -> Result<Acknowledged, Refused> {
        let (kind, version, payload) = (event.kind().to_string(), event.version(), event.payload());
        let record = Record { actor, run: None, task: None, kind, version, payload };
        Ok(self.link.ask("/internal/record", &record).await?)
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// All routes.
pub fn router(app: App) -> Router {
    let queries = Arc::new(queries::Queries::described());
    let api = Router::new()
        .route("/api/openapi.json", get(openapi::get))
        .route("/api/session", delete(session::end))
        .route("/api/inbox", get(inbox::list))
        .route("/api/inbox/{id}", post(inbox::decide))
        .route("/api/tokens", get(tokens::list))
        .route("/api/tokens/{id}", delete(tokens::revoke))
        .route("/api/settings", get(settings::get).put(settings::put))
        .route("/api/providers/{name}", put(providers::put))
        .route("/api/providers/{name}/test", post(providers::test))
        .route("/api/stream", get(stream::open))
        .route("/api/supervision", get(supervision::get))
        .route("/api/files", get(files::read).put(files::write).delete(files::remove))
        .route("/api/files/list", get(files::list))
        .route("/api/files/move", post(files::rename))
        .route("/api/trees/diff", get(trees::diff))
        .route("/api/terminals", get(terminals::list).post(terminals::open))
        .route("/api/terminals/{id}", get(terminals::attach).delete(terminals::close))
        .route("/api/documents/{id}/sync", get(sync::open))
        .route("/api/tours", post(tours::begin))
        .route("/api/tours/{id}/plug", post(tours::pull_the_plug))
        .route("/api/{*rest}", any(forward::forward))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(queries.clone(), queries::check))
        .layer(from_fn_with_state(app.clone(), guard::note_refused))
        .layer(from_fn_with_state(app.clone(), auth::require));
    Router::new()
        .route("/health", get(health::get).layer(from_fn_with_state(queries, queries::check)))
        .route("/", get(pages::root))
        .fallback(pages::asset)
        .method_not_allowed_fallback(method_not_allowed)
        .merge(api)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn(headers::add))
        .with_state(app)
}

async fn method_not_allowed() -> Refused {
    let hint = "See /api/openapi.json.";
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "This address does not take that method.", hint)
}
