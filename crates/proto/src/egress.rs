//! What a contract or a ceiling may name as reachable: a profile, or a host with its port.
//!
//! One strict grammar for hosts. What it does not know is refused: two parsers that disagree are a hole.

use crate::task::Egress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name in DNS.
const NAME_BYTES_MAX: usize = 253;
/// Longest part of a name.
const LABEL_BYTES_MAX: usize = 63;

/// Repositories, fetched through the broker and never pushed to.
pub const GIT: &str = "git";
/// Package registries.
pub const REGISTRIES: &str = "registries";
/// Pages of the public web, read by control's fetcher and by nobody else: no task gets a way out by it.
pub const WEB: &str = "web";

/// What an entry looks like.
pub const ENTRY: &str = "an entry is `git`, `registries`, `web` or HOST:PORT";

/// Whether this can be allowed at all.
pub fn is_entry(entry: &str) -> bool {
    [GIT, REGISTRIES, WEB].contains(&entry) || Host::parse_with_port(entry).is_ok()
}

/// The first wish that nobody could ever allow, said in a sentence.
pub fn impossible(wish: Option<&Egress>) -> Option<String> {
    let entry = wish?.allow.iter().find(|entry| !is_entry(entry))?;
    let shown: String = entry.escape_debug().take(SHOWN_CHARS_MAX).collect();
    Some(format!("A task cannot be allowed to reach `{shown}`: {ENTRY}."))
}

/// So much of a wish is repeated to whoever wished for it.
const SHOWN_CHARS_MAX: usize = 100;

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

    #[test]
    fn what_no_ceiling_could_hold_is_named() {
        let wish = |entries: &[&str]| Egress { allow: entries.iter().map(ToString::to_string).collect() };
        assert_eq!(impossible(None), None);
        assert_eq!(impossible(Some(&wish(&[]))), None);
        assert_eq!(impossible(Some(&wish(&["git", "registries", "web", "example.org:443", "[::1]:80"]))), None);
        for bad in ["*", "", "everything", "example.org", "0.0.0.0/0", "*.example.org:443", "a\nb:1"] {
            let said = impossible(Some(&wish(&["git", bad]))).unwrap();
            assert!(said.contains(&format!("`{}`", bad.escape_debug())) && said.contains(ENTRY), "{said}");
        }
        assert!(impossible(Some(&wish(&["x".repeat(9_999).as_str()]))).unwrap().len() < 300);
    }
}
