use super::*;
use crate::fold::task::running;
use crate::testing::header;
use choir_proto::event::{BlockedOn, RunBlocked, RunResumed, TaskRequested, ToolFinished, ToolOutcome};
use choir_proto::run::{NewRun, Selection, SelectionAction};
use choir_proto::task::TaskKind;
use uuid::Uuid;

const RUN: RunId = RunId::new(Uuid::from_u128(1));
const PAGE: DocumentId = DocumentId::new(Uuid::from_u128(2));

/// Compares what is wanted done. Events have no equality of their own, only words.
#[track_caller]
fn check(effects: Vec<Effect>, wanted: Vec<Effect>) {
    assert_eq!(format!("{effects:#?}"), format!("{wanted:#?}"));
}

fn past(events: impl IntoIterator<Item = Event>) -> Vec<(Header, Event)> {
    events.into_iter().zip(1..).map(|(event, seq)| (header(seq, &event), event)).collect()
}

/// A prompt for which a page is kept ready.
fn prompt() -> RunAccepted {
    RunAccepted { request: NewRun::new("Do it.".into()), document_id: Some(PAGE) }
}

/// The same about a document that was there before.
fn about(selection: Option<Selection>) -> RunAccepted {
    let request = NewRun { document_id: Some(PAGE), selection, ..prompt().request };
    RunAccepted { request, ..prompt() }
}

fn margin() -> RunAccepted {
    about(Some(Selection { from: 0, to: 1, action: SelectionAction::Ask, quote: None }))
}

fn identity() -> Identity {
    let task = TaskId::new(effect::derived(&RUN.to_string(), "root"));
    Identity { run: RUN, task, role: Role::Conductor }
}

fn conduct(known: Option<TaskRequest>) -> Effect {
    Effect::Conduct(Box::new(Conduct { identity: identity(), accepted: prompt(), known }))
}

fn taken_up(accepted: RunAccepted) -> Run {
    let mut run = Run::new(RUN);
    run.step(Input::TakenUp(&past([accepted.into()])));
    run
}

#[test]
fn a_run_that_has_ended_is_not_taken_up_again() {
    let ended = RunEnded { status: RunStatus::Completed, summary: String::new(), unanswered: None };
    let log = past([prompt().into(), RunStarted {}.into(), ended.into()]);
    check(Run::new(RUN).step(Input::TakenUp(&log)), vec![Effect::Stop]);
}

#[test]
fn a_run_begins_once_and_not_while_it_is_held() {
    let (paused, blocked) =
        (Signal { paused: true, ..Signal::default() }, RunBlocked { on: BlockedOn::Model, message: String::new() });
    let take_up = |later: Vec<Event>, signal: Signal, begins: bool| {
        let log = past([vec![prompt().into()], later].concat());
        let begun = begins.then(|| Effect::Append(vec![RunStarted {}.into()]));
        let wanted = begun.into_iter().chain([Effect::Signal(signal), conduct(None)]).collect();
        check(Run::new(RUN).step(Input::TakenUp(&log)), wanted);
    };
    take_up(vec![], Signal::default(), true);
    take_up(vec![RunStarted {}.into()], Signal::default(), false);
    take_up(vec![blocked.into()], Signal::default(), false);
    take_up(vec![RunPaused {}.into()], paused, false);
    take_up(vec![RunPaused {}.into(), RunResumed {}.into()], Signal::default(), true);
    let never = vec![Effect::Fail("the run was never accepted")];
    check(Run::new(RUN).step(Input::TakenUp(&past([RunStarted {}.into()]))), never);
}

#[test]
fn the_first_agent_is_asked_as_it_was_the_first_time() {
    let request = |words: &str| TaskRequest::new(TaskKind::Edit, words.into());
    let asked = |words| Event::from(TaskRequested { request: request(words), role: None, parent: None });
    let mut log = past([prompt().into(), RunStarted {}.into(), asked("another's"), asked("its own")]);
    log[3].0.task = Some(identity().task);
    let wanted = vec![Effect::Signal(Signal::default()), conduct(Some(request("its own")))];
    check(Run::new(RUN).step(Input::TakenUp(&log)), wanted);
}

#[test]
fn said_once_is_said_also_before_a_restart() {
    let mut run = taken_up(prompt());
    for (command, event) in
        [(RunCommand::Cancel, Event::from(CancelRequested {})), (RunCommand::Pause, RunPaused {}.into())]
    {
        let say = Effect::Say(command.clone(), Box::new(event.clone()));
        check(run.step(Input::Asked(command.clone())), vec![say.clone()]);
        // Whoever could not write it down has not said it.
        check(run.step(Input::Asked(command.clone())), vec![say]);
        run.step(Input::Said(command.clone(), Seq(7)));
        check(run.step(Input::Asked(command.clone())), vec![Effect::AnswerNothingNew]);
        let mut again = Run::new(RUN);
        again.step(Input::TakenUp(&past([prompt().into(), event])));
        check(again.step(Input::Asked(command)), vec![Effect::AnswerNothingNew]);
    }
}

#[test]
fn what_is_said_reaches_the_agents_and_can_be_said_again() {
    let mut run = taken_up(prompt());
    let mut say = |command: RunCommand, event: Option<Event>, seq: u64, signal: Signal| {
        check(
            run.step(Input::Asked(command.clone())),
            vec![event.map_or(Effect::SayResume, |event| Effect::Say(command.clone(), Box::new(event)))],
        );
        check(run.step(Input::Said(command, Seq(seq))), vec![Effect::Signal(signal), Effect::Answer(Seq(seq))]);
    };
    let steer = || RunCommand::Steer("Left.".into());
    let event = || Some(RunSteered { text: "Left.".into() }.into());
    let words = |seqs: &[u64]| seqs.iter().map(|seq| (Seq(*seq), "Left.".to_owned())).collect::<Vec<_>>();
    say(steer(), event(), 3, Signal { steered: words(&[3]), ..Signal::default() });
    say(steer(), event(), 4, Signal { steered: words(&[3, 4]), ..Signal::default() });
    let heard = Signal { steered: words(&[3, 4]), ..Signal::default() };
    say(RunCommand::Pause, Some(RunPaused {}.into()), 5, Signal { paused: true, ..heard.clone() });
    say(RunCommand::Resume, None, 6, Signal { resumed: 1, ..heard.clone() });
    say(RunCommand::Resume, None, 7, Signal { resumed: 2, ..heard.clone() });
    say(RunCommand::Pause, Some(RunPaused {}.into()), 8, Signal { paused: true, resumed: 2, ..heard.clone() });
    say(
        RunCommand::Cancel,
        Some(CancelRequested {}.into()),
        9,
        Signal { paused: true, cancelled: true, resumed: 2, ..heard },
    );
}

/// How a run ended, with what was done besides.
#[derive(Debug, PartialEq)]
struct Ended {
    released: bool,
    wrote: Vec<String>,
    put_away: bool,
    status: RunStatus,
    summary: String,
}

/// What is known at the end of a run.
struct Known {
    status: TaskStatus,
    answered: bool,
    untouched: bool,
}

/// Lets a run end as its first agent says, and as the log and others know it.
#[track_caller]
fn ended(accepted: RunAccepted, known: Known, past: &[(Header, Event)]) -> Ended {
    let Known { status, answered, untouched } = known;
    let mut run = taken_up(accepted);
    let result = TaskResult { status, summary: "Done.".into(), ..running(identity().task) };
    let mut effects = run.step(Input::Conducted(Box::new(Conducted { result, past, answered, untouched })));
    let Some(Effect::Reckon(ending)) = effects.pop() else { panic!("nobody asked what it cost: {effects:?}") };
    let paid = Some(Paid { tokens: 7, ..Paid::default() });
    let mut end = run.step(Input::Reckoned(ending, paid)).into_iter();
    let Some(Effect::Append(events)) = end.next() else { panic!("nothing was written") };
    let Some(Event::RunEnded(last)) = events.last().cloned() else { panic!("it has not ended: {events:?}") };
    assert_eq!(last.unanswered, paid);
    let rest: Vec<Effect> = end.collect();
    assert!(matches!(rest.last(), Some(Effect::Stop)), "{rest:?}");
    Ended {
        released: matches!(effects[..], [Effect::Release]),
        wrote: events.iter().map(|event| event.kind().into_owned()).collect(),
        put_away: matches!(rest[..], [Effect::PutAway, Effect::Stop]),
        status: last.status,
        summary: last.summary,
    }
}

fn done() -> Known {
    Known { status: TaskStatus::Ok, answered: false, untouched: false }
}

#[test]
fn who_was_told_that_it_stops_is_not_told_that_it_is_done() {
    for (status, ends) in [(TaskStatus::Ok, RunStatus::Cancelled), (TaskStatus::Failed, RunStatus::Failed)] {
        let mut run = taken_up(prompt());
        run.step(Input::Asked(RunCommand::Cancel));
        run.step(Input::Said(RunCommand::Cancel, Seq(7)));
        let result = TaskResult { status, summary: "Done.".into(), ..running(identity().task) };
        let conducted = Conducted { result, past: &[], answered: false, untouched: true };
        let effects = run.step(Input::Conducted(Box::new(conducted)));
        let Some(Effect::Reckon(ending)) = effects.last() else { panic!("{effects:?}") };
        assert_eq!(ending.status, ends);
        assert!(ending.before.is_empty(), "and nothing is answered");
    }
}

#[test]
fn a_short_answer_trashes_the_page_that_nobody_wrote_into() {
    let short = ended(prompt(), Known { untouched: true, ..done() }, &[]);
    assert_eq!(short.wrote, ["run.answered", "document.trashed", "run.ended"]);
    assert!(short.put_away && !short.released);
    let before = ended(prompt(), Known { answered: true, untouched: true, ..done() }, &[]);
    assert_eq!(before.wrote, ["document.trashed", "run.ended"], "it was answered already");
    assert!(before.put_away);
    let written = ended(prompt(), done(), &[]);
    assert_eq!(written.wrote, ["run.ended"], "the answer is in the document");
    assert!(!written.put_away);
}

#[test]
fn a_run_that_did_not_get_there_keeps_its_page_and_lets_others_write() {
    for status in [TaskStatus::Failed, TaskStatus::Cancelled, TaskStatus::OutOfBudget] {
        let failed = ended(prompt(), Known { status, untouched: true, ..done() }, &[]);
        assert_eq!(failed.wrote, ["run.ended"]);
        assert!(failed.released && !failed.put_away);
    }
    let answered = ended(prompt(), Known { status: TaskStatus::Failed, answered: true, untouched: true }, &[]);
    assert_eq!(answered.wrote, ["document.trashed", "run.ended"], "who has an answer needs no empty page");
}

#[test]
fn an_answer_in_the_margin_leaves_the_document_alone() {
    let run = taken_up(margin());
    assert_eq!((run.page(), taken_up(prompt()).page()), (None, Some(PAGE)));
    let margin = ended(margin(), done(), &[]);
    assert_eq!(margin.wrote, ["run.answered", "run.ended"]);
    assert!(!margin.put_away);
    let goes_on = ended(about(None), done(), &[]);
    assert_eq!(goes_on.wrote, ["run.ended"]);
}

#[test]
fn what_others_know_of_a_run_is_in_its_last_words() {
    let left = TaskResult { conflicts: vec!["a.txt".into()], ..running(TaskId::new(Uuid::nil())) };
    let log = past([choir_proto::event::TaskFinished { result: left }.into()]);
    let failed = ended(prompt(), Known { untouched: true, ..done() }, &log);
    assert_eq!(failed.status, RunStatus::Failed);
    assert_eq!(failed.wrote, ["run.ended"], "it is no answer");
    assert!(failed.summary.contains("a.txt") && failed.released);
    let outcome = ToolOutcome::Unknown;
    let (effect_id, call_id, content) = (String::new(), String::new(), String::new());
    let log = past([ToolFinished { effect_id, call_id, outcome, content, output: None, duration_ms: 0 }.into()]);
    let unsure = ended(prompt(), done(), &log);
    assert_eq!(unsure.status, RunStatus::Completed);
    assert_eq!(unsure.summary, "Done. Nobody knows how one of its calls ended: look at its trace.");
}
