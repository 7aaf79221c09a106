//! Making tokens and sign-in addresses, whether or not an instance runs.

use crate::clock::Clock;
use crate::data::{self, DataDir};
use crate::db::{self, Db, Scope};
use crate::secret::Secret;
use std::time::Duration;

/// A sign-in address is for today.
const SIGN_IN: Duration = Duration::from_secs(24 * 3600);
/// So that a leaked one is recognised by people and by scanners.
const PREFIX: &str = "choir_";

/// Why no token could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] data::Error),
    /// The database.
    #[error(transparent)]
    Db(#[from] db::Error),
}

/// Makes an API token. Only its digest is kept: it cannot be shown again.
pub async fn create(
    db: &Db,
    clock: &Clock,
    name: String,
    scope: Scope,
    lifetime: Option<Duration>,
) -> Result<Secret, Error> {
    let token = Secret::new(format!("{PREFIX}{}", Secret::random().expose()));
    let expires = lifetime.map(|lifetime| clock.after(lifetime));
    db.add_token(token.digest(), name, scope, clock.now(), expires).await?;
    Ok(token)
}

/// Makes a one-time sign-in.
pub async fn sign_in(db: &Db, clock: &Clock) -> Result<Secret, Error> {
    let token = Secret::random();
    db.add_signin(&token, clock.now(), clock.after(SIGN_IN)).await?;
    Ok(token)
}

/// Opens the database of a data directory.
pub fn open(data: &DataDir) -> Result<Db, Error> {
    Ok(Db::open(&data.database())?)
}
