//! Figures and tables that a command made. In a document each is a fenced block whose first line says the command:
//! a fence, `run`, and the command; the block's text is what the command printed.

use crate::effect;
use choir_proto::DocumentId;

/// What a block's first line begins with, after its fence.
const WORD: &str = "run ";

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

/// The words of a command that may name files.
pub fn words(command: &str) -> Vec<String> {
    let split = |letter: char| letter.is_whitespace() || matches!(letter, '<' | '>' | '|' | ';' | '&' | '(' | ')');
    let clean = |word: &str| word.trim_matches(['"', '\'']).trim_start_matches("./").to_owned();
    let mut words: Vec<String> = command.split(split).map(clean).filter(|word| !word.is_empty()).collect();
    words.sort();
    words.dedup();
    words
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
    }
}
