//! What a person may change in the desktop: the configuration file is the beginning, the database the change.

use super::Error;
use crate::config::{Budget, Config, Egress, Models};
use crate::db::Db;
use crate::inbox::Tools;
use choir_proto::wire::{ChangeSettings, DocumentSettings};
use serde::{Deserialize, Serialize};

const NAME: &str = "settings";

/// Settings in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which model does what.
    pub models: Models,
    /// Walls for every run.
    pub budget: Budget,
    /// What tasks may reach without asking.
    pub egress: Egress,
    /// Which tool calls need a yes.
    #[serde(default)]
    pub tools: Tools,
    /// How documents are written.
    #[serde(default)]
    pub documents: DocumentSettings,
    /// How what tasks changed comes into the workspace.
    #[serde(default)]
    pub changes: ChangeSettings,
}

impl Settings {
    /// As last stored, else as configured.
    pub(super) async fn open(config: &Config, db: &Db) -> Result<Self, Error> {
        match db.setting(NAME).await? {
            Some(text) => serde_json::from_str(&text).map_err(Error::Settings),
            None => Ok(Self {
                models: config.models.clone(),
                budget: config.budget,
                egress: config.egress.clone(),
                tools: config.tools.clone(),
                documents: DocumentSettings::default(),
                changes: ChangeSettings::default(),
            }),
        }
    }

    pub(super) async fn store(&self, db: &Db) -> Result<(), Error> {
        let text = serde_json::to_string(self).map_err(Error::Settings)?;
        Ok(db.set_setting(NAME, text).await?)
    }
}
