//! Giving back the room of trees that nobody can ask for any more, while no instance runs.

use super::{Error, Places};
use crate::identity;
use choir_proto::Hash;
use choir_sandbox::guest::GuestRole;
use choir_sandbox::protocol::{Dropped, UNDONE_MAX};
use choir_sandbox::runtime::{Runtime, Spec};
use choir_sandbox::tree::TreeId;
use std::collections::HashSet;
use std::path::Path;

/// What was given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Trees that nothing names.
    pub trees: u64,
    /// Contents that no tree holds any more.
    pub contents: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// Has a keeper remove every tree that is not `named`, and then the contents that no tree holds. Broken off anywhere, it
/// leaves only what the next one removes. Whoever calls this holds the lock of the data directory.
pub async fn collect(places: &Places, named: &HashSet<Hash>) -> Result<Room, Error> {
    let unnamed = unnamed(&places.store, named)?;
    let mut spec = Spec::new(GuestRole::Keeper, &places.guest_program, &places.workspace);
    spec.store = Some(places.store.clone());
    spec.identity = identity::of_sandboxes(&places.workspace);
    let keeper = Runtime::process()?.start(spec).await?;
    for trees in unnamed.chunks(UNDONE_MAX) {
        keeper.drop_trees(trees.to_vec()).await?;
    }
    let Dropped { contents, bytes } = keeper.drop_contents().await?;
    keeper.shutdown().await;
    Ok(Room { trees: unnamed.len() as u64, contents, bytes })
}

/// The names of trees that are kept and not named. Nothing but names is looked at here.
fn unnamed(store: &Path, named: &HashSet<Hash>) -> Result<Vec<TreeId>, Error> {
    let path = store.join("trees");
    let listed = match std::fs::read_dir(&path) {
        // No task has ever run.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|source| Error::Directory { path, source })?,
    };
    let names = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<Hash>().ok());
    Ok(names.filter(|name| !named.contains(name)).map(super::associate::tree).collect())
}
