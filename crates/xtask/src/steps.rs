//! Numbered steps with elapsed time, what comes next, and, after a failure, the command that repeats just that step.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};

use crate::call::{Call, Output, ended};

/// How many steps the closing list of `test` names.
const SLOWEST: usize = 10;

/// A planned walk: the titles are known before the first step starts, so that every step knows its number and its next.
pub(crate) struct Steps {
    plan: Vec<&'static str>,
    done: Vec<(&'static str, Duration)>,
    began: Instant,
}

/// The step under way. It speaks for itself: quiet while things go well.
pub(crate) struct Step {
    /// Whether the cursor still stands behind the step's title.
    line_open: bool,
    began: Instant,
}

impl Steps {
    /// A walk over the parts' titles, in the order in which they will run.
    pub(crate) fn new(parts: &[&[&'static str]]) -> Self {
        Self { plan: parts.concat(), done: Vec::new(), began: Instant::now() }
    }

    /// Runs one planned step. `repeat` is the command that runs just this step again.
    pub(crate) fn run<T>(
        &mut self,
        title: &'static str,
        repeat: impl Display,
        act: impl FnOnce(&mut Step) -> Result<T>,
    ) -> Result<T> {
        let number = self.done.len();
        let planned = self.plan.get(number).copied();
        ensure!(planned == Some(title), "the plan says {planned:?} where {title:?} starts");
        let label = format!("[{}/{}] {title}", number + 1, self.plan.len());
        let mut step = Step::begin(&label);
        let result = act(&mut step);
        let took = step.began.elapsed();
        self.done.push((title, took));
        step.end(
            &label,
            &match (&result, self.plan.get(number + 1)) {
                (Err(_), _) => format!("failed after {}", seconds(took)),
                (Ok(_), Some(next)) => format!("{} (next: {next})", seconds(took)),
                (Ok(_), None) => seconds(took),
            },
        );
        result.map_err(|error| anyhow!("{label}: {error:#}\nrepeat just this step with:\n  {repeat}"))
    }

    /// Runs a step that is one call.
    pub(crate) fn call(&mut self, title: &'static str, call: &Call) -> Result<Output> {
        self.run(title, call, |step| step.call(call))
    }

    /// Says that all is done, and how long it took.
    pub(crate) fn finish(&self) {
        eprintln!("done: {} steps in {}", self.done.len(), seconds(self.began.elapsed()));
    }

    /// Lists the slowest steps: where the next minute can be saved.
    pub(crate) fn print_slowest(&self) {
        eprintln!("\nslowest steps:");
        for (title, took) in slowest(&self.done) {
            eprintln!("{:>10}  {title}", seconds(took));
        }
    }
}

impl Step {
    fn begin(label: &str) -> Self {
        eprint!("{label} … ");
        flush();
        Self { line_open: true, began: Instant::now() }
    }

    fn end(&self, label: &str, result: &str) {
        if self.line_open { eprintln!("{result}") } else { eprintln!("{label} … {result}") }
    }

    /// Shows one line under the step's title.
    pub(crate) fn note(&mut self, line: &str) {
        if std::mem::take(&mut self.line_open) {
            eprintln!();
        }
        eprintln!("    {line}");
    }

    /// Runs a call: its output is shown if it fails, its closing lines if it does not.
    pub(crate) fn call(&mut self, call: &Call) -> Result<Output> {
        let output = self.quiet(call)?;
        output.closing.iter().for_each(|line| self.note(line));
        Ok(output)
    }

    /// Runs a call whose closing lines the step shows in its own way.
    pub(crate) fn quiet(&mut self, call: &Call) -> Result<Output> {
        let (output, status) = call.observe(|latest| {
            let elapsed = seconds(self.began.elapsed());
            self.note(&format!("… {elapsed}, still running: {}", latest.trim()));
        })?;
        if !status.success() {
            output.text.lines().for_each(|line| self.note(line));
            bail!("{}", ended(status));
        }
        Ok(output)
    }
}

fn slowest(done: &[(&'static str, Duration)]) -> Vec<(&'static str, Duration)> {
    let mut sorted = done.to_vec();
    sorted.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    sorted.truncate(SLOWEST);
    sorted
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn flush() {
    // Progress that cannot be shown must not stop the work.
    std::io::stderr().flush().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_outside_the_plan_is_refused() {
        let mut steps = Steps::new(&[&["first"], &["second"]]);
        assert!(steps.run("second", "again", |_| Ok(())).is_err());
        steps.run("first", "again", |_| Ok(())).unwrap();
        steps.run("second", "again", |_| Ok(())).unwrap();
        assert!(steps.run("third", "again", |_| Ok(())).is_err());
    }

    #[test]
    fn a_failure_names_the_step_the_cause_and_the_way_to_repeat_it() {
        let mut steps = Steps::new(&[&["ok", "break"]]);
        steps.run("ok", "x", |_| Ok(())).unwrap();
        let error = steps.call("break", &Call::new("sh").args(["-c", "exit 7"])).unwrap_err();
        let report = format!("{error:#}");
        assert!(report.contains("[2/2] break: exit code 7"), "{report}");
        assert!(report.contains("sh -c 'exit 7'"), "{report}");
    }

    #[test]
    fn the_slowest_steps_come_first_and_are_ten() {
        let done: Vec<_> = (0..12).map(|second| ("step", Duration::from_secs(second))).collect();
        let slowest = slowest(&done);
        assert_eq!(slowest.len(), SLOWEST);
        assert_eq!(slowest[0].1, Duration::from_secs(11));
        assert_eq!(slowest[9].1, Duration::from_secs(2));
    }
}
