//! Terminals of the open desktop, in one associate on the live workspace. They outlive every browser tab.

use super::{AboveCeiling, Error, Sandboxes, lead_out};
use crate::egress::Proxy;
use crate::secret::random_bytes;
use bytes::Bytes;
use choir_proto::TerminalId;
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{Command, EffectId, Ending, OpenTerminal, TerminalSize};
use choir_sandbox::runtime::{self, Guest, TerminalEvent, TerminalOutput};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// Terminals at once.
const TERMINALS_MAX: usize = 32;
/// Pieces of output that a viewer may be behind. One that falls further gets the whole screen instead.
const BEHIND_MAX: usize = 256;
/// Processes of an associate in which nothing goes on: its guest.
const PROCESSES_AT_REST: u32 = 1;
/// How often, and after which pauses, it is looked whether what a terminal left behind is gone: a shell's last processes end
/// with it.
const LOOKS: usize = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// What goes on after them was meant to, and is looked for ever less often, but not less often than this.
const LATER_PAUSE: Duration = Duration::from_secs(1);
const LATER_PAUSE_MAX: Duration = Duration::from_secs(60);
/// A login shell, as people expect it.
const SHELL: &str = r"command -v bash >/dev/null && PS1='\w \$ ' exec bash -i; exec sh -i";

/// One terminal.
#[derive(Debug)]
pub struct Terminal {
    /// Its name.
    pub id: TerminalId,
    handle: runtime::Terminal,
    size: Mutex<TerminalSize>,
    shown: broadcast::Sender<Shown>,
    /// How its shell ended; nothing while it runs.
    ended: watch::Receiver<Option<Ended>>,
}

/// How a terminal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Of its shell, when it ended by itself.
    pub exit_code: Option<i32>,
}

/// What a terminal shows to all its viewers.
#[derive(Debug, Clone)]
enum Shown {
    Output(Bytes),
    /// All of it, for whoever has seen nothing yet; everybody else has seen it come.
    Screen(Bytes),
}

/// One window onto a terminal.
#[derive(Debug)]
pub struct Viewer {
    terminal: Arc<Terminal>,
    shown: broadcast::Receiver<Shown>,
    sight: Sight,
}

/// What a viewer has seen of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Nothing, or not enough: the whole screen comes first.
    Nothing,
    /// All until now.
    All,
}

impl Sight {
    /// What a viewer draws of what is shown to everybody.
    fn see(&mut self, shown: Shown) -> Option<Bytes> {
        match (shown, *self) {
            (Shown::Screen(bytes), Self::Nothing) => {
                *self = Self::All;
                Some(bytes)
            }
            (Shown::Output(bytes), Self::All) => Some(bytes),
            (Shown::Output(_), Self::Nothing) | (Shown::Screen(_), Self::All) => None,
        }
    }
}

impl Sandboxes {
    /// Opens a terminal in the session's associate.
    pub async fn open_terminal(&self, columns: u16, rows: u16) -> Result<Arc<Terminal>, Error> {
        if self.lock_terminals().len() >= TERMINALS_MAX {
            return Err(Error::TooManyTerminals);
        }
        let id = TerminalId::new(uuid::Builder::from_random_bytes(random_bytes()).into_uuid());
        let size = TerminalSize { columns, rows };
        // Held until it is known as open, so that nobody lets the associate go meanwhile.
        let mut way_out = self.0.session_egress.lock().await;
        let session = self.session(&mut way_out).await?;
        let what = OpenTerminal {
            effect: EffectId::parse(format!("terminal-{id}"))?,
            command: Command::Shell(SHELL.into()),
            directory: RelativePath::root(),
            environment: BTreeMap::from([("TERM".into(), "xterm-256color".into())]),
            size,
        };
        let (handle, output) = session.open_terminal(what).await?;
        let (shown, _) = broadcast::channel(BEHIND_MAX);
        let (end, ended) = watch::channel(None);
        let terminal = Arc::new(Terminal { id, handle, size: Mutex::new(size), shown: shown.clone(), ended });
        self.lock_terminals().insert(id, terminal.clone());
        tokio::spawn(self.clone().show(id, output, shown, end));
        Ok(terminal)
    }

    /// The session's associate, started with its way out if it does not run.
    async fn session(&self, way_out: &mut Option<Proxy>) -> Result<Guest, Error> {
        if let Some(guest) = self.0.session.lock().await.as_ref().filter(|guest| guest.is_alive()) {
            return Ok(guest.clone());
        }
        // The old one first: both have one address.
        *way_out = None;
        *way_out = self.open_egress(None, None, None, AboveCeiling::Refuse).await?.unwrap_or_default();
        let mut spec = self.associate_spec(&self.0.places.workspace);
        lead_out(&mut spec, way_out.as_ref());
        self.running(&self.0.session, || spec).await
    }

    /// Lets the associate go when no terminal needs it any more and nothing that was started there goes on. Whoever closes
    /// another terminal meanwhile looks instead: there is one that looks, and it looks soon.
    async fn rest(&self) {
        let mut mine = 0;
        self.0.rests.send_modify(|rests| {
            *rests += 1;
            mine = *rests;
        });
        let mut rests = self.0.rests.subscribe();
        for pause in pauses() {
            if self.has_rested().await {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = rests.wait_for(|newest| *newest != mine) => return,
            }
        }
    }

    /// Whether there is nothing more to let go.
    async fn has_rested(&self) -> bool {
        let mut way_out = self.0.session_egress.lock().await;
        let mut session = self.0.session.lock().await;
        let Some(guest) = session.as_ref().filter(|_| self.lock_terminals().is_empty()) else { return true };
        if guest.health().await.is_ok_and(|health| health.processes > PROCESSES_AT_REST) {
            return false;
        }
        if let Some(guest) = session.take() {
            guest.shutdown().await;
        }
        *way_out = None;
        true
    }

    /// All that are open.
    pub fn terminals(&self) -> Vec<Arc<Terminal>> {
        let mut all: Vec<_> = self.lock_terminals().values().cloned().collect();
        all.sort_by_key(|terminal| terminal.id);
        all
    }

    /// One of them.
    pub fn terminal(&self, id: TerminalId) -> Result<Arc<Terminal>, Error> {
        self.lock_terminals().get(&id).cloned().ok_or(Error::NoTerminal)
    }

    /// Reads everything that a terminal says, so that its program never waits for a viewer that does not look.
    async fn show(
        self,
        id: TerminalId,
        mut output: TerminalOutput,
        shown: broadcast::Sender<Shown>,
        end: watch::Sender<Option<Ended>>,
    ) {
        let exit_code = loop {
            match output.next().await {
                // Nobody looks: the guest keeps the screen for whoever comes.
                Ok(TerminalEvent::Output(bytes)) => drop(shown.send(Shown::Output(bytes))),
                Ok(TerminalEvent::Screen(bytes)) => drop(shown.send(Shown::Screen(bytes))),
                Ok(TerminalEvent::Exit(exit)) => match exit.ending {
                    Ending::Code(code) => break Some(code),
                    Ending::Signal(_) | Ending::TimedOut | Ending::Killed => break None,
                },
                Err(error) => {
                    tracing::debug!(%error, "a terminal was lost");
                    break None;
                }
            }
        };
        self.lock_terminals().remove(&id);
        end.send_replace(Some(Ended { exit_code }));
        self.rest().await;
    }

    fn lock_terminals(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<TerminalId, Arc<Terminal>>> {
        self.0.terminals.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Between two looks, for ever.
fn pauses() -> impl Iterator<Item = Duration> {
    let later = std::iter::successors(Some(LATER_PAUSE), |pause| Some((*pause * 2).min(LATER_PAUSE_MAX)));
    std::iter::repeat_n(LOOK_PAUSE, LOOKS).chain(later)
}

impl Terminal {
    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        let size = *self.size.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (size.columns, size.rows)
    }

    /// Gives it another size.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), Error> {
        let size = TerminalSize { columns, rows };
        self.handle.resize(size).await?;
        *self.size.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = size;
        Ok(())
    }

    /// Sends what was typed.
    pub async fn write(&self, bytes: Bytes) -> Result<(), Error> {
        Ok(self.handle.write(bytes).await?)
    }

    /// Hangs up.
    pub async fn close(&self) -> Result<(), Error> {
        Ok(self.handle.close().await?)
    }

    /// How it ended, when it has.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let seen = ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
        seen.unwrap_or(Ended { exit_code: None })
    }

    /// A window onto it; the whole screen comes first.
    pub async fn view(self: &Arc<Self>) -> Result<Viewer, Error> {
        let viewer = Viewer { terminal: self.clone(), shown: self.shown.subscribe(), sight: Sight::Nothing };
        self.handle.attach().await?;
        Ok(viewer)
    }
}

impl Viewer {
    /// What to draw next; the end when the terminal has ended. A viewer that fell behind gets the screen as it is now.
    pub async fn next(&mut self) -> Result<Bytes, Ended> {
        loop {
            let missed = tokio::select! {
                biased;
                shown = self.shown.recv() => match shown {
                    Ok(shown) => match self.sight.see(shown) {
                        Some(bytes) => return Ok(bytes),
                        None => continue,
                    },
                    Err(broadcast::error::RecvError::Lagged(missed)) => missed,
                    Err(broadcast::error::RecvError::Closed) => return Err(self.terminal.ended().await),
                },
                ended = self.terminal.ended() => return Err(ended),
            };
            tracing::debug!(missed, "a viewer of a terminal fell behind and gets the whole screen");
            (self.shown, self.sight) = (self.shown.resubscribe(), Sight::Nothing);
            if self.terminal.handle.attach().await.is_err() {
                return Err(self.terminal.ended().await);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_seen_nothing_is_shown_the_whole_screen() {
        let (output, screen) = (|| Shown::Output("output".into()), || Shown::Screen("screen".into()));
        let (mut first, mut second) = (Sight::All, Sight::Nothing);
        assert_eq!((first.see(output()), second.see(output())), (Some("output".into()), None));
        assert_eq!((first.see(screen()), second.see(screen())), (None, Some("screen".into())));
        assert_eq!((first.see(output()), second.see(output())), (Some("output".into()), Some("output".into())));
    }
}
