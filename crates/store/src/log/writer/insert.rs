//! Adding events to the file.

use crate::log::row::Place;
use choir_proto::event::{Actor, Header};
use choir_proto::{EventId, RunId, TaskId};
use rusqlite::{CachedStatement, Connection};

const SQL: &str = "
    INSERT INTO events (id, at, payload, payload_hash, hash, seq,
                        epoch, actor, run, task, cause, kind, version, place)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// The statement that adds an event, during one commit. SQLite keeps what was bound for the row before: of events that are alike,
/// as those that come together often are, only what is each one's own is bound again.
pub(super) struct Insert<'file> {
    statement: CachedStatement<'file>,
    bound: Option<Alike>,
}

/// What neighbours often share.
#[derive(PartialEq)]
struct Alike {
    epoch: u32,
    actor: Actor,
    run: Option<RunId>,
    task: Option<TaskId>,
    cause: Option<EventId>,
    kind: i64,
    version: u16,
    place: Place,
}

impl<'file> Insert<'file> {
    pub(super) fn prepare(connection: &'file Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self { statement: connection.prepare_cached(SQL)?, bound: None })
    }

    /// Adds an event with the number of its kind, and its payload if that is in the row.
    pub(super) fn add(
        &mut self,
        header: &Header,
        kind: i64,
        place: Place,
        payload: Option<&[u8]>,
    ) -> Result<(), rusqlite::Error> {
        self.bind_alike(header, kind, place)?;
        let own = &mut self.statement;
        own.raw_bind_parameter(1, header.id.as_bytes())?;
        own.raw_bind_parameter(2, header.at.0)?;
        own.raw_bind_parameter(3, payload)?;
        own.raw_bind_parameter(4, header.payload_hash.0)?;
        own.raw_bind_parameter(5, header.hash.0)?;
        own.raw_bind_parameter(6, header.seq.0)?;
        own.raw_execute().map(|_| ())
    }

    fn bind_alike(&mut self, header: &Header, kind: i64, place: Place) -> Result<(), rusqlite::Error> {
        let Header { epoch, run, task, cause, version, .. } = *header;
        let alike = Alike { epoch, actor: header.actor.clone(), run, task, cause, kind, version, place };
        if self.bound.as_ref() == Some(&alike) {
            return Ok(());
        }
        // Should one of them fail, the commit does.
        let shared = &mut self.statement;
        shared.raw_bind_parameter(7, epoch)?;
        shared.raw_bind_parameter(8, alike.actor.as_str())?;
        shared.raw_bind_parameter(9, run.as_ref().map(|id| id.as_bytes()))?;
        shared.raw_bind_parameter(10, task.as_ref().map(|id| id.as_bytes()))?;
        shared.raw_bind_parameter(11, cause.as_ref().map(|id| id.as_bytes()))?;
        shared.raw_bind_parameter(12, kind)?;
        shared.raw_bind_parameter(13, version)?;
        shared.raw_bind_parameter(14, place as i64)?;
        self.bound = Some(alike);
        Ok(())
    }
}
