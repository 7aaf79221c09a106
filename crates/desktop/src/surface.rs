//! Where a run is shown: a small thing is a card that stays, everything else is a document.

use crate::computer::Documents;
use choir_proto::DocumentId;
use choir_proto::document::DocumentSummary;
use choir_proto::run::{Run, RunStatus};

/// The version of a document that holds nothing but its prompt.
const VERSION_OF_PROMPT: u32 = 1;

/// Where a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// A card: progress, the answer, or why there is none.
    Card,
    /// Its document.
    Document(DocumentId),
}

/// Whether a document holds nothing but the prompt of the run that will write it: nothing stands behind that yet.
pub fn is_bare(document: &DocumentSummary) -> bool {
    document.run_id.is_some() && document.version <= VERSION_OF_PROMPT
}

/// Every run has a document from its first moment, but one that will be answered in a sentence loses it again. Until somebody
/// writes into it or delegates, nobody knows which it will be, and a window that opens only to close again helps no one.
pub fn surface(run: &Run, documents: &Documents) -> Surface {
    let Some(document) = run.document_id.and_then(|id| documents.get(id)) else { return Surface::Card };
    let continued = document.run_id != Some(run.run_id);
    let written = document.version > VERSION_OF_PROMPT;
    let delegated = run.tasks.iter().any(|task| task.parent.is_some());
    let done = matches!(run.status, RunStatus::Completed | RunStatus::Verified);
    let worked = continued || written || delegated || done;
    if worked && run.answer.is_none() { Surface::Document(document.document_id) } else { Surface::Card }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RUN: &str = "01970000-0000-7000-8000-000000000001";
    const OTHER: &str = "01970000-0000-7000-8000-000000000002";
    const DOCUMENT: &str = "01970000-0000-7000-8000-000000000003";

    fn shown(run: serde_json::Value, version: u32, begun_by: &str) -> Surface {
        let base = json!({
            "run_id": RUN, "status": "running", "prompt": "p", "document_id": DOCUMENT, "tasks": [], "usage": {},
            "accepted_at": "2026-01-01T00:00:00Z", "seq": 1,
        });
        let mut whole = base.as_object().unwrap().clone();
        whole.extend(run.as_object().unwrap().clone());
        let run: Run = serde_json::from_value(whole.into()).unwrap();
        let document = json!({
            "document_id": DOCUMENT, "title": "t", "version": version, "content_hash": "0".repeat(64), "size": 1,
            "run_id": begun_by, "created_at": "2026-01-01T00:00:00Z", "changed_at": "2026-01-01T00:00:00Z", "seq": 1,
        });
        surface(&run, &[serde_json::from_value(document).unwrap()].into_iter().collect())
    }

    #[test]
    fn a_run_is_a_card_until_it_is_known_to_be_more() {
        let document = Surface::Document(DOCUMENT.parse().unwrap());
        let delegated = json!({"tasks": [{"task_id": OTHER, "parent": RUN, "objective": "o", "status": "running"}]});
        assert_eq!(shown(json!({}), 1, RUN), Surface::Card);
        assert_eq!(shown(json!({}), 2, RUN), document);
        assert_eq!(shown(delegated, 1, RUN), document);
        assert_eq!(shown(json!({"status": "completed"}), 1, RUN), document);
        assert_eq!(shown(json!({"status": "failed"}), 1, RUN), Surface::Card);
        assert_eq!(shown(json!({}), 1, OTHER), document, "a document that was there before is continued");
        assert_eq!(shown(json!({"answer": "42"}), 2, RUN), Surface::Card);
        assert_eq!(shown(json!({"document_id": null}), 2, RUN), Surface::Card);
    }
}
