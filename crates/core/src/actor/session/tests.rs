use super::*;
use uuid::Uuid;

const A: Child = run(1);
const B: Child = run(2);
const C: Child = run(3);

const fn run(number: u128) -> Child {
    Child::Run(RunId::new(Uuid::from_u128(number)))
}

fn task() -> Child {
    Child::Task(TaskId::new(Uuid::from_u128(9)))
}

/// Tells a session something and compares what it wants done. Events have no equality of their own, only words.
#[track_caller]
fn check(session: &mut Session, now_ms: u64, input: Input, wanted: Vec<Effect>) {
    assert_eq!(format!("{:#?}", session.step(input, now_ms)), format!("{wanted:#?}"));
}

/// With so many places, and somebody at work.
fn busy(places: usize, children: &[Child]) -> Session {
    let mut session = Session::new(places);
    for (number, child) in children.iter().enumerate() {
        // Far enough from each other to come alone.
        check(&mut session, number as u64 * 1_000, Input::Accepted(*child), vec![Effect::Start(*child)]);
    }
    session
}

fn failure(child: Child) -> Failure {
    Failure { child, reason: "it broke".into(), trouble: None }
}

fn restarted(child: Child, restarts: u32, after_ms: u64) -> Vec<Effect> {
    let event = ActorRestarted { name: child.name(), reason: "it broke".into(), restarts };
    vec![
        Effect::TellFailed(failure(child)),
        Effect::ShowRestarting(child),
        Effect::Append(child, vec![event.into()]),
        Effect::Restart { child, after_ms },
    ]
}

/// Lets a child fail as often as is borne, each time a little later.
fn worn(session: &mut Session, child: Child) {
    for restarts in 1..=INTENSITY.restarts_max {
        let now_ms = u64::from(restarts) * 100;
        check(session, now_ms, Input::Failed(failure(child)), restarted(child, restarts, 10 << (restarts - 1)));
        check(session, now_ms + 50, Input::Restart(child), vec![Effect::Start(child)]);
    }
}

/// And once more than that.
#[track_caller]
fn given_up(child: Child, last: Effect) {
    let mut session = Session::new(1);
    worn(&mut session, child);
    let escalated = ActorEscalated { name: child.name(), reason: "it broke".into() };
    let effects = vec![
        Effect::TellFailed(failure(child)),
        Effect::ShowEnded(child),
        Effect::Append(child, vec![escalated.into()]),
        last,
    ];
    check(&mut session, 1_000, Input::Failed(failure(child)), effects);
}

#[test]
fn a_crowd_is_put_off_until_it_is_gone_and_who_comes_alone_is_not() {
    let mut session = busy(9, &[A]);
    check(&mut session, 5, Input::Accepted(B), vec![Effect::PutOff { child: B, after_ms: 40 }]);
    check(&mut session, 44, Input::Accepted(C), vec![Effect::Start(C)]);
    check(&mut session, 45, Input::Turn(B), vec![Effect::PutOff { child: B, after_ms: 40 }]);
    check(&mut session, 85, Input::Turn(B), vec![Effect::Start(B)]);
    check(&mut session, 86, Input::Turn(B), vec![]);
}

#[test]
fn nobody_is_put_off_for_ever() {
    let mut session = busy(9, &[A]);
    session.step(Input::Accepted(B), 0);
    // The clock stands still, so that the crowd never goes.
    let put_off = |_: &u32| matches!(session.step(Input::Turn(B), 0)[..], [Effect::PutOff { .. }]);
    assert!((0..100).take_while(put_off).count() < 100);
    check(&mut session, 0, Input::Asked(B), vec![]);
}

#[test]
fn who_finds_no_place_stands_in_line_and_nobody_overtakes() {
    let mut session = Session::new(1);
    check(&mut session, 0, Input::Found(vec![A, B]), vec![Effect::CallNext]);
    check(&mut session, 0, Input::Accepted(C), vec![Effect::CallNext]);
    check(&mut session, 0, Input::Next, vec![Effect::Start(A), Effect::CallNext]);
    check(&mut session, 0, Input::Next, vec![]);
    check(&mut session, 0, Input::Ended(A), vec![Effect::ShowEnded(A), Effect::CallNext]);
    check(&mut session, 0, Input::Next, vec![Effect::Start(B), Effect::CallNext]);
    check(&mut session, 0, Input::Ended(B), vec![Effect::ShowEnded(B), Effect::CallNext]);
    check(&mut session, 0, Input::Next, vec![Effect::Start(C)]);
    check(&mut session, 0, Input::Ended(C), vec![Effect::ShowEnded(C)]);
}

#[test]
fn who_stood_in_line_behind_a_crowd_is_not_put_off_once_more() {
    let mut session = busy(1, &[A]);
    check(&mut session, 5, Input::Accepted(B), vec![Effect::PutOff { child: B, after_ms: 40 }]);
    check(&mut session, 45, Input::Turn(B), vec![Effect::CallNext]);
    check(&mut session, 45, Input::Ended(A), vec![Effect::ShowEnded(A), Effect::CallNext]);
    session.step(Input::Accepted(C), 46);
    check(&mut session, 46, Input::Next, vec![Effect::Start(B), Effect::CallNext]);
}

#[test]
fn who_is_asked_for_begins_at_once_and_only_once() {
    let mut session = busy(1, &[A]);
    check(&mut session, 5, Input::Accepted(B), vec![Effect::PutOff { child: B, after_ms: 40 }]);
    check(&mut session, 6, Input::Asked(B), vec![Effect::Start(B)]);
    check(&mut session, 45, Input::Turn(B), vec![]);
    check(&mut session, 100, Input::Accepted(C), vec![Effect::CallNext]);
    check(&mut session, 100, Input::Asked(C), vec![Effect::Start(C)]);
    check(&mut session, 100, Input::Asked(C), vec![]);
    for child in [A, B, C] {
        check(&mut session, 200, Input::Ended(child), vec![Effect::ShowEnded(child), Effect::CallNext]);
    }
    check(&mut session, 200, Input::Next, vec![]);
}

#[test]
fn what_is_both_found_and_said_is_started_once() {
    let mut session = Session::new(9);
    check(&mut session, 0, Input::Found(vec![A]), vec![Effect::CallNext]);
    check(&mut session, 0, Input::Next, vec![Effect::Start(A)]);
    check(&mut session, 0, Input::Accepted(A), vec![]);
}

#[test]
fn who_fails_again_and_again_is_given_up() {
    let summary = || "This run failed again and again: it broke".to_owned();
    let Child::Run(run) = A else { unreachable!() };
    given_up(A, Effect::Reckon { run, summary: summary() });
    let unanswered = Some(Paid { tokens: 7, ..Paid::default() });
    let ended = RunEnded { status: RunStatus::Failed, summary: summary(), unanswered };
    let reckoned = Input::Reckoned { run, summary: summary(), unanswered };
    check(&mut Session::new(1), 0, reckoned, vec![Effect::Append(A, vec![ended.into()])]);

    let Child::Task(task_id) = task() else { unreachable!() };
    let summary = "This task failed again and again: it broke".to_owned();
    let result = TaskResult { status: TaskStatus::Failed, summary, ..running(task_id) };
    given_up(task(), Effect::Append(task(), vec![TaskFinished { result }.into()]));

    given_up(Child::Desktop, Effect::Fail("the desktop fails again and again: it broke".into()));
}

#[test]
fn who_ended_in_order_has_no_history() {
    let mut session = Session::new(9);
    worn(&mut session, A);
    check(&mut session, 1_000, Input::Ended(A), vec![Effect::ShowEnded(A)]);
    check(&mut session, 1_000, Input::Failed(failure(A)), restarted(A, 1, 10));
}

#[test]
fn who_fails_with_the_disk_waits_for_it_and_is_not_blamed() {
    let mut session = busy(9, &[A]);
    for (trouble, after_ms) in [(Trouble::Disk, 1_000), (Trouble::Damage, 60_000)] {
        let failure = Failure { trouble: Some(trouble), ..failure(A) };
        for _ in 0..=INTENSITY.restarts_max {
            let waits = vec![
                Effect::TellWaits(failure.clone()),
                Effect::ShowRestarting(A),
                Effect::Restart { child: A, after_ms },
            ];
            check(&mut session, 0, Input::Failed(failure.clone()), waits);
            check(&mut session, 0, Input::Restart(A), vec![Effect::Start(A)]);
        }
    }
    check(&mut session, 0, Input::Failed(failure(A)), restarted(A, 1, 10));
}

#[test]
fn who_fails_leaves_its_place() {
    let mut session = busy(1, &[A]);
    check(&mut session, 1_000, Input::Accepted(B), vec![Effect::CallNext]);
    check(&mut session, 1_000, Input::Next, vec![]);
    let mut effects = restarted(A, 1, 10);
    effects.push(Effect::CallNext);
    check(&mut session, 1_000, Input::Failed(failure(A)), effects);
    check(&mut session, 1_000, Input::Next, vec![Effect::Start(B)]);
    // It was in vain, and others are called by whoever called it.
    check(&mut session, 1_000, Input::NotStarted(failure(B)), restarted(B, 1, 10));
    check(&mut session, 2_000, Input::Accepted(C), vec![Effect::Start(C)]);
}
