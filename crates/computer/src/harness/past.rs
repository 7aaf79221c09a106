//! What had already happened to a run when a process took it.

use choir_proto::event::{Header, ToolStarted};
use choir_proto::task::TaskResult;
use choir_proto::{Event, RunId, Seq, TaskId};
use choir_store::{Log, Query, StoreError};

/// Events read at once.
const PAGE: usize = 500;

/// The events of one run, in order.
#[derive(Debug, Default)]
pub struct Past {
    events: Vec<(Header, Event)>,
}

impl Past {
    /// Reads a run from the log.
    pub async fn read(log: &Log, run: RunId) -> Result<Self, StoreError> {
        let mut events = Vec::new();
        let mut after = Seq::ZERO;
        loop {
            let page = log.read(Query { after, limit: PAGE, run: Some(run), ..Query::default() }).await?;
            let Some(last) = page.last() else { return Ok(Self { events }) };
            after = last.header.seq;
            for envelope in page {
                let seq = envelope.header.seq.0;
                let event = envelope.event().map_err(|error| StoreError::Row { seq, what: error.to_string() })?;
                events.push((envelope.header, event));
            }
        }
    }

    /// All of them.
    pub fn events(&self) -> impl Iterator<Item = &(Header, Event)> {
        self.events.iter()
    }

    /// What concerns one agent. The first agent of a run also hears what the person said to the run.
    pub fn of_agent(&self, task: TaskId, first: bool) -> impl Iterator<Item = (&Header, &Event)> {
        let heard = move |header: &Header, event: &Event| {
            header.task == Some(task)
                || matches!(event, Event::RunSteered(_)) && first
                || matches!(event, Event::RunStarted(_))
        };
        self.events.iter().filter(move |(header, event)| heard(header, event)).map(|(header, event)| (header, event))
    }

    /// Whether a task had been asked for.
    pub fn knows(&self, task: TaskId) -> bool {
        self.events.iter().any(|(header, event)| header.task == Some(task) && matches!(event, Event::TaskRequested(_)))
    }

    /// What came of a task, if it had ended.
    pub fn result(&self, task: TaskId) -> Option<&TaskResult> {
        self.events.iter().find_map(|(header, event)| match event {
            Event::TaskFinished(finished) if header.task == Some(task) => Some(&finished.result),
            _ => None,
        })
    }

    /// Words that the person said to the run.
    pub fn steered(&self) -> Vec<(Seq, String)> {
        let words = self.events.iter().filter_map(|(header, event)| match event {
            Event::RunSteered(steered) => Some((header.seq, steered.text.clone())),
            _ => None,
        });
        words.collect()
    }

    /// Whether it had begun to wait and not gone on. Nothing if it had not even started.
    pub fn waits(&self) -> Option<bool> {
        self.events.iter().fold(None, |waits, (_, event)| match event {
            Event::RunBlocked(_) => Some(true),
            Event::RunStarted(_) => Some(false),
            _ => waits,
        })
    }

    /// Whether an effect had been begun.
    pub fn begun(&self, effect_id: &str) -> bool {
        self.events
            .iter()
            .any(|(_, event)| matches!(event, Event::ToolStarted(ToolStarted { effect_id: id, .. }) if id == effect_id))
    }
}
