//! How threads behave that work beside the writer.

/// Behind everybody else, but not by much: a process has ended, and given up its lock, only when each of its threads had a turn.
const NICENESS: i32 = 5;

/// Lets the calling thread stand back behind everybody who waits for an answer. It has milliseconds of work at a time, which is
/// as long as the kernel lets a thread go on while one that was just woken stands behind it: without this every commit that
/// comes while the write-ahead log is folded in, or the index written, would be late by that much.
pub(crate) fn stand_back() {
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread beside the writer has the priority of everybody else");
    }
}
