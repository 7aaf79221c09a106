//! A tool call while it is being said: as much of one of its texts as has come.

/// The text of a field of an object of which only the beginning is known. Nothing before the field begins.
pub fn text_so_far(arguments: &str, field: &str) -> Option<String> {
    let mut rest = arguments.trim_start().strip_prefix('{')?;
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        let (name, after) = string(rest)?;
        let (name, after) = (name.whole()?, after.trim_start().strip_prefix(':')?.trim_start());
        if name == field {
            return Some(string(after)?.0.said);
        }
        rest = &after[value(after)?..];
    }
}

/// As much of a text as ends with a whole word.
pub fn whole_words(text: &str) -> &str {
    text.rfind(char::is_whitespace).map_or("", |end| text[..end].trim_end())
}

/// A string of which the end may be missing.
struct Said {
    said: String,
    is_whole: bool,
}

impl Said {
    fn whole(self) -> Option<String> {
        self.is_whole.then_some(self.said)
    }
}

/// A string at the beginning of a text, and what follows it.
fn string(text: &str) -> Option<(Said, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut escaped = false;
    let mut end = None;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let raw = &inside[..end.unwrap_or(inside.len())];
    let said = unescaped(raw)?;
    Some((Said { said, is_whole: end.is_some() }, end.map_or("", |end| &inside[end + 1..])))
}

/// An escape has at most so many bytes, and a letter of two of them twice as many: that is how much may be cut off.
const ESCAPE_BYTES_MAX: usize = 12;

/// What a string means, without an escape at its end that is not whole yet.
fn unescaped(raw: &str) -> Option<String> {
    let ends = (raw.len().saturating_sub(ESCAPE_BYTES_MAX)..=raw.len()).rev().filter(|end| raw.is_char_boundary(*end));
    ends.into_iter().find_map(|end| serde_json::from_str(&format!("\"{}\"", &raw[..end])).ok())
}

/// The length of a value that is whole.
fn value(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_grows_with_every_byte_and_is_never_what_was_not_said() {
        let content = "# Herons\n\nThey \"wade\" \\ slowly, é 🪶 ☃.\n";
        let arguments = serde_json::json!({"a": [1, {"content": "no"}], "title": "T", "content": content}).to_string();
        // Escaped as some providers do.
        let escaped = arguments.replace('🪶', "\\ud83e\\udeb6").replace('é', "\\u00e9");
        for whole in [arguments, escaped] {
            let mut last = 0;
            for end in (0..=whole.len()).filter(|end| whole.is_char_boundary(*end)) {
                let Some(said) = text_so_far(&whole[..end], "content") else { continue };
                assert!(content.starts_with(&said) && said.len() >= last, "{said:?}");
                last = said.len();
            }
            assert_eq!(last, content.len());
        }
    }

    #[test]
    fn what_is_no_object_or_has_no_such_text_says_nothing() {
        for arguments in ["", "[", "nonsense", "{\"content\": 7", "{\"title\": \"x\"}", "{\"content\"", "{,,,"] {
            assert_eq!(text_so_far(arguments, "content"), None, "{arguments}");
        }
    }

    #[test]
    fn a_word_is_written_when_it_is_whole() {
        assert_eq!(["", "Her", "Herons wa", "Herons wade.\n\nTh"].map(whole_words), ["", "", "Herons", "Herons wade."]);
    }
}
