//! Long measurements live with the simulation, in `choir-sim`; here they only get a name and a release build.

use anyhow::{Result, ensure};

use crate::needs::{self, Scope};
use crate::paths::Paths;
use crate::steps::Steps;

/// Measures one area: `store`, `sandbox`, `harness`, …
pub(crate) fn bench(paths: &Paths, arguments: &[String]) -> Result<()> {
    ensure!(!arguments.is_empty(), "which benchmark? For example: cargo xtask bench store");
    sim(paths, "bench", arguments)
}

/// Runs every row of the fault table, or the one that is named.
pub(crate) fn torture(paths: &Paths, arguments: &[String]) -> Result<()> {
    let mut steps = Steps::new(&[needs::STEPS]);
    needs::install(paths, &mut steps, Scope::Torture)?;
    sim(paths, "torture", arguments)
}

/// Runs the attack suite.
pub(crate) fn attack(paths: &Paths, arguments: &[String]) -> Result<()> {
    sim(paths, "attack", arguments)
}

/// The rows drive the real binary, so it is built first, in the same profile.
fn sim(paths: &Paths, command: &str, arguments: &[String]) -> Result<()> {
    paths.cargo(["build", "--locked", "--release", "-p", "choir"]).inherit()?;
    let run =
        paths.cargo(["run", "--locked", "--release", "--quiet", "-p", "choir-sim", "--", command]).args(arguments);
    run.env("CHOIR_BIN", paths.target.join("release/choir")).inherit()
}
