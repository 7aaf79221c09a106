//! Processes that die, and what becomes of the others.

use crate::support::{Instance, choir, ends_within, stderr, stdout, watch};
use choir_proto::Timestamp;
use choir_proto::event::{Actor, NewEvent, RunSteered};
use rustix::process::Signal;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "hm"}]}}"#;

#[test]
fn the_computer_dies_with_control() {
    let instance = Instance::start(SCENARIO);
    let computer = watch(instance.computer());
    assert!(!ends_within(&computer, 0));
    rustix::process::kill_process(instance.pid(), Signal::KILL).unwrap();
    assert!(ends_within(&computer, 1), "a computer outlived its control by more than a second");
}

#[test]
fn control_starts_a_dead_computer_again() {
    let instance = Instance::start(SCENARIO);
    let before = stdout(&instance.choir(&["events", "--json"])).lines().count();
    let computer = instance.computer();
    let watched = watch(computer);
    rustix::process::kill_process(computer, Signal::KILL).unwrap();
    assert!(ends_within(&watched, 5));
    let after = instance.choir(&["events", "--json"]);
    assert!(after.status.success(), "{}", stderr(&after));
    assert!(stdout(&after).lines().count() > before, "the new life is in the log");
    assert_ne!(instance.computer(), computer);
}

#[test]
fn a_director_is_a_user_of_its_own_and_reads_what_root_wrote_meanwhile() {
    let instance = Instance::start(SCENARIO);
    let user = |instance: &Instance| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", instance.computer().as_raw_pid())).unwrap();
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:\t")?.split('\t').next()?.parse::<u32>().ok());
        uid.unwrap()
    };
    let workspace = instance.workspace();
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    let (director, sandboxes) = (user(&instance), owner(&workspace));
    assert_eq!(director, owner(workspace.parent().unwrap()), "what it writes is its own");
    match rustix::process::geteuid().is_root() {
        true => assert!(director != 0 && sandboxes != 0 && director != sandboxes),
        false => assert_eq!(director, sandboxes),
    }
    let (_, _, directory) = instance.stop();
    let long = "x".repeat(choir_store::log::PAYLOAD_INLINE_BYTES_MAX + 1);
    write_as_oneself(workspace.parent().unwrap(), &long);

    let instance = Instance::start_on(directory);
    assert_eq!(user(&instance), director);
    assert!(instance.events().iter().any(|event| event["payload"]["text"] == long.as_str()), "it reads the blob");
    let (_, health) = instance.api("GET /health", &serde_json::Value::Null);
    assert_eq!((&health["status"], &health["components"]["confinement"]["status"]), (&"ok".into(), &"ok".into()));
}

/// What a chore on a computer's directory does: it writes a log, a blob and an index.
fn write_as_oneself(directory: &Path, text: &str) {
    let steered = RunSteered { text: text.to_owned() };
    let (id, at) = ("01890a5d-ac96-774b-bcce-b302099a8052".parse().unwrap(), Timestamp(0));
    let event = NewEvent { id, at, actor: Actor::Person, run: None, task: None, cause: None, event: steered.into() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = choir_store::Log::open(directory).unwrap();
        log.append(vec![event], choir_store::Expect::Any).await.unwrap();
        log.close().await;
    });
    close_to_others(&directory.join("blobs"));
}

/// As every command of ours leaves what it makes.
fn close_to_others(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let is_directory = entry.file_type().unwrap().is_dir();
        let mode = if is_directory { 0o700 } else { 0o600 };
        std::fs::set_permissions(entry.path(), PermissionsExt::from_mode(mode)).unwrap();
        if is_directory {
            close_to_others(&entry.path());
        }
    }
}

#[test]
fn a_computer_that_hangs_is_not_said_to_be_well() {
    let instance = Instance::start(SCENARIO);
    let health = || instance.api("GET /health", &serde_json::Value::Null).1;
    let computer = instance.computer();
    rustix::process::kill_process(computer, Signal::STOP).unwrap();
    let said = health();
    rustix::process::kill_process(computer, Signal::CONT).unwrap();
    let part = &said["components"]["computer"];
    assert_eq!((&said["status"], &part["status"]), (&"degraded".into(), &"degraded".into()), "{said}");
    assert_eq!(part["detail"], "does not answer", "{said}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while health()["status"] != "ok" {
        assert!(std::time::Instant::now() < deadline, "{}", health());
    }
    assert_eq!(instance.computer(), computer, "it was only slow");
}

#[test]
fn a_command_that_ended_with_the_computer_is_unknown_and_the_tree_counts_the_restart() {
    let instance = Instance::start(SCENARIO);
    let request = serde_json::json!({"kind": "run", "instruction": "a test", "commands": ["sleep 600; echo done"]});
    let task = instance.begin_task(&request);
    instance.follow(|event| event["kind"] == "tool.started" && event["task"] == task.as_str());
    // The log is told before anything is done: what nobody had begun would rightly be begun now, and not be unknown.
    until_sleeping(&instance, 1);
    let computer = instance.computer();
    rustix::process::kill_process(computer, Signal::KILL).unwrap();
    assert!(ends_within(&watch(computer), 5));
    instance.follow(|event| event["kind"] == "task.finished" && event["task"] == task.as_str());
    let (_, result) = instance.api(&format!("GET /api/tasks/{task}"), &serde_json::Value::Null);
    assert_eq!(result["status"], "unknown", "the platform ended it, not the command itself: {result}");
    let (_, tree) = instance.api("GET /api/supervision", &serde_json::Value::Null);
    let root = &tree["actors"][0];
    assert_eq!((&root["name"], &root["restarts"]), (&"Computer".into(), &1.into()), "{tree}");
    let application = tree["actors"].as_array().unwrap().iter().find(|actor| actor["name"] == "Application");
    assert_eq!(application.unwrap()["parent"], "Computer", "{tree}");
}

#[test]
fn a_stop_lets_the_computer_end_by_itself() {
    let (mut instance, mut log) = Instance::start_piped(SCENARIO);
    let computer = instance.computer();
    assert_ne!(
        rustix::process::getpgid(Some(computer)).unwrap(),
        rustix::process::getpgid(Some(instance.pid())).unwrap()
    );
    rustix::process::kill_process(instance.pid(), Signal::TERM).unwrap();
    assert_eq!(instance.wait().code(), Some(0));
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    assert!(said.contains("stopped") && !said.contains("died") && !said.contains("killed"), "{said}");
}

/// Who closes standard error, or keeps it on a full disk, hears nothing; everything else goes on.
#[test]
fn nobody_who_hears_the_log_is_no_reason_to_fail() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let verified = choir(directory.path()).arg("verify").stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(verified.code(), Some(1), "it says that it could not say it");
    let mut command = choir(directory.path());
    command.stderr(full()).stdin(std::process::Stdio::null());
    let mut instance = Instance::start_by(command, directory);
    let run = serde_json::json!({"prompt": "x"});
    let (status, accepted) = instance.api("POST /api/runs", &run);
    assert_eq!(status, 202, "{accepted}");
    instance.follow(|event| event["kind"] == "run.blocked");
    rustix::process::kill_process(instance.pid(), Signal::TERM).unwrap();
    assert_eq!(instance.wait().code(), Some(0));
}

/// An instance whose parent has done something about SIGHUP, whatever was done about it before us.
fn started_by(env: &str) -> Instance {
    let mut command = std::process::Command::new("/usr/bin/env");
    command.args([env, env!("CARGO_BIN_EXE_choir")]);
    Instance::start_within(command)
}

#[test]
fn a_terminal_that_is_closed_stops_it_in_order() {
    let mut instance = started_by("--default-signal=HUP");
    rustix::process::kill_process(instance.pid(), Signal::HUP).unwrap();
    assert_eq!(instance.wait().code(), Some(0));
}

#[test]
fn whoever_is_not_to_hear_of_a_closed_terminal_goes_on() {
    let instance = started_by("--ignore-signal=HUP");
    rustix::process::kill_process(instance.pid(), Signal::HUP).unwrap();
    assert_eq!(instance.api("GET /health", &serde_json::Value::Null).0, 200);
}

#[test]
fn a_second_sigterm_leaves_the_stop_in_order() {
    let (mut instance, mut log) = Instance::start_piped(SCENARIO);
    let task = serde_json::json!({"kind": "run", "instruction": "a test", "commands": ["sleep 600"]});
    let task = instance.begin_task(&task);
    instance.follow(|event| event["kind"] == "tool.started" && event["task"] == task.as_str());
    rustix::process::kill_process(instance.pid(), Signal::TERM).unwrap();
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it says that it stops");
    }
    // It may have ended already, which is as good.
    rustix::process::kill_process(instance.pid(), Signal::TERM).ok();
    assert_eq!(instance.wait().code(), Some(0));
}

#[test]
fn whoever_asks_twice_does_not_wait() {
    let (mut instance, mut log) = Instance::start_piped(SCENARIO);
    let token = instance.token("admin");
    // A request whose body never comes keeps an orderly stop waiting.
    let mut held = std::net::TcpStream::connect(instance.authority()).unwrap();
    write!(
        held,
        "PUT /api/settings HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: 10\r\n\r\n",
        instance.authority()
    )
    .unwrap();
    held.read_exact(&mut [0; 12]).unwrap();
    let computer = watch(instance.computer());
    rustix::process::kill_process(instance.pid(), Signal::TERM).unwrap();
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it says that it stops");
    }
    rustix::process::kill_process(instance.pid(), Signal::INT).unwrap();
    let asked = std::time::Instant::now();
    assert_eq!(instance.wait().code(), Some(130));
    assert!(asked.elapsed() < std::time::Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(ends_within(&computer, 1), "the computer went with it");
}

#[test]
fn the_computer_is_held_to_its_own_directory() {
    let instance = Instance::start(SCENARIO);
    std::fs::write(instance.workspace().join("mine"), "secret").unwrap();
    let computer = instance.computer().as_raw_pid();
    let status = std::fs::read_to_string(format!("/proc/{computer}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:"), field("CapBnd:")), ("1", "2", "0000000000000000"));
    for namespace in ["user", "mnt", "net", "ipc", "uts", "cgroup"] {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{namespace}")).unwrap();
        assert_ne!(of(&computer.to_string()), of("self"), "{namespace}");
    }
    // Its root as it sees it itself.
    let seen = |path: &Path| {
        let path = PathBuf::from(format!("/proc/{computer}/root{}", path.display()));
        let names = std::fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.file_name()).collect());
        names.unwrap_or_else(|_| Vec::<std::ffi::OsString>::new())
    };
    let workspace = instance.workspace().canonicalize().unwrap();
    let own = workspace.parent().unwrap();
    assert!(seen(own).contains(&"log.sqlite".into()), "the control: its own directory is there");
    assert!(seen(&workspace).is_empty() && std::fs::read_dir(&workspace).unwrap().count() > 0);
    assert!(seen(&own.parent().unwrap().parent().unwrap().join("control")).is_empty());
    assert!(!seen(Path::new("/")).contains(&"usr".into()));
    let (_, health) = instance.api("GET /health", &serde_json::Value::Null);
    assert_eq!(health["components"]["computer"]["status"], "ok", "{health}");
    assert_eq!(health["components"]["confinement"]["status"], "ok", "{health}");
}

/// Lets a program run on a kernel that does not know Landlock: a filter answers for it.
const WITHOUT_LANDLOCK: &str = r#"my $prctl = `uname -m` =~ /^x86_64/ ? 157 : 167;
    my $filter = pack("SCCL" x 4, 0x20,0,0,0, 0x15,0,1,444, 0x06,0,0,0x00050026, 0x06,0,0,0x7fff0000);
    syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, pack("Sx6P", 4, $filter), 0, 0) == 0 or die $!;
    exec @ARGV or die $!;"#;

#[test]
fn a_computer_without_landlock_says_so() {
    let mut command = std::process::Command::new("perl");
    command.args(["-e", WITHOUT_LANDLOCK, env!("CARGO_BIN_EXE_choir")]);
    let instance = Instance::start_within(command);
    let (_, health) = instance.api("GET /health", &serde_json::Value::Null);
    let part = &health["components"]["confinement"];
    assert_eq!((&health["status"], &part["status"]), (&"degraded".into(), &"degraded".into()), "{health}");
    assert!(part["detail"].as_str().unwrap().contains("landlock"), "{health}");
    let (status, _) = instance.api("GET /api/documents", &serde_json::Value::Null);
    assert_eq!(status, 200, "documents open all the same");
    let checked = instance.choir(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let found = |name: &str| report["findings"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    assert!(found("instance")["detail"].as_str().unwrap().contains("confinement"), "{report}");
    assert_eq!(found("landlock")["ok"], true, "the doctor itself sees the kernel as it is: {report}");
    let mut doctor = std::process::Command::new("perl");
    doctor.args(["-e", WITHOUT_LANDLOCK, env!("CARGO_BIN_EXE_choir"), "doctor", "--json"]);
    let checked = doctor.env("CHOIR_DATA", instance.directory.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let landlock = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "landlock").unwrap();
    assert!(landlock["ok"] == false && landlock["mend"].as_str().unwrap().contains("lsm="), "{report}");
}

/// The associate of the terminals is there while one of them needs it, and is made anew for the next.
#[test]
fn the_last_terminal_takes_the_associate_with_it() {
    let instance = Instance::start(SCENARIO);
    let associates = || associates(&instance).len();
    for _ in 0..2 {
        let open = || instance.api("POST /api/terminals", &serde_json::json!({"cols": 80, "rows": 24})).1;
        let ids = [open(), open()].map(|opened| opened["terminal_id"].as_str().unwrap().to_owned());
        let close = |id: &str| instance.api(&format!("DELETE /api/terminals/{id}"), &serde_json::Value::Null).0;
        assert_eq!((close(&ids[0]), associates()), (204, 1), "the other one needs it");
        assert_eq!(close(&ids[1]), 204);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while associates() > 0 {
            assert!(std::time::Instant::now() < deadline, "an associate is left without a terminal");
            std::thread::yield_now();
        }
    }
}

fn associates(instance: &Instance) -> Vec<i32> {
    let is_associate = |pid: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("guest") && line.contains("associate")
    };
    descendants(instance.pid().as_raw_nonzero().get()).into_iter().filter(is_associate).collect()
}

/// Types a line into a terminal: one masked binary frame, whose mask changes nothing.
fn type_line(instance: &Instance, terminal: &str, line: &str) {
    let mut stream = std::net::TcpStream::connect(instance.authority()).unwrap();
    write!(
        stream,
        "GET /api/terminals/{terminal} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        instance.authority(),
        instance.token("run")
    )
    .unwrap();
    let bytes = [line.as_bytes(), b"\n"].concat();
    let length = u8::try_from(bytes.len()).unwrap();
    assert!(length < 126, "it fits into a short frame");
    stream.write_all(&[&[0x82, 0x80 | length, 0, 0, 0, 0], bytes.as_slice()].concat()).unwrap();
    // Everything that it shows, until it ends.
    stream.read_to_end(&mut Vec::new()).unwrap();
}

/// What a person started in a terminal goes on without it, and keeps the associate for as long as that takes.
#[test]
fn what_outlives_its_terminal_takes_the_associate_with_it_when_it_ends() {
    let instance = Instance::start(SCENARIO);
    let (_, opened) = instance.api("POST /api/terminals", &serde_json::json!({"cols": 80, "rows": 24}));
    let associate = watch(rustix::process::Pid::from_raw(associates(&instance)[0]).unwrap());
    let line = "nohup sh -c 'until test -e over; do sleep 0.1; done' >/dev/null 2>&1 & exit";
    type_line(&instance, opened["terminal_id"].as_str().unwrap(), line);
    assert!(!ends_within(&associate, 2), "something goes on in it, for longer than what ends with its shell");
    std::fs::write(instance.workspace().join("over"), "").unwrap();
    assert!(ends_within(&associate, 20), "an associate is left in which nothing goes on");
}

/// Lets a program run where nobody may make namespaces: in one of its own, in which there may be no more.
const WITHOUT_NAMESPACES: &str = r#"my ($uid, $gid) = ($<, (split " ", $()[0]);
    syscall(`uname -m` =~ /^x86_64/ ? 272 : 97, 0x10000000) == 0 or die $!;
    my %said = ("/proc/self/setgroups" => "deny", "/proc/self/uid_map" => "1000 $uid 1", "/proc/self/gid_map" => "1000 $gid 1",
        "/proc/sys/user/max_user_namespaces" => "0");
    for (sort { $b cmp $a } keys %said) { open(my $file, ">", $_) or die "$_: $!"; syswrite($file, $said{$_}) or die "$_: $!" }
    exec @ARGV or die $!;"#;

#[test]
fn where_namespaces_are_forbidden_the_command_that_allows_them_is_said() {
    let within = |arguments: &[&str]| {
        let mut command = std::process::Command::new("perl");
        command.args(["-e", WITHOUT_NAMESPACES, env!("CARGO_BIN_EXE_choir")]).args(arguments);
        command
    };
    let remedy = "sudo sysctl -w user.max_user_namespaces=10000";
    let instance = Instance::start_within(within(&[]));
    let (status, refused) = instance.api("POST /api/terminals", &serde_json::json!({"cols": 80, "rows": 24}));
    assert_eq!((status, &refused["error"]["code"]), (503, &"sandbox_refused".into()), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains(remedy), "{refused}");
    let (_, health) = instance.api("GET /health", &serde_json::Value::Null);
    let part = &health["components"]["sandbox"];
    assert!(part["status"] == "degraded" && part["detail"].as_str().unwrap().contains(remedy), "{health}");
    assert_eq!(instance.api("GET /api/documents", &serde_json::Value::Null).0, 200, "documents open all the same");
    let checked = within(&["doctor", "--json"]).env("CHOIR_DATA", instance.directory.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let sandbox = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "sandbox").unwrap();
    assert_eq!((&sandbox["ok"], &sandbox["mend"]), (&false.into(), &remedy.into()), "{report}");
}

/// Lets a program run with its computers on an overlay, as the root of most containers is one.
const ON_AN_OVERLAY: &str = r#"my ($uid, $gid, $x86) = ($<, (split " ", $()[0], `uname -m` =~ /^x86_64/);
    my ($data, $aside) = ("$ENV{CHOIR_DATA}/computers", "$ENV{CHOIR_DATA}/aside");
    mkdir $_, 0700 for $data, $aside, map { "$aside/$_" } qw(lower upper work);
    syscall($x86 ? 272 : 97, 0x10020000) == 0 or die $!;
    my %said = ("/proc/self/setgroups" => "deny", "/proc/self/uid_map" => "1000 $uid 1", "/proc/self/gid_map" => "1000 $gid 1");
    for (sort { $b cmp $a } keys %said) { open(my $file, ">", $_) or die "$_: $!"; syswrite($file, $said{$_}) or die "$_: $!" }
    my ($kind, $options) = ("overlay", "userxattr,lowerdir=$aside/lower,upperdir=$aside/upper,workdir=$aside/work");
    syscall($x86 ? 165 : 40, $kind, $data, $kind, 0, $options) == 0 or die $!;
    exec @ARGV or die $!;"#;

/// How often it is asked how an instance is before what is expected must have been seen.
const HEALTH_ASKED_MAX: u32 = 5_000;

#[test]
fn where_tasks_can_have_no_layer_that_is_said_and_what_mends_it() {
    let within = |arguments: &[&str]| {
        let mut command = std::process::Command::new("perl");
        command.args(["-e", ON_AN_OVERLAY, env!("CARGO_BIN_EXE_choir")]).args(arguments);
        command
    };
    let remedy = "choir up --data DIRECTORY, on ext4, xfs or btrfs";
    let instance = Instance::start_within(within(&[]));
    let is_said = || instance.http("GET /health", "", "").contains(remedy);
    // It is tried beside everything else.
    assert!((0..HEALTH_ASKED_MAX).any(|_| is_said()), "{}", instance.http("GET /health", "", ""));
    let (status, opened) = instance.api("POST /api/terminals", &serde_json::json!({"cols": 80, "rows": 24}));
    assert!(status < 300 && is_said(), "a terminal that works says nothing of tasks: {opened}");
    let other = tempfile::tempdir().unwrap();
    let data = other.path().join("computers/data");
    let doctor = ["doctor", "--json", "--data", data.to_str().unwrap()];
    let checked = within(&doctor).env("CHOIR_DATA", other.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let sandbox = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "sandbox").unwrap();
    assert_eq!((&sandbox["ok"], &sandbox["mend"]), (&false.into(), &remedy.into()), "{report}");
}

/// Everything that came from a process, as it is now.
fn descendants(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<i32> =
        lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    children.iter().copied().chain(children.iter().flat_map(|child| descendants(*child))).collect()
}

/// Nobody notices that the keeper was killed until it is asked; whoever asks first gets an answer all the same.
#[test]
fn files_are_answered_after_the_keeper_was_killed() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("admin");
    let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/octet-stream\r\n");
    let put = instance.http("PUT /api/files?path=file", &headers, "one");
    assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    let calls = [
        ("GET /api/files?path=file", "one", "one"),
        ("GET /api/files/list", "", "\"file\""),
        ("PUT /api/files?path=file", "two", "seq"),
        ("PUT /api/files?path=d&kind=directory", "", "seq"),
        ("DELETE /api/files?path=file", "", "seq"),
        ("GET /api/files/list", "", "\"d\""),
    ];
    for (line, body, said) in calls {
        for keeper in keepers(&instance) {
            rustix::process::kill_process(keeper, Signal::KILL).unwrap();
        }
        let answer = instance.http(line, &headers, if line.starts_with("PUT") { body } else { "" });
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(said), "{line}: {answer}");
    }
    let gone = instance.http("DELETE /api/files?path=file", &headers, "");
    assert!(gone.starts_with("HTTP/1.1 404"), "what was never there is still not there: {gone}");
}

/// The keeper's processes.
fn keepers(instance: &Instance) -> Vec<rustix::process::Pid> {
    let control = instance.pid().as_raw_pid();
    let is_keeper = |pid: &i32| {
        let said = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        said.windows(6).any(|part| part == b"keeper")
    };
    let found = descendants(control).into_iter().filter(is_keeper).filter_map(rustix::process::Pid::from_raw);
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "there is a keeper");
    found
}

/// Waits until so many `sleep`s run below an instance, and gives everything that runs there.
fn until_sleeping(instance: &Instance, wanted: usize) -> Vec<i32> {
    loop {
        let all = descendants(instance.pid().as_raw_pid());
        if all.iter().filter(|process| named(process) == "sleep\n").count() >= wanted {
            return all;
        }
        std::thread::yield_now();
    }
}

fn named(process: &i32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default()
}

#[test]
fn everything_dies_with_control_whatever_it_is_doing() {
    let mut instance = Instance::start(SCENARIO);
    let commands = ["echo begun > mark; (setsid sleep 1000 &); (env -i setsid sleep 1000 &); sleep 1000"];
    instance.begin_task(&serde_json::json!({"kind": "run", "instruction": "stay", "commands": commands}));
    let all = until_sleeping(&instance, 3);
    // The computer, a keeper, an associate with its shim, a shell and what it has started.
    assert!(all.len() >= 8, "{all:?}");
    // A shell that only started others may be gone by now.
    let watch_one = |pid: &i32| {
        let flags = rustix::process::PidfdFlags::empty();
        Some((rustix::process::pidfd_open(rustix::process::Pid::from_raw(*pid)?, flags).ok()?, *pid))
    };
    let watched: Vec<_> = all.iter().filter_map(watch_one).collect();
    assert!(watched.len() >= 8, "{all:?}");
    rustix::process::kill_process(instance.pid(), Signal::KILL).unwrap();
    for (process, pid) in &watched {
        assert!(ends_within(process, 1), "{} outlived control", named(pid));
    }
    instance.wait();
}
