//! `choir tour`: recorded model, real tools. An instance of its own, in a directory of its own, plays what the real system
//! does when a model lies or misquotes; both are gone afterwards.

use crate::cli::{Data, Reach, Tour as Arguments, TourName};
use crate::client::Client;
use crate::run::{Shown, show};
use crate::{instance, output};
use anyhow::{Context, bail};
use choir_proto::api::{RunAccepted, TaskAccepted};
use choir_proto::document::{Document, Figure, FigureStatus, Provenance};
use choir_proto::event::Event;
use choir_proto::tour::{NewTour, Pace, Tour};
use choir_proto::{DocumentId, Envelope, Role, Run, RunStatus, Seq};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// What a row of the figure is before somebody edits it, and after.
const ROW: [&str; 2] = ["pears,3", "pears,9"];
/// Where the row is.
const PRICES: &str = "/api/files?path=projects/tour/prices.csv";

pub(crate) async fn tour(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let tours = match arguments.name {
        Some(name) => vec![name],
        None => vec![TourName::Quotes, TourName::Liar, TourName::Numbers],
    };
    let place = arguments.data.path()?.join(format!("tour-{}", std::process::id()));
    for name in tours {
        match name {
            TourName::Quotes => quotes(&place).await?,
            TourName::Liar => liar(&place).await?,
            TourName::Numbers => numbers(&place).await?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An instance of the tour's own.
struct Stage {
    directory: PathBuf,
    child: Child,
}

impl Stage {
    async fn open(place: &Path) -> anyhow::Result<Self> {
        let directory = place.to_owned();
        std::fs::create_dir_all(&directory)?;
        let child = start(&directory).await?;
        Ok(Self { directory, child })
    }

    async fn client(&self) -> anyhow::Result<Client> {
        let data = Data { directory: Some(self.directory.clone()) };
        instance::connect(&Reach { data, url: None, token: None }).await
    }

    /// As if somebody pulled the plug, and put it back.
    async fn pull_the_plug(&mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        self.child = start(&self.directory).await?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left of a stage is in nobody's way.
        self.child.start_kill().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

/// Starts an instance and waits until it is ready.
async fn start(directory: &Path) -> anyhow::Result<Child> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory)
        .env_remove("CHOIR_CONFIG")
        .env_remove("CHOIR_LISTEN")
        .env("CHOIR_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let out = child.stdout.take().context("its output cannot be read")?;
    let mut lines = BufReader::new(out).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    if !first.starts_with("ready ") {
        bail!("the tour's own instance did not start");
    }
    // Whoever closes the pipe would end it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(child)
}

async fn quotes(place: &Path) -> anyhow::Result<()> {
    let stage = Stage::open(place).await?;
    let client = stage.client().await?;
    let accepted = begin(&client, Tour::Quotes).await?;
    let run = follow(&client, &accepted, |_| false).await?;
    let id = run.document_id.context("the run wrote no document")?;
    let document: Document = client.get(&format!("/api/documents/{id}")).await?;
    output::line(format_args!("\n{}", document.content))?;
    output::line(format_args!("{} quotations stand in their sources, letter by letter.", document.citations.len()))?;
    for flagged in &document.unsupported {
        output::line(format_args!("Flagged: “{}” stands in no source.", flagged.text))?;
    }
    let Some(doubtful) = document.unsupported.first() else { bail!("the doctored quotation was not noticed") };
    let range = format!("/api/documents/{id}/provenance?from={}&to={}", doubtful.from, doubtful.to);
    let origin: Provenance = client.get(&range).await?;
    let origin = origin.pieces.first().context("nobody knows where it comes from")?;
    let call = origin.tool_call.as_ref().map_or("no call", |call| &call.name);
    let prompt = origin.prompt.as_deref().unwrap_or_default();
    output::line(format_args!("Written by {} with {call}, for: {prompt}\n", origin.author))?;
    match (document.citations.len(), document.unsupported.len()) {
        (5, 1) => Ok(()),
        other => bail!("five quotations should hold and one should not; it was {other:?}"),
    }
}

async fn liar(place: &Path) -> anyhow::Result<()> {
    let mut stage = Stage::open(place).await?;
    let client = stage.client().await?;
    let accepted = begin(&client, Tour::Liar).await?;
    follow(&client, &accepted, is_worker_done).await?;
    output::line("\nThe worker said that it was done; the check said no. Now the plug is pulled …\n")?;
    stage.pull_the_plug().await?;
    let client = stage.client().await?;
    let run = follow(&client, &accepted, |_| false).await?;
    output::line(format_args!("\n{}: {}", run.status.name(), run.answer.or(run.reason).unwrap_or_default()))?;
    if run.status != RunStatus::Verified {
        bail!("the run should have ended verified");
    }
    let undo = format!("/api/runs/{}/undo", accepted.run_id);
    let undone: choir_proto::api::Undo = client.post(&undo, &json!({})).await?;
    output::line(format_args!("Undone: {}", undone.summary))?;
    let redone: choir_proto::api::Undo = client.post(&undo, &json!({})).await?;
    output::line(format_args!("Redone: {}\n", redone.summary))?;
    let mended = client.get_bytes("/api/files?path=projects/tour/total.sh").await?;
    if !String::from_utf8_lossy(&mended).contains("+ 0.5") {
        bail!("what was undone and redone should be there");
    }
    Ok(())
}

async fn numbers(place: &Path) -> anyhow::Result<()> {
    let stage = Stage::open(place).await?;
    let client = stage.client().await?;
    let accepted = begin(&client, Tour::Numbers).await?;
    let run = follow(&client, &accepted, |_| false).await?;
    let id = run.document_id.context("the run wrote no document")?;
    let (document, figure) = drawn(&client, id, FigureStatus::Fresh).await?;
    output::line(format_args!("\n{}", document.content))?;
    let inputs: Vec<_> = figure.inputs.iter().map(|input| input.path.as_str()).collect();
    output::line(format_args!("The figure was made from {}. Now a row is edited …", inputs.join(" and ")))?;
    let table = String::from_utf8_lossy(&client.get_bytes(PRICES).await?).replace(ROW[0], ROW[1]);
    client.put(PRICES, table.into()).await?;
    await_figure(&client, accepted.seq, FigureStatus::Stale).await?;
    let (_, figure) = drawn(&client, id, FigureStatus::Stale).await?;
    output::line(format_args!("Stale: {}. It is made again …\n", figure.because.unwrap_or_default()))?;
    let rerun = format!("/api/documents/{id}/figures/{}/rerun", figure.figure_id);
    let again: TaskAccepted = client.post(&rerun, &json!({})).await?;
    await_figure(&client, again.seq, FigureStatus::Fresh).await?;
    let (document, _) = drawn(&client, id, FigureStatus::Fresh).await?;
    output::line(format_args!("{}", document.content))?;
    if document.content.contains("pears   #########") { Ok(()) } else { bail!("the figure should show the new row") }
}

/// Says what is played, and begins it.
async fn begin(client: &Client, tour: Tour) -> anyhow::Result<RunAccepted> {
    output::line(format_args!("{} (recorded model, real tools)\n", tour.title()))?;
    Ok(client.post("/api/tours", &json!(NewTour { tour, pace: Pace::AtOnce })).await?)
}

/// The document and its one figure, which has to be in a state.
async fn drawn(client: &Client, id: DocumentId, status: FigureStatus) -> anyhow::Result<(Document, Figure)> {
    let document: Document = client.get(&format!("/api/documents/{id}")).await?;
    let figure = document.figures.first().cloned().context("the document has no figure")?;
    if figure.status != status {
        bail!("the figure should be {status:?} and is {:?}", figure.status);
    }
    Ok((document, figure))
}

/// Waits until a figure is said to be in a state.
async fn await_figure(client: &Client, after: Seq, status: FigureStatus) -> anyhow::Result<()> {
    let mut stream = client.stream(after.0).await?;
    while let Some(line) = stream.next().await? {
        let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
        if matches!(event.event(), Ok(Event::FigureChanged(changed)) if changed.figure.status == status) {
            return Ok(());
        }
    }
    bail!("the figure never was {status:?}")
}

/// Whether a worker has just ended.
fn is_worker_done(event: &Envelope) -> bool {
    let by_worker = event.header.actor == choir_proto::event::Actor::Agent(Role::Terminal);
    by_worker && matches!(event.event(), Ok(Event::TaskFinished(_)))
}

/// Shows what happens until the run has ended, or until something happens.
async fn follow(client: &Client, accepted: &RunAccepted, until: impl Fn(&Envelope) -> bool) -> anyhow::Result<Run> {
    let mut stream = client.stream(accepted.seq.0.saturating_sub(1)).await?;
    while let Some(line) = stream.next().await? {
        let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
        if event.header.run == Some(accepted.run_id) && (show(&event, false)? == Shown::Ended || until(&event)) {
            break;
        }
    }
    Ok(client.get(&format!("/api/runs/{}", accepted.run_id)).await?)
}
