//! Which files commands make part of a check: what they run and take in, and not what they look at.

use crate::discover::fits;
use crate::shell::simple;
use std::collections::BTreeMap;

/// How deep commands within commands are followed (`sh -c "sh -c …"`).
const WITHIN_MAX: u32 = 4;

/// Words that stand before a command and change nothing about what it is.
const WRAPPERS: [&str; 38] = [
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
    "!",
    "{",
    "time",
    "exec",
    "eval",
    "command",
    "builtin",
    "nohup",
    "sudo",
    "env",
    "nice",
    "stdbuf",
    "setsid",
    "timeout",
    "xargs",
    "npx",
    "pnpx",
    "bunx",
    "cross-env",
    "c8",
    "nyc",
    "coverage",
    "uv",
    "poetry",
    "pipenv",
    "hatch",
    "pdm",
    "bundle",
    "run",
    "shell",
    "xvfb-run",
];

/// Programs that only look at what they are given, or move it about.
const LOOKERS: [&str; 34] = [
    "grep", "egrep", "fgrep", "rg", "test", "[", "[[", "diff", "cmp", "cat", "head", "tail", "wc", "ls", "echo",
    "printf", "cd", "pushd", "mkdir", "rm", "cp", "mv", "touch", "jq", "sort", "uniq", "stat", "chmod", "git",
    "export", "set", "case", "npm", "tee",
];

/// Programs that take what they are given for tests.
const RUNNERS: [&str; 22] = [
    "pytest",
    "py.test",
    "unittest",
    "nose2",
    "mocha",
    "jest",
    "vitest",
    "ava",
    "tap",
    "tape",
    "uvu",
    "jasmine",
    "bats",
    "prove",
    "rspec",
    "phpunit",
    "behave",
    "cucumber",
    "robot",
    "cram",
    "lit",
    "shellspec",
];

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
const SCRIPTED: [&str; 11] =
    ["node", "nodejs", "deno", "bun", "tsx", "ts-node", "ruby", "perl", "php", "lua", "Rscript"];
/// Words by which one file takes another in.
const TAKING: [&str; 2] = [".", "source"];
const INCLUDING: [&str; 3] = ["include", "-include", "sinclude"];

/// Options of interpreters whose value is a file that they run first.
const BEFORE: [&str; 5] = ["-r", "--require", "--import", "--loader", "--experimental-loader"];
/// Options whose value is no file.
const VALUED: [&str; 9] = ["-o", "-O", "-W", "-X", "-I", "-C", "-s", "-k", "--rcfile"];

/// Names that tell of checks.
const CHECKING: [&str; 14] = [
    "test",
    "tests",
    "check",
    "checks",
    "spec",
    "specs",
    "expect",
    "expected",
    "golden",
    "snapshot",
    "snapshots",
    "verify",
    "selftest",
    "selfcheck",
];

/// Names of what tests take in and nobody else needs.
const HELPING: [&str; 14] = [
    "helper",
    "helpers",
    "support",
    "harness",
    "cases",
    "fixture",
    "fixtures",
    "mock",
    "mocks",
    "stub",
    "stubs",
    "assert",
    "assertions",
    "runner",
];

/// A word of a command that makes files part of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// As the command has it.
    pub(crate) seen: String,
    /// Whether it can be nothing else: then it is checked as it was before. Otherwise it is only named.
    pub(crate) sure: bool,
    pub(crate) kind: Kind,
}

/// What such a word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What is run.
    Script,
    /// More of a Makefile.
    Include,
    /// A module of Python.
    Module,
    /// Tests, or a directory of them.
    Tests,
}

impl Part {
    pub(crate) fn new(seen: &str, sure: bool, kind: Kind) -> Self {
        Self { seen: seen.to_owned(), sure, kind }
    }

    /// Whether a path of the tree is meant, seen from any directory above it.
    pub(crate) fn names(&self, path: &str) -> bool {
        let Some(seen) = known(&self.seen) else { return false };
        let seen = if self.kind == Kind::Module { seen.replace('.', "/") } else { seen.to_owned() };
        let (parts, names): (Vec<_>, Vec<_>) = (seen.split('/').collect(), path.split('/').collect());
        let windows = (0..(names.len() + 1).saturating_sub(parts.len())).map(|at| (at, &names[at..at + parts.len()]));
        let (last, above) = parts.split_last().unwrap_or((&"", &[]));
        windows.into_iter().any(|(at, window)| {
            let beneath = &names[at + parts.len()..];
            let (name, over) = window.split_last().unwrap_or((&"", &[]));
            over.iter().zip(above).all(|(name, part)| fits(name, part)) && self.means(name, last, beneath)
        })
    }

    fn means(&self, name: &str, last: &str, beneath: &[&str]) -> bool {
        let is_it = fits(name, last);
        // A name may stand without its ending.
        let unended = !last.contains(['.', '*']) && name.split_once('.').is_some_and(|(stem, _)| stem == last);
        match (self.kind, beneath) {
            (Kind::Module, []) => name.strip_suffix(".py") == Some(last),
            (Kind::Module, [file]) => is_it && matches!(*file, "__main__.py" | "__init__.py"),
            (Kind::Script, [file]) => is_it && (last.contains('*') || is_entry(file)),
            (Kind::Script, []) => is_it || unended,
            (Kind::Include, []) => is_it,
            (Kind::Tests, _) => is_it || beneath.is_empty() && unended,
            _ => false,
        }
    }

    /// The names under which such files may be found; one `*` fits anything.
    pub(crate) fn files(&self) -> Vec<String> {
        let Some(seen) = known(&self.seen) else { return Vec::new() };
        let last = if self.kind == Kind::Module { seen.rsplit('.').next() } else { seen.rsplit('/').next() };
        let last = last.unwrap_or(seen);
        // A pattern of nothing else would mean everything.
        if last.matches('*').count() > 1 || last.trim_matches(['*', '.']).len() < 2 {
            return Vec::new();
        }
        match self.kind {
            Kind::Module => vec![format!("{last}.py")],
            _ if last.contains(['.', '*']) => vec![last.to_owned()],
            _ => vec![last.to_owned(), format!("{last}.*")],
        }
    }
}

fn is_entry(name: &str) -> bool {
    name.starts_with("index.") || matches!(name, "__main__.py" | "__init__.py")
}

/// The part of a word that says something: not where it stands, nor what a variable says that nobody knows.
fn known(seen: &str) -> Option<&str> {
    let seen = seen.rsplit('}').next().unwrap_or(seen).trim_start_matches('/');
    let mut seen = seen.trim_end_matches('/');
    while let Some(rest) = seen.strip_prefix("./").or_else(|| seen.strip_prefix("../")) {
        seen = rest;
    }
    let says = seen.chars().any(char::is_alphanumeric) && !seen.contains(char::is_whitespace);
    says.then_some(seen)
}

/// Whether a name tells of checks.
pub(crate) fn is_checking(word: &str) -> bool {
    pieces(word).any(|piece| CHECKING.contains(&piece.as_str()))
}

/// Whether a name is one of what only tests need.
pub(crate) fn is_helping(word: &str) -> bool {
    pieces(word).any(|piece| CHECKING.contains(&piece.as_str()) || HELPING.contains(&piece.as_str()))
}

fn pieces(word: &str) -> impl Iterator<Item = String> + '_ {
    word.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase)
}

/// What commands say: the files that they make part of a check.
pub(crate) fn parts(commands: &[String]) -> Vec<Part> {
    let variables = variables(commands);
    let mut parts = Vec::new();
    for command in commands.iter().filter(|command| assigned(command).is_none()) {
        read(&expanded(command, &variables), 0, &mut parts);
    }
    parts
}

/// The programs that commands call, with their arguments, without what stands before them.
pub(crate) fn programs(commands: &[String]) -> Vec<(String, Vec<String>)> {
    let variables = variables(commands);
    let simple = commands.iter().flat_map(|command| simple(&expanded(command, &variables)));
    simple.filter_map(|words| program(&words).map(|(program, rest)| (program, rest.to_vec()))).collect()
}

/// Variables that are set for good: in a Makefile, or on a line of its own.
fn variables(commands: &[String]) -> BTreeMap<&str, &str> {
    commands.iter().filter_map(|command| assigned(command)).collect()
}

fn assigned(command: &str) -> Option<(&str, &str)> {
    let (name, value) = command.split_once('=')?;
    let name = name.trim_start_matches("export ").trim_end_matches([':', '?', '+', '!']).trim();
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    // `A=b command` is a command.
    let alone = command.contains(" =") || command.contains(":=") || command.contains("?=") || !value.contains(' ');
    (is_name && alone).then_some((name, value.trim().trim_matches(['"', '\''])))
}

fn expanded(command: &str, variables: &BTreeMap<&str, &str>) -> String {
    let mut text = command.to_owned();
    // What a value names in turn may have a value, too.
    for _ in 0..2 {
        for (name, value) in variables {
            for form in [format!("$({name})"), format!("${{{name}}}")] {
                text = text.replace(&form, value);
            }
        }
    }
    text
}

/// The program of a simple command, by its name, and its arguments.
fn program(words: &[String]) -> Option<(String, &[String])> {
    let mut at = 0;
    let mut wrapped = false;
    while let Some(word) = words.get(at) {
        let name = word.rsplit('/').next().unwrap_or(word);
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let valued = wrapped && before.is_some_and(|before| matches!(before.as_str(), "-s" | "-k" | "-n" | "-u"));
        let is_no_program = word.starts_with('-') || name.starts_with(|first: char| first.is_ascii_digit()) || valued;
        let is_installed = word == name || word.starts_with("/usr/") || word.starts_with("/bin/");
        if WRAPPERS.contains(&name) && is_installed && (wrapped || name != "run") {
            wrapped = true;
        } else if !(word.contains('=') && !word.starts_with('=') || wrapped && is_no_program || word == "@") {
            break;
        }
        at += 1;
    }
    let word = words.get(at)?;
    // A variable that nobody set is mostly called like the program that it stands for.
    let called = word.strip_prefix("${").and_then(|name| name.strip_suffix('}')).map(str::to_lowercase);
    Some((called.unwrap_or_else(|| word.clone()), &words[at + 1..]))
}

fn read(text: &str, depth: u32, parts: &mut Vec<Part>) {
    for words in simple(text) {
        if words[0] == "for" {
            let named = words.iter().skip_while(|word| *word != "in").skip(1);
            parts.extend(named.map(|word| Part::new(word, is_checking(word), Kind::Tests)));
            continue;
        }
        let Some((called, rest)) = program(&words) else { continue };
        read_program(&called, rest, depth, parts);
    }
}

fn read_program(called: &str, rest: &[String], depth: u32, parts: &mut Vec<Part>) {
    let name = called.rsplit('/').next().unwrap_or(called);
    let script = |seen: &String| Part::new(seen, true, Kind::Script);
    let after = |option: &str| rest.iter().skip_while(move |word| *word != option).nth(1);
    match name {
        _ if SHELLS.contains(&name) => {
            let inline =
                rest.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'));
            match inline.and_then(|at| rest.get(at + 1)) {
                Some(text) if depth < WITHIN_MAX => read(text, depth + 1, parts),
                _ => parts.extend(first(rest).map(script)),
            }
        }
        _ if name.starts_with("python") || name == "pypy3" => match after("-m") {
            Some(module) => {
                let at = rest.iter().position(|word| word == module).unwrap_or_default();
                parts.push(Part::new(module, true, Kind::Module));
                read_program(module, &rest[at + 1..], depth, parts);
            }
            None => read_script(rest, parts),
        },
        _ if SCRIPTED.contains(&name) && rest.iter().any(|word| word == "--test") => tests(rest, parts),
        // `deno run` and `bun run`.
        _ if SCRIPTED.contains(&name) => read_script(rest.strip_prefix(&["run".to_owned()]).unwrap_or(rest), parts),
        "awk" | "gawk" | "sed" => parts.extend(after("-f").map(script)),
        "make" | "gmake" => {
            let file = |option: &str| after(option).map(|seen| Part::new(seen, true, Kind::Include));
            parts.extend(["-f", "--file", "--makefile"].into_iter().find_map(file));
        }
        "find" => {
            let run: Vec<_> = rest.iter().skip_while(|word| *word != "-exec").skip(1).cloned().collect();
            if let Some((called, _)) = program(&run) {
                let within = first(rest).map(|seen| Part::new(seen, is_checking(seen), Kind::Tests));
                parts.extend(within.filter(|_| !LOOKERS.contains(&called.as_str())));
            }
        }
        _ if TAKING.contains(&name) => parts.extend(first(rest).map(script)),
        _ if INCLUDING.contains(&name) => {
            parts.extend(rest.iter().map(|seen| Part::new(seen, true, Kind::Include)));
        }
        _ if LOOKERS.contains(&name) => {}
        _ if RUNNERS.contains(&name) => tests(rest, parts),
        _ => {
            if called.contains('/') {
                parts.push(Part::new(called, true, Kind::Script));
            }
            // What a program that nobody knows is given may be the product; its name says whether it is a check.
            let named = rest.iter().filter(|word| !word.starts_with('-') && is_checking(word));
            let is_own = called.contains('/');
            parts.extend(named.filter(|_| !is_own).map(|seen| Part::new(seen, true, Kind::Tests)));
        }
    }
}

/// What an interpreter is given: files before the script, the script, or the text of one.
fn read_script(rest: &[String], parts: &mut Vec<Part>) {
    let values = rest.iter().zip(rest.iter().skip(1)).filter(|(option, _)| BEFORE.contains(&option.as_str()));
    parts.extend(values.map(|(_, seen)| Part::new(seen, true, Kind::Script)));
    let inline = |word: &&String| matches!(word.as_str(), "-e" | "-c" | "-p" | "--eval" | "--print");
    if rest.iter().any(|word| inline(&word)) {
        // Its text has the names of what it takes in; the product is among them.
        let named = rest.iter().flat_map(|text| text.split(|letter: char| " '\"()[]{};,`".contains(letter)));
        parts.extend(named.filter(|word| is_checking(word)).map(|seen| Part::new(seen, true, Kind::Script)));
        return;
    }
    parts.extend(first(rest).map(|seen| Part::new(seen, true, Kind::Script)));
}

/// What a runner of tests is given.
fn tests(rest: &[String], parts: &mut Vec<Part>) {
    let mut before = "";
    for word in rest {
        let is_measured = before.starts_with("--cov") || before.starts_with("--source");
        if !word.starts_with('-') && !is_measured && !matches!(before, "-k" | "-m" | "-p" | "-t" | "-g") {
            let seen = word.split("::").next().unwrap_or(word);
            // A directory may be one of the product, with tests in it.
            let is_file = seen.rsplit('/').next().is_some_and(|name| name.contains('.') && name != ".");
            parts.push(Part::new(seen, is_file || is_checking(seen), Kind::Tests));
        } else if BEFORE.contains(&before) || matches!(before, "-c" | "--config") {
            parts.push(Part::new(word, true, Kind::Script));
        }
        before = word;
    }
}

/// The first argument that is no option, nor the value of one.
fn first(rest: &[String]) -> Option<&String> {
    let takes = |option: &str| {
        // `-euo pipefail` has its value behind the last letter.
        VALUED.contains(&option) || BEFORE.contains(&option) || option.starts_with('-') && option.ends_with('o')
    };
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        match word.as_str() {
            option if option.starts_with('-') && option.len() > 1 => at += 1 + usize::from(takes(option)),
            _ => return Some(word),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sure(command: &str, path: &str) -> Option<bool> {
        let parts = parts(&command.lines().map(str::to_owned).collect::<Vec<_>>());
        let named: Vec<_> = parts.iter().filter(|part| part.names(path)).collect();
        (!named.is_empty()).then(|| named.iter().any(|part| part.sure))
    }

    #[test]
    fn what_is_run_belongs_to_the_check_however_it_is_called() {
        for (command, path) in [
            ("env X=1 sh ./check.sh", "p/check.sh"),
            ("timeout -s KILL 60 sh check.sh", "p/check.sh"),
            ("bash -o pipefail check.sh", "p/check.sh"),
            ("bash -euo pipefail check.sh", "p/check.sh"),
            ("if sh check.sh; then true; else false; fi", "check.sh"),
            ("for c in checks/*; do sh $$c; done", "p/checks/one"),
            ("${PYTHON} check.py", "check.py"),
            ("PY := python3\n$(PY) run.py", "run.py"),
            ("python3 -m checks", "p/checks.py"),
            ("python3 -m a.selfcheck -v", "a/selfcheck/__main__.py"),
            ("$(MAKE) -f checks/all run", "checks/all"),
            ("CI=1 env A=b node check", "p/check.js"),
            ("node check", "check/index.js"),
            ("include a.inc b.inc", "b.inc"),
            ("include $(D)/rules", "x/rules"),
            ("include conf/*.inc", "p/conf/a.inc"),
            ("sh -c \"cd x && sh run\"", "x/run"),
            ("node -r ./before.js main.js", "before.js"),
            ("node -e \"require('./check.js')\"", "check.js"),
            ("pytest cases/one.py::test_a", "cases/one.py"),
            ("cc -o t check.c lib.c && ./t", "check.c"),
            ("find checks -type f -exec sh {} \\;", "p/checks/one"),
        ] {
            assert_eq!(sure(command, path), Some(true), "{command}");
        }
        assert_eq!(sure("for c in cases/*; do sh $c; done", "p/cases/one"), Some(false), "it may be the product");
    }

    #[test]
    fn what_is_looked_at_is_the_product() {
        for (command, path) in [
            ("sh ./check.sh product && grep -q right file", "file"),
            ("sh ./check.sh product", "product"),
            ("cc -o t check.c lib.c && ./t", "lib.c"),
            ("python3 -m pytest --cov src tests", "src/a.py"),
            ("python3 -m pytest -q", "total.py"),
            ("./check product.txt", "product.txt"),
            ("SRC = lib.c\ncc $(SRC)", "lib.c"),
            ("node -e \"require('./product.js')\"", "product.js"),
            ("cd projects/p && npm test", "projects/p/product.js"),
            ("python3 -m unittest discover -s tests -p 'test_*.py'", "total.py"),
            ("diff out expected", "out"),
            ("ruff check lib.py", "lib.py"),
        ] {
            assert_eq!(sure(command, path), None, "{command}");
        }
    }

    #[test]
    fn files_are_looked_for_by_names_that_say_something() {
        let files = |command: &str| parts(&[command.to_owned()]).iter().flat_map(Part::files).collect::<Vec<_>>();
        assert_eq!(files("sh a/check"), ["check", "check.*"]);
        assert_eq!(files("python3 -m a.b.checks"), ["checks.py"]);
        assert_eq!(files("include conf/*.inc"), ["*.inc"]);
        assert!(files("for c in checks/*; do sh $c; done").is_empty());
    }
}
