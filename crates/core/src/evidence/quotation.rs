//! What a text quotes: words between marks, and lines that are quoted as a block.

/// A single quoted word is a name, a term or irony, not a quotation, unless it is a figure.
const QUOTATION_WORDS_MIN: usize = 2;

/// Words between marks that are apostrophes just as often.
const PLAIN_WORDS_MIN: usize = 3;

/// Letters that are a quotation in scripts that put no blanks between words.
const UNSPACED_LETTERS_MIN: usize = 5;

/// Quotations looked at in one text. Where there are more, that is said.
pub(super) const QUOTATIONS_MAX: usize = 20_000;

/// Bytes from the mark that begins a quotation to where its end is looked for beyond an empty line.
const OPEN_BYTES_MAX: usize = 16 * 1024;

/// Marks that begin a quotation, each with those that end it.
const MARKS: [(char, &[char]); 17] = [
    ('“', &['”']),
    ('"', &['"']),
    ('＂', &['＂']),
    ('«', &['»']),
    ('„', &['“', '”']),
    ('‘', &['’']),
    ('\'', &['\'']),
    ('”', &['”']),
    ('»', &['«']),
    ('‹', &['›']),
    ('›', &['‹']),
    ('‚', &['‘', '’']),
    ('「', &['」']),
    ('『', &['』']),
    ('❝', &['❞']),
    ('❛', &['❜']),
    ('〝', &['〞', '〟']),
];

/// Marks that look the same at both ends: what stands beside one says which end it is.
const STRAIGHT: [char; 2] = ['"', '＂'];

/// Marks that can only begin a quotation: one that does not end before an empty line ends beyond it.
const BEGINNING: [char; 9] = ['“', '"', '＂', '«', '„', '「', '『', '❝', '〝'];

/// Something that a text puts between quotation marks, or quotes as a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotation<'a> {
    /// First byte of the words.
    pub from: usize,
    /// The words, without the marks.
    pub words: &'a str,
}

/// Everything that a Markdown text quotes, up to one more than are looked at. Code is not prose and quotes nothing. Prose goes
/// on from line to line until a line is empty; a quotation that was begun by then goes on until it ends.
pub fn quotations(text: &str) -> Vec<Quotation<'_>> {
    let mut found = Found { text, quotations: Vec::new(), begun: None };
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
    found.quotations
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
pub(super) fn folded(words: &str) -> String {
    let lines = words.lines().map(|line| line.trim_start().strip_prefix('>').unwrap_or(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// What counts as a quotation so far, in order.
struct Found<'a> {
    text: &'a str,
    quotations: Vec<Quotation<'a>>,
    /// One that has begun and did not end in its part.
    begun: Option<Begun>,
}

/// A quotation whose end was not found yet.
#[derive(Debug, Clone, Copy)]
struct Begun {
    open: char,
    /// First byte of its words.
    from: usize,
    /// After the last byte of the part that it began in.
    part_ends: usize,
}

impl<'a> Found<'a> {
    /// Adds what one part of a text quotes.
    fn part(&mut self, from: usize, part: &'a str, sort: Sort) {
        if let Some(block) = part.trim_start().strip_prefix('>').filter(|_| sort == Sort::Block) {
            self.begun = None;
            return self.add(from + part.len() - block.len(), block, QUOTATION_WORDS_MIN);
        }
        // An item is a part of its own.
        let begun = self.begun.take().filter(|_| sort == Sort::Prose);
        let passed = begun.map_or(0, |begun| self.resume(begun, from, part));
        let rest = marked(from + passed, &part[passed..], self);
        self.begun = self.begun.or(rest);
    }

    /// Ends a quotation that was begun before an empty line, if it ends here, and says how much of this part belongs to it.
    fn resume(&mut self, begun: Begun, from: usize, part: &'a str) -> usize {
        // Those who quote several paragraphs begin each of them with a mark, and end the last.
        if part.trim_start().starts_with(begun.open) {
            self.add(begun.from, &self.text[begun.from..begun.part_ends], QUOTATION_WORDS_MIN);
            return 0;
        }
        if from - begun.from > OPEN_BYTES_MAX {
            return 0;
        }
        let Some(end) = ending(part, closers(begun.open)) else {
            self.begun = Some(begun).filter(|begun| !part.contains(begun.open));
            return 0;
        };
        let close = part[end..].chars().next().map_or(0, char::len_utf8);
        let is_straight = STRAIGHT.contains(&begun.open);
        let is_end = if is_straight { closes(part, end, close) } else { !part[..end].contains(begun.open) };
        if !is_end {
            return 0;
        }
        self.add(begun.from, &self.text[begun.from..from + end], QUOTATION_WORDS_MIN);
        end + close
    }

    /// Adds these words, unless they are too few or there is no room.
    fn add(&mut self, from: usize, words: &'a str, words_min: usize) {
        let start = words.len() - words.trim_start().len();
        // The mark behind it was escaped.
        let words = words.strip_suffix('\\').unwrap_or(words).trim();
        if self.quotations.len() <= QUOTATIONS_MAX && says_something(words, words_min) {
            self.quotations.push(Quotation { from: from + start, words });
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
pub(super) const fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

/// Quotations between marks within one part of a text. What begins one that does not end here is given back.
fn marked<'a>(at: usize, part: &'a str, found: &mut Found<'a>) -> Option<Begun> {
    let (mut from, mut begun) = (0, None);
    // Where one that ends a quotation was looked for in vain, none follows: looking again for each that begins one would
    // take hours in a long line.
    let (mut missing, mut runs): (Vec<char>, Vec<usize>) = (Vec::new(), Vec::new());
    while let Some((place, open)) = part[from..].char_indices().find(|(_, letter)| *letter == '`' || opens(*letter)) {
        let place = from + place;
        if open == '`' {
            from = passed(at, part, place, &mut runs, found);
            continue;
        }
        let inside = place + open.len_utf8();
        from = inside;
        if !begins(part, place, open) || missing.contains(&open) {
            continue;
        }
        let Some(end) = ending(&part[inside..], closers(open)).map(|end| inside + end) else {
            missing.push(open);
            if begun.is_none() && BEGINNING.contains(&open) {
                begun = Some(Begun { open, from: at + inside, part_ends: at + part.len() });
            }
            continue;
        };
        let close = part[end..].chars().next().map_or(0, char::len_utf8);
        if STRAIGHT.contains(&open) && !closes(part, end, close) {
            continue;
        }
        let words_min = if matches!(open, '\'' | '❛') { PLAIN_WORDS_MIN } else { QUOTATION_WORDS_MIN };
        found.add(at + inside, &part[inside..end], words_min);
        // Where a letter follows, the same mark may begin another one.
        let is_both = STRAIGHT.contains(&open) && part[end + close..].starts_with(char::is_alphanumeric);
        from = if is_both { end } else { end + close };
    }
    begun
}

/// Where the text goes on behind backticks: behind the code between them, behind words that typesetters quote with them, or
/// behind the marks alone.
fn passed<'a>(at: usize, part: &'a str, place: usize, missing: &mut Vec<usize>, found: &mut Found<'a>) -> usize {
    let escapes = part[..place].chars().rev().take_while(|letter| *letter == '\\').count();
    if escapes % 2 == 1 {
        return place + 1;
    }
    let length = backticks(&part[place..]);
    let inside = place + length;
    if let Some(words) = typeset(&part[inside..]).filter(|_| length == 2) {
        found.add(at + inside, words, QUOTATION_WORDS_MIN);
        return inside + words.len() + TYPESET.len();
    }
    if missing.contains(&length) {
        return inside;
    }
    let mut from = inside;
    while let Some(next) = part[from..].find('`').map(|next| from + next) {
        let run = backticks(&part[next..]);
        from = next + run;
        if run == length {
            return from;
        }
    }
    missing.push(length);
    inside
}

fn backticks(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

/// What ends words that two backticks began.
const TYPESET: &str = "''";

/// The words at the beginning of a text that end like this, and not as code does.
fn typeset(text: &str) -> Option<&str> {
    let words = text[..text.find("``").unwrap_or(text.len())].split_once(TYPESET)?.0;
    let ends = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ',' | ';' | ':' | '!' | '?');
    (words.starts_with(char::is_alphanumeric) && words.ends_with(ends)).then_some(words)
}

/// Whether a mark can begin a quotation where it stands.
fn begins(part: &str, place: usize, open: char) -> bool {
    let (before, after) = (part[..place].chars().next_back(), part[place + open.len_utf8()..].chars().next());
    match open {
        // Between letters it is an apostrophe.
        '\'' => before.is_none_or(|letter| !letter.is_alphanumeric()) && after.is_some_and(char::is_alphanumeric),
        // Behind a word and before a blank it is an end, or inches.
        _ if STRAIGHT.contains(&open) => !is_room(after) || is_room(before),
        _ => true,
    }
}

/// Whether a straight mark can end a quotation where it stands.
fn closes(part: &str, place: usize, length: usize) -> bool {
    !is_room(part[..place].chars().next_back()) || is_room(part[place + length..].chars().next())
}

fn is_room(letter: Option<char>) -> bool {
    letter.is_none_or(char::is_whitespace)
}

/// Where a quotation ends. Between letters the same sign is an apostrophe.
fn ending(text: &str, closers: &[char]) -> Option<usize> {
    let mut before = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let within = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let after = letters.peek().map(|(_, letter)| *letter);
        if closers.contains(&letter) && !(matches!(letter, '’' | '\'') && within(before) && within(after)) {
            return Some(at);
        }
        before = Some(letter);
    }
    None
}

fn opens(letter: char) -> bool {
    MARKS.iter().any(|(open, _)| *open == letter)
}

fn closers(open: char) -> &'static [char] {
    MARKS.iter().find(|(mark, _)| *mark == open).map_or(&[], |(_, closers)| closers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        quotations(text).into_iter().map(|one| folded(one.words)).collect()
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
        let many = "\"one two three\" ".repeat(QUOTATIONS_MAX + 2);
        assert_eq!(quotations(&many).len(), QUOTATIONS_MAX + 1, "one more shows that there are more");
        let names = "\"name\" ".repeat(QUOTATIONS_MAX);
        assert_eq!(quotations(&format!("{names}\n> one two three")).len(), 1, "what is none takes no room");
    }

    #[test]
    fn quotations_go_over_the_end_of_a_line() {
        assert_eq!(of("He said “the moon\nis made of cheese” to us.\n"), ["the moon is made of cheese"]);
        assert_eq!(of("> the moon is\n> made of cheese\n"), ["the moon is made of cheese"]);
        assert_eq!(of("* “one two\n* three four”\n"), [""; 0], "an item is a part of its own");
        assert_eq!(of("He said ‘it isn’t made of cheese’, didn’t he?"), ["it isn’t made of cheese"]);
        assert!(of("It isn’t the boys’ own moon, and ‘tis not cheese").is_empty());
    }

    #[test]
    fn quotations_go_over_an_empty_line() {
        for (open, close) in [("“", "”"), ("\"", "\""), ("«", "»"), ("„", "“"), ("❝", "❞")] {
            let text = format!("so {open}he\n\nsaid it all{close} and {open}went away{close}");
            assert_eq!(of(&text), ["he said it all", "went away"], "{text}");
        }
        assert_eq!(of("“One two three.\n\n“Four five six.”\n"), ["One two three.", "Four five six."]);
        assert_eq!(of("“he\n\n```\ncode\n```\n\nand\n\nsaid it all”"), ["he ``` code ``` and said it all"]);
        assert!(of("a 3\" disk\n\nand a 5\" one, with 4\" more").is_empty(), "inches");
        assert_eq!(of("“never ended\n\nso “this is one” here"), ["this is one"]);
    }

    #[test]
    fn a_mark_before_a_blank_ends_nothing_that_did_not_begin() {
        let all = ["nobody ever counted anything"];
        for text in [
            "3\" \"nobody ever counted anything\" disk",
            "3 \" \"nobody ever counted anything\" disk",
            "a 3\" x \"nobody ever counted anything\".",
            "3\" \" nobody ever counted anything \" disk",
            "\"\" \"nobody ever counted anything\"",
            "\"x\"nobody ever counted anything\"",
            "(\"nobody ever counted anything\"), \"term\"",
            "\\`\"nobody ever counted anything\"\\`",
            "`x`` \"nobody ever counted anything\" y",
            "❝nobody ever counted anything❞",
            "＂nobody ever counted anything＂",
            "``nobody ever counted anything''",
            "``nobody ever counted anything'' and ``so''",
            "„nobody ever counted anything”",
            "〝nobody ever counted anything〞",
            "''nobody ever counted anything''",
            "\\\"nobody ever counted anything\\\"",
        ] {
            assert_eq!(of(text), all, "{text}");
        }
        assert_eq!(of("\"a b\", and so (\"c d\")"), ["a b", "c d"]);
        assert_eq!(of("``let x = ''`` and `a \"b c\" d` ``one ` \"two three\"``"), [""; 0], "code is not prose");
    }
}
