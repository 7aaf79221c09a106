//! `choir add`.

use super::git::{Entry, Git, Trust};
use super::workspace::{self, join};
use super::{BASE_FILE, Error, Node, PATHS_MAX, check_name};
use crate::cli::Add as Arguments;
use crate::client::Client;
use crate::{instance, output};
use anyhow::Context;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

/// Where projects are in the workspace.
pub(super) const PROJECTS: &str = "projects";

pub(crate) async fn add(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = Source::parse(&arguments.from)?;
    let name = arguments.name.clone().unwrap_or_else(|| default_name(&arguments.from));
    let name = check_name(&name)?;
    let client = instance::connect(&arguments.reach).await?;
    if workspace::exists(&client, PROJECTS, name).await? {
        return Err(Error::Exists(name.to_owned()).into());
    }
    // Seen by nobody under its name before it is whole.
    let incoming = format!("{PROJECTS}/.incoming-{name}");
    client.delete(&format!("/api/files?path={}", workspace::escape(&incoming))).await.ok();
    let sent = match source {
        Source::Folder(folder) => send_folder(&client, folder, &incoming).await?,
        Source::Repository(from, trust) => send_repository(&client, from, trust, &incoming).await?,
    };
    let moved = serde_json::json!({"from": incoming, "to": format!("{PROJECTS}/{name}")});
    let _: serde_json::Value = client.post("/api/files/move", &moved).await?;
    match arguments.json {
        true => output::json(&serde_json::json!({ "project": name, "path": join(PROJECTS, name), "count": sent }))?,
        false => output::line(format!("{PROJECTS}/{name}: {sent} files and folders"))?,
    }
    Ok(ExitCode::SUCCESS)
}

enum Source<'a> {
    Folder(&'a Path),
    Repository(&'a str, Trust),
}

impl<'a> Source<'a> {
    fn parse(from: &'a str) -> Result<Self, Error> {
        let path = Path::new(from);
        let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir();
        if path.join(".git").exists() || is_bare {
            return Ok(Self::Repository(from, Trust::Nobody));
        }
        if path.is_dir() {
            return Ok(Self::Folder(path));
        }
        let schemes = ["https://", "http://", "ssh://", "git://", "file://"];
        // `host:path`, as git itself reads it; with a dash in front it would be an option.
        let is_short = from.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'));
        let is_url = schemes.iter().any(|scheme| from.starts_with(scheme)) || (is_short && !from.contains("::"));
        if is_url && !from.starts_with('-') {
            return Ok(Self::Repository(from, Trust::Person));
        }
        Err(Error::Nothing(from.to_owned()))
    }
}

fn default_name(from: &str) -> String {
    let path = std::path::absolute(from).unwrap_or_default();
    let whole = if Path::new(from).exists() { path.to_string_lossy().into_owned() } else { from.to_owned() };
    let last = whole.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    last.strip_suffix(".git").unwrap_or(last).to_owned()
}

/// Sends a folder as it is.
async fn send_folder(client: &Client, folder: &Path, to: &str) -> anyhow::Result<usize> {
    let Looked { found, left } = look(folder)?;
    say("stays behind, because it is neither file, folder nor link", left.into_iter());
    workspace::put(client, to, &Node::Directory, Bytes::new()).await?;
    for (path, node) in &found {
        let content = match node {
            Node::File { .. } => std::fs::read(folder.join(path)).with_context(|| format!("cannot read `{path}`"))?,
            Node::Link { .. } | Node::Directory => Vec::new(),
        };
        workspace::put(client, &join(to, path), node, content.into()).await?;
    }
    Ok(found.len())
}

/// What lies beneath a folder.
struct Looked {
    found: Vec<(String, Node)>,
    /// Pipes, sockets and devices.
    left: Vec<String>,
}

/// Everything beneath a folder; links are not followed.
fn look(root: &Path) -> anyhow::Result<Looked> {
    let (mut found, mut left, mut folders) = (Vec::new(), Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        let at = root.join(&folder);
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot read `{}`", at.display()))? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| Error::NotText(at.clone()))?;
            let (path, kind) = (join(&folder, &name), entry.file_type()?);
            let node = if kind.is_dir() {
                folders.push(path.clone());
                Node::Directory
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path())?;
                Node::Link { target: target.into_os_string().into_string().map_err(|_| Error::NotText(at.clone()))? }
            } else if kind.is_file() {
                Node::File { mode: entry.metadata()?.permissions().mode() & 0o777 }
            } else {
                left.push(path);
                continue;
            };
            found.push((path, node));
            anyhow::ensure!(found.len() <= PATHS_MAX, Error::TooMuch);
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    left.sort();
    Ok(Looked { found, left })
}

/// Sends what a repository has committed, and a copy of its history that names nobody's address.
async fn send_repository(client: &Client, from: &str, trust: Trust, to: &str) -> anyhow::Result<usize> {
    let temporary = tempfile::tempdir()?;
    let copy = temporary.path().join("copy");
    clone(from, trust, temporary.path())?;
    let git = Git::at(&copy, Trust::Nobody)?;
    let mut sent = 0;
    if let Some(base) = git.line(&["rev-parse", "--verify", "HEAD^{commit}"]) {
        sent += send_commit(client, &git, to).await?;
        git.run("make an index", &["read-tree", "HEAD"])?;
        let folder = std::path::absolute(from)?;
        if trust == Trust::Nobody && folder.join(".git").exists() {
            let uncommitted = uncommitted(&git, &folder)?;
            say("stays behind, because it is not committed", uncommitted.into_iter());
        }
        std::fs::write(copy.join(BASE_FILE), base)?;
    }
    sent += send_folder(client, &copy.join(".git"), &join(to, ".git")).await?;
    Ok(sent)
}

fn clone(from: &str, trust: Trust, into: &Path) -> anyhow::Result<()> {
    // A path must not be read as an option or an address.
    let from =
        if trust == Trust::Nobody { std::path::absolute(from)?.to_string_lossy().into_owned() } else { from.into() };
    let options = ["--quiet", "--no-checkout", "--no-local", "--no-tags", "--no-recurse-submodules", "--template="];
    let arguments: Vec<&str> = ["clone"].into_iter().chain(options).chain(["--", &from, "copy"]).collect();
    Git::at(into, trust)?.run("copy the repository", &arguments)?;
    let copy = Git::at(&into.join("copy"), Trust::Nobody)?;
    // The address may hold a password, and nothing in a sandbox may know one.
    copy.run("forget the address", &["remote", "remove", "origin"])?;
    Ok(())
}

/// Sends the files of the present commit, as they are stored: nothing is checked out, so no filter runs.
async fn send_commit(client: &Client, git: &Git, to: &str) -> anyhow::Result<usize> {
    let (entries, left): (Vec<_>, Vec<_>) =
        git.entries("HEAD")?.into_iter().partition(|entry| entry.comes_in().is_some());
    anyhow::ensure!(entries.len() <= PATHS_MAX, Error::TooMuch);
    say(
        "left out, because it is another repository or its name is not text; `choir get` keeps it",
        left.iter().map(path_of),
    );
    workspace::put(client, to, &Node::Directory, Bytes::new()).await?;
    let names: Vec<u8> = entries.iter().flat_map(|entry| format!("{}\n", entry.id).into_bytes()).collect();
    let contents = contents(&git.feed("read the files", &["cat-file", "--batch"], names)?);
    for entry in &entries {
        let Some(path) = entry.comes_in() else { continue };
        let content = contents.get(&entry.id).cloned().unwrap_or_default();
        let node = match entry.mode.as_str() {
            "120000" => {
                Node::Link { target: String::from_utf8(content.to_vec()).map_err(|_| Error::NotText(path.into()))? }
            }
            "100755" => Node::File { mode: 0o755 },
            _ => Node::File { mode: 0o644 },
        };
        workspace::put(client, &join(to, path), &node, content).await?;
    }
    Ok(entries.len())
}

/// Says to the person what does not come along.
fn say(why: &str, paths: impl ExactSizeIterator<Item = String>) {
    let count = paths.len();
    if let Some(first) = paths.into_iter().next() {
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        output::tell(format_args!("{why}: {}{more}", output::printable(&first)));
    }
}

fn path_of(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.path).into_owned()
}

/// What lies in a repository's folder and is in no commit. Looked at with the settings of the copy: what the repository calls
/// a filter would run otherwise.
fn uncommitted(copy: &Git, repository: &Path) -> Result<Vec<String>, Error> {
    let tree = format!("--work-tree={}", repository.display());
    let excluded = repository.join(".git/info/exclude");
    let own_rules = excluded.is_file().then(|| format!("--exclude-from={}", excluded.display()));
    let look = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"];
    let arguments: Vec<&str> = ["--git-dir=.git", &tree].into_iter().chain(look).chain(own_rules.as_deref()).collect();
    let listed = copy.run("look for what is not committed", &arguments)?;
    let found: BTreeSet<_> = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    Ok(found.into_iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// What `cat-file --batch` printed: a line with name, type and size, the bytes, and a line's end.
fn contents(printed: &[u8]) -> HashMap<String, Bytes> {
    let whole = Bytes::copy_from_slice(printed);
    let (mut contents, mut at) = (HashMap::new(), 0);
    while let Some(length) = whole[at..].iter().position(|byte| *byte == b'\n') {
        let header = String::from_utf8_lossy(&whole[at..at + length]).into_owned();
        at += length + 1;
        let mut parts = header.split(' ');
        let (Some(id), Some(_), Some(Ok(size))) = (parts.next(), parts.next(), parts.next().map(str::parse::<usize>))
        else {
            continue;
        };
        let end = (at + size).min(whole.len());
        contents.insert(id.to_owned(), whole.slice(at..end));
        at = (end + 1).min(whole.len());
    }
    contents
}
