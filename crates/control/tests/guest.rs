//! The guest as a program of its own, for the tests of this crate.

use choir_sandbox::guest::{self, GuestRole};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["guest", "--fd", fd, "--role", role] = arguments[..] else { return ExitCode::from(2) };
    let (Some(role), Ok(fd)) = (GuestRole::parse(role), fd.parse()) else { return ExitCode::from(2) };
    match guest::adopt(fd).and_then(|stream| guest::run(stream, role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {error}");
            ExitCode::FAILURE
        }
    }
}
