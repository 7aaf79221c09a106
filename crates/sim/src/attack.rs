//! The attack suite against the real binary's guests: as root and as an ordinary user, held in every way that this machine
//! offers, and then with one wall after another taken away.

use crate::instance;
use crate::table::say;
use anyhow::{Context, ensure};
use choir_control::egress::{self, Outside, clamp};
use choir_proto::task::Egress;
use choir_sandbox::attack::{self, ControlRow, Options as Suite, Probe, Row, Verdict};
use choir_sandbox::guest::{self, GuestRole};
use choir_sandbox::runtime::{Backend, Identity, Runtime};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A user who owns nothing on any system, for the run as an ordinary user.
const ORDINARY: u32 = 61_237;
/// The user of sandboxes that root starts.
const BELOW_ROOT: u32 = 61_238;
/// Where other users can walk to, on a disk.
const PLACE: &str = "/var/tmp";
/// Decisions of a way out that wait to be read.
const DECISIONS_MAX: usize = 64;
/// What the last line of a run as another user begins with.
const TOTAL: &str = "total:";

/// What to try.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Only probes whose names contain this.
    #[arg(default_value = "")]
    pub only: String,
    /// Leave the walls where they are.
    #[arg(long)]
    pub no_controls: bool,
    /// The real binary, when another user cannot find it.
    #[arg(long, hide = true)]
    pub guest: Option<PathBuf>,
    /// Say what was seen in words for who started this as another user, and adds it to its own.
    #[arg(long, hide = true)]
    pub for_root: bool,
}

/// Who reads what was seen in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    ByPerson,
    /// By the same program, run by root.
    ByRoot,
}

/// What was seen in all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Total {
    probes: usize,
    escapes: usize,
    skipped: usize,
    controls: usize,
    unnoticed: usize,
}

/// Runs everything; false when something escaped, was skipped, or was not noticed.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let directory = tempfile::Builder::new().prefix("choir-attack-").tempdir_in(PLACE)?;
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
    let guest = match &options.guest {
        Some(guest) => guest.clone(),
        None => instance::program()?,
    };
    let is_root = rustix::process::geteuid().is_root();
    let mut total = Total::default();
    for backend in [Backend::CgroupV1, Backend::CgroupV2, Backend::Watchdog] {
        let Ok(runtime) = Runtime::process_held_by(backend) else {
            say(format_args!("\nnot offered here to {}: {backend}", if is_root { "root" } else { "an ordinary user" }));
            continue;
        };
        drop(runtime);
        let identity = match is_root {
            true => Identity::User { uid: BELOW_ROOT, gid: BELOW_ROOT },
            false => Identity::Inherit,
        };
        total.add(held(options, &guest, directory.path(), (identity, backend))?);
    }
    total.add(director(options, directory.path())?);
    if is_root {
        total.add(as_ordinary(options, &guest, directory.path())?);
    }
    say(total.summary(if options.for_root { Asked::ByRoot } else { Asked::ByPerson }));
    Ok(total.probes > 0 && total.escapes == 0 && total.skipped == 0 && total.unnoticed == 0)
}

/// The suite in one way, then its controls.
fn held(
    options: &Options,
    guest: &Path,
    directory: &Path,
    (identity, backend): (Identity, Backend),
) -> anyhow::Result<Total> {
    let who = match identity {
        Identity::User { uid, .. } => format!("started by root, as user {uid}"),
        Identity::Inherit => "as an ordinary user".to_owned(),
    };
    say(format_args!("\n{who}, held by {backend}\n"));
    say("| probe | threat | verdict | seen | ms |\n|---|---|---|---|---|");
    let own = std::env::current_exe()?;
    let suite = |guest: &Path, name: &str| -> anyhow::Result<Suite> {
        let directory = directory.join(format!("{name}-{backend:?}"));
        std::fs::create_dir(&directory)?;
        let (guest_program, probe_program) = (guest.into(), own.clone());
        Ok(Suite { guest_program, probe_program, directory, identity, backend, way_out: way_out() })
    };
    let chosen = |probe: &Probe| probe.id.contains(&options.only);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rows = runtime.block_on(attack::run(&suite(guest, "suite")?, chosen, tell))?;
    let mut total = Total { probes: rows.len(), ..Total::default() };
    total.escapes = rows.iter().filter(|row| matches!(row.verdict, Verdict::Escaped(_))).count();
    total.skipped = rows.iter().filter(|row| matches!(row.verdict, Verdict::Skipped(_))).count();
    if !options.no_controls {
        say("\n| without | probe | noticed | seen | ms |\n|---|---|---|---|---|");
        // This program serves as the guest that can be told to leave its own walls out.
        let rows = runtime.block_on(attack::run_controls(&suite(&own, "controls")?, chosen, tell_control))?;
        total.controls = rows.len();
        total.unnoticed = rows.iter().filter(|row| !row.is_noticed()).count();
    }
    Ok(total)
}

/// What a computer's own process tries, and what it could with walls taken away.
fn director(options: &Options, directory: &Path) -> anyhow::Result<Total> {
    let who = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    say(format_args!("\nthe director, started by {who}\n"));
    say("| attempt | threat | without | verdict | seen |\n|---|---|---|---|---|");
    let place = directory.join("director");
    std::fs::create_dir(&place)?;
    let mut total = Total::default();
    for row in attack::director::run(&std::env::current_exe()?, &place)? {
        if !row.id.contains(&options.only) {
            continue;
        }
        let (verdict, seen) = in_words(&row.verdict);
        say(format_args!("| {} | {} | {} | {verdict} | {seen} |", row.id, row.threat, row.without.join(", ")));
        match (row.without.is_empty(), row.verdict) {
            (true, verdict) => {
                total.probes += 1;
                total.escapes += usize::from(matches!(verdict, Verdict::Escaped(_)));
                total.skipped += usize::from(matches!(verdict, Verdict::Skipped(_)));
            }
            (false, verdict) => {
                total.controls += 1;
                total.unnoticed += usize::from(!matches!(verdict, Verdict::Escaped(_)));
            }
        }
    }
    Ok(total)
}

/// The way out as control opens it for a task that may reach one server of this machine, and registries.
fn way_out() -> attack::WayOut {
    Arc::new(|path, allowed| {
        let ceiling = [format!("127.0.0.1:{allowed}"), "registries".to_owned()];
        let (policy, refused) =
            clamp(Some(&Egress { allow: ceiling.to_vec() }), &egress::Ceiling::new(ceiling.to_vec(), []));
        if !refused.is_empty() {
            return Err(std::io::Error::other("the ceiling refused what it names"));
        }
        let (decisions, mut decided) = mpsc::channel(DECISIONS_MAX);
        // Control writes them down; here nobody reads them, and the proxy waits for whoever should.
        tokio::spawn(async move { while decided.recv().await.is_some() {} });
        let proxy =
            egress::open(path.to_owned(), None, Box::new(move || policy.clone()), Outside::default(), decisions)?;
        Ok(Box::new(proxy) as Box<dyn Send + Sync>)
    })
}

/// The same by a user who is nobody here.
fn as_ordinary(options: &Options, guest: &Path, directory: &Path) -> anyhow::Result<Total> {
    let place = |name: &str| directory.join(name);
    for (from, name) in [(std::env::current_exe()?.as_path(), "sim"), (guest, "choir")] {
        std::fs::copy(from, place(name))?;
        std::fs::set_permissions(place(name), PermissionsExt::from_mode(0o755))?;
    }
    let mut command = Command::new(place("sim"));
    command.arg("attack").arg(&options.only).arg("--for-root").arg("--guest").arg(place("choir"));
    if options.no_controls {
        command.arg("--no-controls");
    }
    command.env_clear().current_dir("/").uid(ORDINARY).gid(ORDINARY).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut total = None;
    for line in text.lines() {
        match line.strip_prefix(TOTAL) {
            Some(words) => total = Total::read(words),
            None => say(line),
        }
    }
    let total = total.context("the run as an ordinary user did not come to its end")?;
    ensure!(total.probes > 0, "the run as an ordinary user tried nothing");
    Ok(total)
}

fn tell(row: &Row) {
    let (verdict, seen) = in_words(&row.verdict);
    say(format_args!("| {} | {} | {verdict} | {seen} | {} |", row.probe.id, row.probe.threat, row.took.as_millis()));
}

fn in_words(verdict: &Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Held(seen) => ("held", short(seen)),
        Verdict::Escaped(seen) => ("ESCAPED", short(seen)),
        Verdict::Skipped(seen) => ("SKIPPED", short(seen)),
    }
}

fn tell_control(row: &ControlRow) {
    let (Verdict::Held(seen) | Verdict::Escaped(seen) | Verdict::Skipped(seen)) = &row.verdict;
    let noticed = if row.is_noticed() { "yes" } else { "NO" };
    let attack::Control { wall, probe, .. } = row.control;
    say(format_args!("| {wall} | {probe} | {noticed} | {} | {} |", short(seen), row.took.as_millis()));
}

/// Most of what was seen that fits a table.
fn short(text: &str) -> String {
    const CHARACTERS_MAX: usize = 120;
    text.replace('|', "/").chars().take(CHARACTERS_MAX).collect()
}

impl Total {
    fn add(&mut self, other: Self) {
        self.probes += other.probes;
        self.escapes += other.escapes;
        self.skipped += other.skipped;
        self.controls += other.controls;
        self.unnoticed += other.unnoticed;
    }

    /// The last words of a run.
    fn summary(self, asked: Asked) -> String {
        let Self { probes, escapes, skipped, controls, unnoticed } = self;
        match asked {
            Asked::ByRoot => format!("{TOTAL} {}", self.words()),
            Asked::ByPerson => format!(
                "\nprobes {probes}, escapes {escapes}, skipped {skipped}\n\
                 walls taken away {controls}, unnoticed {unnoticed}"
            ),
        }
    }

    fn words(self) -> String {
        let Self { probes, escapes, skipped, controls, unnoticed } = self;
        format!("{probes} {escapes} {skipped} {controls} {unnoticed}")
    }

    fn read(words: &str) -> Option<Self> {
        let numbers: Option<Vec<usize>> = words.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        match numbers?[..] {
            [probes, escapes, skipped, controls, unnoticed] => {
                Some(Self { probes, escapes, skipped, controls, unnoticed })
            }
            _ => None,
        }
    }
}

/// The arguments of a guest or of a probe, which this program can be as well.
#[derive(Debug, Clone, clap::Args)]
pub struct Inside {
    /// Everything.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Tries one thing, inside a sandbox.
pub fn probe(inside: &Inside) -> ExitCode {
    attack::inside::run(&inside.words())
}

/// Confines itself as a director does, and tries to leave.
pub fn confined(inside: &Inside) -> ExitCode {
    attack::director::inside(&inside.words())
}

/// Serves as a guest, without the walls that it is told to leave out.
pub fn guest(inside: &Inside) -> ExitCode {
    let words = inside.words();
    let ["--fd", fd, "--role", role, without @ ..] = &words[..] else { return ExitCode::from(2) };
    let (Some(role), Ok(fd)) = (GuestRole::parse(role), fd.parse()) else { return ExitCode::from(2) };
    match guest::adopt(fd).and_then(|stream| guest::run_without(stream, role, without)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

impl Inside {
    fn words(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever starts it: root alone adds the numbers of another run to its own.
    #[test]
    fn a_run_ends_with_what_was_seen() {
        let total = Total { probes: 7, escapes: 1, skipped: 2, controls: 3, unnoticed: 4 };
        let said = total.summary(Asked::ByPerson);
        assert!(said.contains("probes 7, escapes 1, skipped 2") && !said.contains(TOTAL), "{said}");
        let said = total.summary(Asked::ByRoot);
        assert_eq!(said.strip_prefix(TOTAL).and_then(Total::read), Some(total), "{said}");
    }

    #[test]
    fn a_total_is_read_as_it_was_said() {
        let total = Total { probes: 1, escapes: 2, skipped: 3, controls: 4, unnoticed: 5 };
        assert_eq!(Total::read(&total.words()), Some(total));
        assert_eq!(Total::read("1 2"), None);
    }
}
