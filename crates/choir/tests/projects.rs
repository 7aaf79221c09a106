//! Folders and repositories into the workspace and back, with real git.

use crate::support::{Instance, stderr, stdout};
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

const NO_MODEL: &str = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;

/// One that changes the project.
const CHANGES: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "change it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}
    ],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command":
            "cd projects/site && git status --short && git log --oneline && echo more >> text && rm gone && ln -s text new-link"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made"}}]}
    ]
}}"#;

/// Git as a person uses it, with nobody's settings.
fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(directory).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// The beginning of a repository: a submodule that is fetched by a program, which leaves a trace.
fn submodule(at: &Path, trace: &Path) {
    std::fs::create_dir_all(at.join("ext")).unwrap();
    git(at, &["init", "--quiet"]);
    let module = format!("[submodule \"ext\"]\n path = ext\n url = ext::touch {}\n", trace.display());
    std::fs::write(at.join(".gitmodules"), module).unwrap();
    git(at, &["update-index", "--add", "--cacheinfo", "160000,0123456789012345678901234567890123456789,ext"]);
}

/// A repository with two commits, and whose every setting that could run something leaves a trace.
fn hostile(at: &Path, trace: &Path) {
    std::fs::create_dir_all(at).unwrap();
    git(at, &["init", "--quiet"]);
    std::fs::write(at.join("text"), "one\n").unwrap();
    std::fs::write(at.join("gone"), "gone\n").unwrap();
    std::fs::write(at.join("tool"), "#!/bin/sh\n").unwrap();
    std::fs::write(at.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
    std::fs::set_permissions(at.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("text", at.join("link")).unwrap();
    git(at, &["add", "--all"]);
    git(at, &["commit", "--quiet", "--message", "first"]);
    std::fs::write(at.join("text"), "one\ntwo\n").unwrap();
    git(at, &["commit", "--quiet", "--all", "--message", "second"]);

    let run = at.join(".git/evil");
    std::fs::write(&run, format!("#!/bin/sh\ntouch {}\ncat\n", trace.display())).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o755)).unwrap();
    let hooks = ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "fsmonitor-watchman"];
    for hook in hooks {
        std::fs::copy(&run, at.join(".git/hooks").join(hook)).unwrap();
    }
    let run = run.display();
    let config = format!(
        "[core]\n fsmonitor = {run}\n sshCommand = {run}\n pager = {run}\n editor = {run}\n alternateRefsCommand = {run}\n\
         hooksPath = {hooks}\n[diff]\n external = {run}\n[filter \"evil\"]\n clean = {run}\n smudge = {run}\n required = true\n\
         [diff \"evil\"]\n textconv = {run}\n command = {run}\n[uploadpack]\n packObjectsHook = {run}\n\
         [credential]\n helper = {run}\n[alias]\n clone = !{run}\n[remote \"origin\"]\n url = ext::{run}\n promisor = true\n\
         uploadpack = {run}\n[gpg]\n program = {run}\n[commit]\n gpgSign = true\n[submodule]\n recurse = true\n\
         [protocol]\n allow = always\n",
        hooks = at.join(".git/hooks").display()
    );
    let file = at.join(".git/config");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, before + &config).unwrap();
}

#[test]
fn a_repository_comes_in_and_goes_back_as_a_branch_and_nothing_of_it_runs() {
    let instance = Instance::start(CHANGES);
    let outside = tempfile::tempdir().unwrap();
    let (repository, trace) = (outside.path().join("site"), outside.path().join("trace"));
    submodule(&repository, &trace);
    hostile(&repository, &trace);
    std::fs::write(repository.join("text"), "not committed\n").unwrap();
    let before = std::fs::read(repository.join(".git/index")).unwrap();

    let added = instance.choir(&["add", repository.to_str().unwrap()]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let project = instance.workspace().join("projects/site");
    assert_eq!(std::fs::read_to_string(project.join("text")).unwrap(), "one\ntwo\n", "what is committed");
    assert_eq!(project.join("tool").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_link(project.join("link")).unwrap(), Path::new("text"));
    let config = std::fs::read_to_string(project.join(".git/config")).unwrap();
    assert!(!config.contains("evil") && !config.contains("url"), "{config}");
    assert!(!project.join(".git/hooks").exists() && !project.join(".git/logs").exists());
    assert!(instance.choir(&["add", repository.to_str().unwrap()]).status.code() == Some(1), "the name is taken");

    let run = instance.choir(&["run", "change it"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let got = instance.choir(&["get", "site", repository.to_str().unwrap()]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
    assert!(!trace.exists(), "something of the repository ran");
    // The controls: git that obeys the repository, and git that only goes where its submodules come from.
    let no_settings = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.ext.allow=always"];
    for (settings, arguments) in [(&[][..], &["status"][..]), (&no_settings, &["submodule", "update", "--init"])] {
        let mut control = Command::new("git");
        control.args(settings.iter().flat_map(|setting| ["-c", setting]));
        control.args(arguments).env("GIT_OPTIONAL_LOCKS", "0").current_dir(&repository).output().unwrap();
        assert!(trace.exists(), "{arguments:?} runs what the repository says");
        std::fs::remove_file(&trace).unwrap();
    }

    let folder = outside.path().join("new");
    let got = instance.choir(&["get", "site", folder.to_str().unwrap()]);
    assert!(got.status.code() == Some(0) && stderr(&got).contains("left out"), "{}", stderr(&got));
    assert_eq!(std::fs::read_to_string(folder.join("text")).unwrap(), "one\ntwo\nmore\n");
    assert!(!folder.join(".git").exists(), "what an agent could have written there would run");

    // From here on git reads the repository as it is; what it could run is taken out first.
    let run = instance.follow(|event| event["kind"] == "run.accepted")["run"].as_str().unwrap().to_owned();
    std::fs::write(repository.join(".git/config"), "[core]\n repositoryformatversion = 0\n bare = false\n").unwrap();
    std::fs::remove_dir_all(repository.join(".git/hooks")).unwrap();
    let branch = format!("choir/{run}");
    let changes = git(&repository, &["diff", "--name-status", "--no-renames", "main", &branch]);
    assert_eq!(changes, "D\tgone\nA\tnew-link\nM\ttext\n");
    assert_eq!(git(&repository, &["show", &format!("{branch}:text")]), "one\ntwo\nmore\n");
    assert_eq!(git(&repository, &["rev-parse", &format!("{branch}^")]), git(&repository, &["rev-parse", "main"]));
    assert_eq!(std::fs::read_to_string(repository.join("text")).unwrap(), "not committed\n");
    assert_eq!(std::fs::read(repository.join(".git/index")).unwrap(), before, "the index is as it was");
    assert_eq!(git(&repository, &["symbolic-ref", "HEAD"]), "refs/heads/main\n");

    git(&repository, &["switch", "--quiet", "--force", &branch]);
    let refused = instance.choir(&["get", "site", repository.to_str().unwrap()]);
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("checked out"), "{}", stderr(&refused));
}

#[test]
fn a_repository_comes_by_its_address_without_its_secrets() {
    let instance = Instance::start(NO_MODEL);
    let outside = tempfile::tempdir().unwrap();
    let repository = outside.path().join("origin");
    hostile(&repository, &outside.path().join("trace"));
    let address = format!("file://{}", repository.display());
    let added = instance.choir(&["add", &address, "--as", "other.name"]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let project = instance.workspace().join("projects/other.name");
    assert_eq!(std::fs::read_to_string(project.join("text")).unwrap(), "one\ntwo\n");
    assert!(!outside.path().join("trace").exists());
    let result = instance.task(&json!({"kind": "run", "instruction": "look", "egress": {"allow": []}, "commands": [
        "cd projects/other.name && git status --short && git log --format=%s && ! grep -r origin .git --include=config"]}));
    assert_eq!(result["commands"][0]["stdout"], "second\nfirst\n", "{result}");
}

#[test]
fn a_folder_comes_in_as_it_is_and_goes_back_into_a_new_one() {
    let instance = Instance::start(NO_MODEL);
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("notes");
    std::fs::create_dir_all(folder.join("empty")).unwrap();
    std::fs::create_dir_all(folder.join("a b/ü")).unwrap();
    std::fs::write(folder.join("a b/ü/?&#%"), [0, 255, 10]).unwrap();
    std::fs::write(folder.join("tool"), "x").unwrap();
    std::fs::set_permissions(folder.join("tool"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("/etc/passwd", folder.join("out")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    let json = |output: &std::process::Output| -> serde_json::Value {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("empty/door")).unwrap();
    let said = instance.choir(&["add", folder.to_str().unwrap(), "--json"]);
    let added = json(&said);
    assert_eq!((&added["project"], &added["path"]), (&"notes".into(), &"projects/notes".into()), "{added}");
    assert!(stderr(&said).contains("stays behind") && stderr(&said).contains("empty/door"), "{}", stderr(&said));

    let back = outside.path().join("back");
    let got = json(&instance.choir(&["get", "notes", back.to_str().unwrap(), "--json"]));
    assert_eq!((&got["count"], &got["directory"]), (&added["count"], &back.to_str().unwrap().into()), "{got}");
    assert_eq!(std::fs::read(back.join("a b/ü/?&#%")).unwrap(), [0, 255, 10]);
    assert!(back.join("empty").is_dir());
    assert_eq!(back.join("tool").metadata().unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(std::fs::read_link(back.join("out")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(std::fs::read_link(back.join("up")).unwrap(), Path::new(".."));
    let again = instance.choir(&["get", "notes", back.to_str().unwrap()]);
    assert!(again.status.code() == Some(1) && stderr(&again).contains("not empty"), "{}", stderr(&again));
}

#[test]
fn what_is_no_project_is_refused() {
    let instance = Instance::start(NO_MODEL);
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().to_str().unwrap();
    for (arguments, named) in [
        (["add", "/no/such/folder"].as_slice(), "neither"),
        (&["add", "ext::sh -c touch% /tmp/x"], "neither"),
        (&["add", folder, "--as", "../out"], "no name"),
        (&["add", folder, "--as", ".git"], "no name"),
        (&["get", "missing", folder], "no project"),
        (&["get", "..", folder], "no name"),
    ] {
        let refused = instance.choir(arguments);
        assert!(
            refused.status.code() == Some(1) && stderr(&refused).contains(named),
            "{arguments:?}: {}",
            stderr(&refused)
        );
    }
}

#[test]
fn what_the_repository_ignores_stays_out_of_the_branch_and_nothing_new_is_no_commit() {
    let instance = Instance::start(NO_MODEL);
    let outside = tempfile::tempdir().unwrap();
    let repository = outside.path().join("app");
    std::fs::create_dir_all(&repository).unwrap();
    git(&repository, &["init", "--quiet"]);
    std::fs::write(repository.join(".gitignore"), ".env\nbuild/\nheld\n").unwrap();
    std::fs::write(repository.join("held"), "one\n").unwrap();
    git(&repository, &["add", "--all", "--force"]);
    git(&repository, &["commit", "--quiet", "--message", "first"]);
    let path = repository.to_str().unwrap();
    assert_eq!(instance.choir(&["add", path]).status.code(), Some(0));
    // The rules that count are the person's, not those that the agent wrote.
    let act = "cd projects/app; echo KEY=1 > .env; mkdir build; echo o > build/o; echo two > held; echo new > new; : > .gitignore";
    let result = instance.task(&json!({"kind": "run", "instruction": "a test", "commands": [act]}));
    assert_eq!(result["status"], "ok", "{result}");
    let got = instance.choir(&["get", "app", path]);
    assert!(stderr(&got).contains("left out, because the repository ignores it: .env and 1 more"), "{}", stderr(&got));
    let changes = git(&repository, &["diff", "--name-status", "--no-renames", "main", "choir/workspace"]);
    assert_eq!(changes, "M\t.gitignore\nM\theld\nA\tnew\n");
    let again = instance.choir(&["get", "app", path]);
    assert_eq!(stdout(&again), stdout(&got), "nothing has changed since");
}

#[test]
fn what_does_not_come_in_is_named_and_the_branch_does_not_delete_it() {
    let instance = Instance::start(NO_MODEL);
    let outside = tempfile::tempdir().unwrap();
    let (repository, trace) = (outside.path().join("app"), outside.path().join("trace"));
    hostile(&repository, &trace);
    let config = std::fs::read(repository.join(".git/config")).unwrap();
    std::fs::write(repository.join(".git/config"), "[core]\n repositoryformatversion = 0\n").unwrap();
    std::fs::write(repository.join(OsStr::from_bytes(b"caf\xe9")), "old\n").unwrap();
    git(&repository, &["add", "--all"]);
    let module = git(&repository, &["rev-parse", "HEAD"]);
    git(&repository, &["update-index", "--add", "--cacheinfo", &format!("160000,{},lib", module.trim())]);
    git(&repository, &["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "third"]);
    std::fs::create_dir(repository.join("lib")).unwrap();
    std::fs::write(repository.join("text"), "not committed\n").unwrap();
    std::fs::write(repository.join("untracked"), "not committed\n").unwrap();
    std::fs::write(repository.join("private"), "not committed\n").unwrap();
    std::fs::create_dir_all(repository.join(".git/info")).unwrap();
    std::fs::write(repository.join(".git/info/exclude"), "private\n").unwrap();
    std::fs::write(repository.join(".git/config"), config).unwrap();
    // What was done here until now ran the hooks.
    std::fs::remove_file(&trace).unwrap();

    let path = repository.to_str().unwrap();
    let added = instance.choir(&["add", path]);
    let said = stderr(&added);
    assert_eq!(added.status.code(), Some(0), "{said}");
    assert!(said.contains("name is not text; `choir get` keeps it: caf\u{fffd} and 1 more"), "{said}");
    assert!(said.contains("stays behind, because it is not committed: text and 1 more"), "{said}");
    let act = json!({"kind": "run", "instruction": "x", "commands": ["echo more >> projects/app/text"]});
    assert_eq!(instance.task(&act)["status"], "ok");
    let got = instance.choir(&["get", "app", path]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
    assert!(!trace.exists(), "something of the repository ran");
    std::fs::write(repository.join(".git/config"), "[core]\n repositoryformatversion = 0\n").unwrap();
    let changes = git(&repository, &["diff", "--name-status", "--no-renames", "main", "choir/workspace"]);
    assert_eq!(changes, "M\ttext\n");
}
