//! `choir up`.

use crate::cli::{RuntimeName, Up};
use crate::output;
use choir_control::clock::Clock;
use choir_control::config::{self, RuntimeMode};
use choir_control::data::DataDir;
use choir_control::{computer, up};
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) async fn up(arguments: Up) -> anyhow::Result<ExitCode> {
    let options = options(&arguments)?;
    // Listened for from the beginning, so that a stop during the start is an orderly one too.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut control = up::start(options).await?;
    tokio::select! {
        settled = control.settled() => match settled {
            Ok(()) => output::line(format_args!("ready {}", control.sign_in_url()))?,
            Err(error) => {
                control.stop().await;
                return Err(error.into());
            }
        },
        _ = interrupt.recv() => return stop(control).await,
        _ = terminate.recv() => return stop(control).await,
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop(control).await
}

fn options(arguments: &Up) -> anyhow::Result<up::Options> {
    let data = arguments.data.path()?;
    let file = arguments.config.clone().unwrap_or_else(|| DataDir::at(&data).config());
    let mut config = config::load(&file, arguments.config.is_some())?;
    if let Some(runtime) = arguments.runtime {
        config.runtime.mode = match runtime {
            RuntimeName::Process => RuntimeMode::Process,
            RuntimeName::Container | RuntimeName::Microvm => {
                anyhow::bail!("only `--runtime process` exists so far")
            }
        };
    }
    Ok(up::Options {
        data,
        listen: arguments.listen.clone(),
        config,
        config_directory: file.parent().unwrap_or(Path::new(".")).to_owned(),
        guest_program: std::env::current_exe()?,
        launcher: Box::new(computer::program),
        computer_api: choir_computer::openapi(),
        clock: Clock::system(),
    })
}

async fn stop(control: up::Control) -> anyhow::Result<ExitCode> {
    tracing::info!("stopping");
    control.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
