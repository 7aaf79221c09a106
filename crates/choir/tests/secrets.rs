//! Canaries through the real binary: its log at its loudest shows none of them.

use crate::support::{Instance, stdout};

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "hm"}]}}"#;

#[test]
fn no_secret_is_logged_at_any_level() {
    let mut log = tempfile::NamedTempFile::new().unwrap();
    let instance = Instance::start_traced(SCENARIO, log.reopen().unwrap());
    let token = instance.token("admin");
    let bearer = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
    let key = "sk-canary-0123456789abcdef";
    let body = format!(r#"{{"kind":"openai","base_url":"http://127.0.0.1:9","key":"{key}"}}"#);
    assert!(instance.http("PUT /api/providers/mine", &bearer, &body).starts_with("HTTP/1.1 204"));
    instance.http("POST /api/providers/mine/test", &bearer, "");
    let sign_in = instance.url.split("token=").nth(1).unwrap().to_owned();
    let signed_in = instance.http(&format!("GET /?token={sign_in}"), "", "");
    let cookie = signed_in.split("set-cookie: ").nth(1).expect(&signed_in).split(';').next().unwrap();
    let session = cookie.split_once('=').unwrap().1.to_owned();
    let cookie = format!("cookie: {cookie}\r\n");
    assert!(instance.http("GET /api/settings", &cookie, "").contains(" 200 "));
    // Again, now that they are wrong: refusals are where values slip into messages.
    instance.http(&format!("GET /?token={sign_in}"), "", "");
    instance.http("DELETE /api/session", &cookie, "");
    instance.http("GET /api/settings", &cookie, "");
    let second = stdout(&instance.choir(&["token", "sign-in"]));
    let second = second.trim().split("token=").nth(1).unwrap().to_owned();
    instance.stop();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut log, &mut text).unwrap();
    assert!(text.contains("TRACE") && text.len() > 10_000, "the log was loud: {} bytes", text.len());
    for secret in [token.as_str(), key, &sign_in, &session, &second] {
        assert!(!text.contains(secret), "a secret is in the log");
        assert!(!text.contains(&secret[secret.len() / 2..]), "half of a secret is in the log");
    }
}
