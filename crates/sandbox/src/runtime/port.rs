//! A connection to a server inside, as a stream on the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::connection::CallError;
use super::handle::Guest;
use super::terminal::NotAsked;
use crate::protocol::{Ask, Channel, Fault, INPUT_WINDOW_BYTES, OUTPUT_WINDOW_BYTES};

/// Bytes that wait in the stream itself.
const STREAM_BYTES: usize = 64 * 1024;

/// What the connection knows of an open port.
#[derive(Debug)]
pub(super) struct Carried {
    opened: Option<oneshot::Sender<Result<(), Fault>>>,
    /// Without a bound of its own: `waiting` bounds the bytes, and no frame is empty.
    output: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
    window: Arc<Semaphore>,
}

/// Connects to a port inside.
pub(super) async fn connect(guest: &Guest, port: u16) -> Result<DuplexStream, CallError> {
    let (opened, is_open) = oneshot::channel();
    let (sender, output) = mpsc::unbounded_channel();
    let waiting = Arc::<AtomicUsize>::default();
    let window = Arc::new(Semaphore::new(INPUT_WINDOW_BYTES));
    let carried = Carried { opened: Some(opened), output: sender, waiting: waiting.clone(), window: window.clone() };
    let id = guest.connection().connect_port(Ask::Connect { port }, carried).await?;
    is_open.await.map_err(|_| CallError::Lost)??;
    let (theirs, ours) = tokio::io::duplex(STREAM_BYTES);
    let (reader, writer) = tokio::io::split(ours);
    tokio::spawn(send(guest.clone(), id, reader, window));
    tokio::spawn(receive(guest.clone(), id, writer, output, waiting));
    Ok(theirs)
}

/// Carries what the user of the stream writes.
async fn send(guest: Guest, id: u64, mut reader: ReadHalf<DuplexStream>, window: Arc<Semaphore>) {
    let mut buffer = BytesMut::with_capacity(STREAM_BYTES);
    while let Ok(1..) = reader.read_buf(&mut buffer).await {
        if guest.connection().send_data(id, Channel::Input, buffer.split().freeze(), &window).await.is_err() {
            return;
        }
    }
    // A server that has closed already needs not be told.
    guest.connection().call(Ask::CloseInput { target: id }).await.ok();
}

/// Carries what the server says, and gives the connection up when nobody reads the stream any more.
async fn receive(
    guest: Guest,
    id: u64,
    mut writer: WriteHalf<DuplexStream>,
    mut output: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(bytes) = output.recv().await {
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        if writer.write_all(&bytes).await.is_err() {
            guest.connection().call(Ask::Kill { target: id }).await.ok();
            return;
        }
        if guest.connection().output_taken(id, bytes.len() as u64).await.is_err() {
            return;
        }
    }
    // The reader may be gone, which is as good.
    writer.shutdown().await.ok();
}

impl Carried {
    pub(super) fn window(&self) -> &Semaphore {
        &self.window
    }

    pub(super) fn connected(&mut self) {
        if let Some(opened) = self.opened.take() {
            // The caller may have given up.
            opened.send(Ok(())).ok();
        }
    }

    pub(super) fn output(&mut self, channel: Channel, bytes: Bytes) -> Result<(), NotAsked> {
        if channel != Channel::Output || self.opened.is_some() {
            return Err(NotAsked);
        }
        let waiting = self.waiting.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if waiting > OUTPUT_WINDOW_BYTES {
            return Err(NotAsked);
        }
        if !bytes.is_empty() {
            // The caller may have given up.
            self.output.send(bytes).ok();
        }
        Ok(())
    }

    /// The connection ended, or never began.
    pub(super) fn end(self, fault: Option<Fault>) {
        self.window.close();
        if let (Some(opened), Some(fault)) = (self.opened, fault) {
            // The caller may have given up.
            opened.send(Err(fault)).ok();
        }
    }
}
