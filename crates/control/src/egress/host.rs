//! One strict grammar for hosts. What it does not know is refused: two parsers that disagree are a hole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name in DNS.
const NAME_BYTES_MAX: usize = 253;
/// Longest part of a name.
const LABEL_BYTES_MAX: usize = 63;

/// A host that may be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Lower case, without a dot at the end.
    Name(String),
    /// A literal address in its one usual spelling.
    Address(IpAddr),
}

/// A text that is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a host name or address in its usual spelling")]
pub struct BadHost;

impl Host {
    /// Parses the host of an authority; IPv6 addresses stand in brackets.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inner.parse::<Ipv6Addr>().map(|address| Self::Address(address.into())).map_err(|_| BadHost);
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = text.to_ascii_lowercase();
        let labels: Vec<&str> = name.split('.').collect();
        // Numbers in any other spelling (octal, hexadecimal, one large number) would be an address to somebody else.
        let numeric =
            labels.last().is_some_and(|last| last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit()));
        match name.len() <= NAME_BYTES_MAX && !numeric && labels.iter().all(|label| is_label(label)) {
            true => Ok(Self::Name(name)),
            false => Err(BadHost),
        }
    }

    /// Parses `host:port`; the port has to be there.
    pub fn parse_with_port(text: &str) -> Result<(Self, u16), BadHost> {
        let (host, port) = text.rsplit_once(':').ok_or(BadHost)?;
        let canonical = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let port: u16 = port.parse().ok().filter(|_| canonical).ok_or(BadHost)?;
        Ok((Self::parse(host)?, port))
    }
}

fn is_label(label: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(good)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, shown) in [
            ("Example.ORG", "example.org"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            ".",
            "example.org.",
            "user@example.org",
            "ex ample.org",
            "exa_mple.org",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "127.1",
            "127.0.0.01",
            "1.2.3.4.5",
            "::1",
            "[::1",
            "[1.2.3.4]",
            "bücher.example",
            "a..b",
            "-a.b",
            "a-.b",
            "a/b",
            "a%2e",
            "a\0b",
            "[fe80::1%eth0]",
            "example.org#x",
            "a:b",
        ] {
            assert_eq!(Host::parse(text), Err(BadHost), "{text:?}");
        }
        for text in [
            "example.org",
            "example.org:",
            "example.org:0",
            "example.org:080",
            "example.org:99999",
            "example.org:+80",
            "::1:80",
        ] {
            assert_eq!(Host::parse_with_port(text), Err(BadHost), "{text:?}");
        }
        assert_eq!(Host::parse_with_port("[::1]:80").unwrap().1, 80);
    }
}
