//! `cargo xtask check`: what can be judged without running the product.

use anyhow::Result;

use crate::needs::{self, Scope};
use crate::paths::Paths;
use crate::steps::Steps;
use crate::tidy;

/// What is off in a plain build and on here, so that it is looked at, tested and built in one go.
pub(crate) const FEATURES: [&str; 2] = ["--features", "choir/bedrock,choir-llm/bedrock"];

/// Titles of the steps that `check` runs.
pub(crate) const STEPS: &[&str] = &[FORMAT, TIDY, LINT, LINT_WASM];
const FORMAT: &str = "check the formatting";
const TIDY: &str = "check the rules of the repository";
const LINT: &str = "lint the workspace";
const LINT_WASM: &str = "lint what runs in the browser";

/// Installs what it needs, then checks.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    let mut steps = Steps::new(&[needs::STEPS, STEPS]);
    needs::install(paths, &mut steps, Scope::Check)?;
    check(paths, &mut steps)?;
    steps.finish();
    Ok(())
}

/// The checks alone, the quickest first. Lints use the profile of the tests, so that they share what they compile.
pub(crate) fn check(paths: &Paths, steps: &mut Steps) -> Result<()> {
    steps.call(FORMAT, &paths.cargo(["fmt", "--all", "--check"]))?;
    steps.run(TIDY, "cargo xtask tidy", |step| tidy::check(paths, step))?;
    let native = ["clippy", "--locked", "--workspace", "--all-targets"];
    steps.call(LINT, &paths.cargo(native).args(FEATURES).args(["--", "-D", "warnings"]))?;
    // `proto` and `core` fold in the page too; a dependency that cannot go there fails here, not in the desktop's build.
    let wasm = ["clippy", "--locked", "--target", "wasm32-unknown-unknown"];
    let packages = ["-p", "choir-proto", "-p", "choir-core", "-p", "choir-desktop", "--", "-D", "warnings"];
    steps.call(LINT_WASM, &paths.cargo(wasm).args(packages))?;
    Ok(())
}
