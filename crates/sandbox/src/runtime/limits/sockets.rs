//! What a sandbox keeps in sockets: memory of the kernel, which belongs to no process.
//!
//! How much waits in each cannot be seen from outside, but how many there are can, and what each has room for: nobody who
//! is held in this way may ask for more room. So every socket counts as if it were full. Only connections over the
//! network's protocol grow by themselves, and of those the kernel shows what waits in them.

use std::fs;

/// What a socket has room for, where the kernel does not say.
const ROOM_BYTES: u64 = 212_992;
/// The last piece may reach beyond the room, and a socket itself takes some memory.
const SPARE_BYTES: u64 = 64 << 10;

/// Bytes in sockets of the network namespace of a process. What waits in connections takes long to add up, and is only
/// looked for where all of the machine's together would exceed `room`.
pub(super) fn bytes(pid: u32, room: u64) -> u64 {
    let net = format!("/proc/{pid}/net");
    let summary = fs::read_to_string(format!("{net}/sockstat")).unwrap_or_default();
    let Summary { sockets, connection_pages } = Summary::parse(&summary);
    let buffers = sockets.saturating_mul(buffer_bytes() + SPARE_BYTES);
    let connections_at_most = connection_pages.saturating_mul(rustix::param::page_size() as u64);
    if connections_at_most <= room.saturating_sub(buffers) {
        return buffers;
    }
    let lists = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("{net}/{name}")).unwrap_or_default());
    lists.iter().fold(buffers, |sum, list| sum.saturating_add(waiting(list)))
}

/// The larger of both, because a message is its sender's in some families and its receiver's in others.
fn buffer_bytes() -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?.trim().parse().ok();
    let defaults = ["wmem_default", "rmem_default"].map(read);
    defaults.into_iter().map(|bytes| bytes.unwrap_or(ROOM_BYTES)).max().unwrap_or(ROOM_BYTES)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    /// Of all families, in the namespace; until what was sent from them is taken, too.
    sockets: u64,
    /// Of the whole machine.
    connection_pages: u64,
}

impl Summary {
    fn parse(text: &str) -> Self {
        let number = |line: &str, name: &str| {
            let mut words = text.lines().find_map(|found| found.strip_prefix(line))?.split_ascii_whitespace();
            words.find(|word| *word == name)?;
            words.next()?.parse().ok()
        };
        Self {
            sockets: number("sockets:", "used").unwrap_or_default(),
            connection_pages: number("TCP:", "mem").unwrap_or_default(),
        }
    }
}

/// Adds up what the kernel's list of connections shows as sent and not taken.
fn waiting(list: &str) -> u64 {
    let queues = list.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().nth(4)?.split_once(':'));
    let bytes = |hex: &str| u64::from_str_radix(hex, 16).unwrap_or_default();
    queues.map(|(sent, received)| bytes(sent).saturating_add(bytes(received))).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let text = "sockets: used 30\nTCP: inuse 5 orphan 0 tw 145 alloc 5 mem 326\nUDP: inuse 0 mem 7\n";
        assert_eq!(Summary::parse(text), Summary { sockets: 30, connection_pages: 326 });
        assert_eq!(Summary::parse(""), Summary::default());
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                    0: 0100007F:A473 00000000:0000 0A 00000010:00000002 00:00000000 00000000     0\n   \
                    1: 0100007F:A473 00000000:0000 01 000000FF:00000000 00:00000000 00000000     0\n";
        assert_eq!(waiting(list), 0x10 + 2 + 0xff);
    }

    #[test]
    fn every_socket_counts_as_if_it_were_full() {
        let pairs: Vec<_> = (0..10).map(|_| std::os::unix::net::UnixStream::pair().expect("a pair")).collect();
        let room = buffer_bytes();
        assert!(bytes(std::process::id(), u64::MAX) >= 2 * pairs.len() as u64 * room);
        assert_eq!(bytes(u32::MAX, 0), 0, "a process that is gone has none");
    }

    #[test]
    fn as_many_as_a_build_has_are_a_small_part_of_the_usual_memory() {
        assert!(600 * (ROOM_BYTES + SPARE_BYTES) < crate::runtime::Limits::default().memory_bytes / 20);
    }

    #[test]
    fn what_waits_in_a_connection_is_found_where_it_may_be_too_much() {
        use std::io::Write;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut sender = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        sender.set_nonblocking(true).expect("set");
        let mut sent = 0;
        while let Ok(length) = sender.write(&[0; 64 << 10]) {
            sent += length as u64;
        }
        let lists = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/self/net/{name}")).expect("read"));
        let seen: u64 = lists.iter().map(|list| waiting(list)).sum();
        assert!(sent > 0 && seen >= sent, "{seen} of {sent}");
    }
}
