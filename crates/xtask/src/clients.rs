//! The official client libraries of the providers judge our wire formats: requests, and what our fake servers say.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::call::Call;
use crate::needs::{self, Scope};
use crate::paths::Paths;
use crate::steps::{Step, Steps};

/// Titles of the steps that `judge` runs.
pub(crate) const STEPS: &[&str] = &[INSTALL, WRITE, JUDGE];
const INSTALL: &str = "install the official client libraries";
const WRITE: &str = "write what our formats say";
const JUDGE: &str = "let the client libraries read it";

const PLACE: &str = "crates/llm/tests/clients";

/// Only the client libraries.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    let mut steps = Steps::new(&[needs::STEPS, STEPS]);
    needs::install(paths, &mut steps, Scope::Test)?;
    judge(paths, &mut steps)?;
    steps.finish();
    Ok(())
}

/// Installs them once per list of versions, and compares.
pub(crate) fn judge(paths: &Paths, steps: &mut Steps) -> Result<()> {
    let place = paths.inside(PLACE);
    let python = steps.run(INSTALL, "cargo xtask clients", |step| install(paths, step, &place))?;
    let said = paths.target.join("clients");
    if said.exists() {
        fs::remove_dir_all(&said)?;
    }
    let write = paths.cargo(["run", "--locked", "--quiet", "-p", "choir-llm", "--example", "wire", "--"]).arg(&said);
    steps.call(WRITE, &write)?;
    steps.call(JUDGE, &Call::new(python).arg(place.join("agree.py")).arg(&said).closing(is_verdict)).map(drop)
}

fn is_verdict(line: &str) -> bool {
    line.contains("judged")
}

/// An environment of its own in the cache; the interpreter in it.
fn install(paths: &Paths, step: &mut Step, place: &Path) -> Result<PathBuf> {
    let list = place.join("requirements.txt");
    let wanted = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let home = paths.cache.join("clients");
    let (python, done) = (home.join("bin/python"), home.join("installed.txt"));
    // Written last: an interrupted installation is never taken for a finished one.
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) && python.exists() {
        return Ok(python);
    }
    step.call(&Call::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "-r"];
    step.call(&Call::new(&python).args(install).arg(&list))?;
    fs::write(done, wanted)?;
    Ok(python)
}
