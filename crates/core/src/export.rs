//! A document to take away: as one HTML file that needs nothing else, with the sources under its quotations, or as Markdown.
//! Both say which quotations and figures nothing stands behind.

use crate::figure::blocks;
use crate::markdown::{Block, Inline, parse_whole};
use choir_proto::document::{Citation, Figure, FigureStatus, Unsupported};
use std::fmt::Write;

/// A source as far as it is shown.
pub struct Source {
    /// The evidence: everything that is cited from it.
    pub citations: Vec<Citation>,
    /// Where it came from, for people.
    pub origin: String,
    /// Its text, if it is text.
    pub text: Option<String>,
}

/// What of a text a reader must not take for proven.
#[derive(Debug, Default)]
pub struct Doubts {
    quotes: Vec<Unsupported>,
    figures: Vec<Doubtful>,
}

/// A figure that may not show what is so.
#[derive(Debug)]
struct Doubtful {
    command: String,
    body: String,
    why: String,
}

impl Doubts {
    /// Of a text whose quotations and figures were looked up; the figures are those of its blocks, in order.
    pub fn new(content: &str, unsupported: &[Unsupported], figures: &[Figure]) -> Self {
        let doubtful = blocks(content).into_iter().zip(figures).filter_map(|(block, figure)| {
            let (command, body) = (block.command.to_owned(), block.body.to_owned());
            doubt(figure).map(|why| Doubtful { command, body, why })
        });
        Self { quotes: unsupported.to_vec(), figures: doubtful.collect() }
    }

    fn is_empty(&self) -> bool {
        self.quotes.is_empty() && self.figures.is_empty()
    }
}

/// Why a figure may not show what is so.
fn doubt(figure: &Figure) -> Option<String> {
    let status = match figure.status {
        FigureStatus::Fresh => return None,
        FigureStatus::Stale => "stale",
        FigureStatus::Running => "being made again",
        FigureStatus::Failed => "failed",
        FigureStatus::Unknown => "unknown",
    };
    Some(figure.because.as_ref().map_or_else(|| status.to_owned(), |because| format!("{status}: {because}")))
}

/// What stands beside a quotation that is in no source.
const NO_SOURCE: &str = "no source";

/// The heading over everything that nothing stands behind.
const NOT_SUPPORTED: &str = "Not supported";

/// The text as it is, and after it what nothing stands behind.
pub fn markdown(content: &str, sources: &[Source], doubts: &Doubts) -> String {
    if doubts.is_empty() && sources.is_empty() {
        return content.to_owned();
    }
    let mut out = format!("{}\n", content.trim_end());
    // Writing to a string cannot fail.
    if !doubts.is_empty() {
        writeln!(out, "\n## {NOT_SUPPORTED}\n").unwrap_or_default();
    }
    doubts.quotes.iter().for_each(|quote| writeln!(out, "* “{}”: {NO_SOURCE}", quote.text).unwrap_or_default());
    let lines = doubts.figures.iter();
    lines.for_each(|figure| writeln!(out, "* `{}`: {}", figure.command, figure.why).unwrap_or_default());
    if !sources.is_empty() {
        out.push_str("\n## Sources\n\n");
    }
    for (number, source) in (1..).zip(sources) {
        writeln!(out, "{number}. {}: {}", one_line(&source.origin), quoted(source)).unwrap_or_default();
    }
    out
}

/// What is cited from a source, each time with where it stands there.
fn quoted(source: &Source) -> String {
    let quotes = source.citations.iter().map(|citation| {
        let Citation { quote, from, to, source, .. } = citation;
        format!("“{}” (bytes {from} to {to} of {source})", one_line(quote.as_deref().unwrap_or_default()))
    });
    let mut quotes: Vec<String> = quotes.collect();
    quotes.dedup();
    quotes.join(", ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Nothing may be loaded and nothing may run, wherever the file is opened.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "body{font:17px/1.6 Georgia,serif;max-width:42rem;margin:3rem auto;padding:0 1rem;color:#1b1b1b}\
pre{white-space:pre-wrap;background:#f4f2ee;padding:.8rem}blockquote{border-left:3px solid #b9a;margin-left:0;padding-left:1rem}\
mark{background:#ffe9a8}mark.doubt{background:#fbd5d5}.doubt small,small.doubt{color:#8a1c1c}details{margin:.6rem 0}table{border-collapse:collapse}\
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ddd;vertical-align:top}";

/// Stand around a doubtful quotation while the text is read, so that each is found where it is known to be and not looked
/// for. Unicode keeps these two for such uses within a program; a text that holds them anyway loses them.
const DOUBT_BEGINS: char = '\u{fdd0}';
const DOUBT_ENDS: char = '\u{fdd1}';

/// The text with its doubtful quotations marked.
fn with_marks(content: &str, quotes: &[Unsupported]) -> String {
    let mut places = quotes.iter().filter(|quote| quote.from < quote.to).peekable();
    let mut end = None;
    let mut out = String::with_capacity(content.len());
    for (at, letter) in (0_u64..).zip(content.chars()) {
        if end == Some(at) {
            out.push(DOUBT_ENDS);
            end = None;
        }
        if let Some(quote) = places.next_if(|quote| quote.from == at) {
            out.push(DOUBT_BEGINS);
            end = Some(quote.to);
        }
        out.extend(Some(letter).filter(|letter| !is_mark(*letter)));
    }
    out.extend(end.map(|_| DOUBT_ENDS));
    out
}

fn is_mark(letter: char) -> bool {
    letter == DOUBT_BEGINS || letter == DOUBT_ENDS
}

/// Text that no doubt can be shown in, as it was.
fn without_marks(text: &str) -> String {
    text.replace(is_mark, "")
}

/// The whole file.
pub fn html(title: &str, content: &str, sources: &[Source], doubts: &Doubts) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\">\n<title>{}</title>\n<style>{STYLE}</style>\n",
        escaped(title)
    )
    .ok();
    Writer { out: &mut out, in_doubt: false, doubts }.blocks(&parse_whole(&with_marks(content, &doubts.quotes)));
    write_doubts(&mut out, doubts);
    if !sources.is_empty() {
        out.push_str("<h2>Sources</h2>\n");
        sources.iter().for_each(|source| write_source(&mut out, source));
    }
    out
}

/// Everything in doubt once more, as one list: marks within a text are easily overlooked.
fn write_doubts(out: &mut String, doubts: &Doubts) {
    if doubts.is_empty() {
        return;
    }
    out.push_str(&format!("<h2>{NOT_SUPPORTED}</h2>\n<ul>\n"));
    for quote in &doubts.quotes {
        out.push_str(&format!("<li>“{}”: {NO_SOURCE}</li>\n", escaped(&quote.text)));
    }
    for figure in &doubts.figures {
        out.push_str(&format!("<li><code>{}</code>: {}</li>\n", escaped(&figure.command), escaped(&figure.why)));
    }
    out.push_str("</ul>\n");
}

/// Writes one block.
struct Writer<'a> {
    out: &'a mut String,
    /// Whether a doubtful quotation has begun and not ended.
    in_doubt: bool,
    doubts: &'a Doubts,
}

/// What stands around a block and those of its sort beside it.
const fn around(block: &Block) -> Option<&'static str> {
    match block {
        Block::Point(None, _) => Some("ul"),
        Block::Point(Some(_), _) => Some("ol"),
        Block::Quote(_) => Some("blockquote"),
        _ => None,
    }
}

impl Writer<'_> {
    fn blocks(&mut self, blocks: &[Block]) {
        for group in blocks.chunk_by(|one, next| around(one).is_some() && around(one) == around(next)) {
            let name = group.first().and_then(around);
            self.out.extend(name.map(|name| format!("<{name}>")));
            for (nth, block) in group.iter().enumerate() {
                // What is quoted goes on from line to line.
                self.out.push_str(if nth > 0 && matches!(block, Block::Quote(_)) { "\n" } else { "" });
                self.block(block);
            }
            self.out.extend(name.map(|name| format!("</{name}>\n")));
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(level, inline) => {
                let level = (*level).clamp(1, 6);
                self.element(&format!("h{level}"), inline);
            }
            Block::Paragraph(inline) => self.element("p", inline),
            Block::Point(None, inline) => self.element("li", inline),
            Block::Point(Some(number), inline) => {
                self.out.push_str(&format!("<li value=\"{number}\">"));
                self.all(inline);
                self.out.push_str("</li>\n");
            }
            Block::Quote(inline) if inline.is_empty() => self.out.push_str("<br>"),
            Block::Quote(inline) => self.all(inline),
            Block::Code(code) => self.code(&without_marks(code)),
            Block::Table(rows) => self.table(rows),
            // The file has nothing beside it that could be loaded.
            Block::Picture(words, path) => {
                let (words, path) = (escaped(&without_marks(words)), escaped(&without_marks(path)));
                self.out.push_str(&format!("<p><em>{words}</em> <small>(a picture: {path})</small></p>\n"));
            }
            Block::Rule => self.out.push_str("<hr>\n"),
        }
    }

    fn code(&mut self, code: &str) {
        self.out.push_str(&format!("<pre>{}</pre>\n", escaped(code)));
        if let Some(figure) = self.doubts.figures.iter().find(|figure| figure.body == code) {
            self.out.push_str(&format!("<p><small class=\"doubt\">{}</small></p>\n", escaped(&figure.why)));
        }
    }

    fn table(&mut self, rows: &[Vec<Vec<Inline>>]) {
        self.out.push_str("<table>\n");
        for (index, row) in rows.iter().enumerate() {
            let name = if index == 0 { "th" } else { "td" };
            self.out.push_str("<tr>");
            row.iter().for_each(|cell| self.element(name, cell));
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</table>\n");
    }

    fn element(&mut self, name: &str, inline: &[Inline]) {
        self.out.push_str(&format!("<{name}>"));
        self.all(inline);
        self.out.push_str(&format!("</{name}>\n"));
    }

    fn all(&mut self, parts: &[Inline]) {
        parts.iter().for_each(|part| self.inline(part));
    }

    fn inline(&mut self, inline: &Inline) {
        let (begin, parts, end) = match inline {
            Inline::Text(text) => return self.text(text),
            Inline::Code(text) => {
                return self.out.push_str(&format!("<code>{}</code>", escaped(&without_marks(text))));
            }
            Inline::Strong(parts) => ("<strong>".to_owned(), parts, "</strong>"),
            Inline::Emphasis(parts) => ("<em>".to_owned(), parts, "</em>"),
            Inline::Link(parts, to) => {
                let to = escaped(&without_marks(to));
                (format!("<a rel=\"noreferrer\" href=\"{to}\">"), parts, "</a>")
            }
        };
        self.out.push_str(&begin);
        self.all(parts);
        self.out.push_str(end);
    }

    /// Text with what is in doubt marked. A quotation that goes on in another element is marked in each.
    fn text(&mut self, text: &str) {
        for part in text.split_inclusive(is_mark) {
            let words = escaped(part.trim_end_matches(is_mark));
            let ends = self.in_doubt && part.ends_with(DOUBT_ENDS);
            match (self.in_doubt, ends) {
                (false, _) => self.out.push_str(&words),
                (true, false) => self.out.push_str(&format!("<mark class=\"doubt\">{words}</mark>")),
                (true, true) => {
                    let mark = format!("<mark class=\"doubt\">{words} <small>({NO_SOURCE})</small></mark>");
                    self.out.push_str(&mark);
                }
            }
            self.in_doubt = part.ends_with(DOUBT_BEGINS) || self.in_doubt && !ends;
        }
    }
}

/// A source, once, with all words that are cited from it marked where they stand.
fn write_source(out: &mut String, source: &Source) {
    let quotes = source.citations.iter().map(|citation| citation.quote.as_deref().unwrap_or_default());
    let mut quotes: Vec<String> = quotes.map(|quote| format!("“{}”", escaped(quote))).collect();
    quotes.dedup();
    out.push_str(&format!("<details><summary>{} — {}</summary>\n", quotes.join(", "), escaped(&source.origin)));
    match source.text.as_deref().and_then(|text| cited(text, &source.citations)) {
        Some(text) => out.push_str(&format!("<pre>{text}</pre>\n")),
        None => out.push_str("<p>The source is no text.</p>\n"),
    }
    for Citation { from, to, source, .. } in &source.citations {
        out.push_str(&format!("<p>Bytes {from} to {to} of {source}</p>\n"));
    }
    out.push_str("</details>\n");
}

/// A source's text with the cited words marked; nothing where they cannot stand in it.
fn cited(text: &str, citations: &[Citation]) -> Option<String> {
    let mut places: Vec<_> = citations.iter().map(|cited| (cited.from as usize, cited.to as usize)).collect();
    places.sort_unstable();
    let (mut out, mut at) = (String::new(), 0);
    for (from, to) in places {
        // Words that were cited before are marked already.
        let from = from.max(at);
        if to > from {
            let (before, words) = (text.get(at..from)?, text.get(from..to)?);
            out.push_str(&format!("{}<mark>{}</mark>", escaped(before), escaped(words)));
            at = to;
        }
    }
    out.push_str(&escaped(text.get(at..)?));
    Some(out)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::Hash;

    fn doubtful(text: &str) -> Unsupported {
        Unsupported { from: 0, to: 0, text: text.to_owned() }
    }

    /// Every quotation of a text, in doubt.
    fn doubting(content: &str) -> Doubts {
        Doubts::new(content, &crate::evidence::resolved(content, &[]).unsupported, &[])
    }

    fn figure(status: FigureStatus, because: Option<&str>) -> Figure {
        Figure {
            figure_id: String::new(),
            command: String::new(),
            status,
            inputs: Vec::new(),
            output: None,
            task_id: None,
            because: because.map(str::to_owned),
            at: None,
        }
    }

    fn hostile_doubts() -> Doubts {
        Doubts::new(
            "```run <script>\n<img>\n```\n",
            &[doubtful("<svg onload=1>")],
            &[figure(FigureStatus::Unknown, Some("<script>"))],
        )
    }

    #[test]
    fn what_nothing_stands_behind_is_marked_and_listed() {
        let content = "He said “all is < well” and “fine by me”.\n\n```run a\n1\n```\n\n```run b\n2\n```\n";
        let figures = [figure(FigureStatus::Fresh, None), figure(FigureStatus::Stale, Some("`x` changed"))];
        let mut quotes = crate::evidence::resolved(content, &[]).unsupported;
        quotes.truncate(1);
        let doubts = Doubts::new(content, &quotes, &figures);
        let page = html("T", content, &[], &doubts);
        assert!(
            page.contains(
                "“<mark class=\"doubt\">all is &lt; well <small>(no source)</small></mark>” and “fine by me”"
            ),
            "{page}"
        );
        assert!(page.contains("<pre>1</pre>\n<pre>2</pre>\n<p><small class=\"doubt\">stale: `x` changed"), "{page}");
        assert!(page.contains("<h2>Not supported</h2>") && page.contains("<li><code>b</code>: stale"), "{page}");
        let text = markdown(content, &[], &doubts);
        let list = "\n\n## Not supported\n\n* “all is < well”: no source\n* `b`: stale: `x` changed\n";
        assert_eq!(text, format!("{}{list}", content.trim_end()));
        assert_eq!(markdown(content, &[], &Doubts::default()), content);
    }

    #[test]
    fn a_quotation_is_marked_in_every_element_that_it_goes_through() {
        let content = "É **“one two** three `\"` [four](https://x.org/)”\n> a block\u{fdd1} of words\n";
        let page = html("T", content, &[], &doubting(content));
        let mark = |words: &str| format!("<mark class=\"doubt\">{words}</mark>");
        let last = |words: &str| mark(&format!("{words} <small>(no source)</small>"));
        let first = format!(
            "<p>É <strong>“{}</strong>{}<code>&quot;</code>{}<a rel=\"noreferrer\" href=\"https://x.org/\">{}</a>{}”</p>",
            mark("one two"),
            mark(" three "),
            mark(" "),
            mark("four"),
            last("")
        );
        assert!(page.contains(&first), "{first}\n{page}");
        assert!(page.contains(&format!("<blockquote>{}</blockquote>", last("a block of words"))), "{page}");
    }

    #[test]
    fn very_many_doubts_are_marked_in_one_go() {
        let quoted = |number| format!("“one two {number}” {}", "word ".repeat(100));
        let content: String = (1000..3000).map(quoted).collect();
        let page = html("T", &content, &[], &doubting(&content));
        assert_eq!(page.matches("<mark").count(), 2000);
    }

    #[test]
    fn nothing_in_a_document_becomes_a_tag() {
        let hostile = "# <script>alert(1)</script>\n\n[x](javascript:alert(1)) **<img src=x onerror=1>** `</code>`\n\n> \"><svg onload=1>\n\n```\n</pre><script>\n```\n";
        let page = html("</title><script>", hostile, &[], &hostile_doubts());
        for tag in ["<script", "<img", "<svg", "javascript:alert(1)\""] {
            assert!(!page.contains(tag), "{tag} in {page}");
        }
        assert!(page.contains("default-src 'none'") && page.contains("<h1>&lt;script&gt;"));
    }

    fn citation(text: &str, quote: &str) -> Citation {
        let from = text.find(quote).unwrap() as u64;
        Citation {
            source: Hash::ZERO,
            from,
            to: from + quote.len() as u64,
            hash: Hash::ZERO,
            quote: Some(quote.to_owned()),
            artifact_id: None,
            run_id: None,
            at: None,
        }
    }

    #[test]
    fn a_source_stands_once_with_all_its_words_marked() {
        let text = "a b & c d e f";
        let citations = ["d e", "b & c", "c d"].map(|quote| citation(text, quote)).to_vec();
        let source = Source { citations, origin: "notes.md".into(), text: Some(text.into()) };
        let page = html("T", "text", &[source], &Doubts::default());
        let marked = "<pre>a <mark>b &amp; c</mark><mark> d</mark><mark> e</mark> f</pre>";
        assert!(page.contains(marked), "{page}");
        assert_eq!(page.matches("notes.md").count(), 1, "{page}");
        assert!(page.contains("<summary>“d e”, “b &amp; c”, “c d” — notes.md</summary>"), "{page}");
    }

    #[test]
    fn the_sources_of_a_text_are_listed_in_markdown_too() {
        let citations = vec![citation("a b & c", "b & c")];
        let source = Source { citations, origin: "notes\n.md".into(), text: None };
        let text = markdown("It says “b & c”.\n", &[source], &Doubts::default());
        let list = format!("\n## Sources\n\n1. notes .md: “b & c” (bytes 2 to 7 of {})\n", Hash::ZERO);
        assert_eq!(text, format!("It says “b & c”.\n{list}"));
    }

    #[test]
    fn points_stand_in_a_list_and_what_is_quoted_in_one_block() {
        let page = html("T", "* a\n* b\n\n3. c\n4. d\n\n> e\n> f\n\ng\n\n* h\n", &[], &Doubts::default());
        let expected = "<ul><li>a</li>\n<li>b</li>\n</ul>\n<ol><li value=\"3\">c</li>\n<li value=\"4\">d</li>\n</ol>\n\
                        <blockquote>e\nf</blockquote>\n<p>g</p>\n<ul><li>h</li>\n</ul>\n";
        assert!(page.ends_with(expected), "{page}");
        let content = "“never said\n\nby anybody” here\n";
        let page = html("T", content, &[], &doubting(content));
        assert!(page.contains("<mark class=\"doubt\">by anybody <small>(no source)</small></mark>” here"), "{page}");
    }

    #[test]
    fn a_source_that_cannot_be_shown_is_named() {
        let citations = vec![citation("a b & c", "b & c")];
        for text in [None, Some("short".to_owned())] {
            let source = Source { citations: citations.clone(), origin: "notes.md".into(), text };
            assert!(html("T", "", &[source], &Doubts::default()).contains("The source is no text."));
        }
    }

    #[test]
    fn the_last_line_of_a_long_text_is_in_the_page() {
        let content = (1..=5001).map(|number| format!("line {number}\n\n")).collect::<String>();
        let page = html("T", &content, &[], &Doubts::default());
        assert!(page.contains("<p>line 2500</p>") && page.contains("<p>line 5001</p>"));
    }
}
