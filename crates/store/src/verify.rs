//! Checking a log from end to end: the chain, every payload, and every blob that an event names.

use crate::blob::Blobs;
use crate::log::{self, Query};
use crate::sqlite::StoreError;
use choir_proto::{Hash, Seq};
use std::path::Path;

/// What a check of a whole log saw.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Events read.
    pub events: u64,
    /// Blobs that events name, counted once for each naming.
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

/// Reads the whole log in a directory without changing anything, telling `progress` how far it is. `marks` are positions
/// that somebody else vouches for: a log that was rewritten or cut off cannot agree with them.
pub fn verify(directory: &Path, marks: &[(Seq, Hash)], mut progress: impl FnMut(Seq)) -> Result<Report, StoreError> {
    let blobs = Blobs::open_existing(&log::blobs_path(directory));
    let readers = log::reader::Readers::new(log::log_path(directory));
    let mut report = Report::default();
    let format = readers.format()?;
    if format > log::FORMAT {
        let known = log::FORMAT;
        report.faults.push(format!("the log has format {format}, but this version of choir reads up to {known}"));
        return Ok(report);
    }
    report.faults.extend(readers.faults()?);
    let mut chain = Chain::default();
    loop {
        let query = Query { after: chain.seq, limit: log::reader::EVENTS_READ_MAX, ..Query::default() };
        let rows = readers.stored(&query)?;
        if rows.is_empty() || report.faults.len() >= FAULTS_MAX {
            break;
        }
        for stored in rows {
            report.events += 1;
            if let Err(fault) = chain.extend(&stored.header) {
                report.faults.push(fault);
            }
            let differs = |mark: &&(Seq, Hash)| mark.0 == stored.header.seq && mark.1 != stored.header.hash;
            if marks.iter().any(|mark| differs(&mark)) {
                report.faults.push(format!("event {} is not the one that control signed", stored.header.seq));
            }
            check_payload(stored, &blobs, &mut report);
        }
        progress(chain.seq);
    }
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
    fn extend(&mut self, header: &choir_proto::event::Header) -> Result<(), String> {
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

fn check_payload(stored: log::row::Stored, blobs: &Blobs, report: &mut Report) {
    let seq = stored.header.seq;
    match stored.payload_matches(blobs) {
        Ok(true) => {}
        Ok(false) => return report.faults.push(format!("the payload of event {seq} is not what was first written")),
        Err(error) => return report.faults.push(format!("the payload of event {seq}: {error}")),
    }
    if stored.place == log::row::Place::Erased {
        report.erased += 1;
        return;
    }
    let named = match stored.envelope(blobs).map(|envelope| envelope.event()) {
        Ok(Ok(event)) => event.blobs(),
        Ok(Err(error)) => return report.faults.push(format!("event {seq}: {error}")),
        Err(error) => return report.faults.push(format!("event {seq}: {error}")),
    };
    for hash in named {
        report.blobs += 1;
        if let Err(error) = blobs.get(&hash) {
            report.faults.push(format!("event {seq} names a blob: {error}"));
        }
    }
}
