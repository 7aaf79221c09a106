//! The account at AWS, as its own tools find it: in the environment. Read at each call, because such credentials end.

use choir_llm::bedrock::{Credentials, amz_date, sign};
use choir_llm::{Outgoing, Secret};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where models are when nobody says.
const REGION: &str = "us-east-1";

/// Where models are.
pub(super) fn region() -> String {
    let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
    named.unwrap_or_else(|| REGION.to_owned())
}

/// Whether there is anything to sign with.
pub(super) fn is_known() -> bool {
    credentials().is_some()
}

/// Signs a request, if there is anything to sign with.
pub(super) fn sign_now(outgoing: &mut Outgoing) {
    if let Some(credentials) = credentials() {
        // A clock before 1970 signs what nobody accepts, and is told so.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        sign(outgoing, &credentials, &amz_date(now.as_secs()));
    }
}

fn credentials() -> Option<Credentials> {
    let secret = |name: &str| variable(name).and_then(|value| Secret::parse(&value).ok());
    Some(Credentials {
        access_key: variable("AWS_ACCESS_KEY_ID")?,
        secret_key: secret("AWS_SECRET_ACCESS_KEY")?,
        session_token: secret("AWS_SESSION_TOKEN"),
        region: region(),
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
