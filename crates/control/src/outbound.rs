//! Everything that leaves this machine leaves here. No other module opens a connection to the outside.

use reqwest::Client;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A server that is there answers the handshake in this time.
const CONNECT: Duration = Duration::from_secs(15);
/// A stream that says nothing for so long is dead: providers send keep-alives, and those are cut by the total.
const IDLE: Duration = Duration::from_secs(120);
/// No answer is worth more.
const TOTAL: Duration = Duration::from_secs(20 * 60);

/// The client for the outside. Made at its first use: reading the machine's certificates takes time and memory that an
/// idle instance should not pay for.
#[derive(Debug, Clone, Default)]
pub struct Outbound {
    client: Arc<OnceLock<Client>>,
}

impl Outbound {
    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = make()?;
        Ok(self.client.get_or_init(|| made))
    }

    /// Begins a `POST` and returns when the head of the answer is there.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: &[(&str, String)],
        body: Vec<u8>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let request = self.client()?.post(url).body(body);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, value)).send().await
    }

    /// A `GET` whose answer may be long.
    pub(crate) async fn get_stream(
        &self,
        url: &str,
        headers: &[(&str, String)],
    ) -> Result<reqwest::Response, reqwest::Error> {
        let request = self.client()?.get(url);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, value)).send().await
    }

    /// A small `GET`, for lists of models.
    pub(crate) async fn get(&self, url: &str, headers: &[(&str, String)]) -> Result<reqwest::Response, reqwest::Error> {
        let request = self.client()?.get(url).timeout(CONNECT);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, value)).send().await
    }
}

/// Without proxies from the environment, cookies or redirects: a key goes where it was meant to and nowhere else.
fn make() -> Result<Client, reqwest::Error> {
    // The first caller wins; every later one finds what it wanted.
    rustls::crypto::ring::default_provider().install_default().ok();
    Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(IDLE)
        .timeout(TOTAL)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .user_agent(concat!("choir/", env!("CARGO_PKG_VERSION")))
        .build()
}
