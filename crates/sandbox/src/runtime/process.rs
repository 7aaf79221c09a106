//! The first process of a sandbox, as the host holds it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A child of this program that is no child of the standard library. Dropped before its end, it is ended.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    handle: Option<AsyncFd<OwnedFd>>,
}

impl Process {
    /// Takes over a child that nobody else waits for.
    #[allow(unsafe_code)]
    pub(super) fn adopt(pid: Pid) -> io::Result<Self> {
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        // SAFETY: an owned descriptor stays the same one for as long as it lives.
        let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE)? };
        Ok(Self { pid, handle: Some(handle) })
    }

    /// Its number on this machine.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Ends it, and with it everything in its sandbox.
    pub(super) fn kill(&self) {
        if let Some(handle) = &self.handle {
            // Already gone is what is wanted.
            pidfd_send_signal(handle.get_ref(), Signal::KILL).ok();
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) -> io::Result<()> {
        let handle = self.handle.as_ref().ok_or_else(|| io::Error::other("its end was seen already"))?;
        // Readable when it has ended.
        handle.readable().await?.retain_ready();
        Ok(())
    }

    /// Waits for its end and collects it.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.ended().await?;
        self.handle = None;
        collect(self.pid)
    }
}

fn collect(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let Some(handle) = self.handle.take() else { return };
        let pid = self.pid;
        // Collected by whoever can wait; without an event loop the end of this program does it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Ok(mut ready) = handle.readable().await {
                    ready.retain_ready();
                    collect(pid).ok();
                }
            });
        }
    }
}
