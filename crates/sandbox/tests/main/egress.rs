//! The one way out, where there is one.

use choir_sandbox::protocol::Ending;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use crate::support::{associate, start};

const ASK: &str = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => q(127.0.0.1:3128)) or exit 1; \
                   print $s qq(CONNECT example.org:443 HTTP/1.1\\r\\n\\r\\n); print scalar <$s>'";

#[tokio::test]
async fn a_proxy_is_reached_through_the_port_and_the_variables_name_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("proxy");
    let listener = UnixListener::bind(&socket).expect("listens");
    let sandbox = start(|spec| spec.egress = Some(socket.clone())).await;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut asked = [0; 36];
        stream.read_exact(&mut asked).await.expect("reads");
        stream.write_all(b"HTTP/1.1 403 Not for you\r\n").await.expect("writes");
        String::from_utf8_lossy(&asked).into_owned()
    });
    assert_eq!(sandbox.stdout(ASK).await, "HTTP/1.1 403 Not for you\r\n");
    assert!(proxy.await.expect("served").starts_with("CONNECT example.org:443 "));
    assert_eq!(sandbox.stdout("echo $https_proxy $HTTP_PROXY").await, "http://127.0.0.1:3128 http://127.0.0.1:3128\n");
    // The proxy is gone now, and with it the way out.
    assert_eq!(sandbox.stdout(ASK).await, "");
}

#[tokio::test]
async fn without_a_proxy_nothing_listens() {
    let sandbox = associate().await;
    assert_eq!(sandbox.run(ASK).await.finished.exit.ending, Ending::Code(1));
}
