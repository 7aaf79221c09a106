//! Servers inside, reached from outside.

use choir_sandbox::protocol::FaultCode;
use choir_sandbox::runtime::{CallError, ExecEvent, ExecHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Sandbox, associate, shell};

/// Serves connections one after the other with the given perl block, in which `$c` is the connection.
async fn serve(sandbox: &Sandbox, block: &str) -> ExecHandle {
    let program = format!(
        "perl -MIO::Socket::INET -e '$| = 1; $l = IO::Socket::INET->new(Listen => 5, LocalAddr => q(127.0.0.1:8000), \
         ReuseAddr => 1) or die; print qq(up); while ($c = $l->accept) {{ {block}; close $c }}'"
    );
    let mut handle = sandbox.guest.exec(shell(&program)).await.expect("is sent");
    assert!(matches!(handle.next().await, Ok(ExecEvent::Stdout(_))), "the server is up");
    handle
}

#[tokio::test]
async fn a_server_is_spoken_to_both_ways() {
    let sandbox = associate().await;
    let _server = serve(&sandbox, "while (<$c>) { print $c uc }").await;
    for _ in 0..3 {
        let mut stream = sandbox.guest.connect(8000).await.expect("connects");
        stream.write_all(b"hello\nserver\n").await.expect("sent");
        stream.shutdown().await.expect("closed");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        assert_eq!(answer, "HELLO\nSERVER\n");
    }
}

#[tokio::test]
async fn large_answers_arrive_whole_and_a_reader_that_goes_frees_the_server() {
    let sandbox = associate().await;
    let _server = serve(&sandbox, "$SIG{PIPE} = q(IGNORE); print $c qq(0123456789) x 500000").await;
    let given_up = sandbox.guest.connect(8000).await.expect("connects");
    drop(given_up);
    let mut stream = sandbox.guest.connect(8000).await.expect("connects");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("reads");
    assert_eq!(answer, b"0123456789".repeat(500_000));
}

#[tokio::test]
async fn where_nothing_listens_nothing_connects() {
    let sandbox = associate().await;
    let refused = sandbox.guest.connect(8000).await;
    assert!(matches!(refused, Err(CallError::Fault(fault)) if fault.code == FaultCode::NotFound));
}
