//! A guest that fell into the hands of what it runs: whatever it is asked, it says that a command ended well.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytes::BytesMut;

use crate::protocol::{
    Answer, Ending, Exit, Frame, FromGuest, FromHost, GuestRole, Reply, Request, StreamError, VERSION, control_frame,
    decode,
};

/// Answers to requests that were never made are told as well, up to this one.
const GUESSED_IDS_MAX: u64 = 8;

/// Lies to the end of the stream.
pub(crate) fn lie(stream: OwnedFd, role: GuestRole, landlock_abi: u32) -> Result<(), StreamError> {
    let mut stream = UnixStream::from(stream);
    say(&mut stream, &FromGuest::Hello { version: VERSION, role, landlock_abi })?;
    let mut buffer = BytesMut::new();
    loop {
        let mut part = [0; 4096];
        match std::io::Read::read(&mut stream, &mut part)? {
            0 => return Ok(()),
            read => buffer.extend_from_slice(&part[..read]),
        }
        while let Some(frame) = decode(&mut buffer)? {
            let asked = match &frame {
                Frame::Control(json) => serde_json::from_slice(json).ok(),
                Frame::Data { .. } => None,
            };
            match asked {
                Some(FromHost::Request(Request { id, .. })) => say(&mut stream, &ended_well(id))?,
                Some(FromHost::Hello { .. }) => {
                    (1..=GUESSED_IDS_MAX).try_for_each(|id| say(&mut stream, &ended_well(id)))?;
                }
                _ => {}
            }
        }
    }
}

fn ended_well(id: u64) -> FromGuest {
    let exit = Exit { ending: Ending::Code(0), duration_ms: 1 };
    FromGuest::Reply { id, reply: Reply::Done(Answer::Exited(exit)) }
}

fn say(stream: &mut UnixStream, message: &FromGuest) -> Result<(), StreamError> {
    let mut out = BytesMut::new();
    control_frame(message)?.encode(&mut out)?;
    Ok(stream.write_all(&out)?)
}
