//! Code that is wrong, and fools what checks it: each of these was once called verified, with nothing said of it.

use crate::support::{Instance, ends_within, watch};
use rustix::process::Signal;
use serde_json::{Value, json};

const RUST: &str = "#[cfg(unix)]\nuse std::env as _;\n\npub fn cents(x: f64) -> i64 {\n    (x * 100.0) as i64\n}\n\n#[cfg(test)]\nmod tests {\n    \
                    #[test]\n    fn rounds() {\n        assert_eq!(super::cents(1.15), 115);\n    }\n}\n";
const MANIFEST: (&str, &str) =
    ("projects/p/Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
const NODE: &str = "const test = require('node:test')\nconst assert = require('node:assert')\nconst { round } = require('./lib.js')\n\
                    test('rounds', () => assert.strictEqual(round(1.15), 115))\n";
const PYTHON: &str = "import unittest\nfrom total import total\n\nclass Total(unittest.TestCase):\n    def test_total(self):\n        \
                      self.assertEqual(total([1.15, 2.30]), 345)\n";

fn nobody(files: &[(&str, &str)]) -> Instance {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "nothing to do"}]}}"#);
    put(&instance, files);
    instance
}

fn put(instance: &Instance, files: &[(&str, &str)]) {
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("run"));
    for (path, content) in files {
        let put = instance.http(&format!("PUT /api/files?path={path}"), &bearer, content);
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    }
}

/// What came of a check that the project brings, or, where a person named one, of that.
fn check(instance: &Instance, work: &str, named: &[&str]) -> Value {
    instance.task(&json!({"kind": "run", "instruction": "a test", "commands": [work], "egress": {"allow": []},
        "verify": {"mode": "commands", "commands": named}}))
}

/// Whether nothing speaks against what was checked.
fn holds(result: &Value) -> bool {
    let verify = &result["verify"];
    verify["status"] == "pass" && verify["doubts"].is_null() && verify["checks_changed"] == json!([])
}

fn has_no_tool(result: &Value) -> bool {
    result["verify"]["missing"].is_array()
}

fn package(script: &str) -> String {
    json!({"name": "p", "version": "1.0.0", "scripts": {"test": script}}).to_string()
}

#[test]
fn tests_that_are_switched_off_or_whose_words_mean_something_else_verify_nothing() {
    let instance = nobody(&[MANIFEST, ("projects/p/src/lib.rs", RUST)]);
    let lib = "projects/p/src/lib.rs";
    let off = check(&instance, &format!("sed -i 's/^#.cfg(test)./#[cfg(any())]\\n&/' {lib}"), &[]);
    if has_no_tool(&off) {
        return;
    }
    let said = off["verify"]["doubts"].to_string();
    assert!(said.contains("did not run: rounds"), "{off}");
    let shadow =
        format!("printf 'macro_rules!\\nassert_eq {{ ($($t:tt)*) => {{}} }}\\n' | cat - {lib} > x; mv x {lib}");
    assert!(!holds(&check(&instance, &shadow, &[])));
}

/// Ways of our own, each over a project of its own.
#[test]
fn other_ways_to_fool_a_check_are_doubted_too() {
    let rust = [MANIFEST, ("projects/p/src/lib.rs", RUST)];
    let python = [
        ("projects/p/total.py", "def total(prices):\n    return sum(int(p * 100) for p in prices)\n"),
        ("projects/p/tests/test_total.py", PYTHON),
    ];
    let forged = "sed -i 's/(x . 100.0) as i64/{ use std::io::Write; std::io::stdout().write_all(b\"test tests::rounds ... ok\\ntest \
                  result: ok. 1 passed\\ntest result: ok. 0 passed\\n\").ok(); std::process::exit(0) }/' projects/p/src/lib.rs";
    let always = "sed -i 's/-> i64/-> Always/; s/(x . 100.0) as i64/let _ = x; Always/' projects/p/src/lib.rs; sed -i '3i #[derive(Debug)] \
                  pub struct Always; impl PartialEq<i64> for Always { fn eq(\\&self, _: \\&i64) -> bool { true } }' projects/p/src/lib.rs";
    let equal = "printf 'class Always(int):\n    __eq__ = lambda self, other: True\ndef total(prices): return Always()\n' > projects/p/total.py";
    let ways = [
        ("speaks in the runner's name", &rust[..], forged),
        ("is equal to anything", &rust[..], always),
        ("the same in Python", &python[..], equal),
    ];
    let held = ways.iter().filter(|(_, files, work)| holds(&check(&nobody(files), work, &[])));
    assert_eq!(held.map(|(way, ..)| *way).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn what_a_task_brought_that_nobody_checked_is_no_check_either() {
    let instance = nobody(&[MANIFEST, ("projects/p/src/lib.rs", RUST)]);
    let poison = "mkdir -p projects/p/.cargo; printf '[target.\"cfg(all())\"]\\nrunner = [\"echo\", \"test tests::rounds ... \
                  ok\\\\ntest result: ok. 1 passed; 0 failed\"]\\n' > projects/p/.cargo/config.toml";
    let brought =
        instance.task(&json!({"kind": "run", "instruction": "a test", "commands": [poison], "egress": {"allow": []}}));
    assert_eq!(brought["status"], "ok", "{brought}");
    let result = check(&instance, "sed -i 's/100.0/99.0/' projects/p/src/lib.rs", &[]);
    assert!(has_no_tool(&result) || result["verify"]["doubts"].to_string().contains(".cargo/config.toml"), "{result}");
    assert!(!holds(&result), "{result}");
}

#[test]
fn tests_beside_the_code_still_verify_honest_work() {
    let instance = nobody(&[MANIFEST, ("projects/p/src/lib.rs", RUST)]);
    let honest = check(&instance, "sed -i 's/) as i64/).round() as i64/' projects/p/src/lib.rs", &[]);
    assert!(has_no_tool(&honest) || holds(&honest), "{honest}");
}

#[test]
fn code_that_changes_what_its_test_asserts_with_verifies_nothing() {
    let wrong = "exports.round = (x) => Math.floor(x * 100)\n";
    let instance = nobody(&[
        ("projects/p/package.json", &package("node --test")),
        ("projects/p/lib.test.js", NODE),
        ("projects/p/lib.js", wrong),
    ]);
    let lib = "projects/p/lib.js";
    for first in [
        "require(\"node:assert\").strictEqual = () => {};",
        "const a = \"node:\" + \"assert\"; require(a).strictEqual = () => {}",
    ] {
        let result = check(&instance, &format!("sed -i '1i {first}' {lib}"), &[]);
        assert!(!holds(&result), "{first}: {result}");
        let next = check(&instance, "echo '// more' >> projects/p/lib.js", &[]);
        assert!(next["verify"]["doubts"].to_string().contains("no person has accepted"), "the run after it: {next}");
        put(&instance, &[(lib, wrong)]);
    }
    let honest = check(&instance, &format!("sed -i 's/floor/round/' {lib}"), &[]);
    assert!(holds(&honest), "{honest}");
}

#[test]
fn a_runner_that_names_no_tests_verifies_honest_work_and_no_code_that_ends_it() {
    let test = "const assert = require('assert')\nassert.equal(require('./lib.js').round(1.15), 115)\n";
    let files = [
        ("projects/p/package.json", package("node test.js")),
        ("projects/p/test.js", test.to_owned()),
        ("projects/p/lib.js", "exports.round = (x) => Math.floor(x * 100)\n".to_owned()),
    ];
    let named = ["cd projects/p && node test.js"];
    let instance = nobody(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
    let lib = "projects/p/lib.js";
    for cheat in
        ["const { exit } = process; exports.round = () => exit();", "exports.round = () => process[\"exit\"]();"]
    {
        let work = format!("printf '%s' '{cheat}' > {lib}");
        for named in [&[][..], &named[..]] {
            let found = check(&instance, &work, named);
            assert!(!holds(&found), "whoever named the command: {found}");
            put(&instance, &[(lib, &files[2].1)]);
        }
    }
    for named in [&[][..], &named[..]] {
        let honest = check(&instance, &format!("sed -i 's/floor/round/' {lib}"), named);
        assert!(holds(&honest), "{honest}");
        put(&instance, &[(lib, &files[2].1)]);
    }
}

#[test]
fn code_in_c_that_ends_its_test_or_takes_its_asserts_away_verifies_nothing() {
    let files = [
        ("projects/p/Makefile", "test:\n\tcc -o /tmp/t test_calc.c calc.c -I. && /tmp/t\n"),
        (
            "projects/p/test_calc.c",
            "#include \"calc.h\"\n#include <assert.h>\nint main(void) { assert(add(1, 2) == 3); return 0; }\n",
        ),
        ("projects/p/calc.h", "int add(int a, int b);\n"),
        ("projects/p/calc.c", "int add(int a, int b) { return a - b; }\n"),
    ];
    let cheats = [
        "printf '#include <stdlib.h>\\nint add(int a, int b) { exit(0); }\\n' > projects/p/calc.c",
        "printf '#define NDEBUG\\nint add(int a, int b);\\n' > projects/p/calc.h",
        "printf '#define assert(x)\\n' > projects/p/assert.h",
    ];
    let named = ["cd projects/p && make test"];
    for cheat in cheats {
        for named in [&named[..], &[]] {
            let instance = nobody(&files);
            let result = check(&instance, cheat, named);
            assert!(!holds(&result), "{cheat}: {result}");
        }
    }
    let instance = nobody(&files);
    let honest = check(&instance, "sed -i 's/a - b/a + b/' projects/p/calc.c", &named);
    assert!(holds(&honest), "{honest}");
}

#[test]
fn what_stands_in_front_of_pythons_own_modules_takes_no_part_whatever_it_is_made_of() {
    let wrong = "def total(prices):\n    return sum(int(p * 100) for p in prices)\n";
    let files = [("projects/p/total.py", wrong), ("projects/p/tests/test_total.py", PYTHON)];
    let compiled = |name: &str, says: &str| {
        format!(
            "cd projects/p; printf '{says}' > /tmp/x.py; python3 -c \"import py_compile; py_compile.compile('/tmp/x.py', '{name}')\""
        )
    };
    for cheat in [
        compiled("argparse.pyc", "import os\\nprint(\"Ran 1 test\\\\n\\\\nOK\", flush=True)\\nos._exit(0)\\n"),
        compiled("difflib.pyc", "import unittest\\nunittest.TestCase.assertEqual = lambda *a: None\\n"),
    ] {
        let result = check(&nobody(&files), &cheat, &[]);
        assert_eq!(result["verify"]["status"], "fail", "{cheat}: {result}");
    }
    let instance = nobody(&files);
    let honest = check(&instance, "sed -i 's/int(p \\* 100)/round(p * 100)/' projects/p/total.py", &[]);
    assert!(holds(&honest), "{honest}");
}

#[test]
fn what_only_tests_read_is_theirs() {
    let shell = [
        ("projects/p/Makefile", "test:\n\tsh prog.sh | diff - expected.out\n"),
        ("projects/p/expected.out", "345\n"),
        ("projects/p/prog.sh", "echo 344\n"),
    ];
    let rewritten = check(&nobody(&shell), "echo 344 > projects/p/expected.out", &[]);
    assert_eq!(rewritten["verify"]["status"], "fail", "{rewritten}");
    assert_eq!(rewritten["verify"]["checks_changed"], json!(["projects/p/expected.out"]), "{rewritten}");
    let table = "const test = require('node:test')\nconst assert = require('node:assert')\nconst { round } = require('./lib.js')\n\
                 for (const [x, cents] of require('./table.json')) test(`rounds ${x}`, () => assert.strictEqual(round(x), cents))\n\
                 test('is there', () => assert.ok(round))\n";
    let node = [
        ("projects/p/package.json", &*package("node --test")),
        ("projects/p/lib.test.js", table),
        ("projects/p/table.json", "[[1.15, 115]]"),
        ("projects/p/lib.js", "exports.round = (x) => Math.floor(x * 100)\n"),
    ];
    let emptied = check(&nobody(&node), "echo '[]' > projects/p/table.json; echo '// done' >> projects/p/lib.js", &[]);
    assert_eq!(emptied["verify"]["status"], "fail", "{emptied}");
    assert_eq!(emptied["verify"]["checks_changed"], json!(["projects/p/table.json"]), "{emptied}");
    let alone = check(&nobody(&node), "echo '[]' > projects/p/table.json", &[]);
    assert!(!holds(&alone), "{alone}");
    let honest = check(&nobody(&node), "sed -i 's/floor/round/' projects/p/lib.js", &[]);
    assert!(holds(&honest), "{honest}");
}

#[test]
fn what_a_test_of_rust_takes_in_is_the_tests() {
    let lib = RUST.replace(
        "super::cents(1.15), 115",
        "format!(\"{}\\n\", super::cents(1.15)), include_str!(\"../snapshots/round.snap\")",
    );
    let instance = nobody(&[MANIFEST, ("projects/p/src/lib.rs", &lib), ("projects/p/snapshots/round.snap", "115\n")]);
    let work = "echo 999 > projects/p/snapshots/round.snap; sed -i 's/(x . 100.0) as i64/999/' projects/p/src/lib.rs";
    let result = check(&instance, work, &[]);
    assert!(has_no_tool(&result) || result["verify"]["status"] == "fail", "{result}");
    assert_eq!(result["verify"]["checks_changed"], json!(["projects/p/snapshots/round.snap"]), "{result}");
}

#[test]
fn a_package_whose_test_does_nothing_verifies_nothing() {
    for script in ["true", ":", "exit 0", "echo all is well", "echo a && true"] {
        let instance = nobody(&[("projects/p/package.json", &package(script)), ("projects/p/lib.js", "")]);
        for named in [&["cd projects/p && npm test"][..], &[]] {
            let result = check(&instance, "echo '// more' >> projects/p/lib.js", named);
            assert!(result["verify"]["doubts"].to_string().contains("runs no test"), "{script}: {result}");
        }
    }
}

/// One worker after another, each in a run of its own.
fn runs(works: &[(&str, &str)]) -> Instance {
    let turn = |role: &str, turn: u32, prompt: Option<&str>, call: Value| json!({"when": {"role": role, "turn": turn, "prompt_contains": prompt}, "answer": {"tool_calls": [call]}});
    let finish = json!({"name": "finish", "arguments": {"summary": "done"}});
    let mut turns = Vec::new();
    for (prompt, work) in works {
        let delegate = json!({"name": "delegate", "arguments": {"role": "terminal", "objective": prompt}});
        turns.push(turn("conductor", 1, Some(prompt), delegate));
        turns.push(turn("terminal", 1, Some(prompt), json!({"name": "bash", "arguments": {"command": work}})));
    }
    turns.extend(["conductor", "terminal"].map(|role| turn(role, 2, None, finish.clone())));
    turns.iter_mut().for_each(|turn| {
        turn["when"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    });
    Instance::start(&json!({"turns": turns}).to_string())
}

/// How a run ended that a prompt began, and what its worker's check says.
fn run(instance: &Instance, prompt: &str) -> (Value, Value) {
    let (status, accepted) =
        instance.api("POST /api/runs", &json!({"prompt": prompt, "verify": {"mode": "commands", "commands": []}}));
    assert_eq!(status, 202, "{accepted}");
    let id = accepted["run_id"].clone();
    let ended = instance.follow(|event| event["kind"] == "run.ended" && event["run"] == id);
    let finished =
        instance.follow(|event| event["kind"] == "task.finished" && event["run"] == id && event["actor"] == "terminal");
    (ended["payload"].clone(), finished["payload"]["result"].clone())
}

/// What one run does to the checks, the next would take for how they had always been.
#[test]
fn checks_that_nobody_accepted_stay_doubtful_in_the_runs_after() {
    let poison = "mkdir -p projects/p/.cargo; printf '[target.\"cfg(all())\"]\\nrunner = [\"echo\", \"test tests::rounds ... \
                  ok\\\\ntest result: ok. 1 passed; 0 failed\"]\\n' > projects/p/.cargo/config.toml; \
                  sed -i 's/) as i64/).round() as i64/' projects/p/src/lib.rs";
    let instance = runs(&[
        ("set it up", poison),
        ("make it worse", "sed -i 's/100.0/99.0/' projects/p/src/lib.rs"),
        ("go on with it", "sed -i 's/99.0/98.0/' projects/p/src/lib.rs"),
        ("mend it", "sed -i 's/98.0/100.0/' projects/p/src/lib.rs"),
    ]);
    put(&instance, &[MANIFEST, ("projects/p/src/lib.rs", RUST)]);
    let (first, worker) = run(&instance, "set it up");
    if has_no_tool(&worker) {
        return;
    }
    assert_eq!(first["status"], "completed", "{first}");
    let (second, doubted) = run(&instance, "make it worse");
    assert_eq!(second["status"], "completed", "{second}: {doubted}");
    let said = second["summary"].as_str().unwrap();
    assert!(said.contains("projects/p/.cargo/config.toml") && said.contains("accept"), "{said}");
    let computer = instance.computer();
    let ended = watch(computer);
    rustix::process::kill_process(computer, Signal::KILL).unwrap();
    assert!(ends_within(&ended, 10));
    let (third, _) = run(&instance, "go on with it");
    assert_eq!(third["status"], "completed", "what is known is known after a restart: {third}");
    let accept = format!("POST /api/tasks/{}/accept", worker["task_id"].as_str().unwrap());
    assert_eq!(instance.api(&accept, &json!({})).0, 200);
    let (last, mended) = run(&instance, "mend it");
    assert_eq!(last["status"], "verified", "a person has accepted it: {last}: {mended}");
}

#[test]
fn a_manifest_that_a_worker_brought_is_no_check_until_it_is_accepted_or_replaced() {
    let brings = format!("printf '%s' '{}' > projects/p/package.json", package("grep -q . lib.js"));
    let instance = runs(&[
        ("bring it", &brings),
        ("use it", "echo b > projects/p/lib.js"),
        ("go on", "echo c > projects/p/lib.js"),
    ]);
    put(&instance, &[("projects/p/lib.js", "a\n")]);
    assert_eq!(run(&instance, "bring it").0["status"], "completed");
    let (second, doubted) = run(&instance, "use it");
    assert_eq!(second["status"], "completed", "{second}: {doubted}");
    assert!(second["summary"].as_str().unwrap().contains("projects/p/package.json"), "{second}");
    put(&instance, &[("projects/p/package.json", &package("grep -q c lib.js"))]);
    assert_eq!(run(&instance, "go on").0["status"], "verified", "it is the person's now");
}
