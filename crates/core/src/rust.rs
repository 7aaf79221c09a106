//! What a file of Rust says, word by word and not line by line: which tests it holds, and which macros it makes or renames.

use choir_proto::wire::TreeFile;
use std::collections::{BTreeMap, BTreeSet};

/// Words in the names of the macros that every test relies on.
const JUDGING: [&str; 2] = ["assert", "panic"];

/// What is known of one file.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Its tests by name, each as often as it is there. What only some machines build is left out.
    pub(crate) tests: BTreeMap<String, usize>,
    /// Macros that its tests call.
    pub(crate) called: BTreeSet<String>,
    /// Macros that anything in it calls.
    pub(crate) every: BTreeSet<String>,
    /// Macros that it makes, and names that it gives to others: each with everything that it says there.
    pub(crate) made: BTreeMap<String, String>,
    /// Modules that it takes in on some machines only.
    absent: BTreeSet<String>,
}

/// The tests of many files, but for those that only some machines build.
pub(crate) fn tests(files: &[&TreeFile]) -> BTreeMap<String, usize> {
    let read: Vec<_> = files.iter().map(|file| (&file.path, read(file.text.as_deref().unwrap_or_default()))).collect();
    let absent: BTreeSet<&String> = read.iter().flat_map(|(_, read)| &read.absent).collect();
    let is_there =
        |path: &str| !path.split('/').any(|part| absent.iter().any(|name| part.trim_end_matches(".rs") == *name));
    let mut tests = BTreeMap::new();
    for (name, count) in read.iter().filter(|(path, _)| is_there(path)).flat_map(|(_, read)| &read.tests) {
        *tests.entry(name.clone()).or_default() += count;
    }
    tests
}

/// Macros that stand in front of those that every test relies on, or of one that these tests call.
pub(crate) fn fronts(before: &Read, after: &Read, called: &BTreeSet<String>) -> Vec<String> {
    let judges = |name: &str| JUDGING.iter().any(|word| name.contains(word));
    let is_front = |(name, said): &(&String, &String)| match before.made.get(*name) {
        Some(was) => judges(name) && was != *said,
        // A macro that makes macros may make any.
        None => judges(name) || called.contains(*name) || *name == "$",
    };
    after.made.iter().filter(is_front).map(|(name, _)| name.clone()).collect()
}

/// Reads a file.
pub(crate) fn read(text: &str) -> Read {
    let words = words(text);
    let mut reader =
        Reader { words: &words, at: 0, marks: Vec::new(), scopes: vec![Scope::default()], read: Read::default() };
    while reader.at < words.len() {
        reader.step();
    }
    reader.read
}

/// What holds for everything between two braces.
#[derive(Debug, Clone, Copy, Default)]
struct Scope {
    /// Only some machines build it.
    is_conditional: bool,
    /// Words that a macro is given: what it makes of them nobody knows.
    is_given: bool,
    is_test: bool,
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
    /// Attributes that stand before what comes next.
    marks: Vec<Vec<&'a str>>,
    scopes: Vec<Scope>,
    read: Read,
}

impl<'a> Reader<'a> {
    fn word(&self, ahead: usize) -> &'a str {
        self.words.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn scope(&self) -> Scope {
        self.scopes.last().copied().unwrap_or_default()
    }

    fn step(&mut self) {
        match (self.word(0), self.word(1), self.word(2)) {
            ("#", "[", _) => {
                let mark = self.group(1);
                self.marks.push(mark);
            }
            ("#", "!", "[") => {
                let mark = self.group(2);
                let is_conditional = mark.first() == Some(&"cfg") && !holds(&mark[1..]);
                self.scopes.last_mut().into_iter().for_each(|scope| scope.is_conditional |= is_conditional);
            }
            ("macro_rules", "!", name) => self.make(name, 3),
            ("use", ..) => self.import(),
            ("fn", name, _) => self.function(name),
            ("mod", name, ";") => {
                let absent = self.is_conditional().then(|| name.to_owned());
                self.read.absent.extend(absent);
                self.at += 2;
            }
            (name, "!", open) if is_name(name) && matches!(open, "(" | "[" | "{") => self.call(name, open),
            ("{", ..) => self.open(false),
            ("}", ..) => {
                if self.scopes.len() > 1 {
                    self.scopes.pop();
                }
                self.next();
            }
            (";" | ",", ..) => self.next(),
            _ => self.at += 1,
        }
    }

    /// Goes on where marks that stand before are no longer meant.
    fn next(&mut self) {
        self.marks.clear();
        self.at += 1;
    }

    /// The words between an opening bracket, so far ahead, and the one that closes it; the place is behind that then.
    fn group(&mut self, ahead: usize) -> Vec<&'a str> {
        let begin = self.at + ahead;
        let mut depth = 0usize;
        let length = self.words[begin.min(self.words.len())..].iter().position(|word| {
            match *word {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let end = length.map_or(self.words.len(), |length| begin + length);
        self.at = (end + 1).max(self.at + 1);
        self.words.get(begin + 1..end).unwrap_or_default().to_vec()
    }

    fn is_conditional(&self) -> bool {
        let is = |mark: &Vec<&str>| match mark.first() {
            Some(&"cfg") => !holds(&mark[1..]),
            Some(&"cfg_attr") => true,
            _ => false,
        };
        self.scope().is_conditional || self.marks.iter().any(is)
    }

    fn is_test(&self) -> bool {
        let is = |mark: &Vec<&str>| {
            let path = mark.split(|word| *word == "(").next().unwrap_or_default();
            path.last() == Some(&"test") || mark.first() == Some(&"cfg") && mark.contains(&"test")
        };
        self.scope().is_test || self.marks.iter().any(is)
    }

    fn open(&mut self, is_given: bool) {
        let (is_conditional, is_test) = (self.is_conditional(), self.is_test());
        self.scopes.push(Scope { is_conditional, is_given: is_given || self.scope().is_given, is_test });
        self.next();
    }

    fn function(&mut self, name: &str) {
        let is_marked = self.marks.iter().any(|mark| {
            mark.split(|word| *word == "(").next().and_then(<[_]>::last) == Some(&"test")
                && mark.first() != Some(&"cfg")
        });
        let is_ignored = self.marks.iter().any(|mark| mark.first() == Some(&"ignore"));
        if is_marked && !is_ignored && !self.is_conditional() && !self.scope().is_given {
            *self.read.tests.entry(name.to_owned()).or_default() += 1;
        }
        self.at += 2;
    }

    fn call(&mut self, name: &str, open: &str) {
        self.read.every.insert(name.to_owned());
        if self.is_test() {
            self.read.called.insert(name.to_owned());
        }
        self.at += 2;
        if open == "{" { self.open(true) } else { self.at += 1 }
    }

    fn make(&mut self, name: &str, ahead: usize) {
        let said = self.group(ahead).join(" ");
        self.read.made.insert(name.to_owned(), said);
        self.marks.clear();
    }

    /// `use a as b` makes a name, and one that every test relies on may come from anywhere.
    fn import(&mut self) {
        let rest = &self.words[self.at..];
        let said = &rest[..rest.iter().position(|word| *word == ";").unwrap_or(rest.len())];
        if !self.is_test() {
            let renamed =
                said.iter().zip(said.iter().skip(1)).filter(|(word, _)| **word == "as").map(|(_, name)| *name);
            let judging = said.iter().copied().filter(|word| JUDGING.iter().any(|judging| word.contains(judging)));
            for name in renamed.chain(judging) {
                self.read.made.insert(name.to_owned(), said.join(" "));
            }
        }
        self.at += said.len();
    }
}

/// Whether a condition holds wherever checks run. What is not known does not.
fn holds(words: &[&str]) -> bool {
    truth(words).unwrap_or(false)
}

/// The same with a third answer, for what nobody knows here.
fn truth(words: &[&str]) -> Option<bool> {
    match words {
        ["(", inner @ .., ")"] => truth(inner),
        ["test" | "unix" | "debug_assertions"] | ["target_os", "=", "\"linux\""] => Some(true),
        ["windows"] | ["target_os", "=", _] => Some(false),
        ["not", rest @ ..] => truth(rest).map(|truth| !truth),
        [word @ ("all" | "any"), "(", inner @ .., ")"] => {
            let decides = *word == "any";
            let parts: Vec<_> = split(inner).into_iter().map(truth).collect();
            match parts.contains(&Some(decides)) {
                true => Some(decides),
                false => parts.iter().all(Option::is_some).then_some(!decides),
            }
        }
        _ => None,
    }
}

/// The parts between commas that stand in no brackets.
fn split<'a, 'b>(words: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    let (mut depth, mut begin, mut parts) = (0i32, 0, Vec::new());
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" => depth += 1,
            ")" => depth -= 1,
            "," if depth == 0 => parts.push(&words[std::mem::replace(&mut begin, at + 1)..at]),
            _ => {}
        }
    }
    parts.push(&words[begin..]);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// The words and marks of a file in order. Comments are left out, and a text is one word with its quotation marks.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match blank(rest) {
            Some(length) => {
                rest = &rest[length..];
                continue;
            }
            None => quoted(rest).unwrap_or_else(|| match is_name(rest) || first.is_ascii_digit() {
                true => rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len()),
                false => first.len_utf8(),
            }),
        };
        words.push(rest[..length].trim_start_matches("r#"));
        rest = &rest[length..];
    }
    words
}

/// How long the space or the comment is that a text begins with.
fn blank(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        let (mut depth, mut at) = (0u32, 0);
        while at < rest.len() {
            match rest.as_bytes().get(at..at + 2) {
                Some(b"/*") => (depth, at) = (depth + 1, at + 2),
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                _ => at += 1,
            }
            if depth == 0 {
                break;
            }
        }
        return Some(at.min(rest.len()));
    }
    let spaces = rest.len() - rest.trim_start().len();
    (spaces > 0).then_some(spaces)
}

/// How long the text is that a text begins with, or the name behind `r#`.
fn quoted(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c"].into_iter().find(|prefix| rest.starts_with(prefix)).unwrap_or_default();
    let body = &rest[prefix.len()..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    if prefix.ends_with('r') && body[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = prefix.len() + hashes + 1;
        return Some(rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()));
    }
    if prefix == "r" && hashes == 1 {
        let name = &body[1..];
        let length = name.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(name.len());
        return Some(2 + length);
    }
    if body.starts_with('"') {
        return Some(prefix.len() + until(body, '"'));
    }
    // A letter in quotation marks, and not a lifetime.
    let mut letters = body.strip_prefix('\'')?.chars();
    let is_letter = letters.next()? == '\\' || letters.next() == Some('\'');
    is_letter.then(|| prefix.len() + until(body, '\''))
}

/// How long a text is that begins and ends with this mark.
fn until(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == mark => return at + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        read(text).tests.into_keys().collect()
    }

    #[test]
    fn tests_are_found_whatever_stands_beside_them() {
        let beside = "#[cfg(unix)]\nuse std::os;\nmacro_rules! x { () => { #[test] fn no() {} } }\n/* #[test] fn gone() {} */\n\
                      const A: &str = r#\"#[test] fn text() {}\"#;\nfn b<'a>(c: char) -> bool { c == '{' || c == '\\'' }\n\
                      #[cfg(test)]\nmod tests {\n #[test]\n fn rounds() {}\n #[tokio::test(flavor = \"x\")]\n async fn waits() {}\n\
                      #[test] #[ignore] fn slow() {}\n}\n";
        assert_eq!(names(beside), ["rounds", "waits"]);
        assert_eq!(names("#[cfg(all(unix, not(windows)))]\n#[test]\nfn here() {}\n"), ["here"]);
        for absent in ["#[cfg(feature = \"x\")]", "#[cfg(any())]", "#[cfg(windows)]", "#[cfg_attr(unix, ignore)]"] {
            assert!(names(&format!("{absent}\n#[test]\nfn there() {{}}\n")).is_empty(), "{absent}");
            assert!(names(&format!("{absent}\nmod t {{ #[test]\nfn there() {{}} }}\n")).is_empty(), "{absent}");
        }
        assert!(names("#![cfg(feature = \"x\")]\n#[test]\nfn a() {}").is_empty());
        assert!(names("given! { #[test] fn a() {} }").is_empty(), "what a macro makes of it nobody knows");
    }

    #[test]
    fn what_only_some_machines_take_in_is_not_expected() {
        let file = |path: &str, text: &str| TreeFile {
            path: path.into(),
            hash: choir_proto::Hash::ZERO,
            text: Some(text.into()),
        };
        let files = [
            file("src/lib.rs", "#[cfg(feature = \"x\")]\nmod extra;\nmod plain;"),
            file("src/extra.rs", "#[test] fn a() {}"),
            file("src/plain.rs", "#[test] fn b() {}"),
        ];
        assert_eq!(tests(&files.iter().collect::<Vec<_>>()).into_keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn macros_that_stand_before_others_are_seen_however_they_are_written() {
        let called = read("#[cfg(test)] mod t { #[test] fn a() { near!(1); assert_eq!(1, 1) } }").called;
        assert_eq!(called.iter().collect::<Vec<_>>(), ["assert_eq", "near"]);
        let fronts = |before: &str, after: &str| fronts(&read(before), &read(after), &called);
        for shadow in [
            "macro_rules!\nassert_eq { ($($t:tt)*) => {} }",
            "macro_rules /* x */ ! assert { () => {} }",
            "use std::stringify as assert_eq;",
            "use std :: { stringify as near };",
            "macro_rules! near { () => {} }",
            "macro_rules! mk { ($n:ident) => { x } } macro_rules! $n { () => {} }",
        ] {
            assert!(!fronts("", shadow).is_empty(), "{shadow}");
        }
        assert!(fronts("", "macro_rules! mean { () => {} } use a::b as c;").is_empty(), "work");
        let (was, is) = ("macro_rules! near { () => { 1 } }", "macro_rules! near { () => { 2 } }");
        assert!(fronts(was, is).is_empty(), "a macro of the product, whose tests call it");
        let own = "macro_rules! assert_near { () => { 1 } }";
        assert_eq!(fronts(own, &own.replace('1', "2")), ["assert_near"]);
    }
}
