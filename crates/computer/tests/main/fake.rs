//! A control that plays a scenario and counts what it was asked to do.

use choir_computer::actor::{Places, RunCommand, SessionMessage};
use choir_computer::control::{Control, ControlError, Fetched, Heard, OnFile, OnHeard, OnOutput};
use choir_computer::serve::{Computer, ServeError};
use choir_computer::world::{RealWorld, World};
use choir_core::fold::run::Runs;
use choir_core::tool::{ReplaceInFile, replace_once};
use choir_llm::scripted::Scenario;
use choir_proto::inbox::{Ask, AskKind, Asked, Matter, Reach, Verdict, Waits};
use choir_proto::model::{Answer, ErrorClass, ModelError, ModelRequest, Paid, Usage};
use choir_proto::run::Run;
use choir_proto::wire::mcp::{Offers, WhatTools};
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, ChangesUndone, DocumentSettings, EditFile, Edited,
    EffectRecord, Exec, Exit, Fetch, FinishAssociate, LiveFile, LivePath, Mirror, Mirrored, ModelCall, Models,
    OutputStream, StartAssociate, ToolSettings, UndoChanges, WatchFiles, WatchFrame,
};
use choir_proto::{ComputerId, Hash, InboxId, Role, RunId, TaskId, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, broadcast, watch};
use uuid::Uuid;

/// The world as it is, but that time can be made to pass.
struct Hurried {
    real: Arc<RealWorld>,
    passed_ms: Arc<AtomicU64>,
}

impl World for Hurried {
    fn now(&self) -> Timestamp {
        self.real.now()
    }

    fn elapsed(&self) -> Duration {
        self.real.elapsed() + Duration::from_millis(self.passed_ms.load(Ordering::SeqCst))
    }

    fn uuid(&self) -> Uuid {
        self.real.uuid()
    }

    fn chance(&self) -> f64 {
        self.real.chance()
    }
}

/// Outlives the computer, as control does.
pub(crate) struct Fake {
    scenario: Scenario,
    pub(crate) has_model: AtomicBool,
    /// How often somebody heard that there is none.
    pub(crate) refusals: watch::Sender<u64>,
    /// What the model can read at once; nothing is not known.
    pub(crate) window: AtomicU64,
    pub(crate) model_calls: AtomicU64,
    /// What models were asked, in order.
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
    /// Whether the person wanted it, of each of them.
    pub(crate) insisted: Mutex<Vec<bool>>,
    /// What an answer took that is an error in the end.
    pub(crate) took: Mutex<Usage>,
    /// What was paid for in all, where anybody counts that.
    pub(crate) paid: Mutex<Option<Paid>>,
    /// Whether whoever asks a model meets a bug.
    pub(crate) panics: AtomicBool,
    /// How often each effect was begun.
    pub(crate) effects: Mutex<BTreeMap<String, u64>>,
    pub(crate) files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// What was taken back.
    pub(crate) undos: Mutex<Vec<UndoChanges>>,
    /// How long whoever wants a sandbox waits for it, and how much of that has passed, in milliseconds.
    pub(crate) line_ms: AtomicU64,
    passed_ms: Arc<AtomicU64>,
    /// A command `wait` runs until it is killed.
    killed: Notify,
    /// What waits for the person, by name, and what they said.
    pub(crate) inbox: watch::Sender<BTreeMap<InboxId, (Ask, Option<Verdict>)>>,
    /// Whether agents may change a person's words without asking.
    pub(crate) auto_accept: AtomicBool,
    /// Nobody ever says which tools there are elsewhere.
    pub(crate) silent_servers: AtomicBool,
    /// Whether the record of effects is of no use.
    pub(crate) forgets: AtomicBool,
    /// Whether the sandbox has died; another one is started when it is asked for.
    pub(crate) sandbox_is_dead: AtomicBool,
    /// Tools that need a yes.
    pub(crate) asks_for: Mutex<Vec<String>>,
    /// Prompts with these words are never answered.
    pub(crate) silent: Mutex<Option<String>>,
    /// Whether writers are answered piece by piece, each when it is let through, and the end when that is.
    pub(crate) is_slow: AtomicBool,
    pub(crate) pace: Semaphore,
    /// Whether conductors think until they are let through, and rings when one begins to.
    pub(crate) is_thoughtful: AtomicBool,
    pub(crate) thinks: Notify,
    /// Whether there is a workspace, and what is heard of its files.
    pub(crate) has_workspace: AtomicBool,
    pub(crate) changed: broadcast::Sender<LiveFile>,
    /// How often a mirror was to be written.
    pub(crate) mirrored: watch::Sender<u64>,
    /// Whether it takes until something is let through before anybody knows how documents may be written.
    pub(crate) is_busy: AtomicBool,
    /// Rings when somebody wants to know whether a tool needs a yes, or how to write.
    pub(crate) looked_up: Notify,
    /// Control was killed, and whoever waits for it hears that first.
    pub(crate) is_gone: watch::Sender<bool>,
}

impl Fake {
    pub(crate) fn new(scenario: &str) -> Arc<Self> {
        Arc::new(Self {
            scenario: Scenario::parse(scenario).unwrap(),
            has_model: AtomicBool::new(true),
            refusals: watch::Sender::new(0),
            window: AtomicU64::new(0),
            model_calls: AtomicU64::new(0),
            requests: Mutex::default(),
            insisted: Mutex::default(),
            took: Mutex::default(),
            paid: Mutex::default(),
            panics: AtomicBool::new(false),
            effects: Mutex::default(),
            files: Mutex::default(),
            undos: Mutex::default(),
            line_ms: AtomicU64::new(0),
            passed_ms: Arc::default(),
            killed: Notify::new(),
            inbox: watch::Sender::default(),
            auto_accept: AtomicBool::new(false),
            silent_servers: AtomicBool::new(false),
            forgets: AtomicBool::new(false),
            sandbox_is_dead: AtomicBool::new(false),
            asks_for: Mutex::default(),
            silent: Mutex::default(),
            is_slow: AtomicBool::new(false),
            pace: Semaphore::new(0),
            is_thoughtful: AtomicBool::new(false),
            thinks: Notify::new(),
            has_workspace: AtomicBool::new(false),
            changed: broadcast::Sender::new(16),
            mirrored: watch::Sender::new(0),
            is_busy: AtomicBool::new(false),
            looked_up: Notify::new(),
            is_gone: watch::Sender::new(false),
        })
    }

    /// Waits until something is in the inbox that nobody has decided.
    pub(crate) async fn asked(&self) -> (InboxId, Ask) {
        let open = |inbox: &BTreeMap<InboxId, (Ask, Option<Verdict>)>| {
            inbox.iter().find(|(_, (_, verdict))| verdict.is_none()).map(|(id, (ask, _))| (*id, ask.clone()))
        };
        let mut inbox = self.inbox.subscribe();
        let found = inbox.wait_for(|inbox| open(inbox).is_some()).await.unwrap();
        open(&found).unwrap()
    }

    /// The person decides.
    pub(crate) fn decide(&self, id: InboxId, verdict: Verdict) {
        self.inbox.send_modify(|inbox| inbox.get_mut(&id).unwrap().1 = Some(verdict));
    }
}

impl Control for Fake {
    fn offers(&self, _: WhatTools) -> BoxFuture<'_, Result<Offers, ControlError>> {
        async {
            if self.silent_servers.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(Offers::default())
        }
        .boxed()
    }

    fn model(&self, call: ModelCall, mut on_heard: OnHeard) -> BoxFuture<'_, Result<Answer, ModelError>> {
        async move {
            if !self.has_model.load(Ordering::SeqCst) {
                self.refusals.send_modify(|times| *times += 1);
                let message = "There is no model yet.".into();
                return Err(ModelError { class: ErrorClass::NoModel, message, retry_after_ms: None });
            }
            self.model_calls.fetch_add(1, Ordering::SeqCst);
            self.requests.lock().unwrap().push(call.request.clone());
            self.insisted.lock().unwrap().push(call.insists);
            assert!(!self.panics.load(Ordering::SeqCst), "a bug for a test");
            let prompt = serde_json::to_string(&call.request.messages).unwrap();
            if self.silent.lock().unwrap().as_ref().is_some_and(|words| prompt.contains(words)) {
                on_heard(Heard::Asked("fake/silent".to_owned()));
                return std::future::pending().await;
            }
            let window = Some(self.window.load(Ordering::SeqCst)).filter(|window| *window > 0);
            if window.is_some_and(|window| prompt.len() as u64 / 4 > window) {
                let message = "It is longer than the model can read.".into();
                return Err(ModelError { class: ErrorClass::TooLong, message, retry_after_ms: None });
            }
            let script = self.scenario.answer_after(&call.request, call.failures)?;
            if call.request.role == Role::Conductor && self.is_thoughtful.load(Ordering::SeqCst) {
                self.thinks.notify_one();
                self.pace.acquire().await.unwrap().forget();
            }
            let is_slow = call.request.role == Role::Writer && self.is_slow.load(Ordering::SeqCst);
            for delta in script.deltas {
                if is_slow {
                    self.pace.acquire().await.unwrap().forget();
                }
                on_heard(Heard::Delta(delta));
            }
            if is_slow {
                self.pace.acquire().await.unwrap().forget();
            }
            if script.result.is_err() {
                on_heard(Heard::Took(*self.took.lock().unwrap()));
            }
            script.result.map(|answer| Answer { window, ..answer })
        }
        .boxed()
    }

    fn paid(&self, _: RunId) -> BoxFuture<'_, Result<Option<Paid>, ControlError>> {
        async { Ok(*self.paid.lock().unwrap()) }.boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Models, ControlError>> {
        async { Ok(Models { available: self.has_model.load(Ordering::SeqCst) }) }.boxed()
    }

    fn document_settings(&self) -> BoxFuture<'_, Result<DocumentSettings, ControlError>> {
        async {
            if self.is_busy.load(Ordering::SeqCst) {
                self.looked_up.notify_one();
                self.pace.acquire().await.unwrap().forget();
            }
            Ok(DocumentSettings { auto_accept: self.auto_accept.load(Ordering::SeqCst) })
        }
        .boxed()
    }

    fn tool_settings(&self, tool: String) -> BoxFuture<'_, Result<ToolSettings, ControlError>> {
        async move {
            self.looked_up.notify_one();
            Ok(ToolSettings { auto: !self.asks_for.lock().unwrap().contains(&tool) })
        }
        .boxed()
    }

    fn ask(&self, id: InboxId, ask: Ask) -> BoxFuture<'_, Result<Asked, ControlError>> {
        async move {
            if let Matter::Call { tool, .. } = &ask.matter
                && !self.asks_for.lock().unwrap().contains(tool)
            {
                return Ok(Asked::Decided { verdict: Verdict::Approved { scope: Reach::Always } });
            }
            self.inbox.send_modify(|inbox| {
                inbox.entry(id).or_insert((ask.clone(), None));
            });
            let known = self.inbox.borrow()[&id].1.clone();
            let (kind, question, subject, answers) = match ask.matter {
                Matter::Question { question, answers } => (AskKind::Question, question.clone(), question, answers),
                Matter::Call { tool, subject, .. } => {
                    (AskKind::Tool, format!("May it use {tool}?"), subject, Vec::new())
                }
            };
            let waits = Waits { id, kind, question, subject, hash: Hash::ZERO, answers };
            Ok(known.map_or(Asked::Waits(waits), |verdict| Asked::Decided { verdict }))
        }
        .boxed()
    }

    fn verdict(&self, id: InboxId) -> BoxFuture<'_, Result<Verdict, ControlError>> {
        async move {
            let mut inbox = self.inbox.subscribe();
            let mut gone = self.is_gone.subscribe();
            let decided = tokio::select! {
                decided = inbox.wait_for(|inbox| inbox.get(&id).is_none_or(|(_, verdict)| verdict.is_some())) => decided,
                _ = gone.wait_for(|gone| *gone) => return Err(ControlError::Gone("it was killed".into())),
            };
            Ok(decided.unwrap().get(&id).and_then(|(_, verdict)| verdict.clone()).unwrap_or(Verdict::Withdrawn))
        }
        .boxed()
    }

    fn withdraw(&self, id: InboxId) -> BoxFuture<'_, Result<Option<Verdict>, ControlError>> {
        async move {
            let mut verdict = None;
            self.inbox.send_modify(|inbox| verdict = inbox.remove(&id).and_then(|(_, verdict)| verdict));
            Ok(verdict)
        }
        .boxed()
    }

    fn start_associate(&self, _: TaskId, _: StartAssociate) -> BoxFuture<'_, Result<AssociateStarted, ControlError>> {
        self.passed_ms.fetch_add(self.line_ms.load(Ordering::SeqCst), Ordering::SeqCst);
        self.sandbox_is_dead.store(false, Ordering::SeqCst);
        async { Ok(AssociateStarted::default()) }.boxed()
    }

    fn exec(&self, _: TaskId, exec: Exec, mut on_output: OnOutput) -> BoxFuture<'_, Result<Exit, ControlError>> {
        async move {
            if let Some(path) = exec.command.strip_prefix("/run/choir/guest page html < ") {
                let page = self.files.lock().unwrap().get(path).cloned().unwrap();
                let text = choir_core::page::text(&String::from_utf8_lossy(&page));
                on_output(OutputStream::Stdout, text.as_bytes());
                return Ok(Exit { code: Some(0), timed_out: false, duration_ms: 1, limit: None, missed_bytes: 0 });
            }
            *self.effects.lock().unwrap().entry(exec.effect_id).or_default() += 1;
            if exec.command == "kill the sandbox" {
                self.sandbox_is_dead.store(true, Ordering::SeqCst);
            }
            if exec.command == "wait" {
                self.killed.notified().await;
                return Err(ControlError::Refused("killed".into()));
            }
            tokio::task::yield_now().await;
            on_output(OutputStream::Stdout, format!("did {}\n", exec.command).as_bytes());
            if let Some(bytes) = exec.command.strip_prefix("print ") {
                on_output(OutputStream::Stdout, &b"\x1b[2Jx\xff".repeat(bytes.parse::<usize>().unwrap() / 6));
            }
            if exec.command == "time" {
                on_output(OutputStream::Stdout, exec.timeout_ms.to_string().as_bytes());
            }
            if exec.command == "vanish" {
                return Ok(Exit { code: None, timed_out: false, duration_ms: 1, limit: None, missed_bytes: 0 });
            }
            let code = exec.command.strip_prefix("exit ").map_or(0, |code| code.parse().unwrap());
            let missed_bytes = u64::from(exec.command == "flood");
            Ok(Exit { code: Some(code), timed_out: false, duration_ms: 1, limit: None, missed_bytes })
        }
        .boxed()
    }

    fn effect(&self, effect_id: String) -> BoxFuture<'_, Result<EffectRecord, ControlError>> {
        async move {
            Ok(match self.effects.lock().unwrap().get(&effect_id) {
                _ if self.forgets.load(Ordering::SeqCst) => EffectRecord::Absent,
                None => EffectRecord::Absent,
                Some(_) => EffectRecord::Exited(Exit {
                    code: Some(0),
                    timed_out: false,
                    duration_ms: 1,
                    limit: None,
                    missed_bytes: 0,
                }),
            })
        }
        .boxed()
    }

    fn read_file(&self, _: TaskId, path: String) -> BoxFuture<'_, Result<Vec<u8>, ControlError>> {
        async move {
            if self.sandbox_is_dead.load(Ordering::SeqCst) {
                return Err(ControlError::NoSandbox("no associate runs for this task".into()));
            }
            let missing = || ControlError::Refused(format!("{path} is not there"));
            self.files.lock().unwrap().get(&path).cloned().ok_or_else(missing)
        }
        .boxed()
    }

    fn write_file(&self, _: TaskId, path: String, content: Vec<u8>) -> BoxFuture<'_, Result<(), ControlError>> {
        async move {
            self.files.lock().unwrap().insert(path, content);
            Ok(())
        }
        .boxed()
    }

    fn edit_file(&self, _: TaskId, edit: EditFile) -> BoxFuture<'_, Result<Edited, ControlError>> {
        async move {
            // As control does it: begun, made, and known to be made.
            if self.effects.lock().unwrap().contains_key(&edit.effect_id) && !self.forgets.load(Ordering::SeqCst) {
                return Ok(Edited::Done);
            }
            let wanted: ReplaceInFile = serde_json::from_value(edit.arguments).unwrap();
            let now = self.files.lock().unwrap().get(&wanted.path).cloned().unwrap_or_default();
            tokio::task::yield_now().await;
            match replace_once(&String::from_utf8(now).unwrap(), &wanted.old, &wanted.new) {
                Err(message) => return Ok(Edited::Failed { message }),
                Ok(text) => self.files.lock().unwrap().insert(wanted.path, text.into_bytes()),
            };
            *self.effects.lock().unwrap().entry(edit.effect_id).or_default() += 1;
            tokio::task::yield_now().await;
            Ok(Edited::Done)
        }
        .boxed()
    }

    fn list_files(&self, _: TaskId, _: String) -> BoxFuture<'_, Result<String, ControlError>> {
        async { Ok(self.files.lock().unwrap().keys().cloned().collect::<Vec<_>>().join("\n")) }.boxed()
    }

    fn capture_associate(&self, _: TaskId) -> BoxFuture<'_, Result<AssociateCaptured, ControlError>> {
        async {
            let (base_tree, result_tree) = (Hash([1; 32]), Hash([2; 32]));
            Ok(AssociateCaptured { base_tree, result_tree, files_changed: Vec::new() })
        }
        .boxed()
    }

    fn live(&self, path: String) -> BoxFuture<'_, Result<LivePath, ControlError>> {
        async move {
            let found = self.files.lock().unwrap().get(&path).cloned();
            Ok(LivePath { is_there: found.is_some(), text: found.and_then(|bytes| String::from_utf8(bytes).ok()) })
        }
        .boxed()
    }

    fn watch(&self, _: WatchFiles, mut on_file: OnFile) -> BoxFuture<'_, ControlError> {
        async move {
            if !self.has_workspace.load(Ordering::SeqCst) {
                return ControlError::Refused("There is no workspace here.".into());
            }
            let mut heard = self.changed.subscribe();
            on_file(WatchFrame::Ready);
            while let Ok(file) = heard.recv().await {
                on_file(WatchFrame::File(file));
            }
            ControlError::Gone("the test is over".into())
        }
        .boxed()
    }

    fn mirror(&self, mirror: Mirror) -> BoxFuture<'_, Result<Mirrored, ControlError>> {
        async move {
            let mut files = self.files.lock().unwrap();
            let there = files.get(&mirror.path).map(|bytes| choir_store::sha256(bytes));
            let written = there == mirror.over;
            if let (true, Some(text)) = (written, mirror.text) {
                files.insert(mirror.path, text.into_bytes());
            }
            drop(files);
            self.mirrored.send_modify(|times| *times += 1);
            Ok(Mirrored { written })
        }
        .boxed()
    }

    fn finish_associate(
        &self,
        _: TaskId,
        _: FinishAssociate,
    ) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        async { Ok(AssociateFinished::default()) }.boxed()
    }

    fn forget_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        async { Ok(()) }.boxed()
    }

    fn undo(&self, changes: UndoChanges) -> BoxFuture<'_, Result<ChangesUndone, ControlError>> {
        async move {
            self.undos.lock().unwrap().push(changes.clone());
            let (base_tree, result_tree) = (Some(changes.undoes[0].result_tree), Some(changes.undoes[0].base_tree));
            Ok(ChangesUndone { base_tree, result_tree, ..ChangesUndone::default() })
        }
        .boxed()
    }

    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Fetched, ControlError>> {
        async move {
            let missing = || ControlError::Refused(format!("{} is not there", fetch.url));
            let bytes = self.files.lock().unwrap().get(&fetch.url).cloned().ok_or_else(missing)?;
            Ok(Fetched { url: fetch.url, media_type: "text/html".into(), bytes })
        }
        .boxed()
    }

    fn kill_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        async {
            self.killed.notify_waiters();
            Ok(())
        }
        .boxed()
    }
}

/// A computer in a directory.
pub(crate) struct Desk {
    pub(crate) computer: Computer,
}

impl Desk {
    pub(crate) async fn open(directory: &Path, control: Arc<Fake>) -> Self {
        Self::open_with(directory, control, Places::default()).await
    }

    /// With as many places for work as somebody says.
    pub(crate) async fn open_with(directory: &Path, control: Arc<Fake>, places: Places) -> Self {
        let id = ComputerId::new(Uuid::from_u128(1));
        loop {
            let world = Arc::new(Hurried { real: RealWorld::new(), passed_ms: control.passed_ms.clone() });
            match Computer::open_with(directory, id, Arc::clone(&control) as Arc<dyn Control>, world, places).await {
                Ok(computer) => return Self { computer },
                // The log's thread of an earlier life lets go once it has noticed that all handles are gone.
                Err(ServeError::Open(choir_store::OpenError::InUse(_))) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}: {error:?}"),
            }
        }
    }

    /// Sends a request through the router, as control would.
    pub(crate) async fn send(&self, method: &str, path: &str, body: serde_json::Value) -> (u16, serde_json::Value) {
        use axum::body::Body;
        use http_body_util::BodyExt;
        use tower::ServiceExt;
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = http::Request::builder().method(method).uri(path).body(body).unwrap();
        let response = choir_computer::api::router(self.computer.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(serde_json::Value::Null))
    }

    /// Sends bytes as they are.
    pub(crate) async fn upload(&self, path: &str, media_type: &str, bytes: &[u8]) -> serde_json::Value {
        let (status, artifact) = self.import(path, &[("content-type", media_type)], bytes).await;
        assert_eq!(status, 201, "{artifact}");
        artifact
    }

    /// Sends bytes as they are.
    pub(crate) async fn import(&self, path: &str, headers: &[(&str, &str)], bytes: &[u8]) -> (u16, serde_json::Value) {
        use http_body_util::BodyExt;
        use tower::ServiceExt;
        let request = http::Request::builder().method("POST").uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(axum::body::Body::from(bytes.to_vec())).unwrap();
        let response = choir_computer::api::router(self.computer.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap())
    }

    /// What a file says.
    pub(crate) async fn download(&self, path: &str) -> String {
        use http_body_util::BodyExt;
        use tower::ServiceExt;
        let request = http::Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
        let response = choir_computer::api::router(self.computer.app.clone()).oneshot(request).await.unwrap();
        assert!(response.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    pub(crate) async fn accept(&self, prompt: &str) -> RunId {
        self.accept_with(serde_json::json!({"prompt": prompt})).await
    }

    pub(crate) async fn accept_with(&self, body: serde_json::Value) -> RunId {
        let (status, body) = self.send("POST", "/api/runs", body).await;
        assert_eq!(status, 202, "{body}");
        body["run_id"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) async fn run(&self, run: RunId) -> Run {
        self.computer.app.harness.views.get::<Runs>(run).await.unwrap().unwrap()
    }

    /// Follows the log until a run is as wanted.
    pub(crate) async fn until(&self, run: RunId, wanted: impl Fn(&Run) -> bool) -> Run {
        let mut head = self.computer.app.harness.journal.log().watch();
        loop {
            head.mark_unchanged();
            let now = self.run(run).await;
            if wanted(&now) {
                return now;
            }
            head.changed().await.unwrap();
        }
    }

    pub(crate) async fn ended(&self, run: RunId) -> Run {
        self.until(run, |run| run.status.is_ending()).await
    }

    pub(crate) async fn command(&self, run: RunId, command: RunCommand) {
        let session = &self.computer.app.session;
        session.ask("session", |reply| SessionMessage::Run(run, command, reply)).await.unwrap();
    }

    pub(crate) async fn events(&self, run: RunId) -> Vec<(choir_proto::event::Header, choir_proto::Event)> {
        let query = choir_store::Query { limit: 1000, run: Some(run), ..Default::default() };
        let events = self.computer.app.harness.journal.log().read(query).await.unwrap();
        let decoded = |event: choir_proto::Envelope| (event.header.clone(), event.event().unwrap());
        events.into_iter().map(decoded).collect()
    }

    pub(crate) async fn kinds(&self) -> Vec<String> {
        let query = choir_store::Query { limit: 1000, ..Default::default() };
        let events = self.computer.app.harness.journal.log().read(query).await.unwrap();
        events.into_iter().map(|event| event.header.kind.into_owned()).collect()
    }
}
