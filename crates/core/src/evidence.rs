//! Evidence under a text: which of its quotations are known to stand in a source, and which are not.

use choir_proto::Event;
use choir_proto::document::{Citation, Unsupported};
use choir_proto::event::{Actor, Header, TaskConflicted, TaskFinished, ToolFinished, ToolOutcome};
use choir_proto::task::{ChangeKind, Limit};
use std::collections::BTreeSet;

/// A single quoted word is a name, a term or irony, not a quotation, unless it is a figure.
const QUOTATION_WORDS_MIN: usize = 2;

/// Words between marks that are apostrophes just as often.
const PLAIN_WORDS_MIN: usize = 3;

/// Letters that are a quotation in scripts that put no blanks between words.
const UNSPACED_LETTERS_MIN: usize = 5;

/// Quotations looked at in one text.
const QUOTATIONS_MAX: usize = 2000;

/// Places of a quotation's first word from which the rest of it is looked for.
const BEGINNINGS_MAX: usize = 10_000;

/// Marks that begin a quotation, each with the one that ends it.
const MARKS: [(char, char); 13] = [
    ('“', '”'),
    ('"', '"'),
    ('«', '»'),
    ('„', '“'),
    ('‘', '’'),
    ('\'', '\''),
    ('”', '”'),
    ('»', '«'),
    ('‹', '›'),
    ('›', '‹'),
    ('‚', '‘'),
    ('「', '」'),
    ('『', '』'),
];

/// Something that a text puts between quotation marks, or quotes as a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotation<'a> {
    /// First byte of the words.
    pub from: usize,
    /// The words, without the marks.
    pub words: &'a str,
}

/// Everything that a Markdown text quotes. Code is not prose and quotes nothing. Prose goes on from line to line until a line
/// is empty, and so do quotations.
pub fn quotations(text: &str) -> Vec<Quotation<'_>> {
    let mut found = Found(Vec::new());
    let (mut at, mut in_code) = (0, false);
    // Where the part that is being read began, and of which sort it is.
    let mut part: Option<(usize, Sort)> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        let sort = match trimmed.starts_with('>') {
            _ if fence || in_code || trimmed.is_empty() => None,
            true => Some(Sort::Block),
            // A new item or heading is said by itself.
            false if is_own(trimmed) => Some(Sort::Own),
            false => Some(Sort::Prose),
        };
        in_code ^= fence;
        let before = part.map(|(_, sort)| sort);
        let goes_on = before == Some(Sort::Block) && sort == before
            || matches!(before, Some(Sort::Prose | Sort::Own)) && sort == Some(Sort::Prose);
        if !goes_on {
            if let Some((from, sort)) = part.take() {
                found.part(from, &text[from..at], sort);
            }
            part = sort.map(|sort| (at, sort));
        }
        at += line.len();
    }
    if let Some((from, sort)) = part {
        found.part(from, &text[from..], sort);
    }
    found.0
}

/// What a part of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Lines that are quoted as a whole.
    Block,
    /// Lines that go on from the one before.
    Prose,
    /// A line that does not.
    Own,
}

/// Whether a line begins something, whatever stands before it.
fn is_own(line: &str) -> bool {
    let item = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with('#')
        || line.starts_with('|')
        || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || item.len() < line.len() && (item.starts_with(". ") || item.starts_with(") "))
}

/// Words with one space between them, without the marks of a quoted block: how lines are broken says nothing.
fn folded(words: &str) -> String {
    let lines = words.lines().map(|line| line.trim_start().strip_prefix('>').unwrap_or(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// What counts as a quotation so far, in order.
struct Found<'a>(Vec<Quotation<'a>>);

impl<'a> Found<'a> {
    fn is_full(&self) -> bool {
        self.0.len() >= QUOTATIONS_MAX
    }

    /// Adds what one part of a text quotes.
    fn part(&mut self, from: usize, part: &'a str, sort: Sort) {
        match part.trim_start().strip_prefix('>').filter(|_| sort == Sort::Block) {
            Some(block) => self.add(from + part.len() - block.len(), block, QUOTATION_WORDS_MIN),
            None => marked(from, part, self),
        }
    }

    /// Adds these words, unless they are too few or there is no room.
    fn add(&mut self, from: usize, words: &'a str, words_min: usize) {
        let start = words.len() - words.trim_start().len();
        let words = words.trim();
        if !self.is_full() && says_something(words, words_min) {
            self.0.push(Quotation { from: from + start, words });
        }
    }
}

/// Whether what stands between marks is more than a name or a term.
fn says_something(words: &str, words_min: usize) -> bool {
    words.split_whitespace().nth(words_min - 1).is_some()
        || words.contains(|letter: char| letter.is_numeric())
        || words.chars().filter(|letter| is_unspaced(*letter)).count() >= UNSPACED_LETTERS_MIN
}

/// Whether a letter is of a script without blanks between words: Thai and its neighbours, Japanese, Chinese.
const fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

/// Quotations between marks within one part of a text.
fn marked<'a>(at: usize, part: &'a str, found: &mut Found<'a>) {
    let mut rest = part;
    let mut offset = 0;
    // Where one that ends a quotation was looked for in vain, none follows: looking again for each that begins one would
    // take hours in a long line.
    let mut missing: Vec<char> = Vec::new();
    while let Some((place, open)) = rest.char_indices().find(|(_, letter)| *letter == '`' || opens(*letter)) {
        let begin = place + open.len_utf8();
        let (before, after) = (part[..offset + place].chars().next_back(), rest[begin..].chars().next());
        if open == '\''
            && !(before.is_none_or(|letter| !letter.is_alphanumeric()) && after.is_some_and(char::is_alphanumeric))
        {
            (rest, offset) = (&rest[begin..], offset + begin);
            continue;
        }
        let close = MARKS.iter().find(|(mark, _)| *mark == open).map_or('`', |(_, close)| *close);
        let length = if missing.contains(&close) { None } else { ending(&rest[begin..], close) };
        let Some(length) = length else {
            if !missing.contains(&close) {
                missing.push(close);
            }
            (rest, offset) = (&rest[begin..], offset + begin);
            continue;
        };
        if open != '`' {
            let words_min = if open == '\'' { PLAIN_WORDS_MIN } else { QUOTATION_WORDS_MIN };
            found.add(at + offset + begin, &rest[begin..begin + length], words_min);
        }
        let end = begin + length + close.len_utf8();
        (rest, offset) = (&rest[end..], offset + end);
    }
}

/// Where a quotation ends. Between letters the same sign is an apostrophe.
fn ending(text: &str, close: char) -> Option<usize> {
    let mut before = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let within = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let after = letters.peek().map(|(_, letter)| *letter);
        if letter == close && !(matches!(close, '’' | '\'') && within(before) && within(after)) {
            return Some(at);
        }
        before = Some(letter);
    }
    None
}

fn opens(letter: char) -> bool {
    MARKS.iter().any(|(open, _)| *open == letter)
}

/// Quotations that no citation holds word for word.
pub fn unsupported(text: &str, citations: &[Citation]) -> Vec<Unsupported> {
    let quotes: Vec<String> = citations.iter().filter_map(|citation| citation.quote.as_deref()).map(folded).collect();
    let holds = |words: &str| {
        let words = folded(words);
        quotes.iter().any(|quote| quote.contains(&words))
    };
    let alone = quotations(text).into_iter().filter(|quotation| !holds(quotation.words));
    // They come in order, so that characters are counted once and not from the beginning for each.
    let (mut at, mut before) = (0, 0);
    alone
        .map(|quotation| {
            let from = before + characters(&text[at..], quotation.from - at);
            let to = from + characters(quotation.words, quotation.words.len());
            (at, before) = (quotation.from, from);
            Unsupported { from, to, text: quotation.words.to_owned() }
        })
        .collect()
}

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
    fn quotations_are_found_in_prose_and_not_in_code() {
        let text = "He said “all is well here” and \"not at all so\".\n> a block is a quote\n`\"code is not prose\"`\n```\n\"nor is this one\"\n```\n«et ceci en est» \"it\" „auch das ist eines“ “no end\n";
        let found: Vec<_> = quotations(text).into_iter().map(|quotation| quotation.words).collect();
        assert_eq!(
            found,
            ["all is well here", "not at all so", "a block is a quote", "et ceci en est", "auch das ist eines"]
        );
        assert!(quotations(text).iter().all(|quotation| text[quotation.from..].starts_with(quotation.words)));
    }

    #[test]
    fn short_figures_other_marks_and_scripts_without_blanks_are_quotations_too() {
        let of = |text| quotations(text).into_iter().map(|quotation| quotation.words).collect::<Vec<_>>();
        assert_eq!(of("It \"never fails\" at “13,000” messages."), ["never fails", "13,000"]);
        assert_eq!(
            of("”svenska citat här” »umgekehrt geht auch« ‹en un mot›"),
            ["svenska citat här", "umgekehrt geht auch", "en un mot"]
        );
        assert_eq!(
            of("「これは出典のない引用文です」“这是一句捏造引文”"),
            ["これは出典のない引用文です", "这是一句捏造引文"]
        );
        assert_eq!(of("He said 'an invented quotation here' and it's the dogs' own."), ["an invented quotation here"]);
        assert_eq!(of("A \"term\" of students' and teachers' rights isn't one, nor 'a term'."), Vec::<&str>::new());
    }

    #[test]
    fn marks_without_an_end_are_looked_for_once_and_no_more_is_collected_than_is_shown() {
        assert_eq!(quotations(&"“Н".repeat(400_000)), []);
        assert_eq!(quotations(&format!("{} «b c d»", "„Н".repeat(400_000))).len(), 1);
        let many = "\"one two three\" ".repeat(QUOTATIONS_MAX + 1);
        assert_eq!(quotations(&many).len(), QUOTATIONS_MAX);
        let names = "\"name\" ".repeat(QUOTATIONS_MAX);
        assert_eq!(quotations(&format!("{names}\n> one two three")).len(), 1, "what is none takes no room");
    }

    #[test]
    fn places_of_many_quotations_are_counted_along_the_way() {
        let text = "é “ü b c” and “d é f”\n> g h ï\n";
        let found: Vec<_> = unsupported(text, &[]).into_iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(found, [(3, 8), (15, 20), (24, 29)]);
    }

    #[test]
    fn one_altered_word_is_enough_to_be_flagged() {
        let text = "É: “the tests were all green” and “the tests were not green”.";
        let citations = [citation("On Monday the tests were all green, they wrote.")];
        let flagged = unsupported(text, &citations);
        assert_eq!(flagged.len(), 1, "{flagged:?}");
        assert_eq!(flagged[0].text, "the tests were not green");
        let (from, to) = (byte(text, flagged[0].from), byte(text, flagged[0].to));
        assert_eq!(&text[from..to], "the tests were not green", "places are in characters");
        assert!(unsupported(text, &[]).len() == 2);
    }

    #[test]
    fn quotations_go_over_the_end_of_a_line() {
        let found = |text: &str| quotations(text).into_iter().map(|one| folded(one.words)).collect::<Vec<_>>();
        assert_eq!(found("He said “the moon\nis made of cheese” to us.\n"), ["the moon is made of cheese"]);
        assert_eq!(found("> the moon is\n> made of cheese\n\nso “he\n\nsaid it all”"), ["the moon is made of cheese"]);
        assert_eq!(found("* “one two\n* three four”\n"), [""; 0], "an item is a part of its own");
        assert_eq!(found("He said ‘it isn’t made of cheese’, didn’t he?"), ["it isn’t made of cheese"]);
        assert!(found("It isn’t the boys’ own moon, and ‘tis not cheese").is_empty());
        let soft = "so “the tests were\nall green” they say\n> the tests were all\n> green\n";
        assert_eq!(unsupported(soft, &[citation("the tests were all green")]), []);
        assert_eq!(unsupported(soft, &[citation("the tests\nwere not green")]).len(), 2);
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
