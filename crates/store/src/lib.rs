//! What a computer remembers: an append-only log, blobs named by their content, and views derived from the log.
//!
//! The only SQL of a computer. Deliberately absent: agents, decisions, clocks and randomness. Ids and times come
//! with the events; what a view means is said by the folds that are handed in.

pub mod blob;
pub mod collect;
pub mod log;
pub mod relay;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod search;
pub mod verify;
pub mod view;

mod seats;
mod sqlite;

pub use blob::{BlobWriter, Blobs};
pub use collect::{Collected, Orphans, collect};
pub use log::{AppendError, Appended, AtRest, Erasure, Expect, Log, Query, Subscription};
pub use search::Search;
pub use sqlite::{Open, OpenError, StoreError, open_reader, open_untouched};
pub use verify::{Report, examine, has_log, may_be_open, refuse_newer, verify, verify_with};
pub use view::{LiveViews, Projection, Views};

use choir_proto::Hash;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Removes what was derived from the log of a computer that is not running. The next start makes it anew.
pub fn remove_derived(directory: &Path) -> Result<(), OpenError> {
    sqlite::remove(&view::path(directory))?;
    sqlite::remove(&search::path(directory))
}

/// The name of content.
pub fn sha256(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}
