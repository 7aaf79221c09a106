//! `choir events`.

use crate::cli::Events;
use crate::client::{Client, Error};
use crate::{instance, output};
use anyhow::Context;
use choir_proto::{Envelope, api};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Events in one page.
const PAGE: usize = 500;
/// How long an instance that went away may take to come back.
const RETURN: Duration = Duration::from_secs(10);
/// Between two looks for it.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) async fn events(arguments: Events) -> anyhow::Result<ExitCode> {
    let client = instance::connect(&arguments.reach).await?;
    match arguments.follow {
        true => follow(client, &arguments).await?,
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

/// Follows the log. A stream that ends (a restart, a slow terminal) is resumed where it ended, without gap or duplicate.
async fn follow(mut client: Client, arguments: &Events) -> anyhow::Result<()> {
    let mut after = arguments.after;
    loop {
        // A stream that breaks is as good as one that is closed: what was seen is known.
        if let Ok(mut stream) = client.stream(after).await {
            while let Ok(Some(line)) = stream.next().await {
                // Live lines have no place in the log, and this is the log.
                let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
                print(&event, arguments.json)?;
                after = event.header.seq.0;
            }
        }
        client = again(arguments).await.with_context(|| format!("the log was read up to event {after}"))?;
    }
}

/// The instance, as soon as it answers again; the last refusal when it does not come back in time.
async fn again(arguments: &Events) -> anyhow::Result<Client> {
    let until = Instant::now() + RETURN;
    loop {
        // Looked up anew: another start may have another address and does not know our old token's end.
        match answering(arguments).await {
            Ok(client) => return Ok(client),
            // It is there and says no: waiting changes nothing.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Refused(_))) => return Err(error),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn answering(arguments: &Events) -> anyhow::Result<Client> {
    let client = instance::connect(&arguments.reach).await?;
    client.get::<api::Events>("/api/events?limit=1").await?;
    Ok(client)
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
