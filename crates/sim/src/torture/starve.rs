//! The real binary on a disk that is full, or turns read-only, and is mended again: what cannot be kept is refused by name,
//! everything that is there can be read, the page that shows how it is says so, and afterwards it goes on without a restart.

use super::victim::{Victim, refusal, run_promise};
use super::{Outcome, Plan};
use crate::client::Client;
use crate::disk::image::Image;
use crate::disk::mount::{Fault, Mounted, Temper};
use crate::process;
use anyhow::{Context, bail};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Rounds of the full and of the short form, each with every trouble.
const ROUNDS: u64 = 20;
const ROUNDS_SHORT: u64 = 1;

/// Prompts before, during and after the trouble.
const PROMPTS: u32 = 5;

/// Prompts that may be refused after the disk was mended, before it counts as not having recovered.
const TRIES: u32 = 5;

/// How often, and after what pause, a computer that was killed is asked whether it is back.
const BACK_TRIES: u32 = 200;
const BACK_AGAIN: Duration = Duration::from_millis(100);

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Full,
    ReadOnly,
    /// It says yes and does nothing. No disk should, and nobody can notice at once; it must be noticed in the end.
    Lies,
}

impl Trouble {
    fn fault(self, at: u64) -> Fault {
        match self {
            Self::Full => Fault::Full { at, attempts: u64::MAX },
            Self::ReadOnly => Fault::ReadOnly { at, attempts: u64::MAX },
            Self::Lies => Fault::Lie { at },
        }
    }

    /// How a change of the settings is refused meanwhile, which control keeps by itself.
    fn control_refusal(self) -> Option<&'static str> {
        match self {
            Self::Full => Some("507 disk_full"),
            Self::ReadOnly => Some("503 control_failed"),
            Self::Lies => None,
        }
    }

    /// How a prompt is refused meanwhile.
    fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Full => Some("507 disk_full"),
            Self::ReadOnly => Some("503 log_failed"),
            Self::Lies => None,
        }
    }
}

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rounds = plan.cases(ROUNDS, ROUNDS_SHORT);
    let mut outcome = Outcome { wanted: 2 * rounds, ..Outcome::default() };
    for _ in 0..rounds {
        for trouble in [Trouble::Full, Trouble::ReadOnly] {
            if plan.is_over() {
                break;
            }
            suffer(trouble, &runtime, &mut outcome).with_context(|| format!("{trouble:?}"))?;
            outcome.cases += 1;
        }
    }
    let mut control = Outcome::default();
    // A log that cannot be read any more has been noticed, too; a life that did not even begin has not.
    let broken = suffer(Trouble::Lies, &runtime, &mut control).is_err() && control.acknowledged > 0;
    let noticed = broken || control.lost > 0 || !control.faults.is_empty();
    outcome.controls.push(("a disk that says yes and does nothing", noticed));
    outcome.notes = format!("{PROMPTS} prompts before, during and after each trouble");
    Ok(outcome)
}

/// One life with trouble in it, and one after it on what is really on the disk.
fn suffer(trouble: Trouble, runtime: &Runtime, outcome: &mut Outcome) -> anyhow::Result<()> {
    let disk = Mounted::new(Image::default(), Temper::Sound)?;
    let mut victim = Victim::at(disk.path())?;
    let instance = victim.start()?;
    runtime.block_on(async {
        let mut client = Client::connect(instance.address()).await?;
        for _ in 0..PROMPTS {
            let run = client.send(Method::POST, "/api/runs", &prompt()).await?;
            victim.keep(run_promise(&run)?, outcome);
        }
        disk.fail(|steps| trouble.fault(steps));
        meanwhile(trouble, &mut client, &mut victim, outcome).await?;
        // On a full disk whoever has to start does, and reads what is there.
        if trouble == Trouble::Full {
            process::kill(&instance.called("computer"));
            is_back(&mut client).await?;
            meanwhile(trouble, &mut client, &mut victim, outcome).await?;
        }
        disk.mend();
        afterwards(&mut client, &mut victim, outcome).await
    })?;
    instance.kill()?;
    let disk = Mounted::new(disk.finish()?.image, Temper::Sound)?;
    let victim = victim.moved_to(disk.path());
    match victim.finish(runtime, outcome) {
        Ok(()) => {}
        Err(error) => outcome.faults.push(format!("{trouble:?}: the next life: {error:#}")),
    }
    disk.finish().map(drop)
}

/// Waits until a computer that was killed answers again.
async fn is_back(client: &mut Client) -> anyhow::Result<()> {
    for _ in 0..BACK_TRIES {
        if client.ask(Method::GET, "/api/runs", None).await?.0.is_success() {
            return Ok(());
        }
        process::rest(BACK_AGAIN);
    }
    bail!("a computer that was killed on a full disk did not come back")
}

/// Nothing is accepted, everything can be read, and whoever asks is told.
async fn meanwhile(
    trouble: Trouble,
    client: &mut Client,
    victim: &mut Victim,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for _ in 0..PROMPTS {
        let (status, answer) = client.ask(Method::POST, "/api/runs", Some(&prompt())).await?;
        match trouble.refusal() {
            _ if status.is_success() => victim.keep(run_promise(&answer)?, outcome),
            Some(expected) if refusal(status, &answer) == expected => {}
            expected => outcome.faults.push(format!("{trouble:?}: {answer} instead of {expected:?}")),
        }
        // What is accepted all the same is only promised if the disk is believed, and looked for in the next life.
        if status.is_success() && trouble != Trouble::Lies {
            outcome.faults.push(format!("{trouble:?}: a prompt was accepted"));
        }
    }
    if let Some(expected) = trouble.control_refusal() {
        let (status, answer) = client.ask(Method::PUT, "/api/settings", Some(&settings())).await?;
        if refusal(status, &answer) != expected {
            outcome.faults.push(format!("{trouble:?}: {status} {answer} instead of {expected:?}"));
        }
    }
    client.get("/api/events?after=0&limit=1000").await?;
    client.get("/api/runs").await?;
    let health = client.get("/health").await?;
    for part in ["log", "control"] {
        if trouble != Trouble::Lies && health["components"][part]["status"] != "degraded" {
            outcome.faults.push(format!("{trouble:?}: the health says {part}: {}", health["components"][part]));
        }
    }
    Ok(())
}

async fn afterwards(client: &mut Client, victim: &mut Victim, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut refused = 0;
    for _ in 0..PROMPTS + TRIES {
        let (status, answer) = client.ask(Method::POST, "/api/runs", Some(&prompt())).await?;
        match status.is_success() {
            true => victim.keep(run_promise(&answer)?, outcome),
            false => refused += 1,
        }
    }
    if refused > TRIES {
        outcome.faults.push(format!("{refused} prompts were refused after the disk was mended"));
    }
    client.send(Method::PUT, "/api/settings", &settings()).await?;
    let health = client.get("/health").await?;
    for part in ["log", "control"] {
        if health["components"][part]["status"] != "ok" {
            outcome.faults.push(format!("the health of a mended disk: {part}: {}", health["components"][part]));
        }
    }
    Ok(())
}

fn settings() -> Value {
    json!({"budget": {"usd_per_run": 3.0}})
}

fn prompt() -> Value {
    json!({"prompt": "say something"})
}
