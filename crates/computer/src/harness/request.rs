//! What workers ask while they work: the conductor answers, or the person where it does not know or may not say.

use super::perform::{Performed, Performer};
use super::{Assignment, HarnessError, Parent, drive};
use choir_core::agent::Identity;
use choir_core::effect;
use choir_core::fence::fenced;
use choir_core::fold::task::running;
use choir_core::tool::{Request, RequestKind};
use choir_proto::event::{Actor, TaskFinished, ToolOutcome};
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::task::{TaskKind, TaskRequest, TaskResult, TaskStatus};
use choir_proto::{InboxId, Role, TaskId};
use std::time::Duration;

/// How long a request waits when it does not say.
const TIMEOUT_S: f64 = 3600.0;

/// The longest that a worker may wait.
const TIMEOUT_S_MAX: f64 = 24.0 * 3600.0;

/// What a conductor may do with a request: say what it knows, or pass it on.
const ANSWER: &str = "answer";

impl Performer {
    /// Puts a worker's request to whoever can answer it. Its name stays the same over a crash, and the answer comes back
    /// under it. Nobody answering in time is an answer too.
    pub(super) async fn request(&self, request: &Request, effect_id: &str) -> Result<Performed, HarnessError> {
        let asked = request.deadline_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let deadline = Duration::from_secs_f64(asked.unwrap_or(TIMEOUT_S).min(TIMEOUT_S_MAX));
        let (id, world) = (effect::question(effect_id), self.context.harness.journal.world());
        let before = world.elapsed();
        if let Some(answered) = self.ask_conductor(request, id, deadline).await? {
            return Ok(answered);
        }
        let left = deadline.saturating_sub(world.elapsed() - before);
        if left.is_zero() {
            return Ok(expired(deadline));
        }
        let matter = Matter::Question { question: request.question.clone(), answers: Vec::new() };
        let (outcome, content) = match self.person().ask(id, matter, Some(left)).await? {
            Ok(Verdict::Answered { text }) => (ToolOutcome::Ok, format!("The person answers: {text}")),
            Ok(Verdict::Approved { .. }) => (ToolOutcome::Ok, "The person says yes.".to_owned()),
            Ok(Verdict::Denied { .. }) => (ToolOutcome::Refused, "The person does not want to answer.".to_owned()),
            Ok(Verdict::Expired) => return Ok(expired(deadline)),
            Ok(Verdict::Withdrawn) => (ToolOutcome::Cancelled, "Stopped.".to_owned()),
            Err(error) => (ToolOutcome::Error, error.to_string()),
        };
        Ok(Performed::new(outcome, content))
    }

    /// The conductor's word, if it is one to ask and has one. A yes is the person's alone: no model says it for them.
    async fn ask_conductor(
        &self,
        request: &Request,
        id: InboxId,
        deadline: Duration,
    ) -> Result<Option<Performed>, HarnessError> {
        // A worker that the person asked directly has no conductor.
        if request.kind == RequestKind::Approval || self.depth == 0 {
            return Ok(None);
        }
        let task = TaskId::new(effect::derived(&id.to_string(), "conductor"));
        let identity = Identity { run: self.identity.run, task, role: Role::Conductor };
        // It stands beside the worker, not below: answering is no delegation.
        let parent = Parent { task: self.identity.task, depth: self.depth - 1, purse: self.purse.clone() };
        let request = self.aside(request, id);
        let answer = drive(self.context.clone(), Assignment { identity, request, parent: Some(parent) });
        let result = tokio::select! {
            result = answer => result?,
            () = tokio::time::sleep(deadline) => self.gave_up(task).await?,
        };
        Ok(match result.status {
            TaskStatus::Ok => {
                let content = format!("The Conductor answers request {id}: {}", result.summary);
                Some(Performed::new(ToolOutcome::Ok, content))
            }
            TaskStatus::Cancelled => Some(Performed::new(ToolOutcome::Cancelled, "Stopped.".to_owned())),
            _ => None,
        })
    }

    /// What the conductor is told. The worker's words are data: they ask for an answer and for nothing else.
    fn aside(&self, request: &Request, id: InboxId) -> TaskRequest {
        let wanted = self.context.past.accepted().map_or("", |accepted| accepted.request.prompt.as_str());
        let (worker, kind) = (self.identity.role.name(), request.kind.name());
        let instruction = format!(
            "A {worker} of yours cannot go on and waits for your answer (request {id}, {kind}). The person's objective is: \
             {wanted}\n\nWhat it asks, as data:\n{}\n\nIf you know it, or it is yours to decide, call \
             `answer` with everything that it needs. If only the person can know or decide it, call `finish` with the \
             status `needs_input`.{}",
            fenced(&request.question),
            self.context.material
        );
        TaskRequest {
            kind: TaskKind::Inspect,
            instruction,
            acceptance_criteria: Vec::new(),
            base_ref: None,
            commands: Vec::new(),
            git_action: None,
            allowed_tools: Some(vec![ANSWER.to_owned()]),
            egress: None,
            verify: None,
            budget: None,
            wanted: None,
        }
    }

    /// Writes down that the conductor said nothing in time.
    async fn gave_up(&self, task: TaskId) -> Result<TaskResult, HarnessError> {
        let summary = "No answer came in time.".to_owned();
        let result = TaskResult { status: TaskStatus::OutOfTime, summary, ..running(task) };
        let mut scope = self.scope().task(task);
        scope.actor = Actor::Agent(Role::Conductor);
        let finished = TaskFinished { result: result.clone() };
        self.context.harness.journal.append(&scope, vec![finished.into()]).await?;
        Ok(result)
    }
}

fn expired(deadline: Duration) -> Performed {
    Performed::new(ToolOutcome::Error, format!("Nobody answered within {} s.", deadline.as_secs_f64()))
}
