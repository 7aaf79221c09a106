//! Tokens, sessions and one-time sign-ins. Only digests are kept: the file alone opens no door.

use super::{Db, Error};
use crate::secret::{Digest, Secret};
use choir_proto::{ComputerId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::path::Path;

/// What an API token may do. Each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Look.
    Read,
    /// Start and steer work.
    Run,
    /// Settings, keys and approvals.
    Admin,
}

impl Scope {
    /// Every scope, from the narrowest.
    pub const ALL: [Self; 3] = [Self::Read, Self::Run, Self::Admin];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl std::str::FromStr for Scope {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::from_name(name).ok_or_else(|| format!("`{name}` is no scope; there are read, run and admin"))
    }
}

/// A token without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// By which it is revoked: the beginning of its digest.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Since when.
    pub created: Timestamp,
    /// Until when.
    pub expires: Option<Timestamp>,
}

/// A session that exists and has not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Its name here.
    pub digest: Digest,
    /// Until when.
    pub expires: Timestamp,
}

/// What a token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// What it may do.
    pub scope: Scope,
    /// Until when.
    pub expires: Option<Timestamp>,
}

/// Every token of a data directory that is not over, oldest first. Works whether or not an instance runs, given how a file is
/// opened that may not be changed.
pub fn tokens(
    data_dir: &Path,
    now: Timestamp,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<Vec<Token>, Error> {
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    super::schema::refuse_newer(&connection)?;
    let mut tokens = read_tokens(&connection)?;
    tokens.retain(|token| token.expires.is_none_or(|expires| expires > now));
    Ok(tokens)
}

/// The computers of a data directory, and since when control keeps them. Works whether or not an instance runs, given how a file is
/// opened that may not be changed.
pub fn computers(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<BTreeMap<ComputerId, Timestamp>, Error> {
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    let mut statement = connection.prepare("SELECT id, created FROM computers")?;
    let rows =
        statement.query_map([], |row| Ok((ComputerId::from(row.get::<_, [u8; 16]>(0)?), Timestamp(row.get(1)?))))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read_tokens(connection: &Connection) -> rusqlite::Result<Vec<Token>> {
    const SQL: &str = "SELECT digest, name, scope, created, expires FROM tokens ORDER BY created, digest";
    let mut statement = connection.prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        let scope: String = row.get(2)?;
        Ok(Token {
            id: Digest(row.get(0)?).id(),
            name: row.get(1)?,
            // A scope that this version does not know opens nothing, and is shown as the narrowest.
            scope: Scope::from_name(&scope).unwrap_or(Scope::Read),
            created: Timestamp(row.get(3)?),
            expires: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        })
    })?;
    rows.collect()
}

impl Db {
    /// Keeps a token.
    pub async fn add_token(
        &self,
        digest: Digest,
        name: String,
        scope: Scope,
        created: Timestamp,
        expires: Option<Timestamp>,
    ) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO tokens (digest, name, scope, created, expires) VALUES (?1, ?2, ?3, ?4, ?5)";
        let expires = expires.map(|at| at.0);
        self.call(move |c| c.execute(SQL, params![digest.0, name, scope.name(), created.0, expires]).map(drop)).await
    }

    /// Every token, oldest first; those that are over are forgotten first.
    pub async fn tokens(&self, now: Timestamp) -> Result<Vec<Token>, Error> {
        self.call(move |c| {
            c.execute("DELETE FROM tokens WHERE expires <= ?1", [now.0])?;
            read_tokens(c)
        })
        .await
    }

    /// Forgets a token by its id; whether there was one.
    pub async fn remove_token(&self, id: String) -> Result<bool, Error> {
        const SQL: &str = "DELETE FROM tokens WHERE lower(hex(substr(digest, 1, 8))) = ?1";
        self.call(move |c| c.execute(SQL, [id]).map(|removed| removed > 0)).await
    }

    /// What a token may do; nothing when it is unknown or over. A clock that goes back revives no token.
    pub async fn grant(&self, digest: Digest, now: Timestamp) -> Result<Option<Grant>, Error> {
        const SQL: &str = "SELECT scope, expires FROM tokens WHERE digest = ?1";
        self.call(move |c| {
            let found = c
                .prepare_cached(SQL)?
                .query_row([digest.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?)))
                .optional();
            match found? {
                Some((_, Some(expires))) if expires <= now.0 => {
                    c.execute("DELETE FROM tokens WHERE digest = ?1", [digest.0])?;
                    Ok(None)
                }
                Some((scope, expires)) => {
                    Ok(Scope::from_name(&scope).map(|scope| Grant { scope, expires: expires.map(Timestamp) }))
                }
                None => Ok(None),
            }
        })
        .await
    }

    /// Keeps a one-time sign-in.
    pub async fn add_signin(&self, token: &Secret, created: Timestamp, expires: Timestamp) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO signins (digest, created, expires) VALUES (?1, ?2, ?3)";
        let digest = token.digest();
        self.call(move |c| {
            c.execute("DELETE FROM signins WHERE expires <= ?1", [created.0])?;
            c.execute(SQL, params![digest.0, created.0, expires.0]).map(drop)
        })
        .await
    }

    /// Turns a one-time sign-in into a session, in one step: of two that try, one succeeds.
    pub async fn sign_in(
        &self,
        token: Digest,
        session: Digest,
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<bool, Error> {
        const SQL: &str = "INSERT INTO sessions (digest, created, expires) VALUES (?1, ?2, ?3)";
        self.call(move |c| {
            let step = c.transaction()?;
            let used =
                step.execute("DELETE FROM signins WHERE digest = ?1 AND expires > ?2", params![token.0, now.0])?;
            if used == 1 {
                step.execute("DELETE FROM sessions WHERE expires <= ?1", [now.0])?;
                step.execute(SQL, params![session.0, now.0, expires.0])?;
            }
            step.commit()?;
            Ok(used == 1)
        })
        .await
    }

    /// Finds a session. An expired one is removed at once, so that a clock that goes back does not revive it.
    pub async fn session(&self, digest: Digest, now: Timestamp) -> Result<Option<Session>, Error> {
        const SQL: &str = "SELECT expires FROM sessions WHERE digest = ?1";
        self.call(move |c| {
            let expires: Option<i64> = c.prepare_cached(SQL)?.query_row([digest.0], |row| row.get(0)).optional()?;
            if expires.is_some_and(|expires| expires <= now.0) {
                c.execute("DELETE FROM sessions WHERE digest = ?1", [digest.0])?;
                return Ok(None);
            }
            Ok(expires.map(|expires| Session { digest, expires: Timestamp(expires) }))
        })
        .await
    }

    /// Ends a session.
    pub async fn end_session(&self, digest: Digest) -> Result<(), Error> {
        self.call(move |c| c.execute("DELETE FROM sessions WHERE digest = ?1", [digest.0]).map(drop)).await
    }

    /// The local computer, named `fresh` if there is none yet.
    pub async fn local_computer(&self, fresh: ComputerId, now: Timestamp) -> Result<ComputerId, Error> {
        self.call(move |c| {
            let first = "SELECT id FROM computers ORDER BY created LIMIT 1";
            let known: Option<[u8; 16]> = c.query_row(first, [], |row| row.get(0)).optional()?;
            match known {
                Some(id) => Ok(id.into()),
                None => {
                    let sql = "INSERT INTO computers (id, created) VALUES (?1, ?2)";
                    c.execute(sql, params![fresh.as_bytes(), now.0])?;
                    Ok(fresh)
                }
            }
        })
        .await
    }
}
