//! Building the desktop: wasm, its bindings and the bundled scripts, as one directory that `choir` embeds.

use std::path::PathBuf;

use anyhow::Result;

use crate::paths::Paths;
use crate::steps::Steps;

/// Titles of the steps that `build` runs.
pub(crate) const STEPS: &[&str] = &[COMPILE];
const COMPILE: &str = "compile the desktop";

/// Builds the desktop alone.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    let mut steps = Steps::new(&[STEPS]);
    build(paths, &mut steps)?;
    steps.finish();
    Ok(())
}

/// Builds the desktop and returns the directory to embed.
pub(crate) fn build(paths: &Paths, steps: &mut Steps) -> Result<PathBuf> {
    let arguments =
        ["build", "--locked", "--profile", "wasm", "--target", "wasm32-unknown-unknown", "-p", "choir-desktop"];
    steps.call(COMPILE, &paths.cargo(arguments))?;
    let dist = paths.target.join("desktop");
    std::fs::create_dir_all(&dist)?;
    Ok(dist)
}
