//! A running control, a computer to stand behind it, and clients to stand before it.

pub(crate) mod computer;
pub(crate) mod http;

use choir_control::clock::Clock;
use choir_control::config::Config;
use choir_control::data::DataDir;
use choir_control::db::{Db, Scope};
use choir_control::http::Limits;
use choir_control::up::{self, Control, Options};
use choir_control::{secret::Secret, token};
use choir_proto::Timestamp;
use computer::FakeComputer;
use http::Client;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Everything a test needs; dropped with its directory.
pub(crate) struct World {
    pub(crate) control: Control,
    pub(crate) computer: FakeComputer,
    pub(crate) directory: TempDir,
    now: Arc<AtomicI64>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(Config::default(), FakeComputer::default()).await
    }

    pub(crate) async fn with(config: Config, computer: FakeComputer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(1_767_225_600_000_000));
        let options = options(directory.path(), config, &computer, clock(&now));
        Self::by(options, directory, computer, now).await
    }

    /// Where an account may ask so often and no more.
    pub(crate) async fn with_account_burst(burst: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (computer, now) = (FakeComputer::default(), Arc::new(AtomicI64::new(1_767_225_600_000_000)));
        let mut options = options(directory.path(), Config::default(), &computer, clock(&now));
        options.limits = Limits::with_account_burst(burst);
        Self::by(options, directory, computer, now).await
    }

    async fn by(options: Options, directory: TempDir, computer: FakeComputer, now: Arc<AtomicI64>) -> Self {
        let mut control = up::start(options).await.unwrap();
        control.settled().await.unwrap();
        Self { control, computer, directory, now }
    }

    /// Stopped and started again on the same directory.
    pub(crate) async fn again(self) -> Self {
        self.again_after(|_| {}).await
    }

    /// The same, with something done to the directory while nothing runs.
    pub(crate) async fn again_after(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self { control, computer, directory, now } = self;
        control.stop().await;
        meanwhile(directory.path());
        let options = options(directory.path(), Config::default(), &computer, clock(&now));
        Self::by(options, directory, computer, now).await
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.control.address)
    }

    /// A client with a fresh token.
    pub(crate) async fn client_with(&self, scope: Scope) -> Client {
        self.client_for(scope, None).await
    }

    /// The same, with a token that ends.
    pub(crate) async fn client_for(&self, scope: Scope, lifetime: Option<Duration>) -> Client {
        let token = token::create(&self.db(), &clock(&self.now), "test".into(), scope, lifetime).await.unwrap();
        self.client().header("authorization", format!("Bearer {}", token.expose()))
    }

    /// A client with a browser's session.
    pub(crate) async fn browser(&self) -> Client {
        self.client().header("cookie", self.session().await)
    }

    /// What this instance calls its cookie.
    pub(crate) async fn cookie_name(&self) -> String {
        self.session().await.split_once('=').expect("a name").0.to_owned()
    }

    /// `name=value` of a fresh session.
    async fn session(&self) -> String {
        let answer = self.client().get(&format!("/?token={}", self.fresh_sign_in().await.expose())).await;
        answer.cookie().expect("a session")
    }

    pub(crate) async fn fresh_sign_in(&self) -> Secret {
        token::sign_in(&self.db(), &clock(&self.now)).await.unwrap()
    }

    pub(crate) fn db(&self) -> Db {
        Db::open(&DataDir::at(self.directory.path()).database()).unwrap()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }

    pub(crate) fn rewind(&self, by: Duration) {
        self.now.fetch_sub(by.as_micros() as i64, Ordering::SeqCst);
    }
}

pub(crate) fn options(data: &Path, config: Config, computer: &FakeComputer, clock: Clock) -> Options {
    let launcher = computer.launcher();
    Options {
        data: data.to_owned(),
        listen: "127.0.0.1:0".into(),
        config,
        config_directory: data.to_owned(),
        guest_program: env!("CARGO_BIN_EXE_choir-control-guest").into(),
        launcher: Box::new(move |_| launcher),
        computer_api: utoipa::openapi::OpenApi::default,
        clock,
        limits: Limits::default(),
    }
}

fn clock(now: &Arc<AtomicI64>) -> Clock {
    let now = now.clone();
    Clock::new(move || Timestamp(now.load(Ordering::SeqCst)))
}
