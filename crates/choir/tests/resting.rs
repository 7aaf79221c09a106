//! What is looked at while nothing runs: it answers, whatever the disk is like, and is afterwards as it was.

use crate::refusing::{behind, computer, settle, used};
use crate::support::{choir, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Commands that only look.
const LOOKS: [&[&str]; 3] = [&["verify"], &["events", "--json"], &["token", "list"]];

/// Every name beneath a directory.
fn names(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(names(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Data that was left in order, with nothing beside its databases.
fn at_rest() -> tempfile::TempDir {
    let data = used();
    settle(&data.path().join("control/control.sqlite"));
    settle(&computer(data.path()).join("log.sqlite"));
    assert!(choir(data.path()).args(["token", "create", "--name", "ci"]).output().unwrap().status.success());
    data
}

fn assert_answers(looked: &Output, arguments: &[&str]) {
    assert!(looked.status.success(), "{arguments:?}: {}", stderr(looked));
    let expected = match arguments[0] {
        "verify" => "sound",
        "events" => "run.accepted",
        _ => "ci",
    };
    assert!(stdout(looked).contains(expected), "{arguments:?}: {}", stdout(looked));
}

#[test]
fn looking_leaves_nothing_behind() {
    let data = at_rest();
    let before = names(data.path());
    for arguments in LOOKS {
        assert_answers(&choir(data.path()).args(arguments).output().unwrap(), arguments);
        assert_eq!(names(data.path()), before, "{arguments:?}");
    }
}

#[test]
fn what_is_on_a_read_only_disk_can_be_looked_at() {
    let data = at_rest();
    let path = data.path().to_str().unwrap();
    let walls = ["--ro-bind", path, path];
    // Without the lock, which could not be made either.
    for lock in ["there", "gone"] {
        if lock == "gone" {
            std::fs::remove_file(data.path().join("control/lock")).unwrap();
        }
        for arguments in LOOKS {
            let looked = behind(&walls).args(arguments).args(["--data", path]).output().unwrap();
            assert_answers(&looked, arguments);
        }
    }
    let changed = behind(&walls).args(["rebuild", "--json", "--data", path]).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&changed.stderr).unwrap();
    assert_eq!(told["error"]["code"], "no_data_directory", "{told}");
    assert!(told["error"]["hint"].as_str().unwrap().contains("you may write to"), "{told}");
}

#[test]
fn what_is_on_a_full_disk_can_be_looked_at() {
    let data = at_rest();
    let room = tempfile::tempdir().unwrap();
    for arguments in LOOKS {
        let script =
            r#"cp -a "$0/." "$1"; cat /dev/zero > "$1/fill" 2> /dev/null; data="$1"; shift; exec "$@" --data "$data""#;
        let mut command = Command::new("bwrap");
        command.args(["--dev-bind", "/", "/", "--size", "8388608", "--tmpfs"]).arg(room.path());
        command.args(["sh", "-c", script]).arg(data.path()).arg(room.path()).arg(env!("CARGO_BIN_EXE_choir"));
        assert_answers(&command.args(arguments).env_remove("CHOIR_LOG").output().unwrap(), arguments);
    }
}

#[test]
fn whoever_runs_is_not_read_behind_their_back() {
    let data = at_rest();
    let lock = std::fs::File::open(data.path().join("control/lock")).unwrap();
    lock.lock().unwrap();
    let path = data.path().to_str().unwrap();
    for walls in [&[][..], &["--ro-bind", path, path]] {
        let refused = behind(walls).args(["events", "--json", "--data", path]).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
        assert_eq!(told["error"]["code"], "in_use", "{told}");
    }
}

#[test]
fn a_log_or_a_key_that_is_gone_is_named_by_whoever_verifies() {
    let data = at_rest();
    let (key, away) = (data.path().join("control/signing.key"), data.path().join("control/away"));
    std::fs::rename(&key, &away).unwrap();
    let keyless = choir(data.path()).arg("verify").output().unwrap();
    let said = stderr(&keyless);
    assert!(keyless.status.code() == Some(1) && said.contains("signing.key") && said.contains("backup"), "{said}");
    std::fs::rename(&away, &key).unwrap();
    std::fs::remove_file(computer(data.path()).join("log.sqlite")).unwrap();
    let verified = choir(data.path()).arg("verify").output().unwrap();
    let said = stdout(&verified);
    assert_eq!(verified.status.code(), Some(1), "{said}");
    assert!(said.contains("DAMAGED") && said.contains("log.sqlite is gone, but control signed event"), "{said}");
}
