use super::*;
use crate::fold::task::running;
use crate::testing::header;
use choir_proto::Role;
use choir_proto::event::{RunPaused, TaskFinished, TaskRequested};
use choir_proto::task::TaskKind;
use uuid::Uuid;

const TASK: TaskId = TaskId::new(Uuid::from_u128(1));

/// Compares what is wanted done. Events have no equality of their own, only words.
#[track_caller]
fn check(effects: Vec<Effect>, wanted: Vec<Effect>) {
    assert_eq!(format!("{effects:#?}"), format!("{wanted:#?}"));
}

fn asked(request: &TaskRequest, later: Vec<Event>) -> Vec<(Header, Event)> {
    let first = TaskRequested { request: request.clone(), role: None, parent: None }.into();
    std::iter::once(first).chain(later).map(|event| (header(1, &event), event)).collect()
}

fn request(kind: TaskKind) -> TaskRequest {
    TaskRequest::new(kind, "Do it.".into())
}

#[test]
fn commands_need_no_agent_and_words_need_one_for_their_kind() {
    let commands = TaskRequest { commands: vec!["true".into()], ..request(TaskKind::Run) };
    let ran = Task::new(TASK).step(Input::TakenUp(&asked(&commands, vec![])));
    check(ran, vec![Effect::Signal(Signal::default()), Effect::Command(Box::new(commands))]);
    for (kind, role) in [(TaskKind::Edit, Role::Terminal), (TaskKind::Research, Role::Researcher)] {
        let identity = Identity { run: run_of(TASK), task: TASK, role };
        let worked = Task::new(TASK).step(Input::TakenUp(&asked(&request(kind), vec![])));
        check(worked, vec![Effect::Signal(Signal::default()), Effect::Employ(identity, Box::new(request(kind)))]);
    }
    check(Task::new(TASK).step(Input::TakenUp(&[])), vec![Effect::Fail("the task was never asked for")]);
    check(Task::new(TASK).step(Input::Worked), vec![Effect::Stop]);
}

#[test]
fn a_task_that_has_ended_is_not_taken_up_again() {
    let finished: Event = TaskFinished { result: running(TASK) }.into();
    let own = |task| (Header { task: Some(task), ..header(2, &finished) }, finished.clone());
    let mut log = asked(&request(TaskKind::Edit), vec![]);
    log.push(own(TaskId::new(Uuid::from_u128(2))));
    assert_eq!(Task::new(TASK).step(Input::TakenUp(&log)).len(), 2, "the end of another is none of its own");
    log.push(own(TASK));
    check(Task::new(TASK).step(Input::TakenUp(&log)), vec![Effect::Stop]);
}

#[test]
fn a_task_is_stopped_unless_its_changes_come_home_already() {
    let stopped = || Signal { cancelled: true, ..Signal::default() };
    let mut task = Task::new(TASK);
    check(task.step(Input::Cancelled(First::Changes)), vec![Effect::AnswerTooLate]);
    check(task.step(Input::Cancelled(First::Stop)), vec![Effect::Say(Box::new(CancelRequested {}.into()))]);
    check(task.step(Input::Said(Seq(7))), vec![Effect::Signal(stopped()), Effect::Answer(Seq(7))]);
    // It stays stopped for whoever takes it up next, and nobody holds it.
    let log = asked(&request(TaskKind::Edit), vec![CancelRequested {}.into(), RunPaused {}.into()]);
    let signal = Task::new(TASK).step(Input::TakenUp(&log)).swap_remove(0);
    check(vec![signal], vec![Effect::Signal(stopped())]);
}
