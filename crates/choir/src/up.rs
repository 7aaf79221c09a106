//! `choir up`.

use crate::cli::{RuntimeName, Up};
use crate::{doctor, output};
use choir_control::clock::Clock;
use choir_control::config::{self, RuntimeMode};
use choir_control::data::DataDir;
use choir_control::http::Limits;
use choir_control::{computer, up};
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// As a shell says it of a program that was interrupted.
const STOPPED_AT_ONCE: i32 = 130;

pub(crate) async fn up(arguments: Up) -> anyhow::Result<ExitCode> {
    let options = options(&arguments)?;
    // Listened for from the beginning, so that a stop during the start is an orderly one too.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, Terminate::listen()?);
    let mut control = up::start(options).await?;
    tokio::select! {
        settled = control.settled() => match settled {
            Ok(()) => output::line(format_args!("ready {}", control.sign_in_url()))?,
            Err(error) => {
                control.stop().await;
                return match error {
                    // The computer has said why and how to mend it: one report is enough.
                    up::Error::Refused => Ok(ExitCode::from(computer::REFUSED)),
                    other => Err(other.into()),
                };
            }
        },
        () = either(&mut interrupt, &mut terminate) => return stop(control, &mut interrupt).await,
    }
    either(&mut interrupt, &mut terminate).await;
    stop(control, &mut interrupt).await
}

async fn either(interrupt: &mut Signal, terminate: &mut Terminate) {
    tokio::select! {
        _ = interrupt.recv() => {}
        () = terminate.said() => {}
    }
}

/// What asks for a stop in order: SIGTERM, and SIGHUP of a terminal that was closed.
struct Terminate {
    terminate: Signal,
    /// Absent under `nohup`, which wants it to be passed over.
    hangup: Option<Signal>,
}

impl Terminate {
    fn listen() -> std::io::Result<Self> {
        let hangup = if is_ignored(SignalKind::hangup()) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { terminate: signal(SignalKind::terminate())?, hangup })
    }

    async fn said(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether whoever started this process had it ignore a signal.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.unwrap_or_default() >> (kind.as_raw_value() - 1) & 1 == 1
}

fn options(arguments: &Up) -> anyhow::Result<up::Options> {
    let data = arguments.data.path()?;
    let file = arguments.config.clone().unwrap_or_else(|| DataDir::at(&data).config());
    let mut config = config::load(&file, arguments.config.is_some())?;
    if let Some(runtime) = arguments.runtime {
        config.runtime.mode = match runtime {
            RuntimeName::Process => RuntimeMode::Process,
            RuntimeName::Container | RuntimeName::Microvm => {
                anyhow::bail!("only `--runtime process` exists so far; leave `--runtime` out")
            }
        };
    }
    let config_directory = file.parent().unwrap_or(Path::new(".")).to_owned();
    // Before anything is made. A database that cannot be read is told by the start itself.
    if let Ok(stored) = doctor::stored(&data) {
        up::examine(&config, &config_directory, &stored)?;
    }
    Ok(up::Options {
        data,
        listen: arguments.listen.clone(),
        config,
        config_directory,
        guest_program: std::env::current_exe()?,
        launcher: Box::new(computer::program),
        computer_api: choir_computer::openapi,
        clock: Clock::system(),
        limits: Limits::default(),
    })
}

/// Ends in order. A person who interrupts that does not want to wait: then everything ends at once, and nothing acknowledged is
/// lost. SIGTERM always means in order, however often it comes: whoever sends it, a service manager or a script, may send it to
/// the whole group and to us.
async fn stop(control: up::Control, interrupt: &mut Signal) -> anyhow::Result<ExitCode> {
    tracing::info!("stopping; interrupt (Ctrl+C) to stop at once");
    tokio::select! {
        () = control.stop() => tracing::info!("stopped"),
        _ = interrupt.recv() => {
            tracing::warn!("stopped without waiting");
            std::process::exit(STOPPED_AT_ONCE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
