//! The arguments of a tool call: JSON, or what can be made JSON without guessing.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// Longest arguments of one call: a file of ordinary size fits.
pub const ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;

/// How much of malformed arguments is kept, for the model to see its mistake.
pub const MALFORMED_BYTES_MAX: usize = 16 * 1024;

/// Parses whole arguments, mended where there is only one way to read them; else gives the text back, cut to
/// [`MALFORMED_BYTES_MAX`]. For arguments that may have been
/// cut off there is [`parse_strict`].
pub(crate) fn parse(raw: &str) -> Result<Value, String> {
    let text = raw.trim();
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let parsed = serde_json::from_str(text)
        .ok()
        .or_else(|| serde_json::from_str(unfenced(text)).ok())
        .or_else(|| serde_json::from_str(&mended(unfenced(text))?).ok());
    match parsed {
        Some(value) => Ok(unwrapped(value)),
        None => Err(prefix(raw, MALFORMED_BYTES_MAX).to_owned()),
    }
}

/// Parses arguments that may have been cut off: JSON as it stands, or nothing.
pub(crate) fn parse_strict(raw: &str) -> Option<Value> {
    serde_json::from_str(raw).ok().map(unwrapped)
}

/// Some models write `null` for no arguments, and some write the JSON of their arguments as one JSON string.
fn unwrapped(value: Value) -> Value {
    match value {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            Ok(_) | Err(_) => Value::String(text),
        },
        other => other,
    }
}

/// The inside of one Markdown code fence, or the text as it is.
fn unfenced(text: &str) -> &str {
    let inside = || {
        let opened = text.strip_prefix("```")?;
        let body = opened.strip_prefix("json").or_else(|| opened.strip_prefix("JSON")).unwrap_or(opened);
        body.strip_suffix("```").filter(|body| !body.contains("```"))
    };
    inside().map_or(text, str::trim)
}

/// Escapes raw control characters in strings, drops commas before closing brackets, adds missing closing brackets.
/// Nothing if the text breaks off inside a string or a number, or closes what is not open.
fn mended(text: &str) -> Option<String> {
    let mut mend = Mend::default();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        mend.step(c, rest.as_str())?;
    }
    mend.close()
}

#[derive(Default)]
struct Mend {
    out: String,
    open: Vec<char>,
    place: Place,
}

#[derive(Default, Clone, Copy)]
enum Place {
    #[default]
    Outside,
    String,
    Escape,
}

impl Mend {
    fn step(&mut self, c: char, rest: &str) -> Option<()> {
        match self.place {
            Place::Outside => return self.outside(c, rest),
            Place::String => self.inside(c),
            Place::Escape => {
                self.place = Place::String;
                self.out.push(c);
            }
        }
        Some(())
    }

    fn outside(&mut self, c: char, rest: &str) -> Option<()> {
        match c {
            '"' => self.place = Place::String,
            '{' => self.open.push('}'),
            '[' => self.open.push(']'),
            '}' | ']' if self.open.pop() != Some(c) => return None,
            ',' if rest.trim_start().starts_with(['}', ']']) => return Some(()),
            _ => {}
        }
        self.out.push(c);
        Some(())
    }

    fn inside(&mut self, c: char) {
        let escaped: Cow<'_, str> = match c {
            '"' => {
                self.place = Place::Outside;
                "\"".into()
            }
            '\\' => {
                self.place = Place::Escape;
                "\\".into()
            }
            '\n' => "\\n".into(),
            '\r' => "\\r".into(),
            '\t' => "\\t".into(),
            other => other.to_string().into(),
        };
        self.out.push_str(&escaped);
    }

    fn close(mut self) -> Option<String> {
        match self.place {
            Place::Outside => {}
            Place::String | Place::Escape => return None,
        }
        // The last number may have had more digits.
        if !self.open.is_empty() && self.out.ends_with(|last: char| last.is_ascii_digit()) {
            return None;
        }
        self.out.extend(self.open.into_iter().rev());
        Some(self.out)
    }
}

/// At most so many bytes, cut between characters.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_one_reading_is_read() {
        let check = |raw: &str, value: Value| assert_eq!(parse(raw), Ok(value), "{raw}");
        check("", json!({}));
        check(" \n", json!({}));
        check("null", json!({}));
        check(r#"{"a": 1}"#, json!({"a": 1}));
        check(r#"{"a": [1, 2, ], }"#, json!({"a": [1, 2]}));
        check("```json\n{\"a\": 1}\n```", json!({"a": 1}));
        check("```\n{\"a\": 1,}\n```", json!({"a": 1}));
        check("{\"a\": \"one\ntwo\tthree\"}", json!({"a": "one\ntwo\tthree"}));
        check(r#"{"a": {"b": [true"#, json!({"a": {"b": [true]}}));
        check(r#"{"a": {"b": [1]"#, json!({"a": {"b": [1]}}));
        check(r#"{"a": "x, }", "b": "\"]""#, json!({"a": "x, }", "b": "\"]"}));
        check(r#""{\"a\": 1}""#, json!({"a": 1}));
        check("[1]", json!([1]));
    }

    #[test]
    fn what_must_be_guessed_is_given_back() {
        for raw in [
            r#"{"a": "x"#,
            r#"{"a": 1"#,
            r#"{"a": {"b": [1"#,
            r#"{"a": 1,"#,
            r#"{"a":"#,
            r#"{"a": 1}}"#,
            r#"{"a": [1}"#,
            "{a: 1}",
            "rm -rf /",
            "{'a': 1}",
            r#"{"a": "b\"#,
            "```json\n{}\n```\n```json\n{}\n```",
            "\u{0}",
        ] {
            assert_eq!(parse(raw), Err(raw.to_owned()), "{raw}");
        }
    }

    #[test]
    fn malformed_text_is_bounded_between_characters() {
        let raw = "é".repeat(MALFORMED_BYTES_MAX);
        let kept = parse(&raw).unwrap_err();
        assert!(kept.len() <= MALFORMED_BYTES_MAX && kept.len() > MALFORMED_BYTES_MAX - 2);
    }

    #[test]
    fn deep_nesting_is_malformed_and_harmless() {
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
