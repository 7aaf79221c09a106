//! The keeper: snapshots, tasks over them, their results, differences, and merging.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use choir_sandbox::protocol::{EffectId, Ending, GuestRole, SnapshotReport};
use choir_sandbox::runtime::{Guest, Overlay, Runtime, Workspace};
use choir_sandbox::tree::{Change, ContentHash, Node, TreeId};
use tempfile::TempDir;

use crate::support::{path, shell, spec};

/// A keeper on a fresh workspace and store.
pub(crate) struct Kept {
    pub(crate) guest: Guest,
    runtime: Runtime,
    workspace: TempDir,
    store: TempDir,
}

pub(crate) async fn kept() -> Kept {
    let (workspace, store) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let runtime = Runtime::process().expect("a runtime");
    let guest = start_keeper(&runtime, workspace.path(), store.path()).await;
    Kept { guest, runtime, workspace, store }
}

async fn start_keeper(runtime: &Runtime, workspace: &Path, store: &Path) -> Guest {
    let mut spec = spec(GuestRole::Keeper, workspace);
    spec.store = Some(store.into());
    runtime.start(spec).await.expect("starts")
}

pub(crate) fn task(name: &str) -> EffectId {
    EffectId::parse(name).expect("a good id")
}

impl Kept {
    pub(crate) fn live(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let file = self.live(name);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        std::fs::write(file, content).expect("writes");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.live(name)).expect("reads")
    }

    pub(crate) async fn snapshot(&self) -> SnapshotReport {
        self.guest.take_snapshot().await.expect("taken")
    }

    /// An associate on a task's overlay.
    pub(crate) async fn task_sandbox(&self, name: &str, base: TreeId) -> Guest {
        self.guest.prepare_task(&task(name), base).await.expect("prepared");
        let mut spec = spec(GuestRole::Associate, Path::new("/"));
        spec.workspace = Workspace::Overlay(Overlay::of_task(self.store.path(), &task(name), base));
        self.runtime.start(spec).await.expect("starts")
    }

    /// Runs a command as a task over `base` and takes its result.
    pub(crate) async fn run_task(&self, name: &str, base: TreeId, command: &str) -> TreeId {
        let guest = self.task_sandbox(name, base).await;
        let output = guest.exec(shell(command)).await.expect("is sent").collect(10_000).await.expect("ends");
        assert_eq!(output.finished.exit.ending, Ending::Code(0), "{output:?}");
        guest.shutdown().await;
        self.guest.capture_task(&task(name), base).await.expect("captured").tree
    }

    async fn changes(&self, from: TreeId, to: TreeId) -> Vec<(String, Change)> {
        let (from, to) =
            (self.guest.read_tree(from).await.expect("reads"), self.guest.read_tree(to).await.expect("reads"));
        from.changes(&to).into_iter().map(|(path, change)| (path.to_string(), change)).collect()
    }
}

#[tokio::test]
async fn a_tree_holds_everything_but_what_is_derived() {
    let kept = kept().await;
    kept.write("src/main.rs", "fn main() {}");
    kept.write("target/debug/big", "derived");
    kept.write(".git/config", "[core]");
    kept.write("run.sh", "#!/bin/sh");
    std::fs::set_permissions(kept.live("run.sh"), PermissionsExt::from_mode(0o750)).expect("set");
    std::fs::create_dir(kept.live("empty")).expect("made");
    symlink("/nowhere", kept.live("link")).expect("linked");
    rustix::fs::mknodat(rustix::fs::CWD, kept.live("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("made");
    kept.write(".choir-write-1-1", "half of a file, by a keeper that was killed");
    kept.write(".choir-write-notes", "somebody's, whatever it is called");
    let report = kept.snapshot().await;
    assert_eq!((report.skipped, report.skipped_paths), (1, vec![path("pipe")]));
    assert!(!kept.live(".choir-write-1-1").exists(), "what was never finished is cleared away");
    let tree = kept.guest.read_tree(report.tree).await.expect("reads");
    let paths: Vec<_> = tree.iter().map(|(path, _)| path.to_string()).collect();
    let expected =
        [".choir-write-notes", ".git", ".git/config", "empty", "link", "run.sh", "src", "src/main.rs", "target"];
    assert_eq!(paths, expected);
    assert!(matches!(tree.get(&path("run.sh")), Some(Node::File { mode: 0o750, size: 9, .. })));
    assert!(matches!(tree.get(&path("target")), Some(Node::Derived)));
    kept.guest.prepare_task(&task("any"), report.tree).await.expect("prepared");
    let snapshot = kept.store.path().join("snapshots").join(report.tree.to_string());
    assert_eq!(std::fs::read_to_string(snapshot.join("src/main.rs")).expect("reads"), "fn main() {}");
    assert_eq!(std::fs::read_link(snapshot.join("link")).expect("a link"), Path::new("/nowhere"));
    assert!(snapshot.join("empty").is_dir());
    assert!(!snapshot.join("target").exists());
}

#[tokio::test]
async fn only_changed_files_are_read_again_even_by_another_keeper() {
    let kept = kept().await;
    for n in 0..50 {
        kept.write(&format!("file-{n}"), "old");
    }
    // Files changed just now might change again within the clock's step, so make them old.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let first = kept.snapshot().await;
    assert_eq!(first.files_read, 50);
    // What was read a moment after it was written is read once more, and from then on known.
    while kept.snapshot().await.files_read > 0 {}
    kept.write("file-7", "new");
    std::fs::File::options().write(true).open(kept.live("file-7")).expect("opens").set_modified(long_ago).expect("set");
    let second = kept.snapshot().await;
    assert_eq!(second.files_read, 1, "same size, an older time, and yet seen");
    assert_eq!(kept.changes(first.tree, second.tree).await, [("file-7".to_owned(), Change::Modified)]);
    std::fs::remove_file(kept.live("file-9")).expect("removed");
    let third = kept.snapshot().await;
    while kept.snapshot().await.files_read > 0 {}
    let index = std::fs::read_to_string(kept.store.path().join("index")).expect("reads");
    let last = index.lines().rfind(|line| line.starts_with(r#"["file-9","#));
    assert!(last.is_none_or(|line| line.ends_with(",null]")), "what is gone is known to be gone: {last:?}");
    kept.guest.shutdown().await;
    let other = start_keeper(&kept.runtime, kept.workspace.path(), kept.store.path()).await;
    let fourth = other.take_snapshot().await.expect("taken");
    assert_eq!((fourth.tree, fourth.files_read), (third.tree, 0));
}

#[tokio::test]
async fn a_file_that_is_looked_at_again_to_be_sure_is_not_stored_again() {
    let kept = kept().await;
    kept.write("file", "content");
    let first = kept.snapshot().await;
    let hash = ContentHash::of(b"content").to_string();
    let mode = kept.live("file").metadata().expect("there").permissions().mode() & 0o777;
    let object = kept.store.path().join(format!("objects/{}/{hash}-{mode:03o}", &hash[..2]));
    let inode = object.metadata().expect("stored").ino();
    while kept.snapshot().await.files_read > 0 {}
    assert_eq!(object.metadata().expect("stored").ino(), inode);
    kept.write("file", "CONTENT");
    assert_eq!(kept.changes(first.tree, kept.snapshot().await.tree).await, [("file".to_owned(), Change::Modified)]);
}

#[tokio::test]
async fn a_task_changes_its_layer_and_nothing_else() {
    let kept = kept().await;
    kept.write("kept", "kept");
    kept.write("changed", "old");
    kept.write("gone/deep/file", "gone");
    kept.write("replaced/inside", "x");
    let base = kept.snapshot().await.tree;
    let command = "echo new > changed; rm -r gone; rm -r replaced; mkdir replaced; echo y > replaced/other; \
                   mkdir -p made/empty; ln -s away link; echo '#!' > tool; chmod 755 tool; mkdir target; echo > target/x; \
                   mkdir gone; echo again > gone/other";
    let result = kept.run_task("one", base, command).await;
    let mut expected = vec![
        ("changed", Change::Modified),
        ("gone/deep", Change::Deleted),
        ("gone/deep/file", Change::Deleted),
        ("gone/other", Change::Added),
        ("link", Change::Added),
        ("made", Change::Added),
        ("made/empty", Change::Added),
        ("replaced/inside", Change::Deleted),
        ("replaced/other", Change::Added),
        ("tool", Change::Added),
    ];
    expected.sort_by_key(|(path, _)| *path);
    let found = kept.changes(base, result).await;
    assert_eq!(found.iter().map(|(path, change)| (path.as_str(), *change)).collect::<Vec<_>>(), expected);
    assert_eq!(kept.read("changed"), "old");
    assert!(kept.live("gone/deep/file").exists());
    assert_eq!(kept.snapshot().await.tree, base);
}

/// Who may not read a file has not removed it.
#[tokio::test]
async fn what_a_task_forbids_itself_to_read_is_kept() {
    let kept = kept().await;
    kept.write("file", "precious");
    kept.write("folder/inside", "precious");
    let base = kept.snapshot().await.tree;
    let command =
        "chmod 000 file; chmod 000 folder; mkdir -p new/deep; echo x > new/deep/file; chmod 000 new/deep/file new/deep";
    let result = kept.run_task("closed", base, command).await;
    let found = kept.changes(base, result).await;
    let found: Vec<_> = found.iter().map(|(path, change)| (path.as_str(), *change)).collect();
    let expected = [
        ("file", Change::Modified),
        ("folder", Change::Modified),
        ("new", Change::Added),
        ("new/deep", Change::Added),
        ("new/deep/file", Change::Added),
    ];
    assert_eq!(found, expected);
    let tree = kept.guest.read_tree(result).await.expect("reads");
    assert!(matches!(tree.get(&path("file")), Some(Node::File { mode: 0, size: 8, .. })));
    assert!(matches!(tree.get(&path("folder")), Some(Node::Directory { mode: 0 })));
}

/// As Go's module cache is, and keys are.
#[tokio::test]
async fn what_its_owner_may_not_change_or_read_is_merged_taken_back_and_merged_again() {
    let kept = kept().await;
    kept.write("locked/file", "before");
    kept.write("locked/gone/file", "before");
    kept.write("hidden/file", "before");
    kept.write("key", "before");
    let close = |path: &str, mode| std::fs::set_permissions(kept.live(path), PermissionsExt::from_mode(mode));
    for (path, mode) in [("locked/gone", 0o555), ("locked", 0o555), ("hidden", 0o000), ("key", 0o000)] {
        close(path, mode).expect("closed");
    }
    let base = kept.snapshot().await;
    assert_eq!(base.skipped, 0, "{base:?}");
    let command = "chmod u+w locked locked/gone; echo after > locked/file; rm -r locked/gone; chmod 555 locked; \
        rm -f key; chmod 700 hidden; echo after > hidden/file; chmod 000 hidden; \
        mkdir -p new/deep; echo x > new/deep/x; echo s > new/secret; chmod 000 new/secret; chmod -R a-w new";
    let result = kept.run_task("closed", base.tree, command).await;
    for (from, to) in [(base.tree, result), (result, base.tree), (base.tree, result)] {
        let report = kept.guest.merge(from, to, false).await.expect("merged");
        assert_eq!((report.conflicts.len(), report.already), (0, 0), "{report:?}");
        assert_eq!(kept.snapshot().await.tree, to, "modes and all");
    }
    // One that was broken off leaves doors open, and finds them so.
    kept.guest.merge(result, base.tree, false).await.expect("taken back");
    close("locked", 0o755).expect("opened");
    let report = kept.guest.merge(base.tree, result, true).await.expect("merged");
    assert_eq!((report.conflicts.len(), kept.snapshot().await.tree), (0, result), "{report:?}");
}

#[tokio::test]
async fn a_workspace_that_is_forbidden_to_its_owner_is_read_all_the_same() {
    let kept = kept().await;
    kept.write("file", "x");
    let base = kept.snapshot().await.tree;
    std::fs::set_permissions(kept.workspace.path(), PermissionsExt::from_mode(0o000)).expect("closed");
    assert_eq!(kept.snapshot().await.tree, base);
    let result = kept.run_task("closed", base, "echo y > file; chmod 000 .").await;
    assert_eq!(kept.changes(base, result).await, [("file".to_owned(), Change::Modified)]);
}

#[tokio::test]
async fn a_task_does_not_see_what_happens_to_the_live_directory() {
    let kept = kept().await;
    kept.write("file", "before");
    let base = kept.snapshot().await.tree;
    let guest = kept.task_sandbox("two", base).await;
    std::fs::write(kept.live("file"), "after").expect("writes");
    kept.write("new", "new");
    let output = guest.exec(shell("cat file; ls")).await.expect("is sent").collect(1000).await.expect("ends");
    assert_eq!(output.stdout, b"beforefile\n");
}

#[tokio::test]
async fn a_killed_task_keeps_what_it_wrote() {
    let kept = kept().await;
    kept.write("file", "before");
    let base = kept.snapshot().await.tree;
    let guest = kept.task_sandbox("three", base).await;
    let mut handle = guest.exec(shell("echo half > file; echo done; exec sleep 1000")).await.expect("is sent");
    handle.next().await.expect("has written");
    guest.terminate().await;
    // Taken as it is, and gone on with by a new sandbox.
    let half = kept.guest.capture_task(&task("three"), base).await.expect("captured").tree;
    assert_eq!(kept.changes(base, half).await, [("file".to_owned(), Change::Modified)]);
    let result = kept.run_task("three", base, "grep -q half file && echo rest >> file").await;
    kept.guest.merge(base, result, false).await.expect("merged");
    assert_eq!(kept.read("file"), "half\nrest\n");
    kept.guest.drop_task(&task("three")).await.expect("dropped");
    assert!(std::fs::read_dir(kept.store.path().join("tasks")).expect("lists").next().is_none());
}

#[tokio::test]
async fn a_merge_applies_what_it_can_and_names_the_rest() {
    let kept = kept().await;
    for name in ["a", "b", "c", "d", "dir/x"] {
        kept.write(name, "base");
    }
    let base = kept.snapshot().await.tree;
    let command = "for f in a b c; do echo task > $f; done; rm d; rm -r dir; echo n > new; mkdir -p deep/er; echo f > deep/er/f; ln -s a l";
    let result = kept.run_task("four", base, command).await;
    kept.write("b", "person");
    kept.write("c", "task\n");
    kept.write("dir/mine", "person");
    let report = kept.guest.merge(base, result, false).await.expect("merged");
    let conflicts: Vec<_> = report.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts, ["dir", "b"]);
    // What nobody but the person changed was not there when the result was checked.
    let meanwhile: Vec<_> = report.meanwhile.iter().map(ToString::to_string).collect();
    assert_eq!(meanwhile, ["dir/mine"]);
    assert_eq!(report.already, 1);
    assert_eq!((kept.read("a"), kept.read("b"), kept.read("c")), ("task\n".into(), "person".into(), "task\n".into()));
    assert!(!kept.live("d").exists());
    assert!(!kept.live("dir/x").exists());
    assert_eq!(kept.read("dir/mine"), "person");
    assert_eq!(kept.read("deep/er/f"), "f\n");
    assert_eq!(std::fs::read_link(kept.live("l")).expect("a link"), Path::new("a"));
    // Undone, everything but the person's own is as before; done again, it is done again.
    kept.guest.merge(result, base, false).await.expect("undone");
    assert_eq!((kept.read("a"), kept.read("b"), kept.read("d")), ("base".into(), "person".into(), "base".into()));
    assert!(!kept.live("new").exists() && !kept.live("deep").exists());
    kept.guest.merge(base, result, false).await.expect("merged");
    assert_eq!(kept.read("a"), "task\n");
}

#[tokio::test]
async fn a_merge_follows_no_link_out() {
    let kept = kept().await;
    let outside = tempfile::tempdir().expect("a directory");
    kept.write("dir/file", "base");
    let base = kept.snapshot().await.tree;
    let result = kept.run_task("five", base, "echo task > dir/file; echo new > dir/new").await;
    std::fs::remove_dir_all(kept.live("dir")).expect("removed");
    symlink(outside.path(), kept.live("dir")).expect("linked");
    let report = kept.guest.merge(base, result, false).await.expect("merged");
    assert_eq!((report.applied, report.conflicts.len()), (0, 2));
    assert!(std::fs::read_dir(outside.path()).expect("lists").next().is_none());
}

#[tokio::test]
async fn a_difference_applied_by_git_gives_the_same_tree() {
    let kept = kept().await;
    let numbers = |range: std::ops::Range<u32>| range.map(|n| format!("line {n}\n")).collect::<String>();
    kept.write("text", numbers(0..200));
    kept.write("no newline", "one\ntwo");
    kept.write("returns", "a\r\nb\rc\r\n");
    kept.write("binary", [0_u8, 1, 2, 255].repeat(30_000));
    kept.write("gone.bin", [0_u8; 100]);
    kept.write("latin", b"caf\xe9\n");
    kept.write("empty", "");
    kept.write("mode", "x\n");
    kept.write("becomes-link", "x\n");
    kept.write("quote \"\u{e9}\\\t", "x\n");
    let base = kept.snapshot().await.tree;
    let command = "sed -i -e 3d -e 's/^line 100$/changed/' -e '$a last' text; printf 'one\\ntwo\\nthree' > 'no newline'; \
        printf 'a\\r\\nB\\rc\\r\\n' > returns; printf '\\000new' >> binary; rm gone.bin; printf 'th\\351\\n' >> latin; \
        echo full > empty; chmod 755 mode; ln -sf text becomes-link; echo y >> \"$(printf 'quote \"\\303\\251\\\\\\t')\"; \
        head -c 100000 /dev/urandom > random; : > nothing; echo deep > a; mkdir -p p/q .git p/.GIT; echo r > p/q/r; \
        echo '[core]' | tee .git/config > p/.GIT/config";
    let result = kept.run_task("six", base, command).await;
    let diff = kept.guest.diff(base, result).await.expect("a difference");
    let patch = kept.store.path().join("patch");
    std::fs::write(&patch, &diff).expect("writes");
    let applied =
        Command::new("git").arg("apply").arg(&patch).current_dir(kept.workspace.path()).output().expect("runs");
    assert!(
        applied.status.success(),
        "{applied:?}\n{}",
        String::from_utf8_lossy(&diff).chars().take(3000).collect::<String>()
    );
    let left = kept.changes(kept.snapshot().await.tree, result).await;
    let left: Vec<_> = left.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(left, [".git", ".git/config", "p/.GIT", "p/.GIT/config"], "what git never applies");
    assert!(diff.starts_with(b"Without 4 changes in `.git`"), "and it is said");
    assert_eq!(kept.guest.diff(result, result).await.expect("a difference"), "");
}

/// What a tree holds or a live file has stays, whoever is gone; where a tree cannot be read everything does.
#[tokio::test]
async fn room_is_given_back_of_what_no_tree_holds() {
    let kept = kept().await;
    kept.write("old", "in the old tree alone");
    kept.write("live", "in every tree");
    let old = kept.snapshot().await.tree;
    std::fs::remove_file(kept.live("old")).expect("removed");
    let new = kept.snapshot().await.tree;
    assert_eq!(kept.guest.drop_contents().await.expect("done").contents, 0, "both trees are kept");
    kept.guest.drop_trees(vec![old, old]).await.expect("dropped, once and again");
    let dropped = kept.guest.drop_contents().await.expect("done");
    assert!(dropped.contents == 1 && dropped.bytes > 0, "{dropped:?}");
    assert!(kept.guest.read_tree(old).await.is_err());
    assert_eq!(kept.guest.read_content(new, &path("live"), 100).await.expect("reads"), "in every tree");

    // The live directory's own tree is named by nobody; the next one is made of what is still there.
    kept.guest.drop_trees(vec![new]).await.expect("dropped");
    assert_eq!(kept.guest.drop_contents().await.expect("done").contents, 0, "a live file has it");
    assert_eq!(kept.snapshot().await.tree, new);
    assert_eq!(kept.guest.read_content(new, &path("live"), 100).await.expect("reads"), "in every tree");

    kept.write("other", "more");
    let more = kept.snapshot().await.tree;
    std::fs::remove_file(kept.live("other")).expect("removed");
    kept.snapshot().await;
    kept.guest.drop_trees(vec![more]).await.expect("dropped");
    std::fs::write(kept.store.path().join(format!("trees/{new}")), "damaged").expect("writes");
    assert!(kept.guest.drop_contents().await.is_err(), "nobody knows what it holds");
    std::fs::remove_file(kept.store.path().join(format!("trees/{new}"))).expect("removed");
    assert_eq!(kept.guest.drop_contents().await.expect("done").contents, 1, "it had stayed");
}

/// What a difference cannot carry it names, and git does not make half a tree of it unless it is told to.
#[tokio::test]
async fn a_difference_that_is_too_large_says_so_and_is_not_applied_by_halves() {
    let kept = kept().await;
    kept.write("small", "before\n");
    let base = kept.snapshot().await.tree;
    let command = "echo after > small; head -c 73400320 /dev/urandom > huge; \
        for n in 1 2 3 4 5; do head -c 15000000 /dev/urandom > big$n; done";
    let result = kept.run_task("large", base, command).await;
    let diff = kept.guest.diff(base, result).await.expect("a difference");
    let said = String::from_utf8_lossy(&diff[..diff.len().min(300)]).into_owned();
    assert!(said.starts_with("This difference is not whole.") && said.contains("big4, big5, huge."), "{said}");
    let patch = kept.store.path().join("patch");
    std::fs::write(&patch, &diff).expect("writes");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("apply").args(arguments).arg(&patch).current_dir(kept.workspace.path()).output().expect("runs")
    };
    assert!(!git(&[]).status.success() && !kept.live("big1").exists(), "all of it or nothing");
    let rest = git(&["--exclude=huge", "--exclude=big4", "--exclude=big5"]);
    assert!(rest.status.success(), "{rest:?}");
    let left: Vec<_> = kept.changes(kept.snapshot().await.tree, result).await;
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(said.contains(&format!("/api/trees/diff?from={base}&to={result}")), "{said}");
}

/// Reads a difference in parts, as long as there are any.
async fn whole_diff(kept: &Kept, from: TreeId, to: TreeId) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let (part, last) = kept.guest.whole_diff(from, to, whole.len() as u64).await.expect("a part");
        whole.extend_from_slice(&part);
        if last {
            return whole;
        }
    }
}

fn apply(kept: &Kept, diff: &[u8]) -> std::process::Output {
    let patch = kept.store.path().join("patch");
    std::fs::write(&patch, diff).expect("writes");
    Command::new("git").arg("apply").arg(&patch).current_dir(kept.workspace.path()).output().expect("runs")
}

/// Whatever the size: added, changed, deleted, renamed, with other permissions, and all that without holding it.
#[tokio::test]
async fn a_difference_in_parts_carries_files_of_any_size() {
    const SIZE: usize = 40 << 20;
    let kept = kept().await;
    let content = |seed: usize| (0..SIZE).map(|at| (at * seed / 7 % 253) as u8).collect::<Vec<u8>>();
    for (name, seed) in [("changed", 3), ("deleted", 5), ("renamed", 9), ("mode", 11)] {
        kept.write(name, content(seed));
    }
    kept.write("a line", "before\n");
    let base = kept.snapshot().await.tree;
    let command = "printf x >> changed; rm deleted; mkdir d; mv renamed 'd/of another name'; chmod 755 mode 'd/of another name'; \
        tail -c 41943000 changed > added; echo after > 'a line'";
    let result = kept.run_task("any-size", base, command).await;
    let bounded = kept.guest.diff(base, result).await.expect("a difference");
    assert!(bounded.starts_with(b"This difference is not whole."), "two such files have no room in it");
    let whole = whole_diff(&kept, base, result).await;
    let carried = 2 * SIZE * 5 / 4;
    assert!(
        (carried..carried + carried / 20).contains(&whole.len()),
        "two files are carried, once each: {}",
        whole.len()
    );
    let applied = apply(&kept, &whole);
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(kept.changes(kept.snapshot().await.tree, result).await, []);

    // A part that does not follow the one before is not made up.
    assert!(kept.guest.whole_diff(base, result, 1 << 20).await.is_err());
    assert_eq!(whole_diff(&kept, result, result).await, b"");
}

/// One large file has room in a difference that is held as a whole, and parts of any other difference say the same.
#[tokio::test]
async fn a_difference_carries_a_large_file() {
    let kept = kept().await;
    kept.write("small", "x\n");
    let base = kept.snapshot().await.tree;
    let result =
        kept.run_task("one", base, "head -c 41943040 /dev/urandom > big; echo y > small; chmod 600 small").await;
    let diff = kept.guest.diff(base, result).await.expect("a difference");
    assert_eq!(whole_diff(&kept, base, result).await, diff);
    let applied = apply(&kept, &diff);
    assert!(applied.status.success(), "{applied:?}");
    let big = path("big");
    let (live, wanted) = (kept.snapshot().await.tree, kept.guest.read_tree(result).await.expect("reads"));
    assert_eq!(kept.guest.read_tree(live).await.expect("reads").get(&big), wanted.get(&big));
}

#[tokio::test]
async fn an_associate_has_no_store_and_no_trees() {
    let sandbox = crate::support::associate().await;
    assert!(sandbox.guest.take_snapshot().await.is_err());
    let kept = kept().await;
    let mut other = spec(GuestRole::Associate, kept.workspace.path());
    other.store = Some(kept.store.path().into());
    assert!(kept.runtime.start(other).await.is_err());
}

#[tokio::test]
async fn a_huge_file_of_nothing_stays_small_and_a_larger_one_is_left_out() {
    use std::os::unix::fs::MetadataExt;
    let kept = kept().await;
    kept.write("small", "x");
    let hole = std::fs::File::create(kept.live("hole")).expect("made");
    hole.set_len(256 << 20).expect("grown");
    let beyond = std::fs::File::create(kept.live("beyond")).expect("made");
    beyond.set_len(1 << 40).expect("grown");
    let report = kept.snapshot().await;
    let tree = kept.guest.read_tree(report.tree).await.expect("reads");
    assert_eq!((report.skipped, tree.get(&path("beyond"))), (1, None));
    let Some(Node::File { size, hash, mode }) = tree.get(&path("hole")) else { panic!("{tree:?}") };
    assert_eq!(*size, 256 << 20);
    let object = kept.store.path().join(format!("objects/{}/{hash}-{mode:03o}", &hash.to_string()[..2]));
    let stored = std::fs::metadata(object).expect("is there");
    assert_eq!(stored.len(), 256 << 20);
    assert!(stored.blocks() * 512 < 1 << 20, "{} blocks for nothing", stored.blocks());
}

#[tokio::test]
async fn old_snapshots_that_no_task_needs_are_given_back_and_made_again() {
    let kept = kept().await;
    let mut trees = Vec::new();
    for number in 0..7 {
        kept.write("file", number.to_string());
        let tree = kept.snapshot().await.tree;
        kept.guest.prepare_task(&task(&format!("t{number}")), tree).await.expect("prepared");
        trees.push(tree);
    }
    let exists = |tree: &TreeId| kept.store.path().join("snapshots").join(tree.to_string()).exists();
    kept.guest.drop_snapshots(vec![trees[0]]).await.expect("dropped");
    let left: Vec<bool> = trees.iter().map(exists).collect();
    assert_eq!(left, [true, false, false, true, true, true, true], "what is needed, and the newest");
    kept.run_task("again", trees[1], "grep -q 1 file").await;
    assert!(exists(&trees[1]));
}

#[tokio::test]
async fn a_keeper_waits_until_the_one_before_has_gone() {
    let kept = kept().await;
    let (runtime, workspace) = (kept.runtime.clone(), kept.workspace.path().to_owned());
    let store = kept.store.path().to_owned();
    let next = tokio::spawn(async move { start_keeper(&runtime, &workspace, &store).await });
    for round in 0..50 {
        kept.write("file", round.to_string());
        kept.snapshot().await;
    }
    assert!(!next.is_finished(), "two keepers are in one store");
    kept.guest.shutdown().await;
    let next = next.await.expect("starts");
    next.take_snapshot().await.expect("taken");
}

#[tokio::test]
async fn a_result_is_checked_with_what_is_named_as_it_was_before() {
    let kept = kept().await;
    kept.write("tests/deep/test", "strict");
    kept.write("code", "old");
    let base = kept.snapshot().await.tree;
    let work = "rm -r tests; echo > tests; echo new > code; mkdir .cargo; echo fake > .cargo/config.toml";
    let result = kept.run_task("liar", base, work).await;
    let from_base = vec![path("tests/deep/test"), path(".cargo/config.toml")];
    let checked = kept.guest.check_tree(base, result, from_base).await.expect("made").tree;
    let content = async |tree, name: &str| kept.guest.read_content(tree, &path(name), 100).await;
    assert_eq!(content(checked, "tests/deep/test").await.expect("reads"), "strict");
    assert_eq!(content(checked, "code").await.expect("reads"), "new\n");
    assert!(content(checked, ".cargo/config.toml").await.is_err());
    assert!(kept.guest.read_content(base, &path("tests/deep/test"), 3).await.is_err(), "longer than wanted");
    kept.run_task("check", checked, "grep -q strict tests/deep/test && grep -q new code").await;
}
