//! What stands behind a text: sources at the words that are cited, and who wrote a selection for what.

use crate::status::Mark as Standing;
use crate::words::headline;
use choir_proto::document::{Citation, Document, FigureStatus, Origin};
use choir_proto::run::SelectionAction;
use serde::Serialize;

/// Bytes of a source that are shown before and after the words.
const AROUND_BYTES: usize = 3_000;

/// The words of a source with what stands around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Before them.
    pub before: String,
    /// The words.
    pub quoted: String,
    /// After them.
    pub after: String,
}

/// Cuts a source at a range of bytes. Nothing: the range does not lie in this text.
pub fn excerpt(source: &str, from: u64, to: u64) -> Option<Excerpt> {
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    let quoted = source.get(from..to)?;
    let begin = source.floor_char_boundary(from.saturating_sub(AROUND_BYTES));
    let end = source.ceil_char_boundary((to + AROUND_BYTES).min(source.len()));
    let (before, after) = (&source[begin..from], &source[to..end]);
    let cut = |text: &str, cut: bool, first: bool| match (cut, first) {
        (false, _) => text.to_owned(),
        (true, true) => format!("… {text}"),
        (true, false) => format!("{text} …"),
    };
    Some(Excerpt {
        before: cut(before, begin > 0, true),
        quoted: quoted.to_owned(),
        after: cut(after, end < source.len(), false),
    })
}

/// A line of fewer words was not broken to fit a width, or is no sentence.
const BROKEN_WORDS_MIN: usize = 7;
/// A source's name is cut to so many characters.
const NAME_CHARACTERS_MAX: usize = 80;

/// A text that somebody broke into lines by hand, with its sentences whole again. It is as long as before, so that places in it
/// stay where they are.
pub fn unbroken(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        whole.push_str(line);
        let is_prose = line.split(' ').count() >= BROKEN_WORDS_MIN;
        let goes_on = |next: &&str| is_prose && next.starts_with(char::is_lowercase);
        match lines.peek() {
            Some(next) if goes_on(next) => whole.push(' '),
            Some(_) => whole.push('\n'),
            None => {}
        }
    }
    whole
}

/// What a source calls itself: its first line that says something.
pub fn source_name(text: &str) -> String {
    let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    headline(line.unwrap_or("Source"), NAME_CHARACTERS_MAX)
}

/// A place of the text that the editor marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// `citation`, `unsupported` or `proposal`.
    pub kind: &'static str,
    /// Which of them.
    pub key: String,
    /// First character.
    pub from: u64,
    /// After the last; nothing for a proposal, which is found by its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The words of a proposal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
}

/// Everything that the editor marks of a document.
pub fn marks(document: &Document) -> Vec<Mark> {
    let cited = document.citations.iter().enumerate().filter_map(|(index, citation)| {
        let at = citation.at?;
        Some(Mark { kind: "citation", key: index.to_string(), from: at.from, to: Some(at.to), old: None })
    });
    let bare = document.unsupported.iter().enumerate().map(|(index, bare)| Mark {
        kind: "unsupported",
        key: index.to_string(),
        from: bare.from,
        to: Some(bare.to),
        old: None,
    });
    let wanted = document.proposals.iter().map(|proposal| Mark {
        kind: "proposal",
        key: proposal.proposal_id.clone(),
        from: proposal.from,
        to: None,
        old: Some(proposal.old.clone()),
    });
    let asked = document.threads.iter().filter_map(|thread| {
        let at = thread.at?;
        Some(Mark { kind: "thread", key: thread.run_id.to_string(), from: at.from, to: Some(at.to), old: None })
    });
    cited.chain(bare).chain(wanted).chain(asked).collect()
}

/// What can be wanted of a selection: the button, what the field hints at, and what it holds at first.
pub const fn action_words(action: SelectionAction) -> (&'static str, &'static str, &'static str) {
    match action {
        SelectionAction::Ask => ("Ask", "What do you want to know about it?", ""),
        SelectionAction::Change => ("Change", "What should become of it?", ""),
        SelectionAction::Verify => ("Verify", "What should be checked?", "Check this against its sources."),
    }
}

/// How a figure stands, in a word or two.
pub const fn figure_words(status: FigureStatus) -> &'static str {
    match status {
        FigureStatus::Fresh => "up to date",
        FigureStatus::Stale => "stale",
        FigureStatus::Running => "being made again",
        FigureStatus::Failed => "failed",
        FigureStatus::Unknown => "not made by a command",
    }
}

/// How a figure stands, as a mark.
pub const fn figure_mark(status: FigureStatus) -> Standing {
    match status {
        FigureStatus::Fresh => Standing::Verified,
        FigureStatus::Stale => Standing::Blocked,
        FigureStatus::Running => Standing::Working,
        FigureStatus::Failed => Standing::Failed,
        FigureStatus::Unknown => Standing::Unknown,
    }
}

/// Who wrote which characters, as the editor wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// First character.
    pub from: u64,
    /// After the last.
    pub to: u64,
    /// One word.
    pub author: String,
    /// When, by the clock that browsers have.
    pub at_ms: i64,
}

impl From<&Origin> for Written {
    fn from(origin: &Origin) -> Self {
        Self { from: origin.from, to: origin.to, author: origin.author.to_string(), at_ms: origin.at.0 / 1_000 }
    }
}

/// Citations of the same source together, in the order of their first words: position in the list, and the citation.
pub fn by_source(citations: &[Citation]) -> Vec<Vec<(usize, Citation)>> {
    let mut groups: Vec<Vec<(usize, Citation)>> = Vec::new();
    for (index, citation) in citations.iter().cloned().enumerate() {
        match groups.iter_mut().find(|group| group[0].1.source == citation.source) {
            Some(group) => group.push((index, citation)),
            None => groups.push(vec![(index, citation)]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_holds_exactly_the_cited_bytes() {
        let source = "Größe: über 40 ms.";
        let found = excerpt(source, 9, 17).unwrap();
        assert_eq!((found.before.as_str(), found.quoted.as_str()), ("Größe: ", "über 40"));
        assert_eq!(found.before + &found.quoted + &found.after, source);
        assert_eq!(excerpt(source, 3, 7), None, "the middle of a letter is no place");
        assert_eq!(excerpt(source, 5, 4_000), None);
    }

    #[test]
    fn sentences_are_whole_again_and_places_stay_where_they_are() {
        let source =
            "# Wren\n\nWe pulled the plug of the leader, in all\neleven times.\n- a list\nqueue,single\nwren,357\n";
        let whole = unbroken(source);
        assert!(whole.contains("in all eleven times.\n- a list\nqueue,single\nwren,357\n"), "{whole}");
        assert_eq!(whole.len(), source.len());
        assert_eq!(whole.find("eleven"), source.find("eleven"));
        assert_eq!(source_name(source), "Wren");
        assert_eq!(source_name(" \n"), "Source");
    }

    #[test]
    fn a_long_source_is_cut_at_letters() {
        let source = format!("{}X{}", "ü".repeat(4_000), "ß".repeat(4_000));
        let found = excerpt(&source, 8_000, 8_001).unwrap();
        assert_eq!(found.quoted, "X");
        assert!(found.before.starts_with("… ü") && found.after.ends_with("ß …"));
        assert!(found.before.len() <= AROUND_BYTES + 8);
    }
}
