//! Requests to the server this page came from.

use super::bridge;
use choir_desktop::json;
use choir_proto::{ApiError, DocumentId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::pin::Pin;

/// Why a request brought nothing.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Nobody is signed in.
    Locked,
    /// The server said no, and why.
    Refused(ApiError),
    /// The server could not be reached.
    Unreachable,
    /// The server answered something that this page does not understand.
    Odd(u16),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "This computer is locked."),
            Self::Refused(ApiError { error }) => {
                f.write_str(&choir_desktop::words::refusal(&error.code, &error.message, &error.hint))
            }
            // What the browser calls it helps nobody to mend it.
            Self::Unreachable => write!(f, "The computer cannot be reached."),
            Self::Odd(status) => write!(f, "The computer answered in a way this page does not know (status {status})."),
        }
    }
}

/// What matters of a document that was just written. The whole of it is read in one place.
#[derive(Deserialize)]
pub(crate) struct Kept {
    pub(crate) document_id: DocumentId,
    pub(crate) version: u32,
}

/// What came back from a request that was taken.
struct Taken {
    status: u16,
    text: String,
}

/// Reads.
pub(crate) fn get<T: DeserializeOwned>(path: &str) -> impl Future<Output = Result<T, Failure>> {
    answer("GET", path, None)
}

/// Reads text as it is.
pub(crate) async fn get_text(path: &str) -> Result<String, Failure> {
    Ok(ask("GET", path, None).await?.text)
}

/// Sends a body and reads the answer. What waits for the answer depends only on that, and is in the page as often as there are
/// kinds of answers, whatever was sent.
pub(crate) fn send<'a, B: Serialize, T: DeserializeOwned>(
    method: &'a str,
    path: &'a str,
    body: &B,
) -> impl Future<Output = Result<T, Failure>> + use<'a, B, T> {
    answer(method, path, Some(json::write(body)))
}

async fn answer<T: DeserializeOwned>(method: &str, path: &str, body: Option<String>) -> Result<T, Failure> {
    understand(&ask(method, path, body).await?)
}

/// Acts where neither body nor answer matters.
pub(crate) async fn act(method: &str, path: &str) -> Result<(), Failure> {
    ask(method, path, None).await.map(drop)
}

/// Judges an answer by its status alone.
pub(crate) fn done(reply: Result<bridge::Reply, String>) -> Result<(), Failure> {
    taken(reply).map(drop)
}

/// The part of every request that does not depend on what is asked for. In a box, so that it is in the page once and not once
/// for every type.
fn ask<'a>(
    method: &'a str,
    path: &'a str,
    body: Option<String>,
) -> Pin<Box<dyn Future<Output = Result<Taken, Failure>> + 'a>> {
    Box::pin(async move { taken(bridge::call(method, path, body.as_deref()).await) })
}

fn taken(reply: Result<bridge::Reply, String>) -> Result<Taken, Failure> {
    let reply = reply.map_err(|_| Failure::Unreachable)?;
    let (status, text) = (reply.status(), reply.text());
    match status {
        200..300 => Ok(Taken { status, text }),
        401 => Err(Failure::Locked),
        _ => Err(json::read(&text).map_or(Failure::Odd(status), Failure::Refused)),
    }
}

fn understand<T: DeserializeOwned>(taken: &Taken) -> Result<T, Failure> {
    json::read(&taken.text).map_err(|_| Failure::Odd(taken.status))
}
