//! Harm: processes killed, power cut, disks failing, steps in any order. Every row has a control: the same row with the
//! protection taken away must notice.

pub mod load;

mod agent;
mod examine;
mod harness;
mod intensity;
mod io;
mod kill;
mod power;
mod provider;
mod sim;
mod slow;
mod starve;
mod stop;
mod tree;
mod victim;

use crate::table::{load_average, say};
use clap::ValueEnum;
use std::time::{Duration, Instant};

/// What to do, and how much of it.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// One row; without it every row.
    #[arg(value_enum)]
    pub row: Option<Row>,
    /// A few cases of each, in seconds.
    #[arg(long)]
    pub short: bool,
    /// Where chance begins. A failure prints its seed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write with `synchronous=OFF`: the row of power cuts must fail.
    #[arg(long)]
    pub sabotage: bool,
}

/// One kind of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Row {
    /// `kill -9` of the real processes while they write.
    Kill,
    /// `kill -9` of control, the computer, the sandbox at work or all of them, while an agent works.
    Agent,
    /// Providers that refuse, hang, break off and talk nonsense, in every wire format, at every moment of a run.
    Provider,
    /// Orderly stops while they write.
    Stop,
    /// Power cuts, by record and replay of everything that reached the disk.
    Power,
    /// Errors of the disk at every write and sync in turn.
    Io,
    /// The real binary on a disk that is full or read-only for a while.
    Starve,
    /// A terminal that prints far more than anybody reads.
    Slow,
    /// The store, its followers and supervision in a seeded random order of steps.
    Sim,
    /// Agents whose models, tools, person and crashes are played by a seed.
    Harness,
}

/// No row may take longer.
const ROW_MAX: Duration = Duration::from_secs(14 * 60);

/// How much of a row is done.
#[derive(Debug, Clone, Copy)]
struct Plan {
    short: bool,
    seed: u64,
    syncs: Syncs,
    deadline: Instant,
}

/// Whether the loads of the row of power cuts ask for syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncs {
    On,
    Off,
}

impl Plan {
    /// The command that does the same once more.
    fn again(&self, row: Row) -> String {
        let short = if self.short { " --short" } else { "" };
        let sabotage = if self.syncs == Syncs::Off { " --sabotage" } else { "" };
        format!("cargo xtask torture {}{short}{sabotage} --seed {}", format!("{row:?}").to_lowercase(), self.seed)
    }

    /// A number of cases for the full and for the short form.
    fn cases(&self, full: u64, short: u64) -> u64 {
        if self.short { short } else { full }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// What a row saw.
#[derive(Debug, Default)]
struct Outcome {
    /// Cases done.
    cases: u64,
    /// Cases that had to be done.
    wanted: u64,
    /// Things that were acknowledged.
    acknowledged: u64,
    /// Acknowledged things that are not there.
    lost: u64,
    /// Everything else that is wrong, in words; the first few are shown.
    faults: Vec<String>,
    /// What the controls did; each must have been noticed.
    controls: Vec<(&'static str, bool)>,
    /// Figures worth telling.
    notes: String,
}

impl Outcome {
    fn is_good(&self) -> bool {
        let noticed = !self.controls.is_empty() && self.controls.iter().all(|(_, noticed)| *noticed);
        self.cases >= self.wanted && self.acknowledged > 0 && self.lost == 0 && self.faults.is_empty() && noticed
    }

    fn tell(&self, row: Row, plan: &Plan, took: Duration) {
        let controls: Vec<_> = self
            .controls
            .iter()
            .map(|(name, noticed)| format!("{name}: {}", if *noticed { "noticed" } else { "NOT NOTICED" }))
            .collect();
        let verdict = if self.is_good() { "holds" } else { "FAILS" };
        say(format_args!(
            "| {row:?} | {} of {} | {} | {} | {} | {} | {} | {:.0} s, {} | {verdict} |",
            self.cases,
            self.wanted,
            self.acknowledged,
            self.lost,
            self.faults.len(),
            controls.join("; "),
            self.notes,
            took.as_secs_f64(),
            load_average(),
        ));
        for fault in self.faults.iter().take(FAULTS_SHOWN) {
            say(format_args!("  fault: {}", fault.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        if !self.is_good() {
            say(format_args!("  again with: {}", plan.again(row)));
        }
    }
}

/// Faults printed of each row.
const FAULTS_SHOWN: usize = 10;

/// Does the harm and prints the table; false when a row fails.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    say(
        "\n| row | cases | acknowledged | lost | faults | controls | notes | took, load average | verdict |\n|---|---|---|---|---|---|---|---|---|",
    );
    let rows = options.row.map_or(Row::value_variants().to_vec(), |row| vec![row]);
    let mut good = true;
    for row in rows {
        let started = Instant::now();
        let syncs = if options.sabotage { Syncs::Off } else { Syncs::On };
        let plan = Plan { short: options.short, seed, syncs, deadline: started + ROW_MAX };
        let outcome = match row {
            Row::Kill => kill::row(plan)?,
            Row::Agent => agent::row(plan)?,
            Row::Provider => provider::row(plan)?,
            Row::Stop => stop::row(plan)?,
            Row::Power => power::row(plan)?,
            Row::Io => io::row(plan)?,
            Row::Starve => starve::row(plan)?,
            Row::Slow => slow::row(plan)?,
            Row::Sim => sim::row(plan)?,
            Row::Harness => harness::row(plan)?,
        };
        outcome.tell(row, &plan, started.elapsed());
        good &= outcome.is_good();
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_can_be_done_again_as_it_was() {
        let plan = |short, syncs| Plan { short, seed: 7, syncs, deadline: Instant::now() };
        assert_eq!(plan(false, Syncs::On).again(Row::Kill), "cargo xtask torture kill --seed 7");
        let sabotaged = plan(true, Syncs::Off).again(Row::Power);
        assert_eq!(sabotaged, "cargo xtask torture power --short --sabotage --seed 7");
    }
}
