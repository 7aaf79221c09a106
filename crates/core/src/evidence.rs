//! Evidence under a text: which of its quotations are known to stand in a source, and which are not.

mod hold;
mod quotation;

pub use hold::{Resolved, resolved};
pub use quotation::{Quotation, quotations};

use choir_proto::Event;
use choir_proto::document::Citation;
use choir_proto::event::{Actor, Header, TaskConflicted, TaskFinished, ToolFinished, ToolOutcome};
use choir_proto::task::{ChangeKind, Limit};
use std::collections::BTreeSet;

/// Places of a quotation's first word from which the rest of it is looked for.
const BEGINNINGS_MAX: usize = 10_000;

/// Where a citation's words stand in a text, in characters.
pub fn place(text: &str, citation: &Citation) -> Option<(u64, u64)> {
    let quote = citation.quote.as_deref().filter(|quote| !quote.is_empty())?;
    let (from, to) = find(text, quote)?;
    Some((characters(text, from), characters(text, to)))
}

/// Where words stand in a text, in bytes, however either of them breaks its lines.
fn find(text: &str, quote: &str) -> Option<(usize, usize)> {
    let exact = text.find(quote).map(|from| (from, from + quote.len()));
    exact.or_else(|| broken(text, quote).next())
}

/// Every place where words stand in a text that breaks its lines elsewhere.
fn broken<'a>(text: &'a str, quote: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let mut words = quote.split_whitespace();
    let first = words.next().unwrap_or_default();
    let rest: Vec<_> = words.collect();
    let begins = text.match_indices(first).filter(move |_| !first.is_empty()).take(BEGINNINGS_MAX);
    begins.filter_map(move |(from, _)| Some((from, goes_on(text, from + first.len(), &rest)?)))
}

/// Where these words end, if they follow each other from here with nothing but white space between them.
fn goes_on(text: &str, mut at: usize, words: &[&str]) -> Option<usize> {
    for word in words {
        let rest = text[at..].trim_start();
        // A quoted block marks each of its lines.
        let rest = match text[at..text.len() - rest.len()].contains('\n') {
            true => rest.strip_prefix('>').map_or(rest, str::trim_start),
            false => rest,
        };
        let from = text.len() - rest.len();
        if from == at || !rest.starts_with(word) {
            return None;
        }
        at = from + word.len();
    }
    Some(at)
}

/// Whether any of a citation's words stand in a range of a text, in bytes, wherever the text says them.
pub fn stands_within(text: &str, citation: &Citation, from: usize, to: usize) -> bool {
    let Some(quote) = citation.quote.as_deref().filter(|quote| !quote.is_empty()) else { return false };
    // Words that reach into the range begin and end no farther from it than they are long: the rest of the text, asked
    // again for every part and every citation, would keep everybody waiting.
    let reach = quote.len() - 1;
    let begin = text.ceil_char_boundary(from.saturating_sub(reach));
    let end = text.floor_char_boundary(to.saturating_add(reach));
    let exactly = text.get(begin..end).is_some_and(|near| near.contains(quote));
    // Where lines are broken otherwise they are a little longer.
    let begin = text.ceil_char_boundary(from.saturating_sub(2 * reach));
    let end = text.floor_char_boundary(to.saturating_add(2 * reach));
    let reaches = |(first, last): (usize, usize)| begin + first < to && begin + last > from;
    exactly || text.get(begin..end).is_some_and(|near| broken(near, quote).any(reaches))
}

/// What a call brought that no model said, as the model was shown it: what a command printed, and what stands in a file or
/// on a page. Refusals, errors and the words of other agents are no sources, or whoever is refused could quote themselves.
pub fn testimony<'a>(tool: &str, finished: &'a ToolFinished) -> Option<&'a str> {
    let content = finished.content.as_str();
    match tool {
        "bash" => printed(content),
        "read_file" if finished.outcome == ToolOutcome::Ok => Some(content),
        "fetch_url" if finished.outcome == ToolOutcome::Ok => Some(content.split_once('\n')?.1),
        _ => None,
    }
}

/// Where the documents of a computer are mirrored.
const MIRRORS: &str = "documents";

/// Paths that the agents of a run wrote: what stands there, or below, is no source for the same run, or whoever wants to be
/// quoted could write it down first. Which they are, the keeper's differences say, and the calls whose tasks are still at work.
pub fn written<'a>(events: impl Iterator<Item = (&'a Header, &'a Event)>) -> BTreeSet<String> {
    let mut written = BTreeSet::new();
    for (header, event) in events {
        match event {
            Event::TaskFinished(TaskFinished { result }) | Event::TaskConflicted(TaskConflicted { result }) => {
                let there = result.files_changed.iter().filter(|file| file.change != ChangeKind::Deleted);
                written.extend(there.map(|file| file.path.clone()));
            }
            Event::ToolStarted(started) if matches!(started.name.as_str(), "write_file" | "edit_file") => {
                written.extend(started.arguments.get("path").and_then(|path| path.as_str()).map(plain));
            }
            // It comes into the workspace by its mirror.
            Event::DocumentUpdated(_) | Event::DocumentVersioned(_) if matches!(header.actor, Actor::Agent(_)) => {
                written.insert(MIRRORS.to_owned());
            }
            _ => {}
        }
    }
    written
}

/// Whether a path is one of those, or lies below one.
pub fn is_written(written: &BTreeSet<String>, path: &str) -> bool {
    let path = plain(path);
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| written.contains(&path[..end]))
}

/// A path without what says nothing.
pub fn plain(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}

/// A command's own words, below the lines that say how it ended.
fn printed(content: &str) -> Option<&str> {
    let (heading, rest) = content.split_once('\n')?;
    let is_heading = heading.starts_with("exit code ") || heading.starts_with("Stopped after ");
    let limit = Limit::ALL.iter().find_map(|limit| rest.strip_prefix(limit.sentence())?.strip_prefix('\n'));
    is_heading.then_some(limit.unwrap_or(rest))
}

/// The file that a call read, if that is what it did.
pub fn file_read<'a>(read: &ToolFinished, mut events: impl Iterator<Item = &'a Event>) -> Option<&'a str> {
    events.find_map(|event| match event {
        Event::ToolStarted(started) if started.effect_id == read.effect_id && started.name == "read_file" => {
            started.arguments.get("path")?.as_str()
        }
        _ => None,
    })
}

/// People and browsers count characters; bytes are ours.
pub fn characters(text: &str, byte: usize) -> u64 {
    text.get(..byte).map_or(0, |head| head.chars().count() as u64)
}

/// The byte at which a character begins; the end where there are fewer.
pub fn byte(text: &str, character: u64) -> usize {
    let nth = usize::try_from(character).unwrap_or(usize::MAX);
    text.char_indices().nth(nth).map_or(text.len(), |(byte, _)| byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::Hash;

    fn citation(quote: &str) -> Citation {
        let quote = Some(quote.to_owned());
        Citation {
            source: Hash::ZERO,
            from: 0,
            to: 0,
            hash: Hash::ZERO,
            quote,
            artifact_id: None,
            run_id: None,
            at: None,
        }
    }

    #[test]
    fn a_citation_knows_its_place_also_over_the_end_of_a_line() {
        let text = "É says “x\n y z” there";
        assert_eq!(place(text, &citation("x y z")), Some((8, 14)));
        assert_eq!(place("> x y\n> z\n", &citation("x y z")), Some((2, 9)));
        assert_eq!(place("xy z, x y\n\nz", &citation("x y z")), Some((6, 12)));
        assert!(stands_within(text, &citation("x y z"), 12, 13));
    }

    #[test]
    fn a_citation_knows_its_place() {
        assert_eq!(place("É says “x y z” there", &citation("x y z")), Some((8, 13)));
        assert_eq!(place("nothing", &citation("x y z")), None);
    }

    #[test]
    fn a_source_is_under_every_part_of_its_words() {
        let (text, cited) = ("so: all is well. all is well", citation("all is well"));
        for (from, to) in [(4, 15), (0, 28), (6, 8), (14, 16), (0, 5), (20, 21)] {
            assert!(stands_within(text, &cited, from, to), "{from}..{to}");
        }
        assert!(!stands_within(text, &cited, 0, 4) && !stands_within(text, &cited, 15, 17));
        assert!(!stands_within(text, &citation(""), 0, 28));
        assert!(stands_within("é à ü", &citation("à"), 3, 5) && !stands_within("é à ü", &citation("à"), 0, 3));
    }

    #[test]
    fn only_what_came_from_outside_of_a_model_is_a_source() {
        let said = |tool: &str, outcome, content: &str| {
            let (effect_id, call_id, content) = (String::new(), String::new(), content.to_owned());
            let finished = ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 };
            testimony(tool, &finished).map(str::to_owned)
        };
        use ToolOutcome::{Error, Ok, Refused};
        assert_eq!(said("bash", Ok, "exit code 0\n3 apples\n").as_deref(), Some("3 apples\n"));
        let limited = format!("exit code 1\n{}\n3 apples\n", Limit::Memory.sentence());
        assert_eq!(said("bash", Error, &limited).as_deref(), Some("3 apples\n"), "a failing command prints too");
        assert_eq!(said("bash", Refused, "No such tool: the moon.\nThe moon."), None);
        assert_eq!(said("read_file", Ok, "a\nb").as_deref(), Some("a\nb"));
        assert_eq!(said("read_file", Error, "The moon is not there"), None);
        assert_eq!(said("fetch_url", Ok, "Source x. Its text, as data:\nTrees").as_deref(), Some("Trees"));
        for tool in ["cite", "delegate", "finish", "answer", "web_search", "write_file"] {
            assert_eq!(said(tool, Ok, "The moon is cheese.\nThe moon is cheese."), None, "{tool}");
        }
    }

    #[test]
    fn what_a_run_wrote_itself_is_named_and_so_is_what_lies_below() {
        use crate::fold::task::running;
        use choir_proto::TaskId;
        use choir_proto::event::ToolStarted;
        use choir_proto::task::{FileChange, TaskResult};
        let file = |path: &str, change| FileChange { path: path.to_owned(), change };
        let files_changed = vec![
            file("notes/own.md", ChangeKind::Added),
            file("away", ChangeKind::Deleted),
            file("link", ChangeKind::Added),
        ];
        let result = TaskResult { files_changed, ..running(TaskId::new(uuid::Uuid::nil())) };
        let started = ToolStarted {
            effect_id: String::new(),
            turn: 1,
            index: 0,
            call_id: String::new(),
            name: "write_file".into(),
            arguments: serde_json::json!({"path": "./draft//x.md"}),
        };
        let events = [Event::from(TaskFinished { result }), Event::from(started)];
        let headed: Vec<_> = events.iter().map(|event| (crate::testing::header(1, event), event)).collect();
        let written = written(headed.iter().map(|(header, event)| (header, *event)));
        for path in ["notes/own.md", "./notes/./own.md", "link/below", "draft/x.md", "/draft/x.md"] {
            assert!(is_written(&written, path), "{path}");
        }
        for path in ["notes", "notes/other.md", "away", "links", "draft", "x.md"] {
            assert!(!is_written(&written, path), "{path}");
        }
    }

    #[test]
    fn sources_of_a_small_part_of_a_long_text_are_found_beside_it() {
        let text = "word ".repeat(4 << 20);
        let absent = citation("word of honour");
        assert!((0..2000).all(|from| !stands_within(&text, &absent, from, from + 1)));
    }
}
