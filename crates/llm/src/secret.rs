//! A provider's key, and keeping it out of everything that people and logs see.

use std::borrow::Cow;
use std::fmt;

/// Longest key accepted. Real ones stay below 300 bytes; long-lived tokens of clouds reach a few thousand.
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// What stands in a text where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Shortest text that is worth redacting: a shorter "key" would blot out ordinary words.
const REDACT_BYTES_MIN: usize = 4;

/// How keys of the known providers begin.
const KEY_PREFIXES: [&str; 29] = [
    "sk-",
    "sk_",
    "pk-",
    "rk-",
    "gsk_",
    "xai-",
    "key-",
    "AIza",
    "AKIA",
    "ASIA",
    "eyJ",
    "ya29.",
    "glpat-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxs-",
    "hf_",
    "npm_",
    "pypi-",
    "tvly-",
    "dop_v1_",
];

/// The length of the secret half of a key of AWS, which begins like nothing and holds slashes.
const AWS_SECRET_BYTES: usize = 40;

/// Shortest text after a known beginning that is taken for a key.
const PREFIXED_BYTES_MIN: usize = 8;

/// Shortest unbroken run of letters and digits that is taken for a key. Model names and UUIDs have shorter ones.
const RUN_BYTES_MIN: usize = 24;

/// A provider's key. Printing it in any way gives a placeholder; only [`Secret::expose`] gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a text cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing but blanks.
    #[error("the key is empty")]
    Empty,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the key is longer than {KEY_BYTES_MAX} bytes")]
    Long,
    /// It would break the header that carries it.
    #[error("the key contains blanks or characters outside ASCII; copy it again without line breaks")]
    Characters,
}

impl Secret {
    /// Takes a key as people paste it: blanks around it do not count.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let key = text.trim();
        if key.is_empty() {
            return Err(SecretError::Empty);
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(SecretError::Long);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Characters);
        }
        Ok(Self(key.to_owned()))
    }

    /// The key itself, for the header of a request and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text without this key and without anything that looks like one.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < REDACT_BYTES_MIN {
            return redact(text);
        }
        redact(&text.replace(&self.0, REDACTED))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret([redacted])")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// A text without anything that looks like a key: providers like to quote the key they refuse.
pub fn redact(text: &str) -> String {
    let text = without_passwords(text);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    let mut after_bearer = false;
    while let Some(start) = rest.find(in_word) {
        let word_len = rest[start..].find(|c| !in_word(c)).unwrap_or(rest.len() - start);
        let (before, word) = (&rest[..start], &rest[start..start + word_len]);
        clean.push_str(before);
        clean.push_str(redact_word(word, after_bearer));
        after_bearer = word.eq_ignore_ascii_case("bearer");
        rest = &rest[start + word_len..];
    }
    clean.push_str(rest);
    clean
}

/// A text whose addresses name nobody's password: `https://me:[redacted]@host`.
fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let authority = &rest[at + "://".len()..];
        let end = authority
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(authority.len());
        let named = authority[..end].rsplit_once('@').and_then(|(who, _)| Some((who, who.split_once(':')?.0)));
        let (kept, skipped) = match named {
            Some((who, name)) => (format!("{name}:{REDACTED}"), who.len()),
            None => (String::new(), 0),
        };
        clean.push_str(&rest[..at + "://".len()]);
        clean.push_str(&kept);
        rest = &authority[skipped..];
    }
    if clean.is_empty() {
        return text.into();
    }
    clean.push_str(rest);
    clean.into()
}

/// Characters that keys are made of, with `*` and `.` for keys that were shortened by the provider.
fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+' | '/' | '=')
}

fn redact_word(word: &str, after_bearer: bool) -> &str {
    let prefixed = word.len() >= PREFIXED_BYTES_MIN && KEY_PREFIXES.iter().any(|prefix| holds_prefix(word, prefix));
    if prefixed || has_key_run(word) || is_aws_secret(word) || (after_bearer && word.len() >= PREFIXED_BYTES_MIN) {
        return REDACTED;
    }
    word
}

/// At the start of the word or of a part of it, as in `key=sk-…`; `task-…` is no key.
fn holds_prefix(word: &str, prefix: &str) -> bool {
    word.starts_with(prefix) || word.split(['=', '/']).any(|part| part.starts_with(prefix))
}

fn is_aws_secret(word: &str) -> bool {
    let key = word.rsplit_once('=').map_or(word, |(_, key)| key);
    let all = |is: fn(&u8) -> bool| key.bytes().any(|byte| is(&byte));
    key.len() == AWS_SECRET_BYTES
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        && all(u8::is_ascii_digit)
        && all(u8::is_ascii_lowercase)
        && all(u8::is_ascii_uppercase)
}

fn has_key_run(word: &str) -> bool {
    word.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= RUN_BYTES_MIN
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_prints() {
        let key = Secret::parse("  sk-ant-api03-abcdefgh\n").unwrap();
        assert_eq!(key.expose(), "sk-ant-api03-abcdefgh");
        assert!(!format!("{key:?} {key}").contains("abcdefgh"));
    }

    #[test]
    fn what_cannot_be_a_header_is_no_key() {
        assert_eq!(Secret::parse(" \n"), Err(SecretError::Empty));
        assert_eq!(Secret::parse("a\r\nx-evil: 1"), Err(SecretError::Characters));
        assert_eq!(Secret::parse("schlüssel"), Err(SecretError::Characters));
        assert_eq!(Secret::parse(&"k".repeat(KEY_BYTES_MAX + 1)), Err(SecretError::Long));
    }

    #[test]
    fn keys_are_taken_out_and_words_stay() {
        let check = |text: &str, clean: &str| assert_eq!(redact(text), clean);
        check("Incorrect API key provided: sk-proj-12*****wxyz.", "Incorrect API key provided: [redacted]");
        check("model: claude-sonnet-4-5-20250929 not found", "model: claude-sonnet-4-5-20250929 not found");
        check("use Bearer abcdefghijkl now", "use Bearer [redacted] now");
        check("0123456789abcdef0123456789abcdef.AbCdEf", "[redacted]");
        check("id 019a8b1c-1111-7abc-8def-0123456789ab", "id 019a8b1c-1111-7abc-8def-0123456789ab");
        check("?key=AIzaSyABCDEFGH", "?[redacted]");
        check("secret=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "[redacted]");
        check("glpat-12345678ab xoxb-12-34-abcd ghp_abcdefgh", "[redacted] [redacted] [redacted]");
        check("git clone https://me:hunter2@host/r.git now", "git clone https://me:[redacted]@host/r.git now");
        check("http://host:80/a@b and http://[::1]:80/", "http://host:80/a@b and http://[::1]:80/");
        check("crates/desktop/src/page/apps/settings/a2b", "crates/desktop/src/page/apps/settings/a2b");
        check("the task-force, über alles", "the task-force, über alles");
    }

    #[test]
    fn the_key_itself_is_taken_out_whatever_it_looks_like() {
        let key = Secret::parse("plain-word").unwrap();
        assert_eq!(key.redact("got 'plain-word'"), "got '[redacted]'");
    }
}
