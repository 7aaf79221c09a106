//! Whether a Markdown text says anything to whoever looks at it. Marks without words, what nobody sees and what only a browser
//! would read leave a page blank, however many letters they are made of.

/// Letters by their class that leave no mark on a page.
const FILLERS: [char; 4] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];

/// Pictures that are letters.
const EMOJI: std::ops::RangeInclusive<char> = '\u{1f300}'..='\u{1faff}';

/// Characters of an entity such as `&nbsp;`, at most.
const ENTITY_CHARACTERS_MAX: usize = 32;

/// Whether somebody who looks at this text sees a word, a number or a picture.
pub fn is_blank(text: &str) -> bool {
    let text = without(text, "<!--", "-->");
    !text.lines().filter(|line| !is_mark(line)).any(says)
}

/// Whether a line is a mark only: where a block of code begins or ends, or where a link leads.
fn is_mark(line: &str) -> bool {
    let line = line.trim_start();
    let leads =
        || line.strip_prefix('[').and_then(|line| line.split_once("]:")).is_some_and(|(name, _)| !name.is_empty());
    line.starts_with("```") || line.starts_with("~~~") || leads()
}

fn says(line: &str) -> bool {
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let hidden = match letter {
            '<' => tag(rest),
            '&' => entity(rest),
            '!' if is_picture(rest) => return true,
            ']' => destination(rest),
            _ => None,
        };
        if hidden.is_none() && is_visible(letter) {
            return true;
        }
        rest = &rest[hidden.unwrap_or(letter.len_utf8())..];
    }
    false
}

fn is_visible(letter: char) -> bool {
    letter.is_alphanumeric() && !FILLERS.contains(&letter) || EMOJI.contains(&letter)
}

/// The length of a tag. An address between such marks is seen.
fn tag(text: &str) -> Option<usize> {
    let inside = &text[1..text.find('>')?];
    let begins = inside.trim_start_matches('/').starts_with(|letter: char| letter.is_ascii_alphabetic());
    (begins && !inside.split_whitespace().next().is_some_and(|name| name.contains(':'))).then_some(inside.len() + 2)
}

fn entity(text: &str) -> Option<usize> {
    let end = text.find(';').filter(|end| *end <= ENTITY_CHARACTERS_MAX)?;
    text[1..end].chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '#').then_some(end + 1)
}

fn is_picture(text: &str) -> bool {
    let path =
        text.strip_prefix("![").and_then(|text| text.split_once("](")).and_then(|(_, path)| path.split_once(')'));
    path.is_some_and(|(path, _)| path.chars().any(is_visible))
}

/// The length of where a link leads.
fn destination(text: &str) -> Option<usize> {
    text.starts_with("](").then(|| text.find(')')).flatten().map(|end| end + 1)
}

/// A text without what stands between these marks. One that is never closed hides nothing.
fn without(text: &str, open: &str, close: &str) -> String {
    let (mut seen, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, inside)) = rest.split_once(open) {
        let Some((_, after)) = inside.split_once(close) else { break };
        seen.push_str(before);
        rest = after;
    }
    seen + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_without_words_leave_a_page_blank() {
        let blank = [
            "",
            " \n\t",
            "\u{200b}\n\u{a0}",
            "# ",
            "---",
            "<!-- nothing to see -->",
            "```\n```",
            "```rust\n\n```\n",
            "~~~text\n~~~",
            "<!--\nover lines\n-->\n***",
            "> \n- \n* [ ]",
            "| | |\n|---|---|\n",
            "[](https://example.org/page)",
            "&nbsp;&#8203;",
            "<br/><p class=\"x\"></p>",
            "[note]: # (hidden)",
            "\u{3164}\u{ffa0}",
            "![]()",
            "“” … — .",
        ];
        for text in blank {
            assert!(is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn a_word_a_number_and_a_picture_are_seen() {
        let seen = [
            "# A",
            "7",
            "```\nlet x\n```",
            "```run sh x\n42\n```",
            "| a |\n|---|\n",
            "[words](https://example.org)",
            "é",
            "字",
            "<https://example.org>",
            "a < b",
            "![](desktop/x.png)",
            "<b>bold</b>",
            "AT&T",
            "<!-- never closed",
            "🪶",
            "1. ",
        ];
        for text in seen {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
