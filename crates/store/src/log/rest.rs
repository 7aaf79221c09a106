//! A log that nobody has open.

use super::reader::Readers;
use super::{FORMAT, Query, blobs_path, damaged, log_path};
use crate::blob::Blobs;
use crate::sqlite::{OpenError, StoreError, untouched};
use choir_proto::Envelope;
use std::path::Path;

/// Reads a log without a writer, and makes and changes nothing. Whoever may start one meanwhile has to be kept from it.
#[derive(Debug)]
pub struct AtRest {
    readers: Readers,
    blobs: Blobs,
}

impl AtRest {
    /// The log in a computer's directory.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = log_path(directory);
        let readers = Readers::new(untouched(&path));
        match readers.format().map_err(|error| damaged(&path, error))? {
            found if found > FORMAT => Err(OpenError::Newer { path, found, known: FORMAT }),
            _ => Ok(Self { readers, blobs: Blobs::open_existing(&blobs_path(directory)) }),
        }
    }

    /// Events in order, as [`Log::read`](super::Log::read) gives them; of runs and kinds it knows nothing.
    pub fn read(&self, query: &Query) -> Result<Vec<Envelope>, StoreError> {
        Ok(self.readers.read(query, &self.blobs)?.events)
    }
}
