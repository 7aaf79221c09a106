//! The guest as a program of its own, for the tests of this crate.

use std::process::ExitCode;

use choir_sandbox::guest::{self, GuestRole};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["guest", "--fd", fd, "--role", role] = arguments[..] else { return ExitCode::from(2) };
    let role = match role {
        "associate" => GuestRole::Associate,
        "keeper" => GuestRole::Keeper,
        _ => return ExitCode::from(2),
    };
    let Ok(fd) = fd.parse() else { return ExitCode::from(2) };
    match guest::adopt(fd).and_then(|stream| guest::run(stream, role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("choir-guest: {error}");
            ExitCode::FAILURE
        }
    }
}
