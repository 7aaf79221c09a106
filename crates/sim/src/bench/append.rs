//! Appending, beside a bare loop over the same engine that keeps nothing but the bytes.

use crate::event::{self, PAYLOAD_BYTES};
use crate::scratch;
use crate::stats::median;
use crate::table::{Table, Verdict};
use choir_store::{Expect, Log};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

/// Callers at once, and rows of the bare loop in one commit.
const CALLERS: usize = 64;

/// Both sides are measured so many times in turn: the machine is shared, and its mood changes.
const ROUNDS: u32 = 7;

/// Length of one measurement.
const ROUND: Duration = Duration::from_millis(800);

pub(super) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let many = compare(CALLERS)?;
    table.row(
        "fsynced append, 64 callers, 300 B",
        "≥ 60 % of a bare 64-row FULL commit",
        &many,
        Verdict::gate(many.share() >= 0.6),
    );
    let one = compare(1)?;
    table.row(
        "fsynced append, one caller, 300 B",
        "≥ 80 % of a bare one-row FULL commit",
        &one,
        Verdict::gate(one.share() >= 0.8),
    );
    Ok(())
}

/// Events per second, ours and bare.
struct Rates {
    ours: f64,
    bare: f64,
}

impl Rates {
    fn share(&self) -> f64 {
        self.ours / self.bare
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} % ({:.0} of {:.0} events/s)", self.share() * 100.0, self.ours, self.bare)
    }
}

fn compare(callers: usize) -> anyhow::Result<Rates> {
    let (ours_at, bare_at) = (scratch::directory()?, scratch::directory()?);
    let runtime = super::runtime()?;
    let log = runtime.block_on(async { Log::open(ours_at.path()) })?;
    let bare = open_bare(bare_at.path())?;
    let (mut ours_rates, mut bare_rates) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        ours_rates.push(runtime.block_on(append_from(&log, callers, began))?);
        bare_rates.push(commit_bare(&bare, callers)?);
    }
    runtime.block_on(log.close());
    Ok(Rates { ours: median(&mut ours_rates), bare: median(&mut bare_rates) })
}

async fn append_from(log: &Log, callers: usize, began: Instant) -> anyhow::Result<f64> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                let mut appended = 0_u64;
                while started.elapsed() < ROUND {
                    log.append(vec![event::note(id(began))], Expect::Any).await?;
                    appended += 1;
                }
                anyhow::Ok(appended)
            })
        })
        .collect();
    let mut events = 0;
    for task in tasks {
        events += task.await??;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// An id as a computer makes it: growing with time, random below. Callers do not take turns for it.
fn id(began: Instant) -> u128 {
    began.elapsed().as_nanos() << 64 | u128::from(fastrand::u64(..))
}

fn open_bare(directory: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(directory.join("bare.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE rows (seq INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT")?;
    Ok(connection)
}

fn commit_bare(connection: &Connection, rows: usize) -> anyhow::Result<f64> {
    let payload = [b'x'; PAYLOAD_BYTES];
    let mut insert = connection.prepare("INSERT INTO rows (payload) VALUES (?1)")?;
    let (started, mut events) = (Instant::now(), 0);
    while started.elapsed() < ROUND {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..rows {
            insert.execute([&payload[..]])?;
        }
        connection.execute_batch("COMMIT")?;
        events += rows;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}
