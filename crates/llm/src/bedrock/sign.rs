//! Signatures of AWS, version 4. Pure: the time is told.

use crate::endpoint::Outgoing;
use crate::secret::Secret;
use sha2::{Digest, Sha256};

/// What the provider's side of the signature is called.
const SERVICE: &str = "bedrock";
/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Who signs.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The id of the key; no secret.
    pub access_key: String,
    /// The key.
    pub secret_key: Secret,
    /// Of credentials that end.
    pub session_token: Option<Secret>,
    /// Where the models are, for example `us-east-1`.
    pub region: String,
}

/// Signs a request. `at` is the time as [`amz_date`] writes it.
pub fn sign(outgoing: &mut Outgoing, credentials: &Credentials, at: &str) {
    outgoing.headers.retain(|(name, _)| *name != "authorization");
    let (host, path) = host_and_path(&outgoing.url);
    let mut signed = vec![("host", host.to_owned()), ("x-amz-date", at.to_owned())];
    if let Some(token) = &credentials.session_token {
        signed.push(("x-amz-security-token", token.expose().to_owned()));
    }
    let canonical = canonical(outgoing.method, path, &signed, &outgoing.body);
    let authorization = authorization(&canonical, &signed, credentials, SERVICE, at);
    outgoing.headers.extend(signed.into_iter().skip(1));
    outgoing.headers.push(("authorization", authorization));
}

/// What is signed of a request.
fn canonical(method: &str, path: &str, signed: &[(&'static str, String)], body: &[u8]) -> String {
    let headers: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    format!("{method}\n{}\n\n{headers}\n{}\n{}", twice(path), names(signed), hex(&Sha256::digest(body)))
}

fn names(signed: &[(&'static str, String)]) -> String {
    signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

fn authorization(
    canonical: &str,
    signed: &[(&'static str, String)],
    credentials: &Credentials,
    service: &str,
    at: &str,
) -> String {
    let names = names(signed);
    let date = at.get(..8).unwrap_or(at);
    let scope = format!("{date}/{}/{service}/aws4_request", credentials.region);
    let text = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let secret = format!("AWS4{}", credentials.secret_key.expose());
    let parts = [date, &credentials.region, service, "aws4_request"];
    let key = parts.iter().fold(secret.into_bytes(), |key, part| hmac(&key, part.as_bytes()).to_vec());
    let signature = hex(&hmac(&key, text.as_bytes()));
    let id = &credentials.access_key;
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
}

/// The path as it is signed: what is escaped is escaped again.
fn twice(path: &str) -> String {
    path.replace('%', "%25")
}

fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    (host, if path.is_empty() { "/" } else { path })
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    match key.len() <= BLOCK {
        true => block[..key.len()].copy_from_slice(key),
        false => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let keyed =
        |with: u8, text: &[u8]| Sha256::new().chain_update(block.map(|byte| byte ^ with)).chain_update(text).finalize();
    keyed(0x5c, &keyed(0x36, text)).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time as AWS writes it, from seconds since 1970.
pub fn amz_date(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Days of the civil calendar, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * part + 2) / 5 + 1, if part < 10 { part + 3 } else { part - 9 });
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        Credentials {
            access_key: "AKIDEXAMPLE".into(),
            secret_key: Secret::parse("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").unwrap(),
            session_token: None,
            region: "us-east-1".into(),
        }
    }

    #[test]
    fn the_documented_example_has_the_documented_signature() {
        let signed = [("host", "example.amazonaws.com".to_owned()), ("x-amz-date", "20150830T123600Z".to_owned())];
        let canonical = canonical("GET", "/", &signed, b"");
        let said = authorization(&canonical, &signed, &credentials(), "service", "20150830T123600Z");
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
            SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
        assert_eq!(said, expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(amz_date(0), "19700101T000000Z");
        assert_eq!(amz_date(951_827_696), "20000229T123456Z");
        assert_eq!(amz_date(1_440_938_160), "20150830T123600Z");
    }

    #[test]
    fn a_signed_request_shows_no_secret() {
        let mut outgoing =
            Outgoing::post("https://h.example/model/a%3A0/converse-stream".into(), &serde_json::json!({}));
        sign(&mut outgoing, &credentials(), "20150830T123600Z");
        let all = format!("{:?}", outgoing.headers);
        assert!(all.contains("AKIDEXAMPLE/20150830/us-east-1/bedrock") && !all.contains("wJalr"), "{all}");
    }
}
