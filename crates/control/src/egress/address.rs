//! Addresses that no task reaches by a name of the world: this machine, its neighbours, and what is nobody's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is of the public Internet. What is not known to be, is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let near = matches!((a, b), (0 | 10 | 127 | 224.., _) | (169, 254) | (192, 168) | (100, 64..=127) | (172, 16..=31));
    let nobodys =
        matches!((a, b, c), (198, 18 | 19, _) | (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113));
    !near && !nobodys
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inside) = embedded_v4(address) {
        return is_public_v4(inside);
    }
    let segments = address.segments();
    // Only 2000::/3 is given out; of it, what protocols need (Teredo, benchmarks, hashes) and documentation are not.
    let nobodys = matches!((segments[0], segments[1]), (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff));
    segments[0] & 0xe000 == 0x2000 && !nobodys
}

/// Addresses that are really another one: mapped, compatible, translated, and 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] if high != 0 || low > 1 => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_not_public() {
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "2001:db8::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:1ff::1",
            "3fff::1",
            "3fff:fff::1",
            "100::1",
            "fec0::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "8.8.8.8",
            "2606:4700:4700::1111",
            "2001:200::1",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
