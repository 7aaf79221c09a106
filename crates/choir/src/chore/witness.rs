//! What control knows of a computer's log by itself. The log is written by a process that control does not trust, and holds
//! copies of what control decided: a copy without its original is a lie.
//!
//! Only contradictions count. Control may know more than the log, which the computer did not write before it died; it knows
//! nothing of what was before it kept this computer; and of what an answer cost it may lose what a crash found on its way.

use choir_control::db::{Approval, Attempt, Spent};
use choir_proto::event::{EgressAllowed, EgressDenied, Header, InboxAsked, InboxDecided, ModelCalled};
use choir_proto::inbox::{Reach, Verdict};
use choir_proto::{ComputerId, Event, Hash, InboxId, RunId, Seq, TaskId, Timestamp};
use std::collections::{BTreeMap, HashMap};

/// Everything that control has kept and logs hold copies of.
#[derive(Default)]
pub(super) struct Known {
    /// Since when it keeps each computer.
    pub(super) computers: BTreeMap<ComputerId, Timestamp>,
    pub(super) approvals: Vec<Approval>,
    /// How often each was decided.
    pub(super) egress: HashMap<Attempt, u64>,
    pub(super) spent: HashMap<RunId, Spent>,
}

impl Known {
    /// Somebody to be shown the log of a computer, which control has signed so far.
    pub(super) fn witness(&self, computer: ComputerId, signed: Option<Seq>) -> Witness<'_> {
        Witness {
            known: self,
            since: self.computers.get(&computer).copied(),
            has_begun: false,
            signed: signed.unwrap_or_default(),
            decided: self.approvals.iter().map(|approval| (approval.id, approval.decided.as_ref())).collect(),
            asked: HashMap::new(),
            left: self.egress.clone(),
            calls: HashMap::new(),
            settled: BTreeMap::new(),
        }
    }
}

/// Is shown one log from its beginning.
pub(super) struct Witness<'known> {
    known: &'known Known,
    since: Option<Timestamp>,
    /// Once an event is not older than control's own memory, all that follow are not either, whatever their labels say.
    has_begun: bool,
    signed: Seq,
    decided: HashMap<InboxId, Option<&'known Verdict>>,
    /// What a question of the log was about.
    asked: HashMap<InboxId, (Hash, Option<RunId>)>,
    /// Decisions about connections that no event has told of yet.
    left: HashMap<Attempt, u64>,
    /// The newest answer of each task: who wrote it into the log, and what it cost.
    calls: HashMap<(RunId, Option<TaskId>), (u32, Spent)>,
    /// What control must know of.
    settled: BTreeMap<RunId, Spent>,
}

impl Witness<'_> {
    /// What is wrong with an event, if something is.
    pub(super) fn contradict(&mut self, header: &Header, event: &Event) -> Option<String> {
        self.has_begun |= self.since.is_some_and(|since| header.at >= since);
        if !self.has_begun {
            return None;
        }
        match event {
            Event::InboxAsked(InboxAsked { inbox_id, hash, .. }) => {
                self.asked.insert(*inbox_id, (*hash, header.run));
                None
            }
            Event::InboxDecided(decided) => self.decision(header.seq, decided),
            Event::EgressAllowed(EgressAllowed { host, port, rule }) => {
                self.attempt(header, Attempt::new(header.task, host, *port, true, rule))
            }
            Event::EgressDenied(EgressDenied { host, port, reason }) => {
                self.attempt(header, Attempt::new(header.task, host, *port, false, reason))
            }
            Event::ModelCalled(called) => {
                self.paid(header, called);
                None
            }
            Event::RunEnded(_) => {
                self.ended(header);
                None
            }
            _ => None,
        }
    }

    fn decision(&self, seq: Seq, decided: &InboxDecided) -> Option<String> {
        let InboxDecided { inbox_id, decision } = decided;
        if !matches!(decision, Verdict::Approved { .. } | Verdict::Answered { .. }) {
            return None;
        }
        match self.decided.get(inbox_id) {
            Some(Some(known)) if agrees(known, decision) => None,
            None if self.stands(*inbox_id) => None,
            Some(_) => Some(format!("event {seq} says what the person decided, but control knows that they did not")),
            None => Some(format!("event {seq} says what the person decided, but control never asked them")),
        }
    }

    /// Whether a question need not have been put, because the person had said yes to the very same for more than one call.
    fn stands(&self, id: InboxId) -> bool {
        let Some((hash, run)) = self.asked.get(&id) else { return false };
        self.known.approvals.iter().any(|approval| {
            let reaches = match approval.decided {
                Some(Verdict::Approved { scope: Reach::Always }) => true,
                Some(Verdict::Approved { scope: Reach::Run }) => approval.run.is_some() && approval.run == *run,
                _ => false,
            };
            approval.hash == *hash && reaches
        })
    }

    /// Control keeps a decision about a connection before the log is told of it.
    fn attempt(&mut self, header: &Header, attempt: Attempt) -> Option<String> {
        match self.left.get_mut(&attempt) {
            Some(left) if *left > 0 => {
                *left -= 1;
                None
            }
            _ => Some(format!(
                "event {} says that a connection to {}:{} was {}, but control knows of no such decision",
                header.seq,
                attempt.host,
                attempt.port,
                if attempt.allowed { "allowed" } else { "refused" },
            )),
        }
    }

    /// What an answer cost is written down before the same task is let ask again; a signature that came later has synced it.
    fn paid(&mut self, header: &Header, called: &ModelCalled) {
        let Some(run) = header.run.filter(|_| header.seq <= self.signed) else { return };
        let cost = Spent { calls: 1, tokens: called.usage.tokens(), usd: called.usage.usd };
        if let Some((epoch, before)) = self.calls.insert((run, header.task), (header.epoch, cost))
            && epoch == header.epoch
        {
            self.settle(run, before);
        }
    }

    /// Whoever ends a run asks control first what it has cost.
    fn ended(&mut self, header: &Header) {
        let Some(run) = header.run.filter(|_| header.seq <= self.signed) else { return };
        let ended: Vec<_> = self.calls.extract_if(|(of, _), _| *of == run).collect();
        for (_, (epoch, cost)) in ended {
            if epoch == header.epoch {
                self.settle(run, cost);
            }
        }
    }

    fn settle(&mut self, run: RunId, cost: Spent) {
        let sum = self.settled.entry(run).or_default();
        sum.calls += cost.calls;
        sum.tokens += cost.tokens;
        sum.usd = sum.usd + cost.usd;
    }

    /// What is wrong with the log as a whole.
    pub(super) fn finish(self) -> impl Iterator<Item = String> {
        let known = self.known;
        self.settled.into_iter().filter_map(move |(run, told)| {
            let Spent { calls, tokens, usd } = known.spent.get(&run).copied().unwrap_or_default();
            let is_less = calls < told.calls || tokens < told.tokens || usd < told.usd;
            is_less.then(|| {
                format!(
                    "run {run} has {} answers of models for {} in the log, but control knows of {calls} for {usd}",
                    told.calls, told.usd
                )
            })
        })
    }
}

/// An approval for more than one call is one for this call too.
fn agrees(known: &Verdict, told: &Verdict) -> bool {
    known == told || matches!((known, told), (Verdict::Approved { .. }, Verdict::Approved { scope: Reach::Once }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::Usd;
    use choir_proto::event::{Actor, RunEnded};
    use choir_proto::inbox::AskKind;
    use choir_proto::model::{AssistantMessage, StopReason, Usage};
    use choir_proto::{EventId, RunStatus};

    const COMPUTER: [u8; 16] = [1; 16];
    const RUN: [u8; 16] = [2; 16];
    const TASK: [u8; 16] = [3; 16];

    /// What is wrong with a log, of which each event has an epoch; control keeps the computer since the time 10.
    fn faults(mut known: Known, events: &[(u32, Event)]) -> Vec<String> {
        known.computers.insert(ComputerId::from(COMPUTER), Timestamp(10));
        let mut witness = known.witness(ComputerId::from(COMPUTER), Some(Seq(events.len() as u64)));
        let mut faults = Vec::new();
        for (seq, (epoch, event)) in (1..).zip(events) {
            faults.extend(witness.contradict(&header(seq, *epoch, Timestamp(10)), event));
        }
        faults.extend(witness.finish());
        faults
    }

    fn header(seq: u64, epoch: u32, at: Timestamp) -> Header {
        Header {
            seq: Seq(seq),
            id: EventId::from([4; 16]),
            epoch,
            at,
            actor: Actor::Control,
            run: Some(RunId::from(RUN)),
            task: Some(TaskId::from(TASK)),
            cause: None,
            kind: "any".into(),
            version: 1,
            payload_hash: Hash::ZERO,
            prev: Hash::ZERO,
            hash: Hash::ZERO,
        }
    }

    fn allowed(host: &str) -> Event {
        EgressAllowed { host: host.into(), port: 443, rule: "ceiling".into() }.into()
    }

    fn known_attempts(host: &str, allowed: bool, times: u64) -> Known {
        let attempt = Attempt::new(Some(TaskId::from(TASK)), host, 443, allowed, "ceiling");
        Known { egress: HashMap::from([(attempt, times)]), ..Known::default() }
    }

    fn called() -> Event {
        let usage = Usage { input_tokens: 7, usd: Usd(50), ..Usage::default() };
        let (message, stop) = (AssistantMessage::default(), StopReason::Finished);
        ModelCalled { turn: 1, model: "a/b".into(), message, stop, usage, duration_ms: 1, window: None, heard: None }
            .into()
    }

    fn ended() -> Event {
        RunEnded { status: RunStatus::Completed, summary: String::new(), unanswered: None }.into()
    }

    fn known_spent(calls: u64) -> Known {
        let spent = Spent { calls, tokens: 7 * calls, usd: Usd(50 * calls) };
        Known { spent: HashMap::from([(RunId::from(RUN), spent)]), ..Known::default() }
    }

    #[test]
    fn a_connection_that_control_decided_otherwise_or_never_about_is_a_lie() {
        let log = [(1, allowed("example.org")), (1, allowed("example.org"))];
        assert_eq!(faults(known_attempts("example.org", true, 2), &log), [""; 0]);
        assert_eq!(
            faults(known_attempts("example.org", true, 5), &log),
            [""; 0],
            "the log may have been told of fewer"
        );
        for known in [
            known_attempts("example.org", true, 1),
            known_attempts("example.org", false, 2),
            known_attempts("example.com", true, 2),
        ] {
            assert!(faults(known, &log)[0].contains("knows of no such decision"));
        }
    }

    #[test]
    fn money_that_control_does_not_know_of_is_a_lie() {
        let log = [(1, called()), (1, called()), (1, ended())];
        assert_eq!(faults(known_spent(2), &log), [""; 0]);
        assert_eq!(faults(known_spent(3), &log), [""; 0], "answers that nobody heard cost, too");
        assert!(faults(Known::default(), &log)[0].contains("2 answers of models for $0.0001 in the log"));
        assert!(faults(known_spent(1), &log)[0].contains("control knows of 1 for $0.00005"));
    }

    /// Whatever a kill found on its way is nobody's lie; nor is what control has not signed yet.
    #[test]
    fn an_answer_that_a_crash_overtook_need_not_be_known() {
        let log = [(1, called()), (1, called()), (2, called()), (2, ended())];
        assert_eq!(faults(known_spent(2), &log), [""; 0], "the second was under way when the first holder died");
        assert_eq!(faults(known_spent(1), &log).len(), 1);
        let known = Known { computers: BTreeMap::from([(COMPUTER.into(), Timestamp(0))]), ..Known::default() };
        let mut witness = known.witness(COMPUTER.into(), Some(Seq(1)));
        for seq in 1..4 {
            assert_eq!(witness.contradict(&header(seq, 1, Timestamp(0)), &called()), None);
        }
        assert_eq!(witness.finish().count(), 0);
    }

    /// A database that was moved away and made anew knows nothing of what was before.
    #[test]
    fn what_was_before_control_is_not_compared_and_an_old_label_does_not_hide() {
        let known = Known { computers: BTreeMap::from([(COMPUTER.into(), Timestamp(10))]), ..Known::default() };
        let mut witness = known.witness(COMPUTER.into(), None);
        assert_eq!(witness.contradict(&header(1, 1, Timestamp(9)), &allowed("a.example")), None);
        assert!(witness.contradict(&header(2, 1, Timestamp(10)), &allowed("a.example")).is_some());
        assert!(witness.contradict(&header(3, 1, Timestamp(0)), &allowed("a.example")).is_some());
        let mut elsewhere = known.witness(ComputerId::from([9; 16]), None);
        assert_eq!(elsewhere.contradict(&header(1, 1, Timestamp(99)), &allowed("a.example")), None);
    }

    #[test]
    fn a_standing_approval_is_one_of_what_it_was_given_for() {
        let approval = |hash: u8, scope: Reach, run: [u8; 16]| Approval {
            id: InboxId::from([hash; 16]),
            kind: AskKind::Tool,
            run: Some(run.into()),
            task: None,
            entry: String::new(),
            question: String::new(),
            hash: Hash([hash; 32]),
            answers: Vec::new(),
            asked: Timestamp(0),
            decided: Some(Verdict::Approved { scope }),
        };
        let approvals =
            vec![approval(5, Reach::Always, [8; 16]), approval(6, Reach::Run, [8; 16]), approval(7, Reach::Run, RUN)];
        let lies = |asked: Option<u8>| {
            let inbox_id = InboxId::from([99; 16]);
            let ask = |hash: u8| InboxAsked {
                inbox_id,
                ask: AskKind::Tool,
                question: String::new(),
                subject: String::new(),
                hash: Hash([hash; 32]),
                answers: Vec::new(),
            };
            let decision = Verdict::Approved { scope: Reach::Once };
            let decided = InboxDecided { inbox_id, decision }.into();
            let log: Vec<_> = asked.map(|hash| (1, ask(hash).into())).into_iter().chain([(1, decided)]).collect();
            !faults(Known { approvals: approvals.clone(), ..Known::default() }, &log).is_empty()
        };
        assert_eq!([Some(5), Some(7)].map(lies), [false, false]);
        assert_eq!([None, Some(4), Some(6)].map(lies), [true, true, true], "another matter, or another run");
    }

    #[test]
    fn an_approval_for_a_run_is_one_for_each_of_its_calls() {
        let run = Verdict::Approved { scope: Reach::Run };
        let once = Verdict::Approved { scope: Reach::Once };
        assert!(agrees(&run, &once) && agrees(&run, &run) && !agrees(&once, &run));
        assert!(!agrees(&Verdict::Denied { scope: Reach::Once }, &once));
    }
}
