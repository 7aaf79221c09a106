//! Commands of our own that only look. Whoever runs commands knows them by their form, so that nobody has to be asked about them
//! and nothing else passes for one.

use crate::page::Format;

const SEARCH: &str = "grep -rnIE --exclude-dir=.git -e ";

/// This program, as it lies in every sandbox.
const READER: &str = "/run/choir/guest page ";

/// Where a page lies while it is read, before the name of the call that reads it: several are read at the same time.
pub const PAGE_FILE: &str = ".choir-page-";

/// Looks for lines in files.
pub fn search(pattern: &str, path: &str) -> String {
    format!("{SEARCH}{} -- {}", quoted(pattern), quoted(path))
}

/// Reads a page that lies in [`PAGE_FILE`] of a call.
pub fn read(format: Format, charset: Option<&str>, call: &str) -> String {
    let charset = charset.map(|name| format!(" --charset {name}")).unwrap_or_default();
    format!("{READER}{}{charset} < {PAGE_FILE}{call}", format.name())
}

/// Whether a command is one of these, whatever it looks for.
pub fn is_look(command: &str) -> bool {
    is_search(command).or_else(|| is_reading(command)).unwrap_or(false)
}

fn is_search(command: &str) -> Option<bool> {
    let (_, rest) = word(command.strip_prefix(SEARCH)?)?;
    let (_, rest) = word(rest.strip_prefix(" -- ")?)?;
    Some(rest.is_empty())
}

fn is_reading(command: &str) -> Option<bool> {
    let (reader, call) = command.strip_prefix(READER)?.split_once(&format!(" < {PAGE_FILE}"))?;
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b));
    let mut words = reader.split(' ');
    let is_format = words.next().is_some_and(|name| Format::named(name).is_some());
    let rest: Vec<&str> = words.collect();
    let is_charset = matches!(rest.as_slice(), []) || matches!(rest.as_slice(), ["--charset", name] if is_name(name));
    Some(is_format && is_charset && is_name(call))
}

/// A word of a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The word at the beginning of a text as [`quoted`] writes it, and what follows.
fn word(text: &str) -> Option<(String, &str)> {
    let (mut word, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.strip_prefix('\'')?.split_once('\'')?;
        word.push_str(part);
        match after.strip_prefix(r"\'") {
            Some(more) => {
                word.push('\'');
                rest = more;
            }
            None => return Some((word, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = r"'; rm -rf / #$(x)`y`\";

    #[test]
    fn no_word_leaves_its_quotes() {
        let shell = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(HOSTILE))]).output();
        assert_eq!(String::from_utf8(shell.unwrap().stdout).unwrap(), HOSTILE);
        assert_eq!(word(&format!("{} x", quoted(HOSTILE))), Some((HOSTILE.to_owned(), " x")));
    }

    #[test]
    fn a_look_is_known_by_its_form_and_nothing_else_is_one() {
        assert!(is_look(&search(HOSTILE, "a b")) && is_look(&search("", ".")));
        assert!(is_look(&read(Format::Html, Some("latin1"), "e1-2")) && is_look(&read(Format::Pdf, None, "e1")));
        let others = [
            "rm -rf .".to_owned(),
            format!("{}; rm x", search("a", "b")),
            format!("{} 'c'", search("a", "b")),
            search("a", "b").replace("'b'", "b"),
            search("a", "b").replace("'a'", "$(x)"),
            format!("{}; rm x", read(Format::Html, None, "e1")),
            read(Format::Html, Some("a;rm x"), "e1"),
            read(Format::Html, None, "../e1"),
            String::new(),
        ];
        for other in others {
            assert!(!is_look(&other), "{other}");
        }
    }
}
