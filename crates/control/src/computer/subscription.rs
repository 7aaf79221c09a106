//! The one subscription to a computer's log: every line is checked to follow the one before, then published.

use super::hub::Hub;
use super::link::{Link, LinkError, request};
use axum::body::Body;
use axum::extract::ws::Utf8Bytes;
use bytes::{Bytes, BytesMut};
use choir_proto::event::PAYLOAD_BYTES_MAX;
use choir_proto::wire::Head;
use choir_proto::{Hash, Seq};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::sync::watch;

/// Longest line: what an event may hold, and its envelope. Nearly all lines are far shorter.
pub(crate) const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);

/// Why a subscription ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the stream ended")]
    Ended,
    #[error("a line of the stream cannot be read")]
    Line(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("event {found} came after event {after}")]
    Hole { after: Seq, found: Seq },
    #[error("event {0} does not follow from the one before: its log was rewritten")]
    Chain(Seq),
    #[error("the log ends at {found}, but control has seen {seen}")]
    Shorter { seen: Seq, found: Seq },
}

/// What control has to know of a line; the rest is passed on unread.
#[derive(Deserialize)]
struct Line {
    seq: Option<Seq>,
    prev: Option<Hash>,
    hash: Option<Hash>,
    kind: Option<String>,
}

/// An event that says that another one was erased.
#[derive(Deserialize)]
struct Erasure {
    payload: Erased,
}

#[derive(Deserialize)]
struct Erased {
    seq: Seq,
}

const ERASED: &str = "payload.erased";

/// Follows the log until it breaks. `head` is where control has got to, over restarts.
pub(super) async fn follow(link: &Link, hub: &Hub, head: &watch::Sender<Option<Head>>) -> Broken {
    match read(link, hub, head).await {
        Ok(()) => Broken::Ended,
        Err(broken) => broken,
    }
}

async fn read(link: &Link, hub: &Hub, head: &watch::Sender<Option<Head>>) -> Result<(), Broken> {
    let after = start(link, hub, head).await?;
    let path = format!("/internal/stream?after={after}");
    let response = link.send(request(Method::GET, &path, Body::empty())).await?;
    if !response.status().is_success() {
        return Err(LinkError::Refused(response.status()).into());
    }
    let mut body = response.into_body();
    let mut lines = Lines::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(LinkError::from)?.into_data() else { continue };
        let mut batch = Vec::new();
        lines.add(data, &mut batch)?;
        publish(hub, head, batch)?;
    }
    Ok(())
}

/// Where to subscribe: at the log's end the first time, where the last subscription broke afterwards.
async fn start(link: &Link, hub: &Hub, head: &watch::Sender<Option<Head>>) -> Result<Seq, Broken> {
    let known = *head.borrow();
    let found: Head = link.get("/internal/head").await?;
    let seen = hub.head().into_iter().chain(known.map(|head| head.seq)).max().unwrap_or(Seq::ZERO);
    if found.seq < seen {
        return Err(Broken::Shorter { seen, found: found.seq });
    }
    if let Some(known) = known.filter(|known| known.seq > Seq::ZERO) {
        agree(link, known).await?;
    }
    match hub.head() {
        Some(head) => Ok(head),
        None => {
            hub.begin(found.seq);
            // Signed from the first event on: a log that is lost before its second start is missed too.
            if found.seq > Seq::ZERO {
                head.send_if_modified(|head| head.replace(found) != Some(found));
            }
            Ok(found.seq)
        }
    }
}

/// The log must still hold, at the last position that control has signed, the event that it signed.
async fn agree(link: &Link, known: Head) -> Result<(), Broken> {
    // Asked whether it holds it, not for the event: that may be far longer than what is read whole.
    match link.post("/internal/holds", &known).await {
        Ok(()) => Ok(()),
        Err(LinkError::Refused(StatusCode::CONFLICT)) => Err(Broken::Chain(known.seq)),
        Err(error) => Err(error.into()),
    }
}

fn publish(hub: &Hub, head: &watch::Sender<Option<Head>>, batch: Vec<Bytes>) -> Result<(), Broken> {
    let mut last = hub.head().unwrap_or(Seq::ZERO);
    let mut signed = *head.borrow();
    let mut lines = Vec::with_capacity(batch.len());
    let mut erased = None;
    for bytes in batch {
        let text = Utf8Bytes::try_from(bytes).map_err(|error| Broken::Line(error.into()))?;
        let line: Line = serde_json::from_str(&text).map_err(|error| Broken::Line(error.into()))?;
        if let Some(seq) = line.seq {
            if seq != last.next() {
                return Err(Broken::Hole { after: last, found: seq });
            }
            signed = Some(check(signed, seq, &line)?);
            last = seq;
            if line.kind.as_deref() == Some(ERASED) {
                // A line that does not say what was erased may mean any event before it.
                let said = serde_json::from_str::<Erasure>(&text).map_or(seq, |said| said.payload.seq);
                erased = erased.max(Some(said));
            }
        }
        lines.push((line.seq, text));
    }
    hub.publish(lines, erased);
    head.send_if_modified(|head| std::mem::replace(head, signed) != signed);
    Ok(())
}

/// An event must name the hash of the one before it, if control saw that one.
fn check(before: Option<Head>, seq: Seq, line: &Line) -> Result<Head, Broken> {
    let (Some(prev), Some(hash)) = (line.prev, line.hash) else { return Err(Broken::Chain(seq)) };
    match before {
        Some(before) if before.seq.next() == seq && before.hash != prev => Err(Broken::Chain(seq)),
        _ => Ok(Head { seq, hash }),
    }
}

/// Cuts a byte stream into lines.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
    /// As far as it is known to hold no end: a long line comes in many parts, and none is looked at twice.
    seen: usize,
}

impl Lines {
    fn add(&mut self, data: Bytes, lines: &mut Vec<Bytes>) -> Result<(), Broken> {
        self.rest.extend_from_slice(&data);
        while let Some(end) = self.rest[self.seen..].iter().position(|byte| *byte == b'\n') {
            let end = self.seen + end;
            self.seen = 0;
            let mut line = self.rest.split_to(end + 1);
            line.truncate(end);
            if !line.is_empty() {
                lines.push(line.freeze());
            }
        }
        self.seen = self.rest.len();
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(Broken::Line(format!("it is longer than {LINE_BYTES_MAX} bytes").into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_bytes_are() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for byte in b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"" {
            lines.add(Bytes::copy_from_slice(&[*byte]), &mut seen).unwrap();
        }
        assert_eq!(seen, [&b"{\"a\":1}"[..], b"{\"b\":2}"]);
    }

    /// Bytes are looked at once: a line of many megabytes in small parts would take minutes otherwise.
    #[test]
    fn a_long_line_in_many_parts_is_looked_at_once() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for _ in 0..64 {
            lines.add(Bytes::from_static(&[b'x'; 1024]), &mut seen).unwrap();
            assert_eq!(lines.seen, lines.rest.len());
        }
        lines.add(Bytes::from_static(b"\nnext\nrest"), &mut seen).unwrap();
        assert_eq!((seen.len(), seen[0].len(), &seen[1][..], lines.seen), (2, 64 * 1024, &b"next"[..], 4));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::default();
        let flood = Bytes::from(vec![b'x'; LINE_BYTES_MAX + 1]);
        assert!(matches!(lines.add(flood, &mut Vec::new()), Err(Broken::Line(_))));
    }

    #[test]
    fn a_hole_and_a_rewritten_past_are_refused() {
        let hub = Hub::default();
        hub.begin(Seq(4));
        let (head, _) = watch::channel(None);
        let event = |seq: u64, prev: u8, hash: u8| {
            let (prev, hash) = (Hash([prev; 32]), Hash([hash; 32]));
            Bytes::from(format!(r#"{{"seq":{seq},"prev":"{prev}","hash":"{hash}"}}"#))
        };
        publish(&hub, &head, vec![event(5, 1, 2)]).unwrap();
        assert!(matches!(publish(&hub, &head, vec![event(7, 2, 3)]), Err(Broken::Hole { .. })));
        assert!(matches!(publish(&hub, &head, vec![event(6, 9, 3)]), Err(Broken::Chain(Seq(6)))));
        publish(&hub, &head, vec![event(6, 2, 3), Bytes::from_static(br#"{"kind":"live"}"#)]).unwrap();
        assert_eq!(head.borrow().unwrap().seq, Seq(6));
    }
}
