//! Git with everything off that a repository could use to run something.

use super::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Settings that go before whatever a repository says.
const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=",
    "core.logAllRefUpdates=false",
    "diff.external=",
    "protocol.ext.allow=never",
    "protocol.file.allow=user",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Whose settings and credentials are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The person's own, to reach another machine.
    Person,
    /// Nobody's.
    Nobody,
}

/// Git in a directory.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    directory: PathBuf,
    trust: Trust,
}

impl Git {
    pub(super) fn at(directory: &Path, trust: Trust) -> Result<Self, Error> {
        Ok(Self { program: find().ok_or(Error::NoGit)?, directory: directory.to_owned(), trust })
    }

    /// A call with nothing of the environment that could name another repository or program.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_ATTR_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        if self.trust == Trust::Nobody {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        }
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    /// Runs git to its end; what it printed.
    pub(super) fn run(&self, act: &'static str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        let output = self.command().args(arguments).output();
        succeeded(act, output)
    }

    /// The same, with something to read.
    pub(super) fn feed(&self, act: &'static str, arguments: &[&str], input: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.spawn().and_then(|mut child| {
            let stdin = child.stdin.take();
            // Written beside the reading, so that neither waits for the other. A git that ended early says why itself.
            let writing = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input).ok()));
            let output = child.wait_with_output();
            drop(writing.join());
            output
        });
        succeeded(act, output)
    }

    /// One line that git prints, if it succeeds.
    pub(super) fn line(&self, arguments: &[&str]) -> Option<String> {
        let output = self.run("answer", arguments).ok()?;
        Some(String::from_utf8(output).ok()?.trim().to_owned())
    }
}

/// What one path is in a commit.
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) id: String,
    pub(super) path: Vec<u8>,
    is_file: bool,
}

impl Entry {
    /// A line of `ls-tree`: mode, type and name of the object, then the path.
    fn parse(line: &[u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let mut parts = std::str::from_utf8(&line[..tab]).ok()?.split(' ');
        let (mode, kind, id) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { mode: mode.into(), id: id.into(), path: line[tab + 1..].to_vec(), is_file: kind == "blob" })
    }

    /// Its path, if it comes into a workspace: other repositories inside do not, nor do names that are not text.
    pub(super) fn comes_in(&self) -> Option<&str> {
        std::str::from_utf8(&self.path).ok().filter(|_| self.is_file)
    }
}

impl Git {
    /// Everything that a commit holds.
    pub(super) fn entries(&self, commit: &str) -> Result<Vec<Entry>, Error> {
        let listed = self.run("list the files", &["ls-tree", "-r", "-z", "--full-tree", commit])?;
        Ok(listed.split(|byte| *byte == 0).filter_map(Entry::parse).collect())
    }
}

fn succeeded(act: &'static str, output: std::io::Result<Output>) -> Result<Vec<u8>, Error> {
    let output = output.map_err(|error| Error::Git { act, said: error.to_string() })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it failed").to_owned();
    Err(Error::Git { act, said: crate::output::printable(&last) })
}

/// The program by its absolute path: what lies in the present directory is never it.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
    places.map(|place| place.join("git")).find(|program| program.is_file())
}
