//! The binary: parses, builds, runs and reports. What it does is done by the crates beneath it.

mod chore;
mod cli;
mod client;
mod computer;
mod doctor;
mod events;
mod guest;
mod instance;
mod log;
mod output;
mod page;
mod project;
mod replay;
mod report;
mod run;
mod token;
mod tour;
mod trace;
mod undo;
mod up;

use cli::Command;
use rustix::fs::Mode;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(refused) => return refused,
    };
    // Whatever the shell says: what is kept is the owner's alone. Inside of a sandbox files are as people expect them.
    let is_guest = matches!(cli.command, Command::Guest(_));
    rustix::process::umask(Mode::from_raw_mode(if is_guest { 0o022 } else { 0o077 }));
    // A guest is the first process of its sandbox and must set itself up before there is any other thread.
    if let Command::Guest(arguments) = cli.command {
        return guest::run(&arguments);
    }
    let json = cli.command.wants_json();
    if let Err(error) = log::start(&cli.command) {
        return report::print(&error.into(), json);
    }
    dispatch(cli.command).unwrap_or_else(|error| report::print(&error, json))
}

fn dispatch(mut command: Command) -> anyhow::Result<ExitCode> {
    // The director builds its walls before there is any other thread, which would be outside of them.
    if let Command::Computer(arguments) = &mut command {
        computer::confine(arguments)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Up(arguments) => runtime.block_on(up::up(arguments)),
        Command::Run(arguments) => runtime.block_on(run::run(arguments)),
        Command::Events(arguments) => runtime.block_on(events::events(arguments)),
        Command::Tour(arguments) => runtime.block_on(tour::tour(arguments)),
        Command::Trace(arguments) => runtime.block_on(trace::trace(arguments)),
        Command::Add(arguments) => runtime.block_on(project::add(arguments)),
        Command::Get(arguments) => runtime.block_on(project::get(arguments)),
        Command::Replay(arguments) => runtime.block_on(replay::run(arguments)),
        Command::Undo(arguments) => runtime.block_on(undo::undo(arguments)),
        Command::Token(arguments) => runtime.block_on(token::token(arguments)),
        Command::Verify(arguments) => chore::verify(&arguments),
        Command::Rebuild(arguments) => runtime.block_on(chore::rebuild(&arguments)),
        Command::Erase(arguments) => runtime.block_on(chore::erase(&arguments)),
        Command::Doctor(arguments) => runtime.block_on(doctor::doctor(arguments)),
        Command::Computer(arguments) => runtime.block_on(computer::computer(arguments)),
        Command::Completions { shell } => cli::completions(shell),
        Command::Page(arguments) => page::run(&arguments),
        // Handled before any thread was started.
        Command::Guest(arguments) => Ok(guest::run(&arguments)),
    }
}
