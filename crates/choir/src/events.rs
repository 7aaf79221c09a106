//! `choir events`.

use crate::cli::Events;
use crate::client::{self, Client};
use crate::instance::{self, again, answering, is_passing};
use crate::output;
use anyhow::Context;
use choir_control::data::{self, DataDir};
use choir_proto::{Envelope, Hash, Seq, api};
use choir_store::relay::{JsonLines, Relay, Sink};
use choir_store::{AtRest, Query};
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// Events in one page.
const PAGE: usize = 500;
/// How long an instance that went away may take to come back.
const RETURN: Duration = Duration::from_secs(10);

type Out = Relay<Box<dyn Sink + Send>>;

pub(crate) async fn events(arguments: Events) -> anyhow::Result<ExitCode> {
    let client = match arguments.follow {
        true => again(&arguments.reach, RETURN).await?,
        false => match answering(&arguments.reach).await {
            Err(error) if is_at_rest(&error) => return read_at_rest(&arguments, error).await,
            client => client?,
        },
    };
    // Only when somebody answers: whoever is refused leaves no file behind.
    let mut out = out(&arguments)?;
    let read = read(&client, &mut out).await;
    match read {
        // Whoever follows is used to a computer that comes back.
        Err(error) if !arguments.follow || !is_passing(&error) => return Err(error),
        _ => {}
    }
    if arguments.follow {
        follow(client, &mut out, &arguments).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_at_rest(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(client::Error::NotRunning))
}

/// Reads the log of the one computer that lies here. Nothing starts on it meanwhile.
async fn read_at_rest(arguments: &Events, not_running: anyhow::Error) -> anyhow::Result<ExitCode> {
    let root = DataDir::at(&arguments.reach.data.path()?);
    if !root.control().is_dir() {
        return Err(not_running);
    }
    let _lock = match root.lock() {
        // Where nothing can be made, nobody can start.
        Err(data::Error::Path { .. }) => root.lock_to_look()?,
        lock => Some(lock?),
    };
    let [computer] = root.known_computers()?[..] else { return Err(not_running) };
    let log = AtRest::open(&root.computer(computer))?;
    let mut out = out(arguments)?;
    loop {
        let query = Query { after: out.position(), limit: PAGE, ..Query::default() };
        let events = log.read(&query)?;
        if events.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        out.carry(&events)?;
    }
}

/// A file goes on where its last line ends; the terminal begins where it is told to.
fn out(arguments: &Events) -> anyhow::Result<Out> {
    Ok(Relay::new(match &arguments.to {
        Some(path) => {
            let file = JsonLines::open(path).with_context(|| format!("{} cannot be continued", path.display()))?;
            Box::new(file)
        }
        None => Box::new(Screen { at: Seq(arguments.after), json: arguments.json }),
    }))
}

async fn read(client: &Client, out: &mut Out) -> anyhow::Result<()> {
    loop {
        let after = out.position();
        let page: api::Events = client.get(&format!("/api/events?after={after}&limit={PAGE}")).await?;
        out.carry(&page.events)?;
        if page.events.is_empty() || page.next >= page.head {
            return Ok(());
        }
    }
}

/// Follows the log. A stream that ends (a restart, a slow terminal) is resumed where it ended, without gap or duplicate.
async fn follow(mut client: Client, out: &mut Out, arguments: &Events) -> anyhow::Result<()> {
    loop {
        let before = out.position();
        match client.stream(before.0).await {
            // A stream that breaks is as good as one that is closed: what was seen is known.
            Ok(mut stream) => {
                while let Ok(Some(line)) = stream.next().await {
                    let event: Envelope = serde_json::from_str(&line)?;
                    out.carry([&event])?;
                }
            }
            Err(error) if !error.is_passing() => return Err(error.into()),
            Err(_) => {}
        }
        // Whoever is sent away without a single event would be sent away again at once.
        if out.position() == before {
            tokio::time::sleep(instance::RETRY).await;
        }
        let told = || format!("the log was read up to event {}", out.position());
        client = again(&arguments.reach, RETURN).await.with_context(told)?;
    }
}

/// Lines for a person, or for a program that reads standard output.
struct Screen {
    at: Seq,
    json: bool,
}

impl Sink for Screen {
    fn position(&self) -> Seq {
        self.at
    }

    fn hash(&self) -> Option<Hash> {
        None
    }

    fn take(&mut self, event: &Envelope) -> io::Result<()> {
        self.at = event.header.seq;
        if self.json {
            return output::json(event).map_err(io::Error::other);
        }
        let header = &event.header;
        let run = header.run.map(|run| format!("  run {run}")).unwrap_or_default();
        let (seq, id, at, actor, kind) = (header.seq, header.id, header.at, header.actor.as_str(), &header.kind);
        let left = match event.payload.get() {
            _ if event.damaged => "  damaged",
            "null" => "  erased",
            _ => "",
        };
        output::line(format_args!("{seq:>8}  {id}  {at}  {actor:<11} {kind}{run}{left}"))
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}
