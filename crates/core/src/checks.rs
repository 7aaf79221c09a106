//! Which of a worker's changes touch the checks that it is judged by. Nobody passes an examination that they wrote.

use crate::discover::is_python_test;
use crate::recipe::{Part, programs};
use crate::told::{PACKAGE, Told};
use choir_proto::task::{ChangeKind, FileChange};
use serde_json::Value;

/// Files that say what a check is or how it runs, by their names. A new one counts too: it may stand in front of the old.
const DEFINITIONS: [&str; 34] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "Taskfile.yml",
    "Rakefile",
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "noxfile.py",
    // These stand in front of the libraries of the same name.
    "pytest.py",
    "unittest.py",
    "sitecustomize.py",
    "usercustomize.py",
    ".noserc",
    ".coveragerc",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "bunfig.toml",
    "karma.conf.js",
    ".taprc",
    ".rspec",
    "phpunit.xml",
    "rust-toolchain.toml",
    "rust-toolchain",
    "clippy.toml",
    ".node-version",
    ".nvmrc",
];

/// Files of the same sort, by how their names begin: one runner reads many forms of its settings.
const DEFINING_BEGINNINGS: [&str; 9] =
    [".mocharc.", ".nycrc", ".c8rc", ".babelrc", ".swcrc", "jest.", "vitest.", "mocha.", "setupTests."];

/// And by how they end.
const DEFINING_ENDS: [&str; 7] =
    [".config.js", ".config.ts", ".config.mjs", ".config.cjs", ".config.mts", ".config.json", ".mk"];

/// Files that describe the product and its checks at once. A worker needs to change them, so they are checked as it left
/// them; but it is not verified by what it wrote there.
const MANIFESTS: [&str; 14] = [
    "Cargo.toml",
    "build.rs",
    PACKAGE,
    "pyproject.toml",
    "setup.cfg",
    "go.mod",
    "go.work",
    "CMakeLists.txt",
    "build.gradle",
    "pom.xml",
    "deno.json",
    "deno.jsonc",
    "build.gradle.kts",
    "tsconfig.json",
];

/// Files that say what exactly is installed. One that was not there before is what a manager of packages left behind.
const LOCKS: [&str; 9] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "go.sum",
];

/// Modules of Python's own library. One of the same name that lies beside the tests stands in front of it.
const LIBRARY: &str = "abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath \
    cmd code codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv \
    ctypes dataclasses datetime decimal difflib dis doctest email encodings enum errno faulthandler filecmp fileinput fnmatch \
    fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http imp \
    importlib inspect io ipaddress itertools json keyword linecache locale logging lzma marshal math mimetypes mmap \
    multiprocessing ntpath numbers opcode operator optparse os pathlib pdb pickle pkgutil platform posixpath pprint profile \
    pstats pty pwd py_compile pydoc queue random re readline reprlib resource runpy sched secrets select selectors shelve \
    shlex shutil signal site socket socketserver sqlite3 ssl stat statistics string struct subprocess sys sysconfig tarfile \
    tempfile textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc tty types typing unicodedata \
    unittest urllib uuid venv warnings weakref xml xmlrpc zipfile zipimport zlib zoneinfo pluggy iniconfig packaging _pytest \
    __future__ _colorize _pydecimal _strptime nt posix";

/// What of npm's manifest belongs to the checks.
const PACKAGE_CHECKS: [&str; 5] = ["scripts", "jest", "mocha", "ava", "config"];

/// Directories whose content decides how checks run.
const DEFINING_DIRECTORIES: [&str; 6] = [".cargo", ".github", ".config", ".bin", "pytest", "unittest"];

/// Directories of tests.
const TEST_DIRECTORIES: [&str; 4] = ["tests", "test", "__tests__", "spec"];

/// Directories of what tests are given.
const DATA_DIRECTORIES: [&str; 6] = ["testdata", "fixtures", "snapshots", "__snapshots__", "golden", "goldens"];

/// Endings of files that nobody runs.
const DATA_ENDS: [&str; 8] = [".csv", ".html", ".json", ".md", ".txt", ".xml", ".yaml", ".yml"];

/// Changed paths that belong to the checks, in order. A test that was added proves nothing. Where it takes no part, it takes
/// nothing away either.
pub fn changed(files: &[FileChange], told: &Told) -> Vec<String> {
    let parts = told.parts();
    let named = |file: &FileChange| parts.iter().any(|part| part.names(&file.path));
    let wanted = |file: &FileChange| is_new_test(file) && is_named(&file.path, &told.commands);
    let of = Of::new(told);
    let concerns = |file: &&FileChange| {
        let is_left_out = is_left_out(file, told) || of.is_brought(file);
        let is_read = told.data.is_read(file);
        !is_left_out && (is_manifest(file) || of.is_check(file) || named(file) || is_read) || wanted(file)
    };
    files.iter().filter(concerns).map(|file| file.path.clone()).collect()
}

/// Changed paths that are checked as they were before the worker: absent if they were absent then.
pub fn from_base(files: &[FileChange], told: &Told) -> Vec<String> {
    let of = Of::new(told);
    let is_kept = |file: &FileChange| told.data.is_kept(file, files) && !is_manifest(file);
    let taken =
        |file: &&FileChange| of.is_check(file) || is_left_out(file, told) || of.is_brought(file) || is_kept(file);
    files.iter().filter(taken).map(|file| file.path.clone()).collect()
}

/// New tests that take no part in the check: what runs beside the tests from before can change how these end.
pub fn left_out(files: &[FileChange], told: &Told) -> Vec<String> {
    files.iter().filter(|file| is_left_out(file, told)).map(|file| file.path.clone()).collect()
}

/// Changed manifests of npm.
pub fn packages(files: &[FileChange]) -> Vec<String> {
    let is = |file: &&FileChange| file.change == ChangeKind::Modified && name(&file.path) == PACKAGE;
    files.iter().filter(is).map(|file| file.path.clone()).collect()
}

/// A manifest of npm as its worker left it, but with the checks that were there before.
pub fn package(base: &str, result: &str) -> Option<String> {
    let (base, mut result): (Value, Value) = (serde_json::from_str(base).ok()?, serde_json::from_str(result).ok()?);
    let fields = result.as_object_mut()?;
    for key in PACKAGE_CHECKS {
        match base.get(key) {
            Some(before) => drop(fields.insert(key.to_owned(), before.clone())),
            None => drop(fields.remove(key)),
        }
    }
    serde_json::to_string_pretty(&result).ok()
}

/// What a change is held against.
struct Of<'a> {
    told: &'a Told,
    parts: Vec<Part>,
    /// Directories that stand before the library of Python, where Python runs.
    fronts: Option<Vec<String>>,
}

impl<'a> Of<'a> {
    fn new(told: &'a Told) -> Self {
        let parts = told.parts().into_iter().filter(|part| part.sure).collect();
        let programs = programs(&told.commands);
        let runs_python = programs.iter().any(|(called, _)| called.contains("py"));
        let into = programs.iter().filter(|(called, _)| called == "cd").filter_map(|(_, rest)| rest.first());
        let fronts: Vec<String> = into.map(|home| home.trim_start_matches("./").trim_matches('/').to_owned()).collect();
        Self { told, parts, fronts: runs_python.then_some(fronts) }
    }

    /// Whether a change concerns what a check is made of, and nothing else.
    fn is_check(&self, file: &FileChange) -> bool {
        let path = &file.path;
        // A new test that was asked for is there, and named.
        let is_wanted = is_new_test(file) && is_named(path, &self.told.commands);
        let is_run = !is_wanted && self.parts.iter().any(|part| part.names(path));
        let is_old = file.change != ChangeKind::Added;
        let is_made = is_old && self.told.makes(path);
        let defines = is_definition(path) || !is_old && self.is_front(path);
        !is_manifest(file) && (is_run || defines || is_made || is_old && is_test(path))
    }

    /// Whether a worker brought what a rule makes: where it is there already, what makes it does not run.
    fn is_brought(&self, file: &FileChange) -> bool {
        file.change == ChangeKind::Added && self.told.makes(&file.path) && !is_manifest(file)
    }

    /// Whether a file stands in front of the library of Python, or, being made from another file, in front of that.
    fn is_front(&self, path: &str) -> bool {
        let Some(homes) = &self.fronts else { return false };
        let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
        let (stem, end) = (file.split('.').next().unwrap_or(file), file.rsplit('.').next().unwrap_or_default());
        if matches!(end, "pyc" | "pyo" | "pyd") {
            return true;
        }
        let is_package = stem == "__init__";
        let (directory, name) =
            if is_package { directory.rsplit_once('/').unwrap_or(("", directory)) } else { (directory, stem) };
        if !matches!(end, "py" | "pyw" | "so") {
            return false;
        }
        let is_first = directory.is_empty() || homes.iter().any(|home| home == directory);
        let is_beside =
            directory.rsplit('/').next().is_some_and(|last| TEST_DIRECTORIES.contains(&last) || last == "src");
        (is_first || is_beside) && LIBRARY.split_whitespace().any(|one| one == name)
    }
}

fn is_left_out(file: &FileChange, told: &Told) -> bool {
    is_new_test(file) && !is_named(&file.path, &told.commands)
}

/// Whether a runner takes this up by its name or place, though nobody before knew of it. Programs in Rust take in what lies
/// beside them by words of their own, which are looked at elsewhere.
fn is_new_test(file: &FileChange) -> bool {
    let mut above = file.path.split('/').rev().skip(1);
    let is_data = DATA_ENDS.iter().any(|end| file.path.ends_with(end));
    let is_beside = above.clone().any(|part| part == "src") && file.path.ends_with(".rs");
    let is_given = above.any(|part| DATA_DIRECTORIES.contains(&part));
    file.change == ChangeKind::Added && is_test(&file.path) && !is_data && !is_beside && !is_given
}

/// Whether one of these commands asks for this very file.
fn is_named(path: &str, commands: &[String]) -> bool {
    let stem = name(path).split('.').next().unwrap_or(path);
    let asks = |word: &str| {
        let word = word.trim_matches(['"', '\'']).split("::").next().unwrap_or(word);
        word == stem || is_beneath(path, word.strip_prefix("./").unwrap_or(word))
    };
    commands.iter().any(|command| command.split_whitespace().any(asks))
}

/// Whether a path is this one, seen from any directory above it.
fn is_beneath(path: &str, seen: &str) -> bool {
    !seen.is_empty() && path.strip_suffix(seen).is_some_and(|above| above.is_empty() || above.ends_with('/'))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_manifest(file: &FileChange) -> bool {
    let name = name(&file.path);
    MANIFESTS.contains(&name) || LOCKS.contains(&name) && file.change != ChangeKind::Added
}

fn is_definition(path: &str) -> bool {
    let name = name(path);
    let begins = DEFINING_BEGINNINGS.iter().any(|begin| name.starts_with(begin));
    let ends = DEFINING_ENDS.iter().any(|end| name.ends_with(end));
    let within = path.split('/').rev().skip(1).any(|part| DEFINING_DIRECTORIES.contains(&part));
    // What is installed as a package may be one that the runner takes in by itself.
    let installed =
        path.split('/').any(|part| [".dist-info", ".egg-info", ".pth"].iter().any(|end| part.ends_with(end)));
    DEFINITIONS.contains(&name) || begins || ends || within || installed
}

/// Whether a path is named in any case when it is changed.
pub(crate) fn is_known_check(path: &str) -> bool {
    is_definition(path) || MANIFESTS.contains(&name(path))
}

pub(crate) fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let within =
        path.split('/').rev().skip(1).any(|part| TEST_DIRECTORIES.contains(&part) || DATA_DIRECTORIES.contains(&part));
    let stem = name.split('.').next().unwrap_or(name);
    let begins = ["test_", "test-"].iter().any(|begin| stem.starts_with(begin));
    let ends = ["_test", "-test", "_tests", "-tests"].iter().any(|end| stem.ends_with(end));
    let marked = begins || ends || stem == "tests" || stem == "test" || is_python_test(name);
    within || marked || name.contains(".test.") || name.contains(".spec.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(commands: &[&str]) -> Told {
        Told::of(commands.iter().map(ToString::to_string).collect())
    }

    fn check(files: &[(&str, ChangeKind)], commands: &[&str]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, change)| FileChange { path: (*path).into(), change: *change }).collect();
        changed(&files, &told(commands))
    }

    #[test]
    fn what_a_check_runs_or_is_defined_by_is_noticed() {
        use ChangeKind::{Added, Deleted, Modified};
        let commands = ["sh ./check.sh && grep -q right file", "./run -x"];
        let found = check(
            &[("check.sh", Modified), ("file", Modified), ("run", Modified), ("src/lib.rs", Modified)],
            &commands,
        );
        assert_eq!(found, ["check.sh", "run"], "what a check looks at is not the check");
        let definitions = [
            (".cargo/config.toml", Added),
            ("a/package.json", Modified),
            ("node_modules/.bin/jest", Modified),
            ("conftest.py", Added),
            ("vite.config.ts", Added),
        ];
        assert_eq!(check(&definitions, &[]).len(), definitions.len());
        let tests =
            [("tests/a.rs", Deleted), ("src/a_test.go", Modified), ("b.test.ts", Modified), ("test_c.py", Modified)];
        assert_eq!(check(&tests, &[]).len(), tests.len());
        let settings =
            [".mocharc.cjs", ".pytest.ini", "jest.config.json", "jest.setup.js", "rules.mk", "tsconfig.json"];
        assert_eq!(check(&settings.map(|name| (name, Added)), &[]).len(), settings.len());
    }

    #[test]
    fn new_tests_take_no_part_unless_they_were_asked_for() {
        let files: Vec<_> = [
            "tests/test_aaa.py",
            "a/tests/new.rs",
            "src/round/tests.rs",
            "tests/fixtures/long.py",
            "spec/api.yaml",
            "src/total.py",
        ]
        .map(|path| FileChange { path: path.into(), change: ChangeKind::Added })
        .into();
        let (some, none) = (["tests/test_aaa.py", "a/tests/new.rs"], Vec::<String>::new());
        let commands = told(&["python3 -m unittest discover"]);
        assert_eq!(left_out(&files, &commands), some);
        assert_eq!((from_base(&files, &commands), changed(&files, &commands)), (some.map(str::to_owned).into(), none));
        for asked in ["pytest tests/test_aaa.py::test_one", "cargo test --test new"] {
            let (asked, named) = (told(&[asked]), changed(&files, &told(&[asked])));
            assert_eq!(named.len(), 1, "what was asked for is there, and named");
            assert!(!from_base(&files, &asked).contains(&named[0]));
        }
    }

    #[test]
    fn checks_are_taken_from_before_and_manifests_as_they_are() {
        use ChangeKind::{Added, Deleted, Modified};
        let files: Vec<_> = [
            ("a/.cargo/config.toml", Added),
            ("a/Cargo.toml", Modified),
            ("a/run.js", Modified),
            ("a/src/lib.rs", Modified),
            ("a/tests/new.rs", Added),
            ("a/tests/old.rs", Deleted),
        ]
        .map(|(path, change)| FileChange { path: path.into(), change })
        .into();
        let commands = told(&["cd 'a' && npm test", "NODE_ENV=test node run.js"]);
        let taken = from_base(&files, &commands);
        assert_eq!(taken, ["a/.cargo/config.toml", "a/run.js", "a/tests/new.rs", "a/tests/old.rs"]);
        let named = changed(&files, &commands);
        assert_eq!(named, ["a/.cargo/config.toml", "a/Cargo.toml", "a/run.js", "a/tests/old.rs"]);
    }

    #[test]
    fn the_scripts_of_a_package_are_those_from_before() {
        let base = r#"{"scripts": {"test": "node run.js"}}"#;
        let result = r#"{"scripts": {"test": "true"}, "jest": {"passWithNoTests": true}, "dependencies": {"x": "1"}}"#;
        let checked: Value = serde_json::from_str(&package(base, result).unwrap()).unwrap();
        assert_eq!(checked["scripts"]["test"], "node run.js");
        assert_eq!((&checked["jest"], &checked["dependencies"]["x"]), (&Value::Null, &Value::from("1")));
        assert_eq!(package(base, "no json"), None);
    }

    #[test]
    fn what_stands_before_or_in_place_of_what_runs_is_noticed() {
        use ChangeKind::{Added, Modified};
        let unittest = ["cd 'p' && python3 -m unittest discover -s 'tests' -p 'test_*.py'"];
        let fronts = [("p/difflib.py", Added), ("p/e-1.0.dist-info/entry_points.txt", Added)];
        assert_eq!(check(&fronts, &unittest).len(), fronts.len());
        assert!(
            check(&[("p/app/types.py", Added), ("p/contest.py", Added), ("p/queue.py", Modified)], &unittest)
                .is_empty()
        );
        let tests = [("round-test.js", Modified), ("test-round.js", Modified), ("totaltests.py", Modified)];
        assert_eq!(check(&tests, &[]).len(), tests.len());
        assert_eq!(
            check(&[("package-lock.json", Modified), ("q/package-lock.json", Added)], &[]),
            ["package-lock.json"]
        );
        let hidden = FileChange { path: "p/check".into(), change: Added };
        let mut made = told(&["cd 'p' && make check"]);
        let text = Some("check:\n\tgrep -q right product\n".to_owned());
        made.add(&choir_proto::wire::TreeFile { path: "p/Makefile".into(), hash: choir_proto::Hash::ZERO, text });
        assert_eq!(from_base(&[hidden], &made), ["p/check"], "what is there already is not made");
    }

    #[test]
    fn a_new_test_and_ordinary_work_change_no_check() {
        use ChangeKind::{Added, Modified};
        assert!(
            check(&[("tests/new.rs", Added), ("src/latest.rs", Modified), ("contest.md", Modified)], &["cargo test"])
                .is_empty()
        );
    }
}
