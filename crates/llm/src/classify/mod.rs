//! Failures of providers, by what can be done about them.

use crate::format::Format;
use crate::secret::redact;
use choir_proto::model::{ErrorClass, ModelError};
use serde_json::Value;

/// Longest message for a person.
pub const MESSAGE_CHARS_MAX: usize = 400;

/// Longest wait that a provider can ask for: a day. What is later is not worth waiting for.
pub const RETRY_AFTER_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// How much of a text is looked at for a message; redacting comes before cutting, and must not see megabytes.
const EXCERPT_BYTES_MAX: usize = 4 * 1024;

/// What an answer means that is not an answer: its status, its headers and the beginning of its body.
///
/// Also for a status of success whose body is no answer. The caller's own key should be taken out of the message with
/// [`crate::Secret::redact`] as well: what merely looks like a key is taken out here.
pub fn classify(format: Format, status: u16, headers: &[(&str, &str)], body_prefix: &[u8]) -> ModelError {
    let text = String::from_utf8_lossy(body_prefix);
    let said = serde_json::from_str(&text).ok().and_then(|body: Value| Said::in_body(&body));
    let class = said.as_ref().and_then(Said::class).unwrap_or_else(|| class_of_status(status));
    let detail = match &said {
        Some(said) => said.message.clone(),
        None if is_page(&text) => format!("a web page{}", page_title(&text)),
        None => text.trim().to_owned(),
    };
    let retry_after_ms = retry_after(headers).or_else(|| waiting(class, &detail));
    let mut error = fault(class, &sentence(format, class, status, &detail));
    error.retry_after_ms = retry_after_ms;
    error
}

/// The failure that an event or a body of status 200 tells of; nothing if it tells of none.
pub(crate) fn failure_in(body: &Value) -> Option<ModelError> {
    let said = Said::in_body(body)?;
    let class = said.class().unwrap_or(ErrorClass::Overloaded);
    let mut error = fault(class, &format!("the provider failed while answering: {}", said.message));
    error.retry_after_ms = waiting(class, &said.message);
    Some(error)
}

/// An error whose message is fit for people: short, one line, without keys.
pub(crate) fn fault(class: ErrorClass, message: &str) -> ModelError {
    let excerpt = crate::arguments::prefix(message, EXCERPT_BYTES_MAX);
    let clean = redact(excerpt);
    let words: Vec<&str> =
        clean.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let cut = line.chars().count() > MESSAGE_CHARS_MAX;
    let mut message: String = line.chars().take(MESSAGE_CHARS_MAX - usize::from(cut)).collect();
    if cut {
        message.push('…');
    }
    ModelError { class, message, retry_after_ms: None }
}

/// The title of a page in brackets, or nothing.
pub(crate) fn page_title(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = || {
        let open = lower.find("<title")?;
        let start = open + lower[open..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(page[start..end].trim().to_owned()).filter(|title| !title.is_empty())
    };
    title().map(|title| format!(" (“{title}”)")).unwrap_or_default()
}

fn is_page(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// What a provider says about its failure, in any of the shapes that are about.
struct Said {
    message: String,
    /// Types and codes, most telling first.
    words: Vec<String>,
}

impl Said {
    fn in_body(body: &Value) -> Option<Self> {
        // Some gateways wrap the error in a list.
        let body = body.get(0).unwrap_or(body);
        match body.get("error") {
            Some(Value::String(message)) => Some(Self { message: message.clone(), words: words(body) }),
            Some(error @ Value::Object(_)) => {
                Some(Self { message: message(error).unwrap_or_default(), words: words(error) })
            }
            Some(_) | None => Self::bare(body),
        }
    }

    /// Without an `error`: only if the body cannot be an answer.
    fn bare(body: &Value) -> Option<Self> {
        if body.get("choices").is_some() || body.get("content").is_some() {
            return None;
        }
        message(body).map(|message| Self { message, words: words(body) })
    }

    fn class(&self) -> Option<ErrorClass> {
        let told = is_too_long(&self.message).then_some(ErrorClass::TooLong);
        told.or_else(|| self.words.iter().find_map(|word| class_of_word(word)))
            .or_else(|| class_of_message(&self.message))
    }
}

fn message(error: &Value) -> Option<String> {
    ["message", "detail", "error_msg", "msg"].into_iter().find_map(|name| error.get(name)).map(as_text)
}

fn words(error: &Value) -> Vec<String> {
    ["code", "type", "status", "error_type"].into_iter().filter_map(|name| error.get(name)).map(as_text).collect()
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn class_of_status(status: u16) -> ErrorClass {
    match status {
        401..=403 => ErrorClass::Auth,
        408 | 504 | 522 | 524 => ErrorClass::Timeout,
        413 => ErrorClass::TooLong,
        429 => ErrorClass::RateLimit,
        300..=499 => ErrorClass::BadRequest,
        500..=599 => ErrorClass::Overloaded,
        _ => ErrorClass::Garbage,
    }
}

/// Types and codes of the providers we know. More telling than the status: an empty account answers 429 like a rate
/// limit, but waiting does not help.
fn class_of_word(word: &str) -> Option<ErrorClass> {
    Some(match word {
        "authentication_error"
        | "permission_error"
        | "billing_error"
        | "insufficient_quota"
        | "invalid_api_key"
        | "account_deactivated"
        | "exceeded_current_quota_error"
        | "invalid_authentication_error"
        | "incorrect_api_key_error"
        | "permission_denied_error"
        | "1000"
        | "1001"
        | "1002"
        | "1003"
        | "1004"
        | "1113" => ErrorClass::Auth,
        "rate_limit_error" | "rate_limit_exceeded" | "rate_limit_reached_error" | "1302" | "1303" | "1304" | "1308" => {
            ErrorClass::RateLimit
        }
        "overloaded_error"
        | "api_error"
        | "server_error"
        | "engine_overloaded_error"
        | "unavailable_error"
        | "internal_server_error"
        | "1305" => ErrorClass::Overloaded,
        "timeout_error" => ErrorClass::Timeout,
        "content_filter" | "content_policy_violation" | "1301" => ErrorClass::Refused,
        "context_length_exceeded" | "exceed_context_size_error" | "request_too_large" => ErrorClass::TooLong,
        "model_not_found" | "not_found_error" | "resource_not_found_error" => ErrorClass::BadRequest,
        number => return number.parse().ok().filter(|code| (400..600).contains(code)).map(class_of_status),
    })
}

/// The few cases where the only hint is a sentence.
fn class_of_message(message: &str) -> Option<ErrorClass> {
    let message = message.to_ascii_lowercase();
    let says = |part: &str| message.contains(part);
    if says("credit balance is too low") || says("insufficient balance") {
        return Some(ErrorClass::Auth);
    }
    if says("content management policy") || says("flagged") && says("moderation") {
        return Some(ErrorClass::Refused);
    }
    None
}

/// Sentences about a window that is too small. Many servers have no word for it, or one that means much else.
fn is_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |part: &str| message.contains(part);
    says("prompt is too long")
        || says("maximum context length")
        || says("exceeds the available context size")
        || says("input is too long for requested model")
        || (says("context") && says("window") && says("exceed"))
}

/// Milliseconds before seconds, and seconds before a date. A date is counted from the one that the answer bears itself: no
/// clock of ours has to agree with the provider's.
fn retry_after(headers: &[(&str, &str)]) -> Option<u64> {
    let header = |wanted: &str| {
        let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    };
    let number = |wanted: &str| header(wanted).and_then(|value| value.parse::<f64>().ok());
    let date = |wanted: &str| header(wanted).and_then(|value| httpdate::parse_http_date(value).ok());
    let until = || {
        let (until, now) = (date("retry-after")?, date("date")?);
        // What is over needs no waiting.
        milliseconds(until.duration_since(now).unwrap_or_default().as_secs_f64() * 1000.0)
    };
    number("retry-after-ms")
        .and_then(milliseconds)
        .or_else(|| number("retry-after").and_then(|s| milliseconds(s * 1000.0)))
        .or_else(until)
}

fn milliseconds(wait: f64) -> Option<u64> {
    // The conversion saturates, and the bound follows.
    (wait.is_finite() && wait >= 0.0).then(|| (wait.ceil() as u64).min(RETRY_AFTER_MS_MAX))
}

/// OpenAI writes the wait into the sentence: "Please try again in 1.5s".
fn waiting(class: ErrorClass, message: &str) -> Option<u64> {
    if class != ErrorClass::RateLimit {
        return None;
    }
    let (_, after) = message.split_once("try again in ")?;
    let span = after.split_whitespace().next()?.trim_end_matches('.');
    let mut rest = span;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let unit_len = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        total += amount * unit_ms(&rest[digits..digits + unit_len])?;
        rest = &rest[digits + unit_len..];
    }
    milliseconds(total)
}

fn unit_ms(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(1.0),
        "s" => Some(1000.0),
        "m" => Some(60_000.0),
        "h" => Some(3_600_000.0),
        _ => None,
    }
}

fn sentence(format: Format, class: ErrorClass, status: u16, detail: &str) -> String {
    let what = match class {
        ErrorClass::Auth => "the provider does not accept the key or the account",
        ErrorClass::RateLimit => "the provider asks to slow down",
        ErrorClass::Overloaded => "the provider is overloaded or failing",
        ErrorClass::Timeout => "the provider took too long",
        ErrorClass::Refused => "the provider declined this content",
        ErrorClass::TooLong => "the conversation does not fit the model",
        ErrorClass::BadRequest if status == 404 => "the provider does not know this model or address",
        ErrorClass::BadRequest if status < 400 => "the address answers with a redirect; check base_url",
        ErrorClass::BadRequest => "the provider finds the request wrong",
        ErrorClass::Garbage
        | ErrorClass::Oversized
        | ErrorClass::Truncated
        | ErrorClass::NoModel
        | ErrorClass::Budget => {
            return format!("the provider's answer is no {} answer (status {status}): {detail}", format.name());
        }
    };
    match detail {
        "" => format!("{what} (status {status})"),
        detail => format!("{what} (status {status}): {detail}"),
    }
}

#[cfg(test)]
mod tests;
