//! The desktop's files, embedded in the binary at build time.

use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

/// One file.
#[derive(Debug)]
pub(super) struct Asset {
    path: &'static str,
    bytes: &'static [u8],
    /// The same, compressed when the desktop was built.
    brotli: Option<&'static [u8]>,
}

const EMBEDDED: &[Asset] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
/// Control's own pages.
const OWN: &[Asset] = &[Asset { path: "/control.css", bytes: include_bytes!("control.css"), brotli: None }];

const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const REVALIDATE: &str = "no-cache";

/// A file by its path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    EMBEDDED.iter().chain(OWN).find(|asset| asset.path == path)
}

impl Asset {
    /// The answer, compressed if the browser takes it so.
    pub(super) fn respond(&self, headers: &HeaderMap) -> Response {
        let compressed = self.brotli.filter(|_| takes_brotli(headers));
        let mut response = compressed.unwrap_or(self.bytes).into_response();
        let answer = response.headers_mut();
        answer.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(self.path)));
        answer.insert(VARY, HeaderValue::from_static("accept-encoding"));
        let cache = if is_hashed(self.path) { IMMUTABLE } else { REVALIDATE };
        answer.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
        if compressed.is_some() {
            answer.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        response
    }
}

fn takes_brotli(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        name.trim().eq_ignore_ascii_case("br") && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

/// `name-HASH.ext`: such a name never means other bytes.
fn is_hashed(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let Some((stem, _extension)) = file.rsplit_once('.') else { return false };
    let stem = stem.strip_suffix("_bg").unwrap_or(stem);
    let Some((_, hash)) = stem.rsplit_once(['-', '.']) else { return false };
    let hex = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let base32 = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z'));
    (8..=64).contains(&hash.len()) && (hex || base32)
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashed_names_are_kept_for_good() {
        for name in ["/app-0a1b2c3d.js", "/x/chunk-ABCDEFG7.js", "/desktop-0a1b2c3d4e_bg.wasm"] {
            assert!(is_hashed(name), "{name}");
        }
        for name in ["/index.html", "/control.css", "/desktop_bg.wasm", "/a-short.js", "/some-language.js"] {
            assert!(!is_hashed(name), "{name}");
        }
    }

    #[test]
    fn brotli_is_sent_only_to_those_who_take_it() {
        let takes = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_brotli(&headers)
        };
        assert!(takes("gzip, deflate, br") && takes("br;q=0.5"));
        assert!(!takes("gzip") && !takes("br;q=0") && !takes("brx"));
        assert!(!takes_brotli(&HeaderMap::new()));
    }
}
