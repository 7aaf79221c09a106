//! A hostile guest: whatever it sends, the host ends its requests, keeps its bounds and does not panic.

use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::AsyncReadExt;

use super::*;
use crate::protocol::{EffectId, Ending, Exit, FaultCode, Health};
use crate::runtime::exec::{Event, ExecError, ExecEvent};
use crate::runtime::spool::Spool;

const LIMITS: GuestLimits =
    GuestLimits { processes: 1, open_files: 1, file_bytes: 1, address_space_bytes: None, nameless_files: true };
/// Far longer than anything here takes; a test that reaches it has found a hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn streams() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = StdStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("set");
    (ours.into(), UnixStream::from_std(theirs).expect("a stream"))
}

fn encoded(messages: &[FromGuest]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for message in messages {
        control_frame(message).expect("fits").encode(&mut out).expect("fits");
    }
    out.to_vec()
}

fn hello() -> Vec<u8> {
    encoded(&[FromGuest::Hello { version: VERSION, role: GuestRole::Keeper, landlock_abi: 2 }])
}

/// What becomes of a start when the guest begins with these bytes.
async fn started_with(bytes: &[u8]) -> Result<Arc<Connection>, StartError> {
    let (ours, mut theirs) = streams();
    theirs.write_all(bytes).await.expect("sent");
    theirs.shutdown().await.expect("ended");
    let connected = tokio::time::timeout(PATIENCE, connect(ours, GuestRole::Keeper, LIMITS)).await.expect("answers");
    connected.map(|(connection, _)| connection)
}

/// A connection whose guest has said hello, and the guest's end.
async fn connected() -> (Arc<Connection>, UnixStream) {
    let (ours, mut theirs) = streams();
    theirs.write_all(&hello()).await.expect("sent");
    (connect(ours, GuestRole::Keeper, LIMITS).await.expect("connects").0, theirs)
}

/// What becomes of a call when the guest answers with these bytes.
async fn answered_with(bytes: Vec<u8>) -> Result<(Answer, Bytes), CallError> {
    let (connection, mut theirs) = connected().await;
    let guest = tokio::spawn(async move {
        // Cut off in the middle is what is expected of many of these.
        theirs.write_all(&bytes).await.ok();
        theirs.shutdown().await.ok();
        // Reads to the end, so that the host is never held up.
        theirs.read_to_end(&mut Vec::new()).await.ok();
    });
    let answer = tokio::time::timeout(PATIENCE, connection.call(Ask::Health)).await.expect("ends");
    guest.abort();
    answer
}

fn reply(id: u64, reply: Reply) -> FromGuest {
    FromGuest::Reply { id, reply }
}

fn healthy() -> Reply {
    Reply::Done(Answer::Health(Health { pid: 1, requests: 1, processes: 1 }))
}

fn data(id: u64, length: usize) -> Vec<u8> {
    let mut out = BytesMut::new();
    let frame = Frame::Data { id, channel: Channel::Content, bytes: vec![0; length].into() };
    frame.encode(&mut out).expect("fits");
    out.to_vec()
}

#[tokio::test]
async fn a_start_needs_a_proper_hello() {
    let other = |version, role| encoded(&[FromGuest::Hello { version, role, landlock_abi: 2 }]);
    assert!(started_with(&hello()).await.is_ok(), "the control");
    assert!(matches!(started_with(b"").await, Err(StartError::Refused(_))));
    assert!(matches!(started_with(&other(VERSION, GuestRole::Associate)).await, Err(StartError::Role(_))));
    let unfit = [
        other(VERSION + 1, GuestRole::Keeper),
        encoded(&[reply(1, healthy())]),
        data(1, 10),
        b"\x00\x00\x00\x05\x00nope".to_vec(),
        b"\xff\xff\xff\xff".to_vec(),
        b"\x00\x00".to_vec(),
        b"HTTP/1.1 200 OK\r\n".to_vec(),
    ];
    for bytes in unfit {
        assert!(matches!(started_with(&bytes).await, Err(StartError::Protocol(_))), "{bytes:?}");
    }
}

#[tokio::test]
async fn answers_reach_whom_they_belong_to() {
    let bytes = encoded(&[reply(99, healthy()), reply(1, healthy())]);
    assert!(matches!(answered_with(bytes).await, Ok((Answer::Health(_), _))));
    let fault = Fault::new(FaultCode::Limit, "too much");
    let failed = answered_with(encoded(&[reply(1, Reply::Failed(fault.clone()))])).await;
    assert!(matches!(failed, Err(CallError::Fault(found)) if found == fault));
}

/// What is heard of a command that ended so, in a sandbox whose guest answers so or has gone.
async fn heard_of_command(ending: Ending, answer: Option<Vec<u8>>) -> Event {
    let (guest, mut theirs) = connected().await;
    let speaking = tokio::spawn(async move {
        let Some(answer) = answer else { return };
        // Hello and the question may come apart; an answer that nobody waits for is passed over.
        while let Ok(1..) = theirs.read(&mut [0; 1024]).await {
            theirs.write_all(&answer).await.ok();
        }
    });
    let watchdog = tokio::spawn(std::future::pending::<()>()).abort_handle();
    let effect = EffectId::parse("an-effect").expect("is one");
    let (running, mut heard) = Running::new(effect, (None, Spool::default()), guest, watchdog, false);
    running.exited(Exit { ending, duration_ms: 1 });
    let event = tokio::time::timeout(PATIENCE, heard.recv()).await.expect("ends");
    speaking.abort();
    event.expect("is told")
}

#[tokio::test]
async fn a_command_that_was_killed_with_its_sandbox_has_no_ending_of_its_own() {
    let there = || Some(encoded(&[reply(1, healthy())]));
    for killed in [Ending::Signal(9), Ending::Code(137)] {
        assert!(matches!(heard_of_command(killed, None).await, Err(ExecError::Lost)), "{killed:?}");
        assert!(matches!(heard_of_command(killed, there()).await, Ok(ExecEvent::Exit(_))), "{killed:?}");
    }
    for of_its_own in [Ending::Code(1), Ending::Signal(15), Ending::TimedOut] {
        assert!(matches!(heard_of_command(of_its_own, None).await, Ok(ExecEvent::Exit(_))), "{of_its_own:?}");
    }
}

#[tokio::test]
async fn a_guest_that_breaks_the_protocol_is_cut_off() {
    let mut endless = Vec::new();
    (0..40).for_each(|_| endless.extend(data(1, 100_000)));
    let taken = |bytes| encoded(&[reply(1, Reply::Progress(Progress::InputTaken { bytes }))]);
    let screen = encoded(&[reply(1, Reply::Progress(Progress::Screen { bytes: 10 }))]);
    let cases = [
        ("more content than was asked for", endless),
        ("a second hello", hello()),
        ("a window given back that was never taken", taken(1)),
        ("a huge window", taken(u64::MAX)),
        ("a screen of what is no terminal", screen),
        ("an oversized frame", b"\x7f\xff\xff\xff".to_vec()),
        ("an empty frame", b"\x00\x00\x00\x00".to_vec()),
        ("an unknown kind", b"\x00\x00\x00\x01\x09".to_vec()),
        ("broken JSON", b"\x00\x00\x00\x03\x00{{".to_vec()),
        ("half a frame", b"\x00\x00\x00\xff\x00{".to_vec()),
        ("silence", Vec::new()),
    ];
    for (name, mut bytes) in cases {
        // The right answer comes too late to be believed.
        if name != "half a frame" && name != "silence" {
            bytes.extend(encoded(&[reply(1, healthy())]));
        }
        let answer = answered_with(bytes).await;
        assert!(matches!(answer, Err(CallError::Lost)), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn after_a_cut_nothing_more_is_sent() {
    let (connection, theirs) = connected().await;
    drop(theirs);
    tokio::time::timeout(PATIENCE, connection.closed()).await.expect("is noticed");
    assert!(matches!(connection.call(Ask::Health).await, Err(CallError::Lost)));
}

#[tokio::test]
async fn an_answer_of_another_kind_is_not_believed() {
    // The connection hands it over; what it is compared with is the caller's question.
    let answer = answered_with(encoded(&[reply(1, Reply::Done(Answer::Done))])).await;
    assert!(matches!(answer, Ok((Answer::Done, _))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_end_a_call(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let answer = answered_with(bytes).await;
            prop_assert!(matches!(answer, Err(CallError::Lost)));
            Ok(())
        })?;
    }

    #[test]
    fn any_messages_end_a_call(ids in proptest::collection::vec((0_u64..4, 0_usize..6), 0..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let bytes = ids.iter().flat_map(|(id, kind)| match kind {
            0 => data(*id, 1000),
            1 => encoded(&[reply(*id, healthy())]),
            2 => encoded(&[reply(*id, Reply::Progress(Progress::InputTaken { bytes: 1 }))]),
            3 => encoded(&[reply(*id, Reply::Progress(Progress::Started { pid: -1 }))]),
            4 => encoded(&[reply(*id, Reply::Done(Answer::Done))]),
            _ => encoded(&[reply(*id, Reply::Failed(Fault::new(FaultCode::System, "")))]),
        }).collect();
        // Whatever it is, there is an answer or an error.
        runtime.block_on(answered_with(bytes)).ok();
    }
}
