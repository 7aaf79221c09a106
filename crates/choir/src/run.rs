//! `choir run`.

use crate::cli::Run as Arguments;
use crate::client::Client;
use crate::instance::is_passing;
use crate::{instance, output};
use anyhow::Context as _;
use choir_proto::api::{Acknowledged, RunAccepted};
use choir_proto::document::Document;
use choir_proto::egress::WEB;
use choir_proto::event::Event;
use choir_proto::inbox::{AskKind, Reach};
use choir_proto::model::Usage;
use choir_proto::run::{Context, NewRun, PathContext, UrlContext};
use choir_proto::task::{Budget, Verify, VerifyMode, VerifyResult, VerifySource, VerifyStatus};
use choir_proto::{Envelope, Run, RunId, RunStatus, Usd};
use std::process::ExitCode;
use std::time::Duration;

/// The run ended, but not well.
const ENDED_OTHERWISE: u8 = 3;
/// The time was over before the run had ended.
const TIME_OVER: u8 = 4;
/// How long an instance that went away may take to come back, before the person is told that it does not.
const RETURN: Duration = Duration::from_secs(120);
/// What the instance may take to end a run by itself whose time is over.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut client = instance::connect(&arguments.reach).await?;
    let request = serde_json::to_value(request(&arguments)?)?;
    let accepted: RunAccepted = client.post("/api/runs", &request).await?;
    // Whatever happens to this command, the run goes on and has a name.
    output::tell(format_args!("run {}", accepted.run_id));
    let in_time = follow_within(&mut client, &accepted, &arguments).await?;
    let run: Run = client.get(&format!("/api/runs/{}", accepted.run_id)).await?;
    print(&client, &run, arguments.json).await?;
    Ok(ExitCode::from(if in_time { exit(run.status) } else { TIME_OVER }))
}

/// What the caller is told of an ending. Whether the run noticed that its time was over or this command did is the same to them.
const fn exit(status: RunStatus) -> u8 {
    match status {
        RunStatus::Completed | RunStatus::Verified => 0,
        RunStatus::OutOfTime => TIME_OVER,
        _ => ENDED_OTHERWISE,
    }
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
        verify: checks(&arguments.verify),
        plan_first: arguments.plan_first.then_some(true),
        budget: has_budget.then_some(Budget { time_s, steps: None, tokens: None, usd }),
        ..NewRun::new(arguments.prompt.clone())
    })
}

/// The checks that are wanted: these commands, or without any those of the project.
fn checks(wanted: &[String]) -> Option<Verify> {
    let commands = wanted.iter().filter(|command| !command.is_empty()).cloned().collect();
    (!wanted.is_empty()).then_some(Verify { mode: VerifyMode::Commands, commands })
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
async fn follow_within(client: &mut Client, accepted: &RunAccepted, arguments: &Arguments) -> anyhow::Result<bool> {
    let mut after = accepted.seq.0.saturating_sub(1);
    let Some(seconds) = arguments.timeout else {
        return follow(client, accepted.run_id, &mut after, arguments).await.map(|()| true);
    };
    let time = Duration::from_secs(seconds).saturating_add(GRACE);
    let following = follow(client, accepted.run_id, &mut after, arguments);
    if let Ok(followed) = tokio::time::timeout(time, following).await {
        return followed.map(|()| true);
    }
    let path = format!("/api/runs/{}/cancel", accepted.run_id);
    client.post::<Acknowledged>(&path, &serde_json::json!({})).await?;
    output::tell(format_args!("choir: the run had not ended after {seconds} s and was cancelled"));
    // What is printed last is how it ended, unless even that takes too long.
    let following = follow(client, accepted.run_id, &mut after, arguments);
    tokio::time::timeout(GRACE, following).await.unwrap_or(Ok(()))?;
    Ok(false)
}

/// Shows what happens until the run has ended. A run does not end with its instance: when that comes back, what happens is
/// shown from where it was seen last.
async fn follow(client: &mut Client, run: RunId, after: &mut u64, arguments: &Arguments) -> anyhow::Result<()> {
    loop {
        match follow_once(client, run, after, arguments).await {
            Ok(Shown::Ended) => return Ok(()),
            Ok(Shown::More) => {}
            Err(error) if is_passing(&error) => {
                output::tell(format_args!("choir: the connection is lost; the run goes on when its computer does"));
                let gone = || format!("nobody came back; run {run} goes on by itself: `choir trace {run}` shows it");
                *client = instance::again(&arguments.reach, RETURN).await.with_context(gone)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Follows one connection to its end.
async fn follow_once(client: &Client, run: RunId, after: &mut u64, arguments: &Arguments) -> anyhow::Result<Shown> {
    let begun = *after;
    let mut stream = client.stream(*after).await?;
    while let Some(line) = stream.next().await? {
        let Ok(event) = serde_json::from_str::<Envelope>(&line) else { continue };
        *after = event.header.seq.0;
        if event.header.run != Some(run) {
            continue;
        }
        if arguments.web {
            allow_web(client, &event).await?;
        }
        if show(&event, arguments.json)? == Shown::Ended {
            return Ok(Shown::Ended);
        }
    }
    let ended = *after == begun && has_ended(client, run).await?;
    Ok(if ended { Shown::Ended } else { Shown::More })
}

/// Says yes where the run asks whether it may read the web, for the run and for nothing else.
async fn allow_web(client: &Client, event: &Envelope) -> anyhow::Result<()> {
    let Event::InboxAsked(asked) = event.event()? else { return Ok(()) };
    if asked.ask != AskKind::Egress || asked.subject != WEB {
        return Ok(());
    }
    let word = serde_json::json!({"decision": "approve", "hash": asked.hash, "scope": Reach::Run});
    let said: Result<serde_json::Value, _> = client.post(&format!("/api/inbox/{}", asked.inbox_id), &word).await;
    if let Err(error) = said {
        // Somebody may have been faster, and a lost connection is noticed by whoever follows it.
        eprintln!("choir: that the run may read the web could not be said: {error}");
    }
    Ok(())
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
        Event::TaskFinished(task) => {
            let (status, summary) = (task.result.status.name(), first_line(&task.result.summary));
            Some(format!("{} {status}: {summary}", event.header.actor.as_str()))
        }
        Event::VerifyStarted(check) => Some(format!("  checking: {}", check.commands.join("; "))),
        Event::VerifyFinished(check) => Some(format!("  checked: {}", verdict(&check.result))),
        Event::ToolStarted(tool) => Some(format!("  {}", tool.name)),
        Event::TaskDelayed(delayed) => Some(format!("  {}", delayed.message)),
        Event::ModelFailed(failed) => Some(format!("  model: {}", failed.message)),
        Event::CitationMade(citation) => Some(format!("  cited: {}", first_line(&citation.quote))),
        Event::ProposalMade(proposal) => Some(format!("proposed: {}", first_line(&proposal.new))),
        Event::DocumentVersioned(document) => {
            Some(format!("document: {} (version {})", document.title, document.version))
        }
        Event::RunEnded(ended) => {
            output::tell(format_args!("{}: {}", ended.status.name(), output::printable(&ended.summary)));
            return Ok(Shown::Ended);
        }
        _ => None,
    };
    if let Some(said) = said.filter(|_| !json) {
        output::tell(format_args!("{}", output::printable(&said)));
    }
    Ok(Shown::More)
}

/// What a check said, and how much that proves.
fn verdict(check: &VerifyResult) -> String {
    let status = match check.status {
        VerifyStatus::Pass => "passed",
        VerifyStatus::Fail => "failed",
        VerifyStatus::Unknown => "not known",
    };
    match check.source {
        VerifySource::Agent => format!("{status}, by commands of an agent, which proves nothing"),
        _ if !check.doubts.is_empty() => format!("{status}, but: {}", check.doubts.join(" ")),
        _ if !check.holds() => format!("{status}, but its worker touched {}", check.checks_changed.join(", ")),
        VerifySource::Person | VerifySource::Base => status.to_owned(),
    }
}

async fn print(client: &Client, run: &Run, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(run);
    }
    output::tell(format_args!("{}", receipt(&run.usage)));
    if let Some(answer) = &run.answer {
        output::text(answer)?;
    }
    if let Some(id) = run.document_id {
        let document: Document = client.get(&format!("/api/documents/{id}")).await?;
        output::text(&document.content)?;
    }
    Ok(())
}

/// What a run took. An amount that stands on a price that nobody knows, or on tokens that nobody counted, says so.
fn receipt(usage: &Usage) -> String {
    let mut said = format!("{} tokens, ${:.4}", usage.tokens(), usage.usd.dollars());
    let (assumed, guessed) = (usage.usd_assumed, usage.usd_guessed);
    if !assumed.is_nothing() {
        let assumed = assumed.dollars();
        said = format!("{said}; ${assumed:.4} of it at an assumed price: what the model costs is not known");
    }
    if !guessed.is_nothing() {
        let guessed = guessed.dollars();
        said = format!(
            "{said}; ${guessed:.4} of it for a guessed number of tokens: nobody counts those of answers that break off"
        );
    }
    said
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_is_what_the_help_says() {
        use RunStatus::{Cancelled, Completed, Failed, OutOfTime, Verified};
        let told = [Completed, Verified, OutOfTime, Failed, Cancelled].map(exit);
        assert_eq!(told, [0, 0, TIME_OVER, ENDED_OTHERWISE, ENDED_OTHERWISE]);
    }

    #[test]
    fn checks_are_asked_for_by_name_or_not() {
        assert_eq!(checks(&[]), None);
        let wanted = |words: &[&str]| checks(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        assert_eq!(wanted(&[""]), Verify { mode: VerifyMode::Commands, commands: Vec::new() });
        assert_eq!(wanted(&["make", "", "sh x"]).commands, ["make", "sh x"]);
    }

    #[test]
    fn a_receipt_says_what_is_assumed() {
        let mut usage = Usage { input_tokens: 90, output_tokens: 10, usd: Usd(12_000), ..Usage::default() };
        assert_eq!(receipt(&usage), "100 tokens, $0.0120");
        usage.usd_assumed = Usd(2_000);
        assert!(receipt(&usage).starts_with("100 tokens, $0.0120; $0.0020 of it at an assumed price"));
        (usage.usd_assumed, usage.usd_guessed) = (Usd(0), Usd(3_000));
        assert!(receipt(&usage).starts_with("100 tokens, $0.0120; $0.0030 of it for a guessed number of tokens"));
    }
}
