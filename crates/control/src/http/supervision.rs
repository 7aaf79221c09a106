//! `GET /api/supervision`: the computer's own tree, under the root that only control knows of: the computer's process.

use super::App;
use super::error::Refused;
use super::json::Json;
use crate::computer::State as Computer;
use axum::extract::State;
use choir_proto::api::{ActorInfo, Supervision};

/// The name of the root.
const ROOT: &str = "Computer";

/// The actor tree. Its root is the computer's process, whose restarts are counted since control started.
#[utoipa::path(get, path = "/api/supervision", responses((status = 200, body = Supervision)))]
pub(super) async fn get(State(app): State<App>) -> Result<Json<Supervision>, Refused> {
    let computer = app.computer.borrow().clone();
    let mut actors = vec![root(&computer)];
    // While it is away there is nobody to ask, and that is the answer.
    if matches!(computer, Computer::Starting | Computer::Running { .. } | Computer::Contradicted { .. }) {
        let inside: Supervision = app.link.get("/api/supervision").await?;
        actors.extend(inside.actors.into_iter().map(under_root));
    }
    Ok(Json(Supervision { actors }))
}

fn root(computer: &Computer) -> ActorInfo {
    let state = match computer {
        Computer::Starting | Computer::Running { .. } | Computer::Contradicted { .. } => "running",
        Computer::Restarting { .. } => "restarting",
        Computer::Stopped => "stopped",
    };
    let restarts = computer.restarts();
    ActorInfo { name: ROOT.into(), id: "process".into(), parent: None, state: state.into(), restarts }
}

fn under_root(actor: ActorInfo) -> ActorInfo {
    let parent = actor.parent.unwrap_or_else(|| ROOT.to_owned());
    ActorInfo { parent: Some(parent), ..actor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_says_how_often_the_process_died() {
        let away = Computer::Restarting { restarts: 3, reason: String::new(), hopeless: false };
        let (told, back) = (root(&away), root(&Computer::Running { restarts: 3, lacks: Vec::new() }));
        assert_eq!((told.state.as_str(), told.restarts), ("restarting", 3));
        assert_eq!((back.state.as_str(), back.restarts), ("running", 3));
    }
}
