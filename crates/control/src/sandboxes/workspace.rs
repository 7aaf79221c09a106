//! The live workspace as the computer hears of it, and the mirrors of its documents.
//!
//! The computer opens no workspace: it is told what it asked to hear of, by the keeper. It writes nothing but mirrors, and
//! only over what it knows: whatever else stands there is somebody's work.

use super::associate::{hash, text, tree};
use super::{Error, Sandboxes, files};
use bytes::Bytes;
use choir_proto::wire::{LiveFile, Mirror, Mirrored, WatchFiles, WatchFrame};
use choir_proto::{Hash, TaskId};
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{FaultCode, FileKind, Removal};
use choir_sandbox::runtime::{CallError, Guest};
use choir_sandbox::tree::Node;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use tokio::sync::mpsc;

/// Where mirrors are.
const MIRRORS: &str = "documents/";
/// Longest file that is told of with its text, in bytes; the longest document.
const TEXT_BYTES_MAX: u64 = 20 << 20;
/// Files that one listener may hear of.
const FILES_MAX: usize = 4096;
/// Mirrors that tasks brought in and nobody has been told of yet.
const ARRIVING_MAX: usize = 1024;

impl Sandboxes {
    /// Tells of files until the listener goes away or the keeper does.
    pub(super) async fn watch(&self, wanted: WatchFiles, frames: &mpsc::Sender<WatchFrame>) -> Result<(), Error> {
        let keeper = self.keeper().await?;
        // Watched before it is looked at: nothing can change unseen in between.
        let mut watch = keeper.watch().await?;
        let mut told = Told { sandboxes: self, keeper: &keeper, frames, hashes: HashMap::new() };
        for path in present(&keeper, &wanted).await? {
            told.tell(path).await?;
        }
        if frames.send(WatchFrame::Ready).await.is_err() {
            return Ok(());
        }
        loop {
            let changes = tokio::select! {
                changes = watch.next() => changes?,
                () = frames.closed() => return Ok(()),
            };
            let mut paths: Vec<RelativePath> =
                changes.paths.into_iter().filter(|path| is_wanted(&wanted, &text(path))).collect();
            if changes.incomplete {
                paths = present(&keeper, &wanted).await?;
                // What was there and may be gone.
                paths.extend(told.hashes.keys().filter_map(|path| RelativePath::parse(path).ok()));
                paths.sort();
                paths.dedup();
            }
            for path in paths {
                told.tell(path).await?;
            }
        }
    }

    /// Writes a mirror, or takes it away, unless somebody else has put something there.
    pub(super) async fn mirror(&self, mirror: Mirror) -> Result<Mirrored, Error> {
        let path = files::parse_path(&mirror.path)?;
        if !is_mirror(&text(&path)) {
            return Err(Error::NotAllowed);
        }
        let keeper = self.keeper().await?;
        match replace(&keeper, &path, mirror).await {
            Ok(written) => Ok(Mirrored { written }),
            // Somebody's work too, and no reason to go without the other mirrors.
            Err(Error::Call(error)) if is_of_one_path(&error) => Ok(Mirrored { written: false }),
            Err(error) => Err(error),
        }
    }

    /// Remembers which mirrors a task is about to bring in: what is found there then is its doing, not a person's.
    pub(super) async fn expect_mirrors(&self, task: TaskId, base: Hash, result: Hash) -> Result<(), Error> {
        let keeper = self.keeper().await?;
        let (base, result) = (keeper.read_tree(tree(base)).await?, keeper.read_tree(tree(result)).await?);
        let changed = base.changes(&result).into_iter().filter(|(path, _)| is_mirror(&text(path)));
        let found = changed.filter_map(|(path, _)| match result.get(&path) {
            Some(Node::File { hash: content, .. }) => Some((text(&path), hash(*content), task)),
            _ => None,
        });
        let mut arriving = self.0.arriving.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        arriving.extend(found);
        let too_many = arriving.len().saturating_sub(ARRIVING_MAX);
        arriving.drain(..too_many);
        Ok(())
    }

    /// Who brought a mirror in, if a task did.
    fn brought_by(&self, path: &str, content: Option<Hash>) -> Option<TaskId> {
        let arriving = self.0.arriving.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        arriving.iter().rev().find(|(known, hash, _)| known == path && Some(*hash) == content).map(|(.., task)| *task)
    }
}

/// What one listener has been told.
struct Told<'a> {
    sandboxes: &'a Sandboxes,
    keeper: &'a Guest,
    frames: &'a mpsc::Sender<WatchFrame>,
    hashes: HashMap<String, Option<Hash>>,
}

impl Told<'_> {
    /// Tells how a file is, if that is news.
    async fn tell(&mut self, path: RelativePath) -> Result<(), Error> {
        let (hash, content) = match read(self.keeper, &path).await {
            Ok(content) => (content.as_ref().map(|content| sha256(content)), content),
            // Too long to be read as a whole: that it changed can still be seen.
            Err(Error::Call(CallError::TooLong)) => (Some(self.looks(&path).await?), None),
            Err(Error::Call(CallError::Fault(_) | CallError::Changed)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let name = text(&path);
        if self.hashes.get(&name) == Some(&hash) || self.hashes.len() >= FILES_MAX {
            return Ok(());
        }
        self.hashes.insert(name.clone(), hash);
        let task = self.sandboxes.brought_by(&name, hash);
        let text = content.and_then(|content| String::from_utf8(content.to_vec()).ok());
        // A listener that has gone is noticed by whoever waits for changes.
        self.frames.send(WatchFrame::File(LiveFile { path: name, hash, text, task })).await.ok();
        Ok(())
    }

    async fn looks(&self, path: &RelativePath) -> Result<Hash, Error> {
        let metadata = self.keeper.stat(path).await?;
        Ok(sha256(format!("{} {}", metadata.size, metadata.modified_ns).as_bytes()))
    }
}

/// The wanted files that are there.
async fn present(keeper: &Guest, wanted: &WatchFiles) -> Result<Vec<RelativePath>, Error> {
    let mut found = Vec::new();
    for path in &wanted.paths {
        let parsed = files::parse_path(path)?;
        if !path.ends_with('/') {
            found.push(parsed);
            continue;
        }
        let entries = match files::list(keeper, &parsed, None).await {
            Ok((entries, _)) => entries,
            Err(Error::Call(CallError::Fault(fault))) if fault.code == FaultCode::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries.into_iter().filter(|entry| entry.metadata.kind == FileKind::File) {
            found.push(parsed.join(entry.name.as_bytes())?);
        }
    }
    Ok(found)
}

fn is_wanted(wanted: &WatchFiles, path: &str) -> bool {
    wanted.paths.iter().any(|wanted| match wanted.strip_suffix('/') {
        Some(directory) => path.rsplit_once('/').is_some_and(|(parent, _)| parent == directory),
        None => wanted == path,
    })
}

/// Whether a path may be a mirror: in the one directory, and nowhere beneath it.
fn is_mirror(path: &str) -> bool {
    path.strip_prefix(MIRRORS).is_some_and(|name| !name.contains('/') && name.ends_with(".md"))
}

/// A file's content; nothing when it is not there.
async fn read(keeper: &Guest, path: &RelativePath) -> Result<Option<Bytes>, Error> {
    match keeper.read_file(path, TEXT_BYTES_MAX).await {
        Ok(content) => Ok(Some(content)),
        Err(CallError::Fault(fault)) if fault.code == FaultCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file say what it is to say, unless it says something else than is known; whether it does now.
async fn replace(keeper: &Guest, path: &RelativePath, mirror: Mirror) -> Result<bool, Error> {
    let present = read(keeper, path).await?.map(|content| sha256(&content));
    let wanted = mirror.text.as_ref().map(|text| sha256(text.as_bytes()));
    if present == wanted {
        return Ok(true);
    }
    if present.is_some() && present != mirror.over {
        return Ok(false);
    }
    match mirror.text {
        Some(text) => files::write(keeper, path, Bytes::from(text), None).await?,
        None => {
            keeper.remove(path, Removal::File).await?;
            // The last one takes the directory with it; while there are others it stays.
            let (directory, _) = path.split().ok_or(Error::NotAllowed)?;
            keeper.remove(&directory, Removal::EmptyDirectory).await.ok();
        }
    }
    Ok(true)
}

/// Whether a call failed by what stands at its path: a directory, a link, something too long or just being written.
fn is_of_one_path(error: &CallError) -> bool {
    use FaultCode::{Denied, Escapes, Exists, NotADirectory, NotAFile, NotEmpty, NotFound};
    match error {
        CallError::TooLong | CallError::Changed => true,
        CallError::Fault(fault) => {
            matches!(fault.code, Denied | Escapes | Exists | NotADirectory | NotAFile | NotEmpty | NotFound)
        }
        CallError::Lost | CallError::Unexpected => false,
    }
}

fn sha256(content: &[u8]) -> Hash {
    Hash(Sha256::digest(content).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_lie_in_one_directory_and_are_markdown() {
        assert!(is_mirror("documents/a.md"));
        for other in ["documents/a.txt", "documents/x/a.md", "a.md", "other/documents/a.md", "documents"] {
            assert!(!is_mirror(other), "{other}");
        }
    }

    #[test]
    fn a_listener_hears_of_files_and_of_what_lies_in_a_directory() {
        let wanted = WatchFiles { paths: vec!["documents/".into(), "data/x.csv".into()] };
        assert!(is_wanted(&wanted, "documents/a.md") && is_wanted(&wanted, "data/x.csv"));
        assert!(!is_wanted(&wanted, "documents/b/a.md") && !is_wanted(&wanted, "data/y.csv"));
    }
}
