//! Everything a person can ask of the desktop, in one list: the menu shows it, and it teaches the shortcuts.

use crate::geometry::Arrow;
use crate::icon::Icon;
use crate::prompt::Precaution;
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
    /// Want something of the next run, or not any more.
    Want(Precaution),
    /// Give the focused window another shape.
    Shape(Shape),
    /// Close the focused window.
    CloseWindow,
    /// Bring the next window to the front.
    NextWindow,
    /// Move the focused window.
    Move(Arrow),
    /// Resize the focused window: the arrow says which way its lower right corner goes.
    Resize(Arrow),
    /// Do something with the document of the focused window.
    Document(Wish),
    /// Do something with the run of the focused window.
    Run(Verb),
    /// Choose a theme; nothing follows the system.
    Theme(Option<Theme>),
}

/// What can be done with an open document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Look for words in it.
    Find,
    /// Give it to the person as a file of Markdown.
    Save,
    /// Give it to the person as a page of its own, with its sources.
    SavePage,
    /// Put it on paper.
    Print,
    /// Show what its run changed in the workspace.
    Changes,
}

/// What can be done with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the verbs of the routes")]
pub enum Verb {
    Pause,
    Resume,
    Cancel,
    Undo,
    Trace,
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
pub const SECTIONS: [(&str, &[Item]); 6] = [
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
            item(Action::Want(Precaution::PlanFirst), Precaution::PlanFirst.name(), Icon::Steer, "next prompt"),
            item(Action::Want(Precaution::Check), Precaution::Check.name(), Icon::Check, "next prompt"),
            item(Action::NewDocument, "New document", Icon::FilePlus, ""),
            item(Action::Tour(Tour::Liar), Tour::Liar.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Quotes), Tour::Quotes.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Numbers), Tour::Numbers.title(), Icon::Play, "tour"),
        ],
    ),
    (
        "Document and run",
        &[
            item(Action::Document(Wish::Find), "Find and replace", Icon::Search, "Ctrl F"),
            item(Action::Document(Wish::Save), "Save as Markdown", Icon::Download, ""),
            item(Action::Document(Wish::SavePage), "Save as a web page", Icon::FileText, ""),
            item(Action::Document(Wish::Print), "Print", Icon::Print, ""),
            item(Action::Document(Wish::Changes), "Show its changes", Icon::Changes, ""),
            item(Action::Run(Verb::Pause), "Pause run", Icon::Pause, ""),
            item(Action::Run(Verb::Resume), "Resume run", Icon::Play, ""),
            item(Action::Run(Verb::Cancel), "Cancel run", Icon::Stop, ""),
            item(Action::Run(Verb::Undo), "Undo run", Icon::Undo, ""),
            item(Action::Run(Verb::Trace), "Show its trace", Icon::Trace, ""),
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
        "Move and resize",
        &[
            item(Action::Move(Arrow::Left), "Move left", Icon::ArrowLeft, "Alt Shift ←"),
            item(Action::Move(Arrow::Right), "Move right", Icon::ArrowRight, "Alt Shift →"),
            item(Action::Move(Arrow::Up), "Move up", Icon::ArrowUp, "Alt Shift ↑"),
            item(Action::Move(Arrow::Down), "Move down", Icon::ArrowDown, "Alt Shift ↓"),
            item(Action::Resize(Arrow::Left), "Narrower", Icon::ArrowLeft, "Ctrl Alt Shift ←"),
            item(Action::Resize(Arrow::Right), "Wider", Icon::ArrowRight, "Ctrl Alt Shift →"),
            item(Action::Resize(Arrow::Up), "Shorter", Icon::ArrowUp, "Ctrl Alt Shift ↑"),
            item(Action::Resize(Arrow::Down), "Taller", Icon::ArrowDown, "Ctrl Alt Shift ↓"),
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
