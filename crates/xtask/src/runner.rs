//! Long measurements live with the simulation, in `choir-sim`; here they only get a name and a release build.

use anyhow::{Result, ensure};

use crate::needs::Scope;
use crate::paths::Paths;
use crate::up;

/// Measures one area: `store`, `sandbox`, `harness`, …
pub(crate) fn bench(paths: &Paths, arguments: &[String]) -> Result<()> {
    ensure!(!arguments.is_empty(), "which benchmark? For example: cargo xtask bench store");
    sim(paths, "bench", arguments)
}

/// Runs every row of the fault table, or the one that is named.
pub(crate) fn torture(paths: &Paths, arguments: &[String]) -> Result<()> {
    sim(paths, "torture", arguments)
}

/// Runs the attack suite.
pub(crate) fn attack(paths: &Paths, arguments: &[String]) -> Result<()> {
    sim(paths, "attack", arguments)
}

/// The rows drive the binary that people use, so it is built first.
fn sim(paths: &Paths, command: &str, arguments: &[String]) -> Result<()> {
    let choir = up::build(paths, Scope::Torture)?;
    let run =
        paths.cargo(["run", "--locked", "--release", "--quiet", "-p", "choir-sim", "--", command]).args(arguments);
    run.env("CHOIR_BIN", choir).inherit()
}
