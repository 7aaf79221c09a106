//! Where files of a measurement lie for its duration.

use anyhow::Context;
use tempfile::TempDir;

/// A directory beside this program. The system's own place for temporary files is often memory, where a sync costs nothing
/// and proves nothing.
pub(crate) fn directory() -> anyhow::Result<TempDir> {
    let program = std::env::current_exe()?;
    let place = program.parent().context("a program lies in a directory")?;
    Ok(tempfile::Builder::new().prefix("sim-").tempdir_in(place)?)
}
