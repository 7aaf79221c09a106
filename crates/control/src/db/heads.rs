//! The last position of each computer's log that control has seen, signed: a rewritten log cannot agree with it.

use super::{Db, Error};
use crate::data::{DataDir, read_key};
use choir_proto::{ComputerId, Hash, Seq};
use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};
use rusqlite::{Connection, params};
use std::path::Path;

/// A position that control vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Whose log.
    pub computer: ComputerId,
    /// Where.
    pub seq: Seq,
    /// The event's hash there.
    pub hash: Hash,
}

/// Why signed heads cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HeadsError {
    /// There is no database, or it cannot be read.
    #[error(transparent)]
    Db(#[from] Error),
    /// There is no signing key.
    #[error(transparent)]
    Key(#[from] crate::data::Error),
    /// A signature does not fit.
    #[error("the signed head of computer {computer} was changed by somebody who does not hold the key")]
    Forged {
        /// Whose.
        computer: ComputerId,
    },
}

pub(crate) const KEY_FILE: &str = "signing.key";

/// What is worth nothing without the key.
pub(crate) const SIGNED: &str = "signed heads";

impl Head {
    fn message(&self) -> Vec<u8> {
        let parts: [&[u8]; 4] = [b"choir.head.1\0", self.computer.as_bytes(), &self.seq.0.to_be_bytes(), &self.hash.0];
        parts.concat()
    }
}

impl Db {
    /// Signs and keeps a position. It never goes back: a shorter log does not replace a longer one.
    pub async fn sign_head(&self, head: Head, key: &SigningKey) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO heads (computer, seq, hash, signature) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (computer) DO UPDATE SET seq = ?2, hash = ?3, signature = ?4 WHERE seq < ?2";
        let signature = key.sign(&head.message()).to_bytes();
        let row = (*head.computer.as_bytes(), head.seq.0 as i64, head.hash.0, signature.to_vec());
        self.call(move |c| c.execute(SQL, params![row.0, row.1, row.2, row.3]).map(drop)).await
    }

    /// The last position that was signed, with its signature checked.
    pub async fn head(&self, computer: ComputerId, key: &SigningKey) -> Result<Option<Head>, HeadsError> {
        let all = self.call(|c| read(c)).await?;
        let found = all.into_iter().find(|(head, _)| head.computer == computer);
        found.map(|(head, signature)| check(head, &signature, &key.verifying_key())).transpose()
    }

    /// Whether any position was ever signed.
    pub async fn has_heads(&self) -> Result<bool, Error> {
        self.call(|c| c.query_row("SELECT EXISTS (SELECT 1 FROM heads)", [], |row| row.get(0))).await
    }
}

/// Every signed head of a data directory, with its signature checked. Works whether or not an instance runs, given how a file
/// is opened that may not be changed.
pub fn heads(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<Vec<Head>, HeadsError> {
    let control = data_dir.join("control");
    let connection = open(&control.join("control.sqlite")).map_err(Error::from)?;
    super::schema::refuse_newer(&connection)?;
    let rows = read(&connection).map_err(Error::from)?;
    // The key is made by the first start, and a directory need not have seen one.
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let key = read_key(&control.join(KEY_FILE)).map_err(|error| error.or_gone(SIGNED))?;
    let key = SigningKey::from_bytes(&key).verifying_key();
    rows.into_iter().map(|(head, signature)| check(head, &signature, &key)).collect()
}

fn check(head: Head, signature: &[u8; 64], key: &VerifyingKey) -> Result<Head, HeadsError> {
    match key.verify(&head.message(), &Signature::from_bytes(signature)) {
        Ok(()) => Ok(head),
        Err(_) => Err(HeadsError::Forged { computer: head.computer }),
    }
}

/// The key with which heads are signed; `rests` says what was signed with it before.
pub(crate) fn signing_key(data: &DataDir, rests: Option<&'static str>) -> Result<SigningKey, crate::data::Error> {
    Ok(SigningKey::from_bytes(&data.key(KEY_FILE, rests)?))
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<(Head, [u8; 64])>> {
    let mut statement = connection.prepare("SELECT computer, seq, hash, signature FROM heads ORDER BY computer")?;
    let rows = statement.query_map([], |row| {
        let computer = ComputerId::from(row.get::<_, [u8; 16]>(0)?);
        let head = Head { computer, seq: Seq(row.get::<_, i64>(1)? as u64), hash: Hash(row.get(2)?) };
        Ok((head, row.get::<_, [u8; 64]>(3)?))
    })?;
    rows.collect()
}
