//! `choir events`.

use crate::cli::Events;
use crate::client::Client;
use crate::{instance, output};
use choir_proto::{Envelope, api};
use std::process::ExitCode;

/// Events in one page.
const PAGE: usize = 500;

pub(crate) async fn events(arguments: Events) -> anyhow::Result<ExitCode> {
    let client = instance::connect(&arguments.reach).await?;
    match arguments.follow {
        true => follow(&client, &arguments).await?,
        false => read(&client, &arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(client: &Client, arguments: &Events) -> anyhow::Result<()> {
    let mut after = arguments.after;
    loop {
        let page: api::Events = client.get(&format!("/api/events?after={after}&limit={PAGE}")).await?;
        for event in &page.events {
            print(event, arguments.json)?;
        }
        if page.events.is_empty() || page.next >= page.head {
            return Ok(());
        }
        after = page.next.0;
    }
}

/// Follows the log; a stream that is closed (a restart, a slow terminal) is resumed where it ended.
async fn follow(client: &Client, arguments: &Events) -> anyhow::Result<()> {
    let mut after = arguments.after;
    loop {
        let begun = after;
        let mut stream = client.stream(after).await?;
        while let Some(line) = stream.next().await? {
            // Live lines have no place in the log, and this is the log.
            let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
            print(&event, arguments.json)?;
            after = event.header.seq.0;
        }
        if after == begun {
            anyhow::bail!("the instance closed the stream");
        }
    }
}

fn print(event: &Envelope, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(event);
    }
    let header = &event.header;
    let run = header.run.map(|run| format!("  run {run}")).unwrap_or_default();
    Ok(output::line(format_args!(
        "{:>8}  {}  {:<11} {}{run}",
        header.seq,
        header.at,
        header.actor.to_string(),
        header.kind
    ))?)
}
