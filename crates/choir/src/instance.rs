//! Where data is kept, and how the instance that runs on it is reached.

use crate::cli::{Data, Reach};
use crate::client::{self, Client, Error};
use anyhow::Context;
use choir_control::data::{self, DataDir, Lock};
use choir_control::secret::Secret;
use choir_proto::api;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks for an instance that went away.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

impl Data {
    /// As given, else the platform's. Absolute: sandboxes and the computer's process do not share our working directory.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.directory {
            let nowhere =
                || format!("`{}` leads nowhere from here; name the data directory in full", directory.display());
            return std::path::absolute(directory).with_context(nowhere);
        }
        let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = from("XDG_DATA_HOME").or_else(|| Some(from("HOME")?.join(".local/share")));
        base.map(|base| base.join("choir"))
            .ok_or_else(|| anyhow::anyhow!("there is no home directory to keep data in; name one with --data"))
    }
}

/// A client for the running instance.
pub(crate) async fn connect(reach: &Reach) -> anyhow::Result<Client> {
    let token = reach.token.clone().map(Secret::new);
    match (&reach.url, token) {
        (Some(url), Some(token)) => Ok(Client::new(url, token)?),
        (Some(_), None) => Err(Error::NoToken.into()),
        (None, token) => {
            let data = DataDir::at(&reach.data.path()?);
            client::knock(&data).await?;
            Ok(Client::at_door(data, token))
        }
    }
}

/// A client for an instance that answers now.
pub(crate) async fn answering(reach: &Reach) -> anyhow::Result<Client> {
    let client = connect(reach).await?;
    client.get::<api::Events>("/api/events?limit=1").await?;
    Ok(client)
}

/// The instance, as soon as it answers again; the last refusal when it does not come back in time.
pub(crate) async fn again(reach: &Reach, within: Duration) -> anyhow::Result<Client> {
    let until = Instant::now() + within;
    loop {
        // Looked up anew: another start may have another address and does not know our old token's end.
        match answering(reach).await {
            Ok(client) => return Ok(client),
            // It is there and says no: waiting changes nothing.
            Err(error) if !is_passing(&error) => return Err(error),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Whether it may be otherwise in a moment.
pub(crate) fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Error::is_passing)
}

/// Whether an instance runs on a data directory.
pub(crate) enum Instance {
    /// It does.
    Running(Client),
    /// None does, and none starts while this is held.
    Absent(Option<Lock>),
}

/// Finds out by knocking, and by the lock: what a killed instance left behind says nothing.
pub(crate) async fn find(data: &Data) -> anyhow::Result<Instance> {
    let data = DataDir::at(&data.path()?);
    match client::knock(&data).await {
        Ok(_) => Ok(Instance::Running(Client::at_door(data, None))),
        // Without control/ there is nothing to lock and nobody who could.
        Err(Error::NotRunning) if !data.control().is_dir() => Ok(Instance::Absent(None)),
        Err(Error::NotRunning) => Ok(Instance::Absent(Some(data.lock()?))),
        Err(error) => Err(error.into()),
    }
}

/// How the databases of a data directory are looked at.
pub(crate) struct Look {
    /// Beside the instance that runs, or, where none does, so that nothing is left behind.
    pub(crate) open: choir_store::Open,
    /// None starts while this is held.
    _lock: Option<Lock>,
}

/// Looks at a data directory, whether or not an instance runs on it.
pub(crate) fn look(data: &DataDir) -> Result<Look, data::Error> {
    match data.lock_to_look() {
        Err(data::Error::Locked { .. }) => Ok(Look { open: choir_store::open_reader, _lock: None }),
        lock => Ok(Look { open: choir_store::open_untouched, _lock: lock? }),
    }
}

/// The address at which browsers reach the instance that runs on a data directory.
pub(crate) async fn address(data: &Data) -> anyhow::Result<String> {
    let data = DataDir::at(&data.path()?);
    client::knock(&data).await?;
    let address = std::fs::read_to_string(data.address()).map_err(|_| Error::NotRunning)?;
    Ok(address.trim().to_owned())
}
