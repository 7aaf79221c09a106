//! Rust text, line by line, with code and comments told apart and literals emptied.
//!
//! Not a parser: just enough that a word inside a string or a comment is never taken for code.

/// One line of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Code, with the content of literals removed.
    pub(super) code: String,
    /// Comment text.
    pub(super) comment: String,
}

/// Where the scanner stands between two characters.
enum Place {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(u32),
    Text,
    /// A raw string, closed by a quote and this many `#`.
    RawText(usize),
}

/// Splits a file into its lines.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut scanner = Scanner { rest: text, place: Place::Code, line: Line::default(), lines: Vec::new() };
    while let Some(character) = scanner.rest.chars().next() {
        scanner.step(character);
    }
    scanner.lines.push(scanner.line);
    scanner.lines
}

struct Scanner<'a> {
    rest: &'a str,
    place: Place,
    line: Line,
    lines: Vec<Line>,
}

impl Scanner<'_> {
    fn step(&mut self, character: char) {
        if character == '\n' {
            return self.newline();
        }
        match self.place {
            Place::Code => self.code(character),
            Place::LineComment => self.keep_comment(character),
            Place::BlockComment(depth) => self.block_comment(depth, character),
            Place::Text => self.text(character),
            Place::RawText(hashes) => self.raw_text(hashes, character),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn newline(&mut self) {
        self.advance(1);
        self.lines.push(std::mem::take(&mut self.line));
        if matches!(self.place, Place::LineComment) {
            self.place = Place::Code;
        }
    }

    fn code(&mut self, character: char) {
        if let Some(hashes) = raw_start(self.rest).filter(|_| !self.inside_word()) {
            let prefix = self.rest.find('"').unwrap_or(0) + 1;
            return self.enter(Place::RawText(hashes), prefix);
        }
        match character {
            '/' if self.rest.starts_with("//") => self.enter(Place::LineComment, 2),
            '/' if self.rest.starts_with("/*") => self.enter(Place::BlockComment(1), 2),
            '"' => self.enter(Place::Text, 1),
            '\'' => self.character_or_lifetime(),
            other => {
                self.line.code.push(other);
                self.advance(other.len_utf8());
            }
        }
    }

    /// Whether the scanner stands inside an identifier, where an `r` starts no raw string.
    fn inside_word(&self) -> bool {
        self.line.code.chars().last().is_some_and(|last| last.is_alphanumeric() || last == '_')
    }

    fn enter(&mut self, place: Place, bytes: usize) {
        self.place = place;
        self.advance(bytes);
    }

    /// `'a'` and `'\n'` are literals, `'a` alone is a lifetime.
    fn character_or_lifetime(&mut self) {
        let mut characters = self.rest.char_indices().skip(1);
        let first = characters.next().map(|(_, character)| character);
        let second = characters.next();
        match (first, second) {
            (Some('\\'), Some((after, escaped))) => {
                let rest = &self.rest[after + escaped.len_utf8()..];
                let end = rest.find('\'').map_or(0, |end| end + 1);
                self.advance(after + escaped.len_utf8() + end);
            }
            (Some(_), Some((after, '\''))) => self.advance(after + 1),
            _ => self.advance(1),
        }
        self.line.code.push('\'');
    }

    fn keep_comment(&mut self, character: char) {
        self.line.comment.push(character);
        self.advance(character.len_utf8());
    }

    fn block_comment(&mut self, depth: u32, character: char) {
        if self.rest.starts_with("/*") {
            self.enter(Place::BlockComment(depth + 1), 2);
        } else if self.rest.starts_with("*/") {
            self.enter(if depth == 1 { Place::Code } else { Place::BlockComment(depth - 1) }, 2);
        } else {
            self.keep_comment(character);
        }
    }

    fn text(&mut self, character: char) {
        match character {
            // A newline after the backslash is left for `newline`, which counts it.
            '\\' => {
                self.advance(1 + self.rest[1..].chars().next().filter(|next| *next != '\n').map_or(0, char::len_utf8))
            }
            '"' => self.close_literal(1),
            other => self.advance(other.len_utf8()),
        }
    }

    fn raw_text(&mut self, hashes: usize, character: char) {
        let closed = self.rest.strip_prefix('"').is_some_and(|after| after.starts_with(&"#".repeat(hashes)));
        if closed { self.close_literal(1 + hashes) } else { self.advance(character.len_utf8()) }
    }

    fn close_literal(&mut self, bytes: usize) {
        self.line.code.push_str("\"\"");
        self.enter(Place::Code, bytes);
    }
}

/// The number of `#` if a raw string starts here.
fn raw_start(rest: &str) -> Option<usize> {
    let after = ["br", "cr", "r"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let quote = after.trim_start_matches('#');
    quote.starts_with('"').then_some(after.len() - quote.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert_eq!(code("let a = \"unsafe\"; // unsafe"), ["let a = \"\"; "]);
        assert_eq!(code("a /* b /* c */ d */ e"), ["a  e"]);
        assert_eq!(code(r##"f(r#"say "unsafe""#, br"x")"##), ["f(\"\", \"\")"]);
        assert_eq!(code("let var\"x\""), ["let var\"\""]);
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_are_told_apart() {
        assert_eq!(code("x('\"', '\\'', 'a', b'\\\\') // c"), ["x(', ', ', b') "]);
        assert_eq!(code("fn f<'a>(x: &'a str) -> \"y\""), ["fn f<'a>(x: &'a str) -> \"\""]);
        assert_eq!(code("'\\u{7f}' + 1"), ["' + 1"]);
    }

    #[test]
    fn lines_are_counted_through_literals() {
        assert_eq!(code("a(\"one\\\n two\n\")\nb"), ["a(", "", "\"\")", "b"]);
        assert_eq!(lines("x // why\ny")[0].comment, " why");
    }
}
