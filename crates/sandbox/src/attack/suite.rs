//! The outside of the suite: real associates of real tasks, and a judge.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::canary::{Canaries, copy_program, make_open};
use super::probes::ENOUGH;
use super::way_out::{WayOut, careless};
use super::{Expect, Probe, Program, probes};
use crate::path::RelativePath;
use crate::protocol::{Command, EffectId, Ending, Exec, GuestRole, Input};
use crate::runtime::{
    Backend, CallError, ExecError, ExecEvent, ExecHandle, Guest, Identity, Limits, Overlay, Runtime, Spec, StartError,
    Workspace,
};
use crate::tree::TreeId;

/// How long a probe may take; one that takes longer was not stopped by anything.
pub(super) const PROBE_MS_MAX: u64 = 60_000;
/// How long a probe without end is let go on.
const ENDLESS_MS: u64 = 1_000;
/// How long a neighbour may take to answer while another sandbox floods.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(5);
/// How long what was left behind may take to be gone once its task is.
const GONE_WITHIN: Duration = Duration::from_secs(1);
/// How often the workspace is read while links are exchanged in it.
const RACE_READS: usize = 300;
/// Most of a probe's output that is looked at.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Where the probes' program is, inside.
const PROBE_PROGRAM: &str = "/work/probe";

/// What the suite is run with.
#[derive(Clone)]
pub struct Options {
    /// The guest's program.
    pub guest_program: PathBuf,
    /// A program that calls [`super::inside::run`] with what follows its first argument, which is `probe`.
    pub probe_program: PathBuf,
    /// A directory for everything, which other users can walk to.
    pub directory: PathBuf,
    /// Whom the sandboxes are to the host.
    pub identity: Identity,
    /// How they are held.
    pub backend: Backend,
    /// Their way out.
    pub way_out: WayOut,
}

/// Why the suite could not run at all.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// The outside could not be prepared.
    #[error("the outside could not be prepared")]
    Prepare(#[from] io::Error),
    /// No sandbox could be had.
    #[error("no sandbox could be had")]
    Start(#[from] StartError),
    /// The keeper did not do its part.
    #[error("the keeper did not do its part")]
    Keeper(#[from] CallError),
    /// A neighbour could not be asked.
    #[error("the neighbour could not be asked")]
    Neighbour(#[source] ExecError),
    /// What a task left could not be trusted, for a control.
    #[error("what a task left could not be trusted")]
    Trusting(#[source] ExecError),
}

/// What became of one probe.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which.
    pub probe: Probe,
    /// What became of it.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// A judgement, with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The property held.
    Held(String),
    /// It did not.
    Escaped(String),
    /// Nothing was shown either way.
    Skipped(String),
}

/// Runs the chosen probes; each row is told as it becomes known.
pub async fn run(
    options: &Options,
    choose: impl Fn(&Probe) -> bool,
    mut tell: impl FnMut(&Row),
) -> Result<Vec<Row>, AttackError> {
    let mut suite = Suite::prepare(options).await?;
    let mut rows = Vec::new();
    for probe in probes().filter(|probe| choose(probe)) {
        let began = Instant::now();
        let verdict = suite.judge(probe).await?;
        let row = Row { probe: *probe, verdict, took: began.elapsed() };
        tell(&row);
        rows.push(row);
    }
    suite.end().await;
    Ok(rows)
}

/// Everything around the probes.
pub(super) struct Suite {
    options: Options,
    runtime: Runtime,
    canaries: Canaries,
    variables: BTreeMap<String, String>,
    pub(super) keeper: Guest,
    pub(super) base: TreeId,
    neighbour: Guest,
    /// The way out, and one that no task has but that of a control.
    _ways_out: [Box<dyn Send + Sync>; 2],
    serial: u32,
    mark: String,
}

/// A task with its sandbox.
pub(super) struct Task {
    pub(super) name: EffectId,
    pub(super) guest: Guest,
    overlay: Overlay,
    /// What is done with what it left by whoever trusts it; nothing but in a control.
    trust: Option<&'static str>,
}

/// What was seen of a probe.
#[derive(Debug)]
pub(super) struct Seen {
    /// The last line that it said.
    pub(super) last_line: String,
    /// How it ended; nothing when its sandbox did.
    pub(super) ending: Option<Ending>,
    /// Why the sandbox was ended, if it was.
    pub(super) limit: Option<String>,
}

impl Suite {
    pub(super) async fn prepare(options: &Options) -> Result<Self, AttackError> {
        let runtime = Runtime::process_held_by(options.backend)?;
        let mark = format!("{:x}-{:x}", std::process::id(), options as *const Options as usize);
        let directory = &options.directory;
        let places = Places::make(options)?;
        let canaries = Canaries::plant(&directory.join("outside"), &mark)?;
        let variables = canaries.variables()?.into_iter().collect();
        let mut spec = Spec::new(GuestRole::Keeper, &places.guest, &places.live);
        (spec.store, spec.identity) = (Some(places.store), options.identity);
        let keeper = runtime.start(spec).await?;
        let base = keeper.take_snapshot().await?.tree;
        let ways_out = [(options.way_out)(&places.egress, canaries.allowed_port()?)?, careless(&places.careless)?];
        for socket in [&places.egress, &places.careless] {
            fs::set_permissions(socket, fs::Permissions::from_mode(0o777))?;
        }
        let mut spec = Spec::new(GuestRole::Associate, &places.guest, &places.neighbour);
        spec.identity = options.identity;
        let neighbour = runtime.start(spec).await?;
        let options = options.clone();
        let (_ways_out, serial) = (ways_out, 0);
        Ok(Self { options, runtime, canaries, variables, keeper, base, neighbour, _ways_out, serial, mark })
    }

    pub(super) async fn end(self) {
        self.neighbour.shutdown().await;
        self.keeper.shutdown().await;
    }

    /// Runs one probe in a sandbox as it ships.
    pub(super) async fn judge(&mut self, probe: &Probe) -> Result<Verdict, AttackError> {
        self.judge_with(probe, |_| {}).await
    }

    /// Runs one probe in a sandbox that was changed.
    pub(super) async fn judge_with(
        &mut self,
        probe: &Probe,
        change: impl Fn(&mut Spec),
    ) -> Result<Verdict, AttackError> {
        let verdict = match probe.expect {
            Expect::Bounded | Expect::Endless => self.flood(probe, change).await?,
            Expect::DiesWithTask => self.leave_behind(probe, change).await?,
            Expect::NeverLeaks => self.race(probe, change).await?,
            Expect::NextIsTheSame => self.next_is_the_same(probe, change).await?,
            _ => self.attempt(probe, change).await?,
        };
        let touched = self.canaries.touched();
        Ok(if touched.is_empty() { verdict } else { Verdict::Escaped(touched.join(", ")) })
    }

    /// One attempt, after which the guest must be well and the keeper must be able to read what was left.
    async fn attempt(&mut self, probe: &Probe, change: impl Fn(&mut Spec)) -> Result<Verdict, AttackError> {
        let task = self.start_task(change).await?;
        let seen = self.run_probe(&task, probe, PROBE_MS_MAX).await;
        let mut verdict = judge(probe.expect, &seen);
        if let Some(text) = task.trust {
            self.trust(&task, probe, text).await?;
        }
        if let Err(error) = task.guest.health().await {
            verdict = Verdict::Escaped(format!("the guest was lost: {error}"));
        }
        let places = [task.overlay.upper.clone(), self.options.directory.join("live")];
        if let Some(raised) = places.iter().find_map(|place| root_owned_setuid(place)) {
            fs::remove_file(&raised)?;
            verdict = Verdict::Escaped(format!("{} would raise its user to root", raised.display()));
        }
        self.end_task(task).await.map(|unwell| unwell.unwrap_or(verdict))
    }

    /// A flood, while a neighbour is asked again and again.
    async fn flood(&mut self, probe: &Probe, change: impl Fn(&mut Spec)) -> Result<Verdict, AttackError> {
        let task = self.start_task(change).await?;
        let (stop, stopped) = watch::channel(());
        let neighbour = tokio::spawn(ask_again_and_again(self.neighbour.clone(), format!("{}-n", task.name), stopped));
        let timeout_ms = if matches!(probe.expect, Expect::Endless) { ENDLESS_MS } else { PROBE_MS_MAX };
        let seen = self.run_probe(&task, probe, timeout_ms).await;
        drop(stop);
        let asked = neighbour.await.map_err(io::Error::other)?.map_err(AttackError::Neighbour)?;
        let verdict = match (judge(probe.expect, &seen), asked) {
            (verdict, Asked { slowest, .. }) if slowest > NEIGHBOUR_PATIENCE => {
                Verdict::Escaped(format!("the neighbour waited {} ms; {verdict:?}", slowest.as_millis()))
            }
            (Verdict::Held(how), Asked { times, slowest }) => {
                Verdict::Held(format!("{how}; neighbour answered {times} times, slowest {} ms", slowest.as_millis()))
            }
            (verdict, _) => verdict,
        };
        self.end_task(task).await.map(|unwell| unwell.unwrap_or(verdict))
    }

    async fn leave_behind(&mut self, probe: &Probe, change: impl Fn(&mut Spec)) -> Result<Verdict, AttackError> {
        let task = self.start_task(change).await?;
        let mark = self.mark_of(&task);
        let seen = self.run_probe(&task, probe, PROBE_MS_MAX).await;
        // In the moment of becoming another program a process has no command line.
        let deadline = Instant::now() + GONE_WITHIN;
        while count_marked(&mark) == 0 && Instant::now() < deadline {
            tokio::task::yield_now().await;
        }
        if !matches!(seen.ending, Some(Ending::Code(0))) || count_marked(&mark) == 0 {
            return Ok(Verdict::Skipped(format!("nothing was left behind: {seen:?}")));
        }
        let unwell = self.end_task(task).await?;
        let deadline = Instant::now() + GONE_WITHIN;
        while count_marked(&mark) > 0 && Instant::now() < deadline {
            tokio::task::yield_now().await;
        }
        let left = count_marked(&mark);
        let verdict = match left {
            0 => Verdict::Held("gone with its task".to_owned()),
            _ => Verdict::Escaped(format!("{left} processes outlived their task")),
        };
        Ok(unwell.unwrap_or(verdict))
    }

    async fn race(&mut self, probe: &Probe, change: impl Fn(&mut Spec)) -> Result<Verdict, AttackError> {
        let task = self.start_task(change).await?;
        let mut swapping = match task.guest.exec(self.exec(&task, probe, PROBE_MS_MAX)).await {
            Ok(swapping) => swapping,
            Err(error) => return Ok(Verdict::Skipped(error.to_string())),
        };
        if !matches!(swapping.next().await, Ok(ExecEvent::Stdout(_))) {
            return Ok(Verdict::Skipped("the links were not exchanged".to_owned()));
        }
        let path = RelativePath::parse("race/turn/passwd").map_err(io::Error::other)?;
        let (mut own, mut refused, mut leaked) = (0, 0, 0);
        for _ in 0..RACE_READS {
            match task.guest.read_range(&path, 0, 64).await {
                Ok((bytes, _)) if bytes == "mine" => own += 1,
                Ok(_) => leaked += 1,
                Err(_) => refused += 1,
            }
        }
        drop(swapping);
        let counts = format!("{own} reads of its own, {refused} refused, {leaked} of another place");
        let verdict = match (own, refused, leaked) {
            (_, _, 1..) => Verdict::Escaped(counts),
            (1.., 1.., 0) => Verdict::Held(counts),
            _ => Verdict::Skipped(format!("no race happened: {counts}")),
        };
        self.end_task(task).await.map(|unwell| unwell.unwrap_or(verdict))
    }

    pub(super) async fn start_task(&mut self, change: impl Fn(&mut Spec)) -> Result<Task, AttackError> {
        self.start_task_over(self.base, change).await
    }

    pub(super) async fn start_task_over(
        &mut self,
        base: TreeId,
        change: impl Fn(&mut Spec),
    ) -> Result<Task, AttackError> {
        self.serial += 1;
        let name = EffectId::parse(format!("attack-{}", self.serial)).map_err(io::Error::other)?;
        self.keeper.prepare_task(&name, base).await?;
        let directory = &self.options.directory;
        let overlay = Overlay::of_task(&directory.join("store"), &name, base);
        let mut spec = Spec::new(GuestRole::Associate, directory.join("guest"), directory.join("live"));
        spec.workspace = Workspace::Overlay(overlay.clone());
        spec.identity = self.options.identity;
        spec.limits = limits();
        spec.egress = Some(directory.join("egress"));
        spec.environment = self.variables.clone();
        change(&mut spec);
        let trust = spec.sabotage.trust;
        let guest = self.runtime.start(spec).await?;
        Ok(Task { name, guest, overlay, trust })
    }

    /// Does with what a task left what nobody may do: inside, where the programs that this runs harm no one.
    async fn trust(&self, task: &Task, probe: &Probe, text: &'static str) -> Result<(), AttackError> {
        let mut exec = self.exec(task, &Probe { program: Program::Shell(text), ..*probe }, PROBE_MS_MAX);
        exec.effect = EffectId::parse(format!("{}-trusted", task.name)).map_err(io::Error::other)?;
        // What git makes of it in the end does not matter, only what it has run on the way.
        collect(task.guest.exec(exec).await.map_err(AttackError::Trusting)?).await.map_err(AttackError::Trusting)?;
        Ok(())
    }

    /// Ends a task; says so when the keeper could not deal with what it left.
    pub(super) async fn end_task(&self, task: Task) -> Result<Option<Verdict>, AttackError> {
        self.end_task_over(self.base, task).await
    }

    pub(super) async fn end_task_over(&self, base: TreeId, task: Task) -> Result<Option<Verdict>, AttackError> {
        task.guest.shutdown().await;
        let unwell = match self.keeper.capture_task(&task.name, base).await {
            // Looked at as whoever shows what a task changed does.
            Ok(left) => self.keeper.diff(base, left.tree).await.err(),
            Err(error) => Some(error),
        };
        let unwell = match unwell {
            None | Some(CallError::Fault(_)) => None,
            Some(error) => Some(Verdict::Escaped(format!("the keeper was lost: {error}"))),
        };
        if task.overlay.upper.join("ran").exists() {
            return Ok(Some(Verdict::Escaped("a program of the repository was run".to_owned())));
        }
        match self.keeper.drop_task(&task.name).await {
            Ok(()) => Ok(unwell),
            Err(error) => Ok(unwell.or(Some(Verdict::Escaped(format!("its layer could not be removed: {error}"))))),
        }
    }

    fn mark_of(&self, task: &Task) -> String {
        format!("mark-{}-{}", self.mark, task.name)
    }

    fn exec(&self, task: &Task, probe: &Probe, timeout_ms: u64) -> Exec {
        let mark = self.mark_of(task);
        let own = |words: &[&str]| {
            let words = [PROBE_PROGRAM, "probe"].iter().chain(words).map(|word| (*word).to_owned());
            Command::Arguments(words.collect())
        };
        let command = match probe.program {
            Program::Call(number, arguments) => {
                let numbers: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                let mut words = vec!["call".to_owned(), number.to_string()];
                words.extend(numbers);
                own(&words.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Program::Read(path) => own(&["read", &self.fill_in(path)]),
            Program::Write(path) => own(&["write", &self.fill_in(path)]),
            Program::Act(name) => own(&["act", name, &mark]),
            Program::Ask(line) => own(&["ask", &self.fill_in(line)]),
            Program::Send(text) => own(&["send", &self.fill_in(text)]),
            Program::Shell(text) => Command::Shell(text.replace("{mark}", &mark)),
        };
        Exec {
            effect: task.name.clone(),
            command,
            directory: RelativePath::root(),
            environment: BTreeMap::new(),
            timeout_ms,
            input: Input::Empty,
        }
    }

    fn fill_in(&self, text: &str) -> String {
        let named = |name: &str| self.variables.get(&format!("PROBE_{name}")).map_or("", String::as_str);
        let names = ["CANARY", "SIBLING", "ALLOWED", "PORT", "ADDRESS"];
        let in_text = |name: &str| format!("{{{}}}", name.to_lowercase());
        names.iter().fold(text.to_owned(), |text, name| text.replace(&in_text(name), named(name)))
    }

    pub(super) async fn run_probe(&self, task: &Task, probe: &Probe, timeout_ms: u64) -> Seen {
        let ended = match task.guest.exec(self.exec(task, probe, timeout_ms)).await {
            Ok(handle) => collect(handle).await,
            Err(error) => Err(error),
        };
        // Where the kernel counts, it ends a part of the sandbox, and the rest may not even notice.
        let limit = |task: &Task| task.guest.exceeded().map(|limit| limit.to_string());
        match ended {
            Ok((last_line, ending)) => Seen { last_line, ending: Some(ending), limit: limit(task) },
            Err(error) => {
                task.guest.closed().await;
                Seen { last_line: error.to_string(), ending: None, limit: limit(task) }
            }
        }
    }
}

/// Directories and programs of a suite, open to whom they are for.
struct Places {
    guest: PathBuf,
    live: PathBuf,
    store: PathBuf,
    neighbour: PathBuf,
    egress: PathBuf,
    careless: PathBuf,
}

impl Places {
    fn make(options: &Options) -> io::Result<Self> {
        let directory = &options.directory;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| directory.join(name);
        let places = Self {
            guest: at("guest"),
            live: at("live"),
            store: at("store"),
            neighbour: at("neighbour"),
            egress: at("egress"),
            careless: at("careless"),
        };
        copy_program(&options.guest_program, &places.guest)?;
        for made in [&places.live, &places.store, &places.neighbour] {
            make_open(made)?;
        }
        let probe = places.live.join("probe");
        copy_program(&options.probe_program, &probe)?;
        for program in [&places.guest, &probe] {
            fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
        }
        if let Identity::User { uid, gid } = options.identity {
            for owned in [&places.live, &places.store, &places.neighbour, &probe] {
                std::os::unix::fs::chown(owned, Some(uid), Some(gid))?;
            }
        }
        Ok(places)
    }
}

/// Little of everything, so that a flood is soon told.
pub(super) fn limits() -> Limits {
    let mut limits =
        Limits { tmp_bytes: 32 << 20, home_bytes: 32 << 20, shared_memory_bytes: 16 << 20, ..Limits::default() };
    limits.memory_names = 5_000;
    limits.memory_bytes = 384 << 20;
    limits.workspace_bytes = 192 << 20;
    limits.workspace_names = 10_000;
    limits.guest.processes = 256;
    limits.guest.open_files = 1024;
    limits.guest.file_bytes = 128 << 20;
    limits
}

async fn collect(handle: ExecHandle) -> Result<(String, Ending), ExecError> {
    let output = handle.collect(OUTPUT_BYTES_MAX).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    Ok((last.chars().take(200).collect(), output.finished.exit.ending))
}

/// What a neighbour was asked, and how long it took at most.
struct Asked {
    times: u32,
    slowest: Duration,
}

async fn ask_again_and_again(
    neighbour: Guest,
    name: String,
    mut stopped: watch::Receiver<()>,
) -> Result<Asked, ExecError> {
    let mut asked = Asked { times: 0, slowest: Duration::ZERO };
    loop {
        let began = Instant::now();
        let effect = EffectId::parse(format!("{name}-{}", asked.times)).map_err(|_| ExecError::Lost)?;
        let exec = Exec {
            effect,
            command: Command::Shell("echo well > /work/answer; cat /work/answer".to_owned()),
            directory: RelativePath::root(),
            environment: BTreeMap::new(),
            timeout_ms: PROBE_MS_MAX,
            input: Input::Empty,
        };
        let (said, _) = collect(neighbour.exec(exec).await?).await?;
        if said != "well" {
            return Err(ExecError::Lost);
        }
        asked.times += 1;
        asked.slowest = asked.slowest.max(began.elapsed());
        if stopped.has_changed().is_err() {
            return Ok(asked);
        }
        tokio::select! {
            _ = stopped.changed() => {}
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
}

/// Processes of this machine whose command line bears a mark.
fn count_marked(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(mark.len()).any(|window| window == mark.as_bytes())).count()
}

/// A file that would make whoever runs it on the host its root.
fn root_owned_setuid(directory: &Path) -> Option<PathBuf> {
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let metadata = entry.metadata().ok()?;
        if metadata.is_file() && metadata.uid() == 0 && metadata.mode() & 0o6000 != 0 {
            return Some(entry.path());
        }
    }
    None
}

/// Judges by what was seen.
pub(super) fn judge(expect: Expect, seen: &Seen) -> Verdict {
    let Seen { last_line, ending, limit } = seen;
    let errno = last_line.strip_prefix("errno ").and_then(|number| number.parse::<i32>().ok());
    let shown = || format!("{last_line:?}, {}", how(seen));
    if let (Some(Ending::Code(2)), "") = (ending, last_line.as_str()) {
        return Verdict::Skipped("the program does not know this probe".to_owned());
    }
    let held = match expect {
        Expect::Errno(allowed) => errno.is_some_and(|errno| allowed.contains(&errno)),
        Expect::Says("exit 7") => *ending == Some(Ending::Code(7)),
        Expect::Says(text) => last_line == text,
        // Turned away, and not for want of an answer.
        Expect::Turned => matches!(last_line.as_str(), "status 400" | "status 403"),
        Expect::NoSecret => searched(last_line).is_some_and(|(bytes, found)| bytes > 0 && found == 0),
        Expect::Signal(signal) => *ending == Some(Ending::Signal(signal)),
        Expect::Bounded => {
            limit.is_some()
                || errno.is_some_and(|errno| ENOUGH.contains(&errno))
                || matches!(ending, Some(Ending::Signal(libc::SIGKILL | libc::SIGXFSZ)))
        }
        Expect::Endless => *ending == Some(Ending::TimedOut),
        Expect::DiesWithTask | Expect::NeverLeaks | Expect::NextIsTheSame => false,
    };
    if held { Verdict::Held(shown()) } else { Verdict::Escaped(shown()) }
}

fn how(Seen { ending, limit, .. }: &Seen) -> String {
    match (ending, limit) {
        (Some(ending), None) => format!("{ending:?}"),
        (Some(ending), Some(limit)) => format!("{ending:?}, held to its {limit}"),
        (None, Some(limit)) => format!("ended for its {limit}"),
        (None, None) => "the sandbox was lost".to_owned(),
    }
}

fn searched(line: &str) -> Option<(u64, u64)> {
    let (bytes, found) = line.strip_prefix("scanned ")?.split_once(" found ")?;
    Some((bytes.parse().ok()?, found.parse().ok()?))
}

#[cfg(test)]
mod tests;
