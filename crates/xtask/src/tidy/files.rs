//! Rules about tracked files whatever their language.

use serde_json::Value;

use super::{File, Finding, Tree, licence};

/// What programs leave behind when they run.
const STRAY_EXTENSIONS: &[&str] = &[
    "7z", "bak", "db", "db-shm", "db-wal", "gz", "log", "orig", "pid", "rej", "sqlite", "sqlite3", "swp", "tar", "tgz",
    "tmp", "wal", "xz", "zip", "zst",
];
/// Logs and archives that are inputs of tests: old ones must be readable forever.
const GOLDEN: &str = "/tests/golden/";

/// Bytes of one tracked file. A clone is downloaded by everyone, and its history forever.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Larger files, each with its reason.
const HUGE: &[(&str, &str)] = &[];

/// npm packages under another licence, with the reason why that binds nobody.
const NPM_EXCEPTIONS: &[(&str, &str)] =
    &[("node_modules/axe-core", "MPL-2.0, but it runs in the tests alone and ships nowhere")];

pub(super) fn strays(tree: &Tree) -> Vec<Finding> {
    let strays = tree.files.iter().filter(|file| file.has_extension(STRAY_EXTENSIONS) && !file.path.contains(GOLDEN));
    strays.map(|file| Finding::new(&file.path, "the repository holds no run outputs, databases or archives")).collect()
}

pub(super) fn huge(tree: &Tree) -> Vec<Finding> {
    let is_known = |file: &File| HUGE.iter().any(|(path, _)| *path == file.path);
    let huge = tree.files.iter().filter(|file| file.bytes.len() > FILE_BYTES_MAX && !is_known(file));
    huge.map(|file| Finding::new(&file.path, format!("has {} bytes; at most {FILE_BYTES_MAX}", file.bytes.len())))
        .collect()
}

/// Where packages come from is the machine's business; a name in a lock file would bind every clone to one server.
pub(super) fn registries(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter_map(|file| Some((file, forbidden(&file.path)?)))
        .flat_map(|(file, is_bad)| lines(file, is_bad))
        .collect()
}

fn lines(file: &File, is_bad: fn(&str) -> bool) -> Vec<Finding> {
    let numbered = file.text().unwrap_or_default().lines().enumerate();
    let bad = numbered.filter(|(_, line)| is_bad(line.trim()));
    bad.map(|(index, _)| Finding::new(format!("{}:{}", file.path, index + 1), "names a registry")).collect()
}

/// What a line of this file may not be, if the file decides where packages come from.
fn forbidden(path: &str) -> Option<fn(&str) -> bool> {
    const DEFAULT_SOURCE: &str = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;
    match path.rsplit('/').next()? {
        "package-lock.json" => Some(|line| line.starts_with(r#""resolved""#) && line.contains("://")),
        ".npmrc" => Some(|line| line.contains("registry=") || line.contains("registry =") || line.starts_with("//")),
        "Cargo.lock" => Some(|line| line.starts_with("source = ") && line != DEFAULT_SOURCE),
        "config.toml" if path.ends_with(".cargo/config.toml") => {
            Some(|line| ["[source", "[registr", "registry ="].iter().any(|start| line.starts_with(start)))
        }
        _ => None,
    }
}

pub(super) fn npm_licences(tree: &Tree) -> Vec<Finding> {
    let locks = tree.files.iter().filter(|file| file.path.ends_with("package-lock.json"));
    locks
        .flat_map(|file| {
            licences_of(file).unwrap_or_else(|| vec![Finding::new(&file.path, "is not a lock file of npm")])
        })
        .collect()
}

fn licences_of(lock: &File) -> Option<Vec<Finding>> {
    let value: Value = serde_json::from_str(lock.text()?).ok()?;
    // The entry without a name is our own package.
    let is_known = |name: &str| name.is_empty() || NPM_EXCEPTIONS.iter().any(|(known, _)| *known == name);
    let packages = value["packages"].as_object()?.iter().filter(|(name, _)| !is_known(name));
    let bad = packages.filter(|(_, package)| !package["license"].as_str().is_some_and(licence::is_allowed));
    Some(
        bad.map(|(name, package)| {
            Finding::new(&lock.path, format!("{name}: {} is not on the list", package["license"]))
        })
        .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn run_outputs_are_found() {
        let tree = Tree::with("data/events.db", "").and("notes.log", "").and("a.tar.gz", "").and("src/log.rs", "");
        assert_eq!(places(&strays(&tree)), ["data/events.db", "notes.log", "a.tar.gz"]);
        assert_eq!(strays(&Tree::with("crates/store/tests/golden/v1.db", "")), []);
    }

    #[test]
    fn huge_files_are_found() {
        assert_eq!(places(&huge(&Tree::with("a.bin", &"x".repeat(FILE_BYTES_MAX + 1)))), ["a.bin"]);
        assert_eq!(huge(&Tree::with("a.bin", &"x".repeat(FILE_BYTES_MAX))), []);
    }

    #[test]
    fn registry_names_are_found() {
        let bad = [
            ("web/package-lock.json", "{\n\"resolved\": \"https://registry.example/a.tgz\""),
            ("web/.npmrc", "\nregistry=https://registry.example"),
            ("Cargo.lock", "\nsource = \"registry+https://registry.example\""),
            (".cargo/config.toml", "\n[source.mirror]"),
        ];
        for (path, text) in bad {
            assert_eq!(places(&registries(&Tree::with(path, text))), [format!("{path}:2")]);
        }
        let good = Tree::with("Cargo.lock", r#"source = "registry+https://github.com/rust-lang/crates.io-index""#)
            .and("web/.npmrc", "omit-lockfile-registry-resolved=true")
            .and(".cargo/config.toml", "[alias]");
        assert_eq!(registries(&good), []);
    }

    #[test]
    fn npm_packages_without_a_good_licence_are_found() {
        let lock = |license: &str| {
            Tree::with(
                "package-lock.json",
                &format!(r#"{{"packages": {{"": {{}}, "node_modules/a": {{{license}}}}}}}"#),
            )
        };
        assert_eq!(npm_licences(&lock(r#""license": "MIT""#)), []);
        assert_eq!(npm_licences(&lock(r#""license": "GPL-3.0""#)).len(), 1);
        assert_eq!(npm_licences(&lock("")).len(), 1);
        assert_eq!(npm_licences(&Tree::with("package-lock.json", "nonsense")).len(), 1);
    }
}
