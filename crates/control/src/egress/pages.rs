//! Pages whose address nobody made up: a person gave it, or a search engine that the person chose answered with it. Reading
//! them tells nobody anything new. Any other address may carry what an agent knows to whoever owns it.

use super::fetch::host_and_port;
use super::policy::names_host;
use crate::db::{self, Db, PAGES_MAX, Sort};
use choir_proto::Hash;
use choir_proto::egress::WEB;
use reqwest::Url;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses that are taken from one text.
const NAMED_MAX: usize = 100;

/// What an address in a text begins with.
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// What ends an address in a text, and what follows one without belonging to it.
const ENDS: [char; 7] = ['<', '>', '"', '\'', '`', '|', '\\'];
const PUNCTUATION: [char; 11] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '*', '_'];

/// What is known of addresses; cheap to clone. Kept in control's database: a run that goes on after a restart finds what it was
/// given.
#[derive(Debug, Clone)]
pub struct Pages {
    known: Arc<Mutex<Known>>,
    db: Db,
}

/// Only hashes: whoever knows an address can ask about it, and nobody can read one here.
#[derive(Debug, Default)]
struct Known {
    given: VecDeque<Hash>,
    found: VecDeque<Hash>,
}

impl Pages {
    /// With what was known before.
    pub async fn open(db: Db) -> Result<Self, db::Error> {
        let known = Known { given: db.pages(Sort::Given).await?.into(), found: db.pages(Sort::Found).await?.into() };
        Ok(Self { known: Arc::new(Mutex::new(known)), db })
    }

    /// A person sent this: whatever address stands in its words, they gave.
    pub(crate) async fn gave(&self, body: &[u8]) {
        let Ok(said) = serde_json::from_slice(body) else { return };
        self.learn(Sort::Given, &addresses(&said)).await;
    }

    /// A search answered with these.
    pub(super) async fn found(&self, addresses: impl Iterator<Item = &str>) {
        let addresses: Vec<String> = addresses.filter_map(plain).collect();
        self.learn(Sort::Found, &addresses).await;
    }

    /// What the fetcher may reach for one page.
    pub(super) fn ceiling(&self, allowed: Vec<String>, address: &str) -> Vec<String> {
        self.lock().ceiling(allowed, address)
    }

    /// Whether a search answered with this very page.
    pub(super) fn was_found(&self, address: &str) -> bool {
        plain(address).is_some_and(|address| self.lock().found.contains(&hash(&address)))
    }

    async fn learn(&self, sort: Sort, addresses: &[String]) {
        let fresh = self.lock().learn(sort, addresses);
        if fresh.is_empty() {
            return;
        }
        if let Err(error) = self.db.keep_pages_soon(sort, fresh).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "pages will be asked about after a restart");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Remembers addresses; answers with those that are new.
    fn learn(&mut self, sort: Sort, addresses: &[String]) -> Vec<Hash> {
        let pages = match sort {
            Sort::Given => &mut self.given,
            Sort::Found => &mut self.found,
            // Nobody reads a page because of a command.
            Sort::Command => return Vec::new(),
        };
        addresses.iter().map(|address| hash(address)).filter(|hash| remember(pages, *hash)).collect()
    }

    /// Hosts that are named, and the public web where this very page was given; or where the person lets agents read the web,
    /// and the page was found or is of a host that is named. A page may be elsewhere by now, and is still that page.
    fn ceiling(&self, mut allowed: Vec<String>, address: &str) -> Vec<String> {
        let may_read = allowed.iter().any(|entry| entry == WEB);
        allowed.retain(|entry| entry != WEB);
        let page = plain(address).map(|address| hash(&address));
        let is = |pages: &VecDeque<Hash>| page.is_some_and(|page| pages.contains(&page));
        if is(&self.given) || may_read && (is(&self.found) || is_named(&allowed, address)) {
            allowed.push(WEB.to_owned());
        }
        allowed
    }
}

fn hash(address: &str) -> Hash {
    Hash(Sha256::digest(address).into())
}

fn is_named(allowed: &[String], address: &str) -> bool {
    let place = Url::parse(address).ok().and_then(|url| host_and_port(&url).ok());
    place.is_some_and(|(host, port)| allowed.iter().any(|entry| names_host(entry, &host, port)))
}

/// Whether it is new.
fn remember(pages: &mut VecDeque<Hash>, page: Hash) -> bool {
    if pages.contains(&page) {
        return false;
    }
    if pages.len() >= PAGES_MAX {
        pages.pop_front();
    }
    pages.push_back(page);
    true
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
        let mut pages = Known::default();
        let said = serde_json::json!({"prompt": "Compare (https://a.example/x?y=1#top), http://b.example.",
            "context": [{"url": "https://c.example/page_"}, {"path": "notes"}]});
        assert_eq!(pages.learn(Sort::Given, &addresses(&said)).len(), 3);
        assert_eq!(pages.learn(Sort::Given, &addresses(&said)), [], "it is kept once");
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
        let mut pages = Known::default();
        pages.learn(Sort::Found, &["https://found.example/".to_owned()]);
        let web = vec![WEB.to_owned(), "named.example:443".to_owned()];
        assert_eq!(pages.ceiling(web.clone(), "https://found.example/"), ["named.example:443", WEB]);
        assert_eq!(pages.ceiling(web, "https://made.up/?secret"), ["named.example:443"], "others are asked about");
        assert!(pages.ceiling(Vec::new(), "https://found.example/").is_empty());
        let named = vec![WEB.to_owned(), "named.example:443".to_owned()];
        assert!(pages.ceiling(named, "https://named.example/moved").contains(&WEB.to_owned()), "wherever it leads");
    }

    #[tokio::test]
    async fn the_file_forgets_the_oldest_of_each_sort_too() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&directory.path().join("control.sqlite")).unwrap();
        let many: Vec<Hash> = (0..=PAGES_MAX).map(|number| hash(&number.to_string())).collect();
        db.keep_pages_soon(Sort::Given, many[..1].to_vec()).await.unwrap();
        db.keep_pages_soon(Sort::Found, many.clone()).await.unwrap();
        assert_eq!(db.pages(Sort::Found).await.unwrap(), many[1..]);
        assert_eq!(db.pages(Sort::Given).await.unwrap(), many[..1], "the same page, for another reason");
    }

    #[test]
    fn the_oldest_are_forgotten_and_texts_end() {
        let mut pages = Known::default();
        let many: Vec<String> = (0..=PAGES_MAX).map(|number| format!("https://x.example/{number}")).collect();
        pages.learn(Sort::Found, &many);
        assert_eq!((pages.found.len(), pages.found.contains(&hash(&many[0]))), (PAGES_MAX, false));
        assert!(in_text(&"http://".repeat(1000)).len() <= 1);
        assert_eq!(in_text(&"http://x ".repeat(1000)).len(), NAMED_MAX);
        assert_eq!(in_text("<https://x.example/a> 'http://y.example' é"), ["https://x.example/a", "http://y.example/"]);
    }
}
