//! What almost every command takes: where the data is, and how the instance on it is reached.

use clap::Args;
use std::path::PathBuf;

/// Where everything is kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct Data {
    /// The data directory [default: the platform's, for example ~/.local/share/choir].
    #[arg(long = "data", value_name = "DIR", env = "CHOIR_DATA")]
    pub(crate) directory: Option<PathBuf>,
}

/// How a running instance is reached.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Where the instance is [default: the one that runs on the data directory].
    #[arg(long, value_name = "URL", env = "CHOIR_URL")]
    pub(crate) url: Option<String>,
    /// An API token [default: none; whoever owns the data directory needs none].
    #[arg(long, value_name = "TOKEN", env = "CHOIR_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
}
