//! Reasoning that a server left in the text, between `<think>` and `</think>` at its very beginning.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Tells reasoning from text while the text arrives.
#[derive(Debug, Default)]
pub(super) struct Tags {
    place: Place,
    /// What may turn out to be a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Start,
    Inside,
    /// Right after the closing tag: blank lines there belong to nobody.
    Gap,
    After,
}

/// A piece that is known to be one or the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Reasoning(String),
    Text(String),
}

impl Tags {
    /// What is certain with this piece.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Said> {
        if self.place == Place::After {
            return vec![Said::Text(piece.to_owned())];
        }
        self.held.push_str(piece);
        let mut said = Vec::new();
        while self.advance(&mut said) {}
        said
    }

    /// What was held back when nothing follows.
    pub(super) fn finish(&mut self) -> Option<Said> {
        let held = std::mem::take(&mut self.held);
        match self.place {
            Place::Inside => Some(Said::Reasoning(held)),
            Place::Start | Place::Gap | Place::After => Some(Said::Text(held)),
        }
        .filter(|said| !matches!(said, Said::Reasoning(text) | Said::Text(text) if text.is_empty()))
    }

    /// One step; false when more must arrive first.
    fn advance(&mut self, said: &mut Vec<Said>) -> bool {
        match self.place {
            Place::Start => self.start(),
            Place::Inside => self.inside(said),
            Place::Gap => self.gap(),
            Place::After => {
                let text = std::mem::take(&mut self.held);
                if !text.is_empty() {
                    said.push(Said::Text(text));
                }
                false
            }
        }
    }

    fn start(&mut self) -> bool {
        let begun = self.held.trim_start();
        if let Some(rest) = begun.strip_prefix(OPEN) {
            self.held = rest.to_owned();
            self.place = Place::Inside;
        } else if OPEN.starts_with(begun) {
            return false;
        } else {
            self.place = Place::After;
        }
        true
    }

    fn inside(&mut self, said: &mut Vec<Said>) -> bool {
        let (end, closed) = match self.held.find(CLOSE) {
            Some(end) => (end, true),
            None => (self.held.len() - partial_close(&self.held), false),
        };
        if end > 0 {
            said.push(Said::Reasoning(self.held[..end].to_owned()));
        }
        self.held.drain(..if closed { end + CLOSE.len() } else { end });
        if closed {
            self.place = Place::Gap;
        }
        closed
    }

    fn gap(&mut self) -> bool {
        let text = self.held.trim_start();
        if text.is_empty() {
            self.held.clear();
            return false;
        }
        self.held = text.to_owned();
        self.place = Place::After;
        true
    }
}

/// How many bytes at the end may be the beginning of the closing tag.
fn partial_close(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|&length| text.ends_with(&CLOSE[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and text, fed in pieces of so many characters.
    fn split(text: &str, chars: usize) -> (String, String) {
        let mut tags = Tags::default();
        let mut all: Vec<Said> = crate::assembly::chunked(text, chars).flat_map(|piece| tags.push(piece)).collect();
        all.extend(tags.finish());
        let (mut reasoning, mut words) = (String::new(), String::new());
        for said in all {
            match said {
                Said::Reasoning(piece) => reasoning.push_str(&piece),
                Said::Text(piece) => words.push_str(&piece),
            }
        }
        (reasoning, words)
    }

    fn check(text: &str, reasoning: &str, words: &str) {
        for chars in 1..=text.chars().count().max(1) {
            assert_eq!(split(text, chars), (reasoning.to_owned(), words.to_owned()), "{text} by {chars}");
        }
    }

    #[test]
    fn reasoning_at_the_beginning_is_kept_apart() {
        check("<think>a < b</think>\n\nyes", "a < b", "yes");
        check("\n<think>über</think>ja", "über", "ja");
        check("<think></think>yes", "", "yes");
        check("<think>cut </thin", "cut </thin", "");
    }

    #[test]
    fn anything_else_is_text() {
        check("plain", "", "plain");
        check("  <thing>", "", "  <thing>");
        check("a <think>b</think>", "", "a <think>b</think>");
        check("<think>a</think>b <think>c</think>", "a", "b <think>c</think>");
        check("<thi", "", "<thi");
        check("", "", "");
    }
}
