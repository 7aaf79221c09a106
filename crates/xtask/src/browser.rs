//! The browser journeys: the real binary, a real Chromium, driven by accessible names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::call::Call;
use crate::needs::{BROWSERS, find};
use crate::npm;
use crate::paths::Paths;
use crate::steps::Steps;

/// Titles of the steps that `journeys` runs.
pub(crate) const STEPS: &[&str] = &[PACKAGES, JOURNEYS];
const PACKAGES: &str = "install the browser driver";
const JOURNEYS: &str = "run the browser journeys";
/// Tests of what the page does in JavaScript.
pub(crate) const PAGE: &str = "test the page's own JavaScript";

/// How a journey's file name ends.
const SUFFIX: &str = ".test.mjs";

/// Runs the named journeys, or all of them, against a `choir` binary.
pub(crate) fn journeys(paths: &Paths, steps: &mut Steps, choir: &Path, files: &[String]) -> Result<()> {
    let directory = paths.inside("tests/browser");
    steps.run(PACKAGES, "cargo xtask browser", |step| npm::install(paths, step, &directory))?;
    let files = if files.is_empty() { all(&directory)? } else { files.iter().map(PathBuf::from).collect() };
    let chromium = BROWSERS.iter().find_map(|name| find(name)).context("Chromium is not on the path")?;
    // One at a time: a journey waits for a real browser and a real server, and two cores carry one pair.
    let node = Call::new("node")
        .args(["--test", "--test-concurrency=1", "--test-reporter=spec"])
        .args(files)
        .env("CHOIR_BIN", choir)
        .env("CHOIR_CHROMIUM", chromium)
        .dir(&paths.root)
        .closing(is_summary);
    steps.run(JOURNEYS, &node, |step| judge(&step.call(&node)?.closing))
}

/// Runs a program of the journeys' folder that is no test, and shows what it prints.
pub(crate) fn program(
    paths: &Paths,
    steps: &mut Steps,
    choir: &Path,
    title: &'static str,
    arguments: &[&str],
) -> Result<()> {
    let directory = paths.inside("tests/browser");
    steps.run(PACKAGES, "cargo xtask browser", |step| npm::install(paths, step, &directory))?;
    let chromium = BROWSERS.iter().find_map(|name| find(name)).context("Chromium is not on the path")?;
    let node = Call::new("node").args(arguments).env("CHOIR_BIN", choir).env("CHOIR_CHROMIUM", chromium);
    let node = node.dir(&paths.root).closing(|line| line.starts_with('|'));
    steps.run(title, &node, |step| {
        for row in step.call(&node)?.closing {
            step.note(&row);
        }
        Ok(())
    })
}

/// The page's own JavaScript, without a browser.
pub(crate) fn page(paths: &Paths, steps: &mut Steps) -> Result<()> {
    let node = Call::new("node").args(["--test", "--test-reporter=spec"]);
    let node = node.args(all(&paths.inside("crates/desktop/js"))?).dir(&paths.root).closing(is_summary);
    steps.run(PAGE, &node, |step| judge(&step.call(&node)?.closing))
}

fn all(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The runner's closing lines, as "ℹ pass 3".
fn is_summary(line: &str) -> bool {
    ["tests", "pass", "fail", "skipped", "todo", "cancelled"].iter().any(|word| counted(line, word).is_some())
}

fn counted(line: &str, word: &str) -> Option<u32> {
    line.strip_prefix("ℹ ")?.strip_prefix(word)?.trim().parse().ok()
}

/// A green run that ran nothing, or skipped something, is not green.
fn judge(closing: &[String]) -> Result<()> {
    let total = |word| closing.iter().filter_map(|line| counted(line, word)).sum::<u32>();
    ensure!(total("pass") > 0, "no journey ran");
    ensure!(total("skipped") == 0 && total("todo") == 0, "every journey must run");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().filter(|line| is_summary(line)).map(str::to_owned).collect()
    }

    #[test]
    fn a_run_without_a_journey_or_with_a_skipped_one_is_refused() {
        judge(&lines("▶ journey\nℹ tests 2\nℹ pass 2\nℹ fail 0\nℹ skipped 0\nℹ todo 0")).unwrap();
        assert!(judge(&lines("ℹ tests 0\nℹ pass 0")).is_err());
        assert!(judge(&lines("ℹ tests 2\nℹ pass 1\nℹ skipped 1")).is_err());
        assert!(judge(&[]).is_err());
    }
}
