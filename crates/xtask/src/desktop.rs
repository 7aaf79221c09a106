//! Building the desktop: wasm, its bindings and the bundled scripts, as one directory that `choir` embeds.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::call::Call;
use crate::npm;
use crate::paths::Paths;
use crate::steps::Steps;
use crate::weight;

/// Titles of the steps that `build` runs.
pub(crate) const STEPS: &[&str] = &[PACKAGES, COMPILE, TOOL, BIND, BUNDLE];
const PACKAGES: &str = "install the desktop's packages";
const COMPILE: &str = "compile the desktop";
const TOOL: &str = "compile the binding tool";
const BIND: &str = "bind the desktop";
const BUNDLE: &str = "bundle the desktop";

/// The cargo profile to compile with; `dev` makes the loop of writing and looking shorter.
const PROFILE_VARIABLE: &str = "CHOIR_DESKTOP_PROFILE";
const PROFILE: &str = "wasm";

/// Builds the desktop alone.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    // One that is built to be looked at soon is not what anybody would load.
    let is_whole = env::var_os(PROFILE_VARIABLE).is_none();
    let mut steps = Steps::new(&[STEPS, if is_whole { weight::STEPS } else { &[] }]);
    let dist = build(paths, &mut steps)?;
    if is_whole {
        weight::judge(&mut steps, &dist)?;
    }
    steps.finish();
    eprintln!("{}", dist.display());
    Ok(())
}

/// Builds the desktop and returns the directory to embed.
pub(crate) fn build(paths: &Paths, steps: &mut Steps) -> Result<PathBuf> {
    let source = paths.inside("crates/desktop");
    steps.run(PACKAGES, "cargo xtask desktop", |step| npm::install(paths, step, &source))?;
    let wasm = compile(paths, steps)?;
    let bound = bind(paths, steps, &source, &wasm)?;
    let dist = paths.target.join("desktop/dist");
    let bundle = Call::new("node").arg(source.join("scripts/bundle.mjs")).args([&bound, &dist]);
    steps.call(BUNDLE, &bundle)?;
    Ok(dist)
}

fn compile(paths: &Paths, steps: &mut Steps) -> Result<PathBuf> {
    let profile = env::var(PROFILE_VARIABLE).unwrap_or_else(|_| PROFILE.to_owned());
    let target = "wasm32-unknown-unknown";
    let arguments = ["build", "--locked", "--profile", &profile, "--target", target, "-p", "choir-desktop"];
    steps.call(COMPILE, &paths.cargo(arguments))?;
    // Cargo's directory of the `dev` profile has another name than the profile.
    let directory = if profile == "dev" { "debug" } else { &profile };
    let wasm = paths.target.join(target).join(directory).join("choir-desktop.wasm");
    ensure!(wasm.is_file(), "cargo left no {}", wasm.display());
    Ok(wasm)
}

/// The binding tool is a package of its own, because its version is tied to the desktop's and nobody else needs it.
fn bind(paths: &Paths, steps: &mut Steps, source: &Path, wasm: &Path) -> Result<PathBuf> {
    let manifest = source.join("bindgen/Cargo.toml");
    steps.call(TOOL, &paths.cargo(["build", "--locked", "--manifest-path"]).arg(manifest))?;
    let bound = paths.target.join("desktop/bound");
    let tool = Call::new(paths.target.join("debug/choir-desktop-bindgen")).args([wasm, &bound]);
    steps.call(BIND, &tool)?;
    Ok(bound)
}
