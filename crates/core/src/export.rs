//! A document as one HTML file that needs nothing else: its text, and the sources under its quotations.

use crate::markdown::{Block, Inline, parse};
use choir_proto::document::Citation;
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

/// Nothing may be loaded and nothing may run, wherever the file is opened.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "body{font:17px/1.6 Georgia,serif;max-width:42rem;margin:3rem auto;padding:0 1rem;color:#1b1b1b}\
pre{white-space:pre-wrap;background:#f4f2ee;padding:.8rem}blockquote{border-left:3px solid #b9a;margin-left:0;padding-left:1rem}\
mark{background:#ffe9a8}details{margin:.6rem 0}table{border-collapse:collapse}\
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ddd;vertical-align:top}";

/// The whole file.
pub fn html(title: &str, content: &str, sources: &[Source]) -> String {
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
        write_block(&mut out, &block);
    }
    if !sources.is_empty() {
        out.push_str("<h2>Sources</h2>\n");
        sources.iter().for_each(|source| write_source(&mut out, source));
    }
    out
}

fn write_block(out: &mut String, block: &Block) {
    match block {
        Block::Heading(level, inline) => {
            let level = (*level).clamp(1, 6);
            element(out, &format!("h{level}"), inline);
        }
        Block::Paragraph(inline) => element(out, "p", inline),
        Block::Point(None, inline) => element(out, "li", inline),
        Block::Point(Some(number), inline) => {
            out.push_str(&format!("<p>{number}. "));
            inline.iter().for_each(|inline| write_inline(out, inline));
            out.push_str("</p>\n");
        }
        Block::Quote(inline) => element(out, "blockquote", inline),
        Block::Code(code) => out.push_str(&format!("<pre>{}</pre>\n", escaped(code))),
        Block::Table(rows) => write_table(out, rows),
        Block::Rule => out.push_str("<hr>\n"),
    }
}

fn element(out: &mut String, name: &str, inline: &[Inline]) {
    out.push_str(&format!("<{name}>"));
    inline.iter().for_each(|inline| write_inline(out, inline));
    out.push_str(&format!("</{name}>\n"));
}

fn write_inline(out: &mut String, inline: &Inline) {
    let within = |parts: &[Inline]| {
        let mut inner = String::new();
        parts.iter().for_each(|part| write_inline(&mut inner, part));
        inner
    };
    out.push_str(&match inline {
        Inline::Text(text) => escaped(text),
        Inline::Strong(parts) => format!("<strong>{}</strong>", within(parts)),
        Inline::Emphasis(parts) => format!("<em>{}</em>", within(parts)),
        Inline::Code(text) => format!("<code>{}</code>", escaped(text)),
        Inline::Link(parts, to) => format!("<a rel=\"noreferrer\" href=\"{}\">{}</a>", escaped(to), within(parts)),
    });
}

fn write_table(out: &mut String, rows: &[Vec<Vec<Inline>>]) {
    out.push_str("<table>\n");
    for (index, row) in rows.iter().enumerate() {
        let name = if index == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        row.iter().for_each(|cell| element(out, name, cell));
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

    #[test]
    fn nothing_in_a_document_becomes_a_tag() {
        let hostile = "# <script>alert(1)</script>\n\n[x](javascript:alert(1)) **<img src=x onerror=1>** `</code>`\n\n> \"><svg onload=1>\n\n```\n</pre><script>\n```\n";
        let page = html("</title><script>", hostile, &[]);
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
        let page = html("T", "text", &[source]);
        assert!(page.contains("<pre>a <mark>b &amp; c</mark> d</pre>") && page.contains("notes.md"), "{page}");
    }
}
