//! Starts that are refused: one report that says how to mend it, a status that is not 0, and nothing changed.

use crate::support::{Instance, choir, ends_within, stderr, stdout, watch};
use choir_proto::event::{Actor, InboxDecided, NewEvent};
use choir_proto::inbox::{Reach, Verdict};
use choir_proto::{EventId, InboxId, Timestamp};
use choir_store::{Expect, Log};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const SCENARIO: &str = r#"{"roles": {"conductor": [{"tool_calls": [
    {"name": "answer", "arguments": {"text": "yes"}}, {"name": "finish", "arguments": {"summary": "done"}}]}]}}"#;

/// A data directory with a log in it, left in order.
pub(crate) fn used() -> TempDir {
    let instance = Instance::start(SCENARIO);
    let run = instance.choir(&["run", "say yes"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let (status, _, directory) = instance.stop();
    assert!(status.success());
    directory
}

pub(crate) fn computer(data: &Path) -> PathBuf {
    std::fs::read_dir(data.join("computers")).unwrap().next().unwrap().unwrap().path()
}

fn up(data: &Path) -> Output {
    refused(choir(data).args(["up", "--listen", "127.0.0.1:0"]))
}

/// What a start says that does not begin; one that does is ended, and the test with it.
fn refused(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(line, "", "it started: {}", stderr(&output));
    output
}

/// One report on standard error, a hint at its end, and nothing that looks like a program that broke.
fn assert_refused(refused: &Output, named: &str, hint: &str) {
    assert_refused_with(1, refused, named, hint);
}

/// The same of a start that no further try will mend.
fn assert_hopeless(refused: &Output, named: &str, hint: &str) {
    assert_refused_with(78, refused, named, hint);
}

fn assert_refused_with(status: i32, refused: &Output, named: &str, hint: &str) {
    let said = stderr(refused);
    assert_eq!((refused.status.code(), stdout(refused).as_str()), (Some(status), ""), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("choir: ")).count(), 1, "one report: {said}");
    assert!(said.contains(named) && said.lines().any(|line| line.starts_with("  ") && line.contains(hint)), "{said}");
    assert!(!said.contains("panicked") && !said.contains("stack backtrace"), "{said}");
    assert!(!said.contains("left behind"), "{said}");
}

/// Every file of a directory with its bytes; a lock may be touched.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file() && !path.ends_with("lock"));
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Overwrites the version in a database's header.
fn make_newer(database: &Path) {
    let mut bytes = std::fs::read(database).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(database, bytes).unwrap();
}

/// Takes the write-ahead log away, so that the file itself is what counts.
pub(crate) fn settle(database: &Path) {
    for extension in ["sqlite-wal", "sqlite-shm"] {
        // There is none after an orderly stop, or an empty one.
        std::fs::remove_file(database.with_extension(extension)).ok();
    }
}

#[test]
fn a_log_from_a_newer_version_is_left_alone() {
    let data = used();
    let log = computer(data.path()).join("log.sqlite");
    settle(&log);
    make_newer(&log);
    let before = std::fs::read(&log).unwrap();
    assert_hopeless(&up(data.path()), "format 99", "newer version");
    assert_eq!(std::fs::read(&log).unwrap(), before, "nothing was changed");
    let rebuild = choir(data.path()).arg("rebuild").output().unwrap();
    assert_refused(&rebuild, "format 99", "newer version");
}

#[test]
fn a_control_database_from_a_newer_version_is_left_alone() {
    let data = used();
    let database = data.path().join("control/control.sqlite");
    settle(&database);
    make_newer(&database);
    let before = contents(&data.path().join("control"));
    assert_refused(&up(data.path()), "version 99", "newer version");
    assert_refused(&choir(data.path()).args(["token", "create"]).output().unwrap(), "version 99", "newer version");
    assert_eq!(contents(&data.path().join("control")), before);
}

/// What `choir doctor` finds of one name.
fn finding(data: &Path, name: &str) -> serde_json::Value {
    let looked = choir(data).args(["doctor", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&looked.stdout).unwrap();
    let found = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn the_doctor_looks_into_every_database_and_leaves_it_as_it_is() {
    let instance = Instance::start_on(used());
    for name in ["database", "log"] {
        assert_eq!(finding(instance.directory.path(), name)["ok"], true, "while it runs: {name}");
    }
    let (_, _, data) = instance.stop();
    let (database, computer) = (data.path().join("control/control.sqlite"), computer(data.path()));
    let log = computer.join("log.sqlite");
    let sound = [&database, &log].map(|file| {
        settle(file);
        std::fs::read(file).unwrap()
    });
    let looked = |name: &str, named: &str, hint: &str| {
        let before = [contents(&data.path().join("control")), contents(&computer)];
        let found = finding(data.path(), name);
        let said = |key: &str, part: &str| found[key].as_str().is_some_and(|said| said.contains(part));
        assert!(found["ok"] == false && said("detail", named) && said("mend", hint), "{name}: {found}");
        assert!([contents(&data.path().join("control")), contents(&computer)] == before, "{name}: nothing is changed");
    };
    make_newer(&database);
    make_newer(&log);
    looked("database", "version 99", "newer version");
    looked("log", "format 99", "newer version");
    for (file, bytes) in [&database, &log].into_iter().zip(&sound) {
        let mut torn = bytes.clone();
        torn[8192..].fill(0xad);
        std::fs::write(file, torn).unwrap();
    }
    looked("database", "damaged", "backup");
    looked("log", "damaged", "backup");
}

#[test]
fn damaged_pages_are_told_and_not_made_worse() {
    let data = used();
    let log = computer(data.path()).join("log.sqlite");
    let before = contents(&computer(data.path()));
    settle(&log);
    let mut torn = std::fs::read(&log).unwrap();
    torn[4096..].fill(0xad);
    for broken in [torn, b"not a database at all, whatever its name says".to_vec()] {
        std::fs::write(&log, &broken).unwrap();
        assert_hopeless(&up(data.path()), "does not start", "backup");
        assert_eq!(std::fs::read(&log).unwrap(), broken);
        let verified = choir(data.path()).arg("verify").output().unwrap();
        let said = format!("{}{}", stdout(&verified), stderr(&verified));
        assert_eq!(verified.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot be read") && said.contains("backup"), "{said}");
    }
    settle(&log);
    for (path, bytes) in before {
        std::fs::write(path, bytes).unwrap();
    }
    let again = Instance::start_on(data);
    assert!(again.choir(&["verify"]).status.success(), "with the file restored nothing is lost");
}

#[test]
fn a_damaged_control_database_is_told_at_the_start() {
    let data = used();
    let database = data.path().join("control/control.sqlite");
    assert_eq!(std::fs::read(database.with_extension("sqlite-wal")).unwrap_or_default(), b"", "a stop leaves one file");
    settle(&database);
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[4096..8192].fill(0xad);
    std::fs::write(&database, &bytes).unwrap();
    assert_refused(&up(data.path()), "damaged", "backup");
    assert_refused(&choir(data.path()).args(["token", "create"]).output().unwrap(), "damaged", "backup");
    std::fs::remove_file(&database).unwrap();
    let again = Instance::start_on(data);
    let events = stdout(&again.choir(&["events", "--json"]));
    assert!(events.contains("run.accepted"), "without it the log is still there: {events}");
}

#[test]
fn a_flipped_bit_in_a_blob_is_found_and_never_served() {
    let instance = Instance::start(SCENARIO);
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("run"));
    let long = format!(r#"{{"title":"long","content":"{}"}}"#, "words ".repeat(20_000));
    assert!(instance.http("POST /api/documents", &bearer, &long).starts_with("HTTP/1.1 201"));
    let (_, _, data) = instance.stop();
    let blobs = computer(data.path()).join("blobs");
    let shard = std::fs::read_dir(&blobs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().len() == 2)
        .unwrap();
    let blob = std::fs::read_dir(shard).unwrap().next().unwrap().unwrap().path();
    let hash = format!(
        "{}{}",
        blob.parent().unwrap().file_name().unwrap().to_str().unwrap(),
        blob.file_name().unwrap().to_str().unwrap()
    );
    let hash = hash[hash.len() - 64..].to_owned();
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[0] ^= 1;
    std::fs::set_permissions(&blob, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&blob, bytes).unwrap();
    let verified = choir(data.path()).arg("verify").output().unwrap();
    assert_eq!(verified.status.code(), Some(1));
    assert!(stdout(&verified).contains("DAMAGED") && stdout(&verified).contains(&hash), "{}", stdout(&verified));
    let instance = Instance::start_on(data);
    let token = instance.token("read");
    let answer = instance.http(&format!("GET /api/blobs/{hash}"), &format!("authorization: Bearer {token}\r\n"), "");
    assert!(
        answer.starts_with("HTTP/1.1 500 ") && answer.contains("\"damaged\"") && answer.contains("choir verify"),
        "{answer}"
    );
}

/// The same binary where the data directory is read-only, or a disk of so many bytes.
pub(crate) fn behind(walls: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/"]).args(walls).arg(env!("CARGO_BIN_EXE_choir"));
    command.env_remove("CHOIR_LOG").env_remove("CHOIR_CONFIG");
    command
}

fn walled(data: &Path, walls: &[&str]) -> Output {
    refused(behind(walls).args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(data))
}

#[test]
fn a_read_only_disk_is_said() {
    let data = used();
    let path = data.path().to_str().unwrap();
    let walls = ["--ro-bind", path, path];
    assert_refused(&walled(data.path(), &walls), "Read-only", "--data");
    // A backup is often mounted like that.
    let verified = behind(&walls).args(["verify", "--data", path]).output().unwrap();
    assert!(verified.status.success(), "{}", stderr(&verified));
    assert!(stdout(&verified).contains("sound"), "{}", stdout(&verified));
}

#[test]
fn a_full_disk_is_said() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    assert_refused(&walled(data.path(), &["--size", "65536", "--tmpfs", path]), "full", "space");
}

/// On a disk of its own with everything in it and so many KiB left: how it ends, and how large the views are then.
fn rebuilt(data: &Path, room: &Path, kib: usize) -> (Output, u64) {
    let script = r#"cp -a "$0/." "$1" && head -c "$2"k /dev/zero > "$1/left"; cat /dev/zero > "$1/fill" 2> /dev/null
        rm "$1/left"; "$3" rebuild --data "$1"; ended=$?; cat "$1"/computers/*/views.sqlite* | wc -c; exit $ended"#;
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/", "--size", "8388608", "--tmpfs"]).arg(room).args(["sh", "-c", script]);
    let kib = kib.to_string();
    command.arg(data).arg(room).args([&kib, env!("CARGO_BIN_EXE_choir")]).env_remove("CHOIR_LOG");
    let ended = command.output().unwrap();
    let size = stdout(&ended).lines().last().unwrap().trim().parse().unwrap();
    (ended, size)
}

/// However little room there is, it is said, and what was not written is not called done.
#[test]
fn views_that_find_no_room_are_not_called_rebuilt() {
    let instance = Instance::start(SCENARIO);
    let headers = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("run"));
    for number in 0..100 {
        let document = format!(r#"{{"title":"{number}","content":"{}"}}"#, "words ".repeat(200));
        assert!(instance.http("POST /api/documents", &headers, &document).starts_with("HTTP/1.1 201"));
    }
    let (_, _, data) = instance.stop();
    let views = std::fs::metadata(computer(data.path()).join("views.sqlite")).unwrap().len();
    let room = tempfile::tempdir().unwrap();
    let mut failures = 0;
    for kib in (0..4096).step_by(20) {
        let (ended, size) = rebuilt(data.path(), room.path(), kib);
        if ended.status.success() {
            assert!(size > views / 2, "with {kib} KiB left {size} of {views} bytes were written");
            break;
        }
        failures += 1;
        let said = stderr(&ended).to_lowercase();
        assert!(ended.status.code() == Some(1) && said.contains("free") && said.contains("space"), "{kib}: {said}");
        assert!(!said.contains("backup"), "{kib}: {said}");
    }
    assert!(failures > 3, "the control: there was too little room at first");
}

#[test]
fn a_key_that_is_none_and_a_directory_that_is_none_are_named() {
    let data = used();
    std::fs::write(data.path().join("control/signing.key"), "short").unwrap();
    assert_refused(&up(data.path()), "signing.key", "backup");
    let file = data.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    assert_refused(&up(&file), "a-file", "--data");
}

#[test]
fn a_scenario_that_is_none_is_named_with_the_place_that_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    let config = "[providers.scripted]\nkind = \"scripted\"\nscript = \"scenario.json\"\n";
    std::fs::write(data.path().join("choir.toml"), config).unwrap();
    assert_refused(&up(data.path()), "scenario.json` of provider `scripted` cannot be read", "");
    for (scenario, wrong) in [
        ("{\"roles\": ", "is not JSON"),
        (r#"{"roles": {"pianist": []}}"#, "pianist"),
        (r#"{"roles": {"conductor": [{"tool_calls": [{"nam": "answer"}]}]}}"#, "roles.conductor[0]"),
        (r#"{"roles": {"conductor": 7}}"#, "expected a sequence"),
    ] {
        std::fs::write(data.path().join("scenario.json"), scenario).unwrap();
        let refused = up(data.path());
        assert!(stderr(&refused).contains(wrong), "{scenario}: {}", stderr(&refused));
        assert_refused(&refused, "scenario.json` of provider `scripted` is wrong", "");
    }
}

#[test]
fn rights_of_others_are_taken_away() {
    let data = used();
    let mode = |path: &str| std::fs::metadata(data.path().join(path)).unwrap().permissions().mode() & 0o777;
    for path in ["control/control.sqlite", "control/seal.key", "control/signing.key"] {
        assert_eq!(mode(path), 0o600, "{path}");
        std::fs::set_permissions(data.path().join(path), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let log = computer(data.path()).join("log.sqlite");
    assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(choir(data.path()).args(["token", "create"]).output().unwrap().status.success());
    for path in ["control/control.sqlite", "control/seal.key", "control/signing.key"] {
        assert_eq!(mode(path), 0o600, "{path}");
    }
}

#[test]
fn a_log_that_is_lost_emptied_or_cut_off_is_not_written_to() {
    let (_, _, data) = Instance::start(SCENARIO).stop();
    let log = computer(data.path()).join("log.sqlite");
    let early = std::fs::read(&log).unwrap();
    let mut instance = Instance::start_on(data);
    assert!(instance.choir(&["run", "say yes"]).status.success());
    let old = watch(instance.computer());
    rustix::process::kill_process(instance.pid(), rustix::process::Signal::KILL).unwrap();
    instance.wait();
    // While it still holds the log's lock, whoever comes next waits for it, and says that first.
    assert!(ends_within(&old, 5));
    let data = instance.directory.path();
    let of_another = std::fs::read(computer(used().path()).join("log.sqlite")).unwrap();
    for harmed in [Some(early), Some(of_another), Some(Vec::new()), None] {
        settle(&log);
        std::fs::remove_file(&log).ok();
        if let Some(bytes) = &harmed {
            std::fs::write(&log, bytes).unwrap();
        }
        assert_hopeless(&up(data), "was seen up to event", "backup");
        assert_eq!(std::fs::read(&log).ok(), harmed, "nothing is written");
        assert_eq!(std::fs::read(log.with_extension("sqlite-wal")).unwrap_or_default(), b"");
        let verified = choir(data).arg("verify").output().unwrap();
        assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
        for chore in [&["rebuild"][..], &["erase", "01890000-0000-7000-8000-000000000000"]] {
            assert_refused(&choir(data).args(chore).output().unwrap(), "was seen up to event", "backup");
            assert_eq!(std::fs::read(&log).ok(), harmed, "nothing is written");
        }
    }
}

/// Words of what is erased while nothing runs are not in what was made of the log either.
#[test]
fn an_erasure_while_nothing_runs_leaves_no_word_in_any_file() {
    const WORD: &str = "OSTRICHKEY42";
    let instance = Instance::start(SCENARIO);
    let (status, _) = instance.api("POST /api/documents", &serde_json::json!({"title": "plan", "content": WORD}));
    assert_eq!(status, 201);
    let found = instance.api(&format!("GET /api/search?q={WORD}"), &serde_json::Value::Null);
    assert!(found.1.to_string().contains(WORD), "{found:?}");
    let holds = |event: &serde_json::Value| event["payload"].to_string().contains(WORD);
    let ids: Vec<String> = instance
        .events()
        .iter()
        .filter(|event| holds(event))
        .map(|event| event["id"].as_str().unwrap().into())
        .collect();
    assert!(!ids.is_empty());
    let (_, _, data) = instance.stop();
    for id in &ids {
        let erased = choir(data.path()).args(["erase", id]).output().unwrap();
        assert!(erased.status.success(), "{}", stderr(&erased));
    }
    for file in std::fs::read_dir(computer(data.path())).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes()), "{}", file.display());
    }
    let verified = choir(data.path()).arg("verify").output().unwrap();
    assert!(verified.status.success(), "{}{}", stdout(&verified), stderr(&verified));
}

#[test]
fn a_computer_that_is_gone_is_not_made_anew() {
    let data = used();
    let directory = computer(data.path());
    std::fs::remove_dir_all(&directory).unwrap();
    assert_hopeless(&up(data.path()), "is gone", "backup");
    assert!(!directory.exists());
    let verified = choir(data.path()).arg("verify").output().unwrap();
    let said = stdout(&verified);
    assert_eq!(verified.status.code(), Some(1), "{said}");
    assert!(said.contains("DAMAGED") && said.contains("is gone"), "{said}");
    std::fs::remove_dir_all(data.path().join("control")).unwrap();
    let nothing = choir(data.path()).arg("verify").output().unwrap();
    assert!(stderr(&nothing).contains("nothing to verify"), "{}", stderr(&nothing));
}

#[test]
fn a_key_that_is_gone_is_named() {
    let data = used();
    std::fs::remove_file(data.path().join("control/signing.key")).unwrap();
    assert_refused(&up(data.path()), "signing.key", "backup");
}

/// What is not signed can be cut off, and nobody notices.
#[test]
fn the_last_event_of_a_stop_is_signed() {
    let data = used();
    let last = choir_store::verify(&computer(data.path()), &[], |_| {}).unwrap().head.unwrap();
    let signed = choir_control::db::heads(data.path(), choir_store::open_reader).unwrap();
    let signed: Vec<_> = signed.iter().map(|head| (head.seq, head.hash)).collect();
    assert_eq!(signed, [last]);
}

/// The process that writes the log is not trusted with what the person decides.
#[tokio::test]
async fn a_decision_that_control_does_not_know_of_is_a_lie() {
    let data = used();
    let verify = || choir(data.path()).arg("verify").output().unwrap();
    assert!(verify().status.success());
    let decided = InboxDecided { inbox_id: InboxId::from([7; 16]), decision: Verdict::Approved { scope: Reach::Once } };
    let forged = NewEvent {
        id: EventId::from([8; 16]),
        at: Timestamp(0),
        actor: Actor::Person,
        run: None,
        task: None,
        cause: None,
        event: decided.into(),
    };
    let log = Log::open(&computer(data.path())).unwrap();
    log.append(vec![forged], Expect::Any).await.unwrap();
    log.close().await;
    let lie = verify();
    assert_eq!(lie.status.code(), Some(1));
    assert!(stdout(&lie).contains("control never asked them"), "{}", stdout(&lie));
}
