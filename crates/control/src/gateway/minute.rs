//! How often a provider may be asked, as the person has set it: looked at before the call, so that no bill and no other program
//! that shares the account suffers from what agents do in a minute.

use super::provider::Provider;
use choir_llm::price::estimate;
use choir_proto::model::{ErrorClass, ModelError, ModelRequest};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// What may be asked of one provider in a minute; nothing where nobody has set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) requests: Option<u32>,
    pub(super) tokens: Option<u64>,
}

/// What was asked of each provider within the last minute, by its name.
#[derive(Debug, Default)]
pub(super) struct Minutes(Mutex<HashMap<String, Minute>>);

#[derive(Debug, Default)]
struct Minute {
    /// Oldest first.
    calls: VecDeque<Call>,
    /// When those may come back that were sent away.
    promised: VecDeque<Instant>,
    counted: u64,
}

#[derive(Debug)]
struct Call {
    id: u64,
    at: Instant,
    tokens: u64,
}

/// One call that counts. Its tokens are a guess until it is told what it took.
#[derive(Debug)]
pub(super) struct Entered {
    provider: String,
    id: u64,
}

impl Minutes {
    /// Counts a call, or says when it may be made. Who is told to wait is told a time of its own, so that not everybody comes
    /// back at once.
    pub(super) fn enter(&self, provider: &Provider, request: &ModelRequest) -> Result<Option<Entered>, ModelError> {
        let limits = provider.limits;
        if limits == Limits::default() {
            return Ok(None);
        }
        let (now, tokens) = (Instant::now(), estimate(request).input_tokens);
        let mut all = self.lock();
        let minute = all.entry(provider.name.clone()).or_default();
        minute.forget(now);
        if let Some((wall, until)) = minute.wall(limits, tokens) {
            let wait = until.saturating_duration_since(now);
            let (name, seconds) = (&provider.name, wait.as_secs_f64().ceil());
            let message = format!("`{name}` may be asked again in {seconds} s: {wall} of [providers.{name}]");
            let retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
            return Err(ModelError { class: ErrorClass::RateLimit, message, retry_after_ms });
        }
        minute.counted += 1;
        let id = minute.counted;
        minute.calls.push_back(Call { id, at: now, tokens });
        Ok(Some(Entered { provider: provider.name.clone(), id }))
    }

    /// What a call really took.
    pub(super) fn took(&self, entered: Option<&Entered>, tokens: u64) {
        let Some(entered) = entered else { return };
        let mut all = self.lock();
        let calls = all.get_mut(&entered.provider).map(|minute| minute.calls.iter_mut());
        if let Some(call) = calls.into_iter().flatten().find(|call| call.id == entered.id) {
            call.tokens = tokens;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Minute>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Minute {
    fn forget(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|call| call.at + MINUTE <= now) {
            self.calls.pop_front();
        }
        self.promised.retain(|at| *at > now);
    }

    /// Which limit stands in the way of a call with so many tokens, and until when.
    fn wall(&mut self, limits: Limits, tokens: u64) -> Option<(String, Instant)> {
        if let Some(limit) = limits.requests.filter(|limit| self.calls.len() >= *limit as usize) {
            let until = self.promise(limit as usize)?;
            return Some((format!("requests_per_minute = {limit}"), until));
        }
        let limit = limits.tokens?;
        let mut taken: u64 = self.calls.iter().map(|call| call.tokens).sum();
        // A question that is larger than a minute's share goes alone; no patience makes it smaller.
        let mut calls = self.calls.iter();
        let mut until = None;
        while taken > 0 && taken.saturating_add(tokens) > limit {
            let Some(oldest) = calls.next() else { break };
            taken = taken.saturating_sub(oldest.tokens);
            until = Some(oldest.at + MINUTE);
        }
        Some((format!("tokens_per_minute = {limit}"), until?))
    }

    /// The next moment at which a place is free that nobody else was told of.
    fn promise(&mut self, limit: usize) -> Option<Instant> {
        let ahead = self.promised.len();
        let freed = self.calls.get((self.calls.len() - limit + ahead % limit).min(self.calls.len() - 1))?;
        let until = freed.at + MINUTE * (1 + u32::try_from(ahead / limit).unwrap_or(u32::MAX - 1));
        self.promised.push_back(until);
        Some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_llm::scripted::Scenario;
    use choir_proto::Role;
    use choir_proto::model::Message;

    fn provider(limits: Limits) -> Provider {
        let scenario = Scenario::parse(r#"{"roles":{"terminal":[{"text":"x"}]}}"#).unwrap();
        Provider { limits, ..Provider::recorded("mine", scenario, Duration::ZERO) }
    }

    fn asks(bytes: usize) -> ModelRequest {
        let messages = vec![Message::user("x".repeat(bytes))];
        let (system, tools) = (String::new(), Vec::new());
        ModelRequest { model: None, role: Role::Terminal, system, messages, tools, tokens_max: 8 }
    }

    fn wait(refused: Result<Option<Entered>, ModelError>) -> u64 {
        let error = refused.expect_err("it has to wait");
        assert_eq!(error.class, ErrorClass::RateLimit);
        error.retry_after_ms.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_is_asked_as_often_as_was_set_and_whoever_waits_has_a_time_of_its_own() {
        let (minutes, provider) = (Minutes::default(), provider(Limits { requests: Some(2), tokens: None }));
        let enter = || minutes.enter(&provider, &asks(4));
        assert!(enter().is_ok());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(enter().is_ok());
        let waits = [wait(enter()), wait(enter()), wait(enter())];
        assert_eq!(waits, [50_000, 60_000, 110_000]);
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(enter().is_ok(), "the first is a minute old");
        let error = enter().unwrap_err().message;
        assert!(error.contains("requests_per_minute = 2 of [providers.mine]"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_counted_as_they_were_taken_and_a_large_question_goes_alone() {
        let (minutes, provider) = (Minutes::default(), provider(Limits { requests: None, tokens: Some(1_000) }));
        let first = minutes.enter(&provider, &asks(40_000)).unwrap();
        assert_eq!(wait(minutes.enter(&provider, &asks(4))), 60_000);
        minutes.took(first.as_ref(), 100);
        assert!(minutes.enter(&provider, &asks(4)).is_ok(), "it took less than was thought");
        tokio::time::advance(MINUTE).await;
        assert!(minutes.enter(&provider, &asks(40_000)).is_ok(), "alone");
    }

    #[test]
    fn who_set_nothing_is_not_counted() {
        assert!(Minutes::default().enter(&provider(Limits::default()), &asks(4)).unwrap().is_none());
    }
}
