//! Requests to the server this page came from.

use super::bridge;
use choir_proto::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a request brought nothing.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Nobody is signed in.
    Locked,
    /// The server said no, and why.
    Refused(ApiError),
    /// The server could not be reached.
    Unreachable(String),
    /// The server answered something that this page does not understand.
    Odd(u16),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "This computer is locked."),
            Self::Refused(refusal) => write!(f, "{} {}", refusal.error.message, refusal.error.hint),
            Self::Unreachable(why) => write!(f, "The computer cannot be reached ({why})."),
            Self::Odd(status) => write!(f, "The computer answered in a way this page does not know (status {status})."),
        }
    }
}

/// Reads.
pub(crate) async fn get<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    understand(bridge::call("GET", path, None).await)
}

/// Reads text as it is.
pub(crate) async fn get_text(path: &str) -> Result<String, Failure> {
    let reply = bridge::call("GET", path, None).await.map_err(Failure::Unreachable)?;
    if reply.status() == 200 { Ok(reply.text()) } else { Err(refusal(&reply)) }
}

/// Sends a body and reads the answer.
pub(crate) async fn send<B: Serialize, T: DeserializeOwned>(method: &str, path: &str, body: &B) -> Result<T, Failure> {
    let body = serde_json::to_string(body).map_err(|error| Failure::Unreachable(error.to_string()))?;
    understand(bridge::call(method, path, Some(&body)).await)
}

/// Acts where neither body nor answer matters.
pub(crate) async fn act(method: &str, path: &str) -> Result<(), Failure> {
    done(bridge::call(method, path, None).await)
}

/// Judges an answer by its status alone.
pub(crate) fn done(reply: Result<bridge::Reply, String>) -> Result<(), Failure> {
    let reply = reply.map_err(Failure::Unreachable)?;
    if (200..300).contains(&reply.status()) { Ok(()) } else { Err(refusal(&reply)) }
}

fn understand<T: DeserializeOwned>(reply: Result<bridge::Reply, String>) -> Result<T, Failure> {
    let reply = reply.map_err(Failure::Unreachable)?;
    if !(200..300).contains(&reply.status()) {
        return Err(refusal(&reply));
    }
    serde_json::from_str(&reply.text()).map_err(|_| Failure::Odd(reply.status()))
}

fn refusal(reply: &bridge::Reply) -> Failure {
    match (reply.status(), serde_json::from_str(&reply.text())) {
        (401, _) => Failure::Locked,
        (_, Ok(refusal)) => Failure::Refused(refusal),
        (status, Err(_)) => Failure::Odd(status),
    }
}
