//! The little Markdown that cards and previews show. Text becomes a tree of known blocks and nothing else: there is no
//! way from here to HTML, scripts or remote loads.

/// Text beyond this many lines is shown as it is: nobody reads it in a preview.
const LINES_MAX: usize = 5_000;

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading, from 1 to 6.
    Heading(u8, Vec<Inline>),
    /// Running text.
    Paragraph(Vec<Inline>),
    /// A point of a list; its number where it has one.
    Point(Option<u32>, Vec<Inline>),
    /// Somebody else's words.
    Quote(Vec<Inline>),
    /// Text as it was typed.
    Code(String),
    /// A line across.
    Rule,
}

/// A stretch of text within a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inline {
    /// Plain.
    Text(String),
    /// `**strong**`.
    Strong(String),
    /// `*emphasis*`.
    Emphasis(String),
    /// `` `code` ``.
    Code(String),
    /// `[text](https://…)`; any other scheme stays plain text.
    Link(String, String),
}

/// Reads Markdown.
pub fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut paragraph = String::new();
    let mut lines = text.lines().take(LINES_MAX);
    while let Some(line) = lines.next() {
        if let Some(fence) = fence(line) {
            flush(&mut paragraph, &mut blocks);
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.trim_start().starts_with(fence)).collect();
            blocks.push(Block::Code(code.join("\n")));
            continue;
        }
        match single(line) {
            Some(block) => {
                flush(&mut paragraph, &mut blocks);
                blocks.push(block);
            }
            None if line.trim().is_empty() => flush(&mut paragraph, &mut blocks),
            None => {
                if !paragraph.is_empty() {
                    paragraph.push(' ');
                }
                paragraph.push_str(line.trim());
            }
        }
    }
    flush(&mut paragraph, &mut blocks);
    blocks
}

fn flush(paragraph: &mut String, blocks: &mut Vec<Block>) {
    if !paragraph.is_empty() {
        blocks.push(Block::Paragraph(inline(paragraph)));
        paragraph.clear();
    }
}

fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| line.trim_start().starts_with(fence))
}

/// A block that is one line.
fn single(line: &str) -> Option<Block> {
    let text = line.trim();
    if matches!(text, "---" | "***" | "___") {
        return Some(Block::Rule);
    }
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&level) && text[level..].starts_with(' ') {
        return Some(Block::Heading(level as u8, inline(text[level..].trim())));
    }
    if let Some(quoted) = text.strip_prefix('>') {
        return Some(Block::Quote(inline(quoted.trim())));
    }
    point(text)
}

fn point(text: &str) -> Option<Block> {
    if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|bullet| text.strip_prefix(bullet)) {
        return Some(Block::Point(None, inline(rest)));
    }
    let (number, rest) = text.split_once(". ")?;
    number.parse().ok().map(|number| Block::Point(Some(number), inline(rest)))
}

/// Reads one line's inner marks, the nearest first.
fn inline(text: &str) -> Vec<Inline> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, part, after)) = next_mark(rest) {
        if !before.is_empty() {
            parts.push(Inline::Text(before.to_owned()));
        }
        parts.push(part);
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Inline::Text(rest.to_owned()));
    }
    parts
}

fn next_mark(text: &str) -> Option<(&str, Inline, &str)> {
    text.char_indices().find_map(|(at, _)| {
        let (part, after) = mark(&text[at..])?;
        Some((&text[..at], part, after))
    })
}

fn mark(text: &str) -> Option<(Inline, &str)> {
    if let Some((inner, after)) = between(text, "`") {
        return Some((Inline::Code(inner.to_owned()), after));
    }
    if let Some((inner, after)) = between(text, "**") {
        return Some((Inline::Strong(inner.to_owned()), after));
    }
    if let Some((inner, after)) = between(text, "*").filter(|(inner, _)| !inner.starts_with([' ', '*'])) {
        return Some((Inline::Emphasis(inner.to_owned()), after));
    }
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (address, after) = rest.split_once(')')?;
    let plain = !label.contains('[') && (address.starts_with("https://") || address.starts_with("http://"));
    plain.then(|| (Inline::Link(label.to_owned(), address.to_owned()), after))
}

fn between<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(mark)?.split_once(mark).filter(|(inner, _)| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &str) -> Inline {
        Inline::Text(words.to_owned())
    }

    #[test]
    fn blocks_are_told_apart() {
        let blocks = parse("# Title\n\nOne line\ngoes on.\n- point\n2. two\n> said\n---\n```rust\nlet a = *b*;\n```");
        assert_eq!(
            blocks,
            [
                Block::Heading(1, vec![text("Title")]),
                Block::Paragraph(vec![text("One line goes on.")]),
                Block::Point(None, vec![text("point")]),
                Block::Point(Some(2), vec![text("two")]),
                Block::Quote(vec![text("said")]),
                Block::Rule,
                Block::Code("let a = *b*;".to_owned()),
            ]
        );
    }

    #[test]
    fn inner_marks_are_read_and_odd_ones_stay_text() {
        let strong = Inline::Strong("b".to_owned());
        assert_eq!(inline("a **b** `c`"), [text("a "), strong, text(" "), Inline::Code("c".to_owned())]);
        assert_eq!(inline("2 * 3 ** 4"), [text("2 * 3 ** 4")]);
        assert_eq!(inline("**open"), [text("**open")]);
    }

    #[test]
    fn only_web_addresses_become_links() {
        let link = Inline::Link("x".to_owned(), "https://example.org/".to_owned());
        assert_eq!(inline("[x](https://example.org/)"), [link]);
        assert_eq!(inline("[x](javascript:alert(1))"), [text("[x](javascript:alert(1))")]);
        assert_eq!(
            parse("<img src=x onerror=alert(1)>"),
            [Block::Paragraph(vec![text("<img src=x onerror=alert(1)>")])]
        );
    }
}
