//! Compilers that lie in the home of whoever started this, shown to the sandboxes of commands and terminals.
//!
//! A sandbox sees `/usr` and nothing of anybody's home, but that is where `rustup` and `nvm` put what they install. What is
//! shown is what they have installed, read-only and at another place, and never what lies beside it: the homes of `cargo`
//! and `npm` hold credentials. What a project pins is honoured, and one that is not installed is an error inside.

use choir_sandbox::guest::SEARCH_PATH;
use choir_sandbox::runtime::{Access, Mount, Spec};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where they are, inside.
const INSIDE: &str = "/opt/toolchains";
/// The programs of a Rust toolchain that `rustup` stands in for.
const RUST_PROGRAMS: [&str; 7] = ["cargo", "cargo-clippy", "cargo-fmt", "clippy-driver", "rustc", "rustdoc", "rustfmt"];
/// Directories that `rustup` would make if they were missing, which it cannot.
const RUSTUP_DIRECTORIES: [&str; 2] = ["toolchains", "update-hashes"];
/// Of a version of Node, all that programs need; its settings, which may hold tokens, lie beside these.
const NODE_PARTS: [&str; 2] = ["bin", "lib"];
/// Where Go is put by hand. It is a part of `/usr`, so only the search path lacks it.
const GO: &str = "/usr/local/go/bin";
/// Longest settings that are read.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// Where toolchains of a person may be.
#[derive(Debug, Clone, Default)]
pub struct Homes {
    rustup: Option<PathBuf>,
    cargo: Option<PathBuf>,
    nvm: Option<PathBuf>,
}

impl Homes {
    /// As the programs themselves find them.
    pub fn of_environment() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME");
        let or_at = |name: &str, at: &str| variable(name).or_else(|| home.as_ref().map(|home| home.join(at)));
        Self {
            rustup: or_at("RUSTUP_HOME", ".rustup"),
            cargo: or_at("CARGO_HOME", ".cargo"),
            nvm: or_at("NVM_DIR", ".nvm"),
        }
    }

    /// In one home.
    pub fn of(home: &Path) -> Self {
        let at = |name: &str| Some(home.join(name));
        Self { rustup: at(".rustup"), cargo: at(".cargo"), nvm: at(".nvm") }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    rust: Option<Rust>,
    node: Option<Node>,
    go: bool,
}

/// What `rustup` has installed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rust {
    toolchains: PathBuf,
    rustup: PathBuf,
    /// What is used where nothing else is asked for.
    default: Option<String>,
}

/// A version of Node that `nvm` has installed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    directory: PathBuf,
    version: String,
}

impl Toolchains {
    /// Looks for them. What cannot be read is not there.
    pub fn find(homes: &Homes) -> Self {
        Self { rust: rust(homes), node: homes.nvm.as_deref().and_then(node), go: Path::new(GO).is_dir() }
    }

    /// By name, for people.
    pub fn names(&self) -> Vec<String> {
        let rust = self.rust.as_ref().map(|rust| {
            let default = rust.default.as_deref().unwrap_or("no default");
            format!("Rust by rustup ({default})")
        });
        let node = self.node.as_ref().map(|node| format!("Node by nvm ({})", node.version));
        rust.into_iter().chain(node).chain(self.go.then(|| "Go".to_owned())).collect()
    }

    /// Shows them to a sandbox. `directory` is ours, for what has to lie around them.
    pub fn show(&self, directory: &Path, spec: &mut Spec) -> io::Result<()> {
        let (mut mounts, mut search) = (Vec::new(), Vec::new());
        let mut variables = BTreeMap::new();
        let mut mount = |host: PathBuf, inside: &str| {
            mounts.push(Mount { host, inside: format!("{INSIDE}/{inside}").into(), access: Access::Read });
        };
        if let Some(Rust { toolchains, rustup, default }) = &self.rust {
            let around = directory.join("rustup");
            lay_out(&around, default.as_deref())?;
            mount(around, "rustup");
            mount(toolchains.clone(), "rustup/toolchains");
            mount(rustup.clone(), "program/rustup");
            search.push(format!("{INSIDE}/rustup/bin"));
            variables.insert("RUSTUP_HOME".to_owned(), format!("{INSIDE}/rustup"));
            // It could not: nothing there can be written.
            variables.insert("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned());
        }
        if let Some(Node { directory, .. }) = &self.node {
            for part in NODE_PARTS.map(|part| (directory.join(part), format!("node/{part}"))) {
                mount(part.0, &part.1);
            }
            search.push(format!("{INSIDE}/node/bin"));
        }
        search.extend(self.go.then(|| GO.to_owned()));
        if !search.is_empty() {
            search.push(SEARCH_PATH.to_owned());
            variables.insert("PATH".to_owned(), search.join(":"));
        }
        spec.mounts.extend(mounts);
        spec.environment.extend(variables);
        Ok(())
    }
}

fn rust(homes: &Homes) -> Option<Rust> {
    let (home, cargo) = (homes.rustup.as_deref()?, homes.cargo.as_deref()?);
    let (toolchains, rustup) = (home.join("toolchains"), cargo.join("bin/rustup"));
    (toolchains.is_dir() && rustup.is_file()).then(|| Rust { default: default_toolchain(home), toolchains, rustup })
}

/// Only the name is taken over: the settings also say which folders of the person have a toolchain of their own.
fn default_toolchain(home: &Path) -> Option<String> {
    let settings: toml::Table = read(&home.join("settings.toml"))?.parse().ok()?;
    let name = settings.get("default_toolchain")?.as_str()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (name.bytes().all(plain) && home.join("toolchains").join(name).is_dir()).then(|| name.to_owned())
}

/// The version that new shells of the person get, or the newest one where that is not said plainly.
fn node(home: &Path) -> Option<Node> {
    let versions = home.join("versions/node");
    let wanted = read(&home.join("alias/default")).unwrap_or_default();
    let wanted = wanted.trim().trim_start_matches('v');
    let names = std::fs::read_dir(&versions).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut known: Vec<(Vec<u32>, String)> = names.filter_map(|name| Some((numbers(&name)?, name))).collect();
    known.sort_unstable();
    let is_wanted = |name: &str| {
        let rest = name.strip_prefix('v').and_then(|name| name.strip_prefix(wanted));
        !wanted.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let chosen = known.iter().rfind(|(_, name)| is_wanted(name)).or(known.last())?;
    let directory = versions.join(&chosen.1);
    let is_whole = NODE_PARTS.iter().all(|part| directory.join(part).is_dir());
    is_whole.then(|| Node { directory, version: chosen.1.clone() })
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.strip_prefix('v')?.split('.').map(|part| part.parse().ok()).collect()
}

fn read(path: &Path) -> Option<String> {
    let is_short = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= SETTINGS_BYTES_MAX);
    if is_short { std::fs::read_to_string(path).ok() } else { None }
}

/// A home for `rustup` in which it finds what it looks for, and nothing of the person's.
fn lay_out(directory: &Path, default: Option<&str>) -> io::Result<()> {
    let bin = directory.join("bin");
    let made = RUSTUP_DIRECTORIES.map(|name| directory.join(name));
    for made in made.iter().chain([&bin]) {
        std::fs::create_dir_all(made)?;
    }
    let default = default.map(|name| format!("default_toolchain = \"{name}\"\n")).unwrap_or_default();
    let (settings, content) = (directory.join("settings.toml"), format!("version = \"12\"\n{default}"));
    if read(&settings).as_deref() != Some(&content) {
        // In one step: sandboxes that run already read it.
        let new = directory.join("settings.new");
        std::fs::write(&new, content)?;
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o644))?;
        std::fs::rename(&new, &settings)?;
    }
    for program in RUST_PROGRAMS.iter().chain(["rustup"].iter()) {
        match symlink(format!("{INSIDE}/program/rustup"), bin.join(program)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    // Whoever is inside may be another user.
    for open in made.iter().map(PathBuf::as_path).chain([bin.as_path(), directory]) {
        std::fs::set_permissions(open, PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_sandbox::guest::GuestRole;

    fn write(path: PathBuf, content: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A home with both, with credentials beside them.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        write(at(".rustup/toolchains/stable-here/bin/cargo"), "");
        write(
            at(".rustup/settings.toml"),
            "default_toolchain = \"stable-here\"\n[overrides]\n\"/home/me/x\" = \"y\"\n",
        );
        write(at(".cargo/bin/rustup"), "");
        write(at(".cargo/credentials.toml"), "token");
        for version in ["v9.11.2", "v20.1.0", "v18.19.0"] {
            write(at(&format!(".nvm/versions/node/{version}/bin/node")), "");
            write(at(&format!(".nvm/versions/node/{version}/lib/node_modules/npm/x")), "");
            write(at(&format!(".nvm/versions/node/{version}/etc/npmrc")), "token");
        }
        home
    }

    fn shown(home: &Path) -> Spec {
        let mut spec = Spec::new(GuestRole::Associate, "/x", "/x");
        Toolchains::find(&Homes::of(home)).show(&home.join("ours"), &mut spec).unwrap();
        spec
    }

    #[test]
    fn toolchains_are_shown_and_nothing_that_lies_beside_them() {
        let home = home();
        let spec = shown(home.path());
        let places: Vec<_> = spec.mounts.iter().map(|mount| mount.host.strip_prefix(home.path()).unwrap()).collect();
        let wanted = [
            "ours/rustup",
            ".rustup/toolchains",
            ".cargo/bin/rustup",
            ".nvm/versions/node/v20.1.0/bin",
            ".nvm/versions/node/v20.1.0/lib",
        ];
        assert_eq!(places, wanted.map(Path::new));
        assert!(spec.mounts.iter().all(|mount| mount.access == Access::Read && mount.inside.starts_with(INSIDE)));
        let search = &spec.environment["PATH"];
        assert!(search.starts_with("/opt/toolchains/rustup/bin:/opt/toolchains/node/bin:"), "{search}");
        assert!(search.ends_with(SEARCH_PATH), "{search}");
        let settings = std::fs::read_to_string(home.path().join("ours/rustup/settings.toml")).unwrap();
        assert!(settings.contains("stable-here") && !settings.contains("/home/me"), "{settings}");
    }

    #[test]
    fn what_is_not_there_is_not_shown_and_what_is_odd_is_not_believed() {
        let empty = tempfile::tempdir().unwrap();
        let (spec, go) = (shown(empty.path()), Path::new(GO).is_dir());
        assert!(spec.mounts.is_empty() && spec.environment.contains_key("PATH") == go);
        let home = home();
        write(home.path().join(".rustup/settings.toml"), "default_toolchain = \"../../.cargo\"\n");
        write(home.path().join(".nvm/alias/default"), "18\n");
        let found = Toolchains::find(&Homes::of(home.path()));
        assert_eq!(found.names()[..2], ["Rust by rustup (no default)", "Node by nvm (v18.19.0)"]);
    }
}
