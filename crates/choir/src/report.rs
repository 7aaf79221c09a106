//! The one error report: what failed, why, and how to mend it.

use crate::client;
use choir_control::{config, data, db, up};
use choir_proto::ApiError;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Prints the report to standard error.
pub(crate) fn print(error: &anyhow::Error, json: bool) -> ExitCode {
    let hint = hint(error);
    if json {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        let report = ApiError::new("failed", causes.join(": "), hint.unwrap_or_default());
        eprintln!("{}", serde_json::to_string(&report).unwrap_or_else(|_| report.to_string()));
        return ExitCode::FAILURE;
    }
    eprintln!("choir: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because {cause}");
    }
    if let Some(hint) = hint {
        eprintln!("  {hint}");
    }
    ExitCode::FAILURE
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        cause
            .downcast_ref::<client::Error>()
            .and_then(client::Error::hint)
            .or_else(|| cause.downcast_ref::<up::Error>().and_then(up_hint))
            .or_else(|| cause.downcast_ref::<data::Error>().map(data_hint))
            .or_else(|| cause.downcast_ref::<db::Error>().map(db_hint))
            .or_else(|| cause.downcast_ref::<config::Error>().map(|_| CONFIG.to_owned()))
    })
}

const CONFIG: &str = "Mend the file and start again; nothing was changed.";

fn up_hint(error: &up::Error) -> Option<String> {
    match error {
        up::Error::Listen { listen, source } if source.kind() == ErrorKind::AddrInUse => {
            Some(format!("Something else listens on {listen}. Choose another address with --listen."))
        }
        up::Error::Listen { .. } => {
            Some("Give an address of this machine, for example --listen 127.0.0.1:8080.".into())
        }
        up::Error::Data(error) => Some(data_hint(error)),
        up::Error::Db(error) => Some(db_hint(error)),
        up::Error::Sandboxes(_) => Some("Is another instance still ending, or the disk full or read-only?".into()),
        up::Error::Computer(_) => Some("What it said is above; `choir verify` looks at its log.".into()),
        up::Error::Gateway(_) => Some("Mend the provider in choir.toml and start again.".into()),
        up::Error::Write { .. } => Some("Is the disk full or read-only?".into()),
    }
}

fn data_hint(error: &data::Error) -> String {
    match error {
        data::Error::Locked { .. } => "Use the one that runs, stop it, or choose another directory with --data.".into(),
        data::Error::Path { .. } => "Choose a directory that you may write to with --data.".into(),
        data::Error::Key { path, .. } => {
            format!("Restore {} from a backup; without it stored keys stay closed.", path.display())
        }
    }
}

fn db_hint(error: &db::Error) -> String {
    match error {
        db::Error::Newer { .. } => "Use the newer version of choir that wrote it; nothing was changed.".into(),
        db::Error::Sqlite(_) | db::Error::Unsafe { .. } | db::Error::Closed => {
            "Is the disk full, read-only or on a network? `choir doctor` tells.".into()
        }
    }
}
