//! Whose build results lie in the shared cache. Cargo tells a package of one clone from the same package of another only
//! by the age of its files, so an older clone would be handed what a younger one compiled, paths and all.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};

use crate::paths::Paths;

/// Names the clone whose packages were compiled last.
const OWNER: &str = "clone";
/// Our own packages, whose names all begin so; others' are the same for every clone.
const OURS: &str = "choir";

/// Makes cargo compile our packages anew where another clone compiled them last.
pub(crate) fn claim(paths: &Paths) -> Result<()> {
    let owner = paths.target.join(OWNER);
    let here = paths.root.to_string_lossy();
    if fs::read_to_string(&owner).is_ok_and(|there| there == here) {
        return Ok(());
    }
    let doing = || format!("claim the build results in {}", paths.target.display());
    forget(&paths.target).with_context(doing)?;
    fs::create_dir_all(&paths.target).and_then(|()| fs::write(&owner, here.as_bytes())).with_context(doing)
}

/// Removes what cargo remembers of our packages: what it compiled may stay, only nobody relies on it.
fn forget(target: &Path) -> io::Result<()> {
    // A profile lies directly in the target directory, or in that of its platform.
    for directory in directories(target)? {
        for profile in directories(&directory)?.into_iter().chain([directory]) {
            for known in directories(&profile.join(".fingerprint"))? {
                if known.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OURS)) {
                    fs::remove_dir_all(known)?;
                }
            }
        }
    }
    Ok(())
}

/// The directories in one that may not exist.
fn directories(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_clone_compiled_is_compiled_anew_and_what_it_took_from_others_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("target");
        let of = |root: &str| Paths { root: root.into(), cache: scratch.path().into(), target: target.clone() };
        let known = ["debug", "wasm32-unknown-unknown/wasm"].map(|profile| target.join(profile).join(".fingerprint"));
        let compile = || known.iter().for_each(|of| fs::create_dir_all(of.join("choir-core-1")).unwrap());
        known.iter().for_each(|of| fs::create_dir_all(of.join("serde-1")).unwrap());

        claim(&of("/a")).unwrap();
        compile();
        claim(&of("/a")).unwrap();
        assert!(known.iter().all(|of| of.join("choir-core-1").exists()), "the same clone starts warm");
        claim(&of("/b")).unwrap();
        assert!(known.iter().all(|of| !of.join("choir-core-1").exists() && of.join("serde-1").exists()));
    }
}
