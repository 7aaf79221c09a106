//! `choir get`.

use super::add::PROJECTS;
use super::git::{Git, Trust};
use super::workspace::{self, join};
use super::{BASE_FILE, Error, Node, check_name};
use crate::cli::Get as Arguments;
use crate::client::Client;
use crate::{instance, output};
use anyhow::Context;
use choir_proto::api::{ChangeState, Changes};
use choir_proto::{Run, RunId};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;

/// What a branch is called when no run is known to have changed the project.
const NO_RUN: &str = "workspace";

/// Permissions of a file that is not whole yet.
const OWN_ONLY: u32 = 0o600;

/// What a commit may hold in all: it is in memory before git has it.
const COMMIT_BYTES_MAX: usize = 1 << 30;

/// Longest file with the name of a commit.
const BASE_BYTES_MAX: usize = 100;

pub(crate) async fn get(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let name = check_name(&arguments.name)?;
    let client = instance::connect(&arguments.reach).await?;
    if !workspace::exists(&client, PROJECTS, name).await? {
        return Err(Error::Missing(name.to_owned()).into());
    }
    let root = join(PROJECTS, name);
    let directory = arguments.into.as_path();
    match Git::at(directory, Trust::Nobody).ok().filter(|git| is_repository(git, directory)) {
        Some(git) => {
            let run = match arguments.run {
                Some(run) => Some(run),
                None => last_run(&client, &format!("{root}/")).await?,
            };
            let branch = format!("choir/{}", run.map_or(NO_RUN.to_owned(), |run| run.to_string()));
            let (commit, ignored) = into_branch(&client, &git, &root, &branch).await?;
            if arguments.json {
                output::json(
                    &serde_json::json!({ "project": name, "branch": branch, "commit": commit, "left_out": ignored.len() }),
                )?;
            } else {
                output::line(format!("{branch} {commit}"))?;
            }
            if let Some(first) = ignored.first() {
                let more = if ignored.len() > 1 { format!(" and {} more", ignored.len() - 1) } else { String::new() };
                output::tell(format_args!(
                    "left out, because the repository ignores it: {}{more}",
                    output::printable(first)
                ));
            }
        }
        None => {
            let Written { count, left_out } = into_folder(&client, &root, directory).await?;
            if arguments.json {
                output::json(
                    &serde_json::json!({ "project": name, "directory": directory, "count": count, "left_out": left_out }),
                )?;
            } else {
                output::line(format!("{}: {count} files and folders", directory.display()))?;
            }
            if left_out > 0 {
                output::tell(format_args!(
                    "left out: {left_out} files and folders of git, because their settings could run programs here; for the \
                     history, get `{name}` into a clone of its repository"
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the directory is the top of a repository, not merely somewhere in one.
fn is_repository(git: &Git, directory: &Path) -> bool {
    let has_own = directory.join(".git").exists() || directory.join("HEAD").is_file();
    directory.is_dir() && has_own && git.line(&["rev-parse", "--git-dir"]).is_some()
}

#[derive(Deserialize)]
struct Runs {
    runs: Vec<Run>,
}

/// The newest run that changed something beneath a path.
async fn last_run(client: &Client, beneath: &str) -> anyhow::Result<Option<RunId>> {
    let newest: Runs = client.get("/api/runs").await?;
    for run in newest.runs {
        let changes: Changes = client.get(&format!("/api/runs/{}/changes", run.run_id)).await?;
        let merged = changes.changes.iter().filter(|change| change.state == ChangeState::Merged);
        if merged.flat_map(|change| &change.files_changed).any(|file| file.path.starts_with(beneath)) {
            return Ok(Some(run.run_id));
        }
    }
    Ok(None)
}

/// What was written into a folder.
struct Written {
    count: usize,
    left_out: usize,
}

/// Writes the project into a new folder. What git keeps for itself stays behind: agents can write it, and git runs what stands
/// there, in the hands of a person who only looks.
async fn into_folder(client: &Client, root: &str, directory: &Path) -> anyhow::Result<Written> {
    match std::fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(Error::NotEmpty(directory.to_owned()).into()),
        Err(_) => {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot make `{}`", directory.display()))?
        }
    }
    let (of_git, found): (Vec<_>, Vec<_>) =
        workspace::walk(client, root).await?.into_iter().partition(|(path, _)| is_of_git(path));
    // Links last: then nothing can be written through one.
    let (links, others): (Vec<_>, Vec<_>) = found.iter().partition(|(_, node)| matches!(node, Node::Link { .. }));
    for (path, node) in others.into_iter().chain(links) {
        let at = directory.join(check_path(path)?);
        match node {
            Node::Directory => std::fs::create_dir(&at)?,
            Node::Link { target } => symlink(target, &at)?,
            Node::File { mode } => {
                let content = workspace::read(client, &join(root, path)).await?;
                let mut options = std::fs::OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(OWN_ONLY).open(&at)?;
                file.write_all(&content)?;
                file.set_permissions(Permissions::from_mode(mode & 0o777))?;
            }
        }
    }
    Ok(Written { count: found.len(), left_out: of_git.len() })
}

/// A path from the workspace, believed only when every part of it is a plain name.
fn check_path(path: &str) -> anyhow::Result<&str> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    anyhow::ensure!(path.split('/').all(plain), "the workspace names a path that leads elsewhere");
    Ok(path)
}

/// Makes a commit of the project on a branch of its own, and names what is not in it because the repository ignores it. Working
/// tree, index and every other branch stay as they are.
async fn into_branch(
    client: &Client,
    git: &Git,
    root: &str,
    branch: &str,
) -> anyhow::Result<(String, BTreeSet<String>)> {
    let reference = format!("refs/heads/{branch}");
    if git.line(&["symbolic-ref", "--quiet", "HEAD"]).as_deref() == Some(&reference) {
        return Err(Error::CheckedOut(branch.to_owned()).into());
    }
    let parent = match git.line(&["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")]) {
        Some(tip) => Some(tip),
        None => base(client, git, root).await,
    };
    let mut stream = Vec::new();
    write!(stream, "commit {reference}\ncommitter ChoirOS <choir@localhost> now\n")?;
    write_data(&mut stream, format!("{branch}\n").as_bytes())?;
    if let Some(parent) = &parent {
        writeln!(stream, "from {parent}")?;
    }
    writeln!(stream, "deleteall")?;
    // What never came into the workspace is missing there because of that, and not because somebody removed it. Whatever
    // has come into its place since is written after it, and replaces it.
    let held = parent.as_deref().map(|parent| git.entries(parent)).transpose()?.unwrap_or_default();
    for entry in held.iter().filter(|entry| entry.comes_in().is_none()) {
        writeln!(stream, "M {} {} {}", entry.mode, entry.id, quoted(&entry.path))?;
    }
    let found = workspace::walk(client, root).await?;
    let ignored = ignored(git, parent.as_deref(), &found);
    for (path, node) in found {
        if is_of_git(check_path(&path)?) || ignored.contains(&path) {
            continue;
        }
        let (mode, content) = match node {
            Node::Directory => continue,
            Node::Link { target } => ("120000", target.into_bytes().into()),
            Node::File { mode } if mode & 0o100 != 0 => ("100755", workspace::read(client, &join(root, &path)).await?),
            Node::File { .. } => ("100644", workspace::read(client, &join(root, &path)).await?),
        };
        anyhow::ensure!(
            stream.len() + content.len() <= COMMIT_BYTES_MAX,
            "the project has more than {COMMIT_BYTES_MAX} bytes with `{}`; get it into a new folder instead",
            output::printable(&path)
        );
        writeln!(stream, "M {mode} inline {}", quoted(path.as_bytes()))?;
        write_data(&mut stream, &content)?;
    }
    writeln!(stream, "done")?;
    git.feed("make the commit", &["fast-import", "--quiet", "--done", "--date-format=now"], stream)?;
    let tree = |commit: &str| git.line(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")]);
    if let Some(parent) = parent.filter(|parent| tree(parent).is_some_and(|before| tree(&reference) == Some(before))) {
        // Nothing has changed since: another commit would say that something has.
        git.run("keep the branch", &["update-ref", &reference, &parent])?;
    }
    let commit = git
        .line(&["rev-parse", "--verify", &reference])
        .ok_or_else(|| Error::Git { act: "make the commit", said: "the branch is not there".into() })?;
    Ok((commit, ignored))
}

/// Files that the person's own repository ignores and does not hold all the same: keys and what is built stay out of a commit,
/// as they do of the person's own.
fn ignored(git: &Git, parent: Option<&str>, found: &[(String, Node)]) -> BTreeSet<String> {
    let files = found.iter().filter(|(path, node)| !matches!(node, Node::Directory) && !is_of_git(path));
    let asked: Vec<u8> = files.flat_map(|(path, _)| [path.as_bytes(), b"\0"].concat()).collect();
    // Where there is no working tree there are no rules, and where nothing is ignored git says that it failed.
    let said = git.feed("ignore files", &["check-ignore", "--no-index", "-z", "--stdin"], asked).unwrap_or_default();
    let held = parent.and_then(|parent| git.run("list files", &["ls-tree", "-r", "-z", "--name-only", parent]).ok());
    let names = |bytes: &[u8]| -> BTreeSet<String> {
        bytes.split(|byte| *byte == 0).filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect()
    };
    let (mut ignored, held) = (names(&said), names(&held.unwrap_or_default()));
    ignored.retain(|path| !path.is_empty() && !held.contains(path));
    ignored
}

/// The commit that the project was made from, if the repository has it; else its present one.
async fn base(client: &Client, git: &Git, root: &str) -> Option<String> {
    let said = workspace::read(client, &join(root, BASE_FILE)).await.ok();
    let said = said.filter(|said| said.len() <= BASE_BYTES_MAX).and_then(|said| String::from_utf8(said.to_vec()).ok());
    // Agents can write that file: it is a name of a commit or nothing.
    let is_id = |text: &String| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let known = |id: String| git.line(&["rev-parse", "--verify", "--quiet", &format!("{id}^{{commit}}")]);
    said.filter(is_id).and_then(known).or_else(|| git.line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]))
}

/// What git keeps for itself is no part of a commit, nor of a folder.
fn is_of_git(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

fn write_data(stream: &mut Vec<u8>, content: &[u8]) -> std::io::Result<()> {
    writeln!(stream, "data {}", content.len())?;
    stream.write_all(content)?;
    writeln!(stream)
}

fn quoted(path: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in path.iter().copied() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            0x20..0x7f => text.push(char::from(byte)),
            byte => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}
