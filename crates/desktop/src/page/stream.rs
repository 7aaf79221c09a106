//! Following the log: views once, then every event in order, and again from the last one after every interruption.

use super::bridge;
use super::desk::{Desk, Link};
use super::sending;
use super::server::{self, Failure};
use choir_core::fold::desktop;
use choir_desktop::computer::{Arrival, Touches, arrival};
use choir_desktop::event::{folded, question};
use choir_desktop::json;
use choir_desktop::surface::{Surface, surface};
use choir_proto::desktop::{App, Desktop, Subject, Theme, Window};
use choir_proto::document::DocumentSummary;
use choir_proto::event::{Event, PAYLOAD_ERASED};
use choir_proto::{Envelope, Run, RunId, Seq};
use dioxus::prelude::*;
use serde::Deserialize;
use wasm_bindgen_futures::spawn_local;

/// The first wait after an interruption; each further one doubles up to the largest.
const RETRY_FIRST_S: u32 = 1;
const RETRY_MAX_S: u32 = 30;
/// How often the views are asked for until all of them are of the same moment.
const SAME_MOMENT_TRIES: u32 = 3;
/// Pages of older runs and documents; what lies further back is found by search.
const PAGES_MAX: u32 = 20;

#[derive(Deserialize)]
struct DesktopView {
    #[serde(default)]
    windows: Vec<Window>,
    #[serde(default)]
    theme: Option<Theme>,
    #[serde(default)]
    seq: Seq,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(alias = "runs", alias = "documents")]
    rows: Vec<T>,
    #[serde(default)]
    next: Option<String>,
}

/// Keeps the page in step with the log for as long as the page lives.
pub(crate) async fn live(mut desk: Desk) {
    let mut retry_s = RETRY_FIRST_S;
    loop {
        let (away, before) = (matches!(*desk.link.peek(), Link::Away { .. }), *desk.seq.peek());
        match load(desk).await {
            Ok(()) => {
                retry_s = RETRY_FIRST_S;
                let missed = desk.seq.peek().0.saturating_sub(before.0);
                follow(desk, away.then_some(missed)).await;
            }
            Err(Failure::Locked) => return desk.link.set(Link::Locked),
            Err(_) => {}
        }
        wait(desk, retry_s).await;
        retry_s = (retry_s * 2).min(RETRY_MAX_S);
    }
}

/// Counts down where the person can see it, unless somebody is in a hurry.
async fn wait(mut desk: Desk, seconds: u32) {
    for left in (1..=seconds).rev() {
        let counted = Link::Away { retry_s: left };
        desk.link.set(counted.clone());
        bridge::pause(1_000).await;
        if *desk.link.peek() != counted {
            break;
        }
    }
    desk.link.set(TRYING);
}

/// While the server is asked again.
const TRYING: Link = Link::Away { retry_s: 0 };

/// Asks the server again without waiting any longer.
pub(crate) fn hurry(mut desk: Desk) {
    let waits = matches!(*desk.link.peek(), Link::Away { .. });
    if waits {
        desk.link.set(TRYING);
    }
}

/// Fetches every view of one moment. Where the log grows too fast for that, the oldest moment counts: what is folded again
/// changes nothing but a run's usage, and that is read anew when the run ends.
async fn load(mut desk: Desk) -> Result<(), Failure> {
    let mut before: DesktopView = server::get("/api/desktop").await?;
    let mut tries = SAME_MOMENT_TRIES;
    let (runs, documents, windows) = loop {
        let runs: Page<Run> = server::get("/api/runs").await?;
        let documents: Page<DocumentSummary> = server::get("/api/documents").await?;
        let after: DesktopView = server::get("/api/desktop").await?;
        tries -= 1;
        if after.seq == before.seq || tries == 0 {
            break (runs, documents, Desktop { windows: after.windows, theme: after.theme });
        }
        before = after;
    };
    desk.seq.set(before.seq);
    desk.desktop.set(windows);
    desk.dragged.write().clear();
    desk.runs.set(runs.rows.into_iter().collect());
    sending::settle(desk);
    desk.documents.set(documents.rows.into_iter().collect());
    desk.refresh_condition();
    desk.refresh_inbox();
    desk.evidence.set(before.seq);
    desk.changed.set(before.seq);
    desk.files.set(before.seq);
    desk.versioned.set(before.seq);
    // What became ready while nobody followed is shown now.
    let sent = desk.sent.peek().clone();
    sent.into_iter().for_each(|run| open_if_ready(desk, run));
    spawn_local(load_older(desk, runs.next, documents.next));
    Ok(())
}

/// Learns what is in the trash, which the lists that a page begins with leave out.
pub(crate) async fn know_removed(mut desk: Desk) -> Result<(), Failure> {
    let documents: Page<DocumentSummary> = server::get("/api/documents?removed=true").await?;
    let runs: Page<Run> = server::get("/api/runs?removed=true").await?;
    desk.documents.write().add_older(documents.rows);
    desk.runs.write().add_older(runs.rows);
    Ok(())
}

/// A window may be about something in the trash, and says so.
fn shows_unknown(desk: Desk) -> bool {
    let (documents, runs) = (desk.documents.peek(), desk.runs.peek());
    desk.desktop.peek().windows.iter().any(|window| match window.subject {
        Some(Subject::Document(id)) => documents.get(id).is_none(),
        Some(Subject::Run(id)) => runs.get(id).is_none(),
        _ => false,
    })
}

/// Reads the lists again for what is missing here.
async fn know_listed(desk: Desk) {
    // The newest page and all older ones; whatever cannot be read now is there after the next load.
    let (Ok(runs), Ok(documents)) =
        (server::get::<Page<Run>>("/api/runs").await, server::get::<Page<DocumentSummary>>("/api/documents").await)
    else {
        return;
    };
    let mut desk = desk;
    desk.runs.write().add_older(runs.rows);
    desk.documents.write().add_older(documents.rows);
    load_older(desk, runs.next, documents.next).await;
}

async fn know_shown(desk: Desk) {
    if shows_unknown(desk)
        && let Err(failure) = know_removed(desk).await
    {
        desk.fail("A window may lack its title.", &failure);
    }
}

/// The rest of long lists comes when the page is there already.
async fn load_older(mut desk: Desk, mut runs: Option<String>, mut documents: Option<String>) {
    for _ in 0..PAGES_MAX {
        if let Some(before) = runs.take()
            && let Ok(page) = server::get::<Page<Run>>(&format!("/api/runs?before={before}")).await
        {
            desk.runs.write().add_older(page.rows);
            runs = page.next;
        }
        if let Some(before) = documents.take()
            && let Ok(page) = server::get::<Page<DocumentSummary>>(&format!("/api/documents?before={before}")).await
        {
            desk.documents.write().add_older(page.rows);
            documents = page.next;
        }
    }
    know_shown(desk).await;
}

/// Follows the log; after an interruption it says what was missed.
async fn follow(mut desk: Desk, missed: Option<u64>) {
    let path = format!("/api/stream?after={}", desk.seq.peek());
    let on_open = move || {
        desk.link.set(Link::Live);
        desk.is_back();
        match missed {
            Some(0) => desk.tell("Connected again. Nothing happened meanwhile."),
            Some(missed) => {
                let events = choir_desktop::words::count(missed as usize, "event", "events");
                desk.tell(format!("Connected again, and caught up: {events}."));
            }
            None => {}
        }
    };
    bridge::stream(&path, on_open, move |text| receive(desk, &text)).await;
}

/// Folds one frame; answers whether the stream can go on. Frames of other kinds are not for this page.
fn receive(mut desk: Desk, text: &str) -> bool {
    let Ok(envelope) = json::read::<Envelope>(text) else { return true };
    let last = *desk.seq.peek();
    match arrival(last, envelope.header.seq) {
        Arrival::Seen => return true,
        Arrival::Gap => return false,
        Arrival::Next => desk.seq.set(envelope.header.seq),
    }
    if envelope.header.kind == PAYLOAD_ERASED {
        // Whatever on this page was made of the words that are gone goes with it.
        bridge::visit("/");
        return false;
    }
    match folded(&envelope) {
        Ok(event) => fold(desk, &envelope, event.as_ref()),
        // Of a known kind and version but unreadable: the view may be wrong from here on, so it is fetched anew.
        Err(_) => return false,
    }
    true
}

fn fold(mut desk: Desk, envelope: &Envelope, event: Option<&Event>) {
    let seq = envelope.header.seq;
    match Touches::of(&envelope.header.kind) {
        Touches::Inbox => {
            desk.refresh_inbox();
            if let Some(question) = question(envelope) {
                bridge::notify("An agent needs you", &question);
            }
        }
        Touches::Evidence => desk.evidence.set(seq),
        Touches::Changes => {
            desk.changed.set(seq);
            desk.files.set(seq);
        }
        Touches::Files => desk.files.set(seq),
        Touches::Runs | Touches::Documents | Touches::Desktop | Touches::Nothing => {}
    }
    if let Some(event) = event {
        fold_view(desk, envelope, event);
        react(desk, envelope, event);
    }
    if let Some(run) = envelope.header.run {
        open_if_ready(desk, run);
    }
}

fn fold_view(mut desk: Desk, envelope: &Envelope, event: &Event) {
    match Touches::of(&envelope.header.kind) {
        Touches::Runs => {
            desk.runs.write().apply(envelope, event);
            if matches!(event, Event::RunAccepted(_)) {
                sending::settle(desk);
            }
        }
        Touches::Documents => {
            desk.documents.write().apply(envelope, event);
            desk.runs.write().apply(envelope, event);
            desk.evidence.set(envelope.header.seq);
            if matches!(event, Event::DocumentVersioned(_)) {
                desk.versioned.set(envelope.header.seq);
            }
            // The only one of them that touches windows; the others need not draw the desktop again.
            if matches!(event, Event::DocumentTrashed(_)) {
                desktop::apply(&mut desk.desktop.write(), envelope.header.run, event);
            }
        }
        Touches::Desktop if is_known(desk, event) => {}
        Touches::Desktop => desktop::apply(&mut desk.desktop.write(), envelope.header.run, event),
        Touches::Inbox | Touches::Evidence | Touches::Changes | Touches::Files | Touches::Nothing => {}
    }
}

/// Whether a window that was just opened is in the view already, which may be younger than its position says.
fn is_known(desk: Desk, event: &Event) -> bool {
    let Event::WindowOpened(opened) = event else { return false };
    desk.desktop.peek().windows.iter().any(|window| window.window_id == opened.window_id)
}

/// What the page does of its own accord when something happened.
fn react(mut desk: Desk, envelope: &Envelope, event: &Event) {
    match (event, envelope.header.run) {
        (Event::TaskFinished(finished), _) => {
            desk.changed.set(envelope.header.seq);
            desk.files.set(envelope.header.seq);
            if finished.result.held {
                const HELD: &str = "What an agent changed in files is held until you have looked at it, in Changes.";
                bridge::notify("An agent needs you", HELD);
                desk.tell(HELD);
            }
        }
        // A thread has a place in its document, which only the server knows.
        (Event::RunAccepted(accepted), _) if accepted.request.selection.is_some() => {
            desk.evidence.set(envelope.header.seq);
        }
        (Event::WindowOpened(_), _) => spawn_local(know_shown(desk)),
        // Somebody brought back what this page never listed.
        (Event::DocumentRestored(restored), _) if desk.documents.peek().get(restored.document_id).is_none() => {
            spawn_local(know_listed(desk));
        }
        (Event::RunRestored(_), Some(run)) if desk.runs.peek().get(run).is_none() => spawn_local(know_listed(desk)),
        (Event::RunEnded(_), Some(run)) => spawn_local(settle(desk, run)),
        // A later drag of the same window goes on.
        (Event::WindowMoved(moved), _) if desk.dragged_to(moved.window_id) == Some(moved.rect) => {
            desk.settled(moved.window_id);
        }
        _ => {}
    }
}

/// A run that ended: its receipt is read as the server added it up, and the person is told.
async fn settle(mut desk: Desk, id: RunId) {
    if let Ok(run) = server::get::<Run>(&format!("/api/runs/{id}")).await {
        desk.runs.write().replace(run.clone());
        let words = choir_desktop::status::run_words(run.status);
        let title = choir_desktop::words::headline(&run.prompt, 48);
        bridge::notify(&format!("A run is {words}"), &title);
        if bridge::is_elsewhere() {
            desk.ended.set(Some(run.status));
        }
        desk.tell(format!("“{title}” {words}."));
    }
}

/// A run sent from this page shows its document as soon as it is known to be one.
pub(crate) fn open_if_ready(mut desk: Desk, id: RunId) {
    let shown = desk.runs.peek().get(id).map(|run| surface(run, &desk.documents.peek()));
    let Some(Surface::Document(document)) = shown else { return };
    if desk.sent.peek().contains(&id) {
        desk.sent.write().retain(|sent| *sent != id);
        desk.open(App::Writer, Some(Subject::Document(document)));
        // The person may be typing the next prompt.
        desk.wants_focus.set(false);
    }
}
