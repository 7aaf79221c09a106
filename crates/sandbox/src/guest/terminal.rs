//! Terminals: a program with a screen, which goes on when nobody looks.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::credit::Credit;
use super::exec::{Context, ending, lost, prepare, start_fault};
use super::files::fault;
use super::inflow::InflowReader;
use super::process::{Processes, Started};
use super::screen::Screen;
use super::session::{Outgoing, Stopped};
use crate::protocol::{
    Answer, Channel, EffectId, Ending, Exit, Fault, FaultCode, OpenTerminal, Progress, TerminalSize,
};

/// Most bytes read from a terminal at once. With what stands before them in a frame they are one read of the host.
const CHUNK_BYTES: usize = 64 * 1024 - 16;
/// Output at once from which a program floods: half of what a terminal holds for its reader.
const FLOOD_BYTES: usize = 2 * 1024;
/// How long more of a flood is waited for, so that it travels in few large parts. Far less than anybody can see, and
/// longer than the kernel takes to bring the next page.
const FLOOD_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };
/// Orders that may wait for a terminal.
const ORDERS_MAX: usize = 64;
/// How long the programs of a closed terminal may take to save their work.
const HANG_UP_GRACE: Duration = Duration::from_millis(500);
/// How long the last output of an ended program waits for its viewer.
const DRAIN_WAIT: Duration = Duration::from_secs(2);
/// What terminals of today understand.
const TERM: &str = "xterm-256color";

/// What a terminal can be told.
#[derive(Debug)]
pub(super) enum Order {
    Resize(TerminalSize),
    Attach,
    Detach,
}

/// The end by which a terminal is told.
#[derive(Debug)]
pub(super) struct TerminalControl(mpsc::Sender<Order>);

pub(super) fn control() -> (TerminalControl, mpsc::Receiver<Order>) {
    let (sender, orders) = mpsc::channel(ORDERS_MAX);
    (TerminalControl(sender), orders)
}

impl TerminalControl {
    pub(super) fn tell(&self, order: Order) -> Result<(), Fault> {
        let full = |_| Fault::new(FaultCode::Limit, "the terminal has too many orders waiting");
        self.0.try_send(order).map_err(full)
    }
}

/// Runs a terminal to the end of its program.
pub(super) async fn terminal(
    context: Context,
    what: OpenTerminal,
    (orders, credit): (mpsc::Receiver<Order>, Credit),
) -> Result<Answer, Fault> {
    let Context { id, out, processes, input, stopped } = context;
    let began = Instant::now();
    let screen = Screen::new(what.size);
    let (master, started) = start(&what, screen.size(), &processes)?;
    let Started { child: _, pid, exit } = started;
    out.progress(id, Progress::Started { pid: pid.as_raw_pid() }).await;
    let master = Arc::new(master);
    let feeding = tokio::spawn(feed(master.clone(), input));
    let buffer = vec![0; CHUNK_BYTES].into();
    let mut running = Running { id, out, master, screen, credit, viewed: true, buffer };
    let ending = running.run(orders, exit, Closing { pid, effect: what.effect, processes, stopped }).await;
    feeding.abort();
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    ending.map(|ending| Answer::Exited(Exit { ending, duration_ms }))
}

fn start(what: &OpenTerminal, size: TerminalSize, processes: &Processes) -> Result<(AsyncFd<OwnedFd>, Started), Fault> {
    let mut command = prepare(&what.command, &what.directory, &what.environment, &what.effect)?;
    if !what.environment.contains_key("TERM") {
        command.env("TERM", TERM);
    }
    let (master, slave) = open_pair(size).map_err(|errno| fault("open a terminal", Some(errno.raw_os_error())))?;
    attach_to(&mut command, &slave).map_err(|error| start_fault(&error))?;
    let started = processes.start(&mut command).map_err(|error| start_fault(&error))?;
    let master = watched(master).map_err(|error| fault("open a terminal", error.raw_os_error()))?;
    Ok((master, started))
}

#[allow(unsafe_code)]
fn watched(master: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor for as long as it lives, and is never exchanged for another.
    Ok(unsafe { AsyncFd::register(master) }?)
}

fn open_pair(size: TerminalSize) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::termios::tcsetwinsize(&master, winsize(size))?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((master, slave))
}

fn winsize(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Makes the terminal the command's streams and the command the leader of the terminal's session.
#[allow(unsafe_code)]
fn attach_to(command: &mut Command, slave: &OwnedFd) -> io::Result<()> {
    command.stdin(Stdio::from(slave.try_clone()?));
    command.stdout(Stdio::from(slave.try_clone()?));
    command.stderr(Stdio::from(slave.try_clone()?));
    let lead = || {
        rustix::process::setsid()?;
        // SAFETY: the standard library has made the terminal the standard input before it calls this.
        rustix::process::ioctl_tiocsctty(unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) })?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(lead) };
    Ok(())
}

/// How a terminal's program is ended.
struct Closing {
    pid: Pid,
    effect: EffectId,
    processes: Processes,
    stopped: Stopped,
}

struct Running {
    id: u64,
    out: Outgoing,
    master: Arc<AsyncFd<OwnedFd>>,
    screen: Screen,
    /// Bytes that the host is ready for; bounds what is under way to a viewer.
    credit: Credit,
    viewed: bool,
    /// Where output is read to; what is sent is as long as what came.
    buffer: Box<[u8]>,
}

enum Read {
    Bytes(Bytes),
    /// Every process has closed the terminal; the program itself may still run.
    Closed,
}

impl Running {
    async fn run(
        &mut self,
        mut orders: mpsc::Receiver<Order>,
        mut exit: oneshot::Receiver<WaitStatus>,
        closing: Closing,
    ) -> Result<Ending, Fault> {
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                status = &mut exit => {
                    self.drain().await;
                    return status.map(ending).map_err(|_| lost());
                }
                () = closing.stopped.wait() => return close(closing, exit).await,
                Some(order) = orders.recv() => self.obey(order).await,
                read = read(&self.master, self.viewed.then_some(&self.credit), &mut self.buffer), if open => match read {
                    Read::Bytes(bytes) => self.show(bytes).await,
                    Read::Closed => open = false,
                },
            }
        }
    }

    async fn show(&mut self, bytes: Bytes) {
        let is_flood = bytes.len() >= FLOOD_BYTES;
        self.screen.show(&bytes);
        if self.viewed {
            self.out.data(self.id, Channel::Output, bytes).await;
        }
        if is_flood {
            // One thread reads and sends and hears what is typed: a flood leaves room for the others after every part.
            tokio::task::yield_now().await;
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Detach => self.viewed = false,
            Order::Attach => {
                self.viewed = true;
                let painted = Bytes::from(self.screen.paint());
                self.out.progress(self.id, Progress::Screen { bytes: painted.len() as u64 }).await;
                self.out.data(self.id, Channel::Content, painted).await;
            }
            Order::Resize(size) => {
                self.screen.resize(size);
                // Both together, so that the picture never disagrees with what the program was told. Only a terminal
                // that is closing refuses.
                rustix::termios::tcsetwinsize(self.master.get_ref(), winsize(self.screen.size())).ok();
            }
        }
    }

    /// Sends what the ended program left, waiting for a viewer that is behind, but not for ever.
    async fn drain(&mut self) {
        while is_readable(self.master.get_ref(), Timespec::default()) {
            let credit = self.viewed.then_some(&self.credit);
            match tokio::time::timeout(DRAIN_WAIT, read(&self.master, credit, &mut self.buffer)).await {
                Ok(Read::Bytes(bytes)) => self.show(bytes).await,
                Ok(Read::Closed) | Err(_) => return,
            }
        }
    }
}

fn is_readable(master: &OwnedFd, within: Timespec) -> bool {
    let mut polled = [PollFd::new(master, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&within)).is_ok() && polled[0].revents().contains(PollFlags::IN)
}

/// Tells the terminal's programs that it is gone, lets them save their work, then ends what is left.
async fn close(closing: Closing, mut exit: oneshot::Receiver<WaitStatus>) -> Result<Ending, Fault> {
    // Already gone is what is wanted.
    rustix::process::kill_process_group(closing.pid, Signal::HUP).ok();
    let ended = tokio::time::timeout(HANG_UP_GRACE, &mut exit).await;
    closing.processes.end_tree(closing.pid, &closing.effect).await;
    if ended.is_err() {
        exit.await.map_err(|_| lost())?;
    }
    Ok(Ending::Killed)
}

/// The terminal's next output, not more than `credit` allows. Nothing is lost when the wait is given up.
async fn read(master: &AsyncFd<OwnedFd>, credit: Option<&Credit>, buffer: &mut [u8]) -> Read {
    let leave = match credit {
        Some(credit) => match credit.leave().await {
            Some(leave) => Some(leave),
            None => return Read::Closed,
        },
        None => None,
    };
    loop {
        let Ok(mut ready) = master.readable().await else { return Read::Closed };
        let most = leave.as_ref().map_or(buffer.len(), |leave| leave.bytes().min(buffer.len()));
        let Filled { bytes, is_empty } = match ready.try_io(|master| Ok(fill(master.get_ref(), &mut buffer[..most])?)) {
            Err(_would_block) => continue,
            Ok(Ok(Filled { bytes: 0, .. }) | Err(_)) => return Read::Closed,
            Ok(Ok(filled)) => filled,
        };
        if is_empty {
            ready.clear_ready();
        }
        if let Some(leave) = leave {
            leave.spend(bytes);
        }
        return Read::Bytes(Bytes::copy_from_slice(&buffer[..bytes]));
    }
}

/// What reading gave.
struct Filled {
    bytes: usize,
    /// The terminal had no more at that moment.
    is_empty: bool,
}

/// Reads as often as there is something: one read of a terminal never gives more than a page. In a flood the next page
/// is a moment away, and going back to wait for it with everything else would cost more than reading it.
fn fill(master: &OwnedFd, buffer: &mut [u8]) -> Result<Filled, Errno> {
    let mut bytes = 0;
    while bytes < buffer.len() {
        // What was just read was all there was; asking for more before it is there would be a call in vain for every page.
        if bytes >= FLOOD_BYTES && !is_readable(master, FLOOD_WAIT) {
            return Ok(Filled { bytes, is_empty: true });
        }
        match rustix::io::read(master, &mut buffer[bytes..]) {
            Ok(0) => break,
            Ok(read) => bytes += read,
            Err(Errno::INTR) => {}
            Err(errno) if bytes > 0 => return Ok(Filled { bytes, is_empty: errno == Errno::AGAIN }),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Filled { bytes, is_empty: false })
}

/// Carries what the viewer types into the terminal.
async fn feed(master: Arc<AsyncFd<OwnedFd>>, mut input: InflowReader) {
    while let Some(bytes) = input.next().await {
        if write_all(&master, &bytes).await.is_err() {
            return;
        }
        input.taken(bytes.len()).await;
    }
}

async fn write_all(master: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = master.writable().await?;
        if let Ok(written) = ready.try_io(|master| Ok(rustix::io::write(master.get_ref(), bytes)?)) {
            bytes = &bytes[written?..];
        }
    }
    Ok(())
}
