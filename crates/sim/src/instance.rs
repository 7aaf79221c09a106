//! The real binary, running on a directory.

use crate::client::Address;
use crate::process;
use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A start that takes longer has failed.
const START_MAX: Duration = Duration::from_secs(60);

/// A process that was killed is gone by then.
const END_MAX: Duration = Duration::from_secs(10);

/// The binary that was built for this: `CHOIR_BIN`, else the one beside this program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let program = match std::env::var_os("CHOIR_BIN") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe()?.with_file_name("choir"),
    };
    ensure!(
        program.is_file(),
        "there is no choir at {}; build it with `cargo build --release -p choir`",
        program.display()
    );
    Ok(program)
}

/// A call on a data directory, with none of the caller's own settings.
pub(crate) fn choir(data: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(program()?);
    for variable in ["CHOIR_LISTEN", "CHOIR_CONFIG", "CHOIR_URL", "CHOIR_TOKEN", "CHOIR_LOG", "CHOIR_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command.env("CHOIR_DATA", data).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// A token for the API; it lives as long as the data.
pub(crate) fn token(data: &Path) -> anyhow::Result<String> {
    let made = choir(data)?.args(["token", "create", "--name", "sim", "--scope", "admin"]).output()?;
    ensure!(made.status.success(), "no token could be made");
    Ok(String::from_utf8(made.stdout)?.trim().to_owned())
}

/// Whether `choir verify` finds everything sound, with what it said.
pub(crate) fn verify(data: &Path) -> anyhow::Result<Result<(), String>> {
    let verified = choir(data)?.arg("verify").stderr(Stdio::piped()).output()?;
    if verified.status.success() {
        return Ok(Ok(()));
    }
    let said = [verified.stdout, verified.stderr].concat();
    Ok(Err(String::from_utf8_lossy(&said).into_owned()))
}

/// Killed with its owner.
pub(crate) struct Instance {
    child: Child,
    address: Address,
    ready_after: Duration,
}

impl Instance {
    /// Starts and waits until it says that it is ready.
    pub(crate) fn start(data: &Path, token: &str) -> anyhow::Result<Self> {
        let started = Instant::now();
        let mut command = choir(data)?;
        command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("standard output was asked for")?;
        let line = match first_line(stdout) {
            Ok(line) => line,
            Err(error) => {
                process::kill(&process::tree(Pid::from_child(&child)));
                child.wait()?;
                return Err(error);
            }
        };
        let ready_after = started.elapsed();
        let Some(url) = line.strip_prefix("ready http://") else { bail!("choir said {line:?} instead of ready") };
        let host = url.split('/').next().unwrap_or_default().to_owned();
        Ok(Self { child, address: Address { host, token: token.to_owned() }, ready_after })
    }

    /// From the start of the process to its being ready.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The process that was started; control.
    pub(crate) fn root(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Everything that runs because of it.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        process::tree(self.root())
    }

    /// Those below it that were started with a word.
    pub(crate) fn called(&self, word: &str) -> Vec<Pid> {
        let below = self.processes().into_iter().skip(1);
        below.filter(|pid| process::arguments(*pid).iter().any(|argument| argument == word)).collect()
    }

    /// Ends in order.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(self.root(), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "choir ended with {status} when it was asked to stop");
        Ok(())
    }

    /// Ends everything at this instant; what it held is free when this returns.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        let processes = self.processes();
        process::kill(&processes);
        self.child.wait()?;
        for pid in processes {
            ensure!(process::ends_within_or_gone(pid, END_MAX)?, "a killed process was there after {END_MAX:?}");
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            process::kill(&self.processes());
            // Nothing is left to be done about a child that cannot be waited for.
            self.child.wait().ok();
        }
    }
}

fn first_line(stdout: std::process::ChildStdout) -> anyhow::Result<String> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(&stdout, PollFlags::IN)];
    let limit = Timespec { tv_sec: START_MAX.as_secs() as i64, tv_nsec: 0 };
    ensure!(poll(&mut polled, Some(&limit))? == 1, "choir was not ready after {START_MAX:?}");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    ensure!(!line.is_empty(), "choir ended before it was ready");
    Ok(line.trim().to_owned())
}
