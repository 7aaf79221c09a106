//! What is known of every event, whatever its kind, and the exact bytes over which its hash is taken.

use super::{DecodeError, Event};
use crate::{EventId, Hash, RunId, Seq, TaskId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of a payload that is gone.
pub const PAYLOAD_VERSION_UNKNOWN: u16 = 0;

/// Who did it. Written as one word; words of newer versions are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The person whose computer it is.
    Person,
    /// The computer itself.
    Computer,
    /// The trusted process.
    Control,
    /// An agent in a role.
    Agent(crate::Role),
    /// A word of another version.
    Other(String),
}

impl Actor {
    /// The word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Person => "person",
            Self::Computer => "computer",
            Self::Control => "control",
            Self::Agent(role) => role.name(),
            Self::Other(word) => word,
        }
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Actor {
    fn from(word: &str) -> Self {
        match word {
            "person" => Self::Person,
            "computer" => Self::Computer,
            "control" => Self::Control,
            word => match crate::Role::ALL.into_iter().find(|role| role.name() == word) {
                Some(role) => Self::Agent(role),
                None => Self::Other(word.to_owned()),
            },
        }
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Actor {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        String::schema()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Actor {}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*Cow::<str>::deserialize(deserializer)?))
    }
}

/// An event as the log keeps it and everybody outside sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(from = "Flat")]
pub struct Envelope {
    /// Everything but the payload.
    #[serde(flatten)]
    pub header: Header,
    /// Exactly as first written; `null` once erased, and where it is damaged.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub payload: Box<RawValue>,
    /// The payload was not erased: what is on the disk is no longer what was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// An envelope as it is read: in one go, where `flatten` would first keep every field and look at it again.
#[derive(Deserialize)]
struct Flat {
    seq: Seq,
    id: EventId,
    epoch: u32,
    at: Timestamp,
    actor: Actor,
    #[serde(default)]
    run: Option<RunId>,
    #[serde(default)]
    task: Option<TaskId>,
    #[serde(default)]
    cause: Option<EventId>,
    kind: Cow<'static, str>,
    version: u16,
    payload_hash: Hash,
    prev: Hash,
    hash: Hash,
    payload: Box<RawValue>,
    #[serde(default)]
    damaged: bool,
}

impl From<Flat> for Envelope {
    fn from(flat: Flat) -> Self {
        let Flat { seq, id, epoch, at, actor, run, task, cause, kind, version, payload_hash, prev, hash, .. } = flat;
        let header = Header { seq, id, epoch, at, actor, run, task, cause, kind, version, payload_hash, prev, hash };
        Self { header, payload: flat.payload, damaged: flat.damaged }
    }
}

impl Envelope {
    /// What it says.
    pub fn event(&self) -> Result<Event, DecodeError> {
        Event::decode(&self.header.kind, self.header.version, self.payload.get())
    }
}

/// Everything that is known of an event but its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Header {
    /// Its place, and the only order.
    pub seq: Seq,
    /// Its name; appending the same id again changes nothing.
    pub id: EventId,
    /// Which holder of the log wrote it.
    pub epoch: u32,
    /// A label, never an order.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The event that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventId>,
    /// Dotted noun and past verb. Borrowed when this build knows it.
    pub kind: Cow<'static, str>,
    /// Of the payload.
    pub version: u16,
    /// SHA-256 of the payload as first written.
    pub payload_hash: Hash,
    /// The hash of the event before.
    pub prev: Hash,
    /// SHA-256 over [`Header::encode`].
    pub hash: Hash,
}

impl Header {
    /// The bytes over which `hash` is taken: fixed widths, big-endian, lengths before texts, presence before options.
    /// JSON is not used, because two writers of JSON need not agree.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(b"choir.event.1\0");
        into.extend_from_slice(&self.seq.0.to_be_bytes());
        into.extend_from_slice(self.id.as_bytes());
        into.extend_from_slice(&self.epoch.to_be_bytes());
        into.extend_from_slice(&self.at.0.to_be_bytes());
        encode_text(self.actor.as_str(), into);
        encode_id(self.run.as_ref().map(RunId::as_bytes), into);
        encode_id(self.task.as_ref().map(TaskId::as_bytes), into);
        encode_id(self.cause.as_ref().map(EventId::as_bytes), into);
        encode_text(&self.kind, into);
        into.extend_from_slice(&self.version.to_be_bytes());
        into.extend_from_slice(&self.payload_hash.0);
        into.extend_from_slice(&self.prev.0);
    }
}

fn encode_text(text: &str, into: &mut Vec<u8>) {
    into.extend_from_slice(&(text.len() as u32).to_be_bytes());
    into.extend_from_slice(text.as_bytes());
}

fn encode_id(id: Option<&[u8; 16]>, into: &mut Vec<u8>) {
    match id {
        None => into.push(0),
        Some(id) => {
            into.push(1);
            into.extend_from_slice(id);
        }
    }
}

/// An event that is not in the log yet. The log adds `seq`, `epoch`, `prev` and the hashes.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Chosen by the appender, so that a retry is recognised.
    pub id: EventId,
    /// By the appender's clock.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The event that led to it.
    pub cause: Option<EventId>,
    /// What happened.
    pub event: Event,
}
