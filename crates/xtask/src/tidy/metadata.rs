//! The part of `cargo metadata` that rules look at.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::call::Call;
use crate::paths::Paths;

/// One workspace: its own packages and everything they depend on.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
}

/// One package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression, if the package states one.
    pub(super) license: Option<String>,
    /// Whether it is ours.
    pub(super) member: bool,
    pub(super) dependencies: Vec<Dependency>,
    /// How many integration test binaries it has.
    pub(super) test_targets: usize,
}

/// One declared dependency of a package.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// Whether only tests, examples and benchmarks see it.
    pub(super) dev: bool,
    /// Features that are switched on by name.
    pub(super) features: Vec<String>,
}

impl Metadata {
    /// Asks cargo about the workspace in a directory of the clone (`""` is the root).
    pub(super) fn load(paths: &Paths, directory: &str) -> Result<Self> {
        let manifest = paths.root.join(directory).join("Cargo.toml");
        let mut call = paths.cargo(["metadata", "--locked", "--format-version", "1", "--manifest-path"]).arg(manifest);
        // Only what can be part of a build of ours: packages for other systems would have to be downloaded to be judged.
        for platform in [host(paths)?.as_str(), "wasm32-unknown-unknown"] {
            call = call.args(["--filter-platform", platform]);
        }
        Self::parse(&call.exact()?)
    }

    /// Reads cargo's answer.
    pub(super) fn parse(json: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(json).context("cargo metadata is not JSON")?;
        let members = list(&value, "workspace_members");
        let packages = list(&value, "packages").iter().map(|package| parse_package(package, members));
        Ok(Self {
            packages: packages.collect::<Option<_>>().context("cargo metadata has another shape than expected")?,
        })
    }

    /// The workspace's own packages.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.member)
    }
}

fn parse_package(value: &Value, members: &[Value]) -> Option<Package> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let dependency = |value: &Value| {
        let name = value["name"].as_str()?.to_owned();
        let features = list(value, "features").iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Some(Dependency { name, dev: value["kind"] == "dev", features })
    };
    Some(Package {
        name: text("name")?,
        version: text("version")?,
        license: text("license"),
        member: members.contains(&value["id"]),
        dependencies: list(value, "dependencies").iter().map(dependency).collect::<Option<_>>()?,
        test_targets: list(value, "targets").iter().filter(|target| target["kind"][0] == "test").count(),
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn host(paths: &Paths) -> Result<String> {
    let version = Call::new("rustc").arg("-vV").dir(&paths.root).read()?;
    let line = version.text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc -vV names no host")?.to_owned())
}
