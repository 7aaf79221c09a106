//! Content named by its SHA-256, one file each. A blob is on disk before anything names it, and verified when read.

use crate::{StoreError, sha256};
use choir_proto::Hash;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// The blobs of one computer.
#[derive(Debug)]
pub struct Blobs {
    directory: PathBuf,
    /// Names temporary files; unique because one process holds the computer.
    counter: AtomicU64,
    /// Shards whose own names are known to be durable. A shard that merely exists may have been made by another call a
    /// moment ago and not be synced yet.
    durable: Mutex<BTreeSet<PathBuf>>,
    /// What was first seen to be damaged.
    damage: OnceLock<Hash>,
}

impl Blobs {
    /// Opens the directory, and removes what an interrupted write left behind.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let temporary = directory.join("tmp");
        fs::create_dir_all(&temporary)?;
        for leftover in fs::read_dir(&temporary)? {
            fs::remove_file(leftover?.path())?;
        }
        sync_directory(directory)?;
        Ok(Self::open_existing(directory))
    }

    /// For reading only: nothing is created or removed.
    pub(crate) fn open_existing(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            counter: AtomicU64::new(0),
            durable: Mutex::default(),
            damage: OnceLock::new(),
        }
    }

    /// Keeps bytes. When this returns they survive a power cut.
    pub fn put(&self, bytes: &[u8]) -> Result<Hash, StoreError> {
        let hash = sha256(bytes);
        let path = self.path(&hash);
        let shard = self.ensure_shard(&path)?;
        let present = matches!(fs::read(&path), Ok(found) if found == bytes);
        if !present {
            self.write(bytes, &path)?;
        }
        // Also when it was present: another call may have renamed it and not yet synced the directory.
        sync_directory(&shard)?;
        Ok(hash)
    }

    /// Begins a blob whose bytes come in pieces.
    pub fn begin(self: &Arc<Self>) -> Result<BlobWriter, StoreError> {
        let temporary = self.temporary();
        let file = File::create(&temporary)?;
        Ok(BlobWriter { blobs: Arc::clone(self), file, temporary: Some(temporary), hasher: Sha256::new() })
    }

    /// Reads bytes back and checks them.
    pub fn get(&self, hash: &Hash) -> Result<Vec<u8>, StoreError> {
        match fs::read(self.path(hash)) {
            Ok(bytes) if sha256(&bytes) == *hash => Ok(bytes),
            Ok(_) => {
                self.damage.get_or_init(|| *hash);
                Err(StoreError::Damaged(*hash))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::Missing(*hash)),
            Err(error) => Err(error.into()),
        }
    }

    /// What is wrong with one of them, once it was read.
    pub fn damage(&self) -> Option<String> {
        self.damage.get().map(|hash| StoreError::Damaged(*hash).to_string())
    }

    /// Whether there is a blob of this name; what is in it is checked when it is read.
    pub(crate) fn contains(&self, hash: &Hash) -> bool {
        self.path(hash).exists()
    }

    /// Forgets bytes for good. Forgetting what is not there is no error: erasure must be repeatable after a crash.
    pub fn erase(&self, hash: &Hash) -> Result<(), StoreError> {
        let path = self.path(hash);
        match fs::remove_file(&path) {
            Ok(()) => sync_directory(path.parent().unwrap_or(&self.directory)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes every blob that is not named here; how many there were, and their length together.
    pub(crate) fn retain(&self, named: &HashSet<Hash>) -> Result<(u64, u64), StoreError> {
        let (mut count, mut bytes) = (0, 0);
        for shard in directories(&self.directory)? {
            for file in fs::read_dir(&shard)? {
                let file = file?;
                // What is not called as a blob would be is not ours to judge.
                let Some(hash) = name(&shard, &file.path()) else { continue };
                if !named.contains(&hash) {
                    bytes += file.metadata()?.len();
                    count += 1;
                    fs::remove_file(file.path())?;
                }
            }
            sync_directory(&shard)?;
        }
        Ok((count, bytes))
    }

    fn write(&self, bytes: &[u8], path: &Path) -> Result<(), StoreError> {
        let temporary = self.temporary();
        let written = File::create(&temporary)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // Half of something large may be what fills the disk. One that cannot be removed goes with the next start.
            fs::remove_file(&temporary).ok();
        }
        Ok(written?)
    }

    fn temporary(&self) -> PathBuf {
        self.directory.join("tmp").join(self.counter.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn ensure_shard(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let shard = path.parent().unwrap_or(&self.directory).to_owned();
        if self.durable().contains(&shard) {
            return Ok(shard);
        }
        match fs::create_dir(&shard) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
            _ => sync_directory(&self.directory)?,
        }
        self.durable().insert(shard.clone());
        Ok(shard)
    }

    fn durable(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.durable.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        self.directory.join(&name[..2]).join(&name[2..])
    }
}

/// A blob that comes in pieces, none of which is kept in memory. One that is not finished leaves nothing behind.
#[derive(Debug)]
pub struct BlobWriter {
    blobs: Arc<Blobs>,
    file: File,
    /// Where it is until it has its name.
    temporary: Option<PathBuf>,
    hasher: Sha256,
}

impl BlobWriter {
    /// Adds a piece.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Gives it its name. When this returns it survives a power cut.
    pub fn finish(mut self) -> Result<Hash, StoreError> {
        let hash = Hash(std::mem::take(&mut self.hasher).finalize().into());
        let path = self.blobs.path(&hash);
        let shard = self.blobs.ensure_shard(&path)?;
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &path)?;
        }
        self.temporary = None;
        sync_directory(&shard)?;
        Ok(hash)
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // One that cannot be removed goes with the next start.
            fs::remove_file(temporary).ok();
        }
    }
}

fn directories(parent: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let paths = fs::read_dir(parent)?.map(|entry| entry.map(|entry| entry.path()));
    Ok(paths.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The hash that a blob's path stands for.
fn name(shard: &Path, file: &Path) -> Option<Hash> {
    let (shard, file) = (shard.file_name()?.to_str()?, file.file_name()?.to_str()?);
    format!("{shard}{file}").parse().ok()
}

/// Makes names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    Ok(File::open(directory)?.sync_all()?)
}
