//! The root of the tree: the log and its views, which nobody can do without, and the session, which can be started anew.

use crate::supervise::{INTENSITY, Supervisor, Verdict};

/// What runs below the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Watches the log.
    EventStore,
    /// Watches the views.
    EventBus,
    /// Everything that is at work.
    Session,
}

impl Child {
    /// What it is called in the tree.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventStore => "EventStore",
            Self::EventBus => "EventBus",
            Self::Session => "Session",
        }
    }
}

/// What the root can be told.
#[derive(Debug)]
pub enum Input {
    /// It begins.
    Begun,
    /// The wait before a restart of the session is over.
    Waited,
    /// A child failed, or could not even be started.
    Failed {
        /// Which.
        child: Child,
        /// Why.
        reason: String,
        /// When, in monotonic time.
        at_ms: u64,
    },
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Start a child, and say [`Input::Failed`] if that cannot be done.
    Start(Child),
    /// Nobody reaches the session until it is started anew.
    ForgetSession {
        /// Why.
        reason: String,
    },
    /// Say [`Input::Waited`] after a pause.
    Wait {
        /// How long.
        after_ms: u64,
    },
    /// Fail: the process ends, and control starts it anew.
    Fail(String),
}

/// The root at a moment.
#[derive(Debug, Clone)]
pub struct Application {
    supervisor: Supervisor,
}

impl Default for Application {
    fn default() -> Self {
        Self { supervisor: Supervisor::new(INTENSITY) }
    }
}

impl Application {
    /// What is then to be done.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Begun => [Child::EventStore, Child::EventBus, Child::Session].map(Effect::Start).into(),
            Input::Waited => vec![Effect::Start(Child::Session)],
            Input::Failed { child: Child::Session, reason, at_ms } => self.session_failed(reason, at_ms),
            // Without log or views nothing can go on.
            Input::Failed { child: Child::EventStore | Child::EventBus, reason, .. } => vec![Effect::Fail(reason)],
        }
    }

    fn session_failed(&mut self, reason: String, at_ms: u64) -> Vec<Effect> {
        let next = match self.supervisor.failed(Child::Session.name(), at_ms) {
            Verdict::Restart { after_ms, .. } => Effect::Wait { after_ms },
            Verdict::Escalate => Effect::Fail(format!("the session fails again and again: {reason}")),
        };
        vec![Effect::ForgetSession { reason }, next]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(child: Child, at_ms: u64) -> Input {
        Input::Failed { child, reason: "why".into(), at_ms }
    }

    #[test]
    fn the_log_comes_before_its_views_and_both_before_the_session() {
        let begun = Application::default().step(Input::Begun);
        assert_eq!(begun, [Child::EventStore, Child::EventBus, Child::Session].map(Effect::Start));
    }

    #[test]
    fn without_log_or_views_nothing_goes_on() {
        for child in [Child::EventStore, Child::EventBus] {
            assert_eq!(Application::default().step(failed(child, 0)), [Effect::Fail("why".into())]);
        }
    }

    #[test]
    fn a_session_is_started_anew_after_a_growing_pause_until_it_fails_too_often() {
        let mut root = Application::default();
        let mut pauses = Vec::new();
        let end = loop {
            match root.step(failed(Child::Session, 0)).as_slice() {
                [Effect::ForgetSession { .. }, Effect::Wait { after_ms }] => pauses.push(*after_ms),
                [Effect::ForgetSession { .. }, end] => break end.clone(),
                other => panic!("{other:?}"),
            }
            assert_eq!(root.step(Input::Waited), [Effect::Start(Child::Session)]);
        };
        assert_eq!(pauses, [10, 20, 40, 80, 160]);
        assert_eq!(end, Effect::Fail("the session fails again and again: why".into()));
    }
}
