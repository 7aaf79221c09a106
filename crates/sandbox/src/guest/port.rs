//! Connections to servers that run inside, such as a page that a command serves.

use std::net::Ipv4Addr;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::credit::Credit;
use super::inflow::InflowReader;
use super::session::{Outgoing, Stopped};
use crate::protocol::{Answer, Channel, Fault, FaultCode, Progress};

/// Most bytes read at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// Carries one connection until the server closes it or the host gives it up.
pub(super) async fn connect(
    (id, port): (u64, u16),
    out: Outgoing,
    input: InflowReader,
    (credit, stopped): (Credit, Stopped),
) -> Result<Answer, Fault> {
    let absent = |_| Fault::new(FaultCode::NotFound, "nothing listens on that port");
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(absent)?;
    out.progress(id, Progress::Connected).await;
    let (reader, writer) = stream.into_split();
    let feeding = tokio::spawn(feed(writer, input));
    tokio::select! {
        () = carry(id, reader, &out, &credit) => {}
        () = stopped.wait() => {}
    }
    feeding.abort();
    Ok(Answer::Done)
}

async fn carry(id: u64, mut reader: OwnedReadHalf, out: &Outgoing, credit: &Credit) {
    while let Some(leave) = credit.leave().await {
        let mut buffer = BytesMut::zeroed(leave.bytes().min(CHUNK_BYTES));
        match reader.read(&mut buffer).await {
            Ok(length @ 1..) => {
                leave.spend(length);
                buffer.truncate(length);
                out.data(id, Channel::Output, buffer.freeze()).await;
            }
            Ok(0) | Err(_) => return,
        }
    }
}

async fn feed(mut writer: OwnedWriteHalf, mut input: InflowReader) {
    while let Some(bytes) = input.next().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
        input.taken(bytes.len()).await;
    }
    // The host has said everything; the server may still answer.
    writer.shutdown().await.ok();
}
