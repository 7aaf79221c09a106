//! Rules about crates: who may depend on whom, and on what.

use super::metadata::{Dependency, Package};
use super::{Finding, Tree, licence};

/// Our crates and what each may see. A wall is worth having when crossing it fails the build.
const SEES: &[(&str, &[&str])] = &[
    ("choir-proto", &[]),
    ("choir-core", &["choir-proto"]),
    ("choir-store", &["choir-proto"]),
    ("choir-llm", &["choir-proto"]),
    ("choir-sandbox", &["choir-proto"]),
    ("choir-computer", &["choir-proto", "choir-core", "choir-store", "choir-llm", "choir-sandbox"]),
    ("choir-control", &["choir-proto", "choir-core", "choir-store", "choir-llm", "choir-sandbox"]),
    ("choir-desktop", &["choir-proto", "choir-core"]),
    (
        "choir",
        &["choir-proto", "choir-core", "choir-store", "choir-llm", "choir-sandbox", "choir-computer", "choir-control"],
    ),
    (
        "choir-sim",
        &["choir-proto", "choir-core", "choir-store", "choir-llm", "choir-sandbox", "choir-computer", "choir-control"],
    ),
    ("xtask", &[]),
];

/// Dependencies that belong to one door, and why.
const FENCED: &[(&str, &[&str], &str)] = &[
    (
        "rusqlite",
        &["choir-store", "choir-control", "choir-sim"],
        "SQL is store's, but for control's own small database",
    ),
    ("reqwest", &["choir-control", "choir-sim"], "outbound network is control's alone"),
    ("yrs", &["choir-computer"], "merging of documents lives in computer"),
    ("ractor", &["choir-computer", "choir-sim"], "actors live in computer"),
    ("tokio", NOT_PURE, "proto and core do no I/O"),
    ("getrandom", NOT_PURE, "randomness arrives in proto and core as data"),
];

const NOT_PURE: &[&str] = &[
    "choir-store",
    "choir-llm",
    "choir-sandbox",
    "choir-computer",
    "choir-control",
    "choir",
    "choir-sim",
    "choir-desktop",
];

/// Crates that may appear nowhere in the tree, and what to use.
const BANNED: &[(&str, &str)] = &[
    ("openssl", "one TLS, in Rust: rustls"),
    ("openssl-sys", "one TLS, in Rust: rustls"),
    ("native-tls", "one TLS, in Rust: rustls"),
    ("sqlx", "one SQLite with one writer: rusqlite in choir-store"),
    ("diesel", "one SQLite with one writer: rusqlite in choir-store"),
    ("baml", "loads a library from the network at first use: our own wire types in choir-llm"),
    ("html2md", "GPL: htmd"),
    ("tdx-quote", "AGPL: dcap-qvl"),
    ("hakoniwa", "LGPL: our own namespaces in choir-sandbox"),
    ("axum-login", "pulls a second session layer: a small extractor"),
    ("lazy_static", "std::sync::LazyLock"),
    ("once_cell", "std::sync::OnceLock"),
    ("async-trait", "async functions in traits"),
    ("chrono", "jiff"),
    ("time", "jiff"),
];

/// Banned for our own crates, accepted where a dependency of ours brings it in.
const BANNED_DIRECTLY: &[&str] = &["lazy_static", "once_cell", "async-trait", "chrono", "time"];

/// Packages that state no licence expression, with what was read in their licence file.
const READ_BY_HAND: &[(&str, &str)] = &[];

pub(super) fn direction(tree: &Tree) -> Vec<Finding> {
    let Some(product) = tree.workspaces.first() else { return Vec::new() };
    product.members().flat_map(direction_of).collect()
}

fn direction_of(package: &Package) -> Vec<Finding> {
    let Some((_, seen)) = SEES.iter().find(|(name, _)| *name == package.name) else {
        return vec![Finding::new(
            &package.name,
            "is a new crate: give it a place in the list, and a reason to be one",
        )];
    };
    let ours = package.dependencies.iter().filter(|dependency| SEES.iter().any(|(name, _)| *name == dependency.name));
    let allowed = |dependency: &&Dependency| {
        // Tests may look further up, never at themselves through a cycle that would hide a wall.
        seen.contains(&dependency.name.as_str()) || (dependency.dev && dependency.name == package.name)
    };
    let bad = ours.filter(|dependency| !allowed(dependency));
    bad.map(|dependency| Finding::new(&package.name, format!("may not depend on {}", dependency.name))).collect()
}

pub(super) fn fences(tree: &Tree) -> Vec<Finding> {
    let Some(product) = tree.workspaces.first() else { return Vec::new() };
    let mut findings = Vec::new();
    for package in product.members() {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let fence = FENCED.iter().find(|(name, ..)| *name == dependency.name);
            if let Some((name, owners, why)) = fence.filter(|(_, owners, _)| !owners.contains(&package.name.as_str())) {
                findings.push(Finding::new(
                    &package.name,
                    format!("may not depend on {name}: {why} ({})", owners.join(", ")),
                ));
            }
        }
    }
    findings
}

/// Ways to break a promise on purpose exist for those who prove that the break is noticed; nothing that ships may have them.
pub(super) fn sabotage(tree: &Tree) -> Vec<Finding> {
    let members = tree.workspaces.iter().flat_map(|workspace| workspace.members());
    let switches = |dependency: &Dependency| dependency.features.iter().any(|feature| feature == "sabotage");
    let bad = members.filter(|package| package.name != "choir-sim" && package.dependencies.iter().any(switches));
    bad.map(|package| Finding::new(&package.name, "may not switch on `sabotage`; only choir-sim does")).collect()
}

pub(super) fn bans(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.workspaces.iter().flat_map(|workspace| &workspace.packages) {
        let direct = package.dependencies.iter().filter(|_| package.member).map(|dependency| dependency.name.as_str());
        let anywhere = [package.name.as_str()].into_iter().filter(|name| !BANNED_DIRECTLY.contains(name));
        for name in anywhere.chain(direct) {
            if let Some((_, instead)) = BANNED.iter().find(|(banned, _)| *banned == name) {
                findings.push(Finding::new(&package.name, format!("{name} is banned; instead: {instead}")));
            }
        }
    }
    findings
}

pub(super) fn licences(tree: &Tree) -> Vec<Finding> {
    let packages = tree.workspaces.iter().flat_map(|workspace| &workspace.packages);
    let bad = packages.filter(|package| !has_good_licence(package));
    bad.map(|package| {
        let stated = package.license.as_deref().unwrap_or("no licence expression");
        Finding::new(
            format!("{} {}", package.name, package.version),
            format!("{stated} is not on the list of licences"),
        )
    })
    .collect()
}

fn has_good_licence(package: &Package) -> bool {
    let by_hand = READ_BY_HAND.iter().find(|(name, _)| *name == package.name).map(|(_, licence)| *licence);
    package.license.as_deref().or(by_hand).is_some_and(licence::is_allowed)
}

pub(super) fn lints(tree: &Tree) -> Vec<Finding> {
    let is_member = |path: &str| matches!(path.split('/').collect::<Vec<_>>()[..], ["crates", _, "Cargo.toml"]);
    let manifests = tree.files.iter().filter(|file| is_member(&file.path));
    let silent = manifests.filter(|file| {
        let text = file.text().unwrap_or_default();
        !text.contains("[lints]\nworkspace = true")
    });
    silent.map(|file| Finding::new(&file.path, "needs `[lints] workspace = true`")).collect()
}

/// Every integration binary links the world again.
pub(super) fn integration_binaries(tree: &Tree) -> Vec<Finding> {
    let members = tree.workspaces.iter().flat_map(|workspace| workspace.members());
    let many = members.filter(|package| package.test_targets > 1);
    many.map(|package| {
        let why = format!(
            "has {} integration binaries; with `autotests = false` they become modules of one",
            package.test_targets
        );
        Finding::new(&package.name, why)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    /// A workspace with one member that declares one dependency, and that dependency's package.
    fn workspace(member: &str, dependency: &str, kind: &str, license: &str) -> Tree {
        Tree::of(&format!(
            r#"{{"workspace_members": ["m"], "packages": [
                {{"id": "m", "name": "{member}", "version": "1.0.0", "license": "MIT",
                  "dependencies": [{{"name": "{dependency}", "kind": {kind}}}]}},
                {{"id": "d", "name": "{dependency}", "version": "2.0.0", "license": {license}, "dependencies": []}}]}}"#
        ))
    }

    fn depends(member: &str, dependency: &str) -> Tree {
        workspace(member, dependency, "null", r#""MIT""#)
    }

    #[test]
    fn a_dependency_against_the_list_is_found() {
        assert_eq!(direction(&depends("choir-core", "choir-proto")), []);
        assert_eq!(places(&direction(&depends("choir-core", "choir-store"))), ["choir-core"]);
        assert_eq!(places(&direction(&depends("choir-desktop", "choir-store"))), ["choir-desktop"]);
        assert_eq!(places(&direction(&workspace("choir-proto", "choir-core", r#""dev""#, "null"))), ["choir-proto"]);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(places(&direction(&depends("choir-utils", "serde"))), ["choir-utils"]);
    }

    #[test]
    fn a_fenced_dependency_elsewhere_is_found() {
        assert_eq!(fences(&depends("choir-store", "rusqlite")), []);
        assert_eq!(places(&fences(&depends("choir-computer", "rusqlite"))), ["choir-computer"]);
        assert_eq!(places(&fences(&depends("choir-core", "tokio"))), ["choir-core"]);
        assert_eq!(fences(&workspace("choir-core", "tokio", r#""dev""#, "null")), [], "tests may");
    }

    #[test]
    fn sabotage_of_what_ships_is_found() {
        let tree = |member: &str| {
            Tree::of(&format!(
                r#"{{"workspace_members": ["m"], "packages": [{{"id": "m", "name": "{member}", "version": "1.0.0",
                    "license": "MIT", "dependencies": [{{"name": "choir-store", "kind": null, "features": ["sabotage"]}}]}}]}}"#
            ))
        };
        assert_eq!(sabotage(&tree("choir-sim")), []);
        assert_eq!(places(&sabotage(&tree("choir"))), ["choir"]);
    }

    #[test]
    fn a_banned_crate_is_found_wherever_it_comes_from() {
        assert_eq!(bans(&depends("choir-store", "serde")), []);
        assert_eq!(places(&bans(&depends("choir-control", "openssl"))), ["choir-control", "openssl"]);
        assert_eq!(places(&bans(&depends("choir-control", "chrono"))), ["choir-control"], "only our own use counts");
    }

    #[test]
    fn a_licence_off_the_list_is_found() {
        assert_eq!(licences(&depends("choir", "serde")), []);
        assert_eq!(places(&licences(&workspace("choir", "copyleft", "null", r#""GPL-3.0""#))), ["copyleft 2.0.0"]);
        assert_eq!(places(&licences(&workspace("choir", "silent", "null", "null"))), ["silent 2.0.0"]);
    }

    #[test]
    fn a_second_integration_binary_is_found() {
        let tree = |targets: &str| {
            Tree::of(&format!(
                r#"{{"workspace_members": ["m"], "packages": [
                {{"id": "m", "name": "m", "version": "1.0.0", "license": "MIT", "dependencies": [], "targets": [{targets}]}}]}}"#
            ))
        };
        let test = r#"{"kind": ["test"]}"#;
        assert_eq!(integration_binaries(&tree(&format!(r#"{test}, {{"kind": ["lib"]}}"#))), []);
        assert_eq!(places(&integration_binaries(&tree(&format!("{test}, {test}")))), ["m"]);
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        assert_eq!(lints(&Tree::with("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n")), []);
        assert_eq!(places(&lints(&Tree::with("crates/a/Cargo.toml", "[package]\n"))), ["crates/a/Cargo.toml"]);
        assert_eq!(lints(&Tree::with("crates/a/tool/Cargo.toml", "[workspace]\n")), [], "another workspace");
    }
}
