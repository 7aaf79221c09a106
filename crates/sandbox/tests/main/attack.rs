//! The whole attack suite, in the short form: one backend, and the user who runs the tests or one below root.

use std::os::unix::fs::PermissionsExt;

use choir_sandbox::attack::{self, Area, Options, Verdict};
use choir_sandbox::runtime::{Backend, Identity, Runtime};

fn identity() -> Identity {
    match rustix::process::geteuid().is_root() {
        true => Identity::User { uid: 61_236, gid: 61_236 },
        false => Identity::Inherit,
    }
}

fn options(directory: &std::path::Path, backend: Backend) -> Options {
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).expect("opened");
    let program = crate::support::guest_program();
    Options {
        guest_program: program.clone(),
        probe_program: program,
        directory: directory.into(),
        identity: identity(),
        backend,
        way_out: attack::refusing(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_probe_escapes_and_none_is_skipped() {
    let directory = tempfile::tempdir().expect("a directory");
    let told = |row: &attack::Row| println!("{:>6} ms {} — {:?}", row.took.as_millis(), row.probe.id, row.verdict);
    let rows = attack::run(&options(directory.path(), Backend::Watchdog), |_| true, told).await.expect("runs");
    let bad: Vec<_> = rows.iter().filter(|row| !matches!(row.verdict, Verdict::Held(_))).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Floods without their limit take their time; the whole list of controls is part of `cargo xtask attack`.
#[tokio::test(flavor = "multi_thread")]
async fn every_wall_that_is_taken_away_is_missed() {
    let directory = tempfile::tempdir().expect("a directory");
    let backend = Runtime::process().expect("a runtime").backend();
    let told = |row: &attack::ControlRow| {
        println!(
            "{:>6} ms without {}: {} — {:?}",
            row.took.as_millis(),
            row.control.wall,
            row.control.probe,
            row.verdict
        );
    };
    let rows = attack::run_controls(&options(directory.path(), backend), |probe| probe.area != Area::Floods, told)
        .await
        .expect("runs");
    let unnoticed: Vec<_> = rows.iter().filter(|row| !row.is_noticed()).map(|row| row.control.probe).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

#[test]
fn a_director_does_not_leave_its_directory() {
    let place = tempfile::tempdir().expect("a directory");
    let rows = attack::director::run(&crate::support::guest_program(), place.path()).expect("runs");
    assert!(rows.iter().filter(|row| row.without.is_empty()).count() >= 15);
    for row in rows {
        let is_control = !row.without.is_empty();
        let as_wanted = match row.verdict {
            Verdict::Held(_) => !is_control,
            Verdict::Escaped(_) => is_control,
            Verdict::Skipped(_) => false,
        };
        assert!(as_wanted, "{} without {:?}: {:?}", row.id, row.without, row.verdict);
    }
}
