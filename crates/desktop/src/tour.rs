//! What to watch for in each part of the tour, read off the run itself.

use crate::status::Mark;
use choir_proto::Role;
use choir_proto::run::{Run, RunStatus, TaskSummary};
use choir_proto::task::TaskStatus;
use choir_proto::tour::{PlugPulled, Tour};

/// The row that the person edits, before and after.
pub const ROW: [&str; 2] = ["pears,3", "pears,9"];
/// The table that it is in.
pub const TABLE: &str = "projects/tour/prices.csv";

/// One thing to watch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// In a sentence.
    pub words: String,
    /// How it stands: what has happened has the mark of what it was.
    pub mark: Mark,
}

impl Step {
    /// Whether it has happened.
    pub const fn is_seen(&self) -> bool {
        !matches!(self.mark, Mark::Working | Mark::Ahead)
    }
}

/// The part of the tour that a run is.
pub fn tour(run: &Run) -> Option<Tour> {
    run.model.as_deref().and_then(Tour::of_model).map(|(tour, _)| tour)
}

/// What a part shows, in a sentence.
pub const fn about(tour: Tour) -> &'static str {
    match tour {
        Tour::Liar => "A worker says “done”. Your check says no. You pull the plug, and it is finished all the same.",
        Tour::Quotes => "Two researchers read six sources. Every quotation is looked up; a doctored one is flagged.",
        Tour::Numbers => "A figure knows the table it was made from. Edit a row, and it says that it is stale.",
    }
}

/// The steps of a part, and which of them are done.
pub fn steps(run: &Run, tour: Tour, pulled: Option<PlugPulled>) -> Vec<Step> {
    let mut steps = match tour {
        Tour::Liar => liar(run),
        Tour::Quotes => quotes(run),
        Tour::Numbers => numbers(run),
    };
    if let Some(PlugPulled { away_ms, .. }) = pulled {
        let words = format!("The computer was killed, stood again after {away_ms} ms, and the run went on");
        steps.push(step(&words, Mark::Unverified, true));
    }
    // What comes next is under way; what comes after that is not.
    if let Some(next) = steps.iter_mut().find(|step| !step.is_seen()).filter(|_| !run.status.is_ending()) {
        next.mark = Mark::Working;
    }
    steps
}

fn liar(run: &Run) -> Vec<Step> {
    let workers: Vec<_> = of_role(run, Role::Terminal).collect();
    let caught = workers.first().is_some_and(|first| first.status == TaskStatus::Failed);
    vec![
        step("A worker says that it is done", Mark::Unverified, workers.first().is_some_and(|first| ended(first))),
        step("The person’s own check says no", Mark::Failed, caught),
        step("Another worker is told the cause", Mark::Unverified, workers.len() > 1),
        step("The same check passes: verified", Mark::Verified, run.status == RunStatus::Verified),
    ]
}

fn quotes(run: &Run) -> Vec<Step> {
    let readers = of_role(run, Role::Researcher);
    let several = readers.clone().count() > 1;
    vec![
        step("Two researchers read at once", Mark::Unverified, several),
        step("Each quotation is looked up in its source", Mark::Unverified, several && readers.clone().all(ended)),
        step("The comparison is written; the margin flags what no source says", Mark::Unverified, is_done(run)),
    ]
}

fn numbers(run: &Run) -> Vec<Step> {
    vec![
        step("A worker draws the table", Mark::Unverified, of_role(run, Role::Terminal).any(ended)),
        step("The figure stands in a document, with its command", Mark::Unverified, is_done(run)),
    ]
}

fn step(words: &str, mark: Mark, seen: bool) -> Step {
    Step { words: words.to_owned(), mark: if seen { mark } else { Mark::Ahead } }
}

fn of_role(run: &Run, role: Role) -> impl Iterator<Item = &TaskSummary> + Clone {
    run.tasks.iter().filter(move |task| task.role == Some(role))
}

fn ended(task: &TaskSummary) -> bool {
    task.status != TaskStatus::Running
}

fn is_done(run: &Run) -> bool {
    matches!(run.status, RunStatus::Completed | RunStatus::Verified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::tour::Pace;
    use serde_json::json;

    fn run(status: &str, tasks: &[(&str, &str)]) -> Run {
        let id = "01970000-0000-7000-8000-000000000001";
        let tasks: Vec<_> = tasks
            .iter()
            .map(|(role, status)| json!({"task_id": id, "role": role, "objective": "o", "status": status}))
            .collect();
        let run = json!({
            "run_id": id, "status": status, "prompt": "p", "model": Tour::Liar.model(Pace::Watched), "tasks": tasks,
            "usage": {}, "accepted_at": "2026-01-01T00:00:00Z", "seq": 1,
        });
        serde_json::from_value(run).unwrap()
    }

    fn marks(run: &Run) -> Vec<Mark> {
        steps(run, tour(run).unwrap(), None).iter().map(|step| step.mark).collect()
    }

    #[test]
    fn the_liar_is_caught_step_by_step() {
        use Mark::{Ahead, Failed, Unverified, Verified, Working};
        let begun = run("running", &[("conductor", "running"), ("terminal", "running")]);
        assert_eq!(marks(&begun), [Working, Ahead, Ahead, Ahead]);
        assert_eq!(marks(&run("running", &[("terminal", "failed")])), [Unverified, Failed, Working, Ahead]);
        let verified = run("verified", &[("terminal", "failed"), ("terminal", "ok")]);
        assert_eq!(marks(&verified), [Unverified, Failed, Unverified, Verified]);
        // A check that did not notice would be seen here.
        assert_eq!(marks(&run("completed", &[("terminal", "ok")])), [Unverified, Ahead, Ahead, Ahead]);
    }

    #[test]
    fn a_pulled_plug_is_told_with_its_time() {
        let run = run("running", &[]);
        let pulled = PlugPulled { away_ms: 312, restarts: 1 };
        let last = steps(&run, Tour::Liar, Some(pulled)).pop().unwrap();
        assert!(last.is_seen() && last.words.contains("312 ms"), "{last:?}");
    }

    #[test]
    fn other_runs_are_no_tour() {
        let mut other = run("running", &[]);
        other.model = Some("anthropic/claude".to_owned());
        assert_eq!(tour(&other), None);
    }
}
