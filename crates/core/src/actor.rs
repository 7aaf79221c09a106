//! The actors of the supervision tree without their shells: what each can be told, and what is then to be done. The desktop's step
//! stands with its view, in [`crate::fold::desktop`].

pub mod application;
pub mod objective;
pub mod run;
pub mod session;
pub mod task;

use choir_proto::event::Header;
use choir_proto::{Event, Seq};

/// What a person wants of a run at work, or of a task of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signal {
    /// Hold before the next step.
    pub paused: bool,
    /// Stop now.
    pub cancelled: bool,
    /// How often they said go on since it was taken up.
    pub resumed: u64,
    /// Words to the agents, with their place in the log.
    pub steered: Vec<(Seq, String)>,
}

impl Signal {
    /// What they had said before, as the log has it.
    pub fn of(past: &[(Header, Event)]) -> Self {
        let mut signal = Self::default();
        for (header, event) in past {
            match event {
                Event::RunPaused(_) => signal.paused = true,
                Event::RunResumed(_) => signal.paused = false,
                Event::CancelRequested(_) => signal.cancelled = true,
                Event::RunSteered(steered) => signal.steered.push((header.seq, steered.text.clone())),
                _ => {}
            }
        }
        signal
    }
}
