//! `choir doctor`: what works on this machine, and how to mend what does not.

use crate::cli::{Data, Doctor};
use crate::instance::Instance;
use crate::{instance, output, report};
use choir_control::config;
use choir_control::data::DataDir;
use choir_control::db::Stored;
use choir_control::gateway;
use choir_control::outbound::Outbound;
use choir_control::toolchains::{Homes, Toolchains};
use choir_control::up;
use choir_proto::api::Health;
use choir_sandbox::confine;
use choir_sandbox::guest::GuestRole;
use choir_sandbox::runtime::{Overlay, Runtime, Spec, StartError, Workspace};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Below this the log may soon refuse to grow.
const FREE_BYTES_MIN: u64 = 1 << 30;

#[derive(Serialize)]
struct Finding {
    name: &'static str,
    ok: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Finding {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, detail: detail.into(), mend: None }
    }

    fn bad(name: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, ok: false, detail: detail.into(), mend: Some(mend.into()) }
    }
}

pub(crate) async fn doctor(arguments: Doctor) -> anyhow::Result<ExitCode> {
    let path = arguments.data.path()?;
    let mut findings = vec![kernel(), landlock(), data(&path), space(&path)];
    findings.extend(databases(&path));
    findings.extend([
        configuration(&path, arguments.config.as_deref()),
        models().await,
        sandbox(&path).await,
        toolchains(),
        running(&arguments.data).await,
    ]);
    let ok = findings.iter().all(|finding| finding.ok);
    match arguments.json {
        true => output::json(&serde_json::json!({ "ok": ok, "findings": findings }))?,
        false => findings.iter().try_for_each(print)?,
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(finding: &Finding) -> std::io::Result<()> {
    let mark = if finding.ok { "ok " } else { "BAD" };
    output::line(format_args!("{mark}  {:<14} {}", finding.name, finding.detail))?;
    match &finding.mend {
        Some(mend) => output::line(format_args!("     {:<14} {mend}", "")),
        None => Ok(()),
    }
}

fn kernel() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 1) => Finding::good("kernel", format!("Linux {release}")),
        _ => Finding::bad("kernel", format!("Linux {release}"), "Sandboxes need Linux 6.1 or newer."),
    }
}

/// Without it no guest starts, and the computer's own process has a wall less.
fn landlock() -> Finding {
    let mend = "Start the kernel with `landlock` in its `lsm=` list, or use one of version 6.1 or newer that has it.";
    match confine::landlock_version() {
        Ok(version) if version >= confine::LANDLOCK_VERSION_MIN => {
            Finding::good("landlock", format!("version {version}"))
        }
        Ok(version) => Finding::bad("landlock", format!("version {version} is too old"), mend),
        Err(error) => Finding::bad("landlock", format!("the kernel does not offer it: {error}"), mend),
    }
}

fn data(path: &Path) -> Finding {
    // Looking makes nothing.
    if !path.exists() {
        return Finding::good("data", format!("{} is not there yet; `choir up` makes it", path.display()));
    }
    examined("data", path, DataDir::examine(path).map_err(anyhow::Error::from))
}

/// Control's database and every computer's log, whether or not an instance runs; what is not there yet is not spoken of.
fn databases(path: &Path) -> Vec<Finding> {
    let data = DataDir::at(path);
    let mut findings = Vec::new();
    if data.database().exists() {
        let looked = choir_control::db::examine(path, choir_store::open_untouched);
        findings.push(examined("database", &data.database(), looked.map_err(anyhow::Error::from)));
    }
    let computers = data.known_computers().unwrap_or_default().into_iter().map(|id| data.computer(id));
    for (directory, log) in computers.map(|directory| (directory.clone(), directory.join("log.sqlite"))) {
        if log.exists() {
            findings.push(examined("log", &log, choir_store::examine(&directory).map_err(anyhow::Error::from)));
        }
    }
    findings
}

fn examined(name: &'static str, file: &Path, looked: anyhow::Result<()>) -> Finding {
    let Err(error) = looked else { return Finding::good(name, file.display().to_string()) };
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mend = report::hint(&error).unwrap_or_else(|| "`choir verify` says how far it is sound.".to_owned());
    Finding::bad(name, causes.join(": "), mend)
}

fn space(path: &Path) -> Finding {
    // A directory that is not there yet will have the room of the one above it.
    let there = path.ancestors().find(|above| above.exists()).unwrap_or(path);
    match rustix::fs::statvfs(there) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let detail = format!("{} MiB free", free >> 20);
            match free >= FREE_BYTES_MIN {
                true => Finding::good("disk", detail),
                false => Finding::bad("disk", detail, "Make room: a full disk refuses new events."),
            }
        }
        Err(error) => Finding::bad("disk", error.to_string(), "Choose another directory with --data."),
    }
}

fn configuration(data: &Path, named: Option<&Path>) -> Finding {
    let file = named.map_or_else(|| DataDir::at(data).config(), Path::to_owned);
    match loaded(data, &file, named.is_some()) {
        Ok(config) if config.git != config::Git::default() => Finding::good(
            "configuration",
            "git.auto_commit_* is read and does nothing yet: there is no checkpoint to take",
        ),
        Ok(config) if config.providers.is_empty() => {
            Finding::good("configuration", "no provider in choir.toml; prompts wait until Settings has one")
        }
        Ok(config) => {
            let names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
            Finding::good("configuration", format!("providers: {}", names.join(", ")))
        }
        Err(error) => examined("configuration", &file, Err(error)),
    }
}

/// The configuration, if a start would take it.
fn loaded(data: &Path, file: &Path, is_named: bool) -> anyhow::Result<config::Config> {
    let config = config::load(file, is_named)?;
    // A database that cannot be read has a line of its own, and the providers in it are not there.
    let stored = stored(data).unwrap_or_default();
    up::examine(&config, file.parent().unwrap_or(Path::new(".")), &stored)?;
    Ok(config)
}

/// The providers that the desktop added.
pub(crate) fn stored(data: &Path) -> Result<Vec<Stored>, choir_control::db::Error> {
    match DataDir::at(data).database().exists() {
        true => choir_control::db::providers(data, choir_store::open_untouched),
        false => Ok(Vec::new()),
    }
}

/// What could be asked, if somebody said so: nothing is sent to a provider here.
async fn models() -> Finding {
    let found = gateway::look_around(&Outbound::default()).await;
    let places: Vec<String> = found.iter().map(gateway::Found::place).collect();
    match places.is_empty() {
        true => Finding::good("models", "no key in the environment, and no Ollama or llama.cpp on loopback"),
        false => Finding::good("models", format!("found {}; Settings offers them", places.join(", "))),
    }
}

/// Starts real sandboxes, as files and as tasks need them, and lets them go again: nothing else tells as much.
async fn sandbox(data: &Path) -> Finding {
    match try_sandbox(data).await {
        Ok(()) => Finding::good("sandbox", "guests started behind namespaces, and over a layer as tasks do"),
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            let mend = error.downcast_ref::<StartError>().and_then(StartError::mend);
            Finding::bad(
                "sandbox",
                format!("{}; documents and settings work, commands do not", causes.join(": ")),
                mend.unwrap_or("See the kernel and landlock above, and the kernel's own log: `sudo dmesg | tail`."),
            )
        }
    }
}

/// What is not installed is nobody's fault.
fn toolchains() -> Finding {
    let names = Toolchains::find(&Homes::of_environment()).names();
    match names.is_empty() {
        true => Finding::good("toolchains", "none in your home; sandboxes see those of the system"),
        false => Finding::good("toolchains", format!("sandboxes see {}, beside those of the system", names.join(", "))),
    }
}

async fn try_sandbox(data: &Path) -> anyhow::Result<()> {
    let (scratch, program, runtime) = (Scratch::make(data)?, std::env::current_exe()?, Runtime::process()?);
    runtime.start(Spec::new(GuestRole::Keeper, &program, &scratch.0)).await?.shutdown().await;
    let mut task = Spec::new(GuestRole::Associate, &program, &scratch.0);
    task.workspace = Workspace::Overlay(Overlay::over_nothing(&scratch.0)?);
    runtime.start(task).await?.shutdown().await;
    Ok(())
}

/// An empty directory that goes away with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn make(data: &Path) -> std::io::Result<Self> {
        // Beside where the data will be, when it is not there yet.
        let place = data.ancestors().find(|above| above.exists()).unwrap_or(data);
        let path = place.join(format!("doctor-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = Overlay::clear_nothing(&self.0) {
            tracing::warn!(%error, "a scratch directory was left behind");
        }
    }
}

async fn running(data: &Data) -> Finding {
    let Ok(url) = instance::address(data).await else {
        return Finding::good("instance", "none runs; `choir up` starts one");
    };
    match degraded(data).await {
        Ok(parts) if parts.is_empty() => Finding::good("instance", format!("runs at {url}")),
        Ok(parts) => Finding::bad("instance", format!("runs at {url}, but: {}", parts.join("; ")), "See above."),
        Err(error) => {
            Finding::bad("instance", format!("runs at {url}, but does not say how it is: {error}"), "Look at its log.")
        }
    }
}

/// What the instance that runs says of its parts that are not well.
async fn degraded(data: &Data) -> anyhow::Result<Vec<String>> {
    let Instance::Running(client) = instance::find(data).await? else { return Ok(Vec::new()) };
    let health: Health = client.get("/health").await?;
    let degraded = health.components.into_iter().filter(|(_, part)| part.status == "degraded");
    Ok(degraded.map(|(name, part)| format!("{name}: {}", part.detail.unwrap_or(part.status))).collect())
}
