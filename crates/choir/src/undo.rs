//! `choir undo`.

use crate::cli::Undo as Arguments;
use crate::{instance, output};
use choir_proto::api::Undo;
use std::process::ExitCode;

/// Something had changed since and was left as it is.
const LEFT_SOMETHING: u8 = 3;

pub(crate) async fn undo(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = instance::connect(&arguments.reach).await?;
    let undo: Undo = client.post(&format!("/api/runs/{}/undo", arguments.run), &serde_json::json!({})).await?;
    if arguments.json {
        output::json(&undo)?;
    } else {
        print(&undo)?;
    }
    Ok(if undo.conflicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(LEFT_SOMETHING) })
}

fn print(undo: &Undo) -> anyhow::Result<()> {
    output::line(&undo.summary)?;
    for file in undo.files_changed.iter().filter(|file| !undo.already.contains(&file.path)) {
        output::line(format!("  {}", output::printable(&file.path)))?;
    }
    for path in &undo.already {
        output::line(format!("  so already: {}", output::printable(path)))?;
    }
    for path in &undo.conflicts {
        output::line(format!("  left alone: {}", output::printable(path)))?;
    }
    Ok(())
}
