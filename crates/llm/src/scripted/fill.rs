//! Placeholders in the strings of a scenario.

use crate::assembly::ANSWER_BYTES_MAX;
use serde_json::Value;
use std::borrow::Cow;

/// What placeholders are filled with.
pub(super) struct Values<'a> {
    pub(super) prompt: &'a str,
    pub(super) newest: &'a str,
    pub(super) turn: u32,
    pub(super) results: &'a [&'a str],
}

/// Why a placeholder could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the conversation has nothing for {{{{{0}}}}}")]
    Nothing(String),
    #[error("{{{{{0}}}}} makes the answer longer than {ANSWER_BYTES_MAX} bytes")]
    Long(String),
}

/// A text with its placeholders filled, in one pass.
pub(super) fn text(template: &str, values: &Values<'_>) -> Result<String, Problem> {
    let mut filled = String::with_capacity(template.len());
    for piece in pieces(template) {
        match piece {
            Piece::Plain(plain) => filled.push_str(plain),
            Piece::Hole(path) => {
                let value = lookup(path, values).ok_or_else(|| Problem::Nothing(path.to_owned()))?;
                if filled.len() + value.len() > ANSWER_BYTES_MAX {
                    return Err(Problem::Long(path.to_owned()));
                }
                filled.push_str(&value);
            }
        }
    }
    Ok(filled)
}

/// A JSON value with the placeholders of all its strings filled. Keys stay as they are.
pub(super) fn value(template: &Value, values: &Values<'_>) -> Result<Value, Problem> {
    Ok(match template {
        Value::String(string) => Value::String(text(string, values)?),
        Value::Array(items) => Value::Array(items.iter().map(|item| value(item, values)).collect::<Result<_, _>>()?),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), value(field, values)?)))
                .collect::<Result<_, Problem>>()?,
        ),
        other => other.clone(),
    })
}

/// The first placeholder of a text that no conversation could ever fill.
pub(super) fn unknown(template: &str) -> Option<&str> {
    pieces(template).find_map(|piece| match piece {
        Piece::Hole(path) if !known(path) => Some(path),
        Piece::Hole(_) | Piece::Plain(_) => None,
    })
}

fn known(path: &str) -> bool {
    match path.split_once('.') {
        None => matches!(path, "prompt" | "turn" | "last_message" | "last_result" | "results"),
        Some(("last_result" | "last_message", _)) => true,
        Some(("results", rest)) => rest.split('.').next().and_then(number).is_some(),
        Some(_) => false,
    }
}

fn lookup<'a>(path: &str, values: &Values<'a>) -> Option<Cow<'a, str>> {
    let mut steps = path.split('.');
    let last = || values.results.last().copied();
    match steps.next()? {
        "prompt" => Some(Cow::Borrowed(values.prompt)),
        "turn" => Some(Cow::Owned(values.turn.to_string())),
        "last_message" => reach(values.newest, steps),
        "last_result" => reach(last()?, steps),
        "results" => match steps.next() {
            None => Some(Cow::Owned(values.results.join("\n\n"))),
            Some(place) => reach(values.results.get(number(place)?.checked_sub(1)?)?, steps),
        },
        _ => None,
    }
}

/// Into a result as JSON; the result itself if there are no steps.
fn reach<'a, 's>(result: &'a str, mut steps: impl Iterator<Item = &'s str>) -> Option<Cow<'a, str>> {
    let Some(first) = steps.next() else { return Some(Cow::Borrowed(result)) };
    let whole: Value = serde_json::from_str(result).ok()?;
    let inner = std::iter::once(first).chain(steps).try_fold(&whole, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(number(step)?),
        _ => None,
    })?;
    Some(Cow::Owned(inner.as_str().map_or_else(|| inner.to_string(), str::to_owned)))
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

enum Piece<'a> {
    Plain(&'a str),
    Hole(&'a str),
}

/// Splits at placeholders; double braces around anything but a dotted word are plain text.
fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((start, path)) = next_hole(rest) else {
            return Some(Piece::Plain(std::mem::take(&mut rest)));
        };
        if start > 0 {
            let plain = &rest[..start];
            rest = &rest[start..];
            return Some(Piece::Plain(plain));
        }
        rest = &rest[path.len() + 4..];
        Some(Piece::Hole(path))
    })
}

fn next_hole(text: &str) -> Option<(usize, &str)> {
    // Brace by brace, because a third brace may stand before the two that count.
    text.match_indices('{').find_map(|(start, _)| {
        let inner = text[start..].strip_prefix("{{")?;
        let path = &inner[..inner.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))?];
        (!path.is_empty() && inner[path.len()..].starts_with("}}")).then_some((start, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> Result<String, Problem> {
        let results = ["first", r#"{"task": {"id": 7, "tags": ["a", "b"]}}"#];
        text(template, &Values { prompt: "say {{turn}}", newest: r#"{"a": 1}"#, turn: 3, results: &results })
    }

    #[test]
    fn every_placeholder_is_filled_once() {
        assert_eq!(filled("<{{prompt}}> {{turn}}").unwrap(), "<say {{turn}}> 3");
        assert_eq!(filled("{{results.1}}, {{last_result.task.id}}{{last_result.task.tags.1}}").unwrap(), "first, 7b");
        assert_eq!(filled("{{last_message}} {{last_message.a}}").unwrap(), r#"{"a": 1} 1"#);
        assert_eq!(filled("{{results}}").unwrap(), "first\n\n{\"task\": {\"id\": 7, \"tags\": [\"a\", \"b\"]}}");
    }

    #[test]
    fn other_braces_are_text() {
        for plain in ["{{ name }}", "{{", "{{}}", "a {b} }}", "{{prompt}", "fn x() {{é}}"] {
            assert_eq!(filled(plain).unwrap(), plain);
        }
        assert_eq!(filled("{{{turn}}}").unwrap(), "{3}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        for missing in ["results.3", "results.0", "last_result.task.name", "results.1.id"] {
            assert_eq!(filled(&format!("{{{{{missing}}}}}")), Err(Problem::Nothing(missing.to_owned())));
        }
    }

    #[test]
    fn misspelt_placeholders_are_found() {
        assert_eq!(unknown("{{prompt}} {{last_reslt}}"), Some("last_reslt"));
        assert_eq!(unknown("{{results.first}}"), Some("results.first"));
        assert_eq!(unknown("{{results.2.id}} {{ anything }}"), None);
    }
}
