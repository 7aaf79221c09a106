//! What a person may change in the desktop: the configuration file is the beginning, the database the change.

use super::Error;
use crate::config::{Budget, Config, Egress, Models};
use crate::db::Db;
use crate::inbox::Tools;
use choir_proto::wire::{ChangeSettings, DocumentSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// As the file says.
    pub(super) fn configured(config: &Config) -> Self {
        Self {
            models: config.models.clone(),
            budget: config.budget,
            egress: config.egress.clone(),
            tools: config.tools.clone(),
            documents: DocumentSettings::default(),
            changes: ChangeSettings::default(),
        }
    }

    /// As configured, with what was changed since laid over it. Whoever stored all of it once is not asked to do it again:
    /// it is laid over the file as well.
    pub(super) async fn open(configured: &Self, db: &Db) -> Result<Self, Error> {
        let Some(text) = db.setting(NAME).await? else { return Ok(configured.clone()) };
        configured.under(serde_json::from_str(&text).map_err(Error::Settings)?)
    }

    /// Keeps what differs from the file, and nothing else: the rest of the file stays in force.
    pub(super) async fn store(&self, configured: &Self, db: &Db) -> Result<(), Error> {
        let changed = self.over(configured)?.unwrap_or(Value::Object(Map::new()));
        Ok(db.set_setting(NAME, changed.to_string()).await?)
    }

    /// What overrides the file, by the names that it has there.
    pub(super) fn overrides(&self, configured: &Self) -> Vec<String> {
        let mut names = Vec::new();
        // What cannot be said in JSON cannot have been stored.
        if let Ok(Some(changed)) = self.over(configured) {
            name_leaves(&changed, String::new(), &mut names);
        }
        names
    }

    fn over(&self, configured: &Self) -> Result<Option<Value>, Error> {
        let value = |settings: &Self| serde_json::to_value(settings).map_err(Error::Settings);
        Ok(difference(&value(configured)?, &value(self)?))
    }

    fn under(&self, changed: Value) -> Result<Self, Error> {
        let mut value = serde_json::to_value(self).map_err(Error::Settings)?;
        lay_over(&mut value, changed);
        serde_json::from_value(value).map_err(Error::Settings)
    }
}

/// What has to be laid over one value to make the other; `null` takes a field away.
fn difference(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        _ if from == to => None,
        (Value::Object(from), Value::Object(to)) => {
            let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name.clone(), Value::Null));
            let other = |(name, value): (&String, &Value)| {
                Some((name.clone(), difference(from.get(name).unwrap_or(&Value::Null), value)?))
            };
            Some(Value::Object(gone.chain(to.iter().filter_map(other)).collect()))
        }
        _ => Some(to.clone()),
    }
}

fn lay_over(value: &mut Value, changed: Value) {
    match (value, changed) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                match change {
                    Value::Null => drop(fields.remove(&name)),
                    change => lay_over(fields.entry(name).or_insert(Value::Null), change),
                }
            }
        }
        (value, changed) => *value = changed,
    }
}

fn name_leaves(changed: &Value, name: String, names: &mut Vec<String>) {
    match changed {
        Value::Object(fields) => {
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                name_leaves(value, format!("{name}{dot}{field}"), names);
            }
        }
        _ => names.push(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Policy;
    use choir_proto::{Role, Usd};

    #[test]
    fn only_what_was_changed_overrides_the_file() {
        let mut file = Settings::default();
        file.models.roles.insert(Role::Writer, "a/writer".into());
        file.tools.0.insert("bash".into(), Policy::Ask);
        let mut now = file.clone();
        now.budget.usd_per_run = Usd(7_000_000);
        now.models.roles.remove(&Role::Writer);
        let changed = now.over(&file).unwrap().unwrap();
        assert_eq!(now.overrides(&file), ["budget.usd_per_run", "models.roles.writer"]);
        // The file is edited meanwhile: what nobody changed elsewhere holds.
        let mut edited = file.clone();
        edited.models.default = "b/new".into();
        edited.tools.0.insert("bash".into(), Policy::Deny);
        edited.budget.usd_per_run = Usd(1);
        let opened = edited.under(changed).unwrap();
        assert_eq!((opened.models.default.as_str(), opened.tools.policy("bash")), ("b/new", Policy::Deny));
        assert_eq!((opened.budget.usd_per_run, opened.models.roles.len()), (Usd(7_000_000), 0));
        // As an earlier version stored them: all at once.
        let whole = serde_json::to_value(&now).unwrap();
        assert_eq!(edited.under(whole).unwrap().budget.usd_per_run, Usd(7_000_000));
    }
}
