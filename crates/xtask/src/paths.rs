//! Where things are: the clone, and the cache outside it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::call::Call;

/// The clone and the cache. Nothing that can be built again lies inside the clone, so a clean clone starts warm.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The root of the clone.
    pub(crate) root: PathBuf,
    /// Downloads and unpacked packages, keyed by what they were made from.
    pub(crate) cache: PathBuf,
    /// Cargo's target directory for everything but this program.
    pub(crate) target: PathBuf,
}

impl Paths {
    /// Reads the environment once.
    pub(crate) fn discover() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").context("start this as `cargo xtask`, not directly")?;
        let root = Path::new(&manifest).ancestors().nth(2).context("the crate lies two levels below the root")?;
        let cache = cache(|name| env::var_os(name).map(PathBuf::from))
            .context("neither HOME nor XDG_CACHE_HOME is set; set CHOIR_TARGET_DIR to a directory for build results")?;
        let target = target(&cache, |name| env::var_os(name).map(PathBuf::from));
        Ok(Self { root: root.to_owned(), cache, target })
    }

    /// A cargo call in the clone, with the target directory outside it and the lock file as it is.
    pub(crate) fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Call {
        // The proxy, not the binary that cargo names in CARGO: `rust-toolchain.toml` then decides.
        Call::new("cargo").args(arguments).env("CARGO_TARGET_DIR", &self.target).dir(&self.root)
    }

    /// A directory of the clone.
    pub(crate) fn inside(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }
}

fn cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    base.or_else(|| variable("HOME").map(|home| home.join(".cache"))).map(|base| base.join("choir"))
}

fn target(cache: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let named = ["CARGO_TARGET_DIR", "CHOIR_TARGET_DIR"].into_iter().find_map(variable);
    named.unwrap_or_else(|| cache.join("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> {
        move |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| PathBuf::from(pair.1))
    }

    #[test]
    fn the_cache_follows_xdg_then_home() {
        let both = environment(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]);
        assert_eq!(cache(both), Some("/x/choir".into()));
        // The specification tells programs to ignore a relative value.
        let relative = environment(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]);
        assert_eq!(cache(relative), Some("/h/.cache/choir".into()));
        assert_eq!(cache(environment(&[])), None);
    }

    #[test]
    fn a_target_directory_that_was_set_wins() {
        let cache = Path::new("/c");
        let both = environment(&[("CARGO_TARGET_DIR", "/cargo"), ("CHOIR_TARGET_DIR", "/choir")]);
        assert_eq!(target(cache, both), PathBuf::from("/cargo"));
        assert_eq!(target(cache, environment(&[("CHOIR_TARGET_DIR", "/choir")])), PathBuf::from("/choir"));
        assert_eq!(target(cache, environment(&[])), PathBuf::from("/c/target"));
    }
}
