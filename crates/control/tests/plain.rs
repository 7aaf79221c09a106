//! Requests in the clear, over the way out alone: what is named is reached, and nothing rides along.

use choir_control::egress::{self, Ceiling, Decision, Outside, Proxy, clamp};
use choir_proto::task::Egress;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;

/// Longest that anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A way out to some hosts, and what is told of it.
struct Way {
    _directory: tempfile::TempDir,
    proxy: Proxy,
    decided: mpsc::Receiver<Decision>,
}

fn way_to(hosts: &[&str]) -> Way {
    let directory = tempfile::tempdir().unwrap();
    let allow: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let (policy, refused) = clamp(Some(&Egress { allow: allow.clone() }), &Ceiling::new(allow, []));
    assert!(refused.is_empty(), "{refused:?}");
    let (decisions, decided) = mpsc::channel(256);
    let allowed = Box::new(move || policy.clone());
    let proxy = egress::open(directory.path().join("way"), None, allowed, Outside::default(), decisions).unwrap();
    Way { _directory: directory, proxy, decided }
}

impl Way {
    async fn enter(&self) -> UnixStream {
        UnixStream::connect(self.proxy.path()).await.unwrap()
    }

    /// Says something to the end and hears everything that is answered.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.enter().await;
        // Who is turned away early is not heard out.
        stream.write_all(text.as_bytes()).await.ok();
        hear_all(&mut stream).await
    }

    /// What was told of so many attempts, and of no more. Of what is no request it is told once the answer is gone.
    async fn told(&mut self, attempts: usize) -> Vec<(String, u16, bool)> {
        let mut told = Vec::new();
        for _ in 0..attempts {
            let decision = tokio::time::timeout(PATIENCE, self.decided.recv()).await.expect("every attempt is told");
            let Decision { host, port, outcome, .. } = decision.unwrap();
            told.push((host, port, outcome.is_ok()));
        }
        assert!(self.decided.try_recv().is_err(), "and told once: {told:?}");
        told
    }
}

async fn hear_all(stream: &mut UnixStream) -> String {
    let mut heard = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await.expect("the answer ends").ok();
    String::from_utf8_lossy(&heard).into_owned()
}

/// A server that a test plays by hand.
struct Server {
    listener: TcpListener,
    address: String,
}

async fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    Server { listener, address }
}

impl Server {
    async fn visitor(&self) -> TcpStream {
        tokio::time::timeout(PATIENCE, self.listener.accept()).await.expect("somebody comes").unwrap().0
    }

    /// Whether anybody waits to be served.
    async fn is_visited(&self) -> bool {
        use futures_util::FutureExt;
        // A connection that was made is there to be accepted; nothing else is waited for.
        tokio::task::yield_now().await;
        self.listener.accept().now_or_never().is_some()
    }
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        match tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("it is sent") {
            Ok(byte) => read.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn what_is_named_is_reached_and_the_request_is_written_anew() {
    let server = server().await;
    let mut way = way_to(&[&server.address]);
    let asked = format!(
        "GET http://{}/a/b?c=d HTTP/1.1\r\nHost: {0}\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
         Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: trailers\r\n\
         Authorization: Bearer mine\r\nAccept: */*\r\n\r\n",
        server.address
    );
    let mut inside = way.enter().await;
    inside.write_all(asked.as_bytes()).await.unwrap();
    let mut visitor = server.visitor().await;
    let head = read_until(&mut visitor, b"\r\n\r\n").await;
    let mut lines: Vec<&str> = head.trim_end().lines().collect();
    assert_eq!(lines.remove(0), "GET /a/b?c=d HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: {}", server.address);
    assert_eq!(lines, ["accept: */*", "authorization: Bearer mine", "connection: close", &host]);
    visitor
        .write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: 5\r\nConnection: X-Own\r\nX-Own: 1\r\nETag: e\r\n\r\nhello",
        )
        .await
        .unwrap();
    drop(visitor);
    let answer = hear_all(&mut inside).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(answer.contains("etag: e") && answer.contains("content-length: 5"), "{answer}");
    assert!(!answer.contains("x-own") && !answer.contains("keep-alive"), "{answer}");
    let (host, port) = server.address.rsplit_once(':').unwrap();
    assert_eq!(way.told(1).await, [(host.to_owned(), port.parse().unwrap(), true)]);
}

#[tokio::test]
async fn bodies_pass_as_they_come() {
    let server = server().await;
    let way = way_to(&[&server.address]);
    let mut inside = way.enter().await;
    let head = format!(
        "POST http://{}/ HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\nContent-Length: 6\r\n\r\none",
        server.address
    );
    inside.write_all(head.as_bytes()).await.unwrap();
    let mut visitor = server.visitor().await;
    assert!(read_until(&mut visitor, b"\r\n\r\n").await.contains("content-length: 6\r\n"));
    assert_eq!(read_until(&mut visitor, b"one").await, "one", "before the rest is there");
    inside.write_all(b"two").await.unwrap();
    assert_eq!(read_until(&mut visitor, b"two").await, "two");
    visitor.write_all(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfew\r\n").await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"few\r\n") {
        heard.push(inside.read_u8().await.unwrap());
    }
    visitor.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(hear_all(&mut inside).await.ends_with("0\r\n\r\n"));
}

#[tokio::test]
async fn a_second_request_is_a_new_question() {
    let (server, other) = (server().await, server().await);
    let mut way = way_to(&[&server.address]);
    let mut inside = way.enter().await;
    let get = |address: &str, more: &str| format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n{more}\r\n");
    // Both at once, as who hopes that only the first is looked at.
    let both = format!("{}{}", get(&server.address, ""), get(&other.address, "Connection: close\r\n"));
    inside.write_all(both.as_bytes()).await.unwrap();
    let mut visitor = server.visitor().await;
    let first = read_until(&mut visitor, b"\r\n\r\n").await;
    visitor.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    let answers = hear_all(&mut inside).await;
    assert!(answers.starts_with("HTTP/1.1 200 OK") && answers.contains("HTTP/1.1 403 Forbidden"), "{answers}");
    assert!(!first.contains(&other.address));
    let mut rest = Vec::new();
    visitor.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "nothing else came over this connection");
    assert!(!other.is_visited().await);
    assert_eq!(way.told(2).await.iter().map(|(_, _, allowed)| *allowed).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_reaches_nobody() {
    let (server, other) = (server().await, server().await);
    let mut way = way_to(&[&server.address]);
    let (allowed, forbidden) = (server.address.as_str(), other.address.as_str());
    let port = allowed.rsplit_once(':').unwrap().1;
    let heads = [
        // Hosts that disagree, or are named twice.
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: {forbidden}"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: example.org"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nHost: {allowed}"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: {allowed}, {forbidden}"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost:"),
        format!("GET http://{forbidden}/ HTTP/1.1\r\nHost: {allowed}"),
        // Where nobody may go.
        format!("GET http://{forbidden}/ HTTP/1.1\r\nHost: {forbidden}"),
        "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254".to_owned(),
        format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost:{port}"),
        // Other spellings.
        format!("GET http://127.1:{port}/ HTTP/1.1\r\nHost: 127.1:{port}"),
        format!("GET http://2130706433:{port}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET http://user@{allowed}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET http://{allowed}@{forbidden}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET http://127.0.0.1:0{port}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET http://{allowed}\\@{forbidden}/ HTTP/1.1\r\nHost: {allowed}"),
        // Other schemes, and none.
        format!("GET https://{allowed}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET ftp://{allowed}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET //{allowed}/ HTTP/1.1\r\nHost: {allowed}"),
        format!("GET / HTTP/1.1\r\nHost: {allowed}"),
        // Lines and lengths that readers disagree about.
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nX-Long: a\r\n b"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost : {allowed}"),
        format!("GET http://{allowed}/ HTTP/1.1\r\n Host: {allowed}"),
        format!("GET http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nX: a\rb"),
        format!("POST http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nContent-Length: 1\r\nContent-Length: 2"),
        format!("POST http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nContent-Length: 1, 2"),
        format!("POST http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nContent-Length: +1"),
        format!("POST http://{allowed}/ HTTP/1.1\r\nHost: {allowed}\r\nTransfer-Encoding: chunked, gzip"),
        format!("POST http://{allowed}/ HTTP/1.0\r\nHost: {allowed}\r\nTransfer-Encoding: chunked"),
    ];
    for head in &heads {
        let answer = way.say(&format!("{head}\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
    assert!(!server.is_visited().await && !other.is_visited().await);
    assert!(way.told(heads.len()).await.iter().all(|(_, _, allowed)| !allowed));
}

#[tokio::test]
async fn a_request_with_two_lengths_leaves_with_one() {
    let server = server().await;
    let way = way_to(&[&server.address]);
    let smuggled = format!("GET http://{}/smuggled HTTP/1.1\r\nHost: {0}\r\n\r\n", server.address);
    for lengths in
        ["Content-Length: 3\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 300"]
    {
        let mut inside = way.enter().await;
        let head = format!("POST http://{}/ HTTP/1.1\r\nHost: {0}\r\n{lengths}\r\n\r\n", server.address);
        inside.write_all(format!("{head}1\r\nx\r\n0\r\n\r\n{smuggled}").as_bytes()).await.unwrap();
        let mut visitor = server.visitor().await;
        let head = read_until(&mut visitor, b"\r\n\r\n").await;
        assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
        assert_eq!(read_until(&mut visitor, b"0\r\n\r\n").await, "1\r\nx\r\n0\r\n\r\n");
        visitor.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        let answers = hear_all(&mut inside).await;
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "what follows is not read: {answers}");
        assert!(!server.is_visited().await);
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_said_to_be_one() {
    let server = server().await;
    let way = way_to(&[&server.address]);
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "hello\r\n\r\n",
        "",
    ] {
        let mut inside = way.enter().await;
        let get = format!("GET http://{}/ HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n", server.address);
        inside.write_all(get.as_bytes()).await.unwrap();
        let mut visitor = server.visitor().await;
        read_until(&mut visitor, b"\r\n\r\n").await;
        visitor.write_all(answer.as_bytes()).await.unwrap();
        drop(visitor);
        let heard = hear_all(&mut inside).await;
        assert!(heard.starts_with("HTTP/1.1 502"), "{answer:?}: {heard}");
    }
}

#[tokio::test]
async fn who_may_be_reached_and_is_not_there_is_another_answer() {
    let Server { listener, address } = server().await;
    drop(listener);
    let mut way = way_to(&[&address]);
    let get = format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    assert!(way.say(&get).await.starts_with("HTTP/1.1 502"));
    assert!(
        way.say(&format!("CONNECT {address} HTTP/1.1\r\nConnection: close\r\n\r\n")).await.starts_with("HTTP/1.1 502")
    );
    assert!(way.told(2).await.iter().all(|(_, _, allowed)| *allowed), "they were allowed");
}

#[tokio::test]
async fn an_answer_that_never_ends_ends_with_its_way_out() {
    let server = server().await;
    let way = way_to(&[&server.address]);
    let mut inside = way.enter().await;
    let get = format!("GET http://{}/ HTTP/1.1\r\nHost: {0}\r\n\r\n", server.address);
    inside.write_all(get.as_bytes()).await.unwrap();
    let mut visitor = server.visitor().await;
    read_until(&mut visitor, b"\r\n\r\n").await;
    visitor.write_all(b"HTTP/1.1 200 OK\r\n\r\nbeginning").await.unwrap();
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains("beginning") {
        heard.push(inside.read_u8().await.unwrap());
    }
    drop(way);
    assert_eq!(tokio::time::timeout(PATIENCE, visitor.read(&mut [0; 8])).await.unwrap().unwrap_or(0), 0);
    assert!(!hear_all(&mut inside).await.ends_with("0\r\n\r\n"), "cut off, not ended");
}
