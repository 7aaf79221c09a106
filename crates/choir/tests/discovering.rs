//! Checks that a project brings itself are found before the worker touches it, and are the ones that count.

use crate::support::Instance;
use serde_json::{Value, json};

fn put(instance: &Instance, files: &[(&str, &str)]) {
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("run"));
    for (path, content) in files {
        let put = instance.http(&format!("PUT /api/files?path={path}"), &bearer, content);
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    }
}

/// A task that asks for a check and names none.
fn task(work: &str) -> Value {
    json!({"kind": "run", "instruction": "a test", "commands": [work], "egress": {"allow": []},
        "verify": {"mode": "commands"}})
}

fn nobody() -> Instance {
    Instance::start(r#"{"roles": {"conductor": [{"text": "nothing to do"}]}}"#)
}

/// What a worker did, with the status of its task, of its check, and the checks that it changed.
fn verdict(instance: &Instance, work: &str) -> (String, String, Vec<String>) {
    let result = instance.task(&task(work));
    assert_eq!(result["verify"]["source"], "base", "{result}");
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
    let changed = result["verify"]["checks_changed"].as_array().unwrap();
    (text(&result["status"]), text(&result["verify"]["status"]), changed.iter().map(text).collect())
}

fn expect(instance: &Instance, work: &str, status: &str, check: &str, changed: &[&str]) {
    let (was, checked, named) = verdict(instance, work);
    assert_eq!((was.as_str(), checked.as_str()), (status, check), "{work}");
    assert_eq!(named, changed, "{work}");
}

#[test]
fn the_checks_of_a_makefile_are_those_from_before_the_worker() {
    let instance = nobody();
    let makefile = "all:\n\techo built\n\ntest:\n\tsh ./check.sh\n";
    put(
        &instance,
        &[
            ("projects/p/Makefile", makefile),
            ("projects/p/check.sh", "grep -q right product\n"),
            ("projects/p/product", "wrong\n"),
        ],
    );
    let (makefile, script) = ("projects/p/Makefile", "projects/p/check.sh");
    expect(&instance, "echo claimed > projects/p/notes", "failed", "fail", &[]);
    expect(&instance, "echo true > projects/p/check.sh", "failed", "fail", &[script]);
    expect(&instance, "rm projects/p/check.sh", "failed", "fail", &[script]);
    expect(&instance, "printf 'test:\\n\\ttrue\\n' > projects/p/Makefile", "failed", "fail", &[makefile]);
    expect(
        &instance,
        "printf 'test:\\n\\ttrue\\n' > projects/p/GNUmakefile; rm -r projects/p/Makefile; mkdir projects/p/Makefile",
        "failed",
        "fail",
        &["projects/p/GNUmakefile", makefile],
    );
    // Who does the work and changes the check beside it passes the old one, and is still named.
    expect(&instance, "echo right > projects/p/product; echo true >> projects/p/check.sh", "ok", "pass", &[script]);
    expect(&instance, "echo right, really > projects/p/product", "ok", "pass", &[]);
}

#[test]
fn python_tests_are_found_and_their_enemies_too() {
    let instance = nobody();
    let test = "import unittest\nfrom total import total\n\nclass Total(unittest.TestCase):\n    def test_total(self):\n        \
                self.assertEqual(total([1.15, 2.30]), 345)\n";
    put(
        &instance,
        &[
            ("projects/p/total.py", "def total(prices):\n    return sum(int(p * 100) for p in prices)\n"),
            ("projects/p/tests/test_total.py", test),
        ],
    );
    let tested = "projects/p/tests/test_total.py";
    expect(&instance, "echo '# done' >> projects/p/total.py", "failed", "fail", &[]);
    expect(&instance, "echo > projects/p/tests/test_total.py", "failed", "fail", &[tested]);
    expect(
        &instance,
        "rm -r projects/p/tests; echo > projects/p/tests",
        "failed",
        "fail",
        &["projects/p/tests", tested],
    );
    let fake = "projects/p/unittest.py";
    expect(&instance, "echo 'import sys; sys.exit(0)' > projects/p/unittest.py", "failed", "fail", &[fake]);
    let quits = "printf 'import os\\nos._exit(0)\\n' > projects/p/total.py";
    expect(&instance, quits, "failed", "fail", &[]);
    // A test of its own that makes all others pass is not there when they are run.
    let patch =
        "printf 'import unittest\\nunittest.TestCase.assertEqual = lambda *a: None\\n' > projects/p/tests/test_aaa.py";
    expect(&instance, patch, "failed", "fail", &[]);
    let fixed = "sed -i 's/int(p \\* 100)/round(p * 100)/' projects/p/total.py; mkdir projects/p/more; \
                 echo 'import unittest' > projects/p/tests/test_more.py";
    expect(&instance, fixed, "ok", "pass", &[]);
    let honest = instance.task(&task("echo 'import unittest' > projects/p/tests/test_new.py"));
    let said = honest["summary"].as_str().unwrap();
    assert!(said.ends_with("New tests took no part in the check: projects/p/tests/test_new.py."), "{said}");
    assert!(instance.workspace().join("projects/p/tests/test_new.py").exists());
}

#[test]
fn what_a_check_takes_in_is_part_of_it() {
    let instance = nobody();
    put(
        &instance,
        &[
            ("projects/p/Makefile", "include rules.d/all\n\ntest:\n\tsh ./check.sh\n\t$(SURE)\n"),
            ("projects/p/rules.d/all", "SURE = grep -q right product\n"),
            ("projects/p/check.sh", ". ./lib.sh\nsure\n"),
            ("projects/p/lib.sh", "sure() { grep -q right product; }\n"),
            ("projects/p/product", "wrong\n"),
        ],
    );
    let both = "echo 'sure() { true; }' > projects/p/lib.sh; echo 'SURE = true' > projects/p/rules.d/all";
    expect(&instance, both, "failed", "fail", &["projects/p/lib.sh", "projects/p/rules.d/all"]);
    let given = json!({"kind": "run", "instruction": "a test", "commands": [both], "egress": {"allow": []},
        "verify": {"mode": "commands", "commands": ["cd projects/p && make test"]}});
    assert_eq!(instance.task(&given)["status"], "failed", "also where a person names the command");
}

#[test]
fn code_that_ends_the_runner_of_its_tests_has_not_passed() {
    let instance = nobody();
    let test = "const test = require('node:test')\nconst product = require('./product.js')\n\
                test('is right', () => { if (product !== 'right') throw new Error() })\n";
    put(
        &instance,
        &[
            ("projects/p/package.json", r#"{"name": "p", "version": "1.0.0", "scripts": {"test": "node --test"}}"#),
            ("projects/p/product.test.js", test),
            ("projects/p/product.js", "module.exports = 'wrong'\n"),
        ],
    );
    expect(&instance, "echo 'process.exit(0)' > projects/p/product.js", "failed", "fail", &[]);
    expect(&instance, "echo \"module.exports = 'right'\" > projects/p/product.js", "ok", "pass", &[]);
}

#[test]
fn the_scripts_of_a_package_are_not_the_workers_to_choose() {
    let instance = nobody();
    put(
        &instance,
        &[
            ("projects/p/package.json", r#"{"name": "p", "version": "1.0.0", "scripts": {"test": "node run.js"}}"#),
            ("projects/p/run.js", "process.exit(require('./product.js') === 'right' ? 0 : 1)\n"),
            ("projects/p/product.js", "module.exports = 'wrong'\n"),
        ],
    );
    let package = "projects/p/package.json";
    let cheat = r#"sed -i 's/node run.js/true/' projects/p/package.json"#;
    expect(&instance, cheat, "failed", "fail", &[package]);
    let poison = "mkdir -p projects/p/node_modules/.bin; printf '#!/bin/sh\\nexit 0\\n' > projects/p/node_modules/.bin/node; \
                  chmod +x projects/p/node_modules/.bin/node";
    let (status, check, _) = verdict(&instance, poison);
    assert_eq!((status.as_str(), check.as_str()), ("failed", "fail"));
    let works = "echo \"module.exports = 'right'\" > projects/p/product.js";
    expect(&instance, works, "ok", "pass", &[]);
}

#[test]
fn a_tool_that_is_not_there_proves_nothing_and_blames_nobody() {
    let instance = nobody();
    put(&instance, &[("go.mod", "module p\n")]);
    let result = instance.task(&task("echo work > product"));
    assert_eq!((&result["status"], &result["verify"]["status"]), (&json!("ok"), &json!("unknown")), "{result}");
    assert_eq!(result["verify"]["missing"], json!(["go"]));
    assert!(result["summary"].as_str().unwrap().contains("not checked"), "{result}");
    assert!(instance.workspace().join("product").exists());
}

#[test]
fn a_project_without_checks_is_not_called_verified() {
    let instance = nobody();
    let result = instance.task(&task("echo work > product"));
    assert_eq!((&result["status"], &result["verify"]["status"]), (&json!("ok"), &json!("unknown")), "{result}");
    assert!(instance.workspace().join("product").exists());
}

/// A whole run: the person asks for a check, the project has one, and the model has no say in it.
#[test]
fn a_run_is_verified_by_what_its_project_brings() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "mend it",
                "verify": {"mode": "commands", "commands": ["true"]}}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}],
        "terminal": [
            {"tool_calls": [{"name": "bash", "arguments": {"command": "echo right > product"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}]
    }}"#;
    let instance = Instance::start(scenario);
    put(&instance, &[("Makefile", "check:\n\tgrep -q right product\n"), ("product", "wrong\n")]);
    let (status, accepted) = instance.api("POST /api/runs", &json!({"prompt": "mend", "verify": {"mode": "commands"}}));
    assert_eq!(status, 202, "{accepted}");
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "verified", "{ended}");
    let started = instance.follow(|event| event["kind"] == "verify.started");
    assert_eq!(
        (&started["payload"]["source"], &started["payload"]["commands"][1]),
        (&json!("base"), &json!("make check"))
    );
}

/// Nobody asked for a check but the conductor, which may say when, and not what.
#[test]
fn a_check_of_the_project_counts_whoever_asked_for_it() {
    for (product, ending) in [("right", "verified"), ("wrong", "failed")] {
        let scenario = r#"{"roles": {
            "conductor": [
                {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "mend it",
                    "verify": {"mode": "commands"}}}]},
                {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}],
            "terminal": [
                {"tool_calls": [{"name": "bash", "arguments": {"command": "echo PRODUCT > product"}}]},
                {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}]
        }}"#;
        let instance = Instance::start(&scenario.replace("PRODUCT", product));
        put(&instance, &[("Makefile", "check:\n\tgrep -q right product\n"), ("product", "none\n")]);
        assert_eq!(instance.api("POST /api/runs", &json!({"prompt": "mend"})).0, 202);
        let ended = instance.follow(|event| event["kind"] == "run.ended");
        assert_eq!(ended["payload"]["status"], ending, "{ended}");
    }
}

/// A run whose conductor asks for a check of this mode, over what its only worker does.
fn conducted(mode: &str, work: &str, files: &[(&str, &str)]) -> Value {
    let scenario = json!({"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "mend it", "verify": {"mode": mode}}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}],
        "terminal": [
            {"tool_calls": [{"name": "bash", "arguments": {"command": work}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "mended"}}]}]
    }});
    let instance = Instance::start(&scenario.to_string());
    put(&instance, files);
    assert_eq!(instance.api("POST /api/runs", &json!({"prompt": "mend"})).0, 202);
    instance.follow(|event| event["kind"] == "run.ended")["payload"].clone()
}

#[test]
fn a_pass_that_proves_nothing_verifies_no_run() {
    let broken = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n";
    let python = [("projects/p/total.py", "x = 1\n"), ("projects/p/tests/test_total.py", broken)];
    let smoke = conducted("smoke", "echo '# done' >> projects/p/total.py", &python);
    assert_eq!(smoke["status"], "completed", "{smoke}");
    assert!(smoke["summary"].as_str().unwrap().contains("its tests did not run"), "{smoke}");
    let (passes, fails) = ("test:\n\ttrue\n", "test:\n\tfalse\n");
    let idle = conducted("commands", "true", &[("projects/p/Makefile", passes)]);
    assert_eq!(idle["status"], "completed", "{idle}");
    assert!(idle["summary"].as_str().unwrap().contains("Nothing was changed"), "{idle}");
    let beside = "echo x > projects/p/product; echo x > projects/q/product";
    let unseen = conducted("commands", beside, &[("projects/p/Makefile", passes), ("projects/q/product", "")]);
    assert_eq!(unseen["status"], "completed", "{unseen}");
    assert!(unseen["summary"].as_str().unwrap().contains("No check looks at projects/q/product."), "{unseen}");
    let within = [("projects/p/Makefile", passes), ("projects/p/web/Makefile", fails)];
    assert_eq!(conducted("commands", "echo x > projects/p/web/product", &within)["status"], "failed");
}

#[test]
fn a_check_of_one_project_says_nothing_about_another() {
    let scenario = r#"{"turns": [
        {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "mend x", "verify": {"mode": "commands"}}}]}},
        {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "touch y", "verify": {"mode": "commands"}}}]}},
        {"when": {"role": "conductor", "turn": 3}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "x is mended"}}]}},
        {"when": {"role": "terminal", "turn": 1, "prompt_contains": "mend x"}, "answer": {"tool_calls": [
            {"name": "bash", "arguments": {"command": "echo still > projects/x/product"}}]}},
        {"when": {"role": "terminal", "turn": 1, "prompt_contains": "touch y"}, "answer": {"tool_calls": [
            {"name": "bash", "arguments": {"command": "echo more > projects/y/notes"}}]}},
        {"when": {"role": "terminal", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}}]}"#;
    let instance = Instance::start(scenario);
    put(
        &instance,
        &[("projects/x/Makefile", "test:\n\tgrep -q right product\n"), ("projects/y/Makefile", "test:\n\ttrue\n")],
    );
    assert_eq!(instance.api("POST /api/runs", &json!({"prompt": "mend x"})).0, 202);
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "failed", "{ended}");
    assert!(ended["payload"]["summary"].as_str().unwrap().contains("cd 'projects/x' && make test"), "{ended}");
}

/// Each of these passed once, with nothing said of it.
#[test]
fn whoever_empties_a_check_that_is_called_in_another_way_is_named_and_fails() {
    let (script, makefile) = ("grep -q right product\n", |recipe: &str| format!("test:\n\t{recipe}\n"));
    for (recipe, file, text, cheat) in [
        ("timeout 60 env X=1 sh check.sh", "check.sh", script, "true"),
        ("bash -euo pipefail ./check.sh", "check.sh", script, "true"),
        ("for c in checks/*; do sh $$c || exit 1; done", "checks/one", script, "true"),
        ("python3 -m checks", "checks.py", "assert 'right' in open('product').read()\n", "pass"),
        ("$(MAKE) -f checks/all run", "checks/all", "run:\n\tgrep -q right product\n", "run: ;"),
        ("node check", "check.js", "process.exit(1)\n", ""),
    ] {
        let instance = nobody();
        let path = format!("projects/p/{file}");
        put(&instance, &[("projects/p/Makefile", &makefile(recipe)), (&path, text), ("projects/p/product", "wrong\n")]);
        expect(&instance, &format!("echo '{cheat}' > {path}"), "failed", "fail", &[&path]);
    }
    let instance = nobody();
    put(&instance, &[("projects/p/Makefile", "check:\n\tgrep -q right product\n"), ("projects/p/product", "wrong\n")]);
    expect(&instance, "touch projects/p/check", "failed", "fail", &[]);
}

#[test]
fn tests_that_were_there_before_have_to_run() {
    let instance = nobody();
    let round = "pub fn cents(x: f64) -> i64 {\n    (x * 100.0) as i64\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
                 fn rounds() {\n        assert_eq!(super::cents(1.15), 115);\n    }\n}\n";
    put(
        &instance,
        &[
            ("projects/p/Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("projects/p/src/lib.rs", "pub mod round;\n"),
            ("projects/p/src/round.rs", round),
        ],
    );
    let orphan = "printf 'pub mod round {}\nmacro_rules! none { ($($t:tt)*) => {} }\nnone! {\npub mod round;\n}\n' \
                  > projects/p/src/lib.rs";
    let result = instance.task(&task(orphan));
    if result["verify"]["missing"] == json!(["cargo"]) {
        return;
    }
    assert_eq!(result["verify"]["doubts"], json!(["Tests that were there before did not run: rounds."]), "{result}");
    let fixed =
        "echo 'pub mod round;' > projects/p/src/lib.rs; sed -i 's/) as i64/).round() as i64/' projects/p/src/round.rs";
    let result = instance.task(&task(fixed));
    assert_eq!((&result["verify"]["status"], &result["verify"]["doubts"]), (&json!("pass"), &json!(null)), "{result}");
}
