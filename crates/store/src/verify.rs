//! Checking a log from end to end: the chain, every payload, and every blob that an event names.

use crate::blob::Blobs;
use crate::log::{self, Hole, Query};
use crate::sqlite::{OpenError, StoreError, is_in_use, open_untouched, untouched};
use choir_proto::event::Header;
use choir_proto::{Event, EventId, Hash, Seq};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// What a check of a whole log saw.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Events read.
    pub events: u64,
    /// Blobs that events name, each counted once.
    pub blobs: u64,
    /// Events whose payload was erased.
    pub erased: u64,
    /// The newest event.
    pub head: Option<(Seq, Hash)>,
    /// What is wrong, the first few.
    pub faults: Vec<String>,
}

/// Faults named before the rest is only counted by the reader's imagination.
const FAULTS_MAX: usize = 20;

/// What is looked over while somebody waits: about a second's worth.
const EXAMINED_BYTES_MAX: u64 = 512 << 20;

/// Reads the whole log in a directory without changing anything, telling `progress` how far it is. `marks` are positions
/// that somebody else vouches for: a log that was rewritten or cut off cannot agree with them.
pub fn verify(directory: &Path, marks: &[(Seq, Hash)], progress: impl FnMut(Seq)) -> Result<Report, StoreError> {
    verify_with(directory, marks, progress, |_, _| None)
}

/// Whether a directory has a log at all.
pub fn has_log(directory: &Path) -> bool {
    log::log_path(directory).exists()
}

/// Whether somebody may have the log open. What was read of it before they had is looked at once more.
pub fn may_be_open(directory: &Path) -> bool {
    is_in_use(&log::log_path(directory))
}

/// Refuses a log that a newer version wrote: nothing can be said of it, and nothing is wrong with it.
pub fn refuse_newer(directory: &Path) -> Result<(), OpenError> {
    let path = log::log_path(directory);
    match log::reader::Readers::new(untouched(&path)).format() {
        Ok(found) if found > log::FORMAT => Err(OpenError::Newer { path, found, known: log::FORMAT }),
        // Whatever else is wrong is told by whoever verifies.
        _ => Ok(()),
    }
}

/// Looks at a log, which may be in use: whether this version can read it, and whether its pages are in order. Of a
/// long one only the format is looked at; all of it is read by [`verify`].
pub fn examine(directory: &Path) -> Result<(), OpenError> {
    let path = log::log_path(directory);
    let damaged = |what: String| OpenError::Damaged { path: path.clone(), what };
    let failed = |error: rusqlite::Error| match is_damage(&error) {
        true => damaged(error.to_string()),
        false => error.into(),
    };
    let connection = open_untouched(&path).map_err(failed)?;
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if found > log::FORMAT {
        return Err(OpenError::Newer { path: path.clone(), found, known: log::FORMAT });
    }
    if path.metadata().is_ok_and(|file| file.len() > EXAMINED_BYTES_MAX) {
        return Ok(());
    }
    let seen: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if seen == "ok" { Ok(()) } else { Err(damaged(seen.replace('\n', ", "))) }
}

/// The same with somebody who knows more than a log can: what they say is wrong with an event is wrong.
pub fn verify_with(
    directory: &Path,
    marks: &[(Seq, Hash)],
    mut progress: impl FnMut(Seq),
    mut witness: impl FnMut(&Header, &Event) -> Option<String>,
) -> Result<Report, StoreError> {
    let blobs = Blobs::open_existing(&log::blobs_path(directory));
    let readers = log::reader::Readers::new(untouched(&log::log_path(directory)));
    let mut report = Report::default();
    let format = readers.format()?;
    if format > log::FORMAT {
        let known = log::FORMAT;
        report.faults.push(format!("the log has format {format}, but this version of choir reads up to {known}"));
        return Ok(report);
    }
    report.faults.extend(match readers.faults() {
        Err(StoreError::Sqlite(error)) if is_damage(&error) => vec![format!("the file is damaged: {error}")],
        faults => faults?,
    });
    let (mut chain, mut erasures, mut seen) = (Chain::default(), Erasures::default(), HashSet::new());
    loop {
        let query = Query { after: chain.seq, limit: log::reader::EVENTS_READ_MAX, ..Query::default() };
        // What lies around a damage is sound, and that is worth knowing.
        let (rows, holes) = match readers.stored(&query) {
            Err(StoreError::Sqlite(error)) if is_damage(&error) => {
                report.faults.push(format!("events after {} cannot be read: {error}", chain.seq));
                break;
            }
            rows => rows?,
        };
        report.faults.extend(holes.iter().map(Hole::to_string));
        if rows.is_empty() || report.faults.len() >= FAULTS_MAX {
            break;
        }
        for stored in rows {
            report.events += 1;
            if holes.iter().any(|hole| hole.last.next() == stored.header.seq) {
                chain.begin_with(&stored.header);
            } else if let Err(fault) = chain.extend(&stored.header) {
                report.faults.push(fault);
            }
            let differs = |mark: &&(Seq, Hash)| mark.0 == stored.header.seq && mark.1 != stored.header.hash;
            if marks.iter().any(|mark| differs(&mark)) {
                report.faults.push(format!("event {} is not the one that control signed", stored.header.seq));
            }
            check_payload(stored, (&blobs, &mut seen), &mut erasures, &mut witness, &mut report);
        }
        progress(chain.seq);
    }
    report.faults.extend(erasures.unspoken().take(FAULTS_MAX));
    if let Some((seq, _)) = marks.iter().find(|(seq, _)| *seq > chain.seq && report.faults.is_empty()) {
        report.faults.push(format!("the log ends at {}, but control signed event {seq}", chain.seq));
    }
    report.head = (chain.seq > Seq::ZERO).then_some((chain.seq, chain.hash));
    Ok(report)
}

/// The chain so far.
#[derive(Default)]
struct Chain {
    seq: Seq,
    hash: Hash,
    scratch: Vec<u8>,
}

impl Chain {
    /// After a hole nobody can say whether an event follows what was there; the next one can be held to it.
    fn begin_with(&mut self, header: &Header) {
        (self.seq, self.hash) = (header.seq, header.hash);
    }

    fn extend(&mut self, header: &Header) -> Result<(), String> {
        let expected = self.seq.next();
        let before = std::mem::replace(&mut self.hash, header.hash);
        self.seq = header.seq;
        if header.seq != expected {
            return Err(format!("event {expected} is missing"));
        }
        if header.prev != before || log::row::hash(header, &mut self.scratch) != header.hash {
            return Err(format!("event {expected} does not belong here: its hash does not match"));
        }
        Ok(())
    }
}

/// Payloads that are gone, and the tombstones that say so. Whoever holds the file can take a payload out of it; only a
/// tombstone, which the chain binds, makes that an erasure.
#[derive(Default)]
struct Erasures {
    gone: BTreeMap<EventId, Seq>,
    told: BTreeSet<EventId>,
}

impl Erasures {
    fn unspoken(&self) -> impl Iterator<Item = String> {
        let unspoken = self.gone.iter().filter(|(id, _)| !self.told.contains(id));
        unspoken.map(|(_, seq)| format!("the payload of event {seq} is gone, and no tombstone says that it was erased"))
    }
}

/// Whether the file itself is wrong, not the disk or the moment.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn check_payload(
    stored: log::row::Stored,
    (blobs, seen): (&Blobs, &mut HashSet<Hash>),
    erasures: &mut Erasures,
    witness: &mut impl FnMut(&Header, &Event) -> Option<String>,
    report: &mut Report,
) {
    let seq = stored.header.seq;
    match stored.payload_matches(blobs) {
        Ok(true) => {}
        Ok(false) => return report.faults.push(format!("the payload of event {seq} is not what was first written")),
        Err(error) => return report.faults.push(format!("the payload of event {seq}: {error}")),
    }
    if stored.place == log::row::Place::Erased {
        report.erased += 1;
        erasures.gone.insert(stored.header.id, seq);
        return;
    }
    let named = match stored.envelope(blobs).map(|envelope| (envelope.event(), envelope.header)) {
        Ok((Ok(Event::PayloadErased(tombstone)), _)) => {
            erasures.told.insert(tombstone.event_id);
            // They are gone because of it.
            Vec::new()
        }
        Ok((Ok(event), header)) => {
            report.faults.extend(witness(&header, &event));
            event.blobs()
        }
        Ok((Err(error), _)) => return report.faults.push(format!("event {seq}: {error}")),
        Err(error) => return report.faults.push(format!("event {seq}: {error}")),
    };
    for hash in named {
        // A version and what keeps it, say, name the same one; it is looked at when the first does.
        if !seen.insert(hash) {
            continue;
        }
        report.blobs += 1;
        if let Err(error) = blobs.get(&hash) {
            report.faults.push(format!("event {seq} names a blob: {error}"));
        }
    }
}
