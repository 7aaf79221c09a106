//! Prompts on their way. Words leave the bar at once, and come back if the computer did not take them; where nobody knows
//! whether it did, the log says so later.

use super::bridge;
use super::desk::{Desk, Link};
use super::server::{self, Failure};
use super::stream::open_if_ready;
use choir_desktop::prompt::{Intention, Mention, Precaution, Sent, steered};
use choir_desktop::words::headline;
use choir_proto::api::{RunAccepted, Steer};
use choir_proto::run::NewRun;
use choir_proto::{DocumentId, RunId};
use dioxus::prelude::*;
use serde::de::IgnoredAny;
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// What is on its way for longer than this is told about.
const PATIENCE_MS: u32 = 1_000;
/// Characters of a prompt in a notice.
const TITLE_CHARACTERS_MAX: usize = 48;
const KEPT: &str = "Your words are still in the prompt bar.";
const DRAFT_KEY: &str = "choir.draft";
const SENT_KEY: &str = "choir.sent";

/// A reload loses no words that were being written.
pub(crate) fn remember_draft(mut desk: Desk) {
    let draft = desk.prompt.read();
    bridge::remember(DRAFT_KEY, &draft);
    // Somebody who takes the words away does not wait for them any more.
    if draft.is_empty() && desk.unsure.peek().is_some() {
        desk.unsure.set(None);
        bridge::remember(SENT_KEY, "");
    }
}

/// What the bar held when the page was left, with what was on its way then.
pub(crate) fn recall_draft() -> (String, Option<Sent>) {
    let draft = bridge::recall(DRAFT_KEY).unwrap_or_default();
    match bridge::recall(SENT_KEY).and_then(|note| Sent::read(&note)) {
        Some(sent) => (if draft.starts_with(sent.text()) { draft } else { sent.back_in(&draft) }, Some(sent)),
        None => (draft, None),
    }
}

/// What goes with words: it leaves the bar with them, so that none of it goes with the next.
struct Along {
    mentions: Vec<Mention>,
    precautions: Vec<Precaution>,
}

impl Along {
    fn take(mut desk: Desk) -> Self {
        Self { mentions: desk.mentions.take(), precautions: desk.precautions.take() }
    }

    /// The words are in the bar again, and so is this.
    fn give_back(self, mut desk: Desk) {
        self.mentions.into_iter().for_each(|mention| desk.mention(mention));
        let mut wanted = desk.precautions.write();
        let missing: Vec<_> = self.precautions.into_iter().filter(|one| !wanted.contains(one)).collect();
        wanted.extend(missing);
    }
}

/// Sends what the bar holds, and empties it.
pub(crate) fn submit(mut desk: Desk, intention: Intention) {
    let text = desk.prompt.peek().trim().to_owned();
    if text.is_empty() {
        return;
    }
    if *desk.attaching.peek() > 0 {
        desk.held.set(Some(intention));
        return desk.tell("Your words go as soon as the file is there.");
    }
    let again = desk.unsure.peek().as_ref().is_some_and(|sent| sent.text() == text);
    if again && *desk.link.peek() != Link::Live {
        return desk.tell("The computer may have these words already. That is known when it can be reached again.");
    }
    desk.unsure.set(None);
    desk.prompt.set(String::new());
    let along = Along::take(desk);
    spawn_local(async move {
        let waiting = Waiting::begin(desk, &text);
        match intention {
            Intention::Steer { run_id, .. } => steer(desk, run_id, text, along).await,
            Intention::Continue { document_id, .. } => ask(desk, Some(document_id), text, along).await,
            Intention::New => ask(desk, None, text, along).await,
        }
        waiting.end(desk);
    });
}

/// Says something to the agents at work.
async fn steer(mut desk: Desk, run_id: RunId, text: String, mut along: Along) {
    let body = Steer { text: steered(&text, &along.mentions) };
    let answer: Result<IgnoredAny, Failure> = server::send("POST", &format!("/api/runs/{run_id}/steer"), &body).await;
    match answer {
        Ok(_) => {
            // What is wanted of the next run was not wanted of this one.
            along.mentions.clear();
            along.give_back(desk);
            desk.tell("Told the agents.");
        }
        Err(failure) => {
            along.give_back(desk);
            let back = Sent::new(text, *desk.seq.peek()).back_in(&desk.prompt.peek());
            desk.prompt.set(back);
            desk.fail(KEPT, &failure);
        }
    }
}

/// Starts a run.
async fn ask(mut desk: Desk, document_id: Option<DocumentId>, text: String, along: Along) {
    let sent = Sent::new(text, *desk.seq.peek());
    bridge::remember(SENT_KEY, &sent.note());
    let context = along.mentions.iter().map(Mention::context).collect();
    let mut body = NewRun { document_id, context, ..NewRun::new(sent.text().to_owned()) };
    along.precautions.iter().for_each(|precaution| precaution.put_into(&mut body));
    let answer: Result<RunAccepted, Failure> = server::send("POST", "/api/runs", &body).await;
    let failure = match answer {
        Ok(accepted) => return taken(desk, accepted.run_id),
        Err(failure) => failure,
    };
    // The answer was lost, and the log may have said it meanwhile.
    if let Some(run) = sent.taken_as(&desk.runs.peek()) {
        return taken(desk, run);
    }
    let back = sent.back_in(&desk.prompt.peek());
    desk.prompt.set(back);
    let keys = along.mentions.iter().map(Mention::key).collect();
    along.give_back(desk);
    match failure {
        Failure::Unreachable | Failure::Odd(_) => {
            desk.fail(
                "Your words are still in the prompt bar. Whether it has them already is not known yet.",
                &failure,
            );
            desk.unsure.set(Some(sent));
            desk.unsure_of.set(keys);
        }
        Failure::Locked | Failure::Refused(_) => {
            desk.fail(KEPT, &failure);
            bridge::remember(SENT_KEY, "");
        }
    }
}

/// The computer has the words: nothing of them is left here.
fn taken(mut desk: Desk, run: RunId) {
    bridge::remember(SENT_KEY, "");
    desk.unsure.set(None);
    desk.sent.write().push(run);
    // The event may have come before this answer.
    open_if_ready(desk, run);
}

/// Looks whether words of which that was not known had been taken, now that the log may say more.
pub(crate) fn settle(mut desk: Desk) {
    let Some(sent) = desk.unsure.peek().clone() else { return };
    let Some(run) = sent.taken_as(&desk.runs.peek()) else { return };
    let rest = sent.gone_from(&desk.prompt.peek());
    if let Some(rest) = rest {
        desk.prompt.set(rest);
        let went = desk.unsure_of.take();
        desk.mentions.write().retain(|mention| !went.contains(&mention.key()));
        desk.precautions.write().clear();
    }
    desk.is_back();
    desk.tell(format!("“{}” had been taken.", headline(sent.text(), TITLE_CHARACTERS_MAX)));
    taken(desk, run);
}

/// A word about a prompt that takes long: whether it is over, and the notice about it.
struct Waiting(Rc<Cell<(bool, Option<u32>)>>);

impl Waiting {
    fn begin(desk: Desk, text: &str) -> Self {
        let words = format!("Sending “{}” …", headline(text, TITLE_CHARACTERS_MAX));
        let state = Rc::new(Cell::new((false, None)));
        let waiting = Self(state.clone());
        spawn_local(async move {
            bridge::pause(PATIENCE_MS).await;
            if !state.get().0 {
                state.set((false, Some(desk.progress(words))));
            }
        });
        waiting
    }

    fn end(self, desk: Desk) {
        if let (_, Some(notice)) = self.0.replace((true, None)) {
            desk.dismiss_notice(notice);
        }
    }
}
