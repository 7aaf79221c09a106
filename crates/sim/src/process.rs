//! What the kernel knows of a tree of processes.

use anyhow::Context;
use rustix::process::{Pid, Signal};
use std::fs;
use std::time::Duration;

/// A process and everything below it, parents first.
pub(crate) fn tree(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
    }
    found
}

fn children(parent: Pid) -> Vec<Pid> {
    // A process that is gone meanwhile has no children to speak of.
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The words that a process was started with.
pub(crate) fn arguments(pid: Pid) -> Vec<String> {
    // A process that is gone has said all it had to say.
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Ends processes at once, without a chance to clean up.
pub(crate) fn kill(pids: &[Pid]) {
    for pid in pids {
        // One that is gone already is as good.
        rustix::process::kill_process(*pid, Signal::KILL).ok();
    }
}

/// Memory that would come back if the processes ended, in bytes. One that ended since it was listed holds none.
pub(crate) fn memory(pids: &[Pid]) -> anyhow::Result<u64> {
    pids.iter().map(|pid| proportional(*pid)).sum()
}

fn proportional(pid: Pid) -> anyhow::Result<u64> {
    let path = format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero());
    let text = match fs::read_to_string(&path) {
        Err(error) if is_gone(&error) => return Ok(0),
        read => read.with_context(|| path.clone())?,
    };
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).with_context(|| path.clone())?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context(path)?;
    Ok(kibibytes * 1024)
}

/// Whether the kernel answers so for a process that has ended; one that nobody has waited for yet still has its directory.
fn is_gone(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// Time that the processes have spent computing.
pub(crate) fn computed(pids: &[Pid]) -> anyhow::Result<Duration> {
    let ticks: u64 = pids.iter().map(|pid| ticks(*pid)).sum::<anyhow::Result<u64>>()?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn ticks(pid: Pid) -> anyhow::Result<u64> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name stands in parentheses and may hold anything; user and system time are the 12th and 13th field after it.
    let fields: Vec<&str> =
        text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    field(11).zip(field(12)).map(|(user, system)| user + system).context(path)
}

/// Whether a process ends by itself within some time.
pub(crate) fn ends_within(pid: Pid, limit: Duration) -> anyhow::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    Ok(poll(&mut polled, Some(&limit))? == 1)
}

/// As [`ends_within`], for a process that may be gone already.
pub(crate) fn ends_within_or_gone(pid: Pid, limit: Duration) -> anyhow::Result<bool> {
    match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => Ok(true),
        _ => ends_within(pid, limit).or(Ok(true)),
    }
}

/// Lets time pass in which nothing is asked of anybody.
#[allow(clippy::disallowed_methods, reason = "what happens while nothing happens is what is measured")]
pub(crate) fn rest(time: Duration) {
    std::thread::sleep(time);
}
