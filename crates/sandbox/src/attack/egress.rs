//! What is asked of the way out of a task.
//!
//! The way out allows one server of this machine, `127.0.0.1:{allowed}`, which counts who comes, and package registries.
//! Every other spelling of that server, and everything else, must be turned away without anybody being connected to.

use super::Area::Egress;
use super::Expect::Turned;
use super::Probe;
use super::Program::{Ask, Send};

/// A probe's name is what it asks.
const fn ask(threat: &'static str, line: &'static str) -> Probe {
    Probe { id: line, threat, area: Egress, program: Ask(line), expect: Turned }
}

/// One that is more than a line.
const fn send(threat: &'static str, id: &'static str, text: &'static str) -> Probe {
    Probe { id, threat, area: Egress, program: Send(text), expect: Turned }
}

/// The list.
pub(super) const PROBES: &[Probe] = &[
    // The allowed server as somebody would write it who wants another one to be read.
    ask("A41", "CONNECT 127.1:{allowed}"),
    ask("A41", "CONNECT 127.0.1:{allowed}"),
    ask("A41", "CONNECT 2130706433:{allowed}"),
    ask("A41", "CONNECT 0x7f000001:{allowed}"),
    ask("A41", "CONNECT 0x7f.0.0.1:{allowed}"),
    ask("A41", "CONNECT 0177.0.0.1:{allowed}"),
    ask("A41", "CONNECT 017700000001:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1.:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1%00:{allowed}"),
    ask("A41", "CONNECT 127.0.0.01:{allowed}"),
    ask("A41", "CONNECT 127.0.0.2:{allowed}"),
    ask("A41", "CONNECT localhost:{allowed}"),
    ask("A41", "CONNECT LOCALHOST:{allowed}"),
    ask("A41", "CONNECT localhost.:{allowed}"),
    ask("A41", "CONNECT localhost.localdomain:{allowed}"),
    ask("A41", "CONNECT 0.0.0.0:{allowed}"),
    ask("A41", "CONNECT 0:{allowed}"),
    ask("A41", "CONNECT [::1]:{allowed}"),
    ask("A41", "CONNECT [::]:{allowed}"),
    ask("A41", "CONNECT [::ffff:127.0.0.1]:{allowed}"),
    ask("A41", "CONNECT [::ffff:7f00:1]:{allowed}"),
    ask("A41", "CONNECT [0:0:0:0:0:ffff:127.0.0.1]:{allowed}"),
    ask("A41", "CONNECT [::ffff:127.0.0.1%1]:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1:0{allowed}"),
    ask("A41", "CONNECT 127.0.0.1:+{allowed}"),
    ask("A41", "CONNECT user@127.0.0.1:{allowed}"),
    ask("A41", "CONNECT user:pass@127.0.0.1:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1:{allowed}@example.org:443"),
    ask("A41", "CONNECT example.org:443@127.0.0.1:{allowed}"),
    ask("A41", "CONNECT %31%32%37.0.0.1:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1#:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1:{allowed}/"),
    ask("A41", "CONNECT http://127.0.0.1:{allowed}/"),
    ask("A41", "CONNECT 127.0.0.1,127.0.0.1:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1\\:{allowed}"),
    ask("A41", "CONNECT xn--127-0-0-1:{allowed}"),
    ask("A41", "CONNECT \u{ff11}27.0.0.1:{allowed}"),
    ask("A41", "CONNECT 127\u{3002}0\u{3002}0\u{3002}1:{allowed}"),
    ask("A41", "CONNECT 127.0.0.1:{port}"),
    ask("A41", "CONNECT {address}:{allowed}"),
    // Where machines tell their secrets, and networks that are near.
    ask("A41", "CONNECT 169.254.169.254:80"),
    ask("A41", "CONNECT 169.254.170.2:80"),
    ask("A41", "CONNECT [fd00:ec2::254]:80"),
    ask("A41", "CONNECT [fe80::1]:80"),
    ask("A41", "CONNECT 100.100.100.200:80"),
    ask("A41", "CONNECT metadata.google.internal:80"),
    ask("A41", "CONNECT metadata:80"),
    ask("A41", "CONNECT 10.0.0.1:443"),
    ask("A41", "CONNECT 172.16.0.1:443"),
    ask("A41", "CONNECT 192.168.0.1:443"),
    ask("A41", "CONNECT 100.64.0.1:443"),
    ask("A41", "CONNECT 224.0.0.1:443"),
    ask("A41", "CONNECT 255.255.255.255:443"),
    // Names that look like allowed ones, other ports of allowed ones, and name servers.
    ask("A47", "CONNECT crates.io:80"),
    ask("A47", "CONNECT evilcrates.io:443"),
    ask("A47", "CONNECT index.crates.io.example.org:443"),
    ask("A47", "CONNECT crates.io.:443"),
    ask("A47", "CONNECT crates.io%2eexample.org:443"),
    ask("A47", "CONNECT example.org:443"),
    ask("A45", "CONNECT 8.8.8.8:53"),
    ask("A45", "CONNECT 1.1.1.1:853"),
    // Other ways of asking.
    ask("A41", "GET http://127.0.0.1:{allowed}/"),
    ask("A41", "GET http://169.254.169.254/latest/meta-data/"),
    ask("A41", "GET /latest/meta-data/"),
    ask("A42", "GET file:///etc/passwd"),
    ask("A42", "GET gopher://127.0.0.1:{allowed}/"),
    ask("A48", "GET http://broker/github.com/a/b/git-receive-pack"),
    ask("A48", "POST http://broker/github.com/a/b/git-receive-pack"),
    ask("A48", "GET http://broker:80/github.com/a/b/info/refs?service=git-upload-pack"),
    ask("A48", "GET http://broker/../control/door"),
    ask("A41", "BREW pot"),
    // Requests in the clear that agree with themselves, and such as two readers would read in two ways.
    send(
        "A41",
        "plain http to a server of the host",
        "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http to the metadata service",
        "GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http to the allowed server by another name",
        "GET http://localhost:{allowed}/ HTTP/1.1\r\nHost: localhost:{allowed}\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http with a user in the address",
        "GET http://user@127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 127.0.0.1:{allowed}\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http to one host in the name of another",
        "GET http://127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http with two hosts",
        "GET http://127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 127.0.0.1:{allowed}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http with a folded line",
        "GET http://127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 127.0.0.1:{allowed}\r\nX: a\r\n b\r\nConnection: close\r\n\r\n",
    ),
    send(
        "A41",
        "plain http with two lengths",
        "POST http://127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 127.0.0.1:{allowed}\r\nContent-Length: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nxx",
    ),
    send(
        "A48",
        "a second request behind one that was answered",
        "GET http://broker/nothing HTTP/1.1\r\nHost: broker\r\n\r\nGET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n",
    ),
];
