//! The icons in use. The build reads this list and puts exactly these Lucide icons into the page.

use choir_proto::desktop::App;

/// One icon of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the name says what the picture shows, and nothing else is true of it")]
pub enum Icon {
    ArrowUp,
    ChevronLeft,
    ChevronRight,
    Close,
    Download,
    File,
    FilePlus,
    FileText,
    Files,
    Folder,
    Image,
    Inbox,
    Key,
    Library,
    Maximise,
    Menu,
    Minimise,
    Moon,
    Pause,
    Pencil,
    Play,
    Plus,
    Restore,
    Search,
    Settings,
    SnapLeft,
    SnapRight,
    Stop,
    Steer,
    Sun,
    SunMoon,
    Terminal,
    Timeline,
    Trace,
    Trash,
    Undo,
    Upload,
    WifiOff,
    Writer,
}

impl Icon {
    /// Lucide's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ArrowUp => "arrow-up",
            Self::ChevronLeft => "chevron-left",
            Self::ChevronRight => "chevron-right",
            Self::Close => "x",
            Self::Download => "download",
            Self::File => "file",
            Self::FilePlus => "file-plus",
            Self::FileText => "file-text",
            Self::Files => "folder-open",
            Self::Folder => "folder",
            Self::Image => "image",
            Self::Inbox => "inbox",
            Self::Key => "key-round",
            Self::Library => "library",
            Self::Maximise => "maximize-2",
            Self::Menu => "layout-grid",
            Self::Minimise => "minus",
            Self::Moon => "moon",
            Self::Pause => "pause",
            Self::Pencil => "pencil",
            Self::Play => "play",
            Self::Plus => "plus",
            Self::Restore => "minimize-2",
            Self::Search => "search",
            Self::Settings => "settings-2",
            Self::SnapLeft => "panel-left",
            Self::SnapRight => "panel-right",
            Self::Stop => "square",
            Self::Steer => "navigation",
            Self::Sun => "sun",
            Self::SunMoon => "sun-moon",
            Self::Terminal => "square-terminal",
            Self::Timeline => "history",
            Self::Trace => "chart-gantt",
            Self::Trash => "trash-2",
            Self::Undo => "undo-2",
            Self::Upload => "upload",
            Self::WifiOff => "wifi-off",
            Self::Writer => "feather",
        }
    }

    /// The icon of an app.
    pub const fn of(app: App) -> Self {
        match app {
            App::Writer => Self::Writer,
            App::Terminal => Self::Terminal,
            App::Files => Self::Files,
            App::Trace => Self::Trace,
            App::Timeline => Self::Timeline,
            App::Inbox => Self::Inbox,
            App::Settings => Self::Settings,
            App::Search => Self::Search,
            App::Preview => Self::File,
        }
    }
}
