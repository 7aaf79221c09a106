//! Commands: started, their streams carried, ended with all that came from them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use bytes::BytesMut;
use rustix::process::WaitStatus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::WORK_DIRECTORY;
use super::files::fault;
use super::inflow::InflowReader;
use super::process::{EFFECT_VARIABLE, Processes, Started};
use super::session::{Outgoing, Stopped};
use crate::path::RelativePath;
use crate::protocol::{
    Answer, Channel, Command as What, EffectId, Ending, Exec, Exit, Fault, FaultCode, Input, Progress, TIMEOUT_MS_MAX,
};

/// Bytes read from a command at once; a few frames of this size wait for the host at most.
const CHUNK_BYTES: usize = 32 * 1024;
/// What a pipe can hold of an ended command's output, by the kernel's default limit for ordinary users.
const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// What a command is run with.
pub(super) struct Context {
    /// The request.
    pub(super) id: u64,
    /// Where answers go.
    pub(super) out: Outgoing,
    /// Where processes are started.
    pub(super) processes: Processes,
    /// What the host sends into the command.
    pub(super) input: InflowReader,
    /// Fires when the host wants it ended.
    pub(super) stopped: Stopped,
}

/// Runs a command to its end.
pub(super) async fn exec(context: Context, exec: Exec) -> Result<Answer, Fault> {
    let Context { id, out, processes, input, stopped } = context;
    let began = Instant::now();
    let mut command = command(&exec)?;
    let mut started = processes.start(&mut command).map_err(|error| start_fault(&error))?;
    out.progress(id, Progress::Started { pid: started.pid.as_raw_pid() }).await;
    let feeding = started.child.stdin.take().map(|stdin| tokio::spawn(feed(stdin, input)));
    let (ended, on_end) = watch::channel(());
    let pumps = [
        pump(started.child.stdout.take().map(OwnedFd::from), (id, Channel::Output), out.clone(), on_end.clone()),
        pump(started.child.stderr.take().map(OwnedFd::from), (id, Channel::Error), out.clone(), on_end),
    ];
    let ending = wait(&processes, started, &exec, stopped).await?;
    drop(ended);
    for pump in pumps {
        // A pump ends by itself; were it to panic, the output is cut and the ending still true.
        pump.await.ok();
    }
    if let Some(feeding) = feeding {
        feeding.abort();
    }
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Answer::Exited(Exit { ending, duration_ms }))
}

fn command(exec: &Exec) -> Result<Command, Fault> {
    let mut command = prepare(&exec.command, &exec.directory, &exec.environment, &exec.effect)?;
    command.stdin(match exec.input {
        Input::Empty => Stdio::null(),
        Input::Stream => Stdio::piped(),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(command)
}

/// A command that knows all but its streams.
pub(super) fn prepare(
    what: &What,
    directory: &RelativePath,
    environment: &BTreeMap<String, String>,
    effect: &EffectId,
) -> Result<Command, Fault> {
    let mut command = match what {
        What::Shell(text) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(text);
            shell
        }
        What::Arguments(arguments) => {
            let (program, rest) = arguments.split_first().ok_or_else(|| bad_request("there is no program to run"))?;
            let mut plain = Command::new(program);
            plain.args(rest);
            plain
        }
    };
    for (name, value) in environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(bad_request("a variable's name or value is malformed"));
        }
        command.env(name, value);
    }
    command.env(EFFECT_VARIABLE, effect.as_str());
    command.current_dir(Path::new(WORK_DIRECTORY).join(directory.as_path()));
    Ok(command)
}

/// Waits for the command's own end, its time, or the host's wish, whichever is first.
async fn wait(processes: &Processes, started: Started, exec: &Exec, stopped: Stopped) -> Result<Ending, Fault> {
    let Started { pid, mut exit, child: _ } = started;
    let timeout = Duration::from_millis(exec.timeout_ms.min(TIMEOUT_MS_MAX));
    let forced = tokio::select! {
        biased;
        status = &mut exit => return status.map(ending).map_err(|_| lost()),
        () = stopped.wait() => Ending::Killed,
        () = tokio::time::sleep(timeout) => Ending::TimedOut,
    };
    processes.end_tree(pid, &exec.effect).await;
    exit.await.map(|_| forced).map_err(|_| lost())
}

/// How a process ended, in the protocol's words.
pub(super) fn ending(status: WaitStatus) -> Ending {
    match status.terminating_signal() {
        Some(signal) => Ending::Signal(signal),
        None => Ending::Code(status.exit_status().unwrap_or_default()),
    }
}

/// Carries one output stream until it ends, or until the command did and what it left was read.
fn pump(
    stream: Option<OwnedFd>,
    (id, channel): (u64, Channel),
    out: Outgoing,
    mut on_end: watch::Receiver<()>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Some(mut stream) = stream.and_then(|stream| pipe::Receiver::from_owned_fd(stream).ok()) else { return };
        loop {
            let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
            let read = tokio::select! {
                biased;
                _ = on_end.changed() => break,
                read = stream.read_buf(&mut buffer) => read,
            };
            match read {
                Ok(0) | Err(_) => return,
                Ok(_) => out.data(id, channel, buffer.freeze()).await,
            }
        }
        drain(stream, id, channel, out).await;
    })
}

/// Sends what the ended command left in the pipe. Processes that it left behind may hold the pipe open; what they
/// write later is read and dropped, so that they are not stopped by a full pipe.
async fn drain(mut stream: pipe::Receiver, id: u64, channel: Channel, out: Outgoing) {
    let mut left = PIPE_BYTES_MAX;
    while left > 0 {
        let mut buffer = vec![0; CHUNK_BYTES];
        // Asks the kernel itself: the event loop may not have heard yet of bytes that are there.
        match rustix::io::read(&stream, &mut buffer) {
            Ok(read @ 1..) => {
                left = left.saturating_sub(read);
                buffer.truncate(read);
                out.data(id, channel, buffer.into()).await;
            }
            Err(rustix::io::Errno::AGAIN) => break,
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
    tokio::spawn(async move {
        let mut unread = [0; 4096];
        while matches!(stream.read(&mut unread).await, Ok(1..)) {}
    });
}

/// Carries the host's input into the command.
async fn feed(stdin: ChildStdin, mut input: InflowReader) {
    let Ok(mut stdin) = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)) else { return };
    let mut open = true;
    while let Some(bytes) = input.next().await {
        // A command that no longer reads is not a fault; the rest is taken and dropped.
        open = open && stdin.write_all(&bytes).await.is_ok();
        input.taken(bytes.len()).await;
    }
}

pub(super) fn start_fault(error: &std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => bad_request("the command holds a NUL byte"),
        _ => fault("start the command", error.raw_os_error()),
    }
}

pub(super) fn bad_request(message: &str) -> Fault {
    Fault::new(FaultCode::BadRequest, message)
}

pub(super) fn lost() -> Fault {
    Fault::new(FaultCode::System, "the command's end was not seen")
}
