//! What can go wrong with a sandbox, and what is said about it.

use crate::db;
use crate::http::Refused;
use choir_proto::wire::NO_SANDBOX;
use choir_sandbox::path::PathError;
use choir_sandbox::protocol::{EffectIdError, FaultCode};
use choir_sandbox::record::{OpenError, RecordError};
use choir_sandbox::runtime::{CallError, ExecError, StartError};
use http::StatusCode;
use std::path::PathBuf;

/// Why a sandbox did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory cannot be made.
    #[error("cannot make `{path}`")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The record of effects cannot be used.
    #[error(transparent)]
    Record(#[from] OpenError),
    /// It does not take what it should keep.
    #[error(transparent)]
    NotRecorded(#[from] RecordError),
    /// The sandbox was refused.
    #[error("a sandbox cannot be had")]
    Start(#[from] StartError),
    /// The guest did not do it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The command did not run.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// No associate was started for this task.
    #[error("no associate runs for this task")]
    NoAssociate,
    /// What would be merged is not what was checked.
    #[error("the result is not the one that was checked")]
    OtherThanChecked,
    /// No such terminal.
    #[error("there is no such terminal")]
    NoTerminal,
    /// Too many terminals.
    #[error("there are too many terminals")]
    TooManyTerminals,
    /// A wish that no person could allow.
    #[error("{0}")]
    Egress(String),
    /// The person has not allowed this call of a tool.
    #[error("the person has not allowed this")]
    NotAllowed,
    /// Not a path beneath the workspace.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path with something in it that is no text.
    #[error("the path holds bytes that are no text")]
    NoText,
    /// Not the name of an effect.
    #[error(transparent)]
    Effect(#[from] EffectIdError),
    /// Control's database.
    #[error(transparent)]
    Db(#[from] db::Error),
}

/// An error with its causes, for people.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let message = sentence(&error);
        match &error {
            Error::Start(_) | Error::Directory { .. } | Error::Record(_) | Error::NotRecorded(_) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no sandbox can be had");
                Self::unavailable("sandbox_refused", message, "`choir doctor` says how to mend it.")
            }
            Error::Path(_) => Self::new(
                StatusCode::BAD_REQUEST,
                "bad_path",
                message,
                "Give a path beneath the workspace, without `..`.",
            ),
            Error::Egress(_) => Self::new(
                StatusCode::BAD_REQUEST,
                "impossible_egress",
                message,
                "Name a profile, or a host with its port.",
            ),
            Error::NoText => Self::new(
                StatusCode::BAD_REQUEST,
                "bad_path",
                message,
                "Give it as UTF-8; in a terminal, what is called otherwise can be renamed.",
            ),
            Error::NotAllowed => {
                Self::new(StatusCode::FORBIDDEN, "not_allowed", message, "Ask for it first, and change nothing of it.")
            }
            Error::Effect(_) => Self::bad_request(message, "Use letters, digits and `._:-`."),
            Error::NoAssociate => Self::new(StatusCode::NOT_FOUND, NO_SANDBOX, message, "Start another one."),
            // Whether it did what was asked nobody knows; whoever may ask again needs another one.
            Error::Call(CallError::Lost) => {
                Self::new(StatusCode::BAD_GATEWAY, NO_SANDBOX, message, "Start another one.")
            }
            Error::NoTerminal => {
                Self::new(StatusCode::NOT_FOUND, "not_found", message, "It may have ended; start another one.")
            }
            Error::OtherThanChecked => {
                Self::new(StatusCode::CONFLICT, "other_than_checked", message, "Check it again.")
            }
            Error::TooManyTerminals => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_terminals", message, "Close one first.")
            }
            Error::Call(CallError::Fault(fault)) => of_fault(fault.code, message),
            Error::Call(CallError::TooLong) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, "Take a smaller file.")
            }
            Error::Call(CallError::Changed) => Self::new(StatusCode::CONFLICT, "changed", message, "Try again."),
            Error::Call(CallError::Unexpected) | Error::Exec(_) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a sandbox failed");
                Self::new(StatusCode::BAD_GATEWAY, "sandbox_failed", message, "Try again; a new sandbox is started.")
            }
            Error::Db(_) => match error {
                Error::Db(error) => error.into(),
                _ => Self::not_found(),
            },
        }
    }
}

fn of_fault(code: FaultCode, message: String) -> Refused {
    let (status, name, hint) = match code {
        FaultCode::NotFound => (StatusCode::NOT_FOUND, "not_found", "Look at the list of the folder above it."),
        FaultCode::Escapes => (StatusCode::FORBIDDEN, "outside", "Only what lies in the workspace can be reached."),
        FaultCode::Denied => (StatusCode::FORBIDDEN, "denied", "Its permissions forbid it."),
        FaultCode::Exists => (StatusCode::CONFLICT, "exists", "Choose another name."),
        FaultCode::NotEmpty => (StatusCode::CONFLICT, "not_empty", "Empty it first."),
        FaultCode::NotAFile => (StatusCode::CONFLICT, "not_a_file", "List it instead."),
        FaultCode::NotADirectory => (StatusCode::CONFLICT, "not_a_directory", "Read it instead."),
        FaultCode::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "disk_full", "Make room on the disk."),
        FaultCode::Limit => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "Ask for less."),
        FaultCode::Role | FaultCode::BadRequest => (StatusCode::BAD_REQUEST, "bad_request", "Look at the request."),
        FaultCode::System => (StatusCode::BAD_GATEWAY, "sandbox_failed", "Try again."),
        #[allow(unreachable_patterns, reason = "guests of a newer version may know more")]
        _ => (StatusCode::BAD_GATEWAY, "sandbox_failed", "Try again."),
    };
    Refused::new(status, name, message, hint)
}

fn sentence(error: &Error) -> String {
    let text = chain(error);
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}
