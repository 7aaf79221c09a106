//! How a document's mirror is called in the workspace.

use choir_proto::DocumentId;

/// Where mirrors are.
pub const DIRECTORY: &str = "documents/";

/// Letters of a title that a name takes over.
const TITLE_CHARACTERS_MAX: usize = 48;

/// Digits of the id that make names differ, from its end, which is random.
const ID_DIGITS: usize = 8;

/// The path of a document's mirror when it is first made. It keeps that name as long as it is there.
pub fn path(document: DocumentId, title: &str) -> String {
    let mut name = String::new();
    for letter in title.chars() {
        if letter.is_alphanumeric() {
            name.extend(letter.to_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.chars().count() >= TITLE_CHARACTERS_MAX {
            break;
        }
    }
    let id = document.to_string();
    let name = name.trim_matches('-');
    let joint = if name.is_empty() { "" } else { "-" };
    format!("{DIRECTORY}{name}{joint}{}.md", &id[id.len() - ID_DIGITS..])
}

/// The digits by which a mirror belongs to a document.
pub fn digits(path: &str) -> Option<&str> {
    let name = path.strip_prefix(DIRECTORY)?.strip_suffix(".md")?;
    let digits = name.get(name.len().checked_sub(ID_DIGITS)?..)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)
}

/// Whether a mirror is this document's.
pub fn belongs(path: &str, document: DocumentId) -> bool {
    digits(path).is_some_and(|digits| document.to_string().ends_with(digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_name_is_readable_and_finds_its_document_again() {
        let id = DocumentId::new(Uuid::from_u128(0x1234_5678_9abc));
        let made = path(id, "  Heron or Wren? (Ünïcode) ../../etc ");
        assert_eq!(made, "documents/heron-or-wren-ünïcode-etc-56789abc.md");
        assert!(belongs(&made, id));
        assert!(!belongs(&made, DocumentId::new(Uuid::from_u128(7))));
        assert_eq!(path(id, "…"), "documents/56789abc.md");
        assert_eq!(digits("documents/notes.md"), None);
        assert_eq!(digits("elsewhere/a-56789abc.md"), None);
    }
}
