//! `choir run`.

use crate::cli::Run as Arguments;
use crate::client::Client;
use crate::{instance, output};
use choir_proto::api::{Acknowledged, RunAccepted};
use choir_proto::document::Document;
use choir_proto::event::Event;
use choir_proto::model::Usage;
use choir_proto::run::{Context, NewRun, PathContext, UrlContext};
use choir_proto::task::Budget;
use choir_proto::{Envelope, Run, RunId, RunStatus, Usd};
use std::process::ExitCode;
use std::time::Duration;

/// The run ended, but not well.
const ENDED_OTHERWISE: u8 = 3;
/// The time was over before the run had ended.
const TIME_OVER: u8 = 4;
/// What the instance may take to end a run by itself whose time is over.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = instance::connect(&arguments.reach).await?;
    let request = serde_json::to_value(request(&arguments)?)?;
    let accepted: RunAccepted = client.post("/api/runs", &request).await?;
    let in_time = follow_within(&client, &accepted, &arguments).await?;
    let run: Run = client.get(&format!("/api/runs/{}", accepted.run_id)).await?;
    print(&client, &run, arguments.json).await?;
    Ok(match run.status {
        _ if !in_time => ExitCode::from(TIME_OVER),
        RunStatus::Completed | RunStatus::Verified => ExitCode::SUCCESS,
        _ => ExitCode::from(ENDED_OTHERWISE),
    })
}

fn request(arguments: &Arguments) -> anyhow::Result<NewRun> {
    let usd =
        arguments.budget_usd.map(|usd| Usd::from_dollars(usd).ok_or_else(|| anyhow::anyhow!("{usd} is no budget")));
    let usd = usd.transpose()?;
    let time_s = arguments.timeout.map(|seconds| seconds as f64);
    let has_budget = usd.is_some() || time_s.is_some();
    Ok(NewRun {
        document_id: arguments.document,
        context: arguments.context.iter().map(|context| read_context(context)).collect(),
        budget: has_budget.then_some(Budget { time_s, steps: None, tokens: None, usd }),
        ..NewRun::new(arguments.prompt.clone())
    })
}

fn read_context(text: &str) -> Context {
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    match is_url {
        true => Context::Url(UrlContext { url: text.to_owned() }),
        false => Context::Path(PathContext { path: text.to_owned() }),
    }
}

/// Whether the run ended in time. A run that waits (for a model, for a person) uses up none of its own: one that nobody
/// waits for any more is cancelled, so that it does not begin when nobody thinks of it.
async fn follow_within(client: &Client, accepted: &RunAccepted, arguments: &Arguments) -> anyhow::Result<bool> {
    let mut after = accepted.seq.0.saturating_sub(1);
    let Some(seconds) = arguments.timeout else {
        return follow(client, accepted.run_id, &mut after, arguments.json).await.map(|()| true);
    };
    let time = Duration::from_secs(seconds).saturating_add(GRACE);
    let following = follow(client, accepted.run_id, &mut after, arguments.json);
    if let Ok(followed) = tokio::time::timeout(time, following).await {
        return followed.map(|()| true);
    }
    let path = format!("/api/runs/{}/cancel", accepted.run_id);
    client.post::<Acknowledged>(&path, &serde_json::json!({})).await?;
    eprintln!("choir: the run had not ended after {seconds} s and was cancelled");
    // What is printed last is how it ended, unless even that takes too long.
    let following = follow(client, accepted.run_id, &mut after, arguments.json);
    tokio::time::timeout(GRACE, following).await.unwrap_or(Ok(()))?;
    Ok(false)
}

/// Shows what happens until the run has ended. A stream that is closed is resumed where it ended.
async fn follow(client: &Client, run: RunId, after: &mut u64, json: bool) -> anyhow::Result<()> {
    loop {
        let begun = *after;
        let mut stream = client.stream(*after).await?;
        while let Some(line) = stream.next().await? {
            let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
            *after = event.header.seq.0;
            if event.header.run == Some(run) && show(&event, json)? == Shown::Ended {
                return Ok(());
            }
        }
        if *after == begun && has_ended(client, run).await? {
            return Ok(());
        }
    }
}

async fn has_ended(client: &Client, run: RunId) -> anyhow::Result<bool> {
    let run: Run = client.get(&format!("/api/runs/{run}")).await?;
    Ok(run.status.is_ending())
}

#[derive(PartialEq, Eq)]
pub(crate) enum Shown {
    More,
    Ended,
}

/// Progress goes to standard error: standard output is for what came of it.
pub(crate) fn show(event: &Envelope, json: bool) -> anyhow::Result<Shown> {
    if json {
        output::json(event)?;
    }
    let said = match event.event()? {
        Event::RunStarted(_) => Some("started".to_owned()),
        Event::RunBlocked(blocked) if blocked.message.starts_with("waiting") => Some(blocked.message),
        Event::RunBlocked(blocked) => Some(format!("waiting: {}", blocked.message)),
        Event::TaskRequested(task) => {
            let role = task.role.map_or("task", |role| role.name());
            Some(format!("{role}: {}", first_line(&task.request.instruction)))
        }
        Event::ToolStarted(tool) => Some(format!("  {}", tool.name)),
        Event::TaskDelayed(delayed) => Some(format!("  {}", delayed.message)),
        Event::ModelFailed(failed) => Some(format!("  model: {}", failed.message)),
        Event::CitationMade(citation) => Some(format!("  cited: {}", first_line(&citation.quote))),
        Event::ProposalMade(proposal) => Some(format!("proposed: {}", first_line(&proposal.new))),
        Event::DocumentVersioned(document) => {
            Some(format!("document: {} (version {})", document.title, document.version))
        }
        Event::RunEnded(ended) => {
            eprintln!("{}: {}", ended.status.name(), output::printable(&ended.summary));
            return Ok(Shown::Ended);
        }
        _ => None,
    };
    if let Some(said) = said.filter(|_| !json) {
        eprintln!("{}", output::printable(&said));
    }
    Ok(Shown::More)
}

async fn print(client: &Client, run: &Run, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(run);
    }
    eprintln!("{}", receipt(&run.usage));
    if let Some(answer) = &run.answer {
        output::text(answer)?;
    }
    if let Some(id) = run.document_id {
        let document: Document = client.get(&format!("/api/documents/{id}")).await?;
        output::text(&document.content)?;
    }
    Ok(())
}

/// What a run took. An amount that stands on a price that nobody knows says so.
fn receipt(usage: &Usage) -> String {
    let taken = format!("{} tokens, ${:.4}", usage.tokens(), usage.usd.dollars());
    match usage.usd_assumed.dollars() {
        0.0 => taken,
        assumed => format!("{taken}; ${assumed:.4} of it at an assumed price: what the model costs is not known"),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_says_what_is_assumed() {
        let mut usage = Usage { input_tokens: 90, output_tokens: 10, usd: Usd(12_000), ..Usage::default() };
        assert_eq!(receipt(&usage), "100 tokens, $0.0120");
        usage.usd_assumed = Usd(2_000);
        assert!(receipt(&usage).starts_with("100 tokens, $0.0120; $0.0020 of it at an assumed price"));
    }
}
