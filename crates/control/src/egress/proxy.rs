//! The proxy behind one sandbox's only way out: a unix socket that belongs to one task and dies with it.

use super::address::is_public;
use super::broker;
use super::plain;
use super::policy::{Policy, Rule};
use super::{Decision, Outside};
use axum::response::{IntoResponse, Response};
use choir_proto::TaskId;
use choir_proto::egress::{GIT, Host};
use choir_sandbox::guest::{LOOPBACK, NO_PROXY};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Connections of one task at once.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long a host may take to be found and to answer.
const CONNECT: Duration = Duration::from_secs(15);

/// Attempts of one task that are recorded as they come: more than any build makes.
const ATTEMPTS_AT_ONCE: u32 = 1_000;
/// How quickly more may follow. Each is kept for good and told to everybody, so a program that tries without end waits.
const ATTEMPT_EVERY: Duration = Duration::from_millis(50);

/// Of what is refused, so much is named in the result of a task.
const REFUSED_NAMED_MAX: usize = 20;

/// An open way out. Dropped, it closes every connection that was made through it.
#[derive(Debug)]
pub struct Proxy {
    path: PathBuf,
    reach: String,
    environment: BTreeMap<String, String>,
    serving: AbortHandle,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Proxy {
    /// What was asked for through it and refused, the first of it.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The socket, to be shown to the sandbox.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What can be reached through it, by name.
    pub fn reach(&self) -> &str {
        &self.reach
    }

    /// Variables that lead programs of the sandbox the right way. Git is led to the broker only where that is open to it: a
    /// host that the person named is reached as everything else is.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "a proxy's socket was gone already");
        }
    }
}

/// Says what may be reached now. A way out never widens, but it narrows as soon as the person allows less.
pub type Allowed = Box<dyn Fn() -> Policy + Send + Sync>;

/// Opens a way out to what is allowed now. Every attempt is told to `decisions` before anything is connected.
pub fn open(
    path: PathBuf,
    task: Option<TaskId>,
    allowed: Allowed,
    outside: Outside,
    decisions: mpsc::Sender<Decision>,
) -> io::Result<Proxy> {
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)?;
    let policy = allowed();
    let mut environment = if policy.has_git() { outside.broker.environment() } else { BTreeMap::new() };
    environment.extend(straight(&policy));
    let reach = policy.names();
    let door = Arc::new(Door {
        task,
        policy,
        allowed,
        outside,
        wants: broker::Wants::default(),
        pace: Pace::default(),
        decisions,
        refused: Arc::default(),
    });
    let refused = door.refused.clone();
    let serving = tokio::spawn(accept(listener, door)).abort_handle();
    Ok(Proxy { path, reach, environment, serving, refused })
}

/// Whom programs speak to without a proxy, where that is not everybody within the sandbox: who may reach a server on this
/// machine is led out to it, because the same name would find nobody inside.
fn straight(policy: &Policy) -> BTreeMap<String, String> {
    let named: Vec<&str> = LOOPBACK.into_iter().filter(|name| policy.names_host(name)).collect();
    if named.is_empty() {
        return BTreeMap::new();
    }
    let left: Vec<&str> = LOOPBACK.into_iter().filter(|name| !named.contains(name)).collect();
    NO_PROXY.map(|name| (name.to_owned(), left.join(","))).into()
}

struct Door {
    task: Option<TaskId>,
    policy: Policy,
    allowed: Allowed,
    outside: Outside,
    wants: broker::Wants,
    pace: Pace,
    decisions: mpsc::Sender<Decision>,
    /// Hosts and ports that were refused, for the result of the task.
    refused: Arc<Mutex<BTreeSet<String>>>,
}

/// Everything that was started here is in the set, so that it ends with it.
async fn accept(listener: UnixListener, door: Arc<Door>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(door.clone().serve(stream))),
                Err(error) => {
                    tracing::warn!(%error, "a way out could not be taken");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Door {
    /// One connection of the sandbox, to its very end: an upgraded one is carried here, not in a task of its own.
    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let (carry, mut carried) = mpsc::channel::<(hyper::upgrade::OnUpgrade, TcpStream)>(1);
        let door = self.clone();
        let service = service_fn(move |request| {
            let (door, carry) = (door.clone(), carry.clone());
            async move { Ok::<_, Infallible>(door.answer(request, carry).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a sandbox's connection ended early");
            if error.is_parse() {
                self.decide(String::new(), 0, Err("this is not a request that can be read".into())).await;
            }
        }
        if let Some((upgrade, mut outside)) = carried.recv().await
            && let Ok(inside) = upgrade.await
        {
            // Either side may break off at any time.
            tokio::io::copy_bidirectional(&mut TokioIo::new(inside), &mut outside).await.ok();
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        carry: mpsc::Sender<(hyper::upgrade::OnUpgrade, TcpStream)>,
    ) -> Response {
        if request.method() != Method::CONNECT {
            return self.plain(request).await;
        }
        // The whole of it: a scheme or a path is another spelling, which another program may read otherwise.
        let asked = request.uri().to_string();
        let outside = match self.reach(&asked).await {
            Ok(outside) => outside,
            Err(unreached) => return unreached.into_response(),
        };
        let upgrade = hyper::upgrade::on(&mut request);
        match carry.try_send((upgrade, outside)) {
            Ok(()) => StatusCode::OK.into_response(),
            Err(_) => refuse("one connection at a time"),
        }
    }

    /// A request in the clear: to the broker, or to a host that may be reached.
    async fn plain(&self, request: Request<Incoming>) -> Response {
        let uri = request.uri();
        if uri.host() == Some(broker::NAME) && uri.port().is_none() {
            return self.brokered(request).await;
        }
        let (host, port) = (uri.host().unwrap_or_default().to_owned(), uri.port_u16().unwrap_or(80));
        if !plain::is_plain(uri) {
            let reason = "this is neither CONNECT nor a request for http://";
            self.decide(host, port, Err(reason.into())).await;
            return refuse(reason);
        }
        let (head, body) = request.into_parts();
        let asked = match plain::asked(&head) {
            Ok(asked) => asked,
            Err(reason) => {
                self.decide(host, port, Err(reason.into())).await;
                return refuse(reason);
            }
        };
        match self.reach(&asked).await {
            Ok(outside) => plain::send(outside, &asked, Request::from_parts(head, body)).await,
            Err(unreached) => unreached.into_response(),
        }
    }

    async fn brokered(&self, request: Request<Incoming>) -> Response {
        let target = match self.outside.broker.target(&request) {
            Ok(target) if self.policy.has_git() && (self.allowed)().has_git() => Ok(target),
            Ok(_) => Err("this task may not reach repositories"),
            Err(reason) => Err(reason),
        };
        match target {
            Ok(target) => {
                self.decide(target.endpoint.host.clone(), target.endpoint.port, Ok(GIT.into())).await;
                broker::fetch(&self.outside.outbound, &self.wants, target, request).await
            }
            Err(reason) => {
                self.decide(broker::NAME.into(), 80, Err(reason.into())).await;
                refuse(reason)
            }
        }
    }

    /// Resolves, decides, connects to the address that was decided about, and looks again.
    async fn reach(&self, asked: &str) -> Result<TcpStream, Unreached> {
        let Ok((host, port)) = Host::parse_with_port(asked) else {
            let shown: String = asked.chars().take(253).collect();
            let reason = "this is not a host and port in their usual spelling".to_owned();
            self.decide(shown, 0, Err(reason.clone())).await;
            return Err(Unreached::Refused(reason));
        };
        let found = tokio::time::timeout(CONNECT, self.resolve(&host, port))
            .await
            .unwrap_or_else(|_| Err("it was not found in time".into()));
        let outcome = found.as_ref().map(|(rule, _)| rule.name.clone()).map_err(Clone::clone);
        self.decide(host.to_string(), port, outcome).await;
        let (_, addresses) = found.map_err(Unreached::Refused)?;
        connect(&addresses).await
    }

    /// The rule that allows a host, and all of its addresses: at least one, and each may be connected to.
    async fn resolve(&self, host: &Host, port: u16) -> Result<(&Rule, Vec<SocketAddr>), String> {
        let rule = self.policy.rule(host, port).ok_or_else(|| "it is not among what this task may reach".to_owned())?;
        if (self.allowed)().rule(host, port) != Some(rule) {
            return Err("it is no longer among what may be reached".into());
        }
        let addresses: Vec<SocketAddr> = match host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), port)).await;
                found.map_err(|_| "its name is not known".to_owned())?.collect()
            }
        };
        // One near address among public ones is a trap: all of them have to be public, unless the settings name the host.
        let near = addresses.iter().any(|address| !is_public(address.ip()));
        match addresses.is_empty() {
            true => Err("its name is not known".into()),
            false if near && !rule.near => Err("its name leads to an address that is not public".into()),
            false => Ok((rule, addresses)),
        }
    }

    async fn decide(&self, host: String, port: u16, outcome: Result<String, String>) {
        self.pace.keep().await;
        if outcome.is_err() {
            self.note_refused(&host, port);
        }
        let decision = Decision { task: self.task, host, port, outcome };
        // Nobody keeps decisions any more: control is stopping, and so will this.
        self.decisions.send(decision).await.ok();
    }
}

impl Door {
    /// What is no host is in the log and nowhere else: it can be any text.
    fn note_refused(&self, host: &str, port: u16) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < REFUSED_NAMED_MAX && port > 0 && Host::parse(host).is_ok() {
            refused.insert(format!("{host}:{port}"));
        }
    }
}

/// When the attempts so far would have come, had each kept its distance from the one before.
#[derive(Default)]
struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns when the next attempt may be made.
    async fn keep(&self) {
        let may = self.next(Instant::now());
        tokio::time::sleep_until(may).await;
    }

    fn next(&self, now: Instant) -> Instant {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.map_or(now, |last| last.max(now)) + ATTEMPT_EVERY;
        *last = Some(due);
        due.checked_sub(ATTEMPT_EVERY * ATTEMPTS_AT_ONCE).map_or(now, |may| may.max(now))
    }
}

/// Connects to the first address that answers, and looks whether it was that one. A name of two kinds of addresses often has
/// a server behind one of them only, as `localhost` does.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Unreached> {
    // So that one that says nothing does not take the time of those behind it.
    let share = CONNECT / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut silent = Unreached::Silent("it did not answer in time".to_owned());
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) if stream.peer_addr().is_ok_and(|peer| peer == *address) => return Ok(stream),
            Ok(Ok(_)) => return Err(Unreached::Refused("another address answered".into())),
            Ok(Err(error)) => silent = Unreached::Silent(error.to_string()),
            Err(_) => {}
        }
    }
    Err(silent)
}

/// Why nobody was reached.
#[derive(Debug)]
enum Unreached {
    /// It may not be.
    Refused(String),
    /// It may, and nobody answered there.
    Silent(String),
}

impl IntoResponse for Unreached {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(reason) => refuse(&reason),
            Self::Silent(reason) => (StatusCode::BAD_GATEWAY, format!("choir: {reason}\n")).into_response(),
        }
    }
}

fn refuse(reason: &str) -> Response {
    (StatusCode::FORBIDDEN, format!("choir: refused: {reason}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_this_machine_that_may_be_reached_is_asked_for_outside() {
        let straight = |allow: &[&str]| {
            let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
            let ceiling = super::super::Ceiling::new(allow.clone(), []);
            straight(&super::super::clamp(Some(&choir_proto::task::Egress { allow }), &ceiling).0)
        };
        assert_eq!(straight(&["example.org:80", "10.0.0.1:80"]), BTreeMap::new());
        let both = |left: &str| NO_PROXY.map(|name| (name.to_owned(), left.to_owned())).into();
        assert_eq!(straight(&["127.0.0.1:8080"]), both("localhost,::1"));
        assert_eq!(straight(&["localhost:1", "[::1]:2"]), both("127.0.0.1"));
    }

    #[tokio::test]
    async fn a_name_with_several_addresses_is_reached_by_the_one_that_answers() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answers = server.local_addr().unwrap();
        // Nobody else has the same port of the other address, and nobody listens there.
        let silent = SocketAddr::new("127.0.0.2".parse().unwrap(), answers.port());
        assert_eq!(connect(&[silent, answers]).await.unwrap().peer_addr().unwrap(), answers);
        assert!(matches!(connect(&[silent]).await, Err(Unreached::Silent(_))));
    }

    #[test]
    fn a_program_that_tries_without_end_is_slowed_down_and_a_pause_is_made_good() {
        let (pace, now) = (Pace::default(), Instant::now() + Duration::from_secs(3600));
        let waits = |at: Instant| pace.next(at) - at;
        assert!((0..ATTEMPTS_AT_ONCE).all(|_| waits(now) == Duration::ZERO));
        assert_eq!((waits(now), waits(now)), (ATTEMPT_EVERY, 2 * ATTEMPT_EVERY));
        let later = now + ATTEMPT_EVERY * (ATTEMPTS_AT_ONCE + 2);
        assert!((0..ATTEMPTS_AT_ONCE).all(|_| waits(later) == Duration::ZERO), "as at the beginning");
        assert_eq!(waits(later), ATTEMPT_EVERY);
    }
}
