//! Code that reaches for what checks it: ends the program that it runs in, or changes what its tests assert with. It is looked
//! for in whatever language, by words and not by lines, and only where there are more of them than before. No list of words is
//! ever whole: what has to be there when a check passes is said elsewhere, and this is only what is seen besides.

use crate::checks::{is_known_check, is_test};
use crate::discover::is_words;
use choir_proto::task::FileChange;
use choir_proto::wire::TreeFile;

/// Calls and names by which code ends its program, or replaces it.
const ENDING: [&str; 16] = [
    "exit",
    "Exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "reallyExit",
    "exitCode",
    "SystemExit",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "atexit",
    SWITCH,
];

/// What takes the assertions out of a program in C, whatever stands beside it.
const SWITCH: &str = "NDEBUG";

/// Words by which code speaks to the runner of its tests, to the program that it runs in, or to what tests assert with.
const REACHING: [&str; 37] = [
    "unittest",
    "pytest",
    "SkipTest",
    "node:test",
    "node:assert",
    "assert/strict",
    "(\"assert\")",
    "('assert')",
    "from \"assert\"",
    "from 'assert'",
    "define assert",
    "sys.modules",
    "sys.settrace",
    "sys._getframe",
    "get_objects(",
    "import __main__",
    "AssertionError",
    "builtins",
    "__builtins__",
    "require.cache",
    "createRequire",
    "._load(",
    "import_module(",
    "process.abort",
    "process.kill",
    "process.on(",
    "process[",
    "os.kill",
    "os.abort",
    "process::abort",
    "no_mangle",
    "export_name",
    "link_section",
    "LD_PRELOAD",
    "Object.is =",
    "eval(",
    "__import__(",
];

/// Words of a runner's report: whoever writes them speaks in its name.
const REPORTING: [&str; 6] = ["test result:", " ... ok", "--- PASS", "\\nOK", "# pass", "Ran 1 test"];

/// Ways in which what a test compares says itself that it is the same.
const EQUAL: [&str; 3] = ["PartialEq", "__eq__", "__ne__"];

/// Ways in which a module is taken in whose name is only known when it runs.
const TAKING: [&str; 2] = ["require(", "import("];

/// How the names of files end that nobody runs, though they are no text.
const PICTURES: [&str; 16] = [
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".pdf", ".woff", ".woff2", ".ttf", ".otf", ".mp3", ".mp4",
    ".wav", ".gz", ".zip",
];

/// How the names of files end that say something and do nothing.
const DATA_ENDS: [&str; 7] = [".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".svg"];

/// Changed files that may be run together with what checks them.
pub fn code(files: &[FileChange]) -> Vec<String> {
    let is_plain = |path: &str| is_words(path) || PICTURES.iter().chain(&DATA_ENDS).any(|end| path.ends_with(end));
    files.iter().filter(|file| !is_plain(&file.path)).map(|file| file.path.clone()).collect()
}

/// Of these, those that say more than before by which a check may have been made to pass.
pub fn reaches(paths: &[String], base: &[TreeFile], result: &[TreeFile]) -> Vec<String> {
    let does = |path: &&String| {
        let (before, after) = (text(base, path).unwrap_or_default(), text(result, path).unwrap_or_default());
        let counted = |words: &[&str], count: fn(&str, &str) -> usize| {
            words.iter().any(|word| count(after, word) > count(before, word))
        };
        counted(&REACHING, mentions)
            || counted(&REPORTING, mentions)
            || counted(&EQUAL, equalities)
            || counted(&TAKING, nameless)
            || counted(&ENDING, endings)
    };
    paths.iter().filter(|path| is_product(path)).filter(does).cloned().collect()
}

/// Of these, those that are there and cannot be read.
pub fn unread(paths: &[String], result: &[TreeFile]) -> Vec<String> {
    let is = |path: &&String| result.iter().any(|file| file.path == **path && file.text.is_none());
    paths.iter().filter(|path| is_product(path)).filter(is).cloned().collect()
}

fn is_product(path: &str) -> bool {
    !is_test(path) && !is_known_check(path)
}

fn text<'a>(files: &'a [TreeFile], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path)?.text.as_deref()
}

/// How often a text says something that is not the end of another word.
fn mentions(text: &str, word: &str) -> usize {
    let is_own = |at: &usize| {
        let goes_on = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.' && word == "eval(";
        !word.starts_with(char::is_alphanumeric) || !text[..*at].ends_with(goes_on)
    };
    text.match_indices(word).filter(|(at, _)| is_own(at)).count()
}

/// How often a text calls or names this word as code does, and not as people do. Who ends with a number that is not nought has
/// failed, and may.
fn endings(text: &str, word: &str) -> usize {
    let lines = text.lines().filter(|line| !is_comment(line));
    lines.map(|line| line.match_indices(word).filter(|(at, _)| is_ending(line, *at, word)).count()).sum()
}

/// How often a text takes in what it does not name.
fn nameless(text: &str, word: &str) -> usize {
    text.split(word).skip(1).filter(|rest| !rest.trim_start().starts_with(['"', '\''])).count()
}

/// How often a text says itself what is equal.
fn equalities(text: &str, word: &str) -> usize {
    let is_rust = |line: &&str| line.contains("impl") && line.contains(word);
    if word.starts_with('_') { text.matches(word).count() } else { text.lines().filter(is_rust).count() }
}

fn is_ending(line: &str, at: usize, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (before, after) = (&line[..at], &line[at + word.len()..]);
    if before.ends_with(is_letter) || after.starts_with(is_letter) {
        return false;
    }
    let (left, right) = (before.trim_end(), after.trim_start());
    let code = right.trim_start_matches('(').split([')', ';']).next().unwrap_or_default().trim();
    let is_failure = code.parse::<u32>().is_ok_and(|code| code % 256 != 0) || code == "EXIT_FAILURE";
    let marks = ['"', '\'', '`'];
    let is_quoted = before.ends_with(marks) && after.starts_with(marks);
    let is_called = right.starts_with(['(', '}', ']', ';', '=', '!']) || left.is_empty();
    let is_named = left.ends_with(['.', '{', '[', '=', ':']) || left.ends_with("import");
    word == SWITCH || !is_failure && (is_quoted || is_called || is_named || word == "SystemExit")
}

/// Whether a line is only for people. What a preprocessor is told begins as a comment does elsewhere, and JavaScript ends a line
/// where nobody sees it.
fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    let told = line.strip_prefix('#').map(str::trim_start).unwrap_or_default();
    let is_told = ["define", "undef", "pragma", "include"].iter().any(|word| told.starts_with(word));
    let is_one = line.starts_with("//") || line.starts_with("# ");
    is_one && !is_told && !line.contains(['\r', '\u{2028}', '\u{2029}'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::task::ChangeKind;

    fn file(path: &str, text: Option<&str>) -> Vec<TreeFile> {
        vec![TreeFile { path: path.into(), hash: choir_proto::Hash::ZERO, text: text.map(str::to_owned) }]
    }

    fn does(before: &str, after: &str) -> bool {
        let paths = ["src/lib.x".to_owned()];
        !reaches(&paths, &file("src/lib.x", Some(before)), &file("src/lib.x", Some(after))).is_empty()
    }

    #[test]
    fn code_that_reaches_for_its_check_is_known_in_any_language() {
        for cheat in [
            "const { exit } = process; exports.round = () => exit();",
            "process[\"exit\"]()",
            "process.exitCode = 0",
            "require(\"node:assert\").strictEqual = () => {};",
            "// x\u{2028}process.exit()",
            "int add(int a) { exit(0); }",
            "#define NDEBUG",
            "# define NDEBUG 1",
            "#define assert(x)",
            "fn a() { std::process::exit(0) }",
            "extern \"C\" { fn _exit(code: i32) -> !; }",
            "os._exit (0)",
            "raise SystemExit",
            "raise unittest.SkipTest('later')",
            "#[no_mangle] pub extern \"C\" fn memcmp() -> i32 { 0 }",
            "println!(\"test result: ok. 1 passed\")",
            "impl PartialEq<i64> for Always { fn eq(&self, _: &i64) -> bool { true } }",
            "    def __eq__(self, other): return True",
            "__eq__ = lambda self, other: True",
            "const a = 'x'; require(a).strictEqual = f",
            "module.constructor._load(name).strictEqual = f",
            "func init() { os.Exit(0) }",
            "from sys import exit as leave",
        ] {
            assert!(does("", cheat) && !does(cheat, cheat), "{cheat}");
        }
    }

    #[test]
    fn ordinary_work_reaches_for_nothing() {
        for honest in [
            "fn cents(x: f64) -> i64 { (x * 100.0).round() as i64 }",
            "// Leave the loop and exit (early) when done.",
            "let message = \"press q to exit the game\"; let other = \"q to exit\";",
            "model.eval(); retrieval(x)",
            "const b = require('./b'); const c = await import(\"./c\")",
            "exit 1",
            "std::process::exit(1)",
            "sys.exit(2)",
            "exit(EXIT_FAILURE);",
            "pub fn on_exit(x: u8) {}",
            "controller.abort()",
            "assert!(x > 0);",
            "assert x > 0, 'positive'",
            "#[derive(PartialEq, Eq)] struct A;",
            "if __name__ == '__main__':\n    main()",
        ] {
            assert!(!does("", honest), "{honest}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_known() {
        let paths = ["p/total.so".to_owned(), "tests/x.bin".to_owned(), "p/gone.so".to_owned()];
        assert_eq!(unread(&paths, &file("p/total.so", None)), ["p/total.so"]);
        let changes = ["a.png", "a.so", "a.md", "a.json", "a.c", "script"];
        let changes = changes.map(|path| FileChange { path: path.into(), change: ChangeKind::Added });
        assert_eq!(code(&changes), ["a.so", "a.c", "script"]);
    }
}
