//! The API over one computer. Control has checked who asks; here it is only said what they get.

#![allow(unused_qualifications, reason = "the description of routes expands to qualified names")]

mod artifacts;
mod documents;
mod events;
mod export;
mod internal;
mod reject;
mod runs;
mod search;
mod shell;
mod sync;
mod tasks;
mod trace;
mod trash;
mod undo;

pub use reject::{Rejection, TypedJson};

use crate::actor::{Handle, Tree};
use crate::harness::Harness;
use crate::undo::Undoer;
use axum::Router;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What every handler can reach.
#[derive(Clone)]
pub struct App {
    /// The log, the views, documents, control.
    pub harness: Harness,
    /// Takes changes back.
    pub undoer: Undoer,
    /// What is known of every actor.
    pub tree: Tree,
    /// The present session; absent while it restarts.
    pub session: Handle,
    /// Counted up when control says that models changed.
    pub models: watch::Sender<u64>,
    /// Set when the computer shall end.
    pub stopping: watch::Sender<bool>,
    /// Walls that its process could not put around itself, each with the reason.
    pub lacks: Arc<[String]>,
}

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::pause))
        .routes(routes!(runs::resume))
        .routes(routes!(runs::steer))
        .routes(routes!(trash::remove_run))
        .routes(routes!(trash::restore_run))
        .routes(routes!(trash::remove_document))
        .routes(routes!(trash::restore_document))
        .routes(routes!(trace::get))
        .routes(routes!(undo::run))
        .routes(routes!(undo::run_changes))
        .routes(routes!(undo::merge_run))
        .routes(routes!(undo::merge_task))
        .routes(routes!(tasks::create))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::accept))
        .routes(routes!(undo::task))
        .routes(routes!(undo::task_changes))
        .routes(routes!(tasks::schema))
        .routes(routes!(events::list))
        .routes(routes!(events::erase))
        .routes(routes!(search::search))
        .routes(routes!(documents::list, documents::create))
        .routes(routes!(documents::get, documents::put))
        .routes(routes!(documents::versions))
        .routes(routes!(documents::version))
        .routes(routes!(documents::decide))
        .routes(routes!(documents::reopen))
        .routes(routes!(documents::rerun))
        .routes(routes!(documents::provenance))
        .routes(routes!(export::export))
        .routes(routes!(artifacts::create))
        .routes(routes!(artifacts::get))
        .routes(routes!(shell::desktop, shell::command))
        .routes(routes!(shell::supervision))
        .routes(routes!(shell::blob))
}

/// Every route, the private ones of control included.
pub fn router(app: App) -> Router {
    let (public, _) = described().split_for_parts();
    public
        .merge(internal::router())
        .fallback(reject::no_route)
        .method_not_allowed_fallback(reject::no_method)
        .with_state(app)
}

/// The description of the public routes.
pub fn openapi() -> OpenApi {
    described().into_openapi()
}
