//! Compilers of the person who started this work inside, and nothing that lies beside them is seen.

use crate::support::Instance;
use serde_json::json;
use std::path::{Path, PathBuf};

const CANARY: &str = "canary-of-a-registry-4711";

/// A home of cargo with a token in it, and with the program that stands in for every compiler, where this machine has it.
fn cargo_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let real = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| home.join(".cargo")));
    let rustup = real.map(|real| real.join("bin/rustup")).filter(|rustup| rustup.exists());
    std::fs::create_dir(home.path().join("bin")).unwrap();
    if let Some(rustup) = rustup {
        std::os::unix::fs::symlink(rustup, home.path().join("bin/rustup")).unwrap();
    }
    for name in ["credentials.toml", "config.toml", "bin/secret"] {
        std::fs::write(home.path().join(name), CANARY).unwrap();
    }
    home
}

fn instance(home: &Path) -> Instance {
    let scenario = r#"{"roles": {"conductor": [{"text": "hm"}]}}"#;
    Instance::start_with_environment(scenario, "", &[("CARGO_HOME", home.to_str().unwrap())])
}

#[test]
fn a_crate_is_tested_inside_by_the_compiler_of_this_machine() {
    let home = cargo_home();
    let instance = instance(home.path());
    let commands = [
        "mkdir -p src && printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml && \
         printf '#[test]\\nfn adds() { assert_eq!(1 + 1, 2); }\\n' > src/lib.rs",
        "cargo test --offline",
        "printf 'fn broken(' >> src/lib.rs; cargo test --offline",
    ];
    let result = instance.task(&json!({"kind": "run", "instruction": "test", "commands": commands}));
    let said = |at: usize| result["commands"][at]["stdout"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
    assert!(said(1).contains("test result: ok. 1 passed"), "{result}");
    assert_ne!(result["commands"][2]["exit_code"], 0, "the control: what does not compile fails: {result}");
}

#[test]
fn credentials_beside_a_toolchain_are_not_seen_and_it_cannot_be_changed() {
    let home = cargo_home();
    let instance = instance(home.path());
    let search = format!(
        "grep -rls --exclude-dir=lib {CANARY} /opt /home /root /run /tmp /var /work {}; echo searched",
        home.path().display()
    );
    let commands = [
        search.as_str(),
        "for place in $(find /opt -maxdepth 4 -type d | head -n 100); do touch \"$place/x\" 2>/dev/null && echo \"wrote $place\"; done; echo tried",
        "command -v cargo",
    ];
    let result = instance.task(&json!({"kind": "run", "instruction": "look", "commands": commands}));
    let said = |at: usize| result["commands"][at]["stdout"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert_eq!((said(0), said(1)), ("searched\n", "tried\n"), "{result}");
    assert!(said(2).starts_with("/opt/toolchains/") || said(2).starts_with("/usr/"), "{result}");
}
