//! The desktop as the server keeps it: windows, focus order and theme.

use crate::{DocumentId, RunId, TerminalId, WindowId};
use serde::{Deserialize, Serialize};

/// What a window shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum App {
    /// A living document.
    Writer,
    /// A terminal of the session associate.
    Terminal,
    /// The workspace.
    Files,
    /// Spans of a run.
    Trace,
    /// The log through time.
    Timeline,
    /// Everything by words.
    Search,
    /// Questions and approvals.
    Inbox,
    /// Models, keys, budgets, theme.
    Settings,
    /// A dev server or an agent's app.
    Preview,
}

impl App {
    /// Those that can be opened, in the order of the menu.
    pub const INSTALLED: [Self; 8] = [
        Self::Writer,
        Self::Terminal,
        Self::Files,
        Self::Trace,
        Self::Timeline,
        Self::Search,
        Self::Inbox,
        Self::Settings,
    ];

    /// The name that people, screen readers and tests rely on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writer => "Writer",
            Self::Terminal => "Terminal",
            Self::Files => "Files",
            Self::Trace => "Trace",
            Self::Timeline => "Timeline",
            Self::Search => "Search",
            Self::Inbox => "Inbox",
            Self::Settings => "Settings",
            Self::Preview => "Preview",
        }
    }
}

/// What a window is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A document.
    Document(DocumentId),
    /// A run that has no document, or its trace.
    Run(RunId),
    /// A terminal.
    Terminal(TerminalId),
    /// A file or folder of the workspace.
    Path(String),
}

/// Where a window lies, in CSS pixels of the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rect {
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// How a window is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// At its place.
    #[default]
    Normal,
    /// In the taskbar only.
    Minimised,
    /// Over the whole canvas.
    Maximised,
    /// The left half.
    LeftHalf,
    /// The right half.
    RightHalf,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Window {
    /// Its name.
    pub window_id: WindowId,
    /// What it shows.
    pub app: App,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Where it lies when it is neither maximised nor minimised; nothing lets the shell place it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rect: Option<Rect>,
    /// How it is shown.
    pub shape: Shape,
    /// How it was shown before it was minimised, and will be again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape_before: Option<Shape>,
}

/// The whole desktop: the view that `core` folds from the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Desktop {
    /// From the bottom to the top; the last visible one has the focus.
    pub windows: Vec<Window>,
    /// `matins` or `vespers`; nothing follows the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<Theme>,
}

/// The two themes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// Light.
    Matins,
    /// Dark.
    Vespers,
}

/// The body of `POST /api/desktop`: what a person did to a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum DesktopCommand {
    /// Open a window, or bring the one about the same subject to the front.
    Open {
        /// What it shows.
        app: App,
        /// What it is about.
        #[serde(default)]
        subject: Option<Subject>,
        /// Where.
        #[serde(default)]
        rect: Option<Rect>,
    },
    /// Bring to the front.
    Focus {
        /// Which.
        window_id: WindowId,
    },
    /// Put it elsewhere.
    Move {
        /// Which.
        window_id: WindowId,
        /// Where.
        rect: Rect,
    },
    /// Minimise, maximise, snap or restore.
    Shape {
        /// Which.
        window_id: WindowId,
        /// How.
        shape: Shape,
    },
    /// Let a window show something else.
    Show {
        /// Which.
        window_id: WindowId,
        /// What it is about now.
        subject: Subject,
    },
    /// Close it.
    Close {
        /// Which.
        window_id: WindowId,
    },
    /// Choose a theme; nothing follows the system.
    Theme {
        /// Which.
        theme: Option<Theme>,
    },
    /// Put the card of a run away; the run is listed as before.
    Dismiss {
        /// Which.
        run_id: RunId,
    },
}
