//! A web page as the text that a person would read. Small on purpose: what it does not understand, it leaves out.

/// Elements whose content is not for reading.
const UNREAD: [&str; 6] = ["script", "style", "noscript", "template", "svg", "head"];

/// Elements that begin a line.
const LINES: [&str; 22] = [
    "p",
    "div",
    "br",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "header",
    "footer",
    "blockquote",
    "pre",
    "hr",
    "main",
];

/// Entities that pages are full of.
const ENTITIES: [(&str, &str); 12] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("mdash", "—"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
];

/// The longest entity that is looked for.
const ENTITY_BYTES_MAX: usize = 12;

/// The text of an HTML page: a line for each block, spaces joined, tags, scripts and styles gone.
pub fn text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        push_words(&mut out, &rest[..open]);
        rest = &rest[open..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let (tag, after) = rest[1..].split_once('>').unwrap_or((&rest[1..], ""));
        let name = name(tag);
        rest = after;
        if UNREAD.contains(&name.as_str()) && !tag.starts_with('/') && !tag.ends_with('/') {
            rest = after_end_of(&name, rest);
        }
        if LINES.contains(&name.as_str()) {
            end_line(&mut out);
        }
    }
    push_words(&mut out, rest);
    end_line(&mut out);
    out
}

/// What has to be parsed before it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A web page.
    Html,
    /// A printed page.
    Pdf,
    /// Text in another encoding than ours.
    Text,
}

/// Where a page may say in which letters it is written, in bytes from its beginning.
const DECLARED_WITHIN: usize = 1024;

/// The longest name of an encoding.
const LABEL_BYTES_MAX: usize = 40;

/// The encoding that a media type names; a claim. Only what can be a name: it becomes a word of a command.
pub fn charset(media_type: &str) -> Option<String> {
    let mut parameters = media_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    label(value.trim().trim_matches('"'))
}

/// The encoding that a page names itself, in its first `meta` that does.
pub fn declared_charset(page: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&page[..page.len().min(DECLARED_WITHIN)]).to_ascii_lowercase();
    let tags = head.split("<meta").skip(1).filter_map(|rest| rest.split('>').next());
    tags.filter_map(|tag| tag.split_once("charset")).find_map(|(_, rest)| {
        let value = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        label(value.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ';' | '/')).next()?)
    })
}

fn label(text: &str) -> Option<String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let is_label = (1..=LABEL_BYTES_MAX).contains(&text.len()) && text.bytes().all(good) && !text.starts_with('-');
    is_label.then(|| text.to_ascii_lowercase())
}

/// Whether bytes that are said to be text have to be read in another encoding than ours.
fn is_foreign(media_type: &str, bytes: &[u8]) -> bool {
    let says_other = || charset(media_type).is_some_and(|name| !matches!(name.as_str(), "utf-8" | "utf8"));
    std::str::from_utf8(bytes).is_err() || says_other() && !bytes.is_ascii()
}

/// How the first bytes of a PDF look. Some stand a little further behind.
const PDF_MARK: &[u8] = b"%PDF-";

/// Where the mark of a PDF is looked for.
const PDF_MARK_WITHIN: usize = 1024;

impl Format {
    /// What bytes of a claimed kind are. A PDF says so itself, whatever is claimed of it; nothing is what needs no parsing.
    pub fn of(media_type: &str, bytes: &[u8]) -> Option<Self> {
        let head = &bytes[..bytes.len().min(PDF_MARK_WITHIN)];
        let media_type = media_type.to_ascii_lowercase();
        let media_type = media_type.as_str();
        let is_html = media_type.starts_with("text/html") || media_type.starts_with("application/xhtml");
        match media_type {
            _ if is_html => Some(Self::Html),
            _ if media_type.starts_with("application/pdf") || head.starts_with(PDF_MARK) => Some(Self::Pdf),
            _ if media_type.starts_with("application/octet-stream") => {
                head.windows(PDF_MARK.len()).any(|window| window == PDF_MARK).then_some(Self::Pdf)
            }
            _ if media_type.starts_with("text/") && is_foreign(media_type, bytes) => Some(Self::Text),
            _ => None,
        }
    }

    /// As the reader is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Text => "text",
        }
    }

    /// By the name that the reader is told.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Html, Self::Pdf, Self::Text].into_iter().find(|format| format.name() == name)
    }
}

fn name(tag: &str) -> String {
    let tag = tag.trim_start_matches('/');
    tag.chars().take_while(char::is_ascii_alphanumeric).take(16).collect::<String>().to_ascii_lowercase()
}

/// What follows the end of an element; nothing when it never ends.
fn after_end_of<'a>(name: &str, html: &'a str) -> &'a str {
    let mut rest = html;
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        if self::name(rest) == name {
            return rest.split_once('>').map_or("", |(_, after)| after);
        }
    }
    ""
}

fn push_words(out: &mut String, text: &str) {
    let mut gap = text.starts_with(char::is_whitespace);
    for word in text.split_whitespace() {
        if gap && !out.is_empty() && !out.ends_with([' ', '\n']) {
            out.push(' ');
        }
        push_decoded(out, word);
        gap = true;
    }
    if text.ends_with(char::is_whitespace) && !out.is_empty() && !out.ends_with([' ', '\n']) {
        out.push(' ');
    }
}

fn push_decoded(out: &mut String, word: &str) {
    let mut rest = word;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(';').filter(|end| *end <= ENTITY_BYTES_MAX);
        match end.and_then(|end| Some((decoded(&rest[..end])?, end))) {
            Some((letter, end)) => {
                out.push_str(&letter);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
}

fn decoded(entity: &str) -> Option<String> {
    if let Some(number) = entity.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|letter| !letter.is_control()).map(String::from);
    }
    ENTITIES.iter().find(|(name, _)| *name == entity).map(|(_, letter)| (*letter).to_owned())
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_what_a_person_reads() {
        let html = "<html><head><title>T</title></head><body><!-- no --><h1>Trees &amp; shrubs</h1><p>One   <b>two</b>,\n\
                    three&#8217;s.<br>Four<script>alert('<p>no</p>')</script> five</p></body></html>";
        assert_eq!(text(html), "Trees & shrubs\nOne two, three’s.\nFour five\n");
    }

    #[test]
    fn what_has_to_be_parsed_is_known_by_its_kind_or_by_its_first_bytes() {
        let cases = [
            ("text/html; charset=utf-8", "<p>x", Some(Format::Html)),
            ("application/xhtml+xml", "<p>x", Some(Format::Html)),
            ("application/pdf", "cut off", Some(Format::Pdf)),
            ("text/plain", "%PDF-1.4", Some(Format::Pdf)),
            ("application/octet-stream", "\r\n%PDF-1.4", Some(Format::Pdf)),
            ("application/octet-stream", "PDF", None),
            ("text/plain", "about %PDF-1.4", None),
            ("text/csv", "a,b", None),
            ("TEXT/HTML", "<p>x", Some(Format::Html)),
            ("text/plain; charset=utf-8", "é", None),
            ("text/plain; charset=latin1", "plain", None),
            ("text/plain; charset=\"ISO-8859-1\"", "é", Some(Format::Text)),
        ];
        for (media_type, bytes, format) in cases {
            assert_eq!(Format::of(media_type, bytes.as_bytes()), format, "{media_type} {bytes}");
        }
        assert_eq!(Format::of("text/csv", b"caf\xe9"), Some(Format::Text));
        assert_eq!(["html", "pdf", "doc"].map(Format::named), [Some(Format::Html), Some(Format::Pdf), None]);
    }

    #[test]
    fn the_letters_of_a_page_are_named_by_who_sends_it_or_by_itself() {
        let sent =
            ["text/html; charset=Shift_JIS", "text/html;a=b; Charset=\"latin1\"", "text/html", "x; charset=a b;c"];
        assert_eq!(sent.map(charset), [Some("shift_jis".to_owned()), Some("latin1".to_owned()), None, None]);
        for odd in ["x; charset=$(rm)", "x; charset=-flag", "x; charset=", "x; charset=`a`"] {
            assert_eq!(charset(odd), None, "{odd}");
        }
        let cases = [
            ("<META Charset='windows-1251'>", Some("windows-1251")),
            ("<meta name=a><meta http-equiv=x content=\"text/html; charset=EUC-KR\">", Some("euc-kr")),
            ("<meta charset=utf-8/>", Some("utf-8")),
            ("<p>charset=koi8-r</p>", None),
            ("<meta charset", None),
        ];
        for (page, name) in cases {
            assert_eq!(declared_charset(page.as_bytes()).as_deref(), name, "{page}");
        }
        assert_eq!(declared_charset(format!("{}<meta charset=koi8-r>", " ".repeat(2000)).as_bytes()), None);
    }

    #[test]
    fn broken_pages_end_without_harm() {
        for html in
            ["<", "<p", "<script>never ends", "<!-- never ends", "&", "&#x110000;", "&#0;", "</", "<p></p", "é<é>é"]
        {
            text(html);
        }
        assert_eq!(text("a &unknown; b &#x41; &lt;p&gt;"), "a &unknown; b A <p>\n");
    }
}
