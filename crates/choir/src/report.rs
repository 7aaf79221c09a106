//! The one error report: what failed, why, and how to mend it.

use crate::output;
use crate::{client, project, token as tokens};
use choir_computer::maintain::ChoreError;
use choir_control::computer::REFUSED;
use choir_control::db::HeadsError;
use choir_control::{config, data, db, token, up};
use choir_proto::ApiError;
use choir_store::relay::{ContinueError, RelayError};
use choir_store::{AppendError, OpenError, StoreError};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Prints the report to standard error.
pub(crate) fn print(error: &anyhow::Error, json: bool) -> ExitCode {
    let hint = hint(error);
    if json {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        let hint = hint.unwrap_or_else(|| ANYTHING.to_owned());
        let report = ApiError::new(code(error), causes.join(": "), hint);
        output::tell(format_args!("{}", serde_json::to_string(&report).unwrap_or_else(|_| report.to_string())));
        return status(error);
    }
    output::tell(format_args!("choir: {error}"));
    for cause in error.chain().skip(1) {
        output::tell(format_args!("  because {cause}"));
    }
    if let Some(hint) = hint {
        output::tell(format_args!("  {hint}"));
    }
    status(error)
}

/// What no further try will mend is told to whoever starts this again and again.
fn status(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(up::Error::Contradicted(_)) => ExitCode::from(REFUSED),
        _ => ExitCode::FAILURE,
    }
}

/// As the API says it.
const FULL_CODE: &str = "disk_full";

/// Nothing better is known.
const ANYTHING: &str = "`choir doctor` says what works on this machine.";

/// What programs decide by, where there is a word for it.
fn code(error: &anyhow::Error) -> &str {
    let code = error.chain().find_map(|cause| {
        cause
            .downcast_ref::<client::Error>()
            .map(client::Error::code)
            .or_else(|| cause.downcast_ref::<project::Error>().map(project::Error::code))
            .or_else(|| cause.downcast_ref::<up::Error>().and_then(up_code))
            .or_else(|| cause.downcast_ref::<data::Error>().map(data_code))
            .or_else(|| cause.downcast_ref::<token::Error>().and_then(token_code))
            .or_else(|| cause.downcast_ref::<db::Error>().and_then(db_code))
            .or_else(|| cause.downcast_ref::<config::Error>().map(|_| "bad_configuration"))
            .or_else(|| cause.downcast_ref::<ChoreError>().and_then(chore_code))
            .or_else(|| cause.downcast_ref::<OpenError>().and_then(open_code))
            .or_else(|| cause.downcast_ref::<StoreError>().and_then(store_code))
            .or_else(|| cause.downcast_ref::<HeadsError>().and_then(heads_code))
            .or_else(|| cause.downcast_ref::<RelayError>().and_then(relay_code))
            .or_else(|| cause.downcast_ref::<ContinueError>().and_then(continue_code))
            .or_else(|| cause.downcast_ref::<tokens::Unknown>().map(|_| tokens::Unknown::CODE))
            .or_else(|| cause.downcast_ref::<std::io::Error>().and_then(file_code))
    });
    code.unwrap_or("failed")
}

fn up_code(error: &up::Error) -> Option<&'static str> {
    match error {
        up::Error::Data(error) => Some(data_code(error)),
        up::Error::Db(error) => db_code(error),
        up::Error::Heads(error) => heads_code(error),
        up::Error::Contradicted(_) => Some("contradicted"),
        up::Error::Listen { .. } => Some("cannot_listen"),
        up::Error::Model { .. } | up::Error::Gateway(_) | up::Error::Mcp(_) | up::Error::Broker(_) => {
            Some("bad_configuration")
        }
        up::Error::Sandboxes(_) | up::Error::Computer(_) | up::Error::Refused | up::Error::Write { .. } => None,
    }
}

fn data_code(error: &data::Error) -> &'static str {
    match error {
        data::Error::Path { .. } | data::Error::Make { .. } => "no_data_directory",
        data::Error::Foreign { .. } => "foreign_directory",
        data::Error::Locked { .. } => "in_use",
        data::Error::KeyGone { .. } | data::Error::Key { .. } => "damaged",
    }
}

fn heads_code(error: &HeadsError) -> Option<&'static str> {
    match error {
        HeadsError::Db(error) => db_code(error),
        HeadsError::Key(error) => Some(data_code(error)),
        HeadsError::Forged { .. } => Some("contradicted"),
    }
}

fn token_code(error: &token::Error) -> Option<&'static str> {
    match error {
        token::Error::Data(error) => Some(data_code(error)),
        token::Error::Db(error) => db_code(error),
    }
}

fn db_code(error: &db::Error) -> Option<&'static str> {
    match error {
        db::Error::Newer { .. } => Some("newer_version"),
        db::Error::Damaged(_) => Some("damaged"),
        db::Error::Full => Some(FULL_CODE),
        db::Error::Disk(_) | db::Error::Sqlite(_) | db::Error::Unsafe { .. } | db::Error::Closed => None,
    }
}

fn chore_code(error: &ChoreError) -> Option<&'static str> {
    match error {
        ChoreError::Open(error) => open_code(error),
        ChoreError::Read(error) => store_code(error),
        ChoreError::Append(AppendError::Full) => Some(FULL_CODE),
        ChoreError::Append(AppendError::Lingers | AppendError::Unremoved(_)) => Some("erasure_unfinished"),
        ChoreError::Append(_) | ChoreError::Unkept => None,
        ChoreError::Tombstone(_) => Some("tombstone"),
        ChoreError::NoEvent(_) => Some("not_found"),
    }
}

fn open_code(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::InUse(_) => Some("in_use"),
        OpenError::Newer { .. } => Some("newer_version"),
        OpenError::Contradicted { .. } => Some("contradicted"),
        OpenError::Damaged { .. } => Some("damaged"),
        full if full.is_full() => Some(FULL_CODE),
        _ => None,
    }
}

fn store_code(error: &StoreError) -> Option<&'static str> {
    match error {
        error if error.is_damage() => Some("damaged"),
        StoreError::Missing(_) => Some("not_found"),
        full if full.is_full() => Some(FULL_CODE),
        _ => None,
    }
}

fn relay_code(error: &RelayError) -> Option<&'static str> {
    match error {
        RelayError::Sink(error) => file_code(error),
        RelayError::Gap { .. } => Some("damaged"),
        RelayError::Foreign(_) => Some("foreign_file"),
    }
}

fn continue_code(error: &ContinueError) -> Option<&'static str> {
    match error {
        ContinueError::InUse => Some("in_use"),
        ContinueError::Foreign(_) => Some("foreign_file"),
        ContinueError::File(error) => file_code(error),
    }
}

fn file_code(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(FULL_CODE),
        ErrorKind::IsADirectory => Some("is_directory"),
        _ => None,
    }
}

/// How to mend it, where that is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        cause
            .downcast_ref::<client::Error>()
            .and_then(client::Error::hint)
            .or_else(|| cause.downcast_ref::<project::Error>().and_then(project::Error::hint))
            .or_else(|| cause.downcast_ref::<up::Error>().and_then(up_hint))
            .or_else(|| cause.downcast_ref::<data::Error>().map(data_hint))
            .or_else(|| cause.downcast_ref::<db::Error>().map(db_hint))
            .or_else(|| cause.downcast_ref::<token::Error>().map(token_hint))
            .or_else(|| cause.downcast_ref::<config::Error>().map(|_| CONFIG.to_owned()))
            .or_else(|| cause.downcast_ref::<OpenError>().map(|error| open_hint(error).to_owned()))
            .or_else(|| cause.downcast_ref::<ChoreError>().and_then(chore_hint))
            .or_else(|| cause.downcast_ref::<StoreError>().map(|error| store_hint(error).to_owned()))
            .or_else(|| cause.downcast_ref::<HeadsError>().map(heads_hint))
            .or_else(|| cause.downcast_ref::<RelayError>().and_then(relay_hint))
            .or_else(|| cause.downcast_ref::<ContinueError>().and_then(continue_hint))
            .or_else(|| cause.downcast_ref::<tokens::Unknown>().map(|_| tokens::Unknown::HINT.to_owned()))
            .or_else(|| cause.downcast_ref::<std::io::Error>().and_then(file_hint))
    })
}

const FULL: &str = "Free space on the disk that holds the data, then run it again; the log is as it was.";
const HEADS: &str = "Compare with a backup of control/ before you trust this log.";
const DAMAGED: &str = "`choir verify` says how far it is sound, where it can be read at all. Restore the file from a backup; nothing was changed.";
const OTHER_FILE: &str = "Name a file that `choir events --to` wrote from this log, or a new one; it is as it was.";
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
        up::Error::Heads(error) => Some(heads_hint(error)),
        up::Error::Mcp(_) | up::Error::Broker(_) => Some("Set the variable to the token, or leave `token_env` out.".into()),
        up::Error::Sandboxes(_) => Some("Is another instance still ending, or the disk full or read-only?".into()),
        up::Error::Computer(_) => Some("What it said is above; `choir verify` looks at its log.".into()),
        up::Error::Contradicted(_) => Some(
            "Stop using this log: `choir verify` says what is wrong with it. Restore the computer's directory from a backup."
                .into(),
        ),
        up::Error::Refused => None,
        up::Error::Model { .. } => Some("Name a provider of choir.toml or of Settings; nothing was changed.".into()),
        up::Error::Gateway(_) => Some("Mend the provider in choir.toml and start again.".into()),
        up::Error::Write { .. } => Some("Is the disk full or read-only?".into()),
    }
}

fn data_hint(error: &data::Error) -> String {
    match error {
        data::Error::Locked { .. } => "Use the one that runs, stop it, or choose another directory with --data.".into(),
        data::Error::Foreign { .. } => "Choose an empty directory with --data; nothing was changed.".into(),
        data::Error::Path { source, .. } if source.kind() == ErrorKind::NotFound => {
            "Nothing of ChoirOS is there. Give the directory that it was started with by --data.".into()
        }
        data::Error::Path { .. } | data::Error::Make { .. } => {
            "Choose a directory that you may write to with --data.".into()
        }
        data::Error::KeyGone { path, .. } => {
            let path = path.display();
            format!(
                "Restore {path} from a backup. Without one, move control/ away: tokens and stored keys are made anew."
            )
        }
        data::Error::Key { path, .. } => {
            format!("Restore {} from a backup; without it stored keys stay closed.", path.display())
        }
    }
}

fn heads_hint(error: &HeadsError) -> String {
    match error {
        HeadsError::Db(error) => db_hint(error),
        HeadsError::Key(error) => data_hint(error),
        HeadsError::Forged { .. } => HEADS.to_owned(),
    }
}

fn token_hint(error: &token::Error) -> String {
    match error {
        token::Error::Data(error) => data_hint(error),
        token::Error::Db(error) => db_hint(error),
    }
}

fn db_hint(error: &db::Error) -> String {
    match error {
        db::Error::Newer { .. } => "Use the newer version of choir that wrote it; nothing was changed.".into(),
        db::Error::Damaged(_) => {
            "Restore control/control.sqlite from a backup, or move it away: sessions, tokens and stored \
            keys are then made anew, and the log stays as it is."
                .into()
        }
        db::Error::Full => "Free some space and start again; nothing was lost.".into(),
        db::Error::Disk(_) | db::Error::Sqlite(_) | db::Error::Unsafe { .. } | db::Error::Closed => {
            "Is the disk read-only or on a network? `choir doctor` tells.".into()
        }
    }
}

fn relay_hint(error: &RelayError) -> Option<String> {
    match error {
        RelayError::Sink(error) => file_hint(error),
        RelayError::Gap { .. } => Some("The log has a gap: `choir verify` says what is wrong with it.".into()),
        RelayError::Foreign(_) => Some(OTHER_FILE.into()),
    }
}

fn continue_hint(error: &ContinueError) -> Option<String> {
    match error {
        ContinueError::InUse => Some("Let it go on or end it, or name another file.".into()),
        ContinueError::Foreign(_) => Some(OTHER_FILE.into()),
        ContinueError::File(error) => file_hint(error),
    }
}

/// What is known of a file that nobody else has spoken of: most often where the output goes.
fn file_hint(error: &std::io::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("Free some space where it is written to.".into()),
        ErrorKind::PermissionDenied => Some("Choose a place that you may use.".into()),
        ErrorKind::IsADirectory => Some("Name a file; this is a directory.".into()),
        _ => None,
    }
}

fn open_hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::Newer { .. } => "Use the newer version of choir that wrote it; nothing was changed.",
        OpenError::Contradicted { .. } => {
            "Restore the computer's directory from a backup that is as new as control/, or choose another directory with \
             --data; nothing was changed."
        }
        OpenError::InUse(_) => "Use the instance that runs, stop it, or choose another directory with --data.",
        OpenError::OldSqlite(_) | OpenError::Setting(_) => {
            "Keep the data on a local disk, and build with the bundled SQLite."
        }
        full if full.is_full() => FULL,
        OpenError::Damaged { .. } | OpenError::Sqlite(_) => DAMAGED,
        OpenError::File { .. } => "Is the disk full, read-only or gone?",
    }
}

fn chore_hint(error: &ChoreError) -> Option<String> {
    match error {
        ChoreError::Open(error) => Some(open_hint(error).to_owned()),
        ChoreError::Read(error) => Some(store_hint(error).to_owned()),
        ChoreError::Append(AppendError::Lingers) => {
            Some("End the program that reads the log's file (a backup, a SQLite shell), then erase again.".to_owned())
        }
        ChoreError::Append(AppendError::Unremoved(_)) => Some(
            "Is the disk read-only, or does the file belong to somebody else? Mend that, then erase again.".to_owned(),
        ),
        ChoreError::Unkept => Some(FULL.to_owned()),
        ChoreError::Append(_) => Some("Is the disk full or read-only? Nothing was lost.".to_owned()),
        ChoreError::Tombstone(_) => Some("There is nothing in it to erase.".to_owned()),
        ChoreError::NoEvent(_) => Some("`choir events` shows the ids.".to_owned()),
    }
}

fn store_hint(error: &StoreError) -> &'static str {
    match error {
        full if full.is_full() => FULL,
        StoreError::File(_) => "Is the disk full, read-only or gone?",
        StoreError::Closed => "Start again.",
        _ => "Restore the damaged file from a backup; nothing was changed.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::Seq;

    #[test]
    fn a_gap_in_the_log_is_said_with_what_to_do() {
        let gap = anyhow::Error::from(RelayError::Gap { expected: Seq(3), found: Seq(4) });
        assert_eq!(code(&gap), "damaged");
        assert!(hint(&gap).is_some_and(|hint| hint.contains("choir verify")), "{:?}", hint(&gap));
    }
}
