//! What a command says faster than its caller takes it: kept on disk, in order, in a file that nobody else can find.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::protocol::{Channel, EffectId};

/// Most bytes that wait on disk for one caller. What comes beyond them is missed.
const BYTES_MAX: u64 = 1 << 30;
/// Before each piece: where it was written to, and its length.
const HEAD_BYTES: usize = 5;
const OUTPUT: u8 = 0;
const ERROR: u8 = 1;

/// Both ends of it; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Spool(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Where its file is made when it is first needed. Absent where nothing may wait on disk.
    path: Option<PathBuf>,
    file: Option<File>,
    written: u64,
    read: u64,
}

impl Spool {
    /// In a directory that no sandbox sees.
    pub(super) fn new(directory: Option<&Path>, effect: &EffectId) -> Self {
        let path = directory.map(|directory| directory.join(format!("{effect}.spool")));
        Self(Arc::new(Mutex::new(Inner { path, ..Inner::default() })))
    }

    /// Whether nothing waits, so that what comes next need not wait behind it.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.read == inner.written
    }

    /// Puts a piece behind all others; false when there is no room for it.
    pub(super) fn put(&self, channel: Channel, bytes: &[u8]) -> bool {
        self.lock().put(channel, bytes).unwrap_or(false)
    }

    /// Takes the oldest piece.
    pub(super) fn take(&self) -> Option<(Channel, Bytes)> {
        // What cannot be read back is missing, and whoever counts sees that.
        self.lock().take().ok().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    fn put(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<bool> {
        let Ok(length) = u32::try_from(bytes.len()) else { return Ok(false) };
        if self.written - self.read + u64::from(length) > BYTES_MAX {
            return Ok(false);
        }
        let at = self.written;
        let Some(file) = self.file()? else { return Ok(false) };
        let kind = if channel == Channel::Error { ERROR } else { OUTPUT };
        let head: [u8; HEAD_BYTES] = {
            let [a, b, c, d] = length.to_be_bytes();
            [kind, a, b, c, d]
        };
        file.write_all_at(&head, at)?;
        file.write_all_at(bytes, at + HEAD_BYTES as u64)?;
        self.written = at + HEAD_BYTES as u64 + u64::from(length);
        Ok(true)
    }

    fn take(&mut self) -> io::Result<Option<(Channel, Bytes)>> {
        if self.read == self.written {
            return Ok(None);
        }
        let Some(file) = &self.file else { return Ok(None) };
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, self.read)?;
        let [kind, a, b, c, d] = head;
        let mut bytes = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
        file.read_exact_at(&mut bytes, self.read + HEAD_BYTES as u64)?;
        self.read += (HEAD_BYTES + bytes.len()) as u64;
        if self.read == self.written {
            // Its room is given back while nobody needs it.
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        let channel = if kind == ERROR { Channel::Error } else { Channel::Output };
        Ok(Some((channel, bytes.into())))
    }

    /// The file has no name from its first moment on: it goes with whoever holds it.
    fn file(&mut self) -> io::Result<Option<&File>> {
        if let (None, Some(path)) = (&self.file, &self.path) {
            let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
            std::fs::remove_file(path)?;
            self.file = Some(file);
        }
        Ok(self.file.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_in_order_and_leaves_no_name() {
        let place = tempfile::tempdir().expect("a directory");
        let spool = Spool::new(Some(place.path()), &EffectId::parse("effect").expect("a name"));
        assert!(spool.is_empty() && spool.take().is_none());
        for round in 0..3 {
            let said = [(Channel::Output, "one"), (Channel::Error, "two"), (Channel::Output, "")];
            assert!(said.iter().all(|(channel, text)| spool.put(*channel, text.as_bytes())), "{round}");
            assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
            for (channel, text) in said {
                assert!(!spool.is_empty());
                assert_eq!(spool.take(), Some((channel, Bytes::from(text))));
            }
            assert!(spool.is_empty());
        }
    }

    #[test]
    fn without_a_place_nothing_waits() {
        let spool = Spool::new(None, &EffectId::parse("effect").expect("a name"));
        assert!(!spool.put(Channel::Output, b"x") && spool.is_empty());
    }
}
