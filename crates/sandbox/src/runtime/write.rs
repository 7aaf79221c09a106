//! A file that is written part by part, as its bytes come.

use super::connection::{CallError, Connection, Sent};
use super::handle::{Guest, done};
use crate::path::RelativePath;
use crate::protocol::{Ask, Channel};
use bytes::Bytes;
use std::sync::Arc;

/// A file that is being written. It takes its place when it is finished; dropped before that, it leaves nothing behind.
pub struct FileWrite {
    connection: Arc<Connection>,
    /// Nothing once its answer is waited for.
    sent: Option<Sent>,
}

impl std::fmt::Debug for FileWrite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileWrite").finish_non_exhaustive()
    }
}

pub(super) async fn begin(
    guest: &Guest,
    path: &RelativePath,
    size: u64,
    mode: Option<u32>,
) -> Result<FileWrite, CallError> {
    let connection = guest.connection().clone();
    let sent = connection.send(Ask::Write { path: path.clone(), mode, size }).await?;
    Ok(FileWrite { connection, sent: Some(sent) })
}

impl FileWrite {
    /// Sends the next bytes as fast as the guest takes them. After an error nothing more is taken; [`Self::finish`] says why.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), CallError> {
        let Some(sent) = &self.sent else { return Err(CallError::Lost) };
        self.connection.send_data(sent.id, Channel::Content, bytes, &sent.window).await
    }

    /// Waits until the file stands, after all of its bytes or after an error.
    pub async fn finish(mut self) -> Result<(), CallError> {
        let Some(sent) = self.sent.take() else { return Err(CallError::Lost) };
        done(sent.answer().await?)
    }
}

impl Drop for FileWrite {
    fn drop(&mut self) {
        let Some(target) = self.sent.as_ref().map(|sent| sent.id) else { return };
        let connection = self.connection.clone();
        // The guest waits for the rest until it hears that there is none. Without a runtime it has gone with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { connection.call(Ask::CloseInput { target }).await.map(drop) });
        }
    }
}
