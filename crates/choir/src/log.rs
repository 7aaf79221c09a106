//! Logs: to standard error, for people by default and as JSON for machines.

use crate::cli::Command;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// `CHOIR_LOG` takes the filter language of tracing, for example `debug` or `choir_control=trace`.
const FILTER: &str = "CHOIR_LOG";
/// `CHOIR_LOG_FORMAT=json`.
const FORMAT: &str = "CHOIR_LOG_FORMAT";

/// Long-lived commands tell what they do; the others speak only when something is wrong.
pub(crate) fn start(command: &Command) {
    let usual = if matches!(command, Command::Up(_) | Command::Computer(_)) { "info" } else { "error" };
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match std::env::var(FORMAT).as_deref() {
        Ok("json") => log.json().init(),
        _ => log.with_ansi(std::io::stderr().is_terminal()).init(),
    }
}
