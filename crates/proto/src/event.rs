//! Everything that can happen to a computer, and the envelope in which it is kept.

mod change;
mod envelope;
mod kinds;

pub use change::{UndoFinished, UndoOutcome, UndoStarted, Undone, VerifyFinished, VerifyStarted};
pub use envelope::{Actor, Envelope, Header, NewEvent, PAYLOAD_VERSION_UNKNOWN};
pub use kinds::*;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Longest payload. An event goes whole through every stream, and whoever reads one has this to rely on; what is longer belongs
/// into blobs.
pub const PAYLOAD_BYTES_MAX: usize = 63 << 20;

/// The kind of a tombstone. Whatever is derived from the log must be derived anew when it meets one.
pub const PAYLOAD_ERASED: &str = "payload.erased";

/// Why a payload of a known kind and version could not be read: the log was damaged or written by somebody else.
#[derive(Debug, thiserror::Error)]
#[error("the payload of `{kind}` version {version} cannot be read")]
pub struct DecodeError {
    kind: String,
    version: u16,
    source: serde_json::Error,
}

/// A payload, by the name of its kind: what was erased is known by nothing else.
pub trait Erasable {
    /// The dotted name.
    const KIND: &'static str;
}

impl Event {
    /// Whether it was of a kind before its payload was erased, or damaged, which comes to the same.
    pub fn was<P: Erasable>(&self) -> bool {
        matches!(self, Self::Erased { kind } if kind == P::KIND)
    }
}

macro_rules! events {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal, $version:literal; )*) => {
        /// One fact. The set is closed: a kind that this build does not know is kept byte for byte as [`Event::Unknown`].
        #[derive(Debug, Clone)]
        pub enum Event {
            $( $(#[$doc])* $name($name), )*
            /// Written by a newer version.
            Unknown(UnknownEvent),
            /// The payload was erased; the envelope remains.
            Erased {
                /// What it was.
                kind: String,
            },
        }

        impl Event {
            /// Kinds that this build writes and reads, with their versions.
            pub const KINDS: &'static [(&'static str, u16)] = &[ $( ($kind, $version), )* ];

            /// The dotted name.
            pub fn kind(&self) -> Cow<'static, str> {
                match self {
                    $( Self::$name(_) => Cow::Borrowed($kind), )*
                    Self::Unknown(unknown) => Cow::Owned(unknown.kind.clone()),
                    Self::Erased { kind } => Cow::Owned(kind.clone()),
                }
            }

            /// A dotted name that was read somewhere, without a copy when it is known.
            pub fn kind_named(name: &str) -> Cow<'static, str> {
                match name {
                    $( $kind => Cow::Borrowed($kind), )*
                    unknown => Cow::Owned(unknown.to_owned()),
                }
            }

            /// The version of its payload.
            pub fn version(&self) -> u16 {
                match self {
                    $( Self::$name(_) => $version, )*
                    Self::Unknown(unknown) => unknown.version,
                    Self::Erased { .. } => PAYLOAD_VERSION_UNKNOWN,
                }
            }

            /// The payload as it will be kept for good.
            pub fn payload(&self) -> Box<RawValue> {
                let written = match self {
                    $( Self::$name(payload) => serde_json::value::to_raw_value(payload), )*
                    Self::Unknown(unknown) => return unknown.payload.clone(),
                    Self::Erased { .. } => serde_json::value::to_raw_value(&()),
                };
                written.expect("payloads are plain data with string keys, which JSON can always hold")
            }

            /// What a stored payload means.
            pub fn decode(kind: &str, version: u16, payload: &str) -> Result<Self, DecodeError> {
                if payload == "null" {
                    return Ok(Self::Erased { kind: kind.to_owned() });
                }
                let decoded = match (kind, version) {
                    $( ($kind, $version) => serde_json::from_str(payload).map(Self::$name), )*
                    _ => RawValue::from_string(payload.to_owned())
                        .map(|payload| Self::Unknown(UnknownEvent { kind: kind.to_owned(), version, payload })),
                };
                decoded.map_err(|source| DecodeError { kind: kind.to_owned(), version, source })
            }
        }

        /// Every kind with its version and the name of its payload's type.
        #[cfg(feature = "schema")]
        pub(crate) fn described(parts: &mut crate::schema::Parts) -> Vec<(&'static str, u16, String)> {
            vec![ $( ($kind, $version, parts.add::<$name>()), )* ]
        }

        $( impl Erasable for $name {
            const KIND: &'static str = $kind;
        } )*

        $( impl From<$name> for Event {
            fn from(payload: $name) -> Self {
                Self::$name(payload)
            }
        } )*
    };
}

events! {
    /// The first event of every log.
    ComputerCreated = "computer.created", 1;
    /// A process took the log; the epoch fences every earlier one.
    ComputerStarted = "computer.started", 1;
    /// The process that held the log ended in order.
    ComputerStopped = "computer.stopped", 1;
    /// A person gave an objective.
    RunAccepted = "run.accepted", 1;
    /// Agents began to work on it, or went on after a wait.
    RunStarted = "run.started", 1;
    /// It waits for something.
    RunBlocked = "run.blocked", 1;
    /// A person said wait.
    RunPaused = "run.paused", 1;
    /// A person said stop.
    CancelRequested = "cancel.requested", 1;
    /// A person said go on.
    RunResumed = "run.resumed", 1;
    /// A person said something to the agents at work.
    RunSteered = "run.steered", 1;
    /// A short answer.
    RunAnswered = "run.answered", 1;
    /// Nothing more will happen.
    RunEnded = "run.ended", 1;
    /// A person put it into the trash.
    RunRemoved = "run.removed", 1;
    /// A person took it out again.
    RunRestored = "run.restored", 1;
    /// A person put its card away.
    RunDismissed = "run.dismissed", 1;
    /// Work was asked of a worker.
    TaskRequested = "task.requested", 1;
    /// A worker began.
    TaskStarted = "task.started", 1;
    /// A worker waits, and says what for.
    TaskDelayed = "task.delayed", 1;
    /// A worker's result met somebody else's changes, and waits for a person's word.
    TaskConflicted = "task.conflicted", 1;
    /// A worker ended.
    TaskFinished = "task.finished", 1;
    /// A result is about to be checked by somebody else than its worker.
    VerifyStarted = "verify.started", 1;
    /// A result was checked.
    VerifyFinished = "verify.finished", 1;
    /// A person accepted what a worker made of the checks that it was judged by.
    ChecksAccepted = "checks.accepted", 1;
    /// Merged changes are about to be taken back as one: the intent.
    UndoStarted = "undo.started", 1;
    /// They were taken back, or not.
    UndoFinished = "undo.finished", 1;
    /// A model answered.
    ModelCalled = "model.called", 1;
    /// A model did not answer.
    ModelFailed = "model.failed", 1;
    /// A tool is about to act: the intent.
    ToolStarted = "tool.started", 1;
    /// A tool acted, or nobody knows whether it did.
    ToolFinished = "tool.finished", 1;
    /// A server offered tools from elsewhere to a task.
    ToolsOffered = "tools.offered", 1;
    /// A conversation came near the model's window, and old parts of it were shortened.
    ContextCompacted = "context.compacted", 1;
    /// Something was put to the person.
    InboxAsked = "inbox.asked", 1;
    /// The person decided, or nobody did in time.
    InboxDecided = "inbox.decided", 1;
    /// A document began.
    DocumentCreated = "document.created", 1;
    /// A point in a document's life.
    DocumentVersioned = "document.versioned", 1;
    /// The words of a document changed.
    DocumentUpdated = "document.updated", 1;
    /// A document's replica was kept as a whole.
    DocumentCompacted = "document.compacted", 1;
    /// An agent would change what a person wrote.
    ProposalMade = "proposal.made", 1;
    /// An agent found words in a source.
    CitationMade = "citation.made", 1;
    /// A person said yes or no to it.
    ProposalDecided = "proposal.decided", 1;
    /// A figure was made, is being made, or no longer shows what is so.
    FigureChanged = "figure.changed", 1;
    /// A document was put away.
    DocumentTrashed = "document.trashed", 1;
    /// A person put a document into the trash.
    DocumentRemoved = "document.removed", 1;
    /// A person took it out again.
    DocumentRestored = "document.restored", 1;
    /// A window was opened.
    WindowOpened = "window.opened", 1;
    /// A window came to the front.
    WindowFocused = "window.focused", 1;
    /// A window was put elsewhere.
    WindowMoved = "window.moved", 1;
    /// A window was minimised, maximised, snapped or restored.
    WindowShaped = "window.shaped", 1;
    /// A window shows something else.
    WindowShown = "window.shown", 1;
    /// A window was closed.
    WindowClosed = "window.closed", 1;
    /// A theme was chosen.
    ThemeChosen = "theme.chosen", 1;
    /// A file of the workspace changed.
    FileChanged = "file.changed", 1;
    /// A terminal began.
    TerminalOpened = "terminal.opened", 1;
    /// A terminal ended.
    TerminalClosed = "terminal.closed", 1;
    /// A connection was allowed.
    EgressAllowed = "egress.allowed", 1;
    /// A connection was refused.
    EgressDenied = "egress.denied", 1;
    /// Requests were refused because of where they came from or what they reached for.
    RequestRefused = "request.refused", 1;
    /// Something was brought in.
    ArtifactImported = "artifact.imported", 1;
    /// An actor failed and was started again.
    ActorRestarted = "actor.restarted", 1;
    /// An actor failed too often.
    ActorEscalated = "actor.escalated", 1;
    /// A payload or blob was replaced by a tombstone.
    PayloadErased = "payload.erased", 1;
}

impl Event {
    /// Content that must be stored for this fact to mean anything.
    pub fn blobs(&self) -> Vec<crate::Hash> {
        match self {
            Self::DocumentVersioned(version) if version.content.is_none() => vec![version.content_hash],
            Self::DocumentCompacted(compacted) => vec![compacted.state],
            Self::CitationMade(citation) => vec![citation.source],
            Self::ArtifactImported(artifact) => [artifact.content_hash].into_iter().chain(artifact.text).collect(),
            Self::ToolFinished(tool) => tool.output.into_iter().collect(),
            Self::TaskFinished(task) => {
                let diff = task.result.diff.as_ref().and_then(|diff| diff.blob);
                let checks = task.result.verify.iter().flat_map(|verify| &verify.commands);
                task.result.commands.iter().chain(checks).filter_map(|command| command.log).chain(diff).collect()
            }
            Self::VerifyFinished(verify) => verify.result.commands.iter().filter_map(|command| command.log).collect(),
            Self::UndoFinished(undo) => undo.diff.as_ref().and_then(|diff| diff.blob).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// A fact of a kind that this build does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnknownEvent {
    /// As written.
    pub kind: String,
    /// As written.
    pub version: u16,
    /// As written, byte for byte.
    pub payload: Box<RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_keeps_its_bytes() {
        let odd = r#"{"b": 1,   "a":[1.0, 2e3], "é":"\u00e9"}"#;
        let event = Event::decode("choir.sung", 7, odd).unwrap();
        assert_eq!((&*event.kind(), event.version(), event.payload().get()), ("choir.sung", 7, odd));
    }

    #[test]
    fn a_newer_version_of_a_known_kind_is_kept_and_a_damaged_one_is_refused() {
        assert!(matches!(Event::decode("run.accepted", 999, "{}"), Ok(Event::Unknown(_))));
        assert!(Event::decode("run.accepted", 1, "{}").is_err());
    }

    #[test]
    fn kinds_are_dotted_unique_words() {
        let mut seen = std::collections::BTreeSet::new();
        for (kind, version) in Event::KINDS {
            assert!(
                kind.split('.').count() == 2 && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_')
            );
            assert!(*version > 0 && seen.insert(kind));
        }
    }
}
