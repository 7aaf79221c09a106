//! What is known of every actor, for `GET /api/supervision`.

use choir_proto::api::ActorInfo;
use ractor::ActorId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The tree of actors, written by supervisors.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    actors: Arc<Mutex<BTreeMap<String, ActorInfo>>>,
}

impl Tree {
    /// An actor runs.
    pub fn started(&self, name: &str, parent: Option<&str>, id: ActorId) {
        let mut actors = self.actors();
        let restarts = actors.get(name).map_or(0, |before| before.restarts);
        let info = ActorInfo {
            name: name.to_owned(),
            id: id.to_string(),
            parent: parent.map(str::to_owned),
            state: "running".into(),
            restarts,
        };
        actors.insert(name.to_owned(), info);
    }

    /// An actor failed and will be started again.
    pub fn restarting(&self, name: &str) {
        if let Some(actor) = self.actors().get_mut(name) {
            actor.state = "restarting".into();
            actor.restarts += 1;
        }
    }

    /// An actor ended for good.
    pub fn ended(&self, name: &str) {
        self.actors().remove(name);
    }

    /// Everything, parents before children.
    pub fn list(&self) -> Vec<ActorInfo> {
        let mut actors: Vec<_> = self.actors().values().cloned().collect();
        actors.sort_by_key(|actor| (depth(&actor.parent), actor.name.clone()));
        actors
    }

    fn actors(&self) -> MutexGuard<'_, BTreeMap<String, ActorInfo>> {
        self.actors.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn depth(parent: &Option<String>) -> u8 {
    match parent.as_deref() {
        None => 0,
        Some("Application") => 1,
        Some(_) => 2,
    }
}
