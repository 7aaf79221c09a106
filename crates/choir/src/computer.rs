//! `choir computer`: the process of one computer. Its standard input and output are its sockets to control.

use crate::cli::Computer;
use crate::report;
use anyhow::{Context, bail};
use choir_computer::ServeError;
use choir_control::computer::{self as control, REFUSED};
use choir_proto::ComputerId;
use choir_sandbox::runtime::Identity;
use choir_store::OpenError;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use tokio::net::UnixStream;

/// Confines the process to its own directory, without the parts that are the keeper's. What cannot be had is said, here
/// and in `/health`.
pub(crate) fn confine(arguments: &mut Computer) -> anyhow::Result<()> {
    let directory = &arguments.dir;
    let identity = arguments.user.map_or(Identity::Inherit, |uid| Identity::User { uid, gid: uid });
    arguments.dir = choir_sandbox::confine::confine(directory, &control::KEPT_APART, identity)
        .with_context(|| format!("the directory {} cannot be used", directory.display()))?;
    for missing in choir_sandbox::confine::own() {
        tracing::warn!(%missing, "the computer lacks a wall");
    }
    Ok(())
}

/// Serves until control says stop or is gone.
pub(crate) async fn computer(arguments: Computer) -> anyhow::Result<ExitCode> {
    die_with_control()?;
    let name = arguments.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id: ComputerId = name.parse().context("a computer's directory is named after it")?;
    let (api, control) = take_sockets()?;
    let lacks = choir_sandbox::confine::own().iter().map(ToString::to_string).collect();
    match choir_computer::serve(&arguments.dir, id, arguments.signed, (api, control), lacks).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let hopeless = is_hopeless(&error);
            let what = if hopeless { "does not start" } else { "ended" };
            let error =
                anyhow::Error::new(error).context(format!("the computer in {} {what}", arguments.dir.display()));
            report::print(&error, false);
            Ok(if hopeless { ExitCode::from(REFUSED) } else { ExitCode::FAILURE })
        }
    }
}

/// Whether another try would end in the same way. A lock is let go of, and a disk may be mended meanwhile.
fn is_hopeless(error: &ServeError) -> bool {
    matches!(error, ServeError::Open(open) if !matches!(open, OpenError::InUse(_) | OpenError::File { .. }))
}

/// A computer without control has nobody to answer to and must let go of its log at once.
fn die_with_control() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above.
    if getppid().is_none_or(|parent| parent.is_init()) {
        bail!("control is gone");
    }
    Ok(())
}

/// Takes the sockets and leaves nothing behind under their old numbers that a stray print could write to.
fn take_sockets() -> anyhow::Result<(UnixStream, UnixStream)> {
    let api = std::io::stdin().as_fd().try_clone_to_owned()?;
    let control = std::io::stdout().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok((socket(api).context("standard input is not a socket of control")?, socket(control)?))
}

fn socket(descriptor: OwnedFd) -> anyhow::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    Ok(UnixStream::from_std(stream)?)
}
