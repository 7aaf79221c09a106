//! A document to take away: as one HTML file that needs nothing else, with the sources under its quotations, or as Markdown.
//! Both say which quotations and figures nothing stands behind.

use crate::figure::blocks;
use crate::markdown::{Block, Inline, parse};
use choir_proto::document::{Citation, Figure, FigureStatus, Unsupported};
use std::fmt::Write;

/// A source as far as it is shown.
pub struct Source {
    /// The evidence.
    pub citation: Citation,
    /// Where it came from, for people.
    pub origin: String,
    /// Its text, if it is text.
    pub text: Option<String>,
}

/// What of a text a reader must not take for proven.
#[derive(Debug, Default)]
pub struct Doubts {
    quotes: Vec<String>,
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
        Self { quotes: unsupported.iter().map(|one| one.text.clone()).collect(), figures: doubtful.collect() }
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
pub fn markdown(content: &str, doubts: &Doubts) -> String {
    if doubts.is_empty() {
        return content.to_owned();
    }
    let mut out = format!("{}\n\n## {NOT_SUPPORTED}\n\n", content.trim_end());
    // Writing to a string cannot fail.
    doubts.quotes.iter().for_each(|quote| writeln!(out, "* “{quote}”: {NO_SOURCE}").unwrap_or_default());
    let lines = doubts.figures.iter();
    lines.for_each(|figure| writeln!(out, "* `{}`: {}", figure.command, figure.why).unwrap_or_default());
    out
}

/// Nothing may be loaded and nothing may run, wherever the file is opened.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "body{font:17px/1.6 Georgia,serif;max-width:42rem;margin:3rem auto;padding:0 1rem;color:#1b1b1b}\
pre{white-space:pre-wrap;background:#f4f2ee;padding:.8rem}blockquote{border-left:3px solid #b9a;margin-left:0;padding-left:1rem}\
mark{background:#ffe9a8}mark.doubt{background:#fbd5d5}.doubt small,small.doubt{color:#8a1c1c}details{margin:.6rem 0}table{border-collapse:collapse}\
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ddd;vertical-align:top}";

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
    for block in parse(content) {
        write_block(&mut out, &block, doubts);
    }
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
    out.push_str(&format!("<h2>{NOT_SUPPORTED}</h2>\n"));
    for quote in &doubts.quotes {
        out.push_str(&format!("<li>“{}”: {NO_SOURCE}</li>\n", escaped(quote)));
    }
    for figure in &doubts.figures {
        out.push_str(&format!("<li><code>{}</code>: {}</li>\n", escaped(&figure.command), escaped(&figure.why)));
    }
}

fn write_block(out: &mut String, block: &Block, doubts: &Doubts) {
    match block {
        Block::Heading(level, inline) => {
            let level = (*level).clamp(1, 6);
            element(out, &format!("h{level}"), inline, doubts);
        }
        Block::Paragraph(inline) => element(out, "p", inline, doubts),
        Block::Point(None, inline) => element(out, "li", inline, doubts),
        Block::Point(Some(number), inline) => {
            out.push_str(&format!("<p>{number}. "));
            inline.iter().for_each(|inline| write_inline(out, inline, doubts));
            out.push_str("</p>\n");
        }
        Block::Quote(inline) => element(out, "blockquote", inline, doubts),
        Block::Code(code) => {
            out.push_str(&format!("<pre>{}</pre>\n", escaped(code)));
            if let Some(figure) = doubts.figures.iter().find(|figure| figure.body == *code) {
                out.push_str(&format!("<p><small class=\"doubt\">{}</small></p>\n", escaped(&figure.why)));
            }
        }
        Block::Table(rows) => write_table(out, rows, doubts),
        Block::Rule => out.push_str("<hr>\n"),
    }
}

fn element(out: &mut String, name: &str, inline: &[Inline], doubts: &Doubts) {
    out.push_str(&format!("<{name}>"));
    inline.iter().for_each(|inline| write_inline(out, inline, doubts));
    out.push_str(&format!("</{name}>\n"));
}

fn write_inline(out: &mut String, inline: &Inline, doubts: &Doubts) {
    let within = |parts: &[Inline]| {
        let mut inner = String::new();
        parts.iter().for_each(|part| write_inline(&mut inner, part, doubts));
        inner
    };
    out.push_str(&match inline {
        Inline::Text(text) => marked(text, &doubts.quotes),
        Inline::Strong(parts) => format!("<strong>{}</strong>", within(parts)),
        Inline::Emphasis(parts) => format!("<em>{}</em>", within(parts)),
        Inline::Code(text) => format!("<code>{}</code>", escaped(text)),
        Inline::Link(parts, to) => format!("<a rel=\"noreferrer\" href=\"{}\">{}</a>", escaped(to), within(parts)),
    });
}

/// Text with the first of these quotations marked in it, then the next in what follows.
fn marked(text: &str, quotes: &[String]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    let first = |rest: &str| quotes.iter().filter_map(|quote| Some((rest.find(quote)?, quote.len()))).min();
    while let Some((from, length)) = first(rest).filter(|(_, length)| *length > 0) {
        let (quote, after) = rest[from..].split_at(length);
        out.push_str(&escaped(&rest[..from]));
        out.push_str(&format!("<mark class=\"doubt\">{} <small>({NO_SOURCE})</small></mark>", escaped(quote)));
        rest = after;
    }
    out.push_str(&escaped(rest));
    out
}

fn write_table(out: &mut String, rows: &[Vec<Vec<Inline>>], doubts: &Doubts) {
    out.push_str("<table>\n");
    for (index, row) in rows.iter().enumerate() {
        let name = if index == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        row.iter().for_each(|cell| element(out, name, cell, doubts));
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// A source with the cited words marked where they stand.
fn write_source(out: &mut String, source: &Source) {
    let quote = source.citation.quote.as_deref().unwrap_or_default();
    let (from, to) = (source.citation.from as usize, source.citation.to as usize);
    let heading = format!("“{}” — {}", escaped(quote), escaped(&source.origin));
    out.push_str(&format!("<details><summary>{heading}</summary>\n"));
    let text = source.text.as_deref().unwrap_or_default();
    match (text.get(..from), text.get(from..to), text.get(to..)) {
        (Some(before), Some(cited), Some(after)) => {
            out.push_str(&format!("<pre>{}<mark>{}</mark>{}</pre>\n", escaped(before), escaped(cited), escaped(after)));
        }
        _ => out.push_str("<p>The source is no text.</p>\n"),
    }
    out.push_str(&format!("<p>Bytes {from} to {to} of {}</p></details>\n", source.citation.source));
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
        let doubts = Doubts::new(content, &[doubtful("all is < well")], &figures);
        let page = html("T", content, &[], &doubts);
        assert!(
            page.contains(
                "“<mark class=\"doubt\">all is &lt; well <small>(no source)</small></mark>” and “fine by me”"
            ),
            "{page}"
        );
        assert!(page.contains("<pre>1</pre>\n<pre>2</pre>\n<p><small class=\"doubt\">stale: `x` changed"), "{page}");
        assert!(page.contains("<h2>Not supported</h2>") && page.contains("<li><code>b</code>: stale"), "{page}");
        let text = markdown(content, &doubts);
        let list = "\n\n## Not supported\n\n* “all is < well”: no source\n* `b`: stale: `x` changed\n";
        assert_eq!(text, format!("{}{list}", content.trim_end()));
        assert_eq!(markdown(content, &Doubts::default()), content);
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

    #[test]
    fn a_source_stands_with_its_words_marked() {
        let quote = Some("b & c".to_owned());
        let citation = Citation {
            source: Hash::ZERO,
            from: 2,
            to: 7,
            hash: Hash::ZERO,
            quote,
            artifact_id: None,
            run_id: None,
            at: None,
        };
        let source = Source { citation, origin: "notes.md".into(), text: Some("a b & c d".into()) };
        let page = html("T", "text", &[source], &Doubts::default());
        assert!(page.contains("<pre>a <mark>b &amp; c</mark> d</pre>") && page.contains("notes.md"), "{page}");
    }
}
