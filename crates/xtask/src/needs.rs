//! What a machine must have, and how each missing thing is mended: a table, a check, an installation.

use std::env;
use std::path::Path;

use anyhow::{Result, bail};

use crate::call::Call;
use crate::paths::Paths;
use crate::steps::Steps;

/// Titles of the steps that `install` runs.
pub(crate) const STEPS: &[&str] = &[INSPECT, INSTALL];
const INSPECT: &str = "look at the machine";
const INSTALL: &str = "install what is missing";

/// Node.js: the oldest release that has the test runner we use.
const NODE_MAJOR_MIN: u32 = 20;

/// Which command needs something. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Building and starting the product.
    Run,
    /// Lints.
    Check,
    /// The fault table.
    Torture,
    /// All tests, those in a browser included.
    Test,
}

/// One thing that a machine must have.
struct Need {
    what: &'static str,
    scope: Scope,
    probe: Probe,
    mend: Mend,
}

/// How to see whether it is there.
enum Probe {
    Linux,
    /// Something lies at this path.
    Path(&'static str),
    /// Any of these programs is on the path.
    Program(&'static [&'static str]),
    /// A program that runs well with these arguments.
    Runs(&'static str, &'static [&'static str]),
    /// `PROGRAM --version` tells at least this major version.
    Major(&'static str, u32),
    /// `rustup LIST list --installed` has a line with this prefix.
    Rustup {
        list: &'static str,
        prefix: &'static str,
    },
}

/// How to mend it.
enum Mend {
    /// A package of Debian and Ubuntu.
    Debian(&'static str),
    /// Arguments to rustup.
    Rustup(&'static [&'static str]),
    /// Only the person can; the sentence says how.
    Person(&'static str),
}

/// The programs that can be the browser, in the order of preference.
pub(crate) const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

const NEEDS: &[Need] = &[
    Need {
        what: "Linux",
        scope: Scope::Run,
        probe: Probe::Linux,
        mend: Mend::Person("ChoirOS runs on Linux; on macOS and Windows use a Linux virtual machine"),
    },
    Need {
        what: "rustup",
        scope: Scope::Run,
        probe: Probe::Program(&["rustup"]),
        mend: Mend::Person(
            "install Rust by rustup (https://rustup.rs): the toolchain and the wasm target come through it",
        ),
    },
    Need {
        what: "Node.js ≥ 20",
        scope: Scope::Run,
        probe: Probe::Major("node", NODE_MAJOR_MIN),
        mend: Mend::Person(
            "install Node.js 20 or newer (https://nodejs.org); it bundles the editor and drives the browser tests",
        ),
    },
    Need {
        what: "npm",
        scope: Scope::Run,
        probe: Probe::Program(&["npm"]),
        mend: Mend::Person("install npm, which comes with Node.js (https://nodejs.org)"),
    },
    Need { what: "git", scope: Scope::Run, probe: Probe::Program(&["git"]), mend: Mend::Debian("git") },
    Need {
        what: "a C compiler",
        scope: Scope::Run,
        probe: Probe::Program(&["cc"]),
        mend: Mend::Debian("build-essential"),
    },
    Need {
        what: "bubblewrap",
        scope: Scope::Torture,
        probe: Probe::Program(&["bwrap"]),
        mend: Mend::Debian("bubblewrap"),
    },
    Need {
        what: "the wasm target",
        scope: Scope::Run,
        probe: Probe::Rustup { list: "target", prefix: "wasm32-unknown-unknown" },
        mend: Mend::Rustup(&["target", "add", "wasm32-unknown-unknown"]),
    },
    Need {
        what: "clippy",
        scope: Scope::Check,
        probe: Probe::Rustup { list: "component", prefix: "clippy" },
        mend: Mend::Rustup(&["component", "add", "clippy"]),
    },
    Need {
        what: "rustfmt",
        scope: Scope::Check,
        probe: Probe::Rustup { list: "component", prefix: "rustfmt" },
        mend: Mend::Rustup(&["component", "add", "rustfmt"]),
    },
    Need {
        what: "fusermount3",
        scope: Scope::Torture,
        probe: Probe::Program(&["fusermount3"]),
        mend: Mend::Debian("fuse3"),
    },
    Need {
        what: "/dev/fuse",
        scope: Scope::Torture,
        probe: Probe::Path("/dev/fuse"),
        mend: Mend::Person(
            "power cuts and bad disks are played on a file system in user space; load its kernel module (modprobe fuse)",
        ),
    },
    Need {
        what: "Python 3 with venv",
        scope: Scope::Test,
        probe: Probe::Runs("python3", &["-c", "import ensurepip, venv"]),
        mend: Mend::Debian("python3-venv"),
    },
    Need { what: "curl", scope: Scope::Test, probe: Probe::Program(&["curl"]), mend: Mend::Debian("curl") },
    Need { what: "make", scope: Scope::Test, probe: Probe::Program(&["make"]), mend: Mend::Debian("make") },
    Need { what: "pgrep", scope: Scope::Test, probe: Probe::Program(&["pgrep"]), mend: Mend::Debian("procps") },
    Need { what: "Chromium", scope: Scope::Test, probe: Probe::Program(BROWSERS), mend: Mend::Debian("chromium") },
];

/// Installs everything that any command needs.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    let mut steps = Steps::new(&[STEPS]);
    install(paths, &mut steps, Scope::Test)?;
    steps.finish();
    Ok(())
}

/// Looks at the machine and installs what the scope needs, or stops with a sentence for each thing only a person can mend.
pub(crate) fn install(paths: &Paths, steps: &mut Steps, scope: Scope) -> Result<()> {
    let missing = steps.run(INSPECT, "cargo xtask install", |_| missing(paths, scope))?;
    steps.run(INSTALL, "cargo xtask install", |step| {
        for call in mend(&missing, &Machine::look())? {
            step.note(&call.to_string());
            step.call(&call.dir(&paths.root))?;
        }
        Ok(())
    })
}

fn missing(paths: &Paths, scope: Scope) -> Result<Vec<&'static Need>> {
    let mut missing = Vec::new();
    for need in NEEDS.iter().filter(|need| need.scope <= scope) {
        if !need.probe.passes(paths)? {
            missing.push(need);
        }
    }
    Ok(missing)
}

impl Probe {
    fn passes(&self, paths: &Paths) -> Result<bool> {
        match self {
            Self::Linux => Ok(env::consts::OS == "linux"),
            Self::Path(path) => Ok(Path::new(path).exists()),
            Self::Program(names) => Ok(names.iter().any(|name| on_path(name))),
            Self::Runs(program, arguments) => {
                Ok(on_path(program) && Call::new(program).args(*arguments).read().is_ok())
            }
            Self::Major(program, least) => Ok(on_path(program) && major(program)? >= *least),
            Self::Rustup { list, prefix } => {
                // Without rustup its own row speaks; this one has nothing to add.
                if !on_path("rustup") {
                    return Ok(true);
                }
                let installed = Call::new("rustup").args([*list, "list", "--installed"]).dir(&paths.root).read()?;
                Ok(installed.text.lines().any(|line| line.starts_with(prefix)))
            }
        }
    }
}

/// What decides how packages can be installed.
struct Machine {
    apt: bool,
    root: bool,
    sudo: bool,
}

impl Machine {
    fn look() -> Self {
        let succeeds = |call: Call| call.read().is_ok();
        Self {
            apt: on_path("apt-get"),
            root: Call::new("id").arg("-u").read().is_ok_and(|output| output.text == "0"),
            sudo: on_path("sudo") && succeeds(Call::new("sudo").args(["-n", "true"])),
        }
    }

    /// An `apt-get` that may install, if this machine has one.
    fn apt_get(&self) -> Option<Call> {
        let apt_get = match (self.apt, self.root, self.sudo) {
            (true, true, _) => Call::new("apt-get"),
            (true, false, true) => Call::new("sudo").args(["-n", "apt-get"]),
            _ => return None,
        };
        Some(apt_get.env("DEBIAN_FRONTEND", "noninteractive"))
    }
}

/// The calls that mend what is missing; a refusal names everything that a person has to do.
fn mend(missing: &[&Need], machine: &Machine) -> Result<Vec<Call>> {
    let mut sentences = Vec::new();
    let mut packages = Vec::new();
    let mut calls = Vec::new();
    for need in missing {
        match need.mend {
            Mend::Person(sentence) => sentences.push(format!("{} is missing: {sentence}", need.what)),
            Mend::Debian(package) => packages.push(package),
            Mend::Rustup(arguments) => calls.push(Call::new("rustup").args(arguments)),
        }
    }
    match machine.apt_get() {
        _ if packages.is_empty() => {}
        Some(apt_get) => {
            calls.push(apt_get.clone().args(["update", "-q"]));
            calls.push(apt_get.args(["install", "-y", "-q", "--no-install-recommends"]).args(&packages));
        }
        None => sentences.push(format!("missing packages (Debian names), please install them: {}", packages.join(" "))),
    }
    if !sentences.is_empty() {
        bail!("{}", sentences.join("\n"));
    }
    Ok(calls)
}

/// Where a program lies on the path.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| is_executable(file))
}

fn on_path(program: &str) -> bool {
    find(program).is_some()
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn major(program: &str) -> Result<u32> {
    let output = Call::new(program).arg("--version").read()?;
    match major_of(&output.text) {
        Some(major) => Ok(major),
        None => bail!("{program} --version answered {:?}", output.text),
    }
}

fn major_of(version: &str) -> Option<u32> {
    version.trim().trim_start_matches('v').split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Machine = Machine { apt: true, root: true, sudo: false };

    fn need(what: &str) -> &'static Need {
        NEEDS.iter().find(|need| need.what == what).unwrap()
    }

    fn lines(missing: &[&Need], machine: &Machine) -> Vec<String> {
        mend(missing, machine).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_missing_means_nothing_to_do() {
        assert!(lines(&[], &ROOT).is_empty());
    }

    #[test]
    fn packages_are_installed_together_when_allowed() {
        let missing = [need("bubblewrap"), need("Chromium"), need("the wasm target")];
        let calls = lines(&missing, &ROOT);
        assert_eq!(calls[0], "rustup target add wasm32-unknown-unknown");
        assert_eq!(calls[1], "DEBIAN_FRONTEND=noninteractive apt-get update -q");
        assert!(
            calls[2].ends_with("apt-get install -y -q --no-install-recommends bubblewrap chromium"),
            "{}",
            calls[2]
        );
        let calls = lines(&missing, &Machine { apt: true, root: false, sudo: true });
        assert!(calls[2].contains("sudo -n apt-get install"), "{}", calls[2]);
    }

    #[test]
    fn otherwise_the_missing_package_is_named() {
        for machine in
            [Machine { apt: true, root: false, sudo: false }, Machine { apt: false, root: true, sudo: false }]
        {
            let error = mend(&[need("bubblewrap")], &machine).unwrap_err().to_string();
            assert!(error.contains("bubblewrap"), "{error}");
        }
    }

    #[test]
    fn what_only_a_person_can_mend_stops_before_anything_is_installed() {
        let error = mend(&[need("bubblewrap"), need("Node.js ≥ 20")], &ROOT).unwrap_err().to_string();
        assert!(error.contains("Node.js 20 or newer"), "{error}");
    }

    /// Tests have their sandboxes run these, and a machine need not have any of them.
    #[test]
    fn what_the_tests_of_sandboxes_run_is_installed() {
        for (program, package) in [("curl", "curl"), ("make", "make"), ("pgrep", "procps"), ("python3", "python3-venv")]
        {
            let probes_it = |need: &&Need| match need.probe {
                Probe::Program(programs) => programs == [program],
                Probe::Runs(runs, _) => runs == program,
                _ => false,
            };
            let need = NEEDS.iter().find(probes_it).unwrap_or_else(|| panic!("nobody looks for {program}"));
            assert!(need.scope == Scope::Test && matches!(need.mend, Mend::Debian(of) if of == package), "{program}");
        }
    }

    #[test]
    fn versions_are_read_from_the_programs_answer() {
        assert_eq!(major_of("v20.20.2\n"), Some(20));
        assert_eq!(major_of("22.1"), Some(22));
        assert_eq!(major_of("twenty"), None);
    }

    #[test]
    fn a_program_that_is_not_there_fails_its_probe() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program"));
    }
}
