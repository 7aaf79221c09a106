//! Requests that were refused because of where they came from or what they reached for: kept here first, then as a copy in
//! the computer's log. Whoever is refused a million times writes a handful of lines, with the number in them.

use crate::clock::Clock;
use crate::computer::Link;
use crate::db::Db;
use crate::stop::Stop;
use choir_proto::event::{Actor, Event, RefusalReason, RequestRefused};
use choir_proto::wire::Record;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is quoted of a request at most.
const TEXT_BYTES_MAX: usize = 200;
/// After the first of a kind was told, this long nothing is.
const PAUSE_MIN: Duration = Duration::from_secs(60);
/// While they go on the pause doubles, up to this: about thirty lines a day of each kind, however many come.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Where refusals are noted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Audit(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    tally: Mutex<Tally>,
    noted: Notify,
}

impl Audit {
    /// Notes one refusal; nobody waits for it to be kept.
    pub(crate) fn note(&self, refused: RequestRefused) {
        self.tally().note(refused);
        self.0.noted.notify_one();
    }

    /// Keeps what is noted until it is told to stop, and then the rest.
    pub(crate) async fn keep(self, db: Db, link: Link, clock: Clock, mut stop: Stop) {
        loop {
            tokio::select! {
                () = self.due() => {}
                () = stop.said() => break,
            }
            let due = self.tally().take(Instant::now());
            tell(due, &db, &link, &clock).await;
        }
        let rest = self.tally().rest();
        tell(rest, &db, &link, &clock).await;
    }

    /// Returns when something may be told.
    async fn due(&self) {
        loop {
            let due = self.tally().due();
            match due {
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.0.noted.notified() => {}
                },
                None => self.0.noted.notified().await,
            }
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

async fn tell(refusals: Vec<RequestRefused>, db: &Db, link: &Link, clock: &Clock) {
    for refused in refusals {
        if let Err(error) = db.add_refusal(refused.clone(), clock.now()).await {
            tracing::error!(error = &error as &dyn std::error::Error, "refused requests were not kept");
        }
        let event = Event::from(refused);
        let (kind, version, payload) = (event.kind().to_string(), event.version(), event.payload());
        let record = Record { actor: Actor::Control, run: None, task: None, kind, version, payload };
        if let Err(error) = link.post("/internal/record", &record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the log was not told about refused requests");
        }
    }
}

/// What a request said, as far as it is quoted.
pub(crate) fn quoted(text: &str) -> String {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}

/// What was noted and not told yet, by reason: there are few reasons, so it stays small.
#[derive(Debug, Default)]
struct Tally(BTreeMap<RefusalReason, Alike>);

#[derive(Debug, Default)]
struct Alike {
    /// The newest, with the number of all that were not told.
    untold: Option<RequestRefused>,
    last: Option<Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    at: Instant,
    pause: Duration,
}

impl Tally {
    fn note(&mut self, refused: RequestRefused) {
        let alike = self.0.entry(refused.reason).or_default();
        let before = alike.untold.as_ref().map_or(0, |untold| untold.count);
        alike.untold = Some(RequestRefused { count: before.saturating_add(refused.count), ..refused });
    }

    /// When the next may be told; nothing when there is none.
    fn due(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|alike| alike.untold.is_some());
        waiting.map(|alike| alike.last.map_or_else(Instant::now, Told::until)).min()
    }

    /// What may be told now.
    fn take(&mut self, now: Instant) -> Vec<RequestRefused> {
        self.0.values_mut().filter_map(|alike| alike.take(now)).collect()
    }

    /// Everything that was not told.
    fn rest(&mut self) -> Vec<RequestRefused> {
        self.0.values_mut().filter_map(|alike| alike.untold.take()).collect()
    }
}

impl Alike {
    fn take(&mut self, now: Instant) -> Option<RequestRefused> {
        if self.last.is_some_and(|last| last.until() > now) {
            return None;
        }
        let told = self.untold.take()?;
        self.last = Some(Told { at: now, pause: self.pause_after(now) });
        Some(told)
    }

    /// Longer while it goes on, short again after a whole quiet pause.
    fn pause_after(&self, now: Instant) -> Duration {
        match self.last {
            Some(last) if now < last.until() + last.pause => (last.pause * 2).min(PAUSE_MAX),
            _ => PAUSE_MIN,
        }
    }
}

impl Told {
    fn until(self) -> Instant {
        self.at + self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> RequestRefused {
        RequestRefused {
            reason: RefusalReason::ForeignOrigin,
            method: "GET".into(),
            path: path.into(),
            origin: None,
            peer: "127.0.0.1".into(),
            count: 1,
        }
    }

    #[test]
    fn the_first_is_told_at_once_and_a_flood_in_few_lines_that_add_up() {
        const DAY: u64 = 24 * 3600;
        let (mut tally, start) = (Tally::default(), Instant::now());
        let mut told = Vec::new();
        for second in 0..DAY {
            tally.note(refused(&second.to_string()));
            told.extend(tally.take(start + Duration::from_secs(second)));
        }
        assert_eq!((told[0].path.as_str(), told[0].count), ("0", 1));
        assert!(told.len() <= 32, "{} lines", told.len());
        let rest = tally.rest();
        assert_eq!(told.iter().chain(&rest).map(|refused| refused.count).sum::<u64>(), DAY);
        assert_eq!(rest[0].path, (DAY - 1).to_string(), "the newest is the one that is shown");
    }

    #[test]
    fn after_a_quiet_time_the_first_is_told_at_once_again() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        let mut at = |seconds| {
            tally.note(refused("/"));
            tally.take(start + Duration::from_secs(seconds)).len()
        };
        assert_eq!([at(0), at(1), at(61), at(62)], [1, 0, 1, 0]);
        // The second pause is two minutes; as long again without any ends it.
        assert_eq!([at(181), at(1000), at(1001), at(1061)], [1, 1, 0, 1]);
    }

    #[test]
    fn reasons_do_not_hide_each_other() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        tally.note(refused("/"));
        assert_eq!(tally.take(now).len(), 1);
        tally.note(RequestRefused { reason: RefusalReason::UnknownId, ..refused("/") });
        assert_eq!(tally.take(now).len(), 1);
    }

    #[test]
    fn quotations_are_cut_between_letters() {
        assert_eq!(quoted(&"ä".repeat(101)), "ä".repeat(100));
        assert_eq!(quoted(&format!("x{}", "ä".repeat(101))), format!("x{}", "ä".repeat(99)));
    }
}
