//! Pages for agents: what is fetched, what is not, and what the log hears of it.

use crate::support::World;
use crate::support::computer::FakeComputer;
use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::get;
use choir_control::config::{Config, Egress, Engine, EngineKind, Search};
use choir_proto::Timestamp;
use choir_proto::inbox::{Reach, Verdict, Waits};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// What a server says is packed: here it is what it is, and nothing is ever unpacked.
const PACKED: &[u8] = b"\x1f\x8b\x08not even packed";

/// A server of the world, with pages that behave and pages that do not.
async fn pages() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/page", get(|| async { ([("content-type", "text/html")], "<p>hello</p>") }))
        .route("/moved", get(|| async { Redirect::temporary("/page") }))
        .route("/trap", get(|| async { Redirect::temporary("http://169.254.169.254/latest") }))
        .route("/file", get(|| async { Redirect::temporary("file:///etc/passwd") }))
        .route("/loop", get(|| async { Redirect::temporary("/loop") }))
        .route("/long", get(|| async { Body::from(vec![b'x'; 9 << 20]) }))
        .route("/packed", get(|| async { ([("content-encoding", "gzip")], PACKED) }))
        .route(
            "/near/search",
            get(move || async move { format!(r#"{{"results": [{{"title": "T", "url": "http://{address}/page"}}]}}"#) }),
        )
        .route("/cookies", get(|headers: http::HeaderMap| async move { format!("{:?}", headers.get("cookie")) }))
        .route(
            "/search",
            get(|| async { r#"{"results": [{"title": "T", "url": "https://x.example/", "content": "c"}]}"# }),
        );
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn ask(world: &World, path: &str, body: Value) -> (u16, http::HeaderMap, String) {
    let request = http::Request::builder().method("POST").uri(format!("http://control{path}"));
    let request = request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
    let (head, body) = world.computer.ask(request).await.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, String::from_utf8_lossy(&bytes).into_owned())
}

async fn fetch(world: &World, url: String) -> (u16, http::HeaderMap, String) {
    ask(world, "/fetch", json!({"task": "01890a5d-ac96-774b-bcce-b302099a8054", "url": url})).await
}

fn ceiling(entries: &[String]) -> Egress {
    Egress { ceiling: entries.to_vec() }
}

#[tokio::test]
async fn a_page_that_the_person_allowed_is_fetched_over_redirects_and_every_hop_is_looked_at() {
    let at = pages().await;
    let config = Config { egress: ceiling(&[at.to_string(), "web".into()]), ..Config::default() };
    let world = World::with(config, FakeComputer::default()).await;
    let (status, headers, body) = fetch(&world, format!("http://{at}/moved")).await;
    assert_eq!((status, body.as_str()), (200, "<p>hello</p>"));
    assert_eq!(headers["content-type"], "text/html");
    assert_eq!(headers["x-choir-page-url"], format!("http://{at}/page"));
    let (_, _, cookies) = fetch(&world, format!("http://{at}/cookies")).await;
    assert_eq!(cookies, "None");
    let (_, _, packed) = fetch(&world, format!("http://{at}/packed")).await;
    assert_eq!(packed, String::from_utf8_lossy(PACKED), "nothing is unpacked: a bomb stays as small as it came");
    let refused = [
        ("trap", 403, "not public"),
        ("file", 502, "not an address"),
        ("loop", 502, "again and again"),
        ("missing", 502, "status 404"),
        ("long", 413, "longer"),
    ];
    for (path, whose, why) in refused {
        let (status, _, body) = fetch(&world, format!("http://{at}/{path}")).await;
        assert!(status == whose && body.contains(why), "{path}: {status} {body}");
    }
    for url in ["nonsense", "ftp://x.example/", "http://user@x.example/"] {
        let (status, _, body) = fetch(&world, url.to_owned()).await;
        assert!(status == 400 && body.contains("not an address"), "{url}: {status} {body}");
    }
    world
        .computer
        .told_that("/internal/record", |body| {
            let said = String::from_utf8_lossy(body);
            said.contains("egress.denied") && said.contains("169.254.169.254")
        })
        .await;
}

#[tokio::test]
async fn without_a_word_of_the_person_nothing_is_fetched() {
    let at = pages().await;
    let world = World::start().await;
    // For the person themselves nobody asks the person.
    let (status, _, body) = ask(&world, "/fetch", json!({"url": format!("http://{at}/page")})).await;
    assert!(status == 403 && body.contains(&format!("allow `{at}`")), "{body}");
    let (status, _, body) = fetch(&world, format!("http://{at}/page")).await;
    assert!(status == 202 && body.contains(&format!("May a task reach {at}?")), "{status} {body}");
    let waits: Waits = serde_json::from_str(&body).unwrap();
    let (_, _, again) = fetch(&world, format!("http://{at}/page")).await;
    assert_eq!(serde_json::from_str::<Waits>(&again).unwrap().id, waits.id, "it is asked once");
    let said = Verdict::Approved { scope: Reach::Once };
    world.db().decide(waits.id, waits.hash, said, Timestamp(9)).await.unwrap();
    let (status, _, body) = fetch(&world, format!("http://{at}/page")).await;
    assert_eq!((status, body.as_str()), (200, "<p>hello</p>"), "the person said yes");
    let (status, _, body) = fetch(&world, format!("http://localhost:{}/page", at.port())).await;
    assert!(status == 403 && body.contains("not public"), "a yes would not help, so nobody is asked: {status} {body}");
    let other = json!({"task": "01890a5d-ac96-774b-bcce-b302099a8055", "url": format!("http://{at}/page")});
    assert_eq!(ask(&world, "/fetch", other).await.0, 202, "to this task alone");
    let config = Config { egress: ceiling(&["web".into()]), ..Config::default() };
    let world = World::with(config, FakeComputer::default()).await;
    let (status, _, body) = fetch(&world, format!("http://{at}/page")).await;
    assert!(
        status == 202 && body.contains("May a task reach"),
        "an address that somebody made up is asked about: {body}"
    );
}

/// By being asked whether it is public: nothing else stands between a given page and its reader.
async fn is_open(world: &World, url: String) -> bool {
    let (status, _, body) = ask(world, "/fetch", json!({"url": url})).await;
    assert_eq!(status, 403, "{body}");
    body.contains("not public")
}

#[tokio::test]
async fn a_page_that_was_given_stays_given_after_a_restart_and_its_address_is_kept_nowhere() {
    let at = pages().await;
    let world = World::start().await;
    let prompt = json!({"prompt": format!("Read http://{at}/canary-page")}).to_string();
    world.browser().await.json(http::Method::POST, "/api/runs", prompt).await;
    let world = world.again().await;
    assert!(is_open(&world, format!("http://{at}/canary-page")).await);
    assert!(!is_open(&world, format!("http://{at}/another")).await);
    let control = world.directory.path().join("control");
    world.control.stop().await;
    for file in std::fs::read_dir(control).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "{}", file.display());
    }
}

#[tokio::test]
async fn a_page_whose_address_the_person_gave_needs_no_other_word() {
    let at = pages().await;
    let world = World::start().await;
    let browser = world.browser().await;
    assert!(!is_open(&world, format!("http://{at}/given")).await);
    let given = [
        ("/api/artifacts", json!({"url": format!("http://{at}/given")})),
        (
            "/api/runs",
            json!({"prompt": format!("Read http://{at}/said, please."), "context": [{"url": format!("http://{at}/shown")}]}),
        ),
        ("/api/runs/01890a5d-ac96-774b-bcce-b302099a8054/steer", json!({"text": format!("and http://{at}/steered")})),
        ("/api/tasks", json!({"kind": "research", "instruction": format!("Sum up http://{at}/asked")})),
    ];
    for (path, body) in given {
        browser.json(http::Method::POST, path, body.to_string()).await;
    }
    for page in ["given", "said", "shown", "steered", "asked"] {
        assert!(is_open(&world, format!("http://{at}/{page}")).await, "{page}");
    }
    assert!(!is_open(&world, format!("http://{at}/given?secret")).await, "that page, and no other of its host");
    let (status, _, body) = fetch(&world, format!("http://{at}/given")).await;
    assert!(status == 403 && body.contains("not public"), "agents too, and near pages are not public: {body}");
}

#[tokio::test]
async fn the_persons_search_engine_is_asked_and_a_missing_one_is_said() {
    let at = pages().await;
    let wish = json!({"task": "01890a5d-ac96-774b-bcce-b302099a8054", "query": "trees & shrubs"});
    let world = World::start().await;
    let (status, _, body) = ask(&world, "/search", wish.clone()).await;
    assert!(status == 200 && body.contains(r#""unset":true"#), "{body}");
    // The first of them answers nonsense.
    let engine = |path: &str| Engine { kind: EngineKind::Searxng, url: format!("http://{at}/{path}") };
    let engines = vec![engine("nowhere/"), engine("")];
    let config = Config { search: Search { engines, ..Search::default() }, ..Config::default() };
    let world = World::with(config, FakeComputer::default()).await;
    let (status, _, body) = ask(&world, "/search", wish).await;
    assert_eq!((status, body.as_str()), (200, r#"{"hits":[{"title":"T","url":"https://x.example/","snippet":"c"}]}"#));
}

#[tokio::test]
async fn a_run_may_be_let_read_what_a_search_found_and_no_other_run_with_it() {
    let at = pages().await;
    let engines = vec![Engine { kind: EngineKind::Searxng, url: format!("http://{at}/near/") }];
    let config = Config { search: Search { engines, ..Search::default() }, ..Config::default() };
    let world = World::with(config, FakeComputer::default()).await;
    let (task, other) = ("01890a5d-ac96-774b-bcce-b302099a8054", "01890a5d-ac96-774b-bcce-b302099a8055");
    let (run, next) = ("01890a5d-ac96-774b-bcce-b302099a8060", "01890a5d-ac96-774b-bcce-b302099a8061");
    assert_eq!(ask(&world, "/search", json!({"task": task, "query": "trees"})).await.0, 200);
    let read = async |task: &str, run: &str, path: &str| {
        let (status, _, body) =
            ask(&world, "/fetch", json!({"task": task, "run": run, "url": format!("http://{at}/{path}")})).await;
        (status, body)
    };
    let (status, body) = read(task, run, "page").await;
    let waits: Waits = serde_json::from_str(&body).unwrap();
    assert_eq!((status, waits.subject.as_str()), (202, "web"), "{body}");
    assert!(waits.question.starts_with("May this run read public web pages?"), "{body}");
    let (_, body) = read(task, run, "made-up").await;
    assert_eq!(serde_json::from_str::<Waits>(&body).unwrap().subject, at.to_string(), "nobody found that one");

    world.db().decide(waits.id, waits.hash, Verdict::Approved { scope: Reach::Run }, Timestamp(9)).await.unwrap();
    for task in [task, other] {
        let (status, body) = read(task, run, "page").await;
        assert!(status == 403 && body.contains("not public"), "let through, and looked at like every page: {body}");
    }
    let (status, body) = read(other, run, "made-up").await;
    assert_eq!((status, serde_json::from_str::<Waits>(&body).unwrap().subject), (202, at.to_string()), "only those");
    let (status, body) = read(other, next, "page").await;
    let waits: Waits = serde_json::from_str(&body).unwrap();
    assert_eq!((status, waits.subject.as_str()), (202, "web"), "another run asks for itself");
    world.db().decide(waits.id, waits.hash, Verdict::Denied { scope: Reach::Run }, Timestamp(10)).await.unwrap();
    let (status, body) = read(other, next, "page").await;
    assert_eq!(
        (status, serde_json::from_str::<Waits>(&body).unwrap().subject),
        (202, at.to_string()),
        "page by page then"
    );
}
