//! Recorded exchanges with providers: what was asked, the bytes that came back, and what they mean.

use crate::decode::Decoder;
use crate::format::Format;
use choir_proto::model::{Answer, Delta, ErrorClass, ModelError, ModelRequest};
use serde::{Deserialize, Serialize};

/// A recorded case: a folder with `request.json`, `wire.txt` and `expected.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// How the provider speaks.
    pub format: Format,
    /// What was asked.
    pub request: ModelRequest,
    /// The body of the answer, byte for byte.
    pub wire: Vec<u8>,
    /// What it means.
    pub expected: Expected,
}

/// What a recorded body means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Expected {
    /// A whole answer.
    Answer(Box<Answer>),
    /// A failure.
    Error {
        /// Its class.
        class: ErrorClass,
        /// A part of its message.
        #[serde(default)]
        message_contains: String,
    },
}

/// Why a recorded case cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file} of the recorded case is wrong: {source}")]
pub struct CaseError {
    file: &'static str,
    source: serde_json::Error,
}

impl Case {
    /// From the contents of the three files.
    pub fn parse(format: Format, request: &[u8], wire: Vec<u8>, expected: &[u8]) -> Result<Self, CaseError> {
        let at = |file| move |source| CaseError { file, source };
        Ok(Self {
            format,
            request: serde_json::from_slice(request).map_err(at("request.json"))?,
            wire,
            expected: serde_json::from_slice(expected).map_err(at("expected.json"))?,
        })
    }

    /// Decodes the recorded bytes, cut at some positions, and gives all pieces and the end.
    pub fn play(&self, cuts: &[usize]) -> (Vec<Delta>, Result<Answer, ModelError>) {
        let model = self.request.model.clone().unwrap_or_default();
        let mut decoder = Decoder::new(self.format, model);
        let mut deltas = Vec::new();
        let mut start = 0;
        for end in cuts.iter().copied().chain([self.wire.len()]) {
            let end = end.clamp(start, self.wire.len());
            match decoder.push(&self.wire[start..end]) {
                Ok(more) => deltas.extend(more),
                Err(error) => return (deltas, Err(error)),
            }
            start = end;
        }
        (deltas, decoder.finish())
    }
}

impl Expected {
    /// Whether this is what came out.
    pub fn agrees(&self, outcome: &Result<Answer, ModelError>) -> bool {
        match (self, outcome) {
            (Self::Answer(expected), Ok(answer)) => **expected == *answer,
            (Self::Error { class, message_contains }, Err(error)) => {
                *class == error.class && error.message.contains(message_contains)
            }
            (Self::Answer(_), Err(_)) | (Self::Error { .. }, Ok(_)) => false,
        }
    }
}
