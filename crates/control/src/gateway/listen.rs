//! An answer while it comes: every piece is passed on at once, and one that comes without end or without content is left.

use super::model::Frames;
use super::veil::Veil;
use choir_llm::Decoder;
use choir_proto::model::{Delta, ModelError};
use choir_proto::wire::ModelFrame;
use futures_util::{Stream, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a provider may give signs of life and nothing else. Some think for minutes behind their keep-alives.
pub(super) const STALL: Duration = Duration::from_secs(5 * 60);

/// How long the end of a connection may take after the end of its answer.
const END: Duration = Duration::from_secs(1);

/// Why an answer did not come to its end.
#[derive(Debug)]
pub(super) enum Broken<E> {
    /// The connection failed.
    Connection(E),
    /// There were signs of life for [`STALL`], and nothing else.
    Stalled,
    /// What came is no answer.
    Answer(ModelError),
    /// Nobody wants it any more.
    Unwanted,
}

/// Feeds a decoder until the provider has said everything, and passes on what it understands. Some say that nothing follows and
/// keep the connection open: whoever waits for its end waits in vain.
pub(super) async fn listen<B: AsRef<[u8]>, E>(
    decoder: &mut Decoder,
    mut pieces: impl Stream<Item = Result<B, E>> + Unpin,
    frames: &Frames,
    veil: &mut Veil<'_>,
    heard: &mut impl FnMut(usize),
) -> Result<(), Broken<E>> {
    let pass = async |delta| frames.send(ModelFrame::Delta(delta)).await.map_err(|_| Broken::Unwanted);
    let mut said = Instant::now();
    while let Some(piece) = timeout_at(said + STALL, pieces.next()).await.map_err(|_| Broken::Stalled)? {
        for delta in decoder.push(piece.map_err(Broken::Connection)?.as_ref()).map_err(Broken::Answer)? {
            said = Instant::now();
            heard(length(&delta));
            if let Some(delta) = veil.pass(delta) {
                pass(delta).await?;
            }
        }
        if decoder.is_done() {
            break;
        }
    }
    for delta in veil.rest() {
        pass(delta).await?;
    }
    Ok(())
}

/// Reads what follows an answer, which is nothing: a connection that came to its end can be used again. Nobody waits for it.
pub(super) fn let_end<B: Send, E: Send>(mut pieces: impl Stream<Item = Result<B, E>> + Send + Unpin + 'static) {
    tokio::spawn(async move {
        // One that stays open is let go.
        tokio::time::timeout(END, async { while let Some(Ok(_)) = pieces.next().await {} }).await.ok();
    });
}

fn length(delta: &Delta) -> usize {
    match delta {
        Delta::Text { text } | Delta::Reasoning { text } => text.len(),
        Delta::Arguments { fragment, .. } => fragment.len(),
        Delta::ToolCall { name, .. } => name.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_llm::Format;
    use futures_util::stream;
    use tokio::sync::mpsc;
    use tokio::time::interval_at;

    const EVERY: Duration = Duration::from_secs(20);
    const PIECES: u32 = 1_000;

    /// A provider that says something a few times, and then only that it is there.
    async fn lives(words: u32) -> (Result<(), Broken<()>>, Duration) {
        let piece = move |index: u32| {
            let word = r#"data: {"choices":[{"delta":{"content":"a"}}]}"#;
            Ok::<_, ()>(format!("{}\n\n", if index < words { word } else { ": still here" }))
        };
        let ticks = interval_at(Instant::now() + EVERY, EVERY);
        let pieces = stream::unfold((ticks, 0), |(mut ticks, index)| async move {
            ticks.tick().await;
            (index < PIECES).then(|| (piece(index), (ticks, index + 1)))
        });
        let (frames, mut heard) = mpsc::channel(64);
        let reader = tokio::spawn(async move { while heard.recv().await.is_some() {} });
        let before = Instant::now();
        let ended = listen(
            &mut Decoder::new(Format::OpenAi, "a/b"),
            Box::pin(pieces),
            &frames,
            &mut Veil::of(None),
            &mut |_| (),
        )
        .await;
        drop(frames);
        reader.await.unwrap();
        (ended, before.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_whole_needs_no_end_of_its_connection() {
        let openai = r#"data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#.to_owned() + "\n\n";
        let anthropic = r#"data: {"type":"message_start","message":{}}"#.to_owned() + "\n\n";
        let done = "data: [DONE]\n\n".to_owned();
        let stop = "data: {\"type\":\"message_stop\"}\n\n".to_owned();
        for (format, said) in [(Format::OpenAi, [openai, done]), (Format::Anthropic, [anthropic, stop])] {
            let open = stream::iter(said.map(Ok::<_, ()>)).chain(stream::pending());
            let (frames, _heard) = mpsc::channel(64);
            let before = Instant::now();
            listen(&mut Decoder::new(format, "a/b"), Box::pin(open), &frames, &mut Veil::of(None), &mut |_| ())
                .await
                .unwrap();
            assert_eq!(before.elapsed(), Duration::ZERO, "{format:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_without_a_word_are_not_listened_to_for_ever() {
        for words in [0, 3] {
            let (ended, took) = lives(words).await;
            assert!(matches!(ended, Err(Broken::Stalled)), "{ended:?}");
            assert_eq!(took, EVERY * words + STALL);
        }
        let (ended, took) = lives(PIECES).await;
        assert!(ended.is_ok() && took > STALL, "whoever goes on talking is heard: {ended:?}");
    }
}
