//! What can be found by words: the text of an event, and what a person sees of it when it is found.

use choir_proto::api::{Found, SearchResult};
use choir_proto::event::{ArtifactImported, Header};
use choir_proto::task::ChangeKind;
use choir_proto::{Event, Hash};
use serde_json::Value;

/// Raised when the same events give other words.
pub const VERSION: u32 = 3;

/// Bytes of one event that can be found; what a tool said beyond that is read where it lies.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The largest source that is read for its words.
const SOURCE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Characters before and after the first word that was found.
const SNIPPET_CHARACTERS: usize = 80;

/// Characters of a title made from a longer text.
const TITLE_CHARACTERS_MAX: usize = 80;

/// What an event says of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The thing; what was said of it before no longer counts.
    pub subject: Option<String>,
    /// What is said; nothing when the thing is gone.
    pub text: Option<String>,
}

/// The words of an event. `blob` reads content that it names.
pub fn words(event: &Event, blob: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> Option<Words> {
    let (subject, text) = match event {
        Event::RunAccepted(accepted) => (None, accepted.request.prompt.clone()),
        Event::RunSteered(steered) => (None, steered.text.clone()),
        Event::RunAnswered(answered) => (None, answered.text.clone()),
        Event::DocumentVersioned(versioned) => {
            let kept = || blob(&versioned.content_hash).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let text = versioned.content.clone().or_else(kept).unwrap_or_default();
            (Some(format!("document/{}", versioned.document_id)), format!("{}\n{text}", versioned.title))
        }
        Event::DocumentTrashed(trashed) => return gone(format!("document/{}", trashed.document_id)),
        Event::ArtifactImported(artifact) => (
            Some(format!("artifact/{}", artifact.artifact_id)),
            format!("{}\n{}\n{}", artifact.origin, artifact.media_type, source_text(artifact, blob)),
        ),
        Event::FileChanged(file) if file.change == ChangeKind::Deleted => return gone(format!("file/{}", file.path)),
        Event::FileChanged(file) => (Some(format!("file/{}", file.path)), file.path.clone()),
        Event::ModelCalled(called) => (None, called.message.text.clone()),
        Event::ToolStarted(tool) => (None, said(&tool.name, &tool.arguments)),
        Event::ToolFinished(tool) => (None, tool.content.clone()),
        Event::TaskFinished(task) => (None, task.result.summary.clone()),
        _ => return None,
    };
    (!text.trim().is_empty()).then(|| Words { subject, text: Some(head(text, TEXT_BYTES_MAX)) })
}

/// What a person sees of an event that was found.
pub fn result(
    header: &Header,
    event: &Event,
    question: &str,
    blob: &dyn Fn(&Hash) -> Option<Vec<u8>>,
) -> Option<SearchResult> {
    let mut text = words(event, blob)?.text?;
    let (found, title) = match event {
        Event::DocumentVersioned(versioned) => {
            (Found::Document { document_id: versioned.document_id }, versioned.title.clone())
        }
        Event::ArtifactImported(artifact) => {
            // Its kind is found by, and says nothing to whoever reads what was found.
            let source = source_text(artifact, blob);
            let named = artifact.origin != ArtifactImported::UNNAMED || source.trim().is_empty();
            let title = if named { artifact.origin.clone() } else { heading(&source) };
            text = source;
            (Found::Artifact { artifact_id: artifact.artifact_id }, title)
        }
        Event::FileChanged(file) => (Found::File { path: file.path.clone() }, file.path.clone()),
        Event::RunAccepted(_) => (Found::Run { run_id: header.run? }, first_line(&text)),
        _ => (Found::Event { event_id: header.id, run_id: header.run }, first_line(&text)),
    };
    let snippet = snippet(&text, question);
    Some(SearchResult { found, title, snippet, event_kind: header.kind.to_string(), seq: header.seq, at: header.at })
}

/// The words of a source: its own where it is plain text, and those that were parsed out of it where it is not.
fn source_text(artifact: &ArtifactImported, blob: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> String {
    let plain = ["text/plain", "text/markdown", "text/csv"];
    let is_plain = plain.iter().any(|kind| artifact.media_type.starts_with(kind));
    let Some(text) = artifact.text.or(is_plain.then_some(artifact.content_hash)) else { return String::new() };
    if artifact.size > SOURCE_BYTES_MAX {
        return String::new();
    }
    blob(&text).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// A call as a person would say it: the tool and the words it was given, without the braces around them.
fn said(tool: &str, arguments: &Value) -> String {
    let mut text = format!("{tool}:");
    gather(arguments, &mut text);
    text
}

fn gather(value: &Value, text: &mut String) {
    match value {
        Value::String(words) => {
            text.push(' ');
            text.push_str(words);
        }
        Value::Array(values) => values.iter().for_each(|value| gather(value, text)),
        Value::Object(fields) => fields.values().for_each(|value| gather(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn gone(subject: String) -> Option<Words> {
    Some(Words { subject: Some(subject), text: None })
}

/// At most so many bytes, cut between characters.
fn head(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.chars().take(TITLE_CHARACTERS_MAX).collect()
}

/// What a text without a name is called: its first line, without the marks of a heading.
fn heading(text: &str) -> String {
    first_line(text.trim_start().trim_start_matches('#'))
}

/// A little of the text around the first word of the question that occurs in it, in whole words.
fn snippet(text: &str, question: &str) -> String {
    let lower = text.to_lowercase();
    let terms = question.split(|c: char| !c.is_alphanumeric()).filter(|term| !term.is_empty());
    let place = terms.filter_map(|term| lower.find(&term.to_lowercase())).min().unwrap_or(0);
    // Lower case may be longer or shorter than the original; a character's width more or less does no harm here.
    let at = text.floor_char_boundary(place.min(text.len()));
    let before: Vec<char> = text[..at].chars().rev().take(SNIPPET_CHARACTERS + 1).collect();
    let after: Vec<char> = text[at..].chars().take(SNIPPET_CHARACTERS + 1).collect();
    let before: String = ending(&before).chars().rev().collect();
    let shown = format!("{before}{}", ending(&after));
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first of these letters, without the part of a word where they are cut.
fn ending(letters: &[char]) -> String {
    let Some(cut) = letters.get(..SNIPPET_CHARACTERS).filter(|_| letters.len() > SNIPPET_CHARACTERS) else {
        return letters.iter().collect();
    };
    let whole = cut.iter().rposition(|letter| letter.is_whitespace()).unwrap_or(cut.len());
    format!("{} …", cut[..whole].iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_word_in_its_surroundings_and_survives_any_script() {
        let text = format!("{} Ελευθερία needle İstanbul {}", "ä".repeat(200), "ß".repeat(200));
        let shown = snippet(&text, "missing NEEDLE");
        assert!(shown.contains("needle") && shown.chars().count() <= 2 * SNIPPET_CHARACTERS);
        assert_eq!(snippet("", "x"), "");
        assert_eq!(snippet("a\n needle", "needle"), "a needle");
        let words = "words that are whole ".repeat(20);
        let shown = snippet(&format!("{words}needle {words}"), "needle");
        let inside = shown.strip_prefix("… ").and_then(|rest| rest.strip_suffix(" …")).expect(&shown);
        assert!(inside.split(' ').all(|word| "words that are whole needle".split(' ').any(|known| known == word)));
    }

    #[test]
    fn a_text_without_a_name_is_called_by_its_first_line() {
        assert_eq!(heading("\n# Wren in production\n\nText."), "Wren in production");
        assert_eq!(heading("Text."), "Text.");
    }

    #[test]
    fn a_call_is_told_without_its_braces() {
        let arguments = serde_json::json!({"command": "ls -l", "more": ["a", {"b": "c"}], "timeout_s": 3});
        assert_eq!(said("bash", &arguments), "bash: ls -l a c");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(head("aé".into(), 2), "a");
    }
}
