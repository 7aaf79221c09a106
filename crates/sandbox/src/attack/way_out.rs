//! Ways out of a sandbox, as the suite serves them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};

/// Longest question that is read.
const QUESTION_BYTES_MAX: usize = 4096;

/// Opens a way out on a socket, which allows `127.0.0.1` on one port and nothing else of this machine. It is closed when
/// what is answered is dropped.
pub type WayOut = Arc<dyn Fn(&Path, u16) -> io::Result<Box<dyn Send + Sync>> + Send + Sync>;

/// One that allows nothing, for whoever tries the sandbox alone.
pub fn refusing() -> WayOut {
    Arc::new(|path, _| serve(path, |stream| Box::pin(refuse(stream))))
}

/// One that parses as others do and allows everything, for the control.
pub(super) fn careless(path: &Path) -> io::Result<Box<dyn Send + Sync>> {
    serve(path, |stream| Box::pin(connect_anywhere(stream)))
}

type Answering = std::pin::Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Ends what it serves.
struct Serving(tokio::task::AbortHandle, PathBuf);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
        // Its directory may be gone already.
        std::fs::remove_file(&self.1).ok();
    }
}

fn serve(path: &Path, answer: fn(UnixStream) -> Answering) -> io::Result<Box<dyn Send + Sync>> {
    let listener = UnixListener::bind(path)?;
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever asked may be gone.
            tokio::spawn(async move { answer(stream).await.ok() });
        }
    });
    Ok(Box::new(Serving(serving.abort_handle(), path.to_owned())))
}

async fn refuse(mut stream: UnixStream) -> io::Result<()> {
    read_question(&mut stream).await?;
    stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await
}

/// To the end of its head, so that the answer is not lost with what nobody has read.
async fn read_question(stream: &mut UnixStream) -> io::Result<String> {
    let mut question = Vec::new();
    while !question.windows(4).any(|end| end == b"\r\n\r\n") && question.len() < QUESTION_BYTES_MAX {
        if stream.read_buf(&mut question).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&question).into_owned())
}

async fn connect_anywhere(mut stream: UnixStream) -> io::Result<()> {
    let text = read_question(&mut stream).await?;
    let asked = text.split(' ').nth(1).unwrap_or_default();
    let authority = asked.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or(asked);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let answer: &[u8] = match TcpStream::connect(host).await {
        Ok(_) => b"HTTP/1.1 200 OK\r\n\r\n",
        Err(_) => b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
    };
    stream.write_all(answer).await
}
