//! What has to be parsed before it can be read, by a sandbox that has no network and whose changes go nowhere.

use super::Harness;
use super::search::Look;
use choir_core::look::{self, PAGE_FILE};
use choir_core::page::{Format, charset};
use choir_proto::TaskId;
use choir_proto::task::Egress;
use choir_proto::wire::{FinishAssociate, StartAssociate};
use std::time::Duration;

/// How long parsing may take.
const PARSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Exit codes from here on tell of a signal.
const SIGNALLED: i32 = 128;

/// Characters of a reader's complaint that are passed on.
const COMPLAINT_CHARACTERS_MAX: usize = 500;

/// Something to parse.
pub(super) struct Sheet<'a> {
    pub(super) format: Format,
    /// The encoding that it was said to be in.
    pub(super) charset: Option<String>,
    pub(super) bytes: &'a [u8],
    /// What is left of whoever's time.
    pub(super) wall: Duration,
}

impl Harness {
    /// The text of something, parsed in a task's sandbox; or why there is none.
    pub(super) async fn read(&self, task: TaskId, effect_id: &str, sheet: Sheet<'_>) -> Result<String, String> {
        let Sheet { format, charset, bytes, wall } = sheet;
        let wall = wall.min(PARSE_TIMEOUT);
        let cannot = |why: &str| format!("It cannot be read as {}: {why}", format.name().to_uppercase());
        let written = self.control.write_file(task, format!("{PAGE_FILE}{effect_id}"), bytes.to_vec()).await;
        written.map_err(|error| cannot(&error.to_string()))?;
        let command = look::read(format, charset.as_deref(), effect_id);
        match self.look(Look { task, effect_id, command, wall }).await {
            Ok((Some(0), text)) => Ok(text),
            Ok((None, _)) => Err(cannot(&format!("that took longer than {} s.", wall.as_secs()))),
            Ok((Some(code @ SIGNALLED..), _)) => {
                let signal = code - SIGNALLED;
                Err(cannot(&format!("it broke its reader (signal {signal}); it may be made to do that.")))
            }
            Ok((Some(_), said)) => Err(cannot(&complaint(&said))),
            Err(error) => Err(cannot(&error.to_string())),
        }
    }

    /// The text of something that no agent asked for, in a sandbox of its own that is gone afterwards.
    pub(crate) async fn read_alone(&self, format: Format, media_type: &str, bytes: &[u8]) -> Result<String, String> {
        let task = TaskId::new(self.journal.world().uuid());
        let start = StartAssociate { egress: Some(Egress { allow: Vec::new() }), run: None, base: None, check: None };
        let started = self.control.start_associate(task, start).await;
        started.map_err(|error| format!("No sandbox could be started to read it in: {error}"))?;
        let sheet = Sheet { format, charset: charset(media_type), bytes, wall: PARSE_TIMEOUT };
        let read = self.read(task, &task.to_string(), sheet).await;
        let finished = self.control.finish_associate(task, FinishAssociate { merge: false, checked: None }).await;
        if let Err(error) = finished.map(drop).and(self.control.forget_associate(task).await) {
            // A few bytes stay behind, and nothing depends on them.
            tracing::debug!(%error, "a sandbox that something was read in could not be let go");
        }
        read
    }
}

/// What the reader says is wrong, in one line.
fn complaint(said: &str) -> String {
    let line = said.lines().map(|line| line.trim().trim_start_matches("choir: ")).collect::<Vec<_>>().join(" ");
    line.chars().filter(|letter| !letter.is_control()).take(COMPLAINT_CHARACTERS_MAX).collect()
}
