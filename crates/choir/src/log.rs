//! Logs: to standard error, for people by default and as JSON for machines.

use crate::cli::Command;
use crate::output;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// `CHOIR_LOG` takes the filter language of tracing, for example `debug` or `choir_control=trace`.
const FILTER: &str = "CHOIR_LOG";
/// `CHOIR_LOG_FORMAT=json`.
const FORMAT: &str = "CHOIR_LOG_FORMAT";
/// What a single word may be. The filter language would take any other one for the name of a module.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A setting of the environment that means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{name} is `{value}`, which is not {expected}")]
pub(crate) struct Wrong {
    name: &'static str,
    value: String,
    expected: &'static str,
}

/// Long-lived commands tell what they do; the others speak only when something is wrong. What a server that offers tools
/// says of itself is nobody's news.
pub(crate) fn start(command: &Command) -> Result<(), Wrong> {
    let usual = if matches!(command, Command::Up(_) | Command::Computer(_)) { "info,rmcp=off" } else { "error" };
    let filter = match set(FILTER) {
        Some(value) => filter(value)?,
        None => EnvFilter::new(usual),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| output::Told).with_target(false);
    // It would be told the same way, and panic where that is in vain.
    let log = log.log_internal_errors(false);
    match set(FORMAT) {
        None => log.with_ansi(std::io::stderr().is_terminal()).init(),
        Some(json) if json == "json" => log.json().init(),
        Some(value) => return Err(Wrong { name: FORMAT, value, expected: "`json` or unset" }),
    }
    Ok(())
}

fn set(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn filter(value: String) -> Result<EnvFilter, Wrong> {
    let is_word = value.chars().all(|character| character.is_ascii_alphanumeric());
    let is_level = LEVELS.iter().any(|level| value.eq_ignore_ascii_case(level));
    match EnvFilter::try_new(&value) {
        Ok(filter) if is_level || !is_word => Ok(filter),
        _ => {
            Err(Wrong { name: FILTER, value, expected: "a level like `debug` or a filter like `choir_control=trace`" })
        }
    }
}
