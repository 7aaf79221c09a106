use super::*;
use choir_proto::event::{ModelCalled, ToolFinished, ToolStarted};
use choir_proto::inbox::Verdict;
use choir_proto::model::{AssistantMessage, ModelError};
use choir_proto::task::Budget;
use choir_proto::{EventId, Hash, Seq, Timestamp, Usd};
use uuid::Uuid;

fn header() -> Header {
    Header {
        seq: Seq(1),
        id: EventId::new(Uuid::nil()),
        epoch: 1,
        at: Timestamp(0),
        actor: choir_proto::event::Actor::Computer,
        run: None,
        task: None,
        cause: None,
        kind: "".into(),
        version: 1,
        payload_hash: Hash::ZERO,
        prev: Hash::ZERO,
        hash: Hash::ZERO,
    }
}

fn request(budget: Option<Budget>) -> TaskRequest {
    serde_json::from_value(serde_json::json!({"kind": "run", "instruction": "count", "budget": budget})).unwrap()
}

fn agent() -> Agent {
    let identity =
        Identity { run: RunId::new(Uuid::from_u128(1)), task: TaskId::new(Uuid::from_u128(2)), role: Role::Terminal };
    Agent::new(identity, Place::Below, &request(None), None)
}

fn answer(turn: u32, calls: &[(&str, serde_json::Value)]) -> Event {
    let tool_calls = calls.iter().enumerate().map(|(index, (name, arguments))| ToolCall {
        id: format!("c{index}"),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
        malformed: None,
    });
    ModelCalled {
        turn,
        model: "scripted/one".into(),
        message: AssistantMessage { tool_calls: tool_calls.collect(), ..Default::default() },
        stop: StopReason::ToolUse,
        usage: Usage { input_tokens: 10, ..Default::default() },
        duration_ms: 1,
        window: None,
        heard: None,
    }
    .into()
}

fn started(begin: &Begin) -> Event {
    ToolStarted {
        effect_id: begin.effect_id.clone(),
        turn: begin.turn,
        index: begin.index,
        call_id: begin.call.id.clone(),
        name: begin.call.name.clone(),
        arguments: begin.call.arguments.clone(),
    }
    .into()
}

fn finished(begin: &Begin, content: &str) -> Event {
    ToolFinished {
        effect_id: begin.effect_id.clone(),
        call_id: begin.call.id.clone(),
        outcome: ToolOutcome::Ok,
        content: content.into(),
        output: None,
        duration_ms: 1,
    }
    .into()
}

fn begun(agent: &Agent) -> Vec<Begin> {
    match agent.next(&[]) {
        Next::Begin(begin) => begin,
        other => panic!("expected calls to begin, got {other:?}"),
    }
}

fn bash(command: &str) -> (&'static str, serde_json::Value) {
    ("bash", serde_json::json!({"command": command}))
}

#[test]
fn independent_calls_begin_together_and_the_model_is_asked_when_all_have_ended() {
    let mut agent = agent();
    assert!(matches!(agent.next(&[]), Next::Model(_)));
    agent.apply(&header(), &answer(1, &[bash("a"), bash("b")]));
    let calls = begun(&agent);
    assert_eq!(calls.len(), 2);
    for call in &calls {
        agent.apply(&header(), &started(call));
    }
    // The second ends first; order of results is the order of calls all the same.
    agent.apply(&header(), &finished(&calls[1], "B"));
    assert!(matches!(agent.next(&[]), Next::Outstanding(left) if left.len() == 1));
    agent.apply(&header(), &finished(&calls[0], "A"));
    let Next::Model(request) = agent.next(&[]) else { panic!("the model is next") };
    let Some(Message::Tools { results }) = request.messages.last() else { panic!("results are last") };
    assert_eq!(results.iter().map(|result| result.content.as_str()).collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn the_same_events_give_the_same_effect_ids_and_a_crash_shows_what_is_outstanding() {
    let events = [answer(1, &[bash("a")])];
    let (mut one, mut two) = (agent(), agent());
    for event in &events {
        one.apply(&header(), event);
        two.apply(&header(), event);
    }
    assert_eq!(begun(&one)[0].effect_id, begun(&two)[0].effect_id);
    let call = begun(&one)[0].clone();
    two.apply(&header(), &started(&call));
    assert!(matches!(two.next(&[]), Next::Outstanding(left) if left[0].effect_id == call.effect_id));
}

#[test]
fn other_arguments_are_another_effect() {
    let (mut one, mut two) = (agent(), agent());
    one.apply(&header(), &answer(1, &[bash("a")]));
    two.apply(&header(), &answer(1, &[bash("b")]));
    assert_ne!(begun(&one)[0].effect_id, begun(&two)[0].effect_id);
}

#[test]
fn words_said_while_tools_run_follow_their_results() {
    let mut agent = agent();
    agent.apply(&header(), &answer(1, &[bash("a")]));
    let call = begun(&agent).remove(0);
    agent.apply(&header(), &started(&call));
    agent.apply(&header(), &choir_proto::event::RunSteered { text: "be brief".into() }.into());
    agent.apply(&header(), &finished(&call, "A"));
    let Next::Model(request) = agent.next(&[]) else { panic!("the model is next") };
    assert_eq!(request.messages.last(), Some(&Message::user("The person says: be brief")));
}

fn says(seq: u64, text: &str) -> (Header, Event) {
    (Header { seq: Seq(seq), ..header() }, choir_proto::event::RunSteered { text: text.into() }.into())
}

/// An answer to a question that was made when the log was so long.
fn answer_to(heard: Option<u64>, calls: &[(&str, serde_json::Value)]) -> Event {
    let Event::ModelCalled(called) = answer(1, calls) else { panic!("an answer") };
    let message = AssistantMessage { text: "so be it".into(), ..called.message };
    ModelCalled { heard: heard.map(Seq), message, ..called }.into()
}

#[test]
fn an_answer_is_no_end_where_the_person_said_something_that_it_had_not_heard() {
    let finish = [("finish", serde_json::json!({"summary": "done"}))];
    // When the words came: before the question, while it was answered, while the calls ran, or after all of them.
    for (calls, heard, at, ends) in [
        (&finish[..], Some(5), 0, true),
        (&finish, Some(4), 0, false),
        (&finish, Some(4), 1, false),
        (&finish, Some(4), 2, false),
        (&finish, None, 0, true),
        (&finish, None, 1, true),
        (&[], Some(5), 0, true),
        (&[], Some(4), 0, false),
        (&[], Some(4), 2, false),
        (&[], None, 2, true),
    ] {
        let mut agent = agent();
        let steer = |agent: &mut Agent, now| {
            if now == at {
                let (header, event) = says(5, "be brief");
                agent.apply(&header, &event);
            }
        };
        steer(&mut agent, 0);
        agent.apply(&header(), &answer_to(heard, calls));
        if !calls.is_empty() {
            let call = begun(&agent).remove(0);
            agent.apply(&header(), &started(&call));
            steer(&mut agent, 1);
            agent.apply(&header(), &finished(&call, "ok"));
        }
        steer(&mut agent, 2);
        let case = (calls.len(), heard, at);
        match agent.next(&[]) {
            Next::End(_) => assert!(ends, "{case:?}"),
            Next::Model(request) => {
                assert!(!ends, "{case:?}");
                assert_eq!(request.messages.last(), Some(&Message::user("The person says: be brief")), "{case:?}");
                assert_eq!(request.messages.len(), 3 + calls.len(), "said once: {case:?}");
                assert!(agent.overruled().is_some(), "{case:?}");
            }
            other => panic!("{case:?}: {other:?}"),
        }
    }
}

#[test]
fn finish_ends() {
    let mut agent = agent();
    agent.apply(&header(), &answer(1, &[("finish", serde_json::json!({"summary": "two files", "status": "failed"}))]));
    let call = begun(&agent).remove(0);
    agent.apply(&header(), &started(&call));
    agent.apply(&header(), &finished(&call, "ok"));
    let Next::End(ending) = agent.next(&[]) else { panic!("it is over") };
    assert_eq!(ending, Ending { status: TaskStatus::Failed, summary: "two files".into() });
}

#[test]
fn who_wants_to_end_before_the_others_again_and_again_is_not_asked_again_and_again() {
    let identity =
        Identity { run: RunId::new(Uuid::from_u128(1)), task: TaskId::new(Uuid::from_u128(2)), role: Role::Conductor };
    let mut agent = Agent::new(identity, Place::First, &request(None), None);
    let delegate = |objective: &str| ("delegate", serde_json::json!({"role": "terminal", "objective": objective}));
    agent.apply(&header(), &answer(1, &[delegate("slow"), delegate("quick")]));
    let workers = begun(&agent);
    workers.iter().for_each(|call| agent.apply(&header(), &started(call)));
    agent.apply(&header(), &finished(&workers[1], "quick"));
    for turn in 2..=3 {
        assert!(matches!(agent.next(&[]), Next::Model(_)), "turn {turn}");
        agent.apply(&header(), &answer(turn, &[("finish", serde_json::json!({"summary": "done"}))]));
        let call = begun(&agent).remove(0);
        assert_eq!(call.tool.as_ref().err().map(String::as_str), Some(prompt::NOT_YET));
        agent.apply(&header(), &started(&call));
        let Event::ToolFinished(refused) = finished(&call, prompt::NOT_YET) else { panic!("a result") };
        agent.apply(&header(), &ToolFinished { outcome: ToolOutcome::Refused, ..refused }.into());
    }
    assert!(matches!(agent.next(&[]), Next::Outstanding(left) if left.len() == 1), "now it waits");
    agent.apply(&header(), &finished(&workers[0], "slow"));
    let Next::Model(request) = agent.next(&[]) else { panic!("and is asked when something was heard") };
    assert_eq!(request.messages.last(), Some(&Message::user("Result of call c0: slow")));
}

/// What is asked of the model, and by how much the walls are away.
fn wall(budget: Budget, spent: Spent) -> Option<TaskStatus> {
    let account = Account { limits: Limits::of(Some(&budget), Place::Below), spent };
    match agent().next(&[account]) {
        Next::End(ending) => Some(ending.status),
        Next::Model(_) => None,
        other => panic!("neither model nor wall: {other:?}"),
    }
}

#[test]
fn each_wall_has_its_own_ending() {
    let (budget, spent) = (Budget::default(), Spent { time_ms: 999, steps: 2, tokens: 9, usd: Usd(99) });
    assert_eq!(wall(budget, spent), None);
    assert_eq!(wall(Budget { steps: Some(2), ..budget }, spent), Some(TaskStatus::OutOfSteps));
    assert_eq!(wall(Budget { tokens: Some(9), ..budget }, spent), Some(TaskStatus::OutOfBudget));
    assert_eq!(wall(Budget { usd: Some(Usd(99)), ..budget }, spent), Some(TaskStatus::OutOfBudget));
    assert_eq!(wall(Budget { time_s: Some(0.999), ..budget }, spent), Some(TaskStatus::OutOfTime));
    assert_eq!(wall(Budget { usd: Some(Usd(0)), ..budget }, Spent { usd: Usd(0), ..spent }), None, "free is free");
}

#[test]
fn whose_time_went_by_while_a_model_failed_is_told_why() {
    let mut agent = agent();
    let failed = choir_proto::event::ModelFailed {
        turn: 1,
        attempt: 1,
        class: ErrorClass::Overloaded,
        message: "nobody is at home".into(),
        usage: Usage::default(),
    };
    agent.apply(&header(), &failed.into());
    let budget = Budget { time_s: Some(2.0), steps: Some(3), ..Budget::default() };
    let limits = Limits::of(Some(&budget), Place::First);
    let ending = |spent| match agent.next(&[Account { limits, spent }]) {
        Next::End(ending) => ending,
        other => panic!("{other:?}"),
    };
    let late = ending(Spent { time_ms: 2_000, ..Spent::default() });
    assert_eq!(late.summary, "The time of 2 s is over. The model did not answer: nobody is at home");
    assert_eq!(ending(Spent { steps: 3, ..Spent::default() }).summary, "All 3 steps are used.");
}

#[test]
fn a_run_that_was_given_its_time_waits_for_no_model_longer_than_that() {
    let timed = Budget { time_s: Some(2.0), ..Budget::default() };
    let patience = |budget, place| Limits::of(budget, place).patience;
    assert_eq!(patience(Some(&timed), Place::First), Patience::WithTime);
    assert_eq!(patience(Some(&timed), Place::Below), Patience::Endless, "a worker's time is not the person's word");
    assert_eq!(patience(None, Place::First), Patience::Endless);
}

/// What may be written down with an answer is what it leads to once it is in the log.
#[test]
fn an_answer_says_what_it_begins_before_it_is_in_the_log() {
    let begins = |agent: &mut Agent, answer: Event| {
        let Event::ModelCalled(called) = &answer else { panic!("an answer") };
        let before = agent.begun_by(called);
        agent.apply(&header(), &answer);
        assert_eq!(before, begun(agent));
        before
    };
    let identity =
        Identity { run: RunId::new(Uuid::from_u128(1)), task: TaskId::new(Uuid::from_u128(2)), role: Role::Conductor };
    let mut conductor = Agent::new(identity, Place::First, &request(None), None);
    let delegate = ("delegate", serde_json::json!({"role": "terminal", "objective": "work"}));
    let finish = || ("finish", serde_json::json!({"summary": "done"}));
    let workers = begins(&mut conductor, answer(1, &[delegate.clone(), delegate]));
    workers.iter().for_each(|call| conductor.apply(&header(), &started(call)));
    conductor.apply(&header(), &finished(&workers[0], "one"));
    let early = begins(&mut conductor, answer(2, &[finish()])).remove(0);
    assert!(early.tool.is_err(), "one is still at work");
    conductor.apply(&header(), &started(&early));
    let Event::ToolFinished(refused) = finished(&early, prompt::NOT_YET) else { panic!("a result") };
    conductor.apply(&header(), &ToolFinished { outcome: ToolOutcome::Refused, ..refused }.into());
    conductor.apply(&header(), &finished(&workers[1], "two"));
    assert!(begins(&mut conductor, answer(3, &[finish()])).remove(0).tool.is_ok());

    let mut worker = agent();
    begins(&mut worker, answer(1, &[bash("a"), ("sing", serde_json::json!({})), bash("a")]));
    let Event::ModelCalled(silent) = answer(1, &[]) else { panic!("an answer") };
    assert_eq!(agent().begun_by(&silent), []);
}

#[test]
fn an_answer_may_take_no_more_than_is_left() {
    let question = limit::question_tokens(&agent().request());
    let with = |left: u64| {
        let budget = Budget { tokens: Some(900 + left), ..Budget::default() };
        let spent = Spent { tokens: 900, ..Spent::default() };
        Account { limits: Limits::of(Some(&budget), Place::First), spent }
    };
    let own = Account { limits: Limits::of(None, Place::Below), spent: Spent::default() };
    let tokens_max = |accounts: &[Account]| match agent().next(accounts) {
        Next::Model(request) => request.tokens_max,
        other => panic!("{other:?}"),
    };
    assert_eq!(tokens_max(&[own, with(question + 100)]), 100);
    assert_eq!(tokens_max(&[own]), ANSWER_TOKENS_MAX);
    // Not even for the question: nobody is asked.
    for left in [50, question] {
        let Next::End(ending) = agent().next(&[own, with(left)]) else { panic!("{left} are left") };
        assert_eq!(ending.status, TaskStatus::OutOfBudget);
        assert!(ending.summary.starts_with(&format!("{left} of {} tokens", 900 + left)), "{}", ending.summary);
    }
}

#[test]
fn money_is_a_wall_here_only_where_somebody_asked_for_one_and_is_told_exactly() {
    let spent = Spent { usd: Usd(40_000_000), ..Spent::default() };
    for place in [Place::First, Place::Below] {
        let account = Account { limits: Limits::of(None, place), spent };
        assert!(matches!(agent().next(&[account]), Next::Model(_)), "what a run may cost is set in control");
    }
    let budget = Budget { usd: Some(Usd(4_000)), ..Budget::default() };
    let account = Account { limits: Limits::of(Some(&budget), Place::First), spent };
    let Next::End(ending) = agent().next(&[account]) else { panic!("it is used") };
    assert_eq!(ending.summary, "The budget of $0.004 is used.");
}

#[test]
fn a_wall_further_up_stops_those_below() {
    let roomy = Account { limits: Limits::of(None, Place::Below), spent: Spent::default() };
    let used = Budget { steps: Some(3), ..Budget::default() };
    let above =
        Account { limits: Limits::of(Some(&used), Place::First), spent: Spent { steps: 3, ..Spent::default() } };
    assert!(matches!(agent().next(&[roomy]), Next::Model(_)));
    assert!(matches!(agent().next(&[roomy, above]), Next::End(ending) if ending.status == TaskStatus::OutOfSteps));
}

#[test]
fn the_first_agent_asks_and_goes_on_where_others_end() {
    let asking = |place| {
        let mut agent = Agent::new(agent().identity(), place, &request(None), None);
        let finish = serde_json::json!({"summary": "Which year?", "status": "needs_input"});
        agent.apply(&header(), &answer(1, &[("finish", finish)]));
        let call = begun(&agent).remove(0);
        agent.apply(&header(), &started(&call));
        agent.apply(&header(), &finished(&call, "Noted."));
        agent
    };
    assert!(
        matches!(asking(Place::Below).next(&[]), Next::End(ending) if ending.status == TaskStatus::NeedsInput),
        "a worker's question goes to whoever asked it"
    );
    let mut agent = asking(Place::First);
    let Next::Ask(question) = agent.next(&[]) else { panic!("it asks") };
    assert_eq!(question.text, "Which year?");
    let decided = |inbox_id, text: &str| {
        let decision = Verdict::Answered { text: text.into() };
        Event::from(InboxDecided { inbox_id, decision })
    };
    agent.apply(&header(), &decided(InboxId::new(Uuid::nil()), "another's"));
    assert!(matches!(agent.next(&[]), Next::Ask(_)), "an answer to something else changes nothing");
    agent.apply(&header(), &decided(question.id, "1984"));
    let Next::Model(request) = agent.next(&[]) else { panic!("the model is next") };
    assert_eq!(request.messages.last(), Some(&Message::user("The person answers: 1984")));
}

#[test]
fn a_conversation_that_is_too_long_is_shortened_and_asked_again() {
    let mut agent = agent();
    for turn in 1..=6 {
        let call = serde_json::json!({"path": "a", "content": "w".repeat(5000)});
        agent.apply(&header(), &answer(turn, &[("write_file", call)]));
        let Next::Begin(calls) = agent.next(&[]) else { panic!("the call is begun") };
        agent.apply(&header(), &started(&calls[0]));
        agent.apply(&header(), &finished(&calls[0], "ok"));
    }
    let failed = |attempt| -> Event {
        let (turn, class, message) = (7, ErrorClass::TooLong, "too long".to_owned());
        choir_proto::event::ModelFailed { turn, attempt, class, message, usage: Usage::default() }.into()
    };
    assert!(matches!(agent.next(&[]), Next::Model(_)), "by itself it would fit");
    agent.apply(&header(), &failed(1));
    let Next::Compact(plan) = agent.next(&[]) else { panic!("it is shortened") };
    assert!(plan.after_tokens < plan.before_tokens, "{plan:?}");
    agent.apply(&header(), &plan.into());
    assert!(matches!(agent.next(&[]), Next::Model(_)), "and asked again");
    let error = ModelError { class: ErrorClass::TooLong, message: "too long".into(), retry_after_ms: None };
    assert_eq!(react(&error, 1, 0.5), Reaction::Retry { after_ms: 0 });
    assert_eq!(react(&error, ATTEMPTS_MAX, 0.5), Reaction::Stop(TaskStatus::Failed), "but not for ever");
}

#[test]
fn what_is_refused_word_for_word_again_and_again_is_not_asked_for_for_ever() {
    let refuse = |agent: &mut Agent, turn: u32, call: (&str, serde_json::Value), why: &str| {
        agent.apply(&header(), &answer(turn, &[call]));
        let call = begun(agent).remove(0);
        agent.apply(&header(), &started(&call));
        let Event::ToolFinished(mut refused) = finished(&call, why) else { panic!("no result") };
        refused.outcome = ToolOutcome::Refused;
        agent.apply(&header(), &refused.into());
    };
    let nothing = || ("finish", serde_json::json!({"summary": ""}));
    let mut agent = agent();
    for turn in 1..repeat::REFUSALS_MAX {
        refuse(&mut agent, turn, nothing(), "It says nothing.");
        assert!(matches!(agent.next(&[]), Next::Model(_)), "{turn}");
    }
    let (mut other, mut told) = (agent.clone(), agent.clone());
    let turn = repeat::REFUSALS_MAX;
    refuse(&mut agent, turn, nothing(), "It says nothing.");
    let Next::End(ending) = agent.next(&[]) else { panic!("{:?}", agent.next(&[])) };
    assert_eq!(ending.status, TaskStatus::Failed);
    assert!(ending.summary.contains("`finish` 5 times") && ending.summary.ends_with("It says nothing."), "{ending:?}");
    refuse(&mut other, turn, ("finish", serde_json::json!({"summary": " "})), "It says nothing.");
    assert!(matches!(other.next(&[]), Next::Model(_)), "who tries something else goes on");
    let (header, words) = says(9, "Say more.");
    told.apply(&header, &words);
    refuse(&mut told, turn, nothing(), "It says nothing.");
    assert!(matches!(told.next(&[]), Next::Model(_)), "so does who was told something");
}

#[test]
fn a_model_whose_answer_was_cut_off_is_told_and_has_so_many_chances() {
    let cut = |turn, text: &str| {
        let Event::ModelCalled(called) = answer(turn, &[]) else { panic!("an answer") };
        let message = AssistantMessage { text: text.into(), ..Default::default() };
        Event::from(ModelCalled { stop: StopReason::Length, message, ..called })
    };
    let mut agent = agent();
    for turn in 1..repeat::REFUSALS_MAX {
        agent.apply(&header(), &cut(turn, if turn == 1 { "And so" } else { "" }));
        let Next::Model(request) = agent.next(&[]) else { panic!("{turn}: it is told") };
        assert_eq!(request.messages.last(), Some(&Message::user(prompt::CUT_OFF)));
        let is_empty = |message: &Message| matches!(message, Message::Assistant(said) if said.text.is_empty());
        assert!(!request.messages.iter().any(is_empty), "providers refuse messages without a word");
    }
    let mut mended = agent.clone();
    mended.apply(&header(), &answer(repeat::REFUSALS_MAX, &[bash("a")]));
    assert_eq!(begun(&mended).len(), 1);
    agent.apply(&header(), &cut(repeat::REFUSALS_MAX, ""));
    assert!(matches!(agent.next(&[]), Next::End(ending) if ending.status == TaskStatus::Failed));
}
