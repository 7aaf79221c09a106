//! Starting on what is there, and refusing what cannot be used.

use crate::support::computer::FakeComputer;
use crate::support::{World, options};
use choir_control::clock::Clock;
use choir_control::config::{self, Config};
use choir_control::{data, db, up};
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_second_instance_on_the_same_data_is_refused() {
    let world = World::start().await;
    let again = options(world.directory.path(), Config::default(), &FakeComputer::default(), Clock::system());
    let error = up::start(again).await.err().expect("refused");
    assert!(matches!(error, up::Error::Data(data::Error::Locked { .. })), "{error:?}");
    assert_eq!(world.client().get("/health").await.status, 200, "the first one goes on");

    let directory = world.directory.path().to_owned();
    world.control.stop().await;
    let after = options(&directory, Config::default(), &FakeComputer::default(), Clock::system());
    up::start(after).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let world = World::start().await;
    let directory = tempfile::tempdir().unwrap();
    let mut other = options(directory.path(), Config::default(), &FakeComputer::default(), Clock::system());
    other.listen = world.control.address.to_string();
    let error = up::start(other).await.err().expect("refused");
    assert!(matches!(&error, up::Error::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse));
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = data::DataDir::open(directory.path()).unwrap();
    let newer = rusqlite::Connection::open(data.database()).unwrap();
    newer.execute_batch("PRAGMA user_version = 99; CREATE TABLE later (x)").unwrap();
    drop(newer);
    let before = std::fs::read(data.database()).unwrap();
    let start = options(directory.path(), Config::default(), &FakeComputer::default(), Clock::system());
    let error = up::start(start).await.err().expect("refused");
    assert!(matches!(error, up::Error::Db(db::Error::Newer { found: 99, .. })), "{error:?}");
    assert_eq!(std::fs::read(data.database()).unwrap(), before);
}

#[tokio::test]
async fn what_is_kept_is_private() {
    let world = World::start().await;
    let mode = |path: &str| {
        let path = world.directory.path().join(path);
        std::fs::metadata(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")).permissions().mode() & 0o777
    };
    for directory in ["control", "computers"] {
        assert_eq!(mode(directory), 0o700, "{directory}");
    }
    for file in ["control/seal.key", "control/signing.key", "control/lock", "control/address"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn an_unknown_key_of_the_configuration_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("choir.toml");
    std::fs::write(&file, "[models]\n\ndefalt = \"a/b\"\n").unwrap();
    let said = config::load(&file, true).unwrap_err().to_string();
    assert!(said.contains("line 3") && said.contains("defalt"), "{said}");
    let missing = directory.path().join("other.toml");
    assert!(config::load(&missing, true).is_err() && config::load(&missing, false).is_ok());
}

#[tokio::test]
async fn a_directory_that_is_not_ours_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.txt"), "").unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = data::DataDir::open(directory.path()).unwrap_err();
    assert!(matches!(error, data::Error::Foreign { .. }), "{error}");
    assert_eq!(std::fs::metadata(directory.path()).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    std::fs::write(directory.path().join("choir.toml"), "").unwrap();
    data::DataDir::open(directory.path()).expect("a directory that somebody prepared");
}
