//! `choir guest`: the inside of a sandbox.

use crate::cli::{Guest, GuestRoleName};
use choir_sandbox::guest::{self, GuestRole};
use std::process::ExitCode;

/// Serves the stream that the runtime left open, until it ends.
pub(crate) fn run(arguments: &Guest) -> ExitCode {
    let role = match arguments.role {
        GuestRoleName::Associate => GuestRole::Associate,
        GuestRoleName::Shim => GuestRole::Shim,
        GuestRoleName::Keeper => GuestRole::Keeper,
    };
    match guest::adopt(arguments.fd).and_then(|stream| guest::run(stream, role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("choir guest: {error}");
            ExitCode::FAILURE
        }
    }
}
