//! Messages of the Yjs protocol, as they travel in binary frames.

use super::room::Leave;
use bytes::Bytes;
use choir_proto::Seq;
use std::panic::catch_unwind;
use yrs::StateVector;
use yrs::encoding::read::Cursor;
use yrs::sync::awareness::AwarenessUpdateEntry;
use yrs::sync::{AwarenessUpdate, Message, MessageReader, SyncMessage};
use yrs::updates::decoder::DecoderV1;
use yrs::updates::encoder::Encode;

/// The tag of our own message: how many of the receiver's updates are in the log, and the version that they made.
/// Programs that do not know it leave it alone, as the protocol wants.
pub const ACKNOWLEDGED: u8 = 100;

/// The tag of another: which generation of the document is spoken of. Only for whoever said theirs.
pub const GENERATION: u8 = 101;

/// Messages in one frame.
const MESSAGES_MAX: usize = 64;

/// Bytes that somebody may say of themselves: a name, a colour, a place of the cursor.
const PRESENCE_BYTES_MAX: usize = 4 * 1024;

/// What somebody said.
pub(super) enum Said {
    /// How far they are; they want what they lack.
    Vector(StateVector),
    /// What they wrote.
    Update(Vec<u8>),
    /// Where they are in the text, and who they are.
    Presence(Presence),
    /// They want to know who is there.
    WhoIsThere,
}

/// What somebody says of themselves. Passed on, never kept.
pub(super) struct Presence(AwarenessUpdate);

impl Presence {
    pub(super) fn message(&self) -> Bytes {
        encoded(&Message::Awareness(self.0.clone()))
    }

    /// The word that they left, which browsers would otherwise only guess after a while.
    pub(super) fn gone(mut self) -> Bytes {
        for entry in self.0.clients.values_mut() {
            *entry = AwarenessUpdateEntry { clock: entry.clock.saturating_add(1), json: "null".into() };
        }
        self.message()
    }
}

/// Reads a frame. Whoever sends something else is told so.
pub(super) fn read(frame: &[u8]) -> Result<Vec<Said>, Leave> {
    let garbage = || Leave::refused("this is no message of the Yjs protocol");
    // The library asserts where it could refuse.
    let read = catch_unwind(|| {
        let mut decoder = DecoderV1::new(Cursor::new(frame));
        MessageReader::new(&mut decoder).take(MESSAGES_MAX + 1).collect::<Result<Vec<_>, _>>()
    });
    let messages = read.map_err(|_| garbage())?.map_err(|_| garbage())?;
    if messages.is_empty() || messages.len() > MESSAGES_MAX {
        return Err(garbage());
    }
    messages.into_iter().map(said).collect()
}

fn said(message: Message) -> Result<Said, Leave> {
    match message {
        Message::Sync(SyncMessage::SyncStep1(vector)) => Ok(Said::Vector(vector)),
        Message::Sync(SyncMessage::SyncStep2(update) | SyncMessage::Update(update)) => Ok(Said::Update(update)),
        Message::AwarenessQuery => Ok(Said::WhoIsThere),
        Message::Awareness(presence) => match presence.clients.values().map(|entry| entry.json.len()).sum::<usize>() {
            0..=PRESENCE_BYTES_MAX => Ok(Said::Presence(Presence(presence))),
            _ => Err(Leave::refused("that is too much to say of oneself")),
        },
        Message::Auth(_) | Message::Custom(..) => Err(Leave::refused("documents are synchronised here, nothing else")),
    }
}

pub(super) fn step1(vector: StateVector) -> Bytes {
    encoded(&Message::Sync(SyncMessage::SyncStep1(vector)))
}

pub(super) fn step2(update: &[u8]) -> Bytes {
    encoded(&Message::Sync(SyncMessage::SyncStep2(update.to_vec())))
}

pub(super) fn update(update: &[u8]) -> Bytes {
    encoded(&Message::Sync(SyncMessage::Update(update.to_vec())))
}

/// Two numbers as the protocol writes numbers.
pub(super) fn acknowledged(count: u64, version: u32) -> Bytes {
    use yrs::encoding::write::Write;
    let mut numbers = Vec::new();
    numbers.write_var(count);
    numbers.write_var(version);
    encoded(&Message::Custom(ACKNOWLEDGED, numbers))
}

pub(super) fn generation(generation: Seq) -> Bytes {
    use yrs::encoding::write::Write;
    let mut number = Vec::new();
    number.write_var(generation.0);
    encoded(&Message::Custom(GENERATION, number))
}

fn encoded(message: &Message) -> Bytes {
    message.encode_v1().into()
}
