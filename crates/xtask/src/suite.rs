//! `cargo xtask test`: everything CI checks, in the order in which mistakes are cheapest to find.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::call::Call;
use crate::needs::{self, Scope};
use crate::paths::Paths;
use crate::steps::{Step, Steps};
use crate::{browser, check, clients, desktop, weight};

const COMPILE_TESTS: &str = "compile the tests";
const RUN_TESTS: &str = "run the tests";
const BUILD_CHOIR: &str = "build choir with the desktop inside";
const TORTURE: &str = "kill, stop, cut and starve it for a moment";

/// Everything.
pub(crate) fn test(paths: &Paths) -> Result<()> {
    let tests: &[&str] = &[COMPILE_TESTS, RUN_TESTS, browser::PAGE];
    let mut steps = Steps::new(&[
        needs::STEPS,
        check::STEPS,
        desktop::STEPS,
        weight::STEPS,
        tests,
        clients::STEPS,
        &[BUILD_CHOIR, TORTURE],
        browser::STEPS,
    ]);
    needs::install(paths, &mut steps, Scope::Test)?;
    check::check(paths, &mut steps)?;
    let dist = desktop::build(paths, &mut steps)?;
    weight::judge(&mut steps, &dist)?;
    native_tests(paths, &mut steps, &dist)?;
    browser::page(paths, &mut steps)?;
    clients::judge(paths, &mut steps)?;
    let choir = build_choir(paths, &mut steps, &dist)?;
    torture(paths, &mut steps, &choir)?;
    browser::journeys(paths, &mut steps, &choir, &[])?;
    steps.print_slowest();
    steps.finish();
    Ok(())
}

/// Only the browser journeys, with what they need.
pub(crate) fn browser(paths: &Paths, files: &[String]) -> Result<()> {
    let mut steps = Steps::new(&[needs::STEPS, desktop::STEPS, &[BUILD_CHOIR], browser::STEPS]);
    needs::install(paths, &mut steps, Scope::Test)?;
    let dist = desktop::build(paths, &mut steps)?;
    let choir = build_choir(paths, &mut steps, &dist)?;
    browser::journeys(paths, &mut steps, &choir, files)?;
    steps.finish();
    Ok(())
}

const MEASURE: &str = "measure the desktop in a browser";
const PICTURES: &str = "take the pictures of docs/screenshots";

/// What the desktop weighs and how quick it is, with the binary of the journeys.
pub(crate) fn bench_desktop(paths: &Paths) -> Result<()> {
    in_browser(paths, MEASURE, &["tests/browser/bench.mjs"])
}

/// The pictures of the README, from the real thing.
pub(crate) fn pictures(paths: &Paths) -> Result<()> {
    in_browser(paths, PICTURES, &["tests/browser/pictures.mjs", "docs/screenshots"])
}

fn in_browser(paths: &Paths, title: &'static str, arguments: &[&str]) -> Result<()> {
    let mut steps = Steps::new(&[needs::STEPS, desktop::STEPS, &[BUILD_CHOIR], &browser::STEPS[..1], &[title]]);
    needs::install(paths, &mut steps, Scope::Test)?;
    let dist = desktop::build(paths, &mut steps)?;
    let choir = build_choir(paths, &mut steps, &dist)?;
    browser::program(paths, &mut steps, &choir, title, arguments)?;
    steps.finish();
    Ok(())
}

/// The tests of every crate, the desktop's decisions included: they are plain Rust. Compiling is a step of its own: it is where the time goes.
fn native_tests(paths: &Paths, steps: &mut Steps, dist: &Path) -> Result<()> {
    let cargo = paths.cargo(["test", "--locked", "--workspace"]).args(check::FEATURES);
    // The same environment as the binary's own build, or its build script would run for each in turn.
    let cargo = cargo.env("CHOIR_DESKTOP_DIST", dist);
    steps.call(COMPILE_TESTS, &cargo.clone().arg("--no-run"))?;
    // One letter a test: what failed, and why, then stands out.
    let all = cargo.args(["--no-fail-fast", "--", "--quiet"]).closing(is_closing);
    steps.run(RUN_TESTS, &all, |step| {
        let output = step.quiet(&all)?;
        judge(step, &output.closing)
    })
}

/// The binary of the development profile, which the tests have mostly compiled already.
fn build_choir(paths: &Paths, steps: &mut Steps, dist: &Path) -> Result<PathBuf> {
    // All packages are selected, although only one is built: their features are then the ones that the tests had.
    let arguments = ["build", "--locked", "--workspace", "--bin", "choir", "--bin", "choir-sim"];
    steps.call(BUILD_CHOIR, &paths.cargo(arguments).args(check::FEATURES).env("CHOIR_DESKTOP_DIST", dist))?;
    Ok(paths.target.join("debug/choir"))
}

/// The short form of every row of the fault table.
fn torture(paths: &Paths, steps: &mut Steps, choir: &Path) -> Result<()> {
    let rows = Call::new(paths.target.join("debug/choir-sim")).args(["torture", "--short"]).env("CHOIR_BIN", choir);
    steps.call(TORTURE, &rows.closing(|line| line.starts_with('|'))).map(drop)
}

/// Cargo names a binary, then the binary counts its tests.
fn is_closing(line: &str) -> bool {
    is_name(line) || line.starts_with(RESULT)
}

fn is_name(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Running ") || line.starts_with("Doc-tests ")
}

const RESULT: &str = "test result:";

/// What a test runner counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u32,
    failed: u32,
    ignored: u32,
}

/// A green run that ran nothing, or skipped something, is not green.
fn judge(step: &mut Step, closing: &[String]) -> Result<()> {
    results_by_name(closing).iter().for_each(|line| step.note(line));
    let count = count(closing);
    step.note(&format!("tests: {} passed, {} failed, {} ignored", count.passed, count.failed, count.ignored));
    ensure!(count.passed > 0, "no test ran");
    ensure!(count.failed == 0 && count.ignored == 0, "every test must run and pass");
    Ok(())
}

/// The counting lines of binaries that have tests, each behind its binary's name.
fn results_by_name(closing: &[String]) -> Vec<String> {
    let mut name = "";
    let mut results = Vec::new();
    for line in closing {
        if is_name(line) {
            name = line.trim();
        } else if !line.contains(" 0 passed; 0 failed; 0 ignored") {
            results.push(format!("{line}  ← {name}"));
        }
    }
    results
}

fn count(results: &[String]) -> Count {
    let sum = |word| results.iter().map(|line| number_before(line, word)).sum();
    Count { passed: sum("passed"), failed: sum("failed"), ignored: sum("ignored") }
}

/// The number before a word: `3` in "test result: ok. 3 passed; 0 failed".
fn number_before(line: &str, word: &str) -> u32 {
    let words: Vec<&str> = line.split([' ', ';', '.']).filter(|part| !part.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_the_binaries() {
        let lines = [
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s".to_owned(),
            "test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s"
                .to_owned(),
        ];
        assert_eq!(count(&lines), Count { passed: 7, failed: 2, ignored: 1 });
        assert_eq!(count(&[]), Count::default());
    }

    #[test]
    fn results_carry_the_name_of_their_binary() {
        let closing = [
            "     Running unittests src/lib.rs (a-1)",
            "test result: ok. 0 passed; 0 failed; 0 ignored;",
            "   Doc-tests b",
            "test result: ok. 2 passed; 0 failed; 0 ignored;",
        ];
        assert!(closing.iter().all(|line| is_closing(line)));
        let closing = closing.map(str::to_owned);
        assert_eq!(results_by_name(&closing), ["test result: ok. 2 passed; 0 failed; 0 ignored;  ← Doc-tests b"]);
    }
}
