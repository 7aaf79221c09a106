//! What was started and how it ended, kept where no command can reach it.
//!
//! One append-only file, one line a fact, synced before the fact is acted upon: `started` before a command is handed
//! to a guest, `exited` before its end is told to anyone. After a crash the file says of each effect that it never
//! began, how it ended, or that it began and nothing more is known.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::protocol::{EffectId, Exit};

/// Name of the file in its directory.
pub const FILE_NAME: &str = "effects.jsonl";
/// Facts that may wait to be written; more callers wait in turn.
const QUEUE_MAX: usize = 256;
/// Lines from which a record is written anew when it is opened.
const LINES_WORTH_SHORTENING: usize = 10_000;
/// Effects that are remembered beyond those whose end is not known.
const EFFECTS_KEPT_MAX: usize = 50_000;
/// Version of a line.
const LINE_VERSION: u32 = 1;

/// What is known of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was about to start; whether it did, and how it ended, is unknown.
    Started,
    /// It was refused before it ran.
    Refused,
    /// It ended.
    Exited(Exit),
}

/// Why a record could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or file cannot be used.
    #[error("the record {path} could not be opened")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another process writes it.
    #[error("the record {0} is in use by another process")]
    InUse(PathBuf),
    /// A line that was synced cannot be read.
    #[error("line {line} of the record {path} is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Why a fact was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The effect was recorded before and must not run again.
    #[error("the effect was started before")]
    Known(Outcome),
    /// The file could not be written or synced. What it holds is uncertain, and nothing more is written to it.
    #[error("the record cannot be written")]
    Broken,
}

/// The record of one directory; a cheap handle.
#[derive(Debug, Clone)]
pub struct Record {
    known: Arc<Mutex<HashMap<EffectId, Outcome>>>,
    writer: mpsc::SyncSender<Fact>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    version: u32,
    effect: EffectId,
    outcome: Outcome,
}

struct Fact {
    line: Vec<u8>,
    written: oneshot::Sender<()>,
}

impl Record {
    /// Opens or makes the record of a directory. A line torn by a crash is removed: it was never acted upon.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE_NAME);
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let mut file = open_file(directory, &path).map_err(failed)?;
        if let Err(error) = file.try_lock() {
            return Err(match error {
                std::fs::TryLockError::WouldBlock => OpenError::InUse(path),
                std::fs::TryLockError::Error(source) => OpenError::Io { path, source },
            });
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (mut known, order) =
            parse(&content[..whole]).map_err(|line| OpenError::Damaged { path: path.clone(), line })?;
        match shorten(&mut known, &order, content[..whole].iter().filter(|byte| **byte == b'\n').count()) {
            Some(shorter) => file = replace(directory, &path, &shorter).map_err(failed)?,
            None => cut(&mut file, whole).map_err(failed)?,
        }
        let (writer, facts) = mpsc::sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("record".into());
        thread.spawn(move || write_facts(file, &facts)).map_err(failed)?;
        Ok(Self { known: Arc::new(Mutex::new(known)), writer })
    }

    /// Records that the effect is about to start. Fails when it ever did before; one that was refused never began.
    pub async fn started(&self, effect: &EffectId) -> Result<(), RecordError> {
        {
            let mut known = self.lock();
            if let Some(outcome @ (Outcome::Started | Outcome::Exited(_))) = known.get(effect) {
                return Err(RecordError::Known(outcome.clone()));
            }
            // At once, so that of two callers one is refused; too early a "started" errs to the careful side.
            known.insert(effect.clone(), Outcome::Started);
        }
        self.write(effect, Outcome::Started).await
    }

    /// Records that the effect was refused before it ran.
    pub async fn refused(&self, effect: &EffectId) -> Result<(), RecordError> {
        self.end(effect, Outcome::Refused).await
    }

    /// Records how the effect ended.
    pub async fn exited(&self, effect: &EffectId, exit: Exit) -> Result<(), RecordError> {
        self.end(effect, Outcome::Exited(exit)).await
    }

    /// What is known of the effect; `None` when it never began.
    pub fn lookup(&self, effect: &EffectId) -> Option<Outcome> {
        self.lock().get(effect).cloned()
    }

    async fn end(&self, effect: &EffectId, outcome: Outcome) -> Result<(), RecordError> {
        self.write(effect, outcome.clone()).await?;
        self.lock().insert(effect.clone(), outcome);
        Ok(())
    }

    async fn write(&self, effect: &EffectId, outcome: Outcome) -> Result<(), RecordError> {
        let line = Line { version: LINE_VERSION, effect: effect.clone(), outcome };
        let mut line = serde_json::to_vec(&line).map_err(|_| RecordError::Broken)?;
        line.push(b'\n');
        let (written, done) = oneshot::channel();
        let (writer, fact) = (self.writer.clone(), Fact { line, written });
        // The queue is short and emptied by group commits; only when it is full is a thread taken to wait for it.
        if let Err(mpsc::TrySendError::Full(fact)) = writer.try_send(fact) {
            tokio::task::spawn_blocking(move || writer.send(fact)).await.ok();
        }
        done.await.map_err(|_| RecordError::Broken)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EffectId, Outcome>> {
        // Each change is one insertion, so the map is whole even after a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the file for reading and writing; a new one is made durable with its name.
fn open_file(directory: &Path, path: &Path) -> io::Result<File> {
    std::fs::create_dir_all(directory)?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

fn cut(file: &mut File, length: usize) -> io::Result<()> {
    let length = length as u64;
    if file.metadata()?.len() > length {
        file.set_len(length)?;
        file.sync_all()?;
    }
    file.seek(SeekFrom::Start(length)).map(drop)
}

/// What is known, and in which order effects first came; or the number of a line that cannot be read.
fn parse(content: &[u8]) -> Result<(HashMap<EffectId, Outcome>, Vec<EffectId>), usize> {
    let (mut known, mut order) = (HashMap::new(), Vec::new());
    let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        match serde_json::from_slice::<Line>(line) {
            Ok(line) if line.version == LINE_VERSION => {
                if known.insert(line.effect.clone(), line.outcome).is_none() {
                    order.push(line.effect);
                }
            }
            _ => return Err(index + 1),
        };
    }
    Ok((known, order))
}

/// A long record as one line for each effect, without the oldest of those whose end is known: whoever began them has
/// asked long ago. Nothing when it is not worth while.
fn shorten(known: &mut HashMap<EffectId, Outcome>, order: &[EffectId], lines: usize) -> Option<Vec<u8>> {
    if lines < LINES_WORTH_SHORTENING {
        return None;
    }
    let mut too_many = order.len().saturating_sub(EFFECTS_KEPT_MAX);
    let mut shorter = Vec::new();
    for effect in order {
        let Some(outcome) = known.get(effect).cloned() else { continue };
        if too_many > 0 && outcome != Outcome::Started {
            too_many -= 1;
            known.remove(effect);
            continue;
        }
        let line = Line { version: LINE_VERSION, effect: effect.clone(), outcome };
        serde_json::to_writer(&mut shorter, &line).ok()?;
        shorter.push(b'\n');
    }
    Some(shorter)
}

/// Puts another file in the record's place, whole or not at all, under the same lock as before.
fn replace(directory: &Path, path: &Path, content: &[u8]) -> io::Result<File> {
    let beside = directory.join(format!("{FILE_NAME}.new"));
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&beside)?;
    file.try_lock().map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

/// Writes facts until nobody can send any, many with one sync when many wait. Ends at the first error: after a
/// failed sync nobody knows what the file holds, and a later success would be a lie.
fn write_facts(mut file: File, facts: &mpsc::Receiver<Fact>) {
    while let Ok(first) = facts.recv() {
        let batch: Vec<Fact> = std::iter::once(first).chain(facts.try_iter().take(QUEUE_MAX)).collect();
        let lines: Vec<u8> = batch.iter().flat_map(|fact| fact.line.iter().copied()).collect();
        if let Err(error) = file.write_all(&lines).and_then(|()| file.sync_data()) {
            tracing::error!(%error, "the record of effects could not be written");
            return;
        }
        for fact in batch {
            // A caller that was given up needs no answer.
            fact.written.send(()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Ending;

    fn effect(text: &str) -> EffectId {
        EffectId::parse(text).expect("a good id")
    }

    fn exit(code: i32) -> Exit {
        Exit { ending: Ending::Code(code), duration_ms: 5 }
    }

    #[tokio::test]
    async fn outcomes_survive_reopening() {
        let directory = tempfile::tempdir().expect("a directory");
        let record = Record::open(directory.path()).expect("opens");
        for id in ["begun", "ended", "refused"] {
            record.started(&effect(id)).await.expect("recorded");
        }
        record.exited(&effect("ended"), exit(3)).await.expect("recorded");
        record.refused(&effect("refused")).await.expect("recorded");
        let lines = std::fs::read(directory.path().join(FILE_NAME)).expect("reads");

        let copy = tempfile::tempdir().expect("a directory");
        std::fs::write(copy.path().join(FILE_NAME), lines).expect("writes");
        let record = Record::open(copy.path()).expect("opens");
        assert_eq!(record.lookup(&effect("begun")), Some(Outcome::Started));
        assert_eq!(record.lookup(&effect("ended")), Some(Outcome::Exited(exit(3))));
        assert_eq!(record.lookup(&effect("refused")), Some(Outcome::Refused));
        assert_eq!(record.lookup(&effect("never")), None);
    }

    #[tokio::test]
    async fn an_effect_never_starts_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let record = Record::open(directory.path()).expect("opens");
        record.started(&effect("once")).await.expect("recorded");
        assert_eq!(record.started(&effect("once")).await, Err(RecordError::Known(Outcome::Started)));
        record.exited(&effect("once"), exit(0)).await.expect("recorded");
        assert_eq!(record.started(&effect("once")).await, Err(RecordError::Known(Outcome::Exited(exit(0)))));
    }

    #[tokio::test]
    async fn an_effect_that_was_refused_may_be_tried_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let record = Record::open(directory.path()).expect("opens");
        record.started(&effect("late")).await.expect("recorded");
        record.refused(&effect("late")).await.expect("recorded");
        record.started(&effect("late")).await.expect("recorded");
        assert_eq!(record.lookup(&effect("late")), Some(Outcome::Started));
        let lines = std::fs::read(directory.path().join(FILE_NAME)).expect("reads");
        assert_eq!(parse(&lines).expect("is sound").0[&effect("late")], Outcome::Started);
    }

    #[tokio::test]
    async fn a_torn_line_is_forgotten_and_writing_goes_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(FILE_NAME);
        let whole = r#"{"version":1,"effect":"a","outcome":"started"}"#;
        std::fs::write(&path, format!("{whole}\n{}", &whole[..20])).expect("writes");
        let record = Record::open(directory.path()).expect("opens");
        record.exited(&effect("a"), exit(0)).await.expect("recorded");
        let lines = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(parse(lines.as_bytes()).is_ok());
    }

    #[tokio::test]
    async fn a_long_record_is_shortened_and_forgets_nothing_that_is_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(FILE_NAME);
        let line = |number: usize, outcome: &str| {
            format!("{{\"version\":1,\"effect\":\"e{number}\",\"outcome\":{outcome}}}\n")
        };
        let ended = r#"{"exited":{"ending":{"code":0},"duration_ms":1}}"#;
        let count = EFFECTS_KEPT_MAX + 10;
        let mut lines: String = (0..count).map(|number| line(number, "\"started\"")).collect();
        lines.extend((1..count).map(|number| line(number, ended)));
        std::fs::write(&path, &lines).expect("writes");
        let before = lines.len();

        let record = Record::open(directory.path()).expect("opens");
        assert_eq!(record.lookup(&effect("e0")), Some(Outcome::Started), "its end is not known");
        assert_eq!(record.lookup(&effect("e1")), None, "the oldest that ended");
        assert!(matches!(record.lookup(&effect(&format!("e{}", count - 1))), Some(Outcome::Exited(_))));
        record.started(&effect("new")).await.expect("recorded");
        let kept = std::fs::read(&path).expect("reads");
        assert!(kept.len() < before * 3 / 4, "{} of {before}", kept.len());
        let (known, order) = parse(&kept).expect("is whole");
        assert_eq!((known.len(), order.len()), (EFFECTS_KEPT_MAX + 1, EFFECTS_KEPT_MAX + 1));
        assert!(matches!(Record::open(directory.path()), Err(OpenError::InUse(_))), "the new file is locked too");
    }

    #[test]
    fn a_damaged_line_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE_NAME), "{}\n").expect("writes");
        assert!(matches!(Record::open(directory.path()), Err(OpenError::Damaged { line: 1, .. })));
    }

    #[test]
    fn one_process_writes() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = Record::open(directory.path()).expect("opens");
        assert!(matches!(Record::open(directory.path()), Err(OpenError::InUse(_))));
        drop(first);
    }
}
