//! The program of the probes: it runs inside, tries one thing, and says what happened.
//!
//! Its last line is `errno N` when the attempt was refused, `done …` when it succeeded, `status N` when the way out
//! answered, and `scanned N found M` after a search. It judges nothing.
#![allow(unsafe_code)]

mod files;
mod floods;
mod kernel;
mod network;
mod processes;
mod secrets;

pub(super) use secrets::secret;

use std::ffi::CString;
use std::io::Write;
use std::process::ExitCode;

/// What became of an attempt.
pub(super) enum Outcome {
    /// Refused by this error.
    Refused(i32),
    /// It succeeded, and this shows it.
    Done(String),
    /// The way out answered with this status.
    Status(String),
    /// A search.
    Scanned {
        /// Bytes that were looked at.
        bytes: u64,
        /// Secrets among them.
        found: u64,
    },
}

/// An attempt that is more than one call.
pub(super) type Act = fn() -> Outcome;

/// All acts by name.
pub(super) const ACTS: &[&[(&str, Act)]] =
    &[files::ACTS, processes::ACTS, kernel::ACTS, network::ACTS, secrets::ACTS, floods::ACTS];

/// Does what the arguments say: `call NUMBER ARGUMENTS…`, `read PATH`, `write PATH`, `ask LINE`, `send TEXT` or `act NAME MARK`;
/// the mark is only for whoever looks at command lines.
pub fn run(arguments: &[&str]) -> ExitCode {
    let outcome = match arguments {
        ["call", number, rest @ ..] => call_by_text(number, rest),
        ["read", path] => open(path, libc::O_RDONLY),
        ["write", path] => open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND),
        ["ask", line] => Some(network::ask(line)),
        ["send", text] => Some(network::send(text)),
        ["act", name, ..] => {
            ACTS.iter().flat_map(|acts| acts.iter()).find(|(known, _)| known == name).map(|(_, act)| act())
        }
        _ => None,
    };
    let Some(outcome) = outcome else { return ExitCode::from(2) };
    say(&match outcome {
        Outcome::Refused(errno) => format!("errno {errno}"),
        Outcome::Done(what) => format!("done {what}"),
        Outcome::Status(status) => format!("status {status}"),
        Outcome::Scanned { bytes, found } => format!("scanned {bytes} found {found}"),
    });
    ExitCode::SUCCESS
}

fn call_by_text(number: &str, arguments: &[&str]) -> Option<Outcome> {
    let numbers: Option<Vec<i64>> = arguments.iter().map(|argument| argument.parse().ok()).collect();
    Some(call(number.parse().ok()?, &numbers?))
}

/// Makes a system call.
pub(super) fn call(number: libc::c_long, arguments: &[i64]) -> Outcome {
    let at = |index: usize| arguments.get(index).copied().unwrap_or_default();
    // SAFETY: the arguments come from the list of probes, whose pointers are all null; the kernel refuses those.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    outcome(result, "the call")
}

fn open(path: &str, flags: i32) -> Option<Outcome> {
    let path = CString::new(path).ok()?;
    // SAFETY: the path ends with a NUL byte and lives until the call returns.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    Some(outcome(descriptor.into(), "opened it"))
}

/// Reads a result as C does.
pub(super) fn outcome(result: i64, what: &str) -> Outcome {
    if result < 0 { Outcome::Refused(errno()) } else { Outcome::Done(what.to_owned()) }
}

/// The outcome of an attempt in words of the standard library.
pub(super) fn of_io<T>(result: std::io::Result<T>, what: &str) -> Outcome {
    match result {
        Ok(_) => Outcome::Done(what.to_owned()),
        Err(error) => Outcome::Refused(error.raw_os_error().unwrap_or(-1)),
    }
}

/// The first attempt that succeeds; else the last refusal.
pub(super) fn first_success(attempts: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut last = Outcome::Refused(-1);
    for attempt in attempts {
        match attempt {
            Outcome::Refused(_) => last = attempt,
            success => return success,
        }
    }
    last
}

pub(super) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(-1)
}

/// What the outside has planted, by name.
pub(super) fn planted(name: &str) -> String {
    std::env::var(format!("PROBE_{}", name.to_uppercase())).unwrap_or_default()
}

pub(super) fn say(line: &str) {
    // Nobody may be listening; the outside then judges by what it sees.
    writeln!(std::io::stdout(), "{line}").ok();
}
