//! The decoder against bytes that were once a conversation: seeded, bounded, and the same every time.
//!
//! `CHOIR_FUZZ_CASES` and `CHOIR_FUZZ_SEED` make it longer or another one; a failure names its case's seed.

use bytes::{Bytes, BytesMut};

use super::frame::decode_in_pieces;
use super::*;
use crate::path::RelativePath;
use crate::tree::ContentHash;

/// Cases of every run; the long form is `CHOIR_FUZZ_CASES=1000000`.
const CASES: u64 = 20_000;

/// A small generator (xorshift64*): the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap_or_default() % below.max(1)
    }

    fn number(&mut self) -> u64 {
        [0, 1, 7, u64::from(u32::MAX), u64::MAX, self.0][self.roll(6)]
    }
}

fn path(dice: &mut Dice) -> RelativePath {
    let names = ["a", "a/b", "é", "x y", "deep/er/still"];
    RelativePath::parse(names[dice.roll(names.len())]).expect("a good path")
}

fn asked(dice: &mut Dice) -> Ask {
    let tree = ContentHash::of(b"tree");
    let effect = EffectId::parse("effect").expect("a good id");
    match dice.roll(10) {
        0 => Ask::Kill { target: dice.number() },
        1 => Ask::Read { path: path(dice), offset: dice.number(), length: dice.number() },
        2 => Ask::Write { path: path(dice), mode: Some(0o644), size: dice.number() },
        3 => Ask::List { path: path(dice), after: Some(path(dice)), limit: 7 },
        4 => {
            let changes = vec![TreeChange { base: tree, result: tree }; dice.roll(4)];
            Ask::Undo { changes, only: None, again: true }
        }
        5 => Ask::PrepareTask { task: effect, base: tree },
        6 => Ask::ResizeTerminal { target: dice.number(), size: TerminalSize { columns: 80, rows: 24 } },
        7 => Ask::Connect { port: 80 },
        8 => Ask::Rename { from: path(dice), to: path(dice) },
        _ => Ask::Health,
    }
}

fn replied(dice: &mut Dice) -> Reply {
    match dice.roll(7) {
        0 => Reply::Progress(Progress::Started { pid: -1 }),
        1 => Reply::Progress(Progress::InputTaken { bytes: dice.number() }),
        2 => Reply::Progress(Progress::Changed { paths: vec![path(dice)], incomplete: true }),
        3 => Reply::Done(Answer::Exited(Exit {
            ending: Ending::Code(dice.roll(300) as i32),
            duration_ms: dice.number(),
        })),
        4 => Reply::Done(Answer::Part { size: dice.number() }),
        5 => Reply::Failed(Fault::new(FaultCode::System, "a fault")),
        _ => Reply::Done(Answer::Done),
    }
}

fn frame(dice: &mut Dice) -> Frame {
    let id = dice.number();
    match dice.roll(3) {
        0 => control_frame(&FromHost::Request(Request { id, ask: asked(dice) })).expect("fits"),
        1 => control_frame(&FromGuest::Reply { id, reply: replied(dice) }).expect("fits"),
        _ => Frame::Data { id, channel: Channel::Output, bytes: Bytes::from(vec![7; dice.roll(300)]) },
    }
}

/// A conversation with a few things wrong.
fn stream(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for _ in 0..1 + dice.roll(4) {
        frame(dice).encode(&mut bytes).expect("fits");
    }
    let mut bytes = bytes.to_vec();
    for _ in 0..dice.roll(5) {
        let at = dice.roll(bytes.len());
        match dice.roll(6) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5)],
            2 => drop(bytes.drain(at..(at + 1 + dice.roll(8)).min(bytes.len()))),
            3 => bytes.insert(at, dice.roll(256) as u8),
            4 => bytes.extend_from_within(at..),
            _ => bytes.truncate(at),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

/// Whoever reads it, it is a message or it is not; what it is can be said again.
fn read_message(json: &Bytes) -> u64 {
    let from_host = serde_json::from_slice::<FromHost>(json).ok();
    let from_guest = serde_json::from_slice::<FromGuest>(json).ok();
    if let Some(message) = &from_host {
        let again = serde_json::to_vec(message).expect("is written");
        assert_eq!(serde_json::from_slice::<FromHost>(&again).ok().as_ref(), Some(message));
    }
    if let Some(message) = &from_guest {
        let again = serde_json::to_vec(message).expect("is written");
        assert_eq!(serde_json::from_slice::<FromGuest>(&again).ok().as_ref(), Some(message));
    }
    u64::from(from_host.is_some() || from_guest.is_some())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn fuzz_no_bytes_harm_the_decoder() {
    let (cases, first) = (setting("CHOIR_FUZZ_CASES").unwrap_or(CASES), setting("CHOIR_FUZZ_SEED").unwrap_or(1));
    let (mut whole, mut refused, mut messages) = (0_u64, 0_u64, 0_u64);
    for seed in first..first + cases {
        let stream = stream(&mut Dice::new(seed));
        let (frames, error) = decode_in_pieces(&stream, &[stream.len()]);
        let singly = decode_in_pieces(&stream, &[1 + (seed % 13) as usize]);
        assert_eq!(singly, (frames.clone(), error), "seed {seed}");
        refused += u64::from(error.is_some());
        whole += frames.len() as u64;
        let controls = frames.iter().filter_map(|frame| match frame {
            Frame::Control(json) => Some(json),
            Frame::Data { .. } => None,
        });
        messages += controls.map(read_message).sum::<u64>();
    }
    println!("{cases} cases from seed {first}: {whole} frames, {messages} messages, {refused} refused streams");
    // A fuzz that never gets past the first check, or never meets it, shows nothing.
    assert!(whole > cases && messages > cases / 4 && refused > cases / 20);
}
