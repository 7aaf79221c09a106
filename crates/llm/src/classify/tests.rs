use super::*;

fn class(status: u16, body: &str) -> ErrorClass {
    classify(Format::OpenAi, status, &[], body.as_bytes()).class
}

#[test]
fn the_status_decides_when_the_body_says_nothing() {
    for (status, expected) in [
        (200, ErrorClass::Garbage),
        (301, ErrorClass::BadRequest),
        (400, ErrorClass::BadRequest),
        (401, ErrorClass::Auth),
        (402, ErrorClass::Auth),
        (403, ErrorClass::Auth),
        (404, ErrorClass::BadRequest),
        (408, ErrorClass::Timeout),
        (413, ErrorClass::TooLong),
        (429, ErrorClass::RateLimit),
        (500, ErrorClass::Overloaded),
        (502, ErrorClass::Overloaded),
        (504, ErrorClass::Timeout),
        (529, ErrorClass::Overloaded),
    ] {
        assert_eq!(class(status, ""), expected, "{status}");
    }
}

#[test]
fn the_body_knows_better_than_the_status() {
    let anthropic = |kind: &str| format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
    for (status, body, expected) in [
        (200, anthropic("overloaded_error"), ErrorClass::Overloaded),
        (400, anthropic("authentication_error"), ErrorClass::Auth),
        (500, anthropic("timeout_error"), ErrorClass::Timeout),
        (404, anthropic("not_found_error"), ErrorClass::BadRequest),
        (400, anthropic("invalid_request_error"), ErrorClass::BadRequest),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#
                .into(),
            ErrorClass::Auth,
        ),
        (
            429,
            r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#.into(),
            ErrorClass::Auth,
        ),
        (
            429,
            r#"{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}"#.into(),
            ErrorClass::RateLimit,
        ),
        (400, r#"{"error":{"message":"m","code":"content_filter"}}"#.into(), ErrorClass::Refused),
        (400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#.into(), ErrorClass::TooLong),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#.into(),
            ErrorClass::TooLong,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}"#.into(),
            ErrorClass::TooLong,
        ),
        (413, String::new(), ErrorClass::TooLong),
        (200, r#"{"error":{"message":"m","code":429}}"#.into(), ErrorClass::RateLimit),
        (429, r#"{"error":{"message":"m","type":"engine_overloaded_error"}}"#.into(), ErrorClass::Overloaded),
        (404, r#"{"error":"model 'x' not found"}"#.into(), ErrorClass::BadRequest),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#.into(),
            ErrorClass::Overloaded,
        ),
        (401, r#"{"detail":"Unauthorized"}"#.into(), ErrorClass::Auth),
        (500, r#"{"error":null}"#.into(), ErrorClass::Overloaded),
        (502, "<html><title>Bad gateway</title></html>".into(), ErrorClass::Overloaded),
        (200, "<!doctype html><p>login".into(), ErrorClass::Garbage),
    ] {
        assert_eq!(class(status, &body), expected, "{status} {body}");
    }
}

#[test]
fn the_wait_is_read_wherever_it_stands() {
    let wait = |headers: &[(&str, &str)], body: &str| {
        classify(Format::Anthropic, 429, headers, body.as_bytes()).retry_after_ms
    };
    assert_eq!(wait(&[("Retry-After", "2")], ""), Some(2000));
    assert_eq!(wait(&[("retry-after", "0.25")], ""), Some(250));
    assert_eq!(wait(&[("retry-after", "9"), ("retry-after-ms", "1500")], ""), Some(1500));
    let (at, now) = (("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"), ("Date", "Wed, 21 Oct 2026 07:27:48 GMT"));
    assert_eq!(wait(&[at, now], ""), Some(12_000), "by the provider's own clock");
    assert_eq!(wait(&[at], ""), None, "nobody knows how long that is");
    assert_eq!(wait(&[at, ("date", "Wed, 21 Oct 2026 08:00:00 GMT")], ""), Some(0), "what is over is over");
    assert_eq!(wait(&[at, ("date", "Wed, 21 Oct 2020 08:00:00 GMT")], ""), Some(RETRY_AFTER_MS_MAX));
    assert_eq!(wait(&[("retry-after", "Wed, 99 Foo 2026 07:28:00 GMT"), now], ""), None);
    assert_eq!(wait(&[("retry-after", "-1")], ""), None);
    assert_eq!(wait(&[("retry-after", "inf")], ""), None);
    assert_eq!(wait(&[("retry-after", "1e300")], ""), Some(RETRY_AFTER_MS_MAX));
    let told =
        |span: &str| wait(&[], &format!(r#"{{"error":{{"message":"Limit. Please try again in {span}. Bye."}}}}"#));
    assert_eq!(told("1.5s"), Some(1500));
    assert_eq!(told("20ms"), Some(20));
    assert_eq!(told("6m0s"), Some(360_000));
    assert_eq!(told("a while"), None);
    assert_eq!(classify(Format::OpenAi, 400, &[], b"try again in 2s").retry_after_ms, None);
}

#[test]
fn messages_are_short_single_lines_without_keys() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-proj-abcdefghijkl.\nSee \u001b[31mdocs","code":"invalid_api_key"}}"#;
    let error = classify(Format::OpenAi, 401, &[], body.as_bytes());
    assert_eq!(
        error.message,
        "the provider does not accept the key or the account (status 401): Incorrect API key provided: [redacted] See [31mdocs"
    );
    let long = classify(Format::OpenAi, 500, &[], "é ".repeat(100_000).as_bytes());
    assert_eq!(long.message.chars().count(), MESSAGE_CHARS_MAX);
    let page = classify(Format::OpenAi, 502, &[], b"<HTML><head><TITLE>\n502 Bad Gateway</title>");
    assert_eq!(
        page.message,
        "the provider is overloaded or failing (status 502): a web page (\u{201c}502 Bad Gateway\u{201d})"
    );
    assert_eq!(classify(Format::OpenAi, 500, &[], b"").message, "the provider is overloaded or failing (status 500)");
}

#[test]
fn any_bytes_are_classified() {
    for body in [&b"\xff\xfe{"[..], b"[]", b"[[[[", b"null", b"{\"error\":[1]}", b"<title>"] {
        assert_eq!(classify(Format::Anthropic, 500, &[("", "\u{0}")], body).class, ErrorClass::Overloaded);
    }
}
