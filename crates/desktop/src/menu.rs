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
    /// Press what the front window has for it.
    Press(Act),
    /// Put all answers away.
    DismissAnswers,
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
}

/// What a window may have a button or a fold for, which the menu finds by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the menu below says what each is called")]
pub enum Act {
    Outline,
    Versions,
    Changes,
    Accept,
    Reject,
    Steer,
    Ask,
    Change,
    Verify,
    Origin,
    NewFolder,
    Upload,
    UploadFolder,
    BringBack,
    Find,
    Copy,
    Paste,
}

impl Act {
    /// The mark of the button.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outline => "outline",
            Self::Versions => "versions",
            Self::Changes => "changes",
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Steer => "steer",
            Self::Ask => "ask",
            Self::Change => "change",
            Self::Verify => "verify",
            Self::Origin => "origin",
            Self::NewFolder => "new-folder",
            Self::Upload => "upload",
            Self::UploadFolder => "upload-folder",
            Self::BringBack => "bring-back",
            Self::Find => "find",
            Self::Copy => "copy",
            Self::Paste => "paste",
        }
    }

    /// What is missing where the front window has no such button.
    pub const fn missing(self) -> &'static str {
        match self {
            Self::Outline => "The document in front has fewer than two headings.",
            Self::Versions => "No document is in the front window.",
            Self::Changes => "No run is in the front window.",
            Self::Accept | Self::Reject => "The document in front has no proposal that waits.",
            Self::Steer => "No run works on what is in the front window.",
            Self::Ask | Self::Change | Self::Verify | Self::Origin => "Select some words of a document first.",
            Self::NewFolder | Self::Upload | Self::UploadFolder => "Files is not the front window.",
            Self::BringBack => "Nothing was put away in the front window.",
            Self::Find | Self::Copy | Self::Paste => "No terminal is in the front window.",
        }
    }
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

/// Apps, then actions, then themes. The order of the parts lets three columns be of nearly the same height.
pub const SECTIONS: [(&str, &[Item]); 8] = [
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
            item(Action::DismissAnswers, "Dismiss all answers", Icon::Close, ""),
            item(Action::Tour(Tour::Liar), Tour::Liar.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Quotes), Tour::Quotes.title(), Icon::Play, "tour"),
            item(Action::Tour(Tour::Numbers), Tour::Numbers.title(), Icon::Play, "tour"),
        ],
    ),
    (
        "Selection",
        &[
            item(Action::Press(Act::Ask), "Ask about the selection", Icon::Quote, ""),
            item(Action::Press(Act::Change), "Change the selection", Icon::Pencil, ""),
            item(Action::Press(Act::Verify), "Verify the selection", Icon::Check, ""),
            item(Action::Press(Act::Origin), "Where the selection comes from", Icon::Search, ""),
        ],
    ),
    (
        "Document and run",
        &[
            item(Action::Document(Wish::Find), "Find and replace", Icon::Search, "Ctrl F"),
            item(Action::Document(Wish::Save), "Save as Markdown", Icon::Download, ""),
            item(Action::Document(Wish::SavePage), "Save as a web page", Icon::FileText, ""),
            item(Action::Document(Wish::Print), "Print", Icon::Print, "Ctrl P"),
            item(Action::Press(Act::Changes), "Show its changes", Icon::Changes, ""),
            item(Action::Press(Act::Outline), "Outline", Icon::Outline, ""),
            item(Action::Press(Act::Versions), "Versions", Icon::Timeline, ""),
            item(Action::Press(Act::Accept), "Accept the first proposal", Icon::Check, ""),
            item(Action::Press(Act::Reject), "Reject the first proposal", Icon::Close, ""),
            item(Action::Press(Act::Steer), "Steer run", Icon::Steer, ""),
            item(Action::Run(Verb::Pause), "Pause run", Icon::Pause, ""),
            item(Action::Run(Verb::Resume), "Resume run", Icon::Play, ""),
            item(Action::Run(Verb::Cancel), "Cancel run", Icon::Stop, ""),
            item(Action::Run(Verb::Undo), "Undo run", Icon::Undo, ""),
            item(Action::Run(Verb::Trace), "Show its trace", Icon::Trace, ""),
        ],
    ),
    (
        "Files and Terminal",
        &[
            item(Action::Press(Act::NewFolder), "New folder", Icon::FolderPlus, ""),
            item(Action::Press(Act::Upload), "Upload files", Icon::Upload, ""),
            item(Action::Press(Act::UploadFolder), "Bring in a folder", Icon::FolderUp, ""),
            item(Action::Press(Act::BringBack), "Bring back what was put away", Icon::Undo, ""),
            item(Action::Press(Act::Find), "Look in the terminal", Icon::Search, "Ctrl Shift F"),
            item(Action::Press(Act::Copy), "Copy from the terminal", Icon::Copy, "Ctrl Shift C"),
            item(Action::Press(Act::Paste), "Paste into the terminal", Icon::FileText, "Ctrl Shift V"),
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
