//! What control has seen of a log, signed.

use crate::support::World;
use crate::support::computer::FakeComputer;
use choir_control::db::{HeadsError, heads};
use choir_proto::Seq;

#[tokio::test]
async fn the_last_position_is_signed_and_a_changed_one_is_noticed() {
    let world = World::with(Default::default(), FakeComputer::with_events(3)).await;
    let mut socket =
        world.client_with(choir_control::db::Scope::Read).await.upgrade("/api/stream?after=3").await.unwrap();
    world.computer.append(4);
    assert_eq!(socket.events(4).await, [4, 5, 6, 7]);
    let directory = world.directory;
    world.control.stop().await;

    let signed = heads(directory.path()).unwrap();
    assert_eq!(signed.len(), 1);
    assert_eq!((signed[0].seq, &signed[0].hash.0[..8]), (Seq(7), &7_u64.to_be_bytes()[..]));

    let database = rusqlite::Connection::open(directory.path().join("control/control.sqlite")).unwrap();
    database.execute("UPDATE heads SET seq = 6", []).unwrap();
    assert!(matches!(heads(directory.path()), Err(HeadsError::Forged { .. })));
}
