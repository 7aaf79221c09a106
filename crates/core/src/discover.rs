//! Which checks a project brings itself: found in the tree as it was before a worker touched it.

use crate::says::Says;
use crate::verify::Step;
use choir_proto::task::{FileChange, VerifyMode};
use choir_proto::wire::TreeFile;
use std::collections::BTreeSet;

/// Names of the files that tell of checks; one `*` fits anything.
pub const NAMES: [&str; 13] = [
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
    "tox.ini",
];

/// Most projects of one sort that are checked at once; a workspace full of them is a plan for a person.
const PROJECTS_MAX: usize = 8;

/// Where projects are brought in; each is one by itself.
const PROJECTS: &str = "projects/";

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In order.
    pub steps: Vec<Step>,
    /// What the project's own definitions run, so that scripts named there count as checks.
    pub recipes: Vec<String>,
}

/// The checks of the projects that a task changed; of all of them, if it changed nothing.
pub fn discover(files: &[TreeFile], changed: &[FileChange], mode: VerifyMode) -> Found {
    let mut found = Found::default();
    for sort in Sort::ALL {
        let homes: BTreeSet<&str> = files.iter().filter_map(|file| sort.home(file)).collect();
        let touched: BTreeSet<&str> = if changed.is_empty() {
            homes.iter().filter_map(|home| outermost(&homes, home)).collect()
        } else {
            changed.iter().filter_map(|file| outermost(&homes, &file.path)).collect()
        };
        for home in touched.into_iter().take(PROJECTS_MAX) {
            sort.add(&Project { home, files }, mode, &mut found);
        }
    }
    found
}

/// The directory of the project that a path lies in, where it was brought in; nothing elsewhere.
pub(crate) fn project(path: &str) -> &str {
    let Some(name) = path.strip_prefix(PROJECTS).and_then(|below| below.split('/').next()) else { return "" };
    &path[..PROJECTS.len() + name.len()]
}

/// The outermost home that a path lies in, within the project that was brought in.
fn outermost<'a>(homes: &BTreeSet<&'a str>, path: &str) -> Option<&'a str> {
    let begins = project(path).len();
    let holds = |home: &&&str| is_within(path, home) && home.len() >= begins;
    homes.iter().filter(holds).min_by_key(|home| home.len()).copied()
}

fn is_within(path: &str, home: &str) -> bool {
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
            (Self::Go, VerifyMode::Commands) => project.check(found, "go", "go test ./...", Says::Nothing),
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
        let script = npm_script(text);
        let says = script.as_deref().map_or(Says::Nothing, Says::of);
        found.recipes.extend(script);
        found.steps.push(Step::tool("npm"));
        if needs {
            let locked = self.text("package-lock.json").is_some();
            let install = if locked { "npm ci" } else { "npm install --no-save --no-package-lock" };
            found.steps.push(Step::preparation(self.within(install)));
        }
        self.check(found, "npm", "npm test", says);
    }

    fn add_make(&self, found: &mut Found) {
        let text = ["GNUmakefile", "makefile", "Makefile"].iter().find_map(|name| self.text(name));
        let Some((text, target)) = text.and_then(|text| Some((text, target(text)?))) else { return };
        let recipes = text.lines().filter_map(|line| line.strip_prefix('\t'));
        found.recipes.extend(recipes.map(|line| line.trim_start_matches(['@', '-', '+']).to_owned()));
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
        for home in homes {
            let home = if home.is_empty() { "." } else { &home };
            let command = format!("python3 -m unittest discover -s {} -p '*test*.py'", quoted(home));
            self.check(found, "python3", &command, Says::OneOf(&["\nOK"]));
        }
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

pub(crate) fn is_makefile(name: &str) -> bool {
    matches!(name, "Makefile" | "makefile" | "GNUmakefile")
}

fn is_python_test(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
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
                "cd 'd' && python3 -m unittest discover -s 'tests' -p '*test*.py'",
                "python3 -c 'import pytest'",
                "cd 'e' && python3 -m pytest -q",
                "command -v go",
                "cd 'f' && go test ./...",
                "command -v make",
                "cd 'c' && make test",
            ]
        );
        let found = discover(&files, &[], VerifyMode::Commands);
        assert_eq!(found.recipes, ["node run.js", "sh check.sh"]);
        assert_eq!(found.steps.iter().filter(|step| step.command.contains("cargo test")).count(), 1);
    }

    #[test]
    fn the_outermost_project_is_checked_and_only_if_it_was_touched() {
        let files = [
            file("projects/a/Cargo.toml", ""),
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
