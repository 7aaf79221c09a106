//! What works without a running instance, and what is refused.

use crate::support::{Instance, choir, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn a_token_is_made_whether_or_not_an_instance_runs() {
    let directory = tempfile::tempdir().unwrap();
    let made = choir(directory.path()).args(["token", "create", "--name", "ci", "--scope", "read"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let token = stdout(&made);
    assert!(token.starts_with("choir_") && token.trim().len() == 70, "{token}");
    let json = choir(directory.path()).args(["token", "create", "--json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["scope"], "run");
    let wrong = choir(directory.path()).args(["token", "create", "--scope", "root"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_bad_configuration_stops_the_start_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("choir.toml");
    for (text, named) in [
        ("[budget]\nusd_per_runn = 1\n", "usd_per_runn"),
        ("[runtime]\nmode = \"tee\"\n", "runtime.mode"),
        ("[models]\ndefault = \"nope/x\"\n", "`models.default` is `nope/x`"),
        ("[providers.x]\nkind = \"scripted\"\nscript = \"missing.json\"\n", "missing.json"),
    ] {
        std::fs::write(&file, text).unwrap();
        // Whoever looks first is told the same.
        let looked = choir(directory.path()).args(["doctor", "--json"]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&looked.stdout).unwrap();
        let found = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "configuration").unwrap();
        assert!(found["ok"] == false && found["detail"].as_str().unwrap().contains(named), "{found}");
        assert!(found["mend"].as_str().unwrap().contains("choir.toml") || !text.contains("models"), "{found}");
        let refused = choir(directory.path()).args(["up", "--listen", "127.0.0.1:0"]).output().unwrap();
        assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(1), ""), "{text}");
        assert!(stderr(&refused).contains(named), "{}", stderr(&refused));
        let left = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["choir.toml"], "nothing is made");
    }
}

#[test]
fn an_instance_that_does_not_run_is_said_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let refused = choir(directory.path()).args(["events"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("choir up"), "{}", stderr(&refused));
    let json = choir(directory.path()).args(["events", "--json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert!(value["error"]["hint"].as_str().unwrap().contains("choir up"));
    assert_eq!(value["error"]["code"], "not_running");
}

/// Programs decide by the code: the instance's own, or one for what the command line found itself.
#[test]
fn a_refusal_has_a_code_of_its_own() {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "hm"}]}}"#);
    let nobody = "01a1e211-f0ad-7b38-a58d-ccb88928412a";
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(choir(elsewhere.path()).args(["token", "create"]).output().unwrap().status.success());
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("mine"), "").unwrap();
    let here = instance.directory.path();
    let letters = elsewhere.path().join("letters.txt");
    std::fs::write(&letters, "dear all\n").unwrap();
    let held = std::fs::File::create(elsewhere.path().join("held.jsonl")).unwrap();
    held.lock().unwrap();
    for (data, arguments, code) in [
        (here, &["events", "--to", letters.to_str().unwrap()][..], "foreign_file"),
        (here, &["events", "--to", elsewhere.path().to_str().unwrap()], "is_directory"),
        (here, &["events", "--to", elsewhere.path().join("held.jsonl").to_str().unwrap()], "in_use"),
        (here, &["events", "--after", "99999"], "beyond_head"),
        (here, &["trace", nobody], "not_found"),
        (here, &["rebuild"], "in_use"),
        (elsewhere.path(), &["erase", nobody], "not_found"),
        (foreign.path(), &["token", "create"], "foreign_directory"),
        (elsewhere.path(), &["events", "--url", "http://127.0.0.1:1", "--token", "x"], "not_reached"),
        (elsewhere.path(), &["events", "--url", "ftp://127.0.0.1:1", "--token", "x"], "bad_url"),
        (elsewhere.path(), &["events", "--url", "http://127.0.0.1:1"], "no_token"),
        (&elsewhere.path().join("none"), &["verify"], "no_data_directory"),
    ] {
        let refused = choir(data).args(arguments).arg("--json").output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
        assert_eq!((&told["error"]["code"], refused.status.code()), (&code.into(), Some(1)), "{arguments:?}: {told}");
        assert!(!told["error"]["hint"].as_str().unwrap().contains("choir doctor"), "{arguments:?}: {told}");
    }
    assert_eq!(std::fs::read_to_string(&letters).unwrap(), "dear all\n");
}

#[test]
fn a_directory_without_a_computer_is_said_to_have_none() {
    let directory = tempfile::tempdir().unwrap();
    assert!(choir(directory.path()).args(["token", "create"]).output().unwrap().status.success());
    for (chore, listed) in [("verify", "faults"), ("rebuild", "orphans")] {
        let plain = choir(directory.path()).arg(chore).output().unwrap();
        let said = stderr(&plain);
        assert!(plain.status.success() && said.contains(&format!("nothing to {chore}")), "{said}");
        let json = choir(directory.path()).args([chore, "--json"]).output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json.status.success() && answer["computer"].is_null() && !answer[listed].is_null(), "{answer}");
    }
}

#[test]
fn a_variable_that_is_set_and_empty_is_as_good_as_unset() {
    let home = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| {
        let mut command = choir(home.path());
        for variable in ["CHOIR_DATA", "CHOIR_CONFIG", "CHOIR_URL", "CHOIR_TOKEN", "CHOIR_LISTEN"] {
            command.env(variable, "");
        }
        command.env("XDG_DATA_HOME", home.path()).args(arguments).output().unwrap()
    };
    let made = call(&["token", "create"]);
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(home.path().join("choir/control").is_dir());
    assert!(stderr(&call(&["events"])).contains("no ChoirOS runs here"), "{}", stderr(&call(&["events"])));
    let looked = stdout(&call(&["doctor"]));
    assert!(looked.contains("ok   configuration"), "{looked}");
}

#[test]
fn a_data_directory_that_cannot_be_is_said_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let unmade = choir(Path::new("/proc/choir")).args(["token", "create"]).output().unwrap();
    let said = stderr(&unmade);
    assert!(said.contains("cannot make `/proc/choir`") && said.contains("you may write to"), "{said}");
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut within = std::process::Command::new("sh");
    within.args(["-c", "rmdir \"$PWD\"; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_choir"), "verify", "--data", "here"]);
    let said = stderr(&within.current_dir(&gone).env_remove("CHOIR_LOG").output().unwrap());
    assert!(said.contains("`here` leads nowhere") && said.contains("in full"), "{said}");
}

#[test]
fn a_port_in_use_is_said_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = choir(directory.path()).args(["up", "--listen", &address]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--listen"), "{}", stderr(&refused));
}

#[test]
fn doctor_says_which_models_are_near() {
    let directory = tempfile::tempdir().unwrap();
    let checked = choir(directory.path())
        .args(["doctor", "--json"])
        .env("MOONSHOT_API_KEY", "sk-not-shown-0123456789")
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    let said = stdout(&checked);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let models = report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "models").unwrap();
    let detail = models["detail"].as_str().unwrap();
    assert!(detail.contains("kimi by MOONSHOT_API_KEY") && !detail.contains("anthropic"), "{detail}");
    assert!(!said.contains("sk-not-shown"), "a key is never shown");
}

#[test]
fn doctor_starts_a_real_sandbox() {
    let directory = tempfile::tempdir().unwrap();
    let checked = choir(directory.path()).args(["doctor", "--json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let sandbox = value["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "sandbox").unwrap();
    assert_eq!(sandbox["ok"], true, "{value}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("doctor")), "{left:?}");
}

#[test]
fn help_shows_what_is_for_people_and_completions_are_scripts() {
    let directory = tempfile::tempdir().unwrap();
    let help = stdout(&choir(directory.path()).arg("--help").output().unwrap());
    assert!(help.contains("events") && !help.contains("guest"), "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&choir(directory.path()).args(["completions", shell]).output().unwrap());
        assert!(script.contains("choir") && script.contains("verify"), "{shell}");
        let hidden =
            ["choir-computer", "subcommand__computer", "choir__guest", "choir__page", "-a \"guest\"", "'guest:"];
        assert!(!hidden.iter().any(|name| script.contains(name)), "{shell} offers what is not for people");
    }
}

#[test]
fn the_help_of_every_command_has_examples() {
    let directory = tempfile::tempdir().unwrap();
    for command in
        ["up", "run", "events", "add", "get", "undo", "token", "verify", "rebuild", "erase", "doctor", "completions"]
    {
        let help = stdout(&choir(directory.path()).args([command, "--help"]).output().unwrap());
        assert!(help.contains("Examples:") && help.contains(&format!("choir {command}")), "{help}");
    }
}

#[test]
fn a_token_is_listed_and_revoked_without_an_instance() {
    let directory = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| choir(directory.path()).args(arguments).output().unwrap();
    assert!(call(&["token", "create", "--name", "ci"]).status.success());
    let listed = stdout(&call(&["token", "list"]));
    assert!(listed.contains("ci") && listed.contains("run") && !listed.contains("choir_"), "{listed}");
    let id = listed.split_whitespace().next().unwrap();
    let revoked: serde_json::Value = serde_json::from_slice(&call(&["token", "revoke", id, "--json"]).stdout).unwrap();
    assert_eq!(revoked, serde_json::json!({ "token_id": id }));
    assert_eq!(stdout(&call(&["token", "list"])), "");
    assert_eq!(call(&["token", "revoke", id]).status.code(), Some(1));
}

#[test]
fn what_is_typed_wrong_is_said_in_the_shape_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| choir(directory.path()).args(arguments).output().unwrap();
    let unknown = call(&["compute"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(!stderr(&unknown).contains("computer"), "a hidden command is not suggested: {}", stderr(&unknown));
    assert!(stderr(&call(&["verifi"])).contains("verify"), "others are");
    let json = call(&["events", "--json", "--after", "soon"]);
    assert_eq!((json.status.code(), stdout(&json).as_str()), (Some(2), ""));
    let value: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert!(value["error"]["message"].as_str().unwrap().contains("soon"), "{value}");
    let negative = stderr(&call(&["events", "--after", "-1"]));
    assert!(negative.contains("'-1'") && negative.contains("0 is before the first event"), "{negative}");
}

#[test]
fn settings_of_the_log_that_mean_nothing_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for (name, value) in [("CHOIR_LOG", "debgu"), ("CHOIR_LOG", "a=b=c"), ("CHOIR_LOG_FORMAT", "yaml")] {
        let refused = choir(directory.path()).env(name, value).args(["token", "list"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{name}={value}");
        assert!(stderr(&refused).contains(&format!("{name} is `{value}`")), "{}", stderr(&refused));
    }
    let good =
        choir(directory.path()).env("CHOIR_LOG", "choir_control=debug").args(["token", "list"]).output().unwrap();
    assert!(good.status.success(), "{}", stderr(&good));
}

#[test]
fn looking_makes_no_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let listed = choir(&absent).args(["token", "list", "--json"]).output().unwrap();
    assert_eq!((listed.status.code(), stdout(&listed).trim()), (Some(0), r#"{"tokens":[]}"#));
    let looked = choir(&absent).args(["doctor"]).output().unwrap();
    assert!(stdout(&looked).contains("is not there yet"), "{}", stdout(&looked));
    let revoked = choir(&absent).args(["token", "revoke", "0123456789abcdef", "--json"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&revoked.stderr).unwrap();
    assert_eq!((revoked.status.code(), &told["error"]["code"]), (Some(1), &"not_found".into()), "{told}");
    assert!(!absent.exists());
    let listed = choir(directory.path()).args(["token", "list"]).output().unwrap();
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "an empty one stays empty");
}

#[test]
fn a_look_changes_nothing_and_says_how_to_mend_what_it_sees() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("choir.toml"), "").unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let looked = choir(directory.path()).arg("doctor").output().unwrap();
    assert!(stdout(&looked).contains("ok   data"), "{}", stdout(&looked));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["choir.toml"]);
    assert_eq!(std::fs::metadata(directory.path()).unwrap().permissions().mode() & 0o777, 0o755);
    let foreign = directory.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("mine"), "").unwrap();
    let looked = stdout(&choir(&foreign).arg("doctor").output().unwrap());
    assert!(looked.contains("was not made by ChoirOS") && looked.contains("Choose an empty directory"), "{looked}");
}

#[test]
fn a_name_that_nobody_could_read_makes_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let refused = choir(directory.path()).args(["token", "create", "--name", &"x".repeat(101)]).output().unwrap();
    assert!(!refused.status.success() && stderr(&refused).contains("101 characters"), "{}", stderr(&refused));
    let listed = choir(directory.path()).args(["token", "list"]).output().unwrap();
    assert_eq!(stdout(&listed), "");
}

#[test]
fn an_output_that_is_full_is_said_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let refused = choir(directory.path()).args(["doctor", "--json"]).stdout(full).output().unwrap();
    let report: serde_json::Value = serde_json::from_str(stderr(&refused).trim()).unwrap();
    assert!(report["error"]["hint"].as_str().unwrap().contains("Free some space"), "{report}");
}

#[test]
fn doctor_says_which_settings_do_nothing_yet() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("choir.toml"), "[git]\nauto_commit_threshold = 7\n").unwrap();
    let looked = choir(directory.path()).args(["doctor"]).output().unwrap();
    assert!(stdout(&looked).contains("git.auto_commit_* is read and does nothing yet"), "{}", stdout(&looked));
}
