//! The data directory: what lies where, who may read it, and the lock that keeps a second instance out.

use crate::secret::random_bytes;
use choir_proto::ComputerId;
use rustix::fs::Access;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// One of these makes a directory ours; `lost+found` is what an empty disk holds.
const OURS: [&str; 4] = ["control", "computers", "choir.toml", "lost+found"];

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be made or read.
    #[error("cannot use `{path}`")]
    Path {
        /// What was tried.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory is not there and cannot be made.
    #[error("cannot make `{path}`")]
    Make {
        /// What was tried.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory with other things in it.
    #[error("`{path}` is not empty and was not made by ChoirOS")]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Another instance holds it.
    #[error("another `choir up` already runs on `{path}`")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A key without which something that is kept is worth nothing.
    #[error("`{path}` is gone, but {rests} in control's database need it")]
    KeyGone {
        /// The file.
        path: PathBuf,
        /// What was made with it.
        rests: &'static str,
    },
    /// A key file that is not ours.
    #[error("`{path}` is not a key of {expected} bytes")]
    Key {
        /// The file.
        path: PathBuf,
        /// How long a key is.
        expected: usize,
    },
}

/// Everything that ChoirOS keeps, beneath one directory.
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
}

/// Held while an instance runs. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Let go of by word: a sandbox that is being started holds a copy of the descriptor for a moment.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the lock of the data directory was not let go of");
        }
    }
}

impl DataDir {
    /// The layout alone: nothing is made or looked at.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens the directory, making what is missing. Nobody else may look into it.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let data = Self::at(root);
        data.require_ours()?;
        for directory in [data.root.clone(), data.control(), data.computers()] {
            let is_there = directory.exists();
            make_private(&directory).map_err(|source| match is_there {
                true => Error::Path { path: directory, source },
                false => Error::Make { path: directory, source },
            })?;
        }
        close_files(&data.control()).map_err(|source| Error::Path { path: data.control(), source })?;
        Ok(data)
    }

    /// Whether it can be opened, as far as that can be told without making or changing anything.
    pub fn examine(root: &Path) -> Result<(), Error> {
        let data = Self::at(root);
        data.require_ours()?;
        for path in [data.root.clone(), data.control(), data.computers()].into_iter().filter(|path| path.exists()) {
            let usable = rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK);
            usable.map_err(|error| Error::Path { path, source: error.into() })?;
        }
        Ok(())
    }

    /// Nobody's rights are taken away on a directory that was named by mistake: it must be empty, or begun by us or for us.
    pub fn require_ours(&self) -> Result<(), Error> {
        let entries = match std::fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|source| Error::Path { path: self.root.clone(), source })?,
        };
        let names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        let is_ours = |name: &std::ffi::OsString| OURS.iter().any(|ours| name == ours);
        match names.is_empty() || names.iter().any(is_ours) {
            true => Ok(()),
            false => Err(Error::Foreign { path: self.root.clone() }),
        }
    }

    /// Trusted state.
    pub fn control(&self) -> PathBuf {
        self.root.join("control")
    }

    /// Control's own database.
    pub fn database(&self) -> PathBuf {
        self.control().join("control.sqlite")
    }

    /// All computers.
    pub fn computers(&self) -> PathBuf {
        self.root.join("computers")
    }

    /// One computer.
    pub fn computer(&self, id: ComputerId) -> PathBuf {
        self.computers().join(id.to_string())
    }

    /// Where a running instance says how it is reached.
    pub fn address(&self) -> PathBuf {
        self.control().join("address")
    }

    /// The configuration file that is read unless another one is named.
    pub fn config(&self) -> PathBuf {
        self.root.join("choir.toml")
    }

    /// Keeps every other instance out for as long as the answer lives.
    pub fn lock(&self) -> Result<Lock, Error> {
        let path = self.control().join("lock");
        self.take(private_file(&path).map_err(|source| Error::Path { path, source })?)
    }

    /// The same for whoever only looks and makes nothing. Whoever runs has made the file, so where there is none nobody does.
    pub fn lock_to_look(&self) -> Result<Option<Lock>, Error> {
        let path = self.control().join("lock");
        match File::open(&path) {
            Ok(file) => self.take(file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Path { path, source }),
        }
    }

    fn take(&self, file: File) -> Result<Lock, Error> {
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: self.root.clone() }),
            Err(TryLockError::Error(source)) => Err(Error::Path { path: self.control().join("lock"), source }),
        }
    }

    /// Computers that have a directory here.
    pub fn known_computers(&self) -> Result<Vec<ComputerId>, Error> {
        let path = self.computers();
        let entries = std::fs::read_dir(&path).map_err(|source| Error::Path { path, source })?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// A key of 32 bytes in `control/`. It is made at its first use, and never in the place of one that something which is
    /// kept `rests` on: a new one would make a liar of every signature and noise of every sealed value.
    pub(crate) fn key(&self, name: &str, rests: Option<&'static str>) -> Result<[u8; 32], Error> {
        let path = self.control().join(name);
        let wrap = |source| Error::Path { path: path.clone(), source };
        match (read_key(&path), rests) {
            (read, Some(rests)) => read.map_err(|error| error.or_gone(rests)),
            (Err(Error::Path { source, path }), None) if source.kind() == io::ErrorKind::NotFound => {
                let key = random_bytes();
                write_private(&path, &key).map_err(wrap)?;
                Ok(key)
            }
            (read, None) => read,
        }
    }
}

impl Error {
    /// What it means that a key which something `rests` on is not there.
    pub(crate) fn or_gone(self, rests: &'static str) -> Self {
        match self {
            Self::Path { source, path } if source.kind() == io::ErrorKind::NotFound => Self::KeyGone { path, rests },
            other => other,
        }
    }
}

/// Makes a directory that only its owner can enter, and takes rights away from one that was more open.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
}

/// Gives back to a directory's owner whatever they have forbidden to themselves.
pub(crate) fn open_to_owner(directory: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(directory)?.permissions().mode();
    match mode & PRIVATE_DIRECTORY == PRIVATE_DIRECTORY {
        true => Ok(()),
        false => std::fs::set_permissions(directory, Permissions::from_mode(mode | PRIVATE_DIRECTORY)),
    }
}

/// Takes rights on the files of a directory away from everybody but its owner.
fn close_files(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let closed = entry.metadata().and_then(|metadata| {
            match metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
                true => std::fs::set_permissions(entry.path(), Permissions::from_mode(PRIVATE_FILE)),
                false => Ok(()),
            }
        });
        match closed {
            // A database that is just being closed takes its helper files with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Writes a file that only its owner can read: whole, or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = private_file(&draft)?;
    file.set_len(0)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(path)
}

pub(crate) fn read_key(path: &Path) -> Result<[u8; 32], Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut bytes));
    read.map_err(|source| Error::Path { path: path.to_owned(), source })?;
    bytes.try_into().map_err(|_| Error::Key { path: path.to_owned(), expected: 32 })
}
