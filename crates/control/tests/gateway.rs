//! Calls to models, as a computer makes them.

use crate::paying::paid;
use crate::support::World;
use crate::support::computer::FakeComputer;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use choir_control::config::{Budget, Config, Provider, ProviderKind};
use choir_control::db::{Cost, Db, Spent};
use choir_llm::{Format, encode_stream};
use choir_proto::model::{Answer, AssistantMessage, Delta, ErrorClass, Message, ModelRequest, StopReason, Usage};
use choir_proto::wire::{ModelCall, ModelFrame, Models};
use choir_proto::{Role, RunId, Usd};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const KEY: &str = "sk-canary-0123456789abcdef0123";

/// What a provider does with a request.
pub(crate) type Behaviour = Arc<dyn Fn() -> Response + Send + Sync>;

/// A provider on loopback; the authorization headers that it saw.
pub(crate) async fn provider(behaviour: Behaviour) -> (String, mpsc::UnboundedReceiver<String>) {
    let (seen, requests) = mpsc::unbounded_channel();
    let answer = async |State((behaviour, seen)): State<(Behaviour, mpsc::UnboundedSender<String>)>,
                        request: Request| {
        let key = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        seen.send(key.unwrap_or_default()).ok();
        match request.uri().path() {
            "/v1/models" => r#"{"data":[{"id":"tiny"},{"id":"huge"}]}"#.into_response(),
            _ => behaviour(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state((behaviour, seen));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, requests)
}

pub(crate) fn config(base_url: &str) -> Config {
    let provider = Provider {
        kind: ProviderKind::Openai,
        base_url: Some(base_url.into()),
        api_key_env: None,
        script: None,
        context_tokens: None,
        requests_per_minute: None,
        tokens_per_minute: None,
        usd_per_million: None,
    };
    Config { providers: [("local".to_owned(), provider)].into(), ..Config::default() }
}

/// The same provider as in a configuration, at another place.
pub(crate) fn beside(config: &Config, base_url: &str) -> Provider {
    Provider { base_url: Some(base_url.into()), ..config.providers["local"].clone() }
}

pub(crate) fn says(text: &str, output_tokens: u64) -> Behaviour {
    speak(StopReason::Finished, text, output_tokens)
}

fn speak(stop: StopReason, text: &str, output_tokens: u64) -> Behaviour {
    let message = AssistantMessage { text: text.into(), ..AssistantMessage::default() };
    let usage = Usage { input_tokens: 10, output_tokens, ..Usage::default() };
    let answer = Answer { message, stop, usage, model: "local/tiny".into(), window: None, free: None };
    let stream = encode_stream(Format::OpenAi, &answer, 4);
    Arc::new(move || ([("content-type", "text/event-stream")], stream.clone()).into_response())
}

pub(crate) fn call(run: u8) -> ModelCall {
    let request = ModelRequest {
        model: None,
        role: Role::Terminal,
        system: "be brief".into(),
        messages: vec![Message::user("hello")],
        tools: Vec::new(),
        tokens_max: 100,
    };
    ModelCall {
        run: RunId::from([run; 16]),
        task: [9; 16].into(),
        failures: 0,
        insists: false,
        usd_left: None,
        request,
    }
}

pub(crate) fn request(call: &ModelCall) -> http::Request<Body> {
    http::Request::post("http://control/model").body(serde_json::to_vec(call).unwrap().into()).unwrap()
}

pub(crate) async fn frames(computer: &FakeComputer, call: &ModelCall) -> Vec<ModelFrame> {
    let response = computer.ask(request(call)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

pub(crate) fn error(frames: &[ModelFrame]) -> (ErrorClass, String) {
    match frames.last() {
        Some(ModelFrame::Error(error)) => (error.class, error.message.clone()),
        other => panic!("an error was expected: {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_is_streamed_named_and_accounted_for() {
    let (url, _) = provider(says("Hello, person.", 5)).await;
    let world = World::with(config(&url), FakeComputer::default()).await;
    let frames = frames(&world.computer, &call(1)).await;
    let text: String = frames
        .iter()
        .filter_map(|frame| match frame {
            ModelFrame::Delta(Delta::Text { text }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "Hello, person.");
    assert_eq!(frames.first(), Some(&ModelFrame::Asked { model: "local/tiny".into() }), "whoever waits knows for whom");
    let Some(ModelFrame::Answer(answer)) = frames.last() else { panic!("{frames:?}") };
    assert_eq!((answer.message.text.as_str(), answer.model.as_str()), ("Hello, person.", "local/tiny"));
    let spent = written(&world.db(), 1).await;
    assert_eq!((spent.calls, spent.tokens), (1, 15));
}

/// What run 1 has spent, as soon as so many calls of it are on disk: their answers do not wait for that.
async fn written(db: &Db, calls: u64) -> Spent {
    let look = async {
        loop {
            let spent = db.spent(RunId::from([1; 16])).await.unwrap();
            if spent.calls >= calls {
                return spent;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), look).await.expect("it is written")
}

#[tokio::test]
async fn what_cannot_be_written_down_is_the_last_that_is_spent() {
    let (url, mut requests) = provider(says("Hello.", 1)).await;
    let world = World::with(config(&url), FakeComputer::default()).await;
    let db = world.db();
    let file = rusqlite::Connection::open(world.directory.path().join("control/control.sqlite")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON spend BEGIN SELECT raise(ABORT, 'no'); END";
    file.execute_batch(refuse).unwrap();
    assert!(matches!(frames(&world.computer, &call(1)).await.last(), Some(ModelFrame::Answer(_))));
    while requests.try_recv().is_ok() {}
    for run in [1, 2] {
        assert_eq!(error(&frames(&world.computer, &call(run)).await).0, ErrorClass::Budget);
    }
    assert!(requests.try_recv().is_err(), "nobody was asked");
    file.execute_batch("DROP TRIGGER refuse").unwrap();
    assert!(matches!(frames(&world.computer, &call(1)).await.last(), Some(ModelFrame::Answer(_))));
    assert_eq!(written(&db, 2).await.calls, 2, "both are counted, once");
}

#[tokio::test]
async fn without_a_provider_prompts_wait_until_one_is_added() {
    let world = World::start().await;
    assert_eq!(error(&frames(&world.computer, &call(1)).await).0, ErrorClass::NoModel);
    let told: Models = serde_json::from_slice(&world.computer.told("/internal/models").await).unwrap();
    assert!(!told.available);

    let (url, mut requests) = provider(says("yes", 1)).await;
    let browser = world.browser().await;
    let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"{KEY}"}}"#);
    assert_eq!(browser.json(Method::PUT, "/api/providers/mine", body).await.status, StatusCode::NO_CONTENT);
    world.computer.told_that("/internal/models", |body| body == br#"{"available":true}"#).await;
    assert!(matches!(frames(&world.computer, &call(1)).await.last(), Some(ModelFrame::Answer(_))));
    assert_eq!(requests.recv().await.unwrap(), format!("Bearer {KEY}"));

    let shown = browser.get("/api/settings").await.value();
    assert_eq!(shown["providers"][0]["key"], "stored");
    assert!(!shown.to_string().contains("canary"), "a key never comes back: {shown}");
    let tested = browser.send(Method::POST, "/api/providers/mine/test", Default::default()).await.value();
    assert_eq!((tested["ok"].as_bool(), tested["models"][0].as_str()), (Some(true), Some("tiny")));
}

#[tokio::test]
async fn a_key_for_one_provider_is_told_where_another_was_there_all_along() {
    let (url, _) = provider(says("yes", 1)).await;
    let mut config = config(&url);
    let keyless = Provider { api_key_env: Some("CHOIR_TEST_NO_SUCH_KEY".into()), ..config.providers["local"].clone() };
    config.providers.insert("other".to_owned(), keyless);
    let world = World::with(config, FakeComputer::default()).await;
    let mut wanted = call(1);
    wanted.request.model = Some("other/tiny".to_owned());
    let (class, why) = error(&frames(&world.computer, &wanted).await);
    assert!(class == ErrorClass::NoModel && why.contains("`other` has no key yet"), "{why}");
    world.computer.told("/internal/models").await;
    let times = || world.computer.all_told().iter().filter(|(to, _)| to == "/internal/models").count();
    let (before, browser) = (times(), world.browser().await);

    // Something else that changes is no news about models.
    let other = r#"{"documents":{"auto_accept":true}}"#.to_owned();
    assert_eq!(browser.json(Method::PUT, "/api/settings", other).await.status, StatusCode::OK);
    let body = format!(r#"{{"kind":"openai","key":"{KEY}"}}"#);
    assert_eq!(browser.json(Method::PUT, "/api/providers/other", body).await.status, StatusCode::NO_CONTENT);
    world.computer.told_times("/internal/models", before + 1).await;
    assert!(matches!(frames(&world.computer, &wanted).await.last(), Some(ModelFrame::Answer(_))));
    assert_eq!(times(), before + 1);
}

#[tokio::test]
async fn a_stored_key_survives_a_restart_and_lies_sealed() {
    let (url, mut requests) = provider(says("yes", 1)).await;
    let world = World::start().await;
    let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"canary-of-before"}}"#);
    let browser = world.browser().await;
    browser.json(Method::PUT, "/api/providers/mine", body).await;
    // What is absent stays, after a restart too: a key alone does not forget the address that it is for.
    browser.json(Method::PUT, "/api/providers/mine", format!(r#"{{"key":"{KEY}"}}"#)).await;
    let directory = world.directory;
    world.control.stop().await;
    let files = std::fs::read_dir(directory.path().join("control")).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|file| file.is_file()) {
        let bytes = std::fs::read(file).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"canary"));
    }
    let computer = FakeComputer::default();
    let clock = choir_control::clock::Clock::system();
    let options = crate::support::options(directory.path(), Config::default(), &computer, clock);
    let mut control = choir_control::up::start(options).await.unwrap();
    control.settled().await.unwrap();
    frames(&computer, &call(1)).await;
    assert_eq!(requests.recv().await.unwrap(), format!("Bearer {KEY}"));
    control.stop().await;
}

#[tokio::test]
async fn a_key_is_not_read_by_moving_its_provider() {
    let (url, _) = provider(says("mine", 1)).await;
    let (elsewhere, mut requests) = provider(says("thine", 1)).await;
    let world = World::start().await;
    let browser = world.browser().await;
    let put = async |body: String| browser.json(Method::PUT, "/api/providers/mine", body).await;
    put(format!(r#"{{"kind":"openai","base_url":"{url}","key":"{KEY}"}}"#)).await;
    let refused = put(format!(r#"{{"base_url":"{elsewhere}"}}"#)).await;
    assert_eq!((refused.status, refused.code()), (StatusCode::BAD_REQUEST, "bad_field".into()));
    browser.send(Method::POST, "/api/providers/mine/test", Default::default()).await;
    assert!(requests.try_recv().is_err(), "nobody elsewhere was shown the key");
    assert_eq!(put(format!(r#"{{"base_url":"{url}/"}}"#)).await.status, StatusCode::NO_CONTENT, "the same place");
    assert_eq!(put(format!(r#"{{"base_url":"{elsewhere}","key":"new"}}"#)).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn the_budget_is_checked_before_the_call() {
    let (url, mut requests) = provider(says("dear", 1)).await;
    let budget = Budget { usd_per_run: Usd(50) };
    let world = World::with(Config { budget, ..config(&url) }, FakeComputer::default()).await;
    let usage = Usage { usd: Usd(51), ..Usage::default() };
    world.db().add_spend(Cost { run: RunId::from([1; 16]), model: "local/tiny".into(), usage }).await.unwrap();
    assert_eq!(error(&frames(&world.computer, &call(1)).await).0, ErrorClass::Budget);
    assert!(requests.try_recv().is_err(), "nobody was asked");
    assert!(matches!(frames(&world.computer, &call(2)).await.last(), Some(ModelFrame::Answer(_))), "another run may");
}

#[tokio::test]
async fn calls_beside_each_other_wait_for_the_money_and_are_not_refused_for_what_they_might_cost() {
    let (url, _) = provider(says("cheap after all", 1)).await;
    let mut config = config(&url);
    // An answer of a hundred tokens, the longest that is asked for, would cost all there is.
    let rates = choir_llm::price::Rates { input: 0.0, output: 100.0, cache_read: None, cache_write: None };
    config.providers.get_mut("local").unwrap().usd_per_million = Some(rates);
    let budget = Budget { usd_per_run: Usd(10_000) };
    let world = World::with(Config { budget, ..config }, FakeComputer::default()).await;
    let call = call(1);
    let answers = futures_util::future::join_all((0..5).map(|_| frames(&world.computer, &call))).await;
    for answer in &answers {
        assert!(matches!(answer.last(), Some(ModelFrame::Answer(_))), "{answer:?}");
    }
    assert_eq!(written(&world.db(), 5).await.usd, Usd(500));
}

/// A provider that cuts its answers where it is told to; how long they may be.
async fn obedient_provider() -> (String, mpsc::UnboundedReceiver<u64>) {
    let (seen, lengths) = mpsc::unbounded_channel();
    let answer = async |State(seen): State<mpsc::UnboundedSender<u64>>, body: String| {
        let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let longest = body["max_tokens"].as_u64().or_else(|| body["max_completion_tokens"].as_u64()).unwrap();
        seen.send(longest).ok();
        speak(StopReason::Length, "and so on", longest)()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/models", axum::routing::get(async || r#"{"data":[{"id":"tiny"}]}"#));
    let router = router.fallback(answer).with_state(seen);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, lengths)
}

#[tokio::test]
async fn no_answer_is_longer_than_what_is_left_pays_for() {
    let (url, mut lengths) = obedient_provider().await;
    let mut config = config(&url);
    let rates = choir_llm::price::Rates { input: 0.0, output: 100.0, cache_read: None, cache_write: None };
    config.providers.get_mut("local").unwrap().usd_per_million = Some(rates);
    let budget = Budget { usd_per_run: Usd(15_000) };
    let world = World::with(Config { budget, ..config }, FakeComputer::default()).await;
    let mut call = call(1);
    call.request.tokens_max = 50;
    let stop = async |call: &ModelCall| match frames(&world.computer, call).await.last() {
        Some(ModelFrame::Answer(answer)) => answer.stop,
        other => panic!("{other:?}"),
    };
    assert_eq!((stop(&call).await, lengths.recv().await), (StopReason::Length, Some(50)), "its own wish");
    call.request.tokens_max = 8_000;
    assert_eq!((stop(&call).await, lengths.recv().await), (StopReason::Budget, Some(100)), "a cent is left");
    assert_eq!(error(&frames(&world.computer, &call).await).0, ErrorClass::Budget);
    // What is left of the task's own budget is a wall as well.
    let mut other = ModelCall { run: RunId::from([2; 16]), usd_left: Some(Usd(7_000)), ..call };
    assert_eq!((stop(&other).await, lengths.recv().await), (StopReason::Budget, Some(70)));
    other.usd_left = Some(Usd(6_000));
    assert_eq!(error(&frames(&world.computer, &other).await).0, ErrorClass::Budget, "too little for a useful answer");
    assert!(lengths.try_recv().is_err(), "nobody was asked");
    assert_eq!(world.db().spent(RunId::from([1; 16])).await.unwrap().usd, Usd(15_000));
}

#[tokio::test]
async fn a_model_whose_price_nobody_knows_is_not_free() {
    let (url, mut requests) = provider(says("dear", 1_000)).await;
    // The same server by an address that does not say that it is on this machine.
    let elsewhere = url.replace("127.0.0.1", "0.0.0.0");
    let budget = Budget { usd_per_run: Usd(10_000) };
    let world = World::with(Config { budget, ..config(&elsewhere) }, FakeComputer::default()).await;
    let answered = frames(&world.computer, &call(1)).await;
    let Some(ModelFrame::Answer(answer)) = answered.last() else { panic!("{answered:?}") };
    assert!(answer.usage.usd > Usd(10_000), "{:?}", answer.usage);
    assert_eq!(answer.usage.usd_assumed, answer.usage.usd, "and the receipt can say so");
    assert_eq!(written(&world.db(), 1).await.usd, answer.usage.usd);
    while requests.try_recv().is_ok() {}
    let (class, said) = error(&frames(&world.computer, &call(1)).await);
    assert_eq!(class, ErrorClass::Budget);
    assert!(said.contains("not known") && said.contains("[providers.local]"), "{said}");
    assert!(requests.try_recv().is_err(), "nobody was asked");

    // What the person says it costs holds, on this machine too.
    let mut said = config(&url);
    let rates = choir_llm::price::Rates { input: 0.0, output: 5.0, cache_read: None, cache_write: None };
    said.providers.get_mut("local").unwrap().usd_per_million = Some(rates);
    let world = World::with(said, FakeComputer::default()).await;
    let answered = frames(&world.computer, &call(1)).await;
    let Some(ModelFrame::Answer(answer)) = answered.last() else { panic!("{answered:?}") };
    assert_eq!((answer.usage.usd, answer.usage.usd_assumed), (Usd(5_000), Usd(0)));
}

#[tokio::test]
async fn a_provider_that_echoes_the_key_does_not_leak_it() {
    let echo: Behaviour = Arc::new(|| {
        (StatusCode::UNAUTHORIZED, format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#)).into_response()
    });
    let (url, _) = provider(echo).await;
    let world = World::start().await;
    let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"{KEY}"}}"#);
    world.browser().await.json(Method::PUT, "/api/providers/mine", body).await;
    let (class, message) = error(&frames(&world.computer, &call(1)).await);
    assert_eq!(class, ErrorClass::Auth);
    assert!(!message.contains("canary"), "{message}");
}

#[tokio::test]
async fn a_provider_that_says_the_key_in_its_answer_does_not_leak_it() {
    let (url, _) = provider(says(&format!("Your key is {KEY}, is it not?"), 5)).await;
    let world = World::start().await;
    let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"{KEY}"}}"#);
    world.browser().await.json(Method::PUT, "/api/providers/mine", body).await;
    let heard = frames(&world.computer, &call(1)).await;
    let text: String = heard
        .iter()
        .filter_map(|frame| match frame {
            ModelFrame::Delta(Delta::Text { text }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let Some(ModelFrame::Answer(answer)) = heard.last() else { panic!("{heard:?}") };
    assert_eq!((text.as_str(), answer.message.text.as_str()), (SAID_WITHOUT, SAID_WITHOUT));
}

const SAID_WITHOUT: &str = "Your key is [redacted], is it not?";

#[tokio::test]
async fn failures_have_their_classes() {
    let cases: [(Behaviour, ErrorClass); 4] = [
        (Arc::new(|| StatusCode::TOO_MANY_REQUESTS.into_response()), ErrorClass::RateLimit),
        (Arc::new(|| StatusCode::BAD_GATEWAY.into_response()), ErrorClass::Overloaded),
        (Arc::new(|| "<html>login</html>".into_response()), ErrorClass::Garbage),
        (
            Arc::new(|| "data: {\"choices\":[{\"delta\":{\"content\":\"hal\"}}]}\n\n".into_response()),
            ErrorClass::Truncated,
        ),
    ];
    for (behaviour, class) in cases {
        let (url, _) = provider(behaviour).await;
        let world = World::with(config(&url), FakeComputer::default()).await;
        assert_eq!(error(&frames(&world.computer, &call(1)).await).0, class);
    }
    let world = World::with(config("http://127.0.0.1:1"), FakeComputer::default()).await;
    assert_eq!(error(&frames(&world.computer, &call(1)).await).0, ErrorClass::Overloaded);
}

#[tokio::test]
async fn a_model_that_asks_for_patience_is_left_alone_by_every_run() {
    let busy = || (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "40")], "slow down").into_response();
    let (url, mut requests) = provider(Arc::new(busy)).await;
    let world = World::with(config(&url), FakeComputer::default()).await;
    let told = async |run| match frames(&world.computer, &call(run)).await.pop() {
        Some(ModelFrame::Error(error)) => (error.class, error.retry_after_ms),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(1).await, (ErrorClass::RateLimit, Some(40_000)));
    while requests.try_recv().is_ok() {}
    let (class, wait) = told(2).await;
    assert!(class == ErrorClass::RateLimit && wait.is_some_and(|wait| (1..=40_000).contains(&wait)), "{wait:?}");
    assert!(requests.try_recv().is_err(), "nobody was asked");
}

#[tokio::test]
async fn a_provider_that_fails_again_and_again_is_passed_over() {
    let (bad, mut asked_bad) = provider(Arc::new(|| StatusCode::INTERNAL_SERVER_ERROR.into_response())).await;
    let (good, _) = provider(says("here", 1)).await;
    let mut config = config(&bad);
    let second = Provider { base_url: Some(good), ..config.providers["local"].clone() };
    config.providers.insert("second".to_owned(), second);
    config.models.default = "local/tiny".to_owned();
    config.models.fallback = vec!["nobody/none".to_owned(), "second/huge".to_owned()];
    let world = World::with(config, FakeComputer::default()).await;
    let answers = async |failures| {
        let call = ModelCall { failures, ..call(1) };
        match frames(&world.computer, &call).await.pop() {
            Some(ModelFrame::Answer(answer)) => Some(answer.model),
            _ => None,
        }
    };
    assert_eq!((answers(0).await, answers(1).await), (None, None), "the chosen one has its chances");
    assert_eq!(answers(2).await.as_deref(), Some("second/huge"));
    assert_eq!(answers(4).await.as_deref(), Some("second/huge"), "and for a while");
    assert!(asked_bad.try_recv().is_ok());
}

/// No patience mends a wrong key, an unknown model, or a provider that wants to be left alone for a day.
#[tokio::test]
async fn who_is_asked_in_vain_is_followed_by_another_at_once() {
    let refused = |status: StatusCode, wait: &'static str| -> Behaviour {
        Arc::new(move || (status, [("retry-after", wait)], "no").into_response())
    };
    let (good, _) = provider(says("It is I.", 5)).await;
    for (status, wait) in
        [(StatusCode::UNAUTHORIZED, "0"), (StatusCode::NOT_FOUND, "0"), (StatusCode::TOO_MANY_REQUESTS, "86400")]
    {
        let (bad, _) = provider(refused(status, wait)).await;
        let mut config = config(&bad);
        let second = Provider { base_url: Some(good.clone()), ..config.providers["local"].clone() };
        config.providers.insert("second".to_owned(), second);
        config.models.default = "local/tiny".to_owned();
        let alone = World::with(config.clone(), FakeComputer::default()).await;
        assert!(matches!(frames(&alone.computer, &call(1)).await.last(), Some(ModelFrame::Error(_))), "{status}");
        config.models.fallback = vec!["second/huge".to_owned()];
        let world = World::with(config, FakeComputer::default()).await;
        for _ in 0..2 {
            let heard = frames(&world.computer, &call(1)).await;
            let Some(ModelFrame::Answer(answer)) = heard.last() else { panic!("{status}: {heard:?}") };
            assert_eq!(answer.model, "second/huge", "{status}");
        }
    }
}

/// A server that was starting when it was first asked what it has is asked again.
#[tokio::test]
async fn a_list_of_models_that_failed_is_not_the_last_word() {
    let has_started = Arc::new(AtomicBool::new(false));
    let behaviour = says("Hello.", 5);
    let answer = async |State((started, behaviour)): State<(Arc<AtomicBool>, Behaviour)>, request: Request| match (
        request.uri().path(),
        started.load(Ordering::SeqCst),
    ) {
        ("/v1/models", false) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        ("/v1/models", true) => r#"{"data":[{"id":"tiny"}]}"#.into_response(),
        _ => behaviour(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state((Arc::clone(&has_started), behaviour));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = World::with(config(&url), FakeComputer::default()).await;
    let model = async || match frames(&world.computer, &call(1)).await.pop() {
        Some(ModelFrame::Answer(answer)) => answer.model,
        other => panic!("{other:?}"),
    };
    assert_eq!(model().await, "local/default");
    has_started.store(true, Ordering::SeqCst);
    assert_eq!(model().await, "local/tiny");
}

#[tokio::test]
async fn where_nobody_chose_the_first_of_the_file_that_can_be_asked_is_asked() {
    let (url, _) = provider(says("here", 1)).await;
    let local = config(&url).providers["local"].clone();
    let keyless = Provider { api_key_env: Some("CHOIR_TEST_NO_SUCH_KEY".into()), ..local.clone() };
    let famous =
        Provider { base_url: Some("https://api.anthropic.com".into()), kind: ProviderKind::Anthropic, ..local.clone() };
    let named = [("aardvark", local.clone()), ("keyless", keyless), ("famous", famous), ("zebra", local)];
    let config = Config {
        providers: named.into_iter().map(|(name, provider)| (name.to_owned(), provider)).collect(),
        provider_order: ["keyless", "famous", "zebra", "aardvark"].map(str::to_owned).into(),
        ..Config::default()
    };
    let world = World::with(config, FakeComputer::default()).await;
    let answered = frames(&world.computer, &call(1)).await;
    let Some(ModelFrame::Answer(answer)) = answered.last() else { panic!("{answered:?}") };
    assert_eq!(answer.model, "zebra/tiny");
}

#[tokio::test]
async fn a_cancelled_call_lets_go_of_the_provider() {
    let (gone, mut went) = mpsc::unbounded_channel();
    // An answer that never ends, and that tells when nobody reads it any more.
    let endless: Behaviour = Arc::new(move || {
        let guard = OnDrop(gone.clone());
        let stream = futures_util::stream::unfold((guard, true), |(guard, first)| async move {
            if !first {
                std::future::pending::<()>().await;
            }
            let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
            Some((Ok::<_, std::convert::Infallible>(chunk), (guard, false)))
        });
        Body::from_stream(stream).into_response()
    });
    let (url, _) = provider(endless).await;
    let mut config = config(&url);
    let rates = choir_llm::price::Rates { input: 1_000.0, output: 100.0, cache_read: None, cache_write: None };
    config.providers.get_mut("local").unwrap().usd_per_million = Some(rates);
    let world = World::with(config, FakeComputer::default()).await;
    let mut body = world.computer.ask(request(&call(1))).await.into_body();
    // Who is asked is told first; the answer has begun with its first piece.
    while !body.frame().await.unwrap().unwrap().into_data().unwrap().windows(5).any(|part| part == b"delta") {}
    drop(body);
    // The provider has worked, whoever wanted it; who asks at once hears what it took.
    assert!(paid(&world.computer).await.usd > Usd(0), "what it took is counted");
    went.recv().await.unwrap();
}

struct OnDrop(mpsc::UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.send(()).ok();
    }
}

#[tokio::test]
async fn a_scenario_answers_without_a_model() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("scenario.json");
    std::fs::write(&script, r#"{"roles":{"terminal":[{"text":"I heard {{prompt}}.","chunks":2}]}}"#).unwrap();
    let provider = Provider {
        kind: ProviderKind::Scripted,
        base_url: None,
        api_key_env: None,
        script: Some(script),
        context_tokens: Some(900),
        requests_per_minute: None,
        tokens_per_minute: None,
        usd_per_million: None,
    };
    let config = Config { providers: [("tour".to_owned(), provider)].into(), ..Config::default() };
    let world = World::with(config, FakeComputer::default()).await;
    let frames = frames(&world.computer, &call(1)).await;
    let Some(ModelFrame::Answer(answer)) = frames.last() else { panic!("{frames:?}") };
    assert_eq!(answer.message.text, "I heard hello.");
    assert_eq!(frames.len(), 3);
}

#[tokio::test]
async fn the_inside_serves_nothing_else() {
    let world = World::start().await;
    let request = http::Request::get("http://control/api/settings").body(Body::empty()).unwrap();
    assert_eq!(world.computer.ask(request).await.status(), StatusCode::NOT_FOUND);
    let wrong = http::Request::post("http://control/model").body("{}".into()).unwrap();
    assert_eq!(world.computer.ask(wrong).await.status(), StatusCode::BAD_REQUEST);
}
