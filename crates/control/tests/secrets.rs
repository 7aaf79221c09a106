//! Canaries: values that must not turn up in any log, whatever goes wrong around them.

use crate::support::World;
use choir_control::db::Scope;
use http::Method;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_log_line_carries_a_secret() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    // Of this thread, which is the whole of this test's runtime.
    let _logging = tracing::subscriber::set_default(subscriber);
    {
        let world = World::start().await;
        let client = world.client_with(Scope::Admin).await;
        let body = r#"{"kind":"openai","base_url":"http://127.0.0.1:1","key":"sk-canary-key-000001"}"#;
        client.json(Method::PUT, "/api/providers/mine", body).await;
        client.send(Method::POST, "/api/providers/mine/test", Default::default()).await;
        client.json(Method::PUT, "/api/providers/mine", r#"{"key":"canary key with blanks"}"#).await;
        client.json(Method::PUT, "/api/providers/mine", r#"{"key":["canary-in-a-list"]}"#).await;
        let stranger = world.client().header("authorization", "Bearer canary-token");
        let session = format!("{}=canary-session", world.cookie_name().await);
        stranger.header("cookie", session).get("/api/settings?x=canary-query").await;
        world.client().get("/?token=canary-sign-in").await;
        world.client().header("origin", "http://evil.example").json(Method::POST, "/api/runs", "canary-body").await;
        world.computer.die();
        client.get("/api/echo").await;
        world.control.stop().await;
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("refused"), "the log was written at all: {log}");
    assert!(!log.contains("canary"), "{log}");
}
