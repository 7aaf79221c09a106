//! Holding a directory against what a load was told about it.

use super::load::{CONTROL, Said};
use crate::disk::image::Image;
use crate::instance;
use choir_control::db::Db;
use choir_control::secret::Digest;
use choir_proto::event::{Actor, NewEvent, RunSteered};
use choir_proto::{Envelope, Event, EventId, Seq, Timestamp};
use choir_store::{Expect, Log, Query};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use uuid::Uuid;

/// What is wrong with a directory.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Acknowledged things that are not there.
    pub(super) lost: u64,
    /// Everything else.
    pub(super) faults: Vec<String>,
}

impl Findings {
    pub(super) fn is_clean(&self) -> bool {
        self.lost == 0 && self.faults.is_empty()
    }
}

/// A name for the computer whose directory is examined.
const COMPUTER: Uuid = Uuid::from_u128(1);

/// Puts an image into a fresh data directory, lets `choir verify` look at it, and then examines it.
pub(super) fn image(image: &Image, said: &[Said], runtime: &tokio::runtime::Runtime) -> anyhow::Result<Findings> {
    let data = crate::scratch::directory()?;
    let directory = data.path().join("computers").join(COMPUTER.to_string());
    std::fs::create_dir_all(&directory)?;
    image.write_to(&directory)?;
    let mut findings = Findings::default();
    // Before the first acknowledgement there need not even be a table.
    if said.iter().any(|said| matches!(said, Said::Appended(..)))
        && let Err(what) = instance::verify(data.path())?
    {
        findings.faults.push(format!("choir verify: {what}"));
    }
    runtime.block_on(async {
        examine(&directory, said, &mut findings).await;
        examine_control(&directory.join(CONTROL), said, &mut findings).await;
    });
    Ok(findings)
}

async fn examine(directory: &Path, said: &[Said], findings: &mut Findings) {
    let log = match Log::open(directory) {
        Ok(log) => log,
        Err(error) => {
            findings.faults.push(format!("it does not open: {error}"));
            findings.lost += promises(said);
            return;
        }
    };
    match read_all(&log).await {
        Ok(events) => compare(&log, &events, said, findings),
        Err(error) => findings.faults.push(format!("it cannot be read: {error}")),
    }
    if let Err(error) = log.append(vec![one_more(log.head().seq)], Expect::Any).await {
        findings.faults.push(format!("it does not go on: {error}"));
    }
    log.close().await;
    verify(directory, findings);
}

/// Whatever control said that it keeps, it still knows.
async fn examine_control(path: &Path, said: &[Said], findings: &mut Findings) {
    let granted = said.iter().filter_map(|said| match said {
        Said::Granted(digest) => Some(Digest::of(&digest.0)),
        _ => None,
    });
    let control = match Db::open(path) {
        Ok(control) => control,
        Err(error) => {
            findings.faults.push(format!("control's database does not open: {error}"));
            findings.lost += granted.count() as u64;
            return;
        }
    };
    for digest in granted {
        match control.grant(digest, Timestamp(0)).await {
            Ok(known) => findings.lost += u64::from(known.is_none()),
            Err(error) => findings.faults.push(format!("control's database cannot be read: {error}")),
        }
    }
}

fn verify(directory: &Path, findings: &mut Findings) {
    match choir_store::verify(directory, &[], |_| {}) {
        Ok(report) => findings.faults.extend(report.faults),
        Err(error) => findings.faults.push(format!("verify: {error}: {:?}", std::error::Error::source(&error))),
    }
}

/// Acknowledged things.
pub(super) fn promises(said: &[Said]) -> u64 {
    let is_promise =
        |said: &&Said| matches!(said, Said::Appended(..) | Said::Kept(_) | Said::Erased(_) | Said::Granted(_));
    said.iter().filter(is_promise).count() as u64
}

async fn read_all(log: &Log) -> Result<Vec<Envelope>, choir_store::StoreError> {
    let mut events = Vec::<Envelope>::new();
    loop {
        let after = events.last().map_or(Seq::ZERO, |event| event.header.seq);
        let mut page = log.read(Query { after, limit: 1000, ..Query::default() }).await?;
        if page.is_empty() {
            return Ok(events);
        }
        events.append(&mut page);
    }
}

fn compare(log: &Log, events: &[Envelope], said: &[Said], findings: &mut Findings) {
    let places: BTreeMap<EventId, &Envelope> = events.iter().map(|event| (event.header.id, event)).collect();
    for said in said {
        let kept = match said {
            Said::Appended(seq, id) => places.get(id).is_some_and(|event| event.header.seq == *seq),
            Said::Kept(hash) => log.blobs().get(hash).is_ok(),
            Said::Erased(id) => places.get(id).is_some_and(|event| event.payload.get() == "null"),
            // Looked for in another file.
            Said::Granted(_) => true,
            Said::Refused(_) | Said::Unreadable(_) | Said::Stuck(_) | Said::Done => true,
        };
        findings.lost += u64::from(!kept);
    }
    findings.faults.extend(halves(events));
}

/// Units of which some events are there and some are not.
fn halves(events: &[Envelope]) -> Vec<String> {
    let mut units: BTreeMap<String, (usize, HashSet<String>)> = BTreeMap::new();
    for event in events {
        let Ok(Event::RunSteered(steered)) = event.event() else { continue };
        let mut words = steered.text.split(' ').map(str::to_owned);
        if let (Some(unit), Some(part), Some(Ok(length))) =
            (words.next(), words.next(), words.next().map(|length| length.parse()))
        {
            units.entry(unit).or_insert((length, HashSet::new())).1.insert(part);
        }
    }
    let halves = units.into_iter().filter(|(_, (length, parts))| parts.len() != *length);
    halves
        .map(|(unit, (length, parts))| format!("{} of {length} events of unit {unit} are there", parts.len()))
        .collect()
}

fn one_more(head: Seq) -> NewEvent {
    let id = EventId::new(Uuid::from_u128(u128::from(head.0) << 64 | u128::from(u64::MAX)));
    let event = RunSteered { text: format!("after {head} 0 1") }.into();
    NewEvent { id, at: Timestamp(0), actor: Actor::Computer, run: None, task: None, cause: None, event }
}
