//! The fan-out: every reader sees every event once, in order, whatever its speed and wherever it begins.

use crate::support::World;
use crate::support::computer::FakeComputer;
use choir_control::db::Scope;

#[tokio::test]
async fn readers_that_begin_anywhere_see_no_gap_and_no_duplicate() {
    let world = World::with(Default::default(), FakeComputer::with_events(1000)).await;
    let client = world.client_with(Scope::Read).await;
    let mut readers = Vec::new();
    for after in [0, 1, 255, 256, 257, 999, 1000] {
        readers.push((after, client.upgrade(&format!("/api/stream?after={after}")).await.unwrap()));
    }
    world.computer.append(10);
    for (after, mut socket) in readers {
        let expected: Vec<u64> = (after + 1..=1010).collect();
        assert_eq!(socket.events(expected.len()).await, expected, "after {after}");
    }
}

#[tokio::test]
async fn many_readers_share_one_subscription_while_the_log_grows() {
    let world = World::with(Default::default(), FakeComputer::with_events(50)).await;
    let client = world.client_with(Scope::Read).await;
    let computer = world.computer.clone();
    let mut sockets = Vec::new();
    for reader in 0..50 {
        computer.append(3);
        sockets.push((reader, client.upgrade(&format!("/api/stream?after={reader}")).await.unwrap()));
    }
    let readers = sockets.into_iter().map(|(after, mut socket)| {
        tokio::spawn(async move {
            let expected: Vec<u64> = (after + 1..=200).collect();
            assert_eq!(socket.events(expected.len()).await, expected, "after {after}");
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn live_lines_reach_readers_that_ask_for_them_and_do_not_count() {
    let world = World::with(Default::default(), FakeComputer::with_events(2)).await;
    let client = world.client_with(Scope::Read).await;
    let mut asking = client.upgrade("/api/stream?after=2&live=true").await.unwrap();
    let mut silent = client.upgrade("/api/stream?after=2").await.unwrap();
    let mut declining = client.upgrade("/api/stream?after=2&live=false").await.unwrap();
    world.computer.publish_live("hel");
    assert!(asking.next().await.unwrap().contains("\"hel\""));
    world.computer.append(1);
    assert_eq!(asking.events(1).await, [3]);
    // One JSON event in each text frame, and nothing else.
    for socket in [&mut silent, &mut declining] {
        let first = socket.next().await.unwrap();
        assert!(first.contains("\"seq\":3"), "{first}");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_closed_with_the_place_to_resume() {
    let world = World::start().await;
    let client = world.client_with(Scope::Read).await;
    let mut slow = client.upgrade("/api/stream?after=0").await.unwrap();
    let mut fast = client.upgrade("/api/stream?after=0").await.unwrap();
    // Far more than the ring and the kernel's buffers hold together.
    const EVENTS: u64 = 600;
    let computer = world.computer.clone();
    for seq in 1..=EVENTS {
        computer.append_of(60_000);
        assert_eq!(fast.events(1).await, [seq], "one slow reader holds nobody up");
    }
    let mut seen = Vec::new();
    let reason = loop {
        match slow.next().await {
            Ok(line) => seen.extend(crate::support::http::seq_of(&line)),
            Err(closed) => break closed.reason,
        }
    };
    let resume: u64 = reason.strip_prefix("too slow; resume with after=").expect(&reason).parse().unwrap();
    assert_eq!(seen, (1..=resume).collect::<Vec<u64>>());
    let mut resumed = client.upgrade(&format!("/api/stream?after={resume}")).await.unwrap();
    let rest: Vec<u64> = (resume + 1..=EVENTS).collect();
    assert_eq!(resumed.events(rest.len()).await, rest);
}

/// However long it takes to read what it was sent, a reader that is given up knows exactly where to go on.
#[tokio::test]
async fn a_reader_that_takes_too_long_is_told_the_place_of_the_last_event_that_reaches_it() {
    let world = World::start().await;
    let client = world.client_with(Scope::Read).await;
    let mut stuck = client.upgrade("/api/stream?after=0").await.unwrap();
    let mut fast = client.upgrade("/api/stream?after=0").await.unwrap();
    // Far more than the kernel's buffers hold.
    const EVENTS: usize = 400;
    for _ in 0..EVENTS {
        world.computer.append_of(60_000);
        fast.events(1).await;
    }
    // It is given up before it reads on.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(30)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    let mut seen = Vec::new();
    let reason = loop {
        match stuck.next().await {
            Ok(line) => seen.extend(crate::support::http::seq_of(&line)),
            Err(closed) => break closed.reason,
        }
    };
    let resume: u64 = reason.strip_prefix("too slow; resume with after=").expect(&reason).parse().unwrap();
    assert_eq!(seen, (1..=resume).collect::<Vec<u64>>());
}

#[tokio::test]
async fn streams_are_told_when_control_stops() {
    let world = World::start().await;
    let mut socket = world.client_with(Scope::Read).await.upgrade("/api/stream?after=0").await.unwrap();
    let stopping = tokio::spawn(world.control.stop());
    assert!(socket.next().await.unwrap_err().reason.starts_with("stopping"));
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_log_with_a_hole_is_noticed_and_not_published() {
    let world = World::with(Default::default(), FakeComputer::with_events(2)).await;
    let mut socket = world.client_with(Scope::Read).await.upgrade("/api/stream?after=2").await.unwrap();
    let hash = choir_proto::Hash::ZERO;
    world.computer.forge(9, format!(r#"{{"seq":9,"prev":"{hash}","hash":"{hash}"}}"#));
    let mut state = world.control.computer.clone();
    state.wait_for(|state| matches!(state, choir_control::computer::State::Contradicted { .. })).await.unwrap();
    let health = world.client().get("/health").await.value();
    assert_eq!(health["status"], "degraded", "{health}");
    world.control.stop().await;
    assert!(socket.next().await.unwrap_err().reason.contains("after=2"));
}

#[tokio::test]
async fn what_was_erased_is_sent_to_nobody_any_more() {
    let world = World::start().await;
    let client = world.client_with(Scope::Read).await;
    let mut open = client.upgrade("/api/stream?after=0").await.unwrap();
    world.computer.append(5);
    assert_eq!(open.events(5).await, [1, 2, 3, 4, 5]);
    world.computer.erase(3);
    assert_eq!(open.events(1).await, [6], "who has seen it goes on");
    let mut late = client.upgrade("/api/stream?after=0").await.unwrap();
    for seq in 1..=6 {
        let line = late.next().await.unwrap();
        assert_eq!(crate::support::http::seq_of(&line), Some(seq));
        assert_eq!(line.contains(r#""payload":"x""#), !matches!(seq, 3 | 6), "{line}");
    }
    world.computer.append(1);
    assert_eq!((open.events(1).await, late.events(1).await), (vec![7], vec![7]));
}

#[tokio::test]
async fn a_position_that_the_log_has_not_reached_is_refused() {
    let world = World::with(Default::default(), FakeComputer::with_events(3)).await;
    let client = world.client_with(Scope::Read).await;
    let socket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    let refusal =
        client.raw(format!("GET /api/stream?after=4 HTTP/1.1\r\n{}{socket}\r\n\r\n", client.head()).as_bytes()).await;
    assert!(refusal.starts_with("HTTP/1.1 400 ") && refusal.contains("beyond_head"), "{refusal}");
    assert!(refusal.contains("ends at 3"), "{refusal}");
    assert!(client.upgrade("/api/stream?after=3").await.is_ok());
}

#[tokio::test]
async fn whoever_says_goodbye_is_answered() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
    let world = World::with(Default::default(), FakeComputer::with_events(1)).await;
    let mut socket = world.client_with(Scope::Read).await.upgrade("/api/stream?after=1").await.unwrap();
    let goodbye = CloseFrame { code: CloseCode::Normal, reason: "enough".into() };
    socket.0.send(Message::Close(Some(goodbye))).await.unwrap();
    let answer = socket.0.next().await;
    assert!(matches!(&answer, Some(Ok(Message::Close(Some(frame)))) if frame.code == CloseCode::Normal), "{answer:?}");
}
