//! `cargo xtask up`: from a fresh machine to a running desktop.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::call::Call;
use crate::desktop;
use crate::needs::{self, Scope};
use crate::paths::Paths;
use crate::steps::Steps;

const BUILD: &str = "build choir";

/// People get every format that a provider may speak; only who builds in order to change something can do without some.
const FORMATS: &str = "bedrock";

/// Builds and becomes `choir up`, which prints the address to open.
pub(crate) fn run(paths: &Paths, arguments: &[String]) -> Result<()> {
    let choir = Call::new(build(paths, Scope::Run)?).arg("up").args(arguments);
    eprintln!("{choir}");
    // Returns only if it could not start: from here on this process is `choir`, so signals reach it directly.
    Err(choir.command().exec()).context("could not start choir")
}

/// Builds the binary that people use, with the desktop inside. What is measured and tortured is the same one.
pub(crate) fn build(paths: &Paths, scope: Scope) -> Result<PathBuf> {
    let mut steps = Steps::new(&[needs::STEPS, desktop::STEPS, &[BUILD]]);
    needs::install(paths, &mut steps, scope)?;
    let dist = desktop::build(paths, &mut steps)?;
    let build = paths.cargo(["build", "--locked", "--release", "-p", "choir", "--features", FORMATS]);
    steps.call(BUILD, &build.env("CHOIR_DESKTOP_DIST", dist))?;
    steps.finish();
    Ok(paths.target.join("release/choir"))
}
