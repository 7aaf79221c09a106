//! `cargo xtask`: the chores and rules of this repository.
//!
//! Two commands are promised to everyone (`up`, `test`); the others are their parts, so that a failing step can be
//! repeated alone. Deliberately absent: anything that ships, and any tool that a clean clone would have to install
//! by hand beyond the prerequisites in the README.

mod browser;
mod call;
mod check;
mod claim;
mod clients;
mod desktop;
mod needs;
mod npm;
mod paths;
mod runner;
mod steps;
mod suite;
mod tidy;
mod up;
mod weight;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::paths::Paths;

const USAGE: &str = "\
cargo xtask COMMAND

  up [ARG…]         install what is missing, build, and start the desktop; arguments go to `choir up`
  test              everything CI checks, browser journeys included
  check             formatting, lints, and the rules of the repository

  install           only install what is missing
  tidy              only the rules of the repository
  desktop           only build the desktop
  browser [FILE…]   only the browser journeys (builds what they need)

  pictures          take the pictures of docs/screenshots
  bench NAME        measure; prints the table for SPECIFICATION.md
  clients           the official client libraries judge our wire formats
  torture [ROW]     kill, cut and starve the real binary; prints the table for SPECIFICATION.md
                    rows: kill, agent, provider, stop, power, io, starve, slow, sim, harness; without one, all of them
                    --short a few cases of each; --seed N where chance begins; --sabotage without syncs: `power` must fail
  attack            try to leave the sandbox; prints probes, escapes, skipped
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!("which command?\n\n{USAGE}");
    };
    // Whoever asks what a command does is answered at once, before anything is installed or built for it.
    if arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--help" || argument == "-h")
    {
        eprint!("{USAGE}");
        return Ok(());
    }
    let paths = Paths::discover()?;
    claim::claim(&paths)?;
    match command.as_str() {
        "up" => up::run(&paths, rest),
        "bench" if rest == ["desktop"] => suite::bench_desktop(&paths),
        "bench" => runner::bench(&paths, rest),
        "pictures" => none(rest).and_then(|()| suite::pictures(&paths)),
        "clients" => none(rest).and_then(|()| clients::run(&paths)),
        "torture" => runner::torture(&paths, rest),
        "attack" => runner::attack(&paths, rest),
        "browser" => suite::browser(&paths, rest),
        "test" => none(rest).and_then(|()| suite::test(&paths)),
        "check" => none(rest).and_then(|()| check::run(&paths)),
        "install" => none(rest).and_then(|()| needs::run(&paths)),
        "tidy" => none(rest).and_then(|()| tidy::run(&paths)),
        "desktop" => none(rest).and_then(|()| desktop::run(&paths)),
        "help" => {
            eprint!("{USAGE}");
            Ok(())
        }
        other => bail!("there is no command {other:?}\n\n{USAGE}"),
    }
}

/// Refuses arguments where a command takes none: a misspelt option must not pass as success.
fn none(rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!("this command takes no argument, but got {extra:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_says_what_it_does_without_doing_it() {
        let commands = ["test", "check", "tidy", "install", "desktop", "browser", "pictures", "up", "torture", "bench"];
        for command in commands.into_iter().chain(["clients", "attack", "help", "--help"]) {
            assert!(run(&[command.to_owned(), "--help".to_owned()]).is_ok(), "{command}");
        }
        assert!(run(&["nonsense".to_owned()]).is_err());
    }
}
