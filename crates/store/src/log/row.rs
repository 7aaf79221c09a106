//! Events as rows: the one place that knows the columns.

use crate::blob::Blobs;
use crate::{StoreError, sha256};
use choir_proto::event::{Actor, Header};
use choir_proto::{Envelope, Hash, Seq, Timestamp};
use rusqlite::Row;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Everything from one place to another, at most so many; columns in the order that [`read`] expects. Whoever looks for what comes
/// after a place would begin in the page of that place, which may be damaged.
pub(crate) const SELECT_RANGE: &str = "
    SELECT seq, id, epoch, at, actor, run, task, cause, kind, version, place, payload, payload_hash, hash
    FROM events WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";

/// One event, with the same columns.
pub(crate) const SELECT_ONE: &str = "
    SELECT seq, id, epoch, at, actor, run, task, cause, kind, version, place, payload, payload_hash, hash
    FROM events WHERE seq = ?1";

/// Where the kind's number is among the columns.
pub(crate) const KIND: usize = 8;

/// Where a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the row.
    Inline = 0,
    /// In the blob named by the payload's hash.
    Blob = 1,
    /// Nowhere any more.
    Erased = 2,
}

impl Place {
    pub(crate) fn from_column(value: i64) -> Option<Self> {
        [Self::Inline, Self::Blob, Self::Erased].into_iter().find(|place| *place as i64 == value)
    }
}

/// A row before its payload is fetched.
pub(crate) struct Stored {
    pub(crate) header: Header,
    pub(crate) place: Place,
    pub(crate) payload: Option<Vec<u8>>,
}

/// Understands a row; damage is named, never passed on. The payload is the row's until the next row.
pub(crate) fn read<'row>(
    row: &'row Row<'_>,
    kind: Cow<'static, str>,
    prev: Hash,
) -> Result<(Header, Place, Option<&'row [u8]>), StoreError> {
    let seq: i64 = row.get(0)?;
    let bad = |what: &str| StoreError::Row { seq: seq as u64, what: what.to_owned() };
    let header = Header {
        seq: Seq(seq as u64),
        id: row.get::<_, [u8; 16]>(1)?.into(),
        epoch: row.get(2)?,
        at: Timestamp(row.get(3)?),
        actor: Actor::from(row.get_ref(4)?.as_str().map_err(|_| bad("actor"))?),
        run: row.get::<_, Option<[u8; 16]>>(5)?.map(Into::into),
        task: row.get::<_, Option<[u8; 16]>>(6)?.map(Into::into),
        cause: row.get::<_, Option<[u8; 16]>>(7)?.map(Into::into),
        kind,
        version: row.get(9)?,
        payload_hash: Hash(row.get(12)?),
        prev,
        hash: Hash(row.get(13)?),
    };
    let place = Place::from_column(row.get(10)?).ok_or_else(|| bad("place"))?;
    let payload = row.get_ref(11)?.as_blob_or_null().map_err(|_| bad("payload"))?;
    Ok((header, place, payload))
}

impl Stored {
    pub(crate) fn new(header: Header, place: Place, payload: Option<&[u8]>) -> Self {
        Self { header, place, payload: payload.map(<[u8]>::to_vec) }
    }

    /// Fetches the payload from wherever it is.
    pub(crate) fn envelope(self, blobs: &Blobs) -> Result<Envelope, StoreError> {
        let seq = self.header.seq.0;
        let found = payload(&self.header, self.place, self.payload.as_deref(), blobs)?;
        let damaged = matches!(found, Payload::Damaged);
        let text = String::from_utf8(found.bytes().into_owned()).map_err(|_| not_text(&self.header))?;
        let payload = RawValue::from_string(text);
        let payload = payload.map_err(|_| StoreError::Row { seq, what: "payload is not JSON".into() })?;
        Ok(Envelope { header: self.header, payload, damaged })
    }

    /// Whether the payload is the one that was first written; an erased one cannot be checked and need not be.
    pub(crate) fn payload_matches(&self, blobs: &Blobs) -> Result<bool, StoreError> {
        match (self.place, &self.payload) {
            (Place::Inline, Some(bytes)) => Ok(sha256(bytes) == self.header.payload_hash),
            (Place::Inline, None) => Ok(false),
            (Place::Blob, _) => blobs.get(&self.header.payload_hash).map(|_| true),
            (Place::Erased, _) => Ok(self.payload.is_none()),
        }
    }
}

/// What stands for a payload that is gone.
const ABSENT: &[u8] = b"null";

/// What is left of what an event said.
pub(crate) enum Payload<'row> {
    /// All of it.
    Whole(Cow<'row, [u8]>),
    /// Nothing, as somebody wished.
    Erased,
    /// Nothing that could be believed.
    Damaged,
}

impl<'row> Payload<'row> {
    pub(crate) fn bytes(self) -> Cow<'row, [u8]> {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Erased | Self::Damaged => ABSENT.into(),
        }
    }
}

/// A payload from wherever it is. One that is damaged is absent, like one that was erased: a bad spot on the disk must not
/// take everything away that was written around it. `verify` names it.
pub(crate) fn payload<'row>(
    header: &Header,
    place: Place,
    inline: Option<&'row [u8]>,
    blobs: &Blobs,
) -> Result<Payload<'row>, StoreError> {
    match (place, inline) {
        (Place::Inline, Some(bytes)) if sha256(bytes) == header.payload_hash => Ok(Payload::Whole(bytes.into())),
        (Place::Inline, Some(_)) => Ok(damaged(header, "its bytes do not match its hash")),
        (Place::Inline, None) => Ok(damaged(header, "it is not there")),
        (Place::Blob, _) => match blobs.get(&header.payload_hash) {
            Ok(bytes) => Ok(Payload::Whole(bytes.into())),
            Err(error @ (StoreError::Damaged(_) | StoreError::Missing(_))) => Ok(damaged(header, &error.to_string())),
            Err(error) => Err(error),
        },
        (Place::Erased, _) => Ok(Payload::Erased),
    }
}

fn damaged(header: &Header, reason: &str) -> Payload<'static> {
    tracing::error!(seq = header.seq.0, %reason, "a payload is damaged and left out; `choir verify` names every such event");
    Payload::Damaged
}

/// The payload is not even text.
pub(crate) fn not_text(header: &Header) -> StoreError {
    StoreError::Row { seq: header.seq.0, what: "payload is not text".into() }
}

/// The hash of an event, given everything else about it.
pub(crate) fn hash(header: &Header, scratch: &mut Vec<u8>) -> Hash {
    scratch.clear();
    header.encode(scratch);
    sha256(scratch)
}
