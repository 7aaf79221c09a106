//! Where data is kept, and how the instance that runs on it is reached.

use crate::cli::{Data, Reach};
use crate::client::{Client, Error};
use choir_control::clock::Clock;
use choir_control::data::DataDir;
use choir_control::db::Scope;
use choir_control::secret::Secret;
use choir_control::token;
use std::path::PathBuf;
use std::time::Duration;

/// A token that the command line makes for itself ends with the day.
const OWN_TOKEN: Duration = Duration::from_secs(24 * 3600);

impl Data {
    /// As given, else the platform's. Absolute: sandboxes and the computer's process do not share our working directory.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.directory {
            return Ok(std::path::absolute(directory)?);
        }
        let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = from("XDG_DATA_HOME").or_else(|| Some(from("HOME")?.join(".local/share")));
        base.map(|base| base.join("choir"))
            .ok_or_else(|| anyhow::anyhow!("there is no home directory to keep data in; name one with --data"))
    }
}

/// A client for the running instance.
pub(crate) async fn connect(reach: &Reach) -> anyhow::Result<Client> {
    let url = match &reach.url {
        Some(url) => url.clone(),
        None => running(&reach.data)?,
    };
    let token = match &reach.token {
        Some(token) => Secret::new(token.clone()),
        None if reach.url.is_some() => return Err(Error::NoToken.into()),
        None => own_token(&reach.data).await?,
    };
    Ok(Client::new(&url, token)?)
}

/// The address of the instance that runs on a data directory.
pub(crate) fn running(data: &Data) -> anyhow::Result<String> {
    let path = data.path()?.join("control/address");
    let address = std::fs::read_to_string(&path).map_err(|_| Error::NotRunning)?;
    Ok(address.trim().to_owned())
}

/// Whoever may write to the data directory may do everything anyway, so the command line helps itself to a token.
async fn own_token(data: &Data) -> anyhow::Result<Secret> {
    let data = DataDir::open(&data.path()?)?;
    let db = token::open(&data)?;
    Ok(token::create(&db, &Clock::system(), "command line".into(), Scope::Admin, Some(OWN_TOKEN)).await?)
}
