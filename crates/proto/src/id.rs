//! Names of things. Each id is its own type, so a run can never be passed where a task is meant.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not an id of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind} id")]
pub struct BadId {
    kind: &'static str,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Names a thing by a UUID that the shell made.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The sixteen bytes that are stored and hashed.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}:{}", $kind, self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Uuid::parse_str(text).map(Self).map_err(|_| BadId { kind: $kind, text: text.chars().take(64).collect() })
            }
        }

        impl From<[u8; 16]> for $name {
            fn from(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }
    };
}

id!(/** One user's whole state. */ ComputerId, "computer");
id!(/** One immutable fact; a UUIDv7 chosen by whoever appends, so that a retry is recognised. */ EventId, "event");
id!(/** One objective given by a person. */ RunId, "run");
id!(/** One typed envelope to a worker. */ TaskId, "task");
id!(/** Merged changes taken back as one. */ UndoId, "undo");
id!(/** One living document. */ DocumentId, "document");
id!(/** Something imported or produced. */ ArtifactId, "artifact");
id!(/** One terminal of the session associate. */ TerminalId, "terminal");
id!(/** Something put to the person. */ InboxId, "inbox");
id!(/** One window of the desktop. */ WindowId, "window");

/// A position in a computer's log: 1, 2, 3 … without holes. Zero means "before the first event".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const ZERO: Self = Self(0);

    /// The position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Display for Seq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
