//! Everything a person can ask of the desktop, in one list: the menu shows it, and it teaches the shortcuts.

use crate::icon::Icon;
use choir_proto::desktop::{App, Shape, Theme};
use choir_proto::tour::Tour;

/// One thing that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open an app.
    Open(App),
    /// Begin an empty document.
    NewDocument,
    /// Begin a part of the tour.
    Tour(Tour),
    /// Go to the prompt bar.
    FocusPrompt,
    /// Give the focused window another shape.
    Shape(Shape),
    /// Close the focused window.
    CloseWindow,
    /// Bring the next window to the front.
    NextWindow,
    /// Choose a theme; nothing follows the system.
    Theme(Option<Theme>),
}

/// One line of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// What it does.
    pub action: Action,
    /// What it is called.
    pub label: &'static str,
    /// Its picture.
    pub icon: Icon,
    /// The keys that do the same.
    pub keys: &'static str,
}

const fn item(action: Action, label: &'static str, icon: Icon, keys: &'static str) -> Item {
    Item { action, label, icon, keys }
}

const fn app(app: App, keys: &'static str) -> Item {
    item(Action::Open(app), app.name(), Icon::of(app), keys)
}

/// Apps, then actions, then themes.
pub const SECTIONS: [(&str, &[Item]); 4] = [
    (
        "Open",
        &[
            app(App::Writer, ""),
            app(App::Terminal, ""),
            app(App::Files, ""),
            app(App::Trace, ""),
            app(App::Timeline, ""),
            app(App::Search, ""),
            app(App::Inbox, ""),
            app(App::Settings, ""),
        ],
    ),
    (
        "Start",
        &[
            item(Action::FocusPrompt, "New prompt", Icon::ArrowUp, "Ctrl K"),
            item(Action::NewDocument, "New document", Icon::FilePlus, ""),
            item(Action::Tour(Tour::Liar), Tour::Liar.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Quotes), Tour::Quotes.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Numbers), Tour::Numbers.title(), Icon::Play, "tour"),
        ],
    ),
    (
        "Window",
        &[
            item(Action::Shape(Shape::LeftHalf), "Snap left", Icon::SnapLeft, "Ctrl Alt ←"),
            item(Action::Shape(Shape::RightHalf), "Snap right", Icon::SnapRight, "Ctrl Alt →"),
            item(Action::Shape(Shape::Maximised), "Maximise window", Icon::Maximise, "Ctrl Alt ↑"),
            item(Action::Shape(Shape::Normal), "Restore window", Icon::Restore, "Ctrl Alt ↓"),
            item(Action::Shape(Shape::Minimised), "Minimise window", Icon::Minimise, "Ctrl Alt M"),
            item(Action::NextWindow, "Next window", Icon::ChevronRight, "F6"),
            item(Action::CloseWindow, "Close window", Icon::Close, "Ctrl Alt W"),
        ],
    ),
    (
        "Theme",
        &[
            item(Action::Theme(Some(Theme::Matins)), "Matins (light)", Icon::Sun, ""),
            item(Action::Theme(Some(Theme::Vespers)), "Vespers (dark)", Icon::Moon, ""),
            item(Action::Theme(None), "Follow the system", Icon::SunMoon, ""),
        ],
    ),
];
