//! Tables as SPECIFICATION.md shows them, and the one place that prints.

use std::fmt::Display;
use std::io::Write;

/// What became of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It reached what it must.
    Reached,
    /// It did not, and the whole run fails for it.
    Missed,
    /// It did not, but it is a time on this machine at this hour: reported only.
    Slow,
}

impl Verdict {
    /// For a ratio, which gates.
    pub(crate) fn gate(reached: bool) -> Self {
        if reached { Self::Reached } else { Self::Missed }
    }

    /// For a time or a size, which is only reported.
    pub(crate) fn report(reached: bool) -> Self {
        if reached { Self::Reached } else { Self::Slow }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "MISSED",
            Self::Slow => "missed (reported only)",
        }
    }
}

/// Rows that are printed as they become known, so that a long run shows where it is.
#[derive(Debug, Default)]
pub(crate) struct Table {
    missed: usize,
}

impl Table {
    /// Prints the head.
    pub(crate) fn begin(title: &str) -> Self {
        say(format_args!("\n{title} (load average {})\n", load_average()));
        say("| what | must reach | measured | verdict |\n|---|---|---|---|");
        Self::default()
    }

    /// Prints one row.
    pub(crate) fn row(&mut self, what: &str, must: &str, measured: impl Display, verdict: Verdict) {
        self.missed += usize::from(verdict == Verdict::Missed);
        say(format_args!("| {what} | {must} | {measured} | {} |", verdict.word()));
    }

    /// Whether no gate was missed.
    pub(crate) fn end(self) -> bool {
        say(format_args!("\nload average at the end: {}; gates missed: {}", load_average(), self.missed));
        self.missed == 0
    }
}

/// Prints a line for people. A closed pipe ends nothing: the exit status still says how it went.
pub(crate) fn say(line: impl Display) {
    writeln!(std::io::stdout(), "{line}").ok();
}

/// How busy the machine was over the last one, five and fifteen minutes.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
