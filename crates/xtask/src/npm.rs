//! Node packages: installed once per lock file into the cache, linked into the clone.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::call::Call;
use crate::paths::Paths;
use crate::steps::Step;

/// What decides the content of `node_modules`.
const INPUTS: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

/// Makes `DIRECTORY/node_modules` a link to the packages of its lock file, installing them if they are not in the cache.
pub(crate) fn install(paths: &Paths, step: &mut Step, directory: &Path) -> Result<()> {
    let inputs = read_inputs(directory)?;
    let home = paths.cache.join("npm").join(format!("{:016x}", key(&inputs)));
    if !home.is_dir() {
        fill(step, &home, &inputs)?;
    }
    link(&home.join("node_modules"), &directory.join("node_modules"))
}

type Inputs = Vec<(&'static str, Vec<u8>)>;

fn read_inputs(directory: &Path) -> Result<Inputs> {
    let read = |name| fs::read(directory.join(name)).with_context(|| format!("{}/{name}", directory.display()));
    INPUTS.iter().map(|name| Ok((*name, read(name)?))).collect()
}

/// Installs beside the final place and moves it there whole: an interrupted installation is never taken for a finished one.
fn fill(step: &mut Step, home: &Path, inputs: &Inputs) -> Result<()> {
    let partial = PathBuf::from(format!("{}.{}", home.display(), std::process::id()));
    fs::create_dir_all(&partial)?;
    for (name, bytes) in inputs {
        fs::write(partial.join(name), bytes)?;
    }
    // Packages may not run code of theirs while they are installed.
    let install = Call::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).dir(&partial);
    let result = step.call(&install);
    if result.is_err() {
        // Its failure is the one to report, not that of the clean-up.
        fs::remove_dir_all(&partial).ok();
    }
    result?;
    match fs::rename(&partial, home) {
        // Someone else installed the same lock file meanwhile; theirs is as good.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            Ok(fs::remove_dir_all(&partial)?)
        }
        other => Ok(other?),
    }
}

fn link(target: &Path, place: &Path) -> Result<()> {
    match fs::symlink_metadata(place) {
        Ok(found) if found.is_symlink() && fs::read_link(place)? == target => return Ok(()),
        Ok(found) if found.is_symlink() => fs::remove_file(place)?,
        // A directory that `npm install` made by hand.
        Ok(_) => fs::remove_dir_all(place)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    symlink(target, place).with_context(|| format!("link {}", place.display()))
}

/// FNV-1a over names and contents. It only has to tell honest lock files apart: npm itself checks the packages' hashes.
fn key(inputs: &Inputs) -> u64 {
    let bytes = inputs.iter().flat_map(|(name, bytes)| name.bytes().chain([0]).chain(bytes.iter().copied()).chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_with_any_input() {
        let base = key(&vec![("package.json", b"a".to_vec()), (".npmrc", b"b".to_vec())]);
        assert_eq!(base, key(&vec![("package.json", b"a".to_vec()), (".npmrc", b"b".to_vec())]));
        assert_ne!(base, key(&vec![("package.json", b"ab".to_vec()), (".npmrc", b"".to_vec())]));
        assert_ne!(base, key(&vec![("package.json", b"a".to_vec()), (".npmrc", b"c".to_vec())]));
    }
}
