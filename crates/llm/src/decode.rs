//! From the bytes of a provider's answer to the answer.

use crate::assembly::Assembly;
use crate::classify::{fault, page_title};
use crate::format::Format;
use crate::sse::{self, Tail};
use crate::{anthropic, openai};
use choir_proto::model::{Answer, Delta, ErrorClass, ModelError};
use serde_json::Value;

/// Longest answer of a server that does not stream although it was asked to.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of a byte order mark; nothing else may begin with them.
const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Reads one answer, fed with its bytes as they arrive, however they are cut.
#[derive(Debug)]
pub struct Decoder {
    model: String,
    body: Body,
    stream: Stream,
    assembly: Assembly,
    /// The first failure; everything after it is ignored.
    failed: Option<ModelError>,
    /// The provider said that nothing follows.
    done: bool,
}

/// What the body turned out to be.
#[derive(Debug)]
enum Body {
    /// Only blanks so far.
    Unknown,
    Events(sse::Parser),
    /// One JSON document, from a server that does not stream.
    Whole(Vec<u8>),
    /// A page for browsers, from something in front of the provider.
    Page(Vec<u8>),
    /// Frames of an event stream.
    #[cfg(feature = "bedrock")]
    Frames(crate::bedrock::frames::Parser),
}

#[derive(Debug)]
enum Stream {
    Anthropic(anthropic::stream::Stream),
    OpenAi(openai::stream::Stream),
    #[cfg(feature = "bedrock")]
    Bedrock(crate::bedrock::stream::Stream),
}

/// Whether more is to come after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

impl Decoder {
    /// For one answer of `model` (`PROVIDER/MODEL`, as the answer will name it).
    pub fn new(format: Format, model: impl Into<String>) -> Self {
        let stream = match format {
            Format::Anthropic => Stream::Anthropic(anthropic::stream::Stream::default()),
            Format::OpenAi => Stream::OpenAi(openai::stream::Stream::default()),
            #[cfg(feature = "bedrock")]
            Format::Bedrock => Stream::Bedrock(crate::bedrock::stream::Stream::default()),
        };
        let body = match format {
            Format::Anthropic | Format::OpenAi => Body::Unknown,
            #[cfg(feature = "bedrock")]
            Format::Bedrock => Body::Frames(crate::bedrock::frames::Parser::default()),
        };
        Self { model: model.into(), body, stream, assembly: Assembly::default(), failed: None, done: false }
    }

    /// Takes the next bytes and gives the pieces that they complete.
    ///
    /// Pieces that came before a failure are given first; the failure is then the answer of the next call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let outcome = self.read(bytes);
        let deltas = self.assembly.take_deltas();
        match outcome {
            Ok(()) => Ok(deltas),
            Err(error) => {
                self.failed = Some(error.clone());
                if deltas.is_empty() { Err(error) } else { Ok(deltas) }
            }
        }
    }

    /// Whether the provider has said that nothing follows, or nothing could be understood any more.
    pub fn is_done(&self) -> bool {
        self.done || self.failed.is_some()
    }

    /// The whole answer, once all bytes have been pushed.
    pub fn finish(mut self) -> Result<Answer, ModelError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match std::mem::replace(&mut self.body, Body::Unknown) {
            Body::Unknown => return Err(truncated("the provider closed the connection without an answer")),
            Body::Events(parser) => self.end_events(parser)?,
            Body::Whole(body) => self.end_whole(&body)?,
            Body::Page(page) => return Err(page_instead(&page)),
            #[cfg(feature = "bedrock")]
            Body::Frames(parser) if !self.stream.begun() && parser.is_empty() => {
                return Err(truncated("the provider closed the connection without an answer"));
            }
            #[cfg(feature = "bedrock")]
            Body::Frames(_) if self.stream.ended() => {}
            #[cfg(feature = "bedrock")]
            Body::Frames(_) => return Err(cut()),
        }
        self.stream.end(&mut self.assembly)?;
        self.assembly.finish(self.model)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let mut rest = bytes;
        if matches!(self.body, Body::Unknown) {
            let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !MARK.contains(byte));
            rest = &bytes[start.unwrap_or(bytes.len())..];
            if let Some(first) = rest.first() {
                self.body = Body::beginning_with(*first);
            }
        }
        match &mut self.body {
            Body::Unknown => Ok(()),
            Body::Whole(body) | Body::Page(body) => collect(body, rest),
            #[cfg(feature = "bedrock")]
            Body::Frames(parser) => {
                parser.push(rest);
                while !self.done
                    && let Some(event) = parser.next()?
                {
                    self.done = self.stream.event(&event.to_string(), &mut self.assembly)? == Progress::Done;
                }
                Ok(())
            }
            Body::Events(parser) => {
                while !self.done
                    && let Some(data) = parser.next(&mut rest)?
                {
                    self.done = self.stream.event(&data, &mut self.assembly)? == Progress::Done;
                }
                Ok(())
            }
        }
    }

    fn end_events(&mut self, parser: sse::Parser) -> Result<(), ModelError> {
        let Tail { event, stray } = parser.finish();
        // What was cut off within an event is no event; whether the answer is complete without it, the format knows.
        if !self.done
            && let Some(data) = event.filter(|data| whole_event(data))
        {
            self.stream.event(&data, &mut self.assembly)?;
        }
        match (self.stream.ended(), self.stream.begun(), stray) {
            (true, _, _) => Ok(()),
            (false, false, Some(line)) => {
                Err(fault(ErrorClass::Garbage, &format!("the provider answered with something else: {line}")))
            }
            (false, _, _) => Err(cut()),
        }
    }

    fn end_whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let value: Value = serde_json::from_slice(body).map_err(|error| {
            if error.is_eof() { cut() } else { fault(ErrorClass::Garbage, "the provider's answer is not JSON") }
        })?;
        self.stream.whole(&value, &mut self.assembly)
    }
}

impl Body {
    fn beginning_with(byte: u8) -> Self {
        match byte {
            b'{' | b'[' => Self::Whole(Vec::new()),
            b'<' => Self::Page(Vec::new()),
            _ => Self::Events(sse::Parser::default()),
        }
    }
}

impl Stream {
    fn event(&mut self, data: &str, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.event(data, assembly),
            Self::OpenAi(stream) => stream.event(data, assembly),
            #[cfg(feature = "bedrock")]
            Self::Bedrock(stream) => stream.event(&read_event(data)?, assembly),
        }
    }

    fn whole(&mut self, body: &Value, assembly: &mut Assembly) -> Result<(), ModelError> {
        match self {
            Self::Anthropic(stream) => stream.whole(body, assembly),
            Self::OpenAi(stream) => stream.whole(body, assembly),
            #[cfg(feature = "bedrock")]
            Self::Bedrock(stream) => stream.event(body, assembly).map(|_| ()),
        }
    }

    fn end(&mut self, assembly: &mut Assembly) -> Result<(), ModelError> {
        match self {
            Self::Anthropic(stream) => stream.end(assembly),
            Self::OpenAi(stream) => stream.end(assembly),
            #[cfg(feature = "bedrock")]
            Self::Bedrock(stream) => stream.end(assembly),
        }
    }

    /// Whether any event has been understood.
    fn begun(&self) -> bool {
        match self {
            Self::Anthropic(stream) => stream.begun,
            Self::OpenAi(stream) => stream.begun,
            #[cfg(feature = "bedrock")]
            Self::Bedrock(stream) => stream.begun(),
        }
    }

    /// Whether the provider came to the end of its answer.
    fn ended(&self) -> bool {
        match self {
            Self::Anthropic(stream) => stream.ended,
            Self::OpenAi(stream) => stream.ended,
            #[cfg(feature = "bedrock")]
            Self::Bedrock(stream) => stream.ended(),
        }
    }
}

fn collect(body: &mut Vec<u8>, bytes: &[u8]) -> Result<(), ModelError> {
    if body.len() + bytes.len() > BODY_BYTES_MAX {
        return Err(fault(ErrorClass::Oversized, &format!("the answer exceeds {BODY_BYTES_MAX} bytes")));
    }
    body.extend_from_slice(bytes);
    Ok(())
}

fn whole_event(data: &str) -> bool {
    data.trim() == openai::DONE || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
}

fn page_instead(page: &[u8]) -> ModelError {
    let title = page_title(&String::from_utf8_lossy(page));
    fault(ErrorClass::Garbage, &format!("the provider answered with a web page{title}; check its base_url"))
}

fn cut() -> ModelError {
    truncated("the provider's answer broke off in the middle")
}

fn truncated(message: &str) -> ModelError {
    fault(ErrorClass::Truncated, message)
}

/// Reads an event's JSON into a wire type.
pub(crate) fn read_event<'a, T: serde::Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|_| fault(ErrorClass::Garbage, &format!("the provider sent an event that makes no sense: {data}")))
}
