//! A server that is a program in the task's sandbox: one message a line, each way.

use super::session::{LastWords, Wire};
use bytes::Bytes;
use choir_sandbox::protocol::Ending;
use choir_sandbox::runtime::{CallError, ExecEvent, ExecHandle, ExecInput};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

/// The longest message. Answers are shortened for the model, but are kept whole.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Messages of one conversation: one that never ends is none.
const MESSAGES_MAX: usize = 100_000;
/// Lines that are no messages. Some programs greet on their standard output; more than a few words is something else.
const STRAY_LINES_MAX: usize = 20;
/// Messages that may wait to be read.
const QUEUE_MAX: usize = 64;
/// Of what it says on its standard error, the end.
const LAST_BYTES_MAX: usize = 400;

/// Speaks to a running program.
pub(super) fn speak(running: ExecHandle) -> Wire<Program> {
    let (sender, messages) = mpsc::channel(QUEUE_MAX);
    let last_words = LastWords::default();
    let input = running.input();
    tokio::spawn(Listener { running, sender, last_words: last_words.clone() }.listen());
    Wire { transport: Program { input, messages }, last_words }
}

/// The transport. Its end ends the program.
pub(super) struct Program {
    input: ExecInput,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

impl Transport<RoleClient> for Program {
    type Error = CallError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), CallError>> + Send + 'static {
        let input = self.input.clone();
        let mut line = serde_json::to_vec(&message).unwrap_or_default();
        line.push(b'\n');
        async move { input.write(Bytes::from(line)).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), CallError> {
        self.messages.close();
        Ok(())
    }
}

struct Listener {
    running: ExecHandle,
    sender: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    last_words: LastWords,
}

impl Listener {
    /// Until the program ends, says too much, or nobody listens any more. Then it is ended.
    async fn listen(mut self) {
        let (mut lines, mut errors) = (Lines::default(), Vec::new());
        loop {
            let event = tokio::select! {
                event = self.running.next() => event,
                () = self.sender.closed() => return,
            };
            let bytes = match event {
                Ok(ExecEvent::Stdout(bytes)) => bytes,
                Ok(ExecEvent::Stderr(bytes)) => {
                    errors.extend_from_slice(&bytes);
                    errors.drain(..errors.len().saturating_sub(LAST_BYTES_MAX));
                    continue;
                }
                Ok(ExecEvent::Exit(finished)) => return self.last_words.say(ended(finished.exit.ending, &errors)),
                Err(error) => return self.last_words.say(format!("is gone: {error}")),
            };
            match lines.take(&bytes) {
                Err(too_much) => return self.last_words.say(too_much),
                Ok(messages) => {
                    for message in messages {
                        if self.sender.send(message).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

fn ended(ending: Ending, errors: &[u8]) -> String {
    let how = match ending {
        Ending::Code(code) => format!("ended with exit code {code}"),
        Ending::Signal(signal) => format!("was ended by signal {signal}"),
        Ending::TimedOut => "was ended because its time was up".to_owned(),
        Ending::Killed => "was ended".to_owned(),
    };
    let words: String = String::from_utf8_lossy(errors).chars().filter(|c| !c.is_control() || *c == '\n').collect();
    match words.trim() {
        "" => how,
        words => format!("{how} (it said: {})", words.replace('\n', " ")),
    }
}

/// Messages out of bytes that end anywhere.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    messages: usize,
    stray: usize,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<RxJsonRpcMessage<RoleClient>>, &'static str> {
        let mut messages = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            messages.extend(self.message(&line)?);
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > MESSAGE_BYTES_MAX {
            return Err("sent a message that is too long");
        }
        Ok(messages)
    }

    fn message(&mut self, line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleClient>>, &'static str> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        self.messages += 1;
        match serde_json::from_slice(line) {
            _ if self.messages > MESSAGES_MAX => Err("said more than anybody asked for"),
            Ok(message) => Ok(Some(message)),
            Err(_) if self.stray >= STRAY_LINES_MAX => Err("speaks something else than MCP"),
            Err(_) => {
                self.stray += 1;
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_being_cut_anywhere_and_floods_end() {
        let text = b"hello\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let first = lines.take(&text[..cut]).unwrap().len();
            assert_eq!(first + lines.take(&text[cut..]).unwrap().len(), 2, "cut at {cut}");
        }
        let mut lines = Lines::default();
        assert!(lines.take(&b"no\n".repeat(STRAY_LINES_MAX)).is_ok());
        assert!(lines.take(b"no\n").is_err());
        let mut lines = Lines::default();
        assert!(lines.take(&vec![b'x'; MESSAGE_BYTES_MAX + 1]).is_err());
    }
}
