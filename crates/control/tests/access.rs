//! Who gets in, with what, and how far.

use crate::support::World;
use choir_control::db::Scope;
use http::{Method, StatusCode};
use std::collections::BTreeMap;
use std::time::Duration;

#[tokio::test]
async fn nobody_reads_the_api_without_a_session() {
    let world = World::start().await;
    let client = world.client();
    for path in ["/api/events?after=0&limit=1", "/api/settings", "/api/openapi.json", "/api/nothing"] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNAUTHORIZED, "not_signed_in"), "{path}");
    }
    assert_eq!(client.upgrade("/api/stream?after=0").await.err(), Some(StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn forged_proofs_open_nothing() {
    let world = World::start().await;
    let name = world.cookie_name().await;
    let (guessed, empty) = (format!("{name}={}", "0".repeat(64)), format!("{name}="));
    let forged = [
        ("cookie", guessed.as_str()),
        ("cookie", empty.as_str()),
        ("authorization", "Bearer choir_0000000000000000000000000000000000000000000000000000000000000000"),
        ("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzY29wZSI6ImFkbWluIn0."),
        ("authorization", "Basic YWRtaW46YWRtaW4="),
        ("x-choir-actor", "person"),
    ];
    for (name, value) in forged {
        let answer = world.client().header(name, value).get("/api/events?after=0&limit=1").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{name}: {value}");
    }
}

#[tokio::test]
async fn a_sign_in_address_works_once() {
    let world = World::start().await;
    let path = format!("/?token={}", world.control.sign_in.expose());
    let first = world.client().get(&path).await;
    assert_eq!((first.status, first.header("location")), (StatusCode::SEE_OTHER, "/"));
    let cookie = first.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let browser = world.client().header("cookie", first.cookie().unwrap());
    assert_eq!(browser.get("/").await.status, StatusCode::OK);
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::OK);

    let second = world.client().get(&path).await;
    assert_eq!((second.status, second.cookie()), (StatusCode::UNAUTHORIZED, None));
    assert_eq!(world.client().get("/").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn previews_and_other_sites_do_not_use_up_a_sign_in() {
    let world = World::start().await;
    let path = format!("/?token={}", world.fresh_sign_in().await.expose());
    let client = world.client();
    let navigation = client.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
    for foreign in [
        client.header("sec-purpose", "prefetch;prerender"),
        client.header("purpose", "prefetch"),
        navigation.header("sec-fetch-site", "cross-site"),
    ] {
        let answer = foreign.get(&path).await;
        assert_eq!((answer.status, answer.cookie()), (StatusCode::FORBIDDEN, None));
    }
    assert!(client.send(Method::HEAD, &path, Default::default()).await.cookie().is_none());
    assert_eq!(client.get(&path).await.status, StatusCode::SEE_OTHER, "it still works");
}

#[tokio::test]
async fn a_planted_session_id_is_worth_nothing_after_signing_in() {
    let world = World::start().await;
    let before = world.browser().await;
    let path = format!("/?token={}", world.fresh_sign_in().await.expose());
    let after = before.get(&path).await;
    assert_eq!(after.status, StatusCode::SEE_OTHER);
    assert_eq!(before.get("/api/settings").await.status, StatusCode::UNAUTHORIZED, "the old id is dead");
    let fresh = world.client().header("cookie", after.cookie().unwrap());
    assert_eq!(fresh.get("/api/settings").await.status, StatusCode::OK);
}

/// Browsers send a host's cookies to every port of it, and a new one takes the place of another of its name.
#[tokio::test]
async fn two_instances_on_one_host_leave_each_other_signed_in() {
    let worlds = [World::start().await, World::start().await];
    let mut jar = BTreeMap::new();
    let cookies = |jar: &BTreeMap<String, String>| {
        jar.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    };
    for world in &worlds {
        let path = format!("/?token={}", world.fresh_sign_in().await.expose());
        let answer = world.client().header("cookie", cookies(&jar)).get(&path).await;
        let (name, value) =
            answer.cookie().unwrap().split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap();
        jar.insert(name, value);
    }
    for world in &worlds {
        let browser = world.client().header("cookie", cookies(&jar));
        assert_eq!(browser.get("/api/settings").await.status, StatusCode::OK);
    }
    let [first, second] = worlds.each_ref().map(|world| world.client().header("cookie", cookies(&jar)));
    first.send(Method::DELETE, "/api/session", Default::default()).await;
    assert_eq!(first.get("/api/settings").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(second.get("/api/settings").await.status, StatusCode::OK, "signing out is for one of them too");
}

#[tokio::test]
async fn an_expired_session_stays_dead_when_the_clock_goes_back() {
    let world = World::start().await;
    let browser = world.browser().await;
    world.advance(Duration::from_secs(31 * 24 * 3600));
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::UNAUTHORIZED);
    world.rewind(Duration::from_secs(31 * 24 * 3600));
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_expired_sign_in_address_is_refused() {
    let world = World::start().await;
    let path = format!("/?token={}", world.fresh_sign_in().await.expose());
    world.advance(Duration::from_secs(25 * 3600));
    assert_eq!(world.client().get(&path).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn signing_out_ends_the_session_and_its_streams() {
    let world = World::start().await;
    let browser = world.browser().await;
    let mut socket = browser.upgrade("/api/stream?after=0").await.unwrap();
    assert_eq!(browser.send(Method::DELETE, "/api/session", Default::default()).await.status, StatusCode::NO_CONTENT);
    assert!(socket.next().await.unwrap_err().reason.starts_with("signed out"));
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_does_what_its_scope_says() {
    let world = World::start().await;
    let read = world.client_with(Scope::Read).await;
    let run = world.client_with(Scope::Run).await;
    let admin = world.client_with(Scope::Admin).await;
    for client in [&read, &run, &admin] {
        assert_eq!(client.get("/api/echo").await.status, StatusCode::OK);
        assert!(client.upgrade("/api/stream?after=0").await.is_ok());
    }
    let write = |client| async move { world_post(client, "/api/echo").await };
    assert_eq!(write(&read).await, (StatusCode::FORBIDDEN, Some("wrong_scope".into())));
    assert_eq!(write(&run).await.0, StatusCode::OK);
    assert_eq!(read.upgrade("/api/terminals/1").await.err(), Some(StatusCode::FORBIDDEN), "keystrokes are writes");
    for path in ["/api/settings", "/api/providers/openai"] {
        assert_eq!(run.json(Method::PUT, path, "{}").await.status, StatusCode::FORBIDDEN, "{path}");
        assert!(admin.json(Method::PUT, path, "{}").await.status.is_success(), "{path}");
    }
    for path in ["/api/inbox/1", "/api/events/1/erase", "/api/import"] {
        assert_eq!(run.json(Method::POST, path, "{}").await.status, StatusCode::FORBIDDEN, "{path}");
        assert_ne!(admin.json(Method::POST, path, "{}").await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

async fn world_post(client: &crate::support::http::Client, path: &str) -> (StatusCode, Option<String>) {
    let answer = client.json(Method::POST, path, "{}").await;
    (answer.status, (!answer.status.is_success()).then(|| answer.code()))
}

#[tokio::test]
async fn a_revoked_token_is_dead_at_once_in_requests_and_open_sockets() {
    let world = World::start().await;
    let admin = world.client_with(Scope::Admin).await;
    let program = world.client_with(Scope::Run).await;
    let mut socket = program.upgrade("/api/stream?after=0").await.unwrap();
    let mut others = admin.upgrade("/api/stream?after=0").await.unwrap();
    let listed = admin.get("/api/tokens").await.value();
    let id =
        listed["tokens"].as_array().unwrap().iter().find(|token| token["scope"] == "run").unwrap()["token_id"].clone();
    let path = format!("/api/tokens/{}", id.as_str().unwrap());
    assert_eq!(program.send(Method::DELETE, &path, Default::default()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(admin.send(Method::DELETE, &path, Default::default()).await.status, StatusCode::NO_CONTENT);
    assert!(socket.next().await.unwrap_err().reason.starts_with("signed out"));
    assert_eq!(program.get("/api/echo").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(admin.send(Method::DELETE, &path, Default::default()).await.status, StatusCode::NOT_FOUND);
    world.computer.append(1);
    assert_eq!(others.events(1).await, [1], "other connections go on");
}

#[tokio::test]
async fn sessions_survive_a_restart() {
    let world = World::start().await;
    let browser = world.browser().await;
    let directory = world.directory.path().to_owned();
    world.control.stop().await;
    let clock = choir_control::clock::Clock::new(|| choir_proto::Timestamp(1_767_225_600_000_000));
    let options = crate::support::options(&directory, Default::default(), &world.computer, clock);
    let mut again = choir_control::up::start(options).await.unwrap();
    again.settled().await.unwrap();
    // Elsewhere: somebody may have taken the old port meanwhile.
    let browser = browser.at(again.address);
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::OK);
    again.stop().await;
}

#[tokio::test]
async fn identity_comes_from_the_proof_and_from_nowhere_else() {
    let world = World::start().await;
    let read = world.client_with(Scope::Read).await;
    for (name, value) in
        [("x-choir-scope", "admin"), ("x-choir-actor", "control"), ("x-user", "root"), ("scope", "admin")]
    {
        let answer = read.header(name, value).json(Method::PUT, "/api/settings?scope=admin", "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "wrong_scope"), "{name}");
    }
    assert_eq!(read.upgrade("/api/stream?after=0&scope=admin").await.err(), Some(StatusCode::BAD_REQUEST));
}

#[tokio::test]
async fn a_socket_ends_with_the_token_or_session_that_opened_it() {
    let world = World::start().await;
    let brief = world.client_for(Scope::Read, Some(Duration::from_millis(20))).await;
    let mut socket = brief.upgrade("/api/stream?after=0").await.unwrap();
    let mut lasting = world.client_with(Scope::Read).await.upgrade("/api/stream?after=0").await.unwrap();
    world.computer.append(1);
    assert_eq!(socket.events(1).await, [1], "until then it goes on");
    world.advance(Duration::from_secs(1));
    assert!(socket.next().await.unwrap_err().reason.starts_with("signed out"));
    world.computer.append(1);
    assert_eq!(lasting.events(2).await, [1, 2]);
}

#[tokio::test]
async fn which_tokens_there_are_is_told_to_admins_alone() {
    let world = World::start().await;
    for (scope, status) in
        [(Scope::Read, StatusCode::FORBIDDEN), (Scope::Run, StatusCode::FORBIDDEN), (Scope::Admin, StatusCode::OK)]
    {
        assert_eq!(world.client_with(scope).await.get("/api/tokens").await.status, status, "{scope:?}");
    }
}
