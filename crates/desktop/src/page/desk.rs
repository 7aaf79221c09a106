//! The page's state as signals, and what a person can do to it. All of it can be fetched again.

use super::bridge;
use super::sending::recall_draft;
use super::server::{self, Failure};
use choir_core::fold::desktop;
use choir_desktop::computer::{Documents, Runs, focused};
use choir_desktop::geometry::{self, Size};
use choir_desktop::inbox::{Inbox, Item};
use choir_desktop::menu::Wish;
use choir_desktop::prompt::{Intention, Mention, Precaution, Sent};
use choir_desktop::settings::Settings;
use choir_proto::api::Health;
use choir_proto::desktop::{App, Desktop, DesktopCommand, Rect, Shape, Subject, Window};
use choir_proto::event::{WindowFocused, WindowShaped};
use choir_proto::{DocumentId, RunId, RunStatus, Seq, WindowId};
use dioxus::prelude::*;
use js_sys::Function;
use serde::de::IgnoredAny;
use wasm_bindgen_futures::spawn_local;

/// Notices shown at once; an older one that only tells gives way. Errors stay until they are put away, and what can be stopped
/// until it has ended.
const NOTICES_MAX: usize = 4;
/// A notice that only tells leaves after this long. Errors stay.
const NOTICE_MS: u32 = 6_000;

/// How the page and the server stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// The views are on their way.
    Loading,
    /// Every event arrives as it happens.
    Live,
    /// The server is away; the next try comes in so many seconds, or is under way.
    Away {
        /// Seconds; nothing while it is asked.
        retry_s: u32,
    },
    /// Nobody is signed in.
    Locked,
}

/// Something the person should know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice {
    /// Names it within this page.
    pub(crate) id: u32,
    /// Whether something went wrong.
    pub(crate) tone: Tone,
    /// One or two sentences.
    pub(crate) text: String,
    /// Whether it says only that the computer is away: then it goes when the computer is back.
    pub(crate) away: bool,
    /// What stops that of which it tells.
    pub(crate) stop: Option<Function>,
}

/// How a notice is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Progress; leaves by itself.
    Tell,
    /// An error; stays until dismissed.
    Warn,
}

/// Everything that components share.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Desk {
    pub(crate) runs: Signal<Runs>,
    pub(crate) documents: Signal<Documents>,
    pub(crate) desktop: Signal<Desktop>,
    /// The last event folded.
    pub(crate) seq: Signal<Seq>,
    pub(crate) link: Signal<Link>,
    pub(crate) notices: Signal<Vec<Notice>>,
    /// How many there were.
    noticed: Signal<u32>,
    /// Where windows were dragged to while the command travels.
    pub(crate) dragged: Signal<Vec<(WindowId, Rect)>>,
    pub(crate) canvas: Signal<Size>,
    pub(crate) settings: Signal<Option<Settings>>,
    pub(crate) health: Signal<Option<Health>>,
    /// How the last run ended while the person looked elsewhere.
    pub(crate) ended: Signal<Option<RunStatus>>,
    /// Runs sent from this page: their document opens by itself.
    pub(crate) sent: Signal<Vec<RunId>>,
    /// The next window that comes to the front takes the keyboard, because the person asked for it here.
    pub(crate) wants_focus: Signal<bool>,
    /// A minute hand for "3 min ago" and elapsed times.
    pub(crate) now: Signal<choir_proto::Timestamp>,
    /// What the prompt bar holds.
    pub(crate) prompt: Signal<String>,
    /// Words that were sent, of which nobody knows whether the computer took them.
    pub(crate) unsure: Signal<Option<Sent>>,
    /// What those words went with, by its keys.
    pub(crate) unsure_of: Signal<Vec<String>>,
    /// Files on their way to the prompt.
    pub(crate) attaching: Signal<u32>,
    /// What Enter meant while they were.
    pub(crate) held: Signal<Option<Intention>>,
    /// What the agents should look at.
    pub(crate) mentions: Signal<Vec<Mention>>,
    /// What is wanted of the next run beside its work.
    pub(crate) precautions: Signal<Vec<Precaution>>,
    /// What waits for the person's word.
    pub(crate) inbox: Signal<Vec<Item>>,
    /// The last event after which a document's evidence may be another.
    pub(crate) evidence: Signal<Seq>,
    /// The last event after which a run's changes may be others.
    pub(crate) changed: Signal<Seq>,
    /// The last event after which the workspace may be another.
    pub(crate) files: Signal<Seq>,
    /// The last event that wrote a version of a document down; what is typed has a number before that.
    pub(crate) versioned: Signal<Seq>,
    /// The text that goes on paper.
    pub(crate) printed: Signal<Option<(DocumentId, String)>>,
    /// What the menu wishes of an open document.
    pub(crate) wish: Signal<Option<(DocumentId, Wish)>>,
}

impl Desk {
    /// Makes the state of one page.
    pub(crate) fn provide() -> Self {
        // One hook for all of them: each of its own would be in the page as often.
        let desk = use_hook(|| {
            let (draft, unsure) = recall_draft();
            Self {
                runs: Signal::new(Runs::default()),
                documents: Signal::new(Documents::default()),
                desktop: Signal::new(Desktop::default()),
                seq: Signal::new(Seq::default()),
                link: Signal::new(Link::Loading),
                notices: Signal::new(Vec::new()),
                noticed: Signal::new(0),
                dragged: Signal::new(Vec::new()),
                canvas: Signal::new(Size { width: 1280, height: 720 }),
                settings: Signal::new(None),
                health: Signal::new(None),
                ended: Signal::new(None),
                sent: Signal::new(Vec::new()),
                wants_focus: Signal::new(false),
                now: Signal::new(bridge::time()),
                prompt: Signal::new(draft),
                unsure: Signal::new(unsure),
                unsure_of: Signal::new(Vec::new()),
                attaching: Signal::new(0),
                held: Signal::new(None),
                mentions: Signal::new(Vec::new()),
                precautions: Signal::new(Vec::new()),
                inbox: Signal::new(Vec::new()),
                evidence: Signal::new(Seq::default()),
                changed: Signal::new(Seq::default()),
                files: Signal::new(Seq::default()),
                versioned: Signal::new(Seq::default()),
                printed: Signal::new(None),
                wish: Signal::new(None),
            }
        });
        use_context_provider(|| desk)
    }

    /// Posts a command; it shows when its event comes back.
    pub(crate) fn command(self, command: DesktopCommand) {
        self.post(command, "The window stayed as it was.");
    }

    fn post(self, command: DesktopCommand, as_before: &'static str) {
        spawn_local(async move {
            let answer: Result<IgnoredAny, Failure> = server::send("POST", "/api/desktop", &command).await;
            if let Err(failure) = answer {
                self.undone(as_before, &failure);
            }
        });
    }

    /// Opens a window about something, or brings the one that is open to the front.
    pub(crate) fn open(mut self, app: App, subject: Option<Subject>) {
        self.wants_focus.set(true);
        let same = |window: &&Window| window.app == app && window.subject == subject;
        let found = self.desktop.peek().windows.iter().rev().find(same).cloned();
        match found {
            Some(window) if app != App::Terminal => self.raise(&window),
            _ => {
                let rect = Some(geometry::place(app, self.canvas_now(), &self.desktop.peek().windows));
                self.command(DesktopCommand::Open { app, subject, rect });
            }
        }
    }

    /// Shows something in a window of Writer, or brings the one to the front that shows it already.
    pub(crate) fn show(mut self, window_id: WindowId, subject: Subject) {
        self.wants_focus.set(true);
        let same = |window: &&Window| window.app == App::Writer && window.subject.as_ref() == Some(&subject);
        let found = self.desktop.peek().windows.iter().rev().find(same).cloned();
        match found {
            Some(window) => self.raise(&window),
            None => self.command(DesktopCommand::Show { window_id, subject }),
        }
    }

    /// Shows a window again and gives it the focus.
    pub(crate) fn raise(mut self, window: &Window) {
        self.wants_focus.set(true);
        let window_id = window.window_id;
        if window.shape == Shape::Minimised {
            let shape = window.shape_before.unwrap_or_default();
            self.shown(DesktopCommand::Shape { window_id, shape }, &WindowShaped { window_id, shape }.into());
        }
        if focused(&self.desktop.peek()).map(|top| top.window_id) == Some(window_id) {
            bridge::focus_window(&format!("window-{window_id}"));
        } else {
            self.to_front(window_id);
        }
    }

    /// Puts a window in front of the others.
    pub(crate) fn to_front(self, window_id: WindowId) {
        self.shown(DesktopCommand::Focus { window_id }, &WindowFocused { window_id }.into());
    }

    /// Brings something into sight at once; the command makes it so for other browsers. While the computer is away it is so
    /// here alone, and what the computer knows is shown when it is back.
    fn shown(mut self, command: DesktopCommand, event: &choir_proto::Event) {
        desktop::apply(&mut self.desktop.write(), None, event);
        spawn_local(async move {
            let answer: Result<IgnoredAny, Failure> = server::send("POST", "/api/desktop", &command).await;
            match answer {
                Ok(_) | Err(Failure::Unreachable) => {}
                Err(failure) => self.undone("The window stayed as it was.", &failure),
            }
        });
    }

    /// Moves a window: at once here, then for good by its event.
    pub(crate) fn move_to(mut self, window_id: WindowId, rect: Rect) {
        self.settled(window_id);
        self.dragged.write().push((window_id, rect));
        spawn_local(async move {
            let command = DesktopCommand::Move { window_id, rect };
            let answer: Result<IgnoredAny, Failure> = server::send("POST", "/api/desktop", &command).await;
            if let Err(failure) = answer {
                self.settled(window_id);
                self.fail("The window went back to its place.", &failure);
            }
        });
    }

    /// Where a window was dragged to while the command travels.
    pub(crate) fn dragged_to(self, window_id: WindowId) -> Option<Rect> {
        self.dragged.peek().iter().find(|(dragged, _)| *dragged == window_id).map(|(_, rect)| *rect)
    }

    /// A window lies where its events say.
    pub(crate) fn settled(mut self, window_id: WindowId) {
        self.dragged.write().retain(|(dragged, _)| *dragged != window_id);
    }

    /// The canvas, without subscribing to it.
    pub(crate) fn canvas_now(self) -> Size {
        *self.canvas.peek()
    }

    /// Shows the agents something, once.
    pub(crate) fn mention(mut self, mention: Mention) {
        if !self.mentions.peek().contains(&mention) {
            self.mentions.write().push(mention);
        }
    }

    /// Tells something that goes by itself.
    pub(crate) fn tell(self, text: impl Into<String>) {
        let id = self.notice(Tone::Tell, text.into());
        spawn_local(async move {
            bridge::pause(NOTICE_MS).await;
            self.dismiss_notice(id);
        });
    }

    /// Tells that something is under way; it stays until `dismiss_notice`.
    pub(crate) fn progress(self, text: impl Into<String>) -> u32 {
        self.notice(Tone::Tell, text.into())
    }

    /// Tells in a notice of `progress` how far something is.
    pub(crate) fn retell(mut self, id: u32, text: String) {
        let other = |notice: &Notice| notice.id == id && notice.text != text;
        let place = self.notices.peek().iter().position(other);
        if let Some(place) = place {
            self.notices.write()[place].text = text;
        }
    }

    /// Offers in a notice of `progress` to stop it.
    pub(crate) fn can_stop(mut self, id: u32, stop: Function) {
        if let Some(notice) = self.notices.write().iter_mut().find(|notice| notice.id == id) {
            notice.stop = Some(stop);
        }
    }

    /// Says what went wrong after a sentence about what was kept.
    pub(crate) fn fail(mut self, kept: &str, failure: &Failure) {
        if matches!(failure, Failure::Locked) {
            self.link.set(Link::Locked);
        } else {
            let id = self.notice(Tone::Warn, format!("{failure} {kept}").trim_end().to_owned());
            let away = matches!(failure, Failure::Unreachable);
            if let Some(notice) = self.notices.write().iter_mut().find(|notice| notice.id == id) {
                notice.away = away;
            }
        }
    }

    /// The computer is back: what said only that it was away goes.
    pub(crate) fn is_back(mut self) {
        self.notices.write().retain(|notice| !notice.away);
    }

    /// Says what went wrong, and that all is as before, which only a server that said no makes true: where its answer did not
    /// come, nobody here knows.
    pub(crate) fn undone(self, as_before: &str, failure: &Failure) {
        match failure {
            Failure::Locked | Failure::Refused(_) => self.fail(as_before, failure),
            Failure::Unreachable | Failure::Odd(_) => self.fail("Whether it was done is not known.", failure),
        }
    }

    fn notice(mut self, tone: Tone, text: String) -> u32 {
        let mut notices = self.notices.write();
        match notices.iter().position(|notice| notice.text == text && notice.stop.is_none()) {
            // Said again, it is news again.
            Some(same) if tone == Tone::Tell => drop(notices.remove(same)),
            Some(same) => return notices[same].id,
            None => {}
        }
        // Never given twice: what puts a notice away after a while must not put away a later one.
        let id = *self.noticed.peek() + 1;
        self.noticed.set(id);
        notices.push(Notice { id, tone, text, away: false, stop: None });
        let passes = |notice: &Notice| notice.tone == Tone::Tell && notice.stop.is_none() && notice.id != id;
        if notices.len() > NOTICES_MAX
            && let Some(oldest) = notices.iter().position(passes)
        {
            notices.remove(oldest);
        }
        id
    }

    /// Puts a notice away.
    pub(crate) fn dismiss_notice(mut self, id: u32) {
        self.notices.write().retain(|notice| notice.id != id);
    }

    /// Puts a run's card away, for every browser and for good.
    pub(crate) fn dismiss_card(self, run_id: RunId) {
        self.post(DesktopCommand::Dismiss { run_id }, "The card stays.");
    }

    /// Wants something of the next run, or not any more.
    pub(crate) fn toggle(mut self, precaution: Precaution) {
        let mut wanted = self.precautions.write();
        match wanted.contains(&precaution) {
            true => wanted.retain(|one| *one != precaution),
            false => wanted.push(precaution),
        }
    }

    /// Asks again what waits for the person.
    pub(crate) fn refresh_inbox(mut self) {
        spawn_local(async move {
            // What cannot be read now is read at the next event of the inbox.
            if let Ok(Inbox { inbox }) = server::get("/api/inbox").await {
                self.inbox.set(inbox);
            }
        });
    }

    /// Lets the computer try its sandbox, then asks how it is.
    pub(crate) fn look_again(self) {
        spawn_local(async move {
            // Whatever is read of the workspace is read in a sandbox; how that went is what the condition says.
            server::act("GET", "/api/files/list?path=").await.ok();
            self.refresh_condition();
        });
    }

    /// Asks again how models and sandboxes are.
    pub(crate) fn refresh_condition(mut self) {
        spawn_local(async move {
            if let Ok(health) = server::get("/health").await {
                self.health.set(Some(health));
            }
            if let Ok(settings) = server::get("/api/settings").await {
                self.settings.set(Some(settings));
            }
        });
    }
}

/// Sets what a part of the page shows, unless that part is gone: answers may come later than that.
pub(crate) fn late<T: 'static>(mut signal: Signal<T>, value: T) {
    if let Ok(mut slot) = signal.try_write() {
        *slot = value;
    }
}

/// The shared state of this page.
pub(crate) fn use_desk() -> Desk {
    use_context::<Desk>()
}
