//! Files through a guest: the keeper for people, a task's associate for its agent.

use super::{Error, Sandboxes};
use axum::body::Body;
use bytes::Bytes;
use choir_core::picture;
use choir_proto::TaskId;
use choir_proto::wire::LivePath;
use choir_sandbox::path::{LinkTarget, RelativePath};
use choir_sandbox::protocol::{Entry, FaultCode, FileKind, Metadata, READ_BYTES_MAX, Removal};
use choir_sandbox::runtime::{CallError, FileWrite, Guest};

/// Largest file that an agent reads at once.
pub(super) const AGENT_FILE_BYTES_MAX: u64 = 64 << 20;
/// As much of a file as agents are told without asking for it, and a little more, so that they hear that it goes on.
const LIVE_BYTES_MAX: u64 = 17 << 10;
/// Most entries of one folder that are listed at once.
const ENTRIES_MAX: usize = 10_000;

/// A path as people and models write it: `/work/a`, `./a` and `a` are the same.
pub fn parse_path(text: &str) -> Result<RelativePath, Error> {
    let text = match text.strip_prefix("/work") {
        Some("") => "",
        Some(rest) => rest.strip_prefix('/').unwrap_or(text),
        None => text,
    };
    let text = text.strip_prefix("./").unwrap_or(text);
    // What stands for bytes that were no text would name another path than was meant.
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Error::NoText);
    }
    let text = text.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(text);
    Ok(RelativePath::parse(if text == "." { "" } else { text })?)
}

/// The entries of a folder after a name, and whether there are more than can be shown at once.
pub(crate) async fn list(
    guest: &Guest,
    path: &RelativePath,
    after: Option<&RelativePath>,
) -> Result<(Vec<Entry>, bool), Error> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let (page, more) = guest.list(path, entries.last().map(|last| &last.name).or(after)).await?;
        let stuck = page.is_empty();
        entries.extend(page);
        if !more || stuck || entries.len() >= ENTRIES_MAX {
            return Ok((entries, more));
        }
    }
}

/// A file as a stream of its parts. A file that changes under way breaks the stream off: half of each is neither.
pub(crate) async fn read(guest: Guest, path: RelativePath) -> Result<(Metadata, Body), Error> {
    let (first, metadata) = guest.read_range(&path, 0, READ_BYTES_MAX).await?;
    let size = metadata.size;
    let begun = first.len() as u64;
    let rest = futures_util::stream::try_unfold((guest, path, begun), move |(guest, path, at)| async move {
        if at >= size {
            return Ok(None);
        }
        let (part, now) = guest.read_range(&path, at, READ_BYTES_MAX).await?;
        if part.is_empty() || now.size != size {
            return Err(CallError::Changed);
        }
        let next = at + part.len() as u64;
        Ok(Some((part, (guest, path, next))))
    });
    let whole = futures_util::StreamExt::chain(futures_util::stream::once(async { Ok(first) }), rest);
    Ok((metadata, Body::from_stream(whole)))
}

/// Replaces a file, making the folders above it.
pub(crate) async fn write(guest: &Guest, path: &RelativePath, content: Bytes, mode: Option<u32>) -> Result<(), Error> {
    make_parent(guest, path).await?;
    Ok(guest.write_file(path, content, mode).await?)
}

/// Begins to replace a file whose bytes come in parts, making the folders above it.
pub(crate) async fn begin_write(
    guest: &Guest,
    path: &RelativePath,
    size: u64,
    mode: Option<u32>,
) -> Result<FileWrite, Error> {
    make_parent(guest, path).await?;
    Ok(guest.begin_write(path, size, mode).await?)
}

/// Puts a link, making the folders above it. Where it leads is for whoever follows it to find out.
pub(crate) async fn link(guest: &Guest, path: &RelativePath, target: Bytes) -> Result<(), Error> {
    let target = LinkTarget::parse(target)?;
    make_parent(guest, path).await?;
    Ok(guest.make_link(path, target).await?)
}

async fn make_parent(guest: &Guest, path: &RelativePath) -> Result<(), Error> {
    match path.split().filter(|(parent, _)| !parent.is_root()) {
        Some((parent, _)) => Ok(guest.make_directory(&parent).await?),
        None => Ok(()),
    }
}

/// Removes a file or a whole folder.
pub(crate) async fn remove(guest: &Guest, path: &RelativePath) -> Result<(), Error> {
    Ok(guest.remove(path, Removal::Tree).await?)
}

impl Sandboxes {
    /// Reads a file as a task sees it.
    pub(super) async fn read_in(&self, task: TaskId, path: &str) -> Result<Bytes, Error> {
        let associate = self.associate(task).await?;
        Ok(associate.guest.read_file(&parse_path(path)?, AGENT_FILE_BYTES_MAX).await?)
    }

    /// What stands at a path of the live workspace; of a long text the beginning.
    pub(super) async fn live(&self, path: &str) -> Result<LivePath, Error> {
        let path = &parse_path(path)?;
        let begun =
            self.by_keeper(|keeper| async move { Ok(keeper.read_range(path, 0, LIVE_BYTES_MAX).await?.0) }).await;
        match begun {
            Ok(begun) => Ok(LivePath { is_there: true, text: beginning(&begun) }),
            Err(Error::Call(CallError::Fault(fault))) => {
                let missing = matches!(fault.code, FaultCode::NotFound | FaultCode::NotADirectory);
                Ok(LivePath { is_there: !missing, text: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The picture at a path of the live workspace, and its sort; nothing where there is none that models can be shown.
    pub(super) async fn picture(&self, path: &str) -> Result<Option<(&'static str, Bytes)>, Error> {
        let path = &parse_path(path)?;
        let read = self.by_keeper(|keeper| async move {
            let (head, metadata) = keeper.read_range(path, 0, picture::HEAD_BYTES as u64).await?;
            let Some(sort) = picture::sort_of(&head).filter(|_| metadata.size <= picture::BYTES_MAX) else {
                return Ok(None);
            };
            let whole = keeper.read_file(path, picture::BYTES_MAX).await?;
            // One that was changed in between may be something else by now.
            Ok((picture::sort_of(&whole) == Some(sort)).then_some((sort, whole)))
        });
        match read.await {
            Err(Error::Call(CallError::Fault(_) | CallError::TooLong | CallError::Changed)) => Ok(None),
            read => read,
        }
    }

    /// Writes a file where a task sees it.
    pub(super) async fn write_in(&self, task: TaskId, path: &str, content: Bytes) -> Result<(), Error> {
        let associate = self.associate(task).await?;
        self.check_place(&associate, path)?;
        write(&associate.guest, &parse_path(path)?, content, None).await
    }

    /// Lists a folder as a task sees it: one name a line, folders with a slash.
    pub(super) async fn list_in(&self, task: TaskId, path: &str) -> Result<String, Error> {
        let (entries, more) = list(&self.associate(task).await?.guest, &parse_path(path)?, None).await?;
        let mut lines: String = entries.iter().map(line).collect();
        if more {
            lines.push_str("…\n");
        }
        Ok(lines)
    }
}

/// The text in bytes that may end in the middle of a letter; nothing if they are none.
fn beginning(bytes: &[u8]) -> Option<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(broken) if broken.error_len().is_none() => {
            Some(String::from_utf8_lossy(&bytes[..broken.valid_up_to()]).into())
        }
        Err(_) => None,
    }
}

fn line(entry: &Entry) -> String {
    let slash = if entry.metadata.kind == FileKind::Directory { "/" } else { "" };
    format!("{}{slash}\n", String::from_utf8_lossy(entry.name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_meaning_however_it_is_written() {
        for text in ["a/b", "./a/b", "/work/a/b", "a/b/"] {
            assert_eq!(parse_path(text).unwrap().as_bytes(), b"a/b", "{text}");
        }
        for text in ["", ".", "/work", "/work/", "./"] {
            assert!(parse_path(text).unwrap().is_root(), "{text}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for text in ["..", "a/../b", "/etc/passwd", "/workspace/a", "/work/../etc", "a//b", "a\0b", "//etc", "/"] {
            assert!(parse_path(text).is_err(), "{text}");
        }
    }
}
