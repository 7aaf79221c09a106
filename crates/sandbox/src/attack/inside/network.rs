//! Attempts on the network.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Act, Outcome, call, first_success, of_io, outcome, planted};

pub(super) const ACTS: &[(&str, Act)] = &[
    ("host_loopback", host_loopback),
    ("host_address", host_address),
    ("metadata", metadata),
    ("private_addresses", private_addresses),
    ("version_six", version_six),
    ("name_service", name_service),
    ("names", names),
    ("echo_request", echo_request),
    ("abstract_socket", abstract_socket),
    ("path_socket", path_socket),
    ("interfaces", interfaces),
    ("add_route", add_route),
    ("low_port", low_port),
    ("allowed_directly", allowed_directly),
    ("name_service_stream", name_service_stream),
];

/// How long an attempt may hang; a network that says nothing is one that is not there.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most of its answer that is read.
const ANSWER_BYTES_MAX: u64 = 1024;
/// How long the way out may take to answer, on a busy machine.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

fn connect(address: &str) -> Outcome {
    let Ok(address) = address.parse::<SocketAddr>() else { return Outcome::Done(format!("{address} is no address")) };
    match TcpStream::connect_timeout(&address, PATIENCE) {
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Outcome::Refused(libc::ETIMEDOUT),
        result => of_io(result, &format!("connected to {address}")),
    }
}

fn host_loopback() -> Outcome {
    let port = planted("port");
    first_success([connect(&format!("127.0.0.1:{port}")), connect(&format!("127.1.2.3:{port}"))])
}

fn host_address() -> Outcome {
    connect(&format!("{}:{}", planted("address"), planted("port")))
}

fn metadata() -> Outcome {
    first_success([connect("169.254.169.254:80"), connect("169.254.170.2:80"), connect("100.100.100.200:80")])
}

fn private_addresses() -> Outcome {
    let addresses = ["10.0.0.1:80", "172.16.0.1:80", "192.168.0.1:80", "100.64.0.1:80", "0.0.0.0:80", "224.0.0.1:80"];
    first_success(addresses.map(connect))
}

fn version_six() -> Outcome {
    let port = planted("port");
    let addresses = [
        format!("[::1]:{port}"),
        "[fe80::1]:80".to_owned(),
        "[fd00::1]:80".to_owned(),
        "[2001:db8::1]:80".to_owned(),
        format!("[::ffff:127.0.0.1]:{port}"),
    ];
    first_success(addresses.map(|address| connect(&address)))
}

fn name_service() -> Outcome {
    let servers = ["8.8.8.8:53", "1.1.1.1:53", "127.0.0.53:53", "192.0.2.1:53"];
    first_success(servers.map(|server| {
        let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(server)?;
            socket.send(b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01")?;
            socket.recv(&mut [0; 512])
        });
        of_io(asked, "a name server answered")
    }))
}

/// Names that the system's own resolver would have to ask somebody for.
fn names() -> Outcome {
    let names = ["example.org", "metadata.google.internal", "host.docker.internal", "localhost.localdomain"];
    let known = names.iter().find(|name| (**name, 80).to_socket_addrs().is_ok_and(|mut found| found.next().is_some()));
    known.map_or(Outcome::Refused(libc::ENOENT), |name| Outcome::Done(format!("{name} has an address")))
}

fn echo_request() -> Outcome {
    const PROTOCOL_ICMP: i64 = 1;
    let kinds = [libc::SOCK_RAW, libc::SOCK_DGRAM];
    first_success(kinds.map(|kind| call(libc::SYS_socket, &[libc::AF_INET.into(), kind.into(), PROTOCOL_ICMP])))
}

fn abstract_socket() -> Outcome {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(planted("abstract"));
    of_io(address.and_then(|address| UnixStream::connect_addr(&address)), "reached a socket of the host")
}

fn path_socket() -> Outcome {
    let sockets = [planted("socket"), "/run/dbus/system_bus_socket".to_owned(), "/var/run/docker.sock".to_owned()];
    first_success(sockets.map(|path| of_io(UnixStream::connect(path), "reached a socket of the host")))
}

fn interfaces() -> Outcome {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: Vec<&str> = table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default().lines().count();
    match (&names[..], routes) {
        (["lo"], 0..=1) => Outcome::Refused(libc::ENODEV),
        _ => Outcome::Done(format!("{names:?} and {routes} lines of routes")),
    }
}

/// Asks the kernel for another address on the loopback interface.
fn add_route() -> Outcome {
    // A header (length, kind, flags, sequence, sender), the address's family, length, flags, scope and interface, and
    // one attribute with the address.
    const MESSAGE: [u8; 32] =
        [32, 0, 0, 0, 20, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0, 2, 24, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 1];
    // SAFETY: makes a socket of this process's own.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE) };
    // SAFETY: the message is as long as is said.
    let sent = unsafe { libc::send(socket, MESSAGE.as_ptr().cast(), MESSAGE.len(), 0) };
    if sent < 0 {
        return outcome(sent as i64, "");
    }
    let mut reply = [0_u8; 256];
    // SAFETY: the buffer is as long as is said.
    let received = unsafe { libc::recv(socket, reply.as_mut_ptr().cast(), reply.len(), 0) };
    if received < 20 {
        return outcome(-1, "");
    }
    match i32::from_ne_bytes([reply[16], reply[17], reply[18], reply[19]]) {
        0 => Outcome::Done("changed the network".to_owned()),
        error => Outcome::Refused(-error),
    }
}

fn low_port() -> Outcome {
    first_success([80, 443].map(|port| of_io(TcpListener::bind(("127.0.0.1", port)), "bound a privileged port")))
}

/// Asks the way out by one line, as a program would that knows no better.
pub(super) fn ask(line: &str) -> Outcome {
    let relay = SocketAddr::from(([127, 0, 0, 1], crate::guest::EGRESS_PORT));
    let asked = TcpStream::connect_timeout(&relay, ANSWER_PATIENCE).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        // In one piece: whoever answers the beginning may not read the rest.
        stream.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        let mut reply = Vec::new();
        BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(b'\n', &mut reply)?;
        Ok(String::from_utf8_lossy(&reply).trim_end().to_owned())
    });
    match asked {
        Ok(reply) => Outcome::Status(reply.split(' ').nth(1).unwrap_or_default().to_owned()),
        Err(error) => of_io(Err::<(), _>(error), ""),
    }
}

/// Says all of a text to the way out, and hears it to its end.
pub(super) fn send(text: &str) -> Outcome {
    let relay = SocketAddr::from(([127, 0, 0, 1], crate::guest::EGRESS_PORT));
    let asked = TcpStream::connect_timeout(&relay, ANSWER_PATIENCE).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        stream.write_all(text.as_bytes())?;
        let mut reply = Vec::new();
        // Whoever is turned away early is not heard out; what was answered until then counts.
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut reply).or_else(|error| match reply.is_empty() {
            true => Err(error),
            false => Ok(reply.len()),
        })?;
        Ok(String::from_utf8_lossy(&reply).into_owned())
    });
    let status = |reply: &str| {
        let mut heads = reply.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).map(|rest| rest.get(..3));
        heads.next_back().flatten().unwrap_or_default().to_owned()
    };
    asked.map_or_else(|error| of_io(Err::<(), _>(error), ""), |reply| Outcome::Status(status(&reply)))
}

/// Past the way out, to what it allows.
fn allowed_directly() -> Outcome {
    let port = planted("allowed");
    let addresses = [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("{}:{port}", planted("address"))];
    first_success(addresses.map(|address| connect(&address)))
}

fn name_service_stream() -> Outcome {
    first_success(
        ["8.8.8.8:53", "1.1.1.1:853", "127.0.0.53:53", "192.0.2.1:53", "[2001:4860:4860::8888]:53"].map(connect),
    )
}
