//! Pages whose address nobody made up: a person gave it, or a search engine that the person chose answered with it. Reading
//! them tells nobody anything new. Any other address may carry what an agent knows to whoever owns it.

use super::fetch::host_and_port;
use super::policy::names_host;
use choir_proto::egress::WEB;
use reqwest::Url;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses of each sort that are remembered, the oldest forgotten first. Whoever meets a forgotten one is asked.
const PAGES_MAX: usize = 4096;

/// Addresses that are taken from one text.
const NAMED_MAX: usize = 100;

/// What an address in a text begins with.
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// What ends an address in a text, and what follows one without belonging to it.
const ENDS: [char; 7] = ['<', '>', '"', '\'', '`', '|', '\\'];
const PUNCTUATION: [char; 11] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '*', '_'];

/// What is known of addresses; cheap to clone. Kept in memory: after a restart the person is asked.
#[derive(Debug, Clone, Default)]
pub struct Pages(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    given: VecDeque<String>,
    found: VecDeque<String>,
}

impl Pages {
    /// A person sent this: whatever address stands in its words, they gave.
    pub(crate) fn gave(&self, body: &[u8]) {
        let Ok(said) = serde_json::from_slice(body) else { return };
        let mut known = self.lock();
        for address in addresses(&said) {
            remember(&mut known.given, &address);
        }
    }

    /// A search answered with this.
    pub(super) fn found(&self, address: &str) {
        if let Some(address) = plain(address) {
            remember(&mut self.lock().found, &address);
        }
    }

    /// What the fetcher may reach for one page: hosts that are named, and the public web where this very page was given; or
    /// where the person lets agents read the web, and the page was found or is of a host that is named. A page may be
    /// elsewhere by now, and is still that page.
    pub(super) fn ceiling(&self, mut allowed: Vec<String>, address: &str) -> Vec<String> {
        let may_read = allowed.iter().any(|entry| entry == WEB);
        allowed.retain(|entry| entry != WEB);
        let known = self.lock();
        let is = |pages: &VecDeque<String>| plain(address).is_some_and(|address| pages.contains(&address));
        if is(&known.given) || may_read && (is(&known.found) || is_named(&allowed, address)) {
            allowed.push(WEB.to_owned());
        }
        allowed
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_named(allowed: &[String], address: &str) -> bool {
    let place = Url::parse(address).ok().and_then(|url| host_and_port(&url).ok());
    place.is_some_and(|(host, port)| allowed.iter().any(|entry| names_host(entry, &host, port)))
}

fn remember(pages: &mut VecDeque<String>, address: &str) {
    if pages.iter().any(|known| known == address) {
        return;
    }
    if pages.len() >= PAGES_MAX {
        pages.pop_front();
    }
    pages.push_back(address.to_owned());
}

/// One spelling of an address. The part behind `#` never leaves the reader.
fn plain(address: &str) -> Option<String> {
    let mut url = Url::parse(address.trim()).ok()?;
    url.set_fragment(None);
    Some(url.into())
}

/// Every address in the words of a request.
fn addresses(said: &Value) -> Vec<String> {
    match said {
        Value::String(text) => in_text(text),
        Value::Array(all) => all.iter().flat_map(addresses).take(NAMED_MAX).collect(),
        Value::Object(all) => all.values().flat_map(addresses).take(NAMED_MAX).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn in_text(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while found.len() < NAMED_MAX
        && let Some(start) = SCHEMES.iter().filter_map(|scheme| rest.find(scheme)).min()
    {
        let tail = &rest[start..];
        let end = tail.find(|letter: char| letter.is_whitespace() || ENDS.contains(&letter)).unwrap_or(tail.len());
        found.extend(plain(tail[..end].trim_end_matches(PUNCTUATION)));
        rest = &tail[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_person_gave_may_be_read_and_no_other() {
        let pages = Pages::default();
        pages.gave(
            br#"{"prompt": "Compare (https://a.example/x?y=1#top), http://b.example.",
            "context": [{"url": "https://c.example/page_"}, {"path": "notes"}]}"#,
        );
        pages.gave(b"no request");
        let is_open = |address: &str| pages.ceiling(vec!["git".to_owned()], address).contains(&WEB.to_owned());
        for given in ["https://a.example/x?y=1", "https://A.example/x?y=1#else", "http://b.example/"] {
            assert!(is_open(given), "{given}");
        }
        for other in ["https://a.example/x?y=2", "https://a.example/", "http://b.example/more", "nonsense", ""] {
            assert!(!is_open(other), "{other}");
        }
    }

    #[test]
    fn leave_to_read_the_web_is_leave_to_read_what_was_found() {
        let pages = Pages::default();
        pages.found("https://found.example/");
        let web = vec![WEB.to_owned(), "named.example:443".to_owned()];
        assert_eq!(pages.ceiling(web.clone(), "https://found.example/"), ["named.example:443", WEB]);
        assert_eq!(pages.ceiling(web, "https://made.up/?secret"), ["named.example:443"], "others are asked about");
        assert!(pages.ceiling(Vec::new(), "https://found.example/").is_empty());
        let named = vec![WEB.to_owned(), "named.example:443".to_owned()];
        assert!(pages.ceiling(named, "https://named.example/moved").contains(&WEB.to_owned()), "wherever it leads");
    }

    #[test]
    fn the_oldest_are_forgotten_and_texts_end() {
        let pages = Pages::default();
        for number in 0..=PAGES_MAX {
            pages.found(&format!("https://x.example/{number}"));
        }
        assert_eq!(pages.lock().found.len(), PAGES_MAX);
        assert!(in_text(&"http://".repeat(1000)).len() <= 1);
        assert_eq!(in_text(&"http://x ".repeat(1000)).len(), NAMED_MAX);
        assert_eq!(in_text("<https://x.example/a> 'http://y.example' é"), ["https://x.example/a", "http://y.example/"]);
    }
}
