//! Who works on a run, in few enough words that a model can be told at every turn, however many there were.

use choir_proto::event::Header;
use choir_proto::task::TaskStatus;
use choir_proto::{Event, Role, Seq, TaskId};
use std::collections::HashMap;
use std::fmt::Write;

/// Agents in one account.
pub const NODES_MAX: usize = 64;

/// Bytes of one account.
pub const BYTES_MAX: usize = 24_000;

/// Characters of what an agent was asked, and of what it said.
const WORDS_CHARACTERS_MAX: usize = 160;

/// Every agent of one run, folded from its events.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    nodes: Vec<Node>,
    places: HashMap<TaskId, usize>,
    /// The first agent's last turn: who has ended since is what it is woken for.
    last_turn: Seq,
}

#[derive(Debug, Clone)]
struct Node {
    task: TaskId,
    parent: Option<TaskId>,
    role: Option<Role>,
    objective: String,
    status: TaskStatus,
    summary: String,
    /// The last thing that was heard of it.
    signal: Seq,
    ended: Option<Seq>,
}

impl Roster {
    /// Folds an event of the run.
    pub fn apply(&mut self, header: &Header, event: &Event) {
        let Some(task) = header.task else { return };
        if let Event::TaskRequested(requested) = event {
            // A conductor that is asked something needs not be told of itself.
            if requested.role == Some(Role::Conductor) && requested.parent.is_some() {
                return;
            }
            self.places.insert(task, self.nodes.len());
            self.nodes.push(Node {
                task,
                parent: requested.parent,
                role: requested.role,
                objective: words(&requested.request.instruction),
                status: TaskStatus::Running,
                summary: String::new(),
                signal: header.seq,
                ended: None,
            });
        }
        let Some(node) = self.places.get(&task).and_then(|place| self.nodes.get_mut(*place)) else { return };
        node.signal = header.seq;
        match event {
            Event::TaskFinished(finished) => {
                node.status = finished.result.status;
                node.summary = words(&finished.result.summary);
                node.ended = Some(header.seq);
            }
            Event::ModelCalled(_) if node.parent.is_none() => self.last_turn = header.seq,
            _ => {}
        }
    }

    /// How many agents there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nobody works yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The account: the first agent, who ended since its last turn, who is blocked or failed, then whoever was heard of last.
    /// The same events always give the same words.
    pub fn account(&self) -> String {
        let mut order: Vec<&Node> = self.nodes.iter().collect();
        let rank = |node: &&Node| (self.urgency(node), std::cmp::Reverse(node.signal), node.task);
        if order.len() > NODES_MAX {
            order.select_nth_unstable_by_key(NODES_MAX, rank);
            order.truncate(NODES_MAX);
        }
        order.sort_by_key(rank);
        let mut text = String::new();
        let mut told = 0;
        for node in order {
            let line = line(node);
            if text.len() + line.len() > BYTES_MAX - REST_BYTES {
                break;
            }
            text.push_str(&line);
            told += 1;
        }
        let left = self.nodes.len() - told;
        if left > 0 {
            // Writing to a string cannot fail.
            writeln!(text, "… and {left} more agents.").ok();
        }
        text
    }

    fn urgency(&self, node: &Node) -> u8 {
        match node.status {
            _ if node.parent.is_none() => 0,
            _ if node.ended.is_some_and(|ended| ended > self.last_turn) => 1,
            TaskStatus::NeedsInput => 2,
            TaskStatus::Failed
            | TaskStatus::Unknown
            | TaskStatus::OutOfTime
            | TaskStatus::OutOfSteps
            | TaskStatus::OutOfBudget => 2,
            TaskStatus::Running | TaskStatus::Ok | TaskStatus::Cancelled => 3,
        }
    }
}

/// Kept free for the last line.
const REST_BYTES: usize = 64;

fn line(node: &Node) -> String {
    let role = node.role.map_or("task", Role::name);
    let said = if node.summary.is_empty() { String::new() } else { format!(" — said: {}", node.summary) };
    format!("- {role} {}: {}{said}\n", node.status.name(), node.objective)
}

/// One line, cut where it is long.
fn words(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        // Bytes are at least as many as characters: what is long is not read to its end.
        if words.len() > WORDS_CHARACTERS_MAX
            && let Some((at, _)) = words.char_indices().nth(WORDS_CHARACTERS_MAX)
        {
            words.truncate(at);
            words.push('…');
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use choir_proto::event::{ModelCalled, TaskFinished, TaskRequested};
    use uuid::Uuid;

    struct Log(Roster, u64);

    impl Log {
        fn says(&mut self, task: u128, event: impl Into<Event>) {
            self.1 += 1;
            let event = event.into();
            let header = Header { task: Some(TaskId::new(Uuid::from_u128(task))), ..testing::header(self.1, &event) };
            self.0.apply(&header, &event);
        }

        fn asks(&mut self, task: u128, parent: Option<u128>, objective: &str) {
            let request =
                serde_json::from_value(serde_json::json!({"kind": "edit", "instruction": objective})).unwrap();
            let role = Some(if parent.is_none() { Role::Conductor } else { Role::Terminal });
            let parent = parent.map(|parent| TaskId::new(Uuid::from_u128(parent)));
            self.says(task, TaskRequested { request, role, parent });
        }

        fn ends(&mut self, task: u128, status: TaskStatus, summary: &str) {
            let running = crate::fold::task::running(TaskId::new(Uuid::from_u128(task)));
            let result = choir_proto::TaskResult { status, summary: summary.to_owned(), ..running };
            self.says(task, TaskFinished { result });
        }

        fn turn(&mut self) {
            let stop = choir_proto::model::StopReason::ToolUse;
            let (message, usage) = (Default::default(), Default::default());
            let (model, window) = (String::new(), None);
            self.says(1, ModelCalled { turn: 1, model, message, stop, usage, window, heard: None, duration_ms: 0 });
        }
    }

    #[test]
    fn what_the_conductor_is_woken_for_comes_first() {
        let mut log = Log(Roster::default(), 0);
        log.asks(1, None, "the whole");
        for task in 2..=5 {
            log.asks(task, Some(1), &format!("part {task}"));
        }
        log.ends(2, TaskStatus::Failed, "no");
        log.ends(3, TaskStatus::Ok, "old news");
        log.turn();
        log.ends(4, TaskStatus::Ok, "fresh");
        let expected = "- conductor running: the whole\n- terminal ok: part 4 — said: fresh\n- terminal failed: part 2 — said: no\n\
                        - terminal ok: part 3 — said: old news\n- terminal running: part 5\n";
        assert_eq!(log.0.account(), expected);
    }

    #[test]
    fn a_thousand_agents_fit_and_the_account_is_the_same_every_time() {
        let mut log = Log(Roster::default(), 0);
        log.asks(1, None, "the whole");
        for task in 2..=1001 {
            log.asks(task, Some(1), &"é".repeat(500));
            log.ends(task, TaskStatus::Ok, &"word ".repeat(200));
        }
        let account = log.0.account();
        assert!(account.len() <= BYTES_MAX && account.lines().count() <= NODES_MAX + 1, "{}", account.len());
        assert!(account.starts_with("- conductor") && account.contains("more agents"));
        assert_eq!(account, log.0.clone().account());
    }
}
