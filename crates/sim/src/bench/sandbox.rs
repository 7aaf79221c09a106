//! The speed of sandboxes, each beside its bare peer in the same run.

use crate::instance::{self, Instance};
use crate::stats::{median, milliseconds};
use crate::table::{Table, Verdict};
use crate::{process, scratch};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{Command as What, EffectId, Ending, Exec, GuestRole, Input, OpenTerminal, TerminalSize};
use choir_sandbox::runtime::{Guest, Runtime, Spec, Terminal, TerminalEvent, TerminalOutput};
use rustix::fs::OFlags;
use rustix::pty::OpenptFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Starts of whole sandboxes that are measured, and commands in a warm one.
const STARTS: usize = 40;
const COMMANDS: usize = 200;
/// Files of the workspace that is snapshotted, in so many directories, and how often that is done.
const FILES: usize = 20_000;
const DIRECTORIES: usize = 200;
const FILE_BYTES: usize = 2_000;
const SNAPSHOTS: usize = 7;
const CHANGED: usize = 10;
/// Keys that are pressed, and bytes that a terminal shows.
const KEYS: usize = 300;
const BULK_BYTES: usize = 64 << 20;
const BULKS: usize = 5;
const FIRST_BYTES: usize = 40;
const INTERRUPTS: usize = 10;
/// Output after which a flood is interrupted.
const FLOOD_BYTES: usize = 4 << 20;
/// What `yes` repeats.
const LINE: &str = "0123456789abcdef";
const GIB: f64 = (1_u64 << 30) as f64;

/// A part of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Starting sandboxes, and commands in them.
    Commands,
    /// Snapshots of a workspace.
    Snapshots,
    /// Terminals.
    Terminals,
    /// Computers at rest.
    Idle,
}

/// Measures and prints; false when a gate was missed.
pub(super) fn measure(only: Option<Part>) -> anyhow::Result<bool> {
    let runtime = super::runtime()?;
    // As a task: whoever uses a sandbox in earnest is one, and waking the thread that waits for all of them costs more.
    let mut table = runtime.block_on(async { tokio::spawn(with_guests(Place::make()?, only)).await? })?;
    drop(runtime);
    if only.is_none_or(|only| only == Part::Idle) {
        idle(&mut table)?;
    }
    Ok(table.end())
}

async fn with_guests(place: Place, only: Option<Part>) -> anyhow::Result<Table> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut table = Table::begin("bench sandbox");
    if wanted(Part::Commands) {
        fresh(&mut table, &place).await?;
        warm(&mut table, &place).await?;
    }
    if wanted(Part::Snapshots) {
        snapshots(&mut table, &place).await?;
    }
    if wanted(Part::Terminals) {
        terminals(&mut table, &place).await?;
    }
    Ok(table)
}

/// Where everything lies, and who makes sandboxes.
struct Place {
    directory: tempfile::TempDir,
    guest: PathBuf,
    sandboxes: Runtime,
}

impl Place {
    fn make() -> anyhow::Result<Self> {
        let directory = scratch::directory()?;
        for name in ["work", "store"] {
            std::fs::create_dir(directory.path().join(name))?;
        }
        Ok(Self { directory, guest: instance::program()?, sandboxes: Runtime::process()? })
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    async fn associate(&self) -> anyhow::Result<Guest> {
        Ok(self.sandboxes.start(Spec::new(GuestRole::Associate, &self.guest, self.work())).await?)
    }
}

fn effect() -> anyhow::Result<EffectId> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    Ok(EffectId::parse(format!("bench-{}", SERIAL.fetch_add(1, Ordering::Relaxed)))?)
}

async fn run_true(guest: &Guest) -> anyhow::Result<()> {
    let exec = Exec {
        effect: effect()?,
        command: What::Arguments(vec!["/bin/true".to_owned()]),
        directory: RelativePath::root(),
        environment: BTreeMap::new(),
        timeout_ms: 10_000,
        input: Input::Empty,
    };
    let output = guest.exec(exec).await?.collect(0).await?;
    ensure!(output.finished.exit.ending == Ending::Code(0), "/bin/true ended with {:?}", output.finished.exit);
    Ok(())
}

async fn fresh(table: &mut Table, place: &Place) -> anyhow::Result<()> {
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let began = Instant::now();
        let guest = place.associate().await?;
        run_true(&guest).await?;
        own.push(milliseconds(began.elapsed()));
        guest.terminate().await;
        let began = Instant::now();
        ensure!(bubblewrap(&place.work()).status()?.success(), "bubblewrap could not be run");
        peer.push(milliseconds(began.elapsed()));
    }
    let (own, peer) = (median(&mut own), median(&mut peer));
    let measured = format!("{own:.1} ms, bwrap {peer:.1} ms: {:.2}x", own / peer);
    table.row(
        "`/bin/true` in a fresh associate",
        "≤ 2x bwrap with the same mounts",
        measured,
        Verdict::gate(own <= 2.0 * peer),
    );
    Ok(())
}

/// The same view of the machine, made by bubblewrap.
fn bubblewrap(work: &Path) -> Command {
    let mut command = Command::new("/usr/bin/bwrap");
    command.args(["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    command.args(["--hostname", "choir", "--uid", "1000", "--gid", "1000", "--clearenv", "--ro-bind", "/usr", "/usr"]);
    for link in ["/bin", "/sbin", "/lib", "/lib64"] {
        match std::fs::read_link(link) {
            Ok(target) => command.arg("--symlink").arg(target).arg(link),
            Err(_) => command.args(["--ro-bind-try", link, link]),
        };
    }
    for part in ["alternatives", "ca-certificates", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl"] {
        let part = format!("/etc/{part}");
        command.args(["--ro-bind-try", &part, &part]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp", "--tmpfs", "/home"]);
    command.args(["--dir", "/home/choir", "--bind"]).arg(work).args(["/work", "--remount-ro", "/", "--chdir", "/work"]);
    command.args(["--", "/bin/true"]).stdin(Stdio::null());
    command
}

async fn warm(table: &mut Table, place: &Place) -> anyhow::Result<()> {
    let guest = place.associate().await?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..COMMANDS {
        let began = Instant::now();
        run_true(&guest).await?;
        own.push(milliseconds(began.elapsed()));
        let began = Instant::now();
        ensure!(Command::new("/bin/true").stdin(Stdio::null()).status()?.success(), "/bin/true failed");
        peer.push(milliseconds(began.elapsed()));
    }
    guest.shutdown().await;
    let (own, peer) = (median(&mut own), median(&mut peer));
    let measured = format!("{own:.2} ms, bare {peer:.2} ms: + {:.2} ms", own - peer);
    table.row(
        "a command in a warm associate",
        "≤ bare fork+exec + 2 ms at p50",
        measured,
        Verdict::gate(own <= peer + 2.0),
    );
    Ok(())
}

async fn snapshots(table: &mut Table, place: &Place) -> anyhow::Result<()> {
    let work = place.work();
    for directory in 0..DIRECTORIES {
        std::fs::create_dir(work.join(format!("d{directory}")))?;
    }
    let name = |file: usize| work.join(format!("d{}/f{file}", file % DIRECTORIES));
    for file in 0..FILES {
        std::fs::write(name(file), vec![u8::try_from(file % 251)?; FILE_BYTES])?;
    }
    let mut spec = Spec::new(GuestRole::Keeper, &place.guest, &work);
    spec.store = Some(place.directory.path().join("store"));
    let keeper = place.sandboxes.start(spec).await?;
    keeper.take_snapshot().await?;
    let (mut walks, mut unchanged, mut changed, mut reads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..SNAPSHOTS {
        walks.push(timed(|| walk(&work))?);
        let began = Instant::now();
        keeper.take_snapshot().await?;
        unchanged.push(milliseconds(began.elapsed()));
        for file in 0..CHANGED {
            std::fs::write(name(file), vec![u8::try_from(round)?; FILE_BYTES + 1 + round])?;
        }
        let began = Instant::now();
        keeper.take_snapshot().await?;
        changed.push(milliseconds(began.elapsed()));
        reads.push(timed(|| (0..CHANGED).try_for_each(|file| std::fs::read(name(file)).map(drop)))?);
    }
    keeper.shutdown().await;
    let (walk, read) = (median(&mut walks), median(&mut reads));
    let (unchanged, changed) = (median(&mut unchanged), median(&mut changed));
    let measured = format!("{unchanged:.1} ms, walk {walk:.1} ms: {:.2}x", unchanged / walk);
    let verdict = Verdict::gate(unchanged <= 3.0 * walk);
    table.row("snapshot of an unchanged workspace of 20,000 files", "≤ 3x a bare stat walk", measured, verdict);
    let measured = format!("{changed:.1} ms, reading them {read:.2} ms: {:.2}x", changed / (walk + read));
    let verdict = Verdict::gate(changed <= 3.0 * walk + read);
    table.row("the same with 10 files changed", "≤ 3x a bare stat walk + reading those files", measured, verdict);
    Ok(())
}

fn timed<T, E>(act: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let began = Instant::now();
    act()?;
    Ok(milliseconds(began.elapsed()))
}

fn walk(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            walk(&entry.path())?;
        }
    }
    Ok(())
}

async fn terminals(table: &mut Table, place: &Place) -> anyhow::Result<()> {
    let guest = place.associate().await?;
    echo(table, &guest).await?;
    first_byte(table, &guest).await?;
    bulk(table, &guest).await?;
    interrupt(table, &guest).await?;
    guest.shutdown().await;
    Ok(())
}

async fn open(guest: &Guest, text: &str) -> anyhow::Result<(Terminal, TerminalOutput)> {
    let what = OpenTerminal {
        effect: effect()?,
        command: What::Shell(text.to_owned()),
        directory: RelativePath::root(),
        environment: BTreeMap::new(),
        size: TerminalSize { columns: 80, rows: 24 },
    };
    Ok(guest.open_terminal(what).await?)
}

/// What a terminal shows next; nothing once it has ended.
async fn shown(output: &mut TerminalOutput) -> anyhow::Result<Option<Bytes>> {
    match output.next().await? {
        TerminalEvent::Output(bytes) | TerminalEvent::Screen(bytes) => Ok(Some(bytes)),
        TerminalEvent::Exit(_) => Ok(None),
    }
}

/// A terminal without a sandbox, with a program on it that leads a session of its own, as in every terminal: the kernel shares
/// its processors between sessions first.
struct Bare {
    terminal: File,
    child: Child,
}

impl Bare {
    fn open(text: &str) -> anyhow::Result<Self> {
        let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        rustix::pty::grantpt(&terminal)?;
        rustix::pty::unlockpt(&terminal)?;
        let name = rustix::pty::ptsname(&terminal, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let other = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "/bin/sh", "-c", text])
            .stdin(Stdio::from(other.try_clone()?))
            .stdout(Stdio::from(other.try_clone()?));
        let child = command.stderr(Stdio::from(other)).spawn()?;
        Ok(Self { terminal: terminal.into(), child })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // Gone already is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Raw, so that every key is one byte each way.
const ECHO: &str = "stty raw -echo; printf r; exec cat";

async fn echo(table: &mut Table, guest: &Guest) -> anyhow::Result<()> {
    let (terminal, mut output) = open(guest, ECHO).await?;
    ensure!(shown(&mut output).await?.is_some(), "the terminal says nothing");
    let mut bare = Bare::open(ECHO)?;
    let mut byte = [0];
    bare.terminal.read_exact(&mut byte)?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..KEYS {
        let began = Instant::now();
        terminal.write(Bytes::from_static(b"k")).await?;
        ensure!(shown(&mut output).await?.is_some_and(|bytes| &bytes[..] == b"k"), "a key was lost");
        own.push(milliseconds(began.elapsed()));
        let began = Instant::now();
        bare.terminal.write_all(b"k")?;
        bare.terminal.read_exact(&mut byte)?;
        peer.push(milliseconds(began.elapsed()));
    }
    terminal.close().await?;
    let (own, peer) = (median(&mut own), median(&mut peer));
    let measured = format!("{own:.3} ms, bare {peer:.3} ms: {:.2}x", own / peer);
    table.row("terminal: echo at p50", "≤ 3x a bare PTY", measured, Verdict::gate(own <= 3.0 * peer));
    Ok(())
}

async fn first_byte(table: &mut Table, guest: &Guest) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..FIRST_BYTES {
        let began = Instant::now();
        let (_terminal, mut output) = open(guest, "printf x").await?;
        ensure!(shown(&mut output).await?.is_some(), "the terminal says nothing");
        times.push(milliseconds(began.elapsed()));
        while shown(&mut output).await?.is_some() {}
    }
    let time = median(&mut times);
    table.row("terminal: first byte", "≤ 5 ms", format!("{time:.2} ms"), Verdict::report(time <= 5.0));
    Ok(())
}

async fn bulk(table: &mut Table, guest: &Guest) -> anyhow::Result<()> {
    let text = format!("stty raw; yes {LINE} | head -c {BULK_BYTES}");
    let (mut own, mut peer, mut wrong) = (Vec::new(), Vec::new(), 0);
    for _ in 0..BULKS {
        let mut check = Check::default();
        let began = Instant::now();
        let (_terminal, mut output) = open(guest, &text).await?;
        while let Some(bytes) = shown(&mut output).await? {
            check.take(&bytes);
        }
        own.push(milliseconds(began.elapsed()));
        wrong += check.wrong + BULK_BYTES.abs_diff(check.at);
        let began = Instant::now();
        read_bare(&text)?;
        peer.push(milliseconds(began.elapsed()));
    }
    let rate = |time: f64| BULK_BYTES as f64 / time / 1e3;
    let (own, peer) = (rate(median(&mut own)), rate(median(&mut peer)));
    let measured = format!("{own:.0} MB/s, bare {peer:.0} MB/s: {:.0} %; {wrong} wrong bytes", own / peer * 100.0);
    let verdict = Verdict::gate(own >= 0.95 * peer && wrong == 0);
    table.row("terminal: bulk", "≥ 95 % of a bare reader, no byte lost or damaged", measured, verdict);
    Ok(())
}

fn read_bare(text: &str) -> anyhow::Result<()> {
    let mut bare = Bare::open(text)?;
    let (mut check, mut buffer) = (Check::default(), vec![0; 64 << 10]);
    while check.at < BULK_BYTES {
        match bare.terminal.read(&mut buffer) {
            Ok(read @ 1..) => check.take(&buffer[..read]),
            Ok(0) | Err(_) => bail!("the bare terminal ended after {} bytes", check.at),
        }
    }
    Ok(())
}

/// Compares what comes with what was sent.
#[derive(Default)]
struct Check {
    at: usize,
    wrong: usize,
}

impl Check {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let expected = LINE.as_bytes().get(self.at % (LINE.len() + 1)).unwrap_or(&b'\n');
            self.wrong += usize::from(byte != expected);
            self.at += 1;
        }
    }
}

async fn interrupt(table: &mut Table, guest: &Guest) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..INTERRUPTS {
        let (terminal, mut output) = open(guest, "exec yes").await?;
        let mut seen = 0;
        while seen < FLOOD_BYTES {
            seen += shown(&mut output).await?.context("the flood ended by itself")?.len();
        }
        let began = Instant::now();
        terminal.write(Bytes::from_static(b"\x03")).await?;
        while shown(&mut output).await?.is_some() {}
        times.push(milliseconds(began.elapsed()));
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let measured = format!("{:.1} ms at p50, {slowest:.1} ms at most", median(&mut times));
    table.row("Ctrl-C during a flood", "acts within 100 ms", measured, Verdict::report(slowest <= 100.0));
    Ok(())
}

/// How long a computer is given to come to rest.
const REST: Duration = Duration::from_secs(3);

fn idle(table: &mut Table) -> anyhow::Result<()> {
    let data = scratch::directory()?;
    let instance = Instance::start(data.path(), &instance::token(data.path())?)?;
    process::rest(REST);
    let is_director = |pid: &&rustix::process::Pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"computer")
    };
    let processes = instance.processes();
    let director = processes.iter().find(is_director).context("there is no director")?;
    let bytes = process::memory(&[*director])? as f64;
    let measured = format!("{:.0} ({:.1} MB each)", GIB / bytes, bytes / 1e6);
    table.row("idle computers (director only) per GiB, by PSS", "≥ 60", measured, Verdict::gate(GIB / bytes >= 60.0));
    instance.stop()
}
