//! Which checks a project brings itself: found in the tree as it was before a worker touched it.

use crate::says::Says;
use crate::told::package_scripts;
use crate::verify::Step;
use choir_proto::task::{FileChange, VerifyMode};
use choir_proto::wire::TreeFile;
use std::collections::BTreeSet;

/// Names of the files that tell of checks; one `*` fits anything.
pub const NAMES: [&str; 14] = [
    "Cargo.toml",
    "package.json",
    "package-lock.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "pytest.ini",
    "conftest.py",
    "pyproject.toml",
    "go.mod",
    "test_*.py",
    "*_test.py",
    "*tests.py",
    "tox.ini",
];

/// Most projects of one sort that are checked at once; a workspace full of them is a plan for a person.
const PROJECTS_MAX: usize = 8;

/// Where projects are brought in; each is one by itself.
const PROJECTS: &str = "projects/";

/// Endings of files that are words for people.
const WORDS_ENDS: [&str; 3] = [".md", ".rst", ".txt"];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In order.
    pub steps: Vec<Step>,
    /// What the project's own definitions run, so that scripts named there count as checks.
    pub recipes: Vec<String>,
    /// Directories of the projects that are checked.
    pub homes: Vec<String>,
}

impl Found {
    /// Changed paths that no check looks at. Words about a project that is checked need none.
    pub fn unseen(&self, changed: &[FileChange]) -> Vec<String> {
        let is_seen = |path: &str| {
            let beside = |home: &String| is_words(path) && project(home) == project(path);
            self.homes.iter().any(|home| is_within(path, home) || beside(home))
        };
        changed.iter().filter(|file| !is_seen(&file.path)).map(|file| file.path.clone()).collect()
    }
}

/// The checks of the projects that a task changed; of all of them, if it changed nothing.
pub fn discover(files: &[TreeFile], changed: &[FileChange], mode: VerifyMode) -> Found {
    let mut found = Found::default();
    for sort in Sort::ALL {
        let homes: BTreeSet<&str> = files.iter().filter_map(|file| sort.home(file)).collect();
        let of = |path: &str| sort.checked(&homes, files, path);
        let touched: BTreeSet<&str> = if changed.is_empty() {
            homes.iter().flat_map(|home| of(home)).collect()
        } else {
            changed.iter().flat_map(|file| of(&file.path)).collect()
        };
        for home in touched.into_iter().take(PROJECTS_MAX) {
            let before = found.steps.len();
            sort.add(&Project { home, files }, mode, &mut found);
            if found.steps.len() > before {
                found.homes.push(home.to_owned());
            }
        }
    }
    found
}

/// Whether a file is words for people.
pub(crate) fn is_words(path: &str) -> bool {
    WORDS_ENDS.iter().any(|end| path.ends_with(end))
}

/// The directory of the project that a path lies in, where it was brought in; nothing elsewhere.
pub(crate) fn project(path: &str) -> &str {
    let Some(name) = path.strip_prefix(PROJECTS).and_then(|below| below.split('/').next()) else { return "" };
    &path[..PROJECTS.len() + name.len()]
}

pub(crate) fn is_within(path: &str, home: &str) -> bool {
    home.is_empty() || path.strip_prefix(home).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The sorts of projects that are known.
#[derive(Debug, Clone, Copy)]
enum Sort {
    Cargo,
    Npm,
    Python,
    Go,
    Make,
}

/// One project in the tree.
struct Project<'a> {
    home: &'a str,
    files: &'a [TreeFile],
}

impl Sort {
    const ALL: [Self; 5] = [Self::Cargo, Self::Npm, Self::Python, Self::Go, Self::Make];

    /// The directory that a file makes a project of this sort.
    fn home(self, file: &TreeFile) -> Option<&str> {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let text = file.text.as_deref().unwrap_or_default();
        let is = match self {
            Self::Cargo => name == "Cargo.toml",
            Self::Go => name == "go.mod",
            Self::Npm => name == "package.json" && npm_script(text).is_some(),
            Self::Make => is_makefile(name) && target(text).is_some(),
            Self::Python => match name {
                "pytest.ini" | "conftest.py" => true,
                "pyproject.toml" => text.contains("[tool.pytest"),
                "tox.ini" => text.contains("[pytest]"),
                _ => is_python_test(name),
            },
        };
        // Tests in a directory of their own are those of the directory above.
        let (above, last) = directory.rsplit_once('/').unwrap_or(("", directory));
        let beside = matches!(self, Self::Python) && matches!(last, "tests" | "test");
        is.then_some(if beside { above } else { directory })
    }

    /// The homes that are checked for a path: each that it lies in, within the project that was brought in, but for those whose
    /// tests the check of another one runs.
    fn checked<'a>(self, homes: &BTreeSet<&'a str>, files: &[TreeFile], path: &str) -> Vec<&'a str> {
        let begins = project(path).len();
        let holds = |home: &&str| is_within(path, home) && home.len() >= begins;
        let all: Vec<&str> = homes.iter().copied().filter(holds).collect();
        let runs = |outer: &str, inner: &str| {
            outer.len() < inner.len() && self.covers(&Project { home: outer, files }, &Project { home: inner, files })
        };
        all.iter().copied().filter(|home| !all.iter().any(|outer| runs(outer, home))).collect()
    }

    /// Whether the check of a project runs the tests of one that lies within it.
    fn covers(self, outer: &Project<'_>, inner: &Project<'_>) -> bool {
        let beneath = inner.home[outer.home.len()..].trim_start_matches('/');
        let named = |patterns: Vec<String>| patterns.iter().any(|pattern| is_member(beneath, pattern));
        match self {
            Self::Python => true,
            Self::Go => false,
            Self::Cargo => {
                let table = |project: &Project<'_>| project.text("Cargo.toml").and_then(workspace).map(str::to_owned);
                let outer = table(outer);
                let listed = |key| outer.as_deref().map(|table| list(table, key)).unwrap_or_default();
                table(inner).is_none() && named(listed("members")) && !named(listed("exclude"))
            }
            Self::Npm => {
                let manifest: serde_json::Value =
                    outer.text("package.json").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                let workspaces = &manifest["workspaces"];
                let members = workspaces.as_array().or_else(|| workspaces["packages"].as_array());
                let members = members.into_iter().flatten().filter_map(|member| member.as_str().map(str::to_owned));
                let script = manifest["scripts"]["test"].as_str().unwrap_or_default();
                named(members.collect()) || mentions(script, beneath)
            }
            Self::Make => outer.makefile().is_some_and(|text| mentions(text, beneath)),
        }
    }

    fn add(self, project: &Project<'_>, mode: VerifyMode, found: &mut Found) {
        match (self, mode) {
            (_, VerifyMode::None) => {}
            (Self::Cargo, VerifyMode::Smoke) => {
                project.check(found, "cargo", "cargo check --all-targets", Says::Nothing)
            }
            (Self::Cargo, VerifyMode::Commands) => {
                project.check(found, "cargo", "cargo test --workspace", Says::CargoResults);
            }
            (Self::Go, VerifyMode::Smoke) => project.check(found, "go", "go vet ./...", Says::Nothing),
            (Self::Go, VerifyMode::Commands) => project.check(found, "go", "go test -v ./...", Says::GoTests),
            (Self::Python, VerifyMode::Smoke) => {
                project.check(found, "python3", "python3 -m compileall -q .", Says::Nothing);
            }
            (Self::Python, VerifyMode::Commands) => project.add_python(found),
            (Self::Npm, VerifyMode::Commands) => project.add_npm(found),
            (Self::Make, VerifyMode::Commands) => project.add_make(found),
            // What a script or a target does is not known without running it.
            (Self::Npm | Self::Make, VerifyMode::Smoke) => {}
        }
    }
}

impl Project<'_> {
    fn check(&self, found: &mut Found, tool: &str, command: &str, says: Says) {
        let probe = Step::tool(tool);
        if !found.steps.contains(&probe) {
            found.steps.push(probe);
        }
        found.steps.push(Step::check(self.within(command), says));
    }

    fn add_npm(&self, found: &mut Found) {
        let Some(text) = self.text("package.json") else { return };
        let manifest: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let needs = ["dependencies", "devDependencies"]
            .iter()
            .any(|key| manifest[key].as_object().is_some_and(|needs| !needs.is_empty()));
        let says = npm_script(text).as_deref().map_or(Says::Nothing, Says::of);
        found.recipes.extend(package_scripts(&manifest));
        found.steps.push(Step::tool("npm"));
        if needs {
            let locked = self.text("package-lock.json").is_some();
            let install = if locked { "npm ci" } else { "npm install --no-save --no-package-lock" };
            found.steps.push(Step::preparation(self.within(install)));
        }
        self.check(found, "npm", "npm test", says);
    }

    fn add_make(&self, found: &mut Found) {
        let Some(target) = self.makefile().and_then(target) else { return };
        self.check(found, "make", &format!("make {target}"), Says::Nothing);
    }

    /// Tests that need no more than the language's own library run without pytest too.
    fn add_python(&self, found: &mut Found) {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let tests: Vec<_> = self
            .files
            .iter()
            .filter(|file| is_within(&file.path, self.home) && is_python_test(&name(&file.path)))
            .collect();
        let plain = |file: &&TreeFile| file.text.as_ref().is_some_and(|text| text.contains("unittest"));
        if tests.is_empty() || !tests.iter().all(plain) {
            found.steps.push(Step::module("pytest"));
            return self.check(found, "python3", "python3 -m pytest -q", Says::OneOf(&[" passed"]));
        }
        let beneath = |path: &str| path[self.home.len()..].trim_start_matches('/').to_owned();
        let homes: BTreeSet<String> = tests
            .iter()
            .map(|file| beneath(file.path.rsplit_once('/').map_or("", |(directory, _)| directory)))
            .collect();
        let is_there = |directory: &str, pattern: &str| {
            let within = |path: &str| {
                path.rsplit_once('/')
                    .map_or(("".to_owned(), path.to_owned()), |(above, name)| (above.to_owned(), name.to_owned()))
            };
            tests.iter().any(|file| {
                let (above, name) = within(&beneath(&file.path));
                above == directory && fits(&name, pattern)
            })
        };
        for home in &homes {
            for pattern in PYTHON_TESTS.iter().filter(|pattern| is_there(home, pattern)) {
                let home = if home.is_empty() { "." } else { home };
                let command = format!("python3 -m unittest discover -s {} -p '{pattern}'", quoted(home));
                self.check(found, "python3", &command, Says::OneOf(&["\nOK"]));
            }
        }
    }

    fn makefile(&self) -> Option<&str> {
        ["GNUmakefile", "makefile", "Makefile"].iter().find_map(|name| self.text(name))
    }

    fn text(&self, name: &str) -> Option<&str> {
        let at = |path: &str| match path.rsplit_once('/') {
            Some((directory, last)) => directory == self.home && last == name,
            None => self.home.is_empty() && path == name,
        };
        self.files.iter().find(|file| at(&file.path))?.text.as_deref()
    }

    fn within(&self, command: &str) -> String {
        if self.home.is_empty() { command.to_owned() } else { format!("cd {} && {command}", quoted(self.home)) }
    }
}

/// The table in which cargo's manifest says what else belongs to it.
fn workspace(manifest: &str) -> Option<&str> {
    let (_, table) = manifest.split_once("[workspace]")?;
    Some(table.split_once("\n[").map_or(table, |(table, _)| table))
}

/// The strings of a list in such a table.
fn list(table: &str, key: &str) -> Vec<String> {
    let is_key =
        |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    let Some(at) = table.lines().position(is_key) else { return Vec::new() };
    let text: Vec<_> = table.lines().skip(at).map(|line| line.split('#').next().unwrap_or(line)).collect();
    let text = text.join("\n");
    let strings = text.split(']').next().unwrap_or(&text).split(['"', '\'']);
    strings.skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a directory is one of those that a pattern names; each `*` fits anything within one name.
fn is_member(directory: &str, pattern: &str) -> bool {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    let (names, parts): (Vec<_>, Vec<_>) = (directory.split('/').collect(), pattern.split('/').collect());
    match parts.iter().position(|part| *part == "**") {
        Some(at) => names.len() > at && names.iter().zip(&parts[..at]).all(|(name, part)| fits(name, part)),
        None => names.len() == parts.len() && names.iter().zip(&parts).all(|(name, part)| fits(name, part)),
    }
}

/// Whether a name is one that a pattern means; each `*` fits anything.
pub(crate) fn fits(name: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut left) = name.strip_prefix(begin) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

/// Whether a recipe speaks of a directory.
fn mentions(recipe: &str, directory: &str) -> bool {
    let last = directory.rsplit('/').next().unwrap_or(directory);
    recipe.split(|letter: char| !(letter.is_alphanumeric() || "-_.".contains(letter))).any(|word| word == last)
}

pub(crate) fn is_makefile(name: &str) -> bool {
    matches!(name, "Makefile" | "makefile" | "GNUmakefile")
}

/// The names of Python's tests, each as a pattern of which nothing else can be made.
const PYTHON_TESTS: [&str; 3] = ["test_*.py", "*_test.py", "*tests.py"];

pub(crate) fn is_python_test(name: &str) -> bool {
    PYTHON_TESTS.iter().any(|pattern| fits(name, pattern))
}

/// The script behind `npm test`; what npm writes into a new package is none.
pub(crate) fn npm_script(package: &str) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_str(package).ok()?;
    let script = manifest["scripts"]["test"].as_str()?;
    (!script.trim().is_empty() && !script.contains("no test specified")).then(|| script.to_owned())
}

/// The target that checks, by the names that people give it.
fn target(makefile: &str) -> Option<&'static str> {
    ["test", "check"].into_iter().find(|name| {
        let defines = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':'));
        makefile.lines().any(defines)
    })
}

/// For a shell.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::task::ChangeKind;

    fn file(path: &str, text: &str) -> TreeFile {
        TreeFile { path: path.into(), hash: choir_proto::Hash::ZERO, text: Some(text.into()) }
    }

    fn check(files: &[TreeFile], changed: &[&str]) -> Vec<String> {
        let changed: Vec<_> =
            changed.iter().map(|path| FileChange { path: (*path).into(), change: ChangeKind::Modified }).collect();
        let found = discover(files, &changed, VerifyMode::Commands);
        found.steps.into_iter().map(|step| step.command).collect()
    }

    #[test]
    fn each_sort_of_project_has_its_check() {
        let package = r#"{"scripts": {"test": "node run.js"}, "devDependencies": {"x": "1"}}"#;
        let files = [
            file("a/Cargo.toml", "[package]"),
            file("b/package.json", package),
            file("b/package-lock.json", "{}"),
            file("c/Makefile", "all:\n\ntest: all\n\t@sh check.sh\n"),
            file("d/tests/test_x.py", "import unittest"),
            file("e/test_y.py", "def test_y(): pass"),
            file("f/go.mod", "module f"),
        ];
        assert_eq!(
            check(&files, &["a/src/lib.rs", "b/x.js", "c/x.c", "d/x.py", "e/y.py", "f/x.go"]),
            [
                "command -v cargo",
                "cd 'a' && cargo test --workspace",
                "command -v npm",
                "cd 'b' && npm ci",
                "cd 'b' && npm test",
                "command -v python3",
                "cd 'd' && python3 -m unittest discover -s 'tests' -p 'test_*.py'",
                "python3 -c 'import pytest'",
                "cd 'e' && python3 -m pytest -q",
                "command -v go",
                "cd 'f' && go test -v ./...",
                "command -v make",
                "cd 'c' && make test",
            ]
        );
        let found = discover(&files, &[], VerifyMode::Commands);
        assert_eq!(found.recipes, ["node run.js"]);
        assert_eq!(found.steps.iter().filter(|step| step.command.contains("cargo test")).count(), 1);
    }

    #[test]
    fn the_outermost_project_is_checked_and_only_if_it_was_touched() {
        let files = [
            file("projects/a/Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            file("projects/a/crates/x/Cargo.toml", ""),
            file("projects/b/Cargo.toml", ""),
            file("Makefile", "check:\n\ttrue\n"),
        ];
        let touched = check(&files, &["projects/a/crates/x/src/lib.rs"]);
        assert_eq!(touched, ["command -v cargo", "cd 'projects/a' && cargo test --workspace"]);
        assert_eq!(check(&files, &["notes.md"]), ["command -v make", "make check"]);
        assert!(check(&files[..3], &["notes.md"]).is_empty());
    }

    #[test]
    fn a_project_within_another_is_checked_where_the_outer_does_not() {
        let inner = |outer: &str, inner: &str| {
            let files = [file("projects/s/Cargo.toml", outer), file("projects/s/sub/Cargo.toml", inner)];
            check(&files, &["projects/s/sub/src/lib.rs"]).len() - 1
        };
        assert_eq!(inner("[package]\n", "[package]\n[workspace]\n"), 2);
        assert_eq!(inner("[package]\n", "[package]\n"), 2);
        assert_eq!(inner("[workspace]\nmembers = [\n  \"sub\", # here\n]\n[package]\n", "[package]\n"), 1);
        assert_eq!(inner("[workspace]\nmembers = [\"*\"]\nexclude = ['sub']\n", "[package]\n"), 2);
        let packages = |outer: &str| {
            let test = r#"{"scripts": {"test": "node web.js"}}"#;
            let files = [file("projects/u/package.json", outer), file("projects/u/apps/web/package.json", test)];
            check(&files, &["projects/u/apps/web/a.js"]).iter().filter(|step| step.ends_with("npm test")).count()
        };
        assert_eq!(packages(r#"{"scripts": {"test": "node -e 0"}}"#), 2);
        assert_eq!(packages(r#"{"scripts": {"test": "node -e 0"}, "workspaces": ["apps/*"]}"#), 1);
        assert_eq!(packages(r#"{"scripts": {"test": "npm --prefix apps/web test"}}"#), 1);
        let makefiles = [file("m/Makefile", "test:\n\ttrue\n"), file("m/sub/Makefile", "test:\n\tfalse\n")];
        assert_eq!(check(&makefiles, &["m/sub/x"]).len(), 3);
        assert_eq!(check(&makefiles, &["m/x"]).len(), 2, "what was not touched");
    }

    #[test]
    fn what_no_check_looks_at_is_known() {
        let files = [file("projects/p/py/test_a.py", "import unittest"), file("projects/q/x.txt", "")];
        let changed = ["projects/p/py/a.py", "projects/p/README.md", "projects/p/a.js", "projects/q/x.txt"];
        let changed = changed.map(|path| FileChange { path: path.into(), change: ChangeKind::Modified });
        let found = discover(&files, &changed, VerifyMode::Commands);
        assert_eq!(found.homes, ["projects/p/py"]);
        assert_eq!(found.unseen(&changed), ["projects/p/a.js", "projects/q/x.txt"]);
        assert!(fits("a.test.js", "*.test.*") && fits("x", "*") && !fits("ab", "a*c") && !fits("ab", "b"));
    }

    #[test]
    fn what_checks_nothing_is_no_check() {
        let package = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert!(check(&[file("package.json", package), file("Makefile", "testing:\n")], &["x"]).is_empty());
        assert!(check(&[file("package.json", "no json")], &["x"]).is_empty());
        assert_eq!(check(&[file("it's/Makefile", "test:\n")], &["it's/x"])[1], r"cd 'it'\''s' && make test");
    }

    #[test]
    fn a_script_says_what_its_runner_says() {
        let package = r#"{"scripts": {"test": "node --test"}}"#;
        let found = discover(&[file("package.json", package)], &[], VerifyMode::Commands);
        assert_eq!(found.steps.last(), Some(&Step::check("npm test".into(), Says::NodeTests)));
    }

    #[test]
    fn a_quick_look_runs_no_tests() {
        let files = [file("Cargo.toml", ""), file("Makefile", "test:\n")];
        let found = discover(&files, &[], VerifyMode::Smoke);
        assert_eq!(found.steps.last().map(|step| step.command.as_str()), Some("cargo check --all-targets"));
    }
}
