//! Carrying the log elsewhere, once and in order, across any number of restarts on either side.
//!
//! The cursor lies with the sink: whoever keeps the events knows best which ones it has. A cursor kept here could run
//! ahead of a sink that lost its newest writes, or behind one that took them just before a crash.

use choir_proto::{Envelope, Hash, Seq};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes looked at in one step while the end of a file is searched for its last line.
const STEP_BYTES: u64 = 64 * 1024;

/// Where events go.
pub trait Sink {
    /// The last event that it holds for good.
    fn position(&self) -> Seq;
    /// That event's hash, if it knows.
    fn hash(&self) -> Option<Hash>;
    /// Takes the next event.
    fn take(&mut self, event: &Envelope) -> io::Result<()>;
    /// When this returns, what was taken need never be sent again.
    fn settle(&mut self) -> io::Result<()>;
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn position(&self) -> Seq {
        (**self).position()
    }

    fn hash(&self) -> Option<Hash> {
        (**self).hash()
    }

    fn take(&mut self, event: &Envelope) -> io::Result<()> {
        (**self).take(event)
    }

    fn settle(&mut self) -> io::Result<()> {
        (**self).settle()
    }
}

/// Why a relay ended.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The sink does not take any more.
    #[error("the events could not be written")]
    Sink(#[from] io::Error),
    /// An event is missing between what the sink holds and what came.
    #[error("event {expected} is missing: {found} came instead")]
    Gap {
        /// What should have come.
        expected: Seq,
        /// What came.
        found: Seq,
    },
    /// What the sink holds comes from another log.
    #[error("event {0} does not follow what is there already: that comes from another log")]
    Foreign(Seq),
}

/// Why a file cannot be continued. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ContinueError {
    /// Two who write would each write every event.
    #[error("another program is writing events to it")]
    InUse,
    /// It holds anything but events.
    #[error("{0}")]
    Foreign(String),
    /// The file system said no.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Hands events to a sink: those that it has are left out, and none is ever left out in between.
#[derive(Debug)]
pub struct Relay<S> {
    sink: S,
    at: Seq,
    hash: Option<Hash>,
}

impl<S: Sink> Relay<S> {
    /// Goes on where the sink stands.
    pub fn new(sink: S) -> Self {
        Self { at: sink.position(), hash: sink.hash(), sink }
    }

    /// Where to read on from.
    pub fn position(&self) -> Seq {
        self.at
    }

    /// Carries a batch, which may overlap with what was carried before.
    pub fn carry<'event>(&mut self, events: impl IntoIterator<Item = &'event Envelope>) -> Result<(), RelayError> {
        for event in events {
            let (expected, found) = (self.at.next(), event.header.seq);
            if found < expected {
                continue;
            }
            if found > expected {
                return Err(RelayError::Gap { expected, found });
            }
            if self.hash.is_some_and(|hash| hash != event.header.prev) {
                return Err(RelayError::Foreign(found));
            }
            self.sink.take(event)?;
            self.at = found;
            self.hash = Some(event.header.hash);
        }
        Ok(self.sink.settle()?)
    }
}

/// A file with one event in each line. Its end is the cursor.
#[derive(Debug)]
pub struct JsonLines {
    file: BufWriter<File>,
    at: Seq,
    hash: Option<Hash>,
}

impl JsonLines {
    /// Opens or creates the file. A line that was cut off by a crash is removed; it was never settled. A file that holds
    /// anything else, or that somebody else is writing to, is left alone.
    pub fn open(path: &Path) -> Result<Self, ContinueError> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        // Before its end is looked for, and until the file is closed: where it ends is where to go on from.
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ContinueError::InUse,
            TryLockError::Error(error) => error.into(),
        })?;
        let end = after_last_newline(&mut file)?;
        let (at, hash) = match last_line(&mut file, end)? {
            None => (Seq::ZERO, None),
            Some(line) => {
                let event = serde_json::from_slice::<Envelope>(&line);
                let event =
                    event.map_err(|error| ContinueError::Foreign(format!("its last line is no event: {error}")))?;
                (event.header.seq, Some(event.header.hash))
            }
        };
        let mut rest = Vec::new();
        file.seek(SeekFrom::Start(end))?;
        (&mut file).take(EVENT_BEGINS.len() as u64).read_to_end(&mut rest)?;
        if !EVENT_BEGINS.starts_with(&rest) {
            let what = "what follows its last line is not the beginning of an event";
            return Err(ContinueError::Foreign(what.to_owned()));
        }
        file.set_len(end)?;
        Ok(Self { file: BufWriter::new(file), at, hash })
    }
}

/// How every line begins.
const EVENT_BEGINS: &[u8] = b"{\"seq\":";

impl Sink for JsonLines {
    fn position(&self) -> Seq {
        self.at
    }

    fn hash(&self) -> Option<Hash> {
        self.hash
    }

    fn take(&mut self, event: &Envelope) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, event)?;
        self.file.write_all(b"\n")?;
        (self.at, self.hash) = (event.header.seq, Some(event.header.hash));
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }
}

/// Where the last whole line ends.
fn after_last_newline(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    Ok(newline_before(file, length)?.map_or(0, |place| place + 1))
}

/// The last whole line, given where it ends.
fn last_line(file: &mut File, end: u64) -> io::Result<Option<Vec<u8>>> {
    if end == 0 {
        return Ok(None);
    }
    let begin = newline_before(file, end - 1)?.map_or(0, |place| place + 1);
    file.seek(SeekFrom::Start(begin))?;
    let mut line = Vec::new();
    file.take(end - begin).read_to_end(&mut line)?;
    Ok(Some(line))
}

/// The place of the last newline before a position, searched from its end: the file may be large.
fn newline_before(file: &mut File, mut end: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(STEP_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        bytes.clear();
        file.take(end - begin).read_to_end(&mut bytes)?;
        if let Some(place) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + place as u64));
        }
        end = begin;
    }
    Ok(None)
}
