//! Figures and tables that a command made. In a document each is a fenced block whose first line says the command:
//! a fence, `run`, and the command; the block's text is what the command printed.

use crate::effect;
use choir_proto::DocumentId;
use std::collections::BTreeSet;

/// What a block's first line begins with, after its fence.
const WORD: &str = "run ";

/// Words of one script that are taken for paths.
const WORDS_MAX: usize = 500;

/// Blocks of one document that are looked at.
const BLOCKS_MAX: usize = 100;

/// A block of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// What makes it.
    pub command: &'a str,
    /// What it says, without the line's end.
    pub body: &'a str,
    /// Where the body begins, in bytes.
    pub from: usize,
    /// Where it ends, its last line's end included.
    pub to: usize,
}

/// Every block of a text, in order.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut found, mut open, mut at) = (Vec::new(), None::<Open<'_>>, 0);
    for line in text.split_inclusive('\n') {
        let (from, bare) = (at, line.trim_end_matches(['\n', '\r']));
        at += line.len();
        match open.take() {
            None => open = opened(bare).map(|(fence, command)| Open { fence, command, from: at }),
            Some(block) if closes(bare, block.fence) => {
                if let Some(command) = block.command.filter(|_| found.len() < BLOCKS_MAX) {
                    let body = text[block.from..from].trim_end_matches(['\n', '\r']);
                    found.push(Block { command, body, from: block.from, to: from });
                }
            }
            still => open = still,
        }
    }
    found
}

struct Open<'a> {
    fence: usize,
    /// Nothing for a block of another sort.
    command: Option<&'a str>,
    from: usize,
}

/// A line that opens a block: the length of its fence, and the command if it is one of ours.
fn opened(line: &str) -> Option<(usize, Option<&str>)> {
    let fence = line.bytes().take_while(|byte| *byte == b'`').count();
    let info = line[fence..].trim();
    (fence >= 3 && !info.contains('`'))
        .then(|| (fence, info.strip_prefix(WORD).map(str::trim).filter(|command| !command.is_empty())))
}

fn closes(line: &str, fence: usize) -> bool {
    let line = line.trim_end();
    line.len() >= fence && line.bytes().all(|byte| byte == b'`')
}

/// The text with what a command printed in every block that it makes. Nothing, if it makes none.
pub fn filled(text: &str, command: &str, output: &str) -> Option<String> {
    let mut filled = String::with_capacity(text.len() + output.len());
    let mut at = 0;
    for block in blocks(text).into_iter().filter(|block| block.command == command) {
        filled.push_str(&text[at..block.from]);
        filled.push_str(output.trim_end_matches(['\n', '\r']));
        filled.push('\n');
        at = block.to;
    }
    filled.push_str(&text[at..]);
    (at > 0).then_some(filled)
}

/// What a command printed, as a block holds it: a fence in it would end the block.
pub fn printable(output: &str) -> Option<&str> {
    let output = output.trim_end_matches(['\n', '\r']);
    let harmless = |line: &str| !line.starts_with("```");
    output.lines().all(harmless).then_some(output)
}

/// Paths that a command may mean, from the root of the workspace: every word of it, seen from where it stands by then.
pub fn words(command: &str) -> Vec<String> {
    let (mut words, mut home) = (BTreeSet::new(), String::new());
    for part in command.split(['\n', ';', '&', '|', '(', ')']) {
        let mut of_part =
            part.split(|letter: char| letter.is_whitespace() || matches!(letter, '<' | '>')).map(unquoted);
        let of_part: Vec<&str> = of_part.by_ref().filter(|word| !word.is_empty()).collect();
        words.extend(of_part.iter().filter_map(|word| within(&home, word)));
        if let ["cd", directory, ..] = of_part[..] {
            home = within(&home, directory).unwrap_or_default();
        }
    }
    words.into_iter().collect()
}

/// Paths that a script may mean which a command ran: seen from where the command stood, or from the script itself.
pub fn words_within(command: &str, script: &str, text: &str) -> Vec<String> {
    let (homes, mut words) = (homes(command, script), BTreeSet::new());
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '/' | '_' | '-');
    for word in text.split(|letter: char| !is_part(letter)) {
        // A name without any of these is a word of the language.
        if word.contains(['.', '/']) {
            words.extend(homes.iter().filter_map(|home| within(home, word)));
        }
        if words.len() >= WORDS_MAX {
            break;
        }
    }
    words.into_iter().collect()
}

/// Whether a file is a program that can be looked into.
pub fn is_script(path: &str) -> bool {
    [".awk", ".bash", ".jl", ".js", ".mjs", ".pl", ".py", ".r", ".R", ".rb", ".sh"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// Directories from which a script that a command ran may see files.
fn homes(command: &str, script: &str) -> BTreeSet<String> {
    let mut homes = BTreeSet::from([String::new()]);
    homes.extend(script.rsplit_once('/').map(|(directory, _)| directory.to_owned()));
    let mut home = String::new();
    for part in command.split(['\n', ';', '&', '|', '(', ')']) {
        if let ["cd", directory, ..] = part.split_whitespace().map(unquoted).collect::<Vec<_>>()[..] {
            home = within(&home, directory).unwrap_or_default();
            homes.insert(home.clone());
        }
    }
    homes
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// A path from the root of the workspace, as it is written in a directory of it; nothing if it leads out of there.
fn within(home: &str, path: &str) -> Option<String> {
    let path = path.strip_prefix("/work/").map_or_else(|| format!("{home}/{path}"), str::to_owned);
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/")).filter(|path| !path.is_empty())
}

/// The name of a figure: one command in one document is one figure, however often it is shown.
pub fn id(document: DocumentId, command: &str) -> String {
    effect::derived(&document.to_string(), command).simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Sales\n\n```run sh sum.sh < data.csv\ntotal 3\n```\n\n```sh\n```run not this\n```\n\n````run awk '{}' x\n```\n````\nend\n";

    #[test]
    fn blocks_are_found_and_others_are_not() {
        let found: Vec<_> = blocks(TEXT).into_iter().map(|block| (block.command, block.body)).collect();
        assert_eq!(found, [("sh sum.sh < data.csv", "total 3"), ("awk '{}' x", "```")]);
        assert!(blocks("```run x\nnever closed\n").is_empty());
        assert_eq!(blocks("```run x\n```\n")[0].body, "");
    }

    #[test]
    fn a_block_is_filled_and_nothing_else_changes() {
        let total = filled(TEXT, "sh sum.sh < data.csv", "total 4\n\n").unwrap();
        assert_eq!(total, TEXT.replace("total 3", "total 4"));
        assert_eq!(filled(TEXT, "other", "x"), None);
        assert_eq!(filled("```run x\n```", "x", "y").unwrap(), "```run x\ny\n```");
        assert_eq!((printable("a\n```\nb"), printable("a\n")), (None, Some("a")));
    }

    #[test]
    fn files_are_among_the_words_of_a_command() {
        assert_eq!(words("sh ./sum.sh <\"data.csv\" | sort"), ["data.csv", "sh", "sort", "sum.sh"]);
        let there = words("cd projects/f && sort data.csv ../g/more.csv; cd .. && cat /work/top");
        for path in ["projects/f/data.csv", "projects/g/more.csv", "top"] {
            assert!(there.contains(&path.to_owned()), "{path}: {there:?}");
        }
        assert!(!there.contains(&"data.csv".to_owned()), "it is not there");
        assert!(words("cd ../.. && cat x").contains(&"x".to_owned()), "what leads out is not followed");
    }

    #[test]
    fn files_are_among_the_words_of_a_script() {
        let found =
            words_within("cd p && python3 bin/sum.py", "p/bin/sum.py", "for row in open('data.csv'): total += row");
        assert_eq!(found, ["data.csv", "p/bin/data.csv", "p/data.csv"]);
        assert!(is_script("a/b.py") && !is_script("data.csv"));
    }
}
