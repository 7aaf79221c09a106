//! One call to a model: chosen, checked against the budget, sent, streamed through, and paid for.

use super::bill::Bill;
use super::cooling::Asker;
use super::listen::{Broken, STALL, let_end, listen};
use super::provider::{KeyFrom, Provider};
use super::tariff::Tariff;
use super::veil::Veil;
use super::{Chosen, Gateway, name_of};
use crate::config::ProviderKind;
use crate::db::Cost;
use choir_core::agent::is_hopeless;
use choir_llm::{Decoder, Endpoint, Format, Outgoing, Preset, classify, encode};
use choir_proto::model::{Answer, ErrorClass, Message, ModelError, ModelRequest, Part, StopReason};
use choir_proto::wire::{ModelCall, ModelFrame};
use choir_proto::{TaskId, Usd};
use http::header::DATE;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::sync::mpsc;

/// How much of a refusal is read for its message.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// What is asked for where a server does not say what it has: single-model servers ignore the name.
pub(super) const UNNAMED_MODEL: &str = "default";
/// Tasks whose failed attempts are remembered.
const TASKS_MAX: usize = 10_000;

/// Where the frames of an answer go. Its closing cancels the call.
pub(super) type Frames = mpsc::Sender<ModelFrame>;

impl Gateway {
    /// Asks a model and streams what comes back. Retries are not made here: `core` decides about them.
    pub(super) async fn call(&self, call: ModelCall, frames: &Frames) {
        let run = call.run;
        let ended = match self.ask(call, frames).await {
            Ok(answer) => ModelFrame::Answer(answer),
            Err(error) => {
                // Without a model every run that waits asks again whenever there may be one: health and the desktop say so, once.
                match error.class {
                    ErrorClass::NoModel => tracing::debug!(%run, "there is no model to ask"),
                    class => tracing::info!(?class, %run, "a model did not answer"),
                }
                ModelFrame::Error(error)
            }
        };
        // The computer has gone away or cancelled; nobody wants the end.
        frames.send(ended).await.ok();
    }

    /// Asks whose turn it is; where that one is asked in vain, the next at once.
    async fn ask(&self, mut call: ModelCall, frames: &Frames) -> Result<Answer, ModelError> {
        let (asked, wanted) = (call.request.model.clone(), call.request.tokens_max);
        let chosen = self.choose(asked.as_deref(), call.request.role);
        let mut failed = None;
        for chosen in self.in_turn(chosen, call.failures) {
            (call.request.model, call.request.tokens_max) = (asked.clone(), wanted);
            let name = name_of(&chosen);
            match self.ask_chosen(chosen, &mut call, frames).await {
                Err(error) if is_hopeless(&error) => failed = failed.or(Some(error)),
                answered => {
                    self.remember(&name, &answered, call.failures);
                    return answered;
                }
            }
        }
        Err(failed.unwrap_or_else(|| self.nobody(asked.as_deref())))
    }

    /// Whether a model answers is known to every call after it.
    fn remember(&self, name: &str, answered: &Result<Answer, ModelError>, failures: u32) {
        match answered {
            Ok(_) => self.0.failing.answered(name),
            Err(error) => self.0.failing.failed(name, error, failures),
        }
    }

    /// Why nobody can be asked. Where only a key is missing, that is what people want to know.
    fn nobody(&self, asked: Option<&str>) -> ModelError {
        let wanted = asked.and_then(|model| model.split_once('/')).map(|(provider, _)| provider);
        let is_meant = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let lacks =
            self.providers().into_iter().find(|known| known.key_from == KeyFrom::Missing && is_meant(&known.name));
        lacks.map_or_else(|| no_model(asked), |provider| keyless(&provider.name))
    }

    async fn ask_chosen(
        &self,
        (provider, model): Chosen,
        call: &mut ModelCall,
        frames: &Frames,
    ) -> Result<Answer, ModelError> {
        let model = match model {
            None if provider.scenario.is_none() => {
                // A run without money asks nobody, not even what there is. What an answer costs is known only then.
                drop(self.reserve(call, &Tariff::of(&provider, None), Usd(0), &provider.name).await?);
                Some(self.first_model(&provider).await)
            }
            model => model,
        };
        let asker = if call.insists { Asker::Person } else { Asker::Run };
        let tariff = Tariff::of(&provider, model.as_deref());
        let least = tariff.price.least(&call.request);
        let reserved = self.reserve(call, &tariff, least, &provider.name).await?;
        let wanted = call.request.tokens_max;
        call.request.tokens_max = wanted.min(tariff.price.affordable(&call.request, reserved.left));
        let is_short = call.request.tokens_max < wanted;
        let mut answer = match &provider.scenario {
            Some(scenario) => {
                // A timer that is due at once still takes until the clock's next millisecond.
                if !provider.pause.is_zero() {
                    tokio::time::sleep(provider.pause).await;
                }
                call.request.model = model.map(|model| format!("{}/{model}", provider.name));
                let answer = self.play(scenario, call, frames).await?;
                self.pay(Cost { run: call.run, model: answer.model.clone(), usage: answer.usage }).await?;
                answer
            }
            None => {
                let model = model.unwrap_or_default();
                let mut bill = Bill::new(self, call, &tariff, format!("{}/{model}", provider.name));
                let answered = self.ask_provider(&provider, &model, (&call.request, asker), frames, &mut bill).await;
                if let (Err(_), Some(usage)) = (&answered, bill.took()) {
                    frames.send(ModelFrame::Took { usage }).await.map_err(|_| cancelled())?;
                }
                let mut answer = answered?;
                tariff.charge(&call.request, &mut answer);
                self.pay(Cost { run: call.run, model: answer.model.clone(), usage: answer.usage }).await?;
                bill.is_paid().await;
                answer
            }
        };
        // Longer than the money is no fault of the model.
        if is_short && answer.stop == StopReason::Length {
            answer.stop = StopReason::Budget;
        }
        answer.window = provider.context_tokens;
        // Said with the answer, so that nobody has to ask about each call.
        let called = answer.message.tool_calls.iter().map(|call| &call.name);
        answer.free = Some(called.filter(|tool| self.settings().tools.is_free(tool)).cloned().collect());
        Ok(answer)
    }

    /// Asks a provider, unless it asked to be left alone or was asked as often as it may be, and tells whoever waits for whom.
    async fn ask_provider(
        &self,
        provider: &Provider,
        model: &str,
        (request, asker): (&ModelRequest, Asker),
        frames: &Frames,
        bill: &mut Bill<'_>,
    ) -> Result<Answer, ModelError> {
        let name = bill.model.clone();
        self.0.cooling.check(&name, asker)?;
        let entered = self.0.minutes.enter(provider, request)?;
        frames.send(ModelFrame::Asked { model: name.clone() }).await.map_err(|_| cancelled())?;
        let answered = self.stream(provider, model, request, frames, bill).await;
        if let Ok(answer) = &answered {
            self.0.minutes.took(entered.as_ref(), answer.usage.tokens());
            self.0.cooling.answered(&name);
        }
        let answered = answered.map_err(|error| told_of_pictures(error, request));
        answered.inspect_err(|error| self.0.cooling.heed(&name, error))
    }

    async fn play(
        &self,
        scenario: &choir_llm::scripted::Scenario,
        call: &ModelCall,
        frames: &Frames,
    ) -> Result<Answer, ModelError> {
        let script = scenario.answer_after(&call.request, self.0.failures.of(call))?;
        for delta in script.deltas {
            frames.send(ModelFrame::Delta(delta)).await.map_err(|_| cancelled())?;
        }
        if script.result.is_err() {
            self.0.failures.add(call);
        }
        script.result
    }

    async fn stream(
        &self,
        provider: &Provider,
        model: &str,
        request: &ModelRequest,
        frames: &Frames,
        bill: &mut Bill<'_>,
    ) -> Result<Answer, ModelError> {
        let (format, outgoing) = outgoing(provider, model, request)?;
        bill.asked().await;
        let sent = self.0.outbound.post(&outgoing.url, &outgoing.headers, outgoing.body).await;
        let response = sent.map_err(|error| unreachable(provider, error))?;
        if !response.status().is_success() {
            return Err(refused(provider, format, response).await);
        }
        bill.is_answered();
        let mut decoder = Decoder::new(format, bill.model.clone());
        let mut veil = Veil::of(provider.key.as_ref());
        let mut pieces = Box::pin(response.bytes_stream());
        listen(&mut decoder, &mut pieces, frames, &mut veil, &mut |bytes| bill.heard(bytes)).await.map_err(
            |broken| match broken {
                Broken::Connection(error) => unreachable(provider, error),
                Broken::Answer(error) => redacted(provider, error),
                Broken::Stalled => stalled(provider),
                Broken::Unwanted => cancelled(),
            },
        )?;
        let_end(pieces);
        decoder.finish().map(|answer| veil.clean(answer)).map_err(|error| redacted(provider, error))
    }

    /// Asks a provider for its models, until it has said them once.
    async fn first_model(&self, provider: &Provider) -> String {
        let listed =
            provider.first_model.get_or_try_init(|| async { self.first_listed(provider).await.ok_or(()) }).await;
        listed.map_or_else(|()| UNNAMED_MODEL.to_owned(), Clone::clone)
    }
}

/// How often the same turn of a task has failed, for scenarios that fail on purpose.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<TaskId, (usize, u32)>>);

impl Failures {
    fn of(&self, call: &ModelCall) -> u32 {
        let turn = call.request.messages.len();
        self.lock().get(&call.task).filter(|(at, _)| *at == turn).map_or(0, |(_, failures)| *failures)
    }

    fn add(&self, call: &ModelCall) {
        let failures = self.of(call) + 1;
        let mut all = self.lock();
        if all.len() >= TASKS_MAX {
            all.clear();
        }
        all.insert(call.task, (call.request.messages.len(), failures));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, (usize, u32)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub(super) fn outgoing(
    provider: &Provider,
    model: &str,
    request: &ModelRequest,
) -> Result<(Format, Outgoing), ModelError> {
    let format = match provider.kind {
        ProviderKind::Anthropic => Format::Anthropic,
        ProviderKind::Openai => Format::OpenAi,
        #[cfg(feature = "bedrock")]
        ProviderKind::Bedrock => Format::Bedrock,
        #[cfg(not(feature = "bedrock"))]
        ProviderKind::Bedrock => return Err(no_model(Some(&provider.name))),
        ProviderKind::Scripted => return Err(no_model(Some(&provider.name))),
    };
    let preset = match format {
        Format::OpenAi => Preset::guess(&provider.name, &provider.base_url),
        _ => Preset::Plain,
    };
    let endpoint =
        Endpoint { base_url: &provider.base_url, model, key: provider.key.as_ref(), preset, reasoning_tokens: None };
    let outgoing = encode(format, &endpoint, request);
    #[cfg(feature = "bedrock")]
    let outgoing = signed(outgoing, format, provider);
    Ok((format, outgoing))
}

/// Bedrock wants a signature, unless it was given a key of its own.
#[cfg(feature = "bedrock")]
fn signed(mut outgoing: Outgoing, format: Format, provider: &Provider) -> Outgoing {
    if format == Format::Bedrock && provider.key.is_none() {
        super::aws::sign_now(&mut outgoing);
    }
    outgoing
}

pub(super) async fn refused(provider: &Provider, format: Format, mut response: reqwest::Response) -> ModelError {
    let status = response.status().as_u16();
    let mut headers = response.headers().clone();
    // The moment from which a provider's "come back at" is counted, where it does not say it itself.
    if !headers.contains_key(DATE)
        && let Ok(now) = httpdate::fmt_http_date(SystemTime::now()).parse()
    {
        headers.insert(DATE, now);
    }
    let headers: Vec<(&str, &str)> =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let body = prefix(&mut response, REFUSAL_BYTES_MAX).await;
    redacted(provider, classify(format, status, &headers, &body))
}

/// The beginning of a body; what a broken connection left of it is enough for a message.
pub(super) async fn prefix(response: &mut reqwest::Response, bytes_max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < bytes_max
        && let Ok(Some(bytes)) = response.chunk().await
    {
        body.extend_from_slice(&bytes);
    }
    body
}

/// A provider may echo the key that it was sent; nobody further in sees it.
fn redacted(provider: &Provider, error: ModelError) -> ModelError {
    let message = match &provider.key {
        Some(key) => key.redact(&error.message),
        None => error.message,
    };
    ModelError { message, ..error }
}

pub(super) fn unreachable(provider: &Provider, error: reqwest::Error) -> ModelError {
    let (class, what) = match &error {
        error if error.is_timeout() => (ErrorClass::Timeout, "did not answer in time"),
        error if error.is_body() || error.is_decode() => (ErrorClass::Truncated, "broke off in the middle"),
        _ => (ErrorClass::Overloaded, "cannot be reached"),
    };
    tracing::debug!(
        error = &error.without_url() as &dyn std::error::Error,
        provider = provider.name,
        "a provider failed"
    );
    let message = format!("`{}` at {} {what}", provider.name, host_of(&provider.base_url));
    ModelError { class, message, retry_after_ms: None }
}

fn stalled(provider: &Provider) -> ModelError {
    let (name, host, seconds) = (&provider.name, host_of(&provider.base_url), STALL.as_secs());
    let message = format!("`{name}` at {host} gave signs of life for {seconds} s, and no answer");
    ModelError { class: ErrorClass::Timeout, message, retry_after_ms: None }
}

/// A model that takes no pictures refuses the whole question, and few say why.
fn told_of_pictures(error: ModelError, request: &ModelRequest) -> ModelError {
    let has_picture = |message: &Message| matches!(message, Message::User { parts } if parts.iter().any(|part| matches!(part, Part::Image { .. })));
    if error.class != ErrorClass::BadRequest || !request.messages.iter().any(has_picture) {
        return error;
    }
    let message = format!("{}. The question holds a picture; this model may take none", error.message);
    ModelError { message, ..error }
}

/// The part of an address that is never a secret.
fn host_of(url: &str) -> String {
    let host = reqwest::Url::parse(url)
        .ok()
        .and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    host.unwrap_or_else(|| "its address".into())
}

pub(super) fn no_model(asked: Option<&str>) -> ModelError {
    let message = match asked {
        Some(asked) => format!("there is no usable provider for `{asked}`"),
        None => "no model is configured".to_owned(),
    };
    ModelError { class: ErrorClass::NoModel, message, retry_after_ms: None }
}

/// A provider that lacks nothing but its key.
pub(super) fn keyless(name: &str) -> ModelError {
    let message =
        format!("`{name}` has no key yet; add one in Settings, or set the variable that choir.toml names for it");
    ModelError { class: ErrorClass::NoModel, message, retry_after_ms: None }
}

fn cancelled() -> ModelError {
    ModelError { class: ErrorClass::Timeout, message: "the caller has gone away".into(), retry_after_ms: None }
}
