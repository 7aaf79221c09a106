//! Documents, what is proposed for them, and the evidence under them.

use crate::document::{Decision, Figure, Sketch, TextChange};
use crate::{ArtifactId, DocumentId, Hash};
use serde::{Deserialize, Serialize};

payload! {
    /// A document began.
    DocumentCreated {
        /// Its name.
        document_id: DocumentId,
        /// For people.
        title: String,
    }
}
payload! {
    /// A point in a document's life.
    DocumentVersioned {
        /// Which document.
        document_id: DocumentId,
        /// Its number, from 1.
        version: u32,
        /// For people.
        title: String,
        /// The text's hash; where `content` is absent it names a blob.
        content_hash: Hash,
        /// The text itself while it is short: one sync keeps the fact and its words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Its length in bytes.
        size: u64,
        /// Why.
        reason: String,
    }
}
payload! {
    /// The words of a document changed. Every change has a version's number; not every version has a name.
    DocumentUpdated {
        /// Which document.
        document_id: DocumentId,
        /// The number of the text after it.
        version: u32,
        /// What changed, in order, each against the text before all of them.
        changes: Vec<TextChange>,
        /// The same for replicas: a Yjs update (version 1) in base64. One that is too long for an event is absent, and
        /// the state that holds it is kept beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        update: Option<String>,
        /// The hash of the text after it.
        content_hash: Hash,
        /// The text's length in bytes.
        size: u64,
        /// The tool call that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect_id: Option<String>,
        /// Set while the answer that holds the call was still being said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sketch: Option<Sketch>,
    }
}
payload! {
    /// A document's replica was kept as a whole, so that opening it need not read every update.
    DocumentCompacted {
        /// Which document.
        document_id: DocumentId,
        /// The version it is of.
        version: u32,
        /// A Yjs update (version 1) that holds everything, as a blob.
        state: Hash,
    }
}
payload! {
    /// An agent would change what a person wrote.
    ProposalMade {
        /// Which document.
        document_id: DocumentId,
        /// Its name within the document.
        proposal_id: String,
        /// The named version that it is against.
        version: u32,
        /// Where it begins in that version's text, in bytes.
        from: u64,
        /// What is there.
        old: String,
        /// What would be there.
        new: String,
        /// The tool call that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect_id: Option<String>,
    }
}
payload! {
    /// An agent found words in a source, exactly as it quotes them.
    CitationMade {
        /// Its name.
        citation_id: String,
        /// The document it is evidence for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document_id: Option<DocumentId>,
        /// The source's bytes.
        source: Hash,
        /// The artifact that the source is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        artifact_id: Option<ArtifactId>,
        /// First byte of the words in the source.
        from: u64,
        /// After the last.
        to: u64,
        /// Of the quoted bytes.
        hash: Hash,
        /// The words.
        quote: String,
    }
}
payload! {
    /// A person said yes or no to a proposal.
    ProposalDecided {
        /// Which document.
        document_id: DocumentId,
        /// Which proposal.
        proposal_id: String,
        /// What they said.
        decision: Decision,
    }
}
payload! {
    /// A figure was made, is being made, or no longer shows what is so.
    FigureChanged {
        /// Which document.
        document_id: DocumentId,
        /// As it is now.
        figure: Figure,
    }
}
payload! {
    /// A document was put away; its versions stay in the log.
    DocumentTrashed {
        /// Which document.
        document_id: DocumentId,
        /// Why.
        reason: String,
    }
}
payload! {
    /// A person put a document into the trash. Nothing of it is gone: it is only not listed.
    DocumentRemoved {
        /// Which document.
        document_id: DocumentId,
    }
}
payload! {
    /// A person took a document out of the trash.
    DocumentRestored {
        /// Which document.
        document_id: DocumentId,
    }
}
payload! {
    /// Something was brought in.
    ArtifactImported {
        /// Its name.
        artifact_id: ArtifactId,
        /// Its bytes.
        content_hash: Hash,
        /// Their number.
        size: u64,
        /// For example `text/html`.
        media_type: String,
        /// A file name or URL; a claim, not a fact.
        origin: String,
        /// The text in it, where that had to be parsed out: this is what can be quoted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Hash>,
        /// Why no text could be parsed out, where one should be in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unreadable: Option<String>,
    }
}

impl ArtifactImported {
    /// The origin of what was brought in without a name.
    pub const UNNAMED: &'static str = "upload";
}
