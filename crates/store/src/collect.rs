//! Removing what a crash left behind: blobs that were kept for an event that was never written.

use crate::log::row::{Place, Stored};
use crate::log::{self, Query};
use crate::{Blobs, Log, StoreError};
use choir_proto::{Hash, Seq};
use std::collections::HashSet;
use std::path::Path;

/// Digits of a hash.
const DIGITS: usize = 64;

/// What was left behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Blobs removed.
    pub blobs: u64,
    /// Their length together.
    pub bytes: u64,
}

/// What a log names, and what was removed because it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// What was left behind.
    pub orphans: Orphans,
    /// Everything in the log that could be a name; nothing where an event cannot be read.
    pub named: Option<HashSet<Hash>>,
}

/// Removes blobs that nothing in the log names. Nobody else may use the log meanwhile: a blob is kept before the event that
/// names it. Where an event cannot be read nobody knows what it named, and everything stays.
pub fn collect(log: &Log, directory: &Path) -> Result<Collected, StoreError> {
    let readers = log::reader::Readers::new(log::log_path(directory));
    let (mut named, mut after) = (HashSet::new(), Seq::ZERO);
    loop {
        let (rows, holes) =
            readers.stored(&Query { after, limit: log::reader::EVENTS_READ_MAX, ..Query::default() })?;
        if !holes.is_empty() {
            return Ok(Collected::default());
        }
        let Some(last) = rows.last() else { break };
        after = last.header.seq;
        for stored in &rows {
            match payload(stored, log.blobs()) {
                Ok(bytes) => named.extend(hashes(&bytes)),
                Err(StoreError::Damaged(_) | StoreError::Missing(_)) => return Ok(Collected::default()),
                Err(error) => return Err(error),
            }
            if stored.place == Place::Blob {
                named.insert(stored.header.payload_hash);
            }
        }
    }
    let (blobs, bytes) = log.blobs().retain(&named)?;
    Ok(Collected { orphans: Orphans { blobs, bytes }, named: Some(named) })
}

fn payload(stored: &Stored, blobs: &Blobs) -> Result<Vec<u8>, StoreError> {
    if !stored.payload_matches(blobs)? {
        return Err(StoreError::Damaged(stored.header.payload_hash));
    }
    match stored.place {
        Place::Blob => blobs.get(&stored.header.payload_hash),
        Place::Inline | Place::Erased => Ok(stored.payload.as_deref().unwrap_or_default().to_vec()),
    }
}

/// Whatever could be the name of a blob. A kind of event that this version does not know may name one as well, so nothing
/// is understood here.
fn hashes(payload: &[u8]) -> impl Iterator<Item = Hash> {
    let words = payload.split(|byte| !byte.is_ascii_hexdigit());
    words.filter(|word| word.len() == DIGITS).filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let (one, two) = (crate::sha256(b"1"), crate::sha256(b"2"));
        let text = format!(r#"{{"blob":"{one}","more":["x",{{"of":"blob {two}."}}],"long":"{one}0","short":"{}"}}"#, 7);
        assert_eq!(hashes(text.as_bytes()).collect::<Vec<_>>(), [one, two]);
    }
}
