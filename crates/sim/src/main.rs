//! `cargo xtask bench`, `torture` and `attack` end here.

use choir_sim::{attack, bench, disk, torture};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "choir-sim", about = "Measurements and torture of ChoirOS")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure one area.
    Bench {
        #[command(subcommand)]
        area: bench::Area,
    },
    /// Do one kind of harm, or every kind.
    Torture(torture::Options),
    /// Try to leave a sandbox, in every way that is known.
    Attack(attack::Options),
    /// The inside of a sandbox of the attack suite.
    #[command(hide = true)]
    Guest(attack::Inside),
    /// One attempt, inside.
    #[command(hide = true)]
    Probe(attack::Inside),
    /// A director's attempts, inside.
    #[command(hide = true)]
    Confined(attack::Inside),
    /// The other side of a torture row: a process that writes until it is stopped.
    #[command(hide = true)]
    Load(torture::load::Options),
    /// A disk that fails on order.
    #[command(hide = true)]
    Disk(disk::served::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    // Refused commits are what the torture is after; only what nobody expects is worth a line.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::OFF)
        .with_writer(std::io::stderr)
        .init();
    let good = match Cli::parse().command {
        Command::Bench { area } => bench::run(area)?,
        Command::Torture(options) => torture::run(&options)?,
        Command::Attack(options) => attack::run(&options)?,
        // These are inside, where there must be no other thread yet.
        Command::Guest(arguments) => return Ok(attack::guest(&arguments)),
        Command::Probe(arguments) => return Ok(attack::probe(&arguments)),
        Command::Confined(arguments) => return Ok(attack::confined(&arguments)),
        Command::Load(options) => torture::load::run(&options).map(|()| true)?,
        Command::Disk(options) => disk::served::serve(&options).map(|()| true)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
