//! The guest as a program of its own, for the tests of this crate.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use choir_sandbox::guest::{self, GuestError, GuestRole};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    #[cfg(feature = "attack")]
    if let ["probe", probe @ ..] = &arguments[..] {
        return choir_sandbox::attack::inside::run(probe);
    }
    #[cfg(feature = "attack")]
    if let ["confined", confined @ ..] = &arguments[..] {
        return choir_sandbox::attack::director::inside(confined);
    }
    let ["guest", "--fd", fd, "--role", role, without @ ..] = &arguments[..] else { return ExitCode::from(2) };
    let (Some(role), Ok(fd)) = (GuestRole::parse(role), fd.parse()) else { return ExitCode::from(2) };
    match guest::adopt(fd).and_then(|stream| serve(stream, role, without)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("choir-guest: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sabotaged where the suite says so: `--without WALL`.
#[cfg(feature = "attack")]
fn serve(stream: OwnedFd, role: GuestRole, without: &[&str]) -> Result<(), GuestError> {
    guest::run_without(stream, role, without)
}

#[cfg(not(feature = "attack"))]
fn serve(stream: OwnedFd, role: GuestRole, _without: &[&str]) -> Result<(), GuestError> {
    guest::run(stream, role)
}
