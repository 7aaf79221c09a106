//! Files as they are in a tree: what was before a task touched it, as the keeper has it.

use super::associate::{hash, text, tree};
use super::{Error, Sandboxes};
use axum::body::Body;
use choir_proto::Hash;
use choir_proto::wire::{ReadTree, TreeFile, TreeFiles};
use choir_sandbox::path::RelativePath;
use choir_sandbox::runtime::{CallError, Guest};
use choir_sandbox::tree::{ContentHash, Node};

/// Most files that one answer tells of.
const FILES_MAX: usize = 512;
/// Most bytes of all texts in one answer; it has to be held as a whole.
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Longest file whose text is told, in bytes. What describes or checks a project is shorter.
const FILE_BYTES_MAX: u64 = 512 << 10;

/// The difference between two trees as a stream of its parts. Whatever its length, no more of it is here than one part.
pub(crate) async fn whole_diff(keeper: Guest, (from, to): (Hash, Hash)) -> Result<Body, Error> {
    let (from, to) = (tree(from), tree(to));
    let (first, last) = keeper.whole_diff(from, to, 0).await?;
    let begun = (!last).then_some(first.len() as u64);
    let rest = futures_util::stream::try_unfold((keeper, begun), move |(keeper, at)| async move {
        let Some(at) = at else { return Ok(None) };
        let (part, last) = keeper.whole_diff(from, to, at).await?;
        let next = (!last).then_some(at + part.len() as u64);
        Ok::<_, CallError>(Some((part, (keeper, next))))
    });
    let whole = futures_util::StreamExt::chain(futures_util::stream::once(async { Ok(first) }), rest);
    Ok(Body::from_stream(whole))
}

impl Sandboxes {
    /// Files of a tree by their names or paths, with what they say.
    pub(super) async fn read_tree(&self, of: Hash, wanted: &ReadTree) -> Result<TreeFiles, Error> {
        let (keeper, id) = (self.keeper().await?, tree(of));
        let tree = keeper.read_tree(id).await?;
        let found: Vec<(&RelativePath, u64, ContentHash)> = tree
            .iter()
            .filter_map(|(path, node)| match node {
                Node::File { size, hash, .. } => is_wanted(wanted, &text(path)).then_some((path, *size, *hash)),
                Node::Directory { .. } | Node::Link { .. } | Node::Derived => None,
            })
            .collect();
        let (mut files, mut bytes_left) = (Vec::new(), TEXT_BYTES_MAX);
        for (path, size, content_hash) in found.iter().take(FILES_MAX) {
            let fits = *size <= FILE_BYTES_MAX.min(bytes_left);
            let content = if fits { Some(keeper.read_content(id, path, FILE_BYTES_MAX).await?) } else { None };
            bytes_left -= content.as_ref().map_or(0, |content| content.len() as u64).min(bytes_left);
            let content = content.and_then(|content| String::from_utf8(content.to_vec()).ok());
            files.push(TreeFile { path: text(path), hash: hash(*content_hash), text: content });
        }
        Ok(TreeFiles { files, more: found.len() > FILES_MAX })
    }
}

fn is_wanted(wanted: &ReadTree, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    wanted.names.iter().any(|pattern| fits(pattern, name)) || wanted.paths.iter().any(|wanted| wanted == path)
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((head, tail)) => name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand_and_paths_only_there() {
        let wanted = ReadTree { names: vec!["Makefile".into(), "test_*.py".into()], paths: vec!["src/lib.rs".into()] };
        for path in ["Makefile", "a/b/Makefile", "test_.py", "x/test_a.py", "src/lib.rs"] {
            assert!(is_wanted(&wanted, path), "{path}");
        }
        for path in ["makefile", "Makefile/x", "test_a.txt", "test.py", "lib.rs", "a/src/lib.rs"] {
            assert!(!is_wanted(&wanted, path), "{path}");
        }
    }
}
