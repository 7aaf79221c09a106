//! The little Markdown that cards and previews show. Text becomes a tree of known blocks and nothing else: there is no
//! way from here to HTML, scripts or remote loads.

/// Text beyond this many lines is left out where it is only previewed: nobody reads so far there.
const LINES_MAX: usize = 5_000;
/// A longer stretch is shown with its marks: each is looked for in all of what follows it.
const STRETCH_BYTES_MAX: usize = 20_000;
/// A longer address is no link: browsers refuse many that are shorter.
const ADDRESS_BYTES_MAX: usize = 4_096;

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
    /// Rows of cells; the first is the head.
    Table(Vec<Vec<Vec<Inline>>>),
    /// A picture of the workspace: its words and its path. Only a text that is read to its end has them.
    Picture(String, String),
    /// A line across.
    Rule,
}

/// A stretch of text within a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inline {
    /// Plain.
    Text(String),
    /// `**strong**` or `__strong__`.
    Strong(Vec<Inline>),
    /// `*emphasis*` or `_emphasis_`.
    Emphasis(Vec<Inline>),
    /// `` `code` ``.
    Code(String),
    /// `[text](https://…)`; any other scheme stays plain text.
    Link(Vec<Inline>, String),
}

/// Reads the beginning of a Markdown text, as much as is shown of it, and says where that is not all.
pub fn parse(text: &str) -> Vec<Block> {
    let mut blocks = read(text.lines().take(LINES_MAX));
    if text.lines().nth(LINES_MAX).is_some() {
        let more = format!("Only the first {LINES_MAX} lines are shown here.");
        blocks.push(Block::Paragraph(vec![Inline::Emphasis(vec![Inline::Text(more)])]));
    }
    blocks
}

/// Reads Markdown to its end, with its pictures.
pub fn parse_whole(text: &str) -> Vec<Block> {
    read(text.lines()).into_iter().flat_map(with_pictures).collect()
}

/// A paragraph, cut where it shows pictures.
fn with_pictures(block: Block) -> Vec<Block> {
    let Block::Paragraph(parts) = block else { return vec![block] };
    let (mut blocks, mut around) = (Vec::new(), Vec::new());
    for part in parts {
        let Inline::Text(text) = part else {
            around.push(part);
            continue;
        };
        let mut rest = text.as_str();
        while let Some((before, words, path, after)) = picture(rest) {
            around.extend(spoken(before));
            blocks.extend(paragraph(&mut around));
            blocks.push(Block::Picture(words.to_owned(), path.to_owned()));
            rest = after;
        }
        around.extend(spoken(rest));
    }
    blocks.extend(paragraph(&mut around));
    blocks
}

fn spoken(text: &str) -> Option<Inline> {
    (!text.is_empty()).then(|| Inline::Text(text.to_owned()))
}

/// What was gathered for a paragraph, if that is more than room between pictures.
fn paragraph(parts: &mut Vec<Inline>) -> Option<Block> {
    let parts = std::mem::take(parts);
    let is_room = |part: &Inline| matches!(part, Inline::Text(text) if text.trim().is_empty());
    (!parts.iter().all(is_room)).then_some(Block::Paragraph(parts))
}

/// The next `![words](path)` of a text, and what stands around it. A picture is a file of the workspace: what is named by an
/// address is never loaded.
fn picture(text: &str) -> Option<(&str, &str, &str, &str)> {
    text.match_indices("![").find_map(|(at, _)| {
        let (words, rest) = text[at + 2..].split_once("](")?;
        let (path, after) = rest.split_once(')')?;
        let path = path.trim_start_matches("./").trim_start_matches('/');
        let is_one = !words.contains(']') && !path.contains(':') && is_picture(path);
        is_one.then_some((&text[..at], words, path, after))
    })
}

/// Whether a browser can draw it, by its name.
fn is_picture(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["png", "jpg", "jpeg", "gif", "webp"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn read<'a>(mut lines: impl Iterator<Item = &'a str> + Clone) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut paragraph = String::new();
    while let Some(line) = lines.next() {
        if let Some(fence) = fence(line) {
            flush(&mut paragraph, &mut blocks);
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.trim_start().starts_with(fence)).collect();
            blocks.push(Block::Code(code.join("\n")));
            continue;
        }
        if let Some(table) = table(line, &mut lines) {
            flush(&mut paragraph, &mut blocks);
            blocks.push(table);
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

/// A line of bars above a line of bars and dashes, and all lines of bars below.
fn table<'a>(head: &str, lines: &mut (impl Iterator<Item = &'a str> + Clone)) -> Option<Block> {
    let is_row = |line: &str| line.trim_start().starts_with('|');
    let is_rule =
        |line: &&str| is_row(line) && line.contains('-') && line.trim().chars().all(|one| "|-: ".contains(one));
    if !is_row(head) || lines.clone().next().filter(is_rule).is_none() {
        return None;
    }
    lines.next();
    let mut rows = vec![cells(head)];
    while let Some(line) = lines.clone().next().filter(|line| is_row(line)) {
        rows.push(cells(line));
        lines.next();
    }
    Some(Block::Table(rows))
}

/// What stands between the bars; an escaped bar is a letter.
fn cells(line: &str) -> Vec<Vec<Inline>> {
    let line = line.trim().replace("\\|", "\u{0}");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').map(|cell| inline(cell.trim().replace('\0', "|").as_str())).collect()
}

/// The beginning of a text as one line with its inner marks, links as their words, cut at a word's end.
pub fn brief(text: &str, characters_max: usize) -> Vec<Inline> {
    let first = parse(text).into_iter().find(|block| *block != Block::Rule);
    let parts = match first {
        Some(Block::Heading(_, parts) | Block::Paragraph(parts) | Block::Point(_, parts) | Block::Quote(parts)) => {
            parts
        }
        Some(Block::Code(code)) => vec![Inline::Code(code.lines().next().unwrap_or_default().to_owned())],
        Some(Block::Table(rows)) => rows.into_iter().flatten().next().unwrap_or_default(),
        Some(Block::Rule | Block::Picture(..)) | None => Vec::new(),
    };
    let mut left = characters_max;
    let mut cut = shortened(parts, &mut left);
    if left == 0 {
        cut.push(Inline::Text("…".to_owned()));
    }
    cut
}

/// As much of it as there is room for; `left` is what room remains, nothing where something was cut off.
fn shortened(parts: Vec<Inline>, left: &mut usize) -> Vec<Inline> {
    let mut kept = Vec::new();
    for part in parts {
        if *left == 0 {
            break;
        }
        match part {
            Inline::Text(text) => kept.push(Inline::Text(fitting(text, left))),
            Inline::Code(text) => kept.push(Inline::Code(fitting(text, left))),
            Inline::Strong(parts) => kept.push(Inline::Strong(shortened(parts, left))),
            Inline::Emphasis(parts) => kept.push(Inline::Emphasis(shortened(parts, left))),
            Inline::Link(parts, _) => kept.extend(shortened(parts, left)),
        }
    }
    kept
}

fn fitting(text: String, left: &mut usize) -> String {
    let length = text.chars().count();
    if length < *left {
        *left -= length;
        return text;
    }
    let cut: String = text.chars().take(*left).collect();
    *left = 0;
    let end = cut.rfind(' ').unwrap_or(cut.len());
    cut[..end].trim_end_matches([' ', ',', '.', ';', ':']).to_owned()
}

/// Reads one line's inner marks, the nearest first.
pub fn inline(text: &str) -> Vec<Inline> {
    if text.len() > STRETCH_BYTES_MAX {
        return vec![Inline::Text(text.to_owned())];
    }
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
    let mut before = None;
    text.char_indices().find_map(|(at, letter)| {
        let in_word = before.replace(letter).is_some_and(of_a_name);
        let (part, after) = mark(&text[at..], in_word)?;
        Some((&text[..at], part, after))
    })
}

fn mark(text: &str, in_word: bool) -> Option<(Inline, &str)> {
    if let Some((inner, after)) = between(text, "`") {
        return Some((Inline::Code(inner.to_owned()), after));
    }
    if let Some((inner, after)) = between(text, "**").or_else(|| around_words(text, "__", in_word)) {
        return Some((Inline::Strong(inline(inner)), after));
    }
    let emphasis = between(text, "*").or_else(|| around_words(text, "_", in_word));
    if let Some((inner, after)) = emphasis.filter(|(inner, _)| !inner.starts_with([' ', '*', '_'])) {
        return Some((Inline::Emphasis(inline(inner)), after));
    }
    link(text.strip_prefix('[')?)
}

/// What follows a bracket, if that makes a link. It is looked for up to the next bracket, and an address up to its longest:
/// to the end of the text it would be looked for again from every bracket.
fn link(text: &str) -> Option<(Inline, &str)> {
    let label = &text[..text.find('[').unwrap_or(text.len())];
    let label = &label[..label.find("](")?];
    let rest = &text[label.len() + 2..];
    if !rest.starts_with("https://") && !rest.starts_with("http://") {
        return None;
    }
    let address = &rest[..rest[..rest.floor_char_boundary(ADDRESS_BYTES_MAX)].find(')')?];
    Some((Inline::Link(inline(label), address.to_owned()), &rest[address.len() + 1..]))
}

/// A mark of underscores is one only around whole words: names are full of them.
fn around_words<'a>(text: &'a str, mark: &str, in_word: bool) -> Option<(&'a str, &'a str)> {
    let found = between(text, mark).filter(|_| !in_word)?;
    (!found.1.starts_with(of_a_name)).then_some(found)
}

fn of_a_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
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
    fn pictures_of_the_workspace_stand_apart_in_a_whole_text() {
        let picture = |words: &str, path: &str| Block::Picture(words.to_owned(), path.to_owned());
        assert_eq!(
            parse_whole("Before ![A pear](uploads/a_pear.PNG) after\n\n![](./b.webp)![c](/c.gif)"),
            [
                Block::Paragraph(vec![text("Before ")]),
                picture("A pear", "uploads/a_pear.PNG"),
                Block::Paragraph(vec![text(" after")]),
                picture("", "b.webp"),
                picture("c", "c.gif"),
            ]
        );
        for other in
            ["![x](https://example.org/x.png)", "![x](data:image/png;base64,x.png)", "![x](x.svg)", "![x](x.png"]
        {
            assert!(matches!(parse_whole(other).as_slice(), [Block::Paragraph(_)]), "{other}");
        }
        assert!(matches!(parse("![x](x.png)").as_slice(), [Block::Paragraph(_)]), "a card loads nothing");
    }

    #[test]
    fn inner_marks_are_read_and_odd_ones_stay_text() {
        let strong = Inline::Strong(vec![text("b")]);
        assert_eq!(inline("a **b** `c`"), [text("a "), strong, text(" "), Inline::Code("c".to_owned())]);
        assert_eq!(inline("2 * 3 ** 4"), [text("2 * 3 ** 4")]);
        assert_eq!(inline("**open"), [text("**open")]);
        let code = || Inline::Code("f()".to_owned());
        assert_eq!(inline("**`f()`**"), [Inline::Strong(vec![code()])]);
        assert_eq!(
            inline("_b_ __b__"),
            [Inline::Emphasis(vec![text("b")]), text(" "), Inline::Strong(vec![text("b")])]
        );
        assert_eq!(inline("a_b_c and __init__py"), [text("a_b_c and __init__py")]);
    }

    #[test]
    fn tables_are_read_and_lines_with_bars_alone_are_none() {
        let cell = |words: &str| vec![text(words)];
        assert_eq!(
            parse("| a | b \\| c |\n|---|--:|\n| 1 | 2 |\nafter"),
            [
                Block::Table(vec![vec![cell("a"), cell("b | c")], vec![cell("1"), cell("2")]]),
                Block::Paragraph(vec![text("after")]),
            ]
        );
        assert_eq!(parse("| a |"), [Block::Paragraph(vec![text("| a |")])]);
    }

    #[test]
    fn a_beginning_is_cut_where_people_read_and_not_where_marks_stand() {
        assert_eq!(brief("## The `cut`\n\nMore", 20), [text("The "), Inline::Code("cut".to_owned())]);
        let long = brief("The **strong and long word** goes on", 12);
        assert_eq!(long, [text("The "), Inline::Strong(vec![text("strong")]), text("…")]);
        assert_eq!(brief("[x](https://example.org/) y", 9), [text("x"), text(" y")]);
        assert_eq!(brief("", 5), []);
    }

    #[test]
    fn a_preview_says_that_there_is_more() {
        let lines = |count: usize| "word\n\n".repeat(count / 2);
        let more = "Only the first 5000 lines are shown here.";
        let last = vec![Inline::Emphasis(vec![Inline::Text(more.to_owned())])];
        assert_eq!(parse(&lines(LINES_MAX)).last(), Some(&Block::Paragraph(vec![Inline::Text("word".to_owned())])));
        assert_eq!(parse(&lines(LINES_MAX + 2)).last(), Some(&Block::Paragraph(last)));
    }

    #[test]
    fn a_very_long_stretch_is_read_at_once() {
        let hostile = "[".repeat(1_000_000);
        assert_eq!(inline(&hostile), [text(&hostile)]);
    }

    #[test]
    fn brackets_that_make_no_link_are_read_at_once() {
        for hostile in ["[".repeat(19_999), "[](http://".repeat(1_999), "[é](".repeat(3_999)] {
            for _ in 0..40 {
                assert_eq!(inline(&hostile), [text(&hostile)]);
            }
        }
    }

    #[test]
    fn brackets_around_a_link_stay_text() {
        let link = |words: &str, to: &str| Inline::Link(vec![text(words)], to.to_owned());
        assert_eq!(inline("[a [b](https://x.org/[c])"), [text("[a "), link("b", "https://x.org/[c]")]);
        assert_eq!(inline("[a] b](http://x.org)."), [link("a] b", "http://x.org"), text(".")]);
        let long = format!("[a](https://{})", "é".repeat(3_000));
        assert_eq!(inline(&long), [text(&long)]);
    }

    #[test]
    fn only_web_addresses_become_links() {
        let link = Inline::Link(vec![text("x")], "https://example.org/".to_owned());
        assert_eq!(inline("[x](https://example.org/)"), [link]);
        assert_eq!(inline("[x](javascript:alert(1))"), [text("[x](javascript:alert(1))")]);
        assert_eq!(
            parse("<img src=x onerror=alert(1)>"),
            [Block::Paragraph(vec![text("<img src=x onerror=alert(1)>")])]
        );
    }
}
