//! The desktop: what a person did to windows, and what the desktop makes of it.

use super::Fold;
use choir_proto::desktop::{Desktop, DesktopCommand, Shape, Subject, Window};
use choir_proto::event::{
    Header, RunDismissed, ThemeChosen, WindowClosed, WindowFocused, WindowMoved, WindowOpened, WindowShaped,
    WindowShown,
};
use choir_proto::{Event, RunId, WindowId};

/// Windows open at once. More would be a mistake or an attack.
pub const WINDOWS_MAX: usize = 64;

/// The one desktop of a computer.
pub struct Desktops;

impl Desktops {
    /// The key of the only row.
    pub const KEY: &'static str = "desktop";
}

impl Fold for Desktops {
    type Row = Desktop;
    const NAME: &'static str = "desktop";
    const VERSION: u32 = 3;

    fn key(_: &Header, event: &Event) -> Option<String> {
        let concerned = matches!(
            event,
            Event::WindowOpened(_)
                | Event::WindowFocused(_)
                | Event::WindowMoved(_)
                | Event::WindowShaped(_)
                | Event::WindowShown(_)
                | Event::WindowClosed(_)
                | Event::ThemeChosen(_)
                | Event::DocumentTrashed(_)
        );
        concerned.then(|| Self::KEY.to_owned())
    }

    fn apply(row: &mut Option<Desktop>, header: &Header, event: &Event) {
        apply(row.get_or_insert_default(), header.run, event);
    }
}

/// Folds one event, which a run may have made happen, into a desktop.
pub fn apply(desktop: &mut Desktop, run: Option<RunId>, event: &Event) {
    match event {
        // A page that reads the desktop and then follows the log may meet an event twice.
        Event::WindowOpened(opened) if find(desktop, opened.window_id).is_some() => {}
        Event::WindowOpened(opened) => desktop.windows.push(Window {
            window_id: opened.window_id,
            app: opened.app,
            subject: opened.subject.clone(),
            rect: opened.rect,
            shape: Shape::Normal,
            shape_before: None,
        }),
        Event::WindowFocused(focused) => raise(desktop, focused.window_id),
        Event::WindowMoved(moved) => {
            if let Some(window) = find(desktop, moved.window_id) {
                window.rect = Some(moved.rect);
                shape(window, Shape::Normal);
            }
        }
        Event::WindowShaped(shaped) => {
            if let Some(window) = find(desktop, shaped.window_id) {
                shape(window, shaped.shape);
            }
        }
        Event::WindowShown(shown) => {
            if let Some(window) = find(desktop, shown.window_id) {
                window.subject = Some(shown.subject.clone());
            }
        }
        Event::WindowClosed(closed) => desktop.windows.retain(|window| window.window_id != closed.window_id),
        Event::ThemeChosen(chosen) => desktop.theme = chosen.theme,
        // A run that needed no document after all takes its windows: there is nothing else to see in them.
        Event::DocumentTrashed(trashed) => {
            let gone = Some(Subject::Document(trashed.document_id));
            for window in desktop.windows.iter_mut().filter(|window| window.subject == gone) {
                window.subject = run.map(Subject::Run);
            }
        }
        _ => {}
    }
}

/// Why a command on the desktop was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such window.
    NoWindow(WindowId),
    /// There are too many windows.
    TooMany,
}

/// What a command makes happen. `fresh` names a window, should one be opened.
pub fn step(desktop: &Desktop, command: DesktopCommand, fresh: WindowId) -> Result<Vec<Event>, Refused> {
    match command {
        DesktopCommand::Open { app, subject, rect } => {
            let same = |window: &&Window| window.app == app && window.subject == subject && subject.is_some();
            if let Some(window) = desktop.windows.iter().find(same) {
                return Ok(bring_forward(window));
            }
            if desktop.windows.len() >= WINDOWS_MAX {
                return Err(Refused::TooMany);
            }
            Ok(vec![WindowOpened { window_id: fresh, app, subject, rect }.into()])
        }
        DesktopCommand::Focus { window_id } => Ok(bring_forward(known(desktop, window_id)?)),
        DesktopCommand::Move { window_id, rect } => {
            known(desktop, window_id).map(|_| vec![WindowMoved { window_id, rect }.into()])
        }
        DesktopCommand::Shape { window_id, shape } => {
            known(desktop, window_id).map(|_| vec![WindowShaped { window_id, shape }.into()])
        }
        DesktopCommand::Show { window_id, subject } => {
            known(desktop, window_id).map(|_| vec![WindowShown { window_id, subject }.into()])
        }
        DesktopCommand::Close { window_id } => {
            known(desktop, window_id).map(|_| vec![WindowClosed { window_id }.into()])
        }
        DesktopCommand::Theme { theme } => Ok(vec![ThemeChosen { theme }.into()]),
        DesktopCommand::Dismiss { .. } => Ok(vec![RunDismissed {}.into()]),
    }
}

/// Shows a window in another way. One that is minimised knows how it was shown.
fn shape(window: &mut Window, shape: Shape) {
    window.shape_before = match (shape, window.shape) {
        (Shape::Minimised, Shape::Minimised) => window.shape_before,
        (Shape::Minimised, before) => Some(before),
        _ => None,
    };
    window.shape = shape;
}

fn bring_forward(window: &Window) -> Vec<Event> {
    let window_id = window.window_id;
    let mut events: Vec<Event> = vec![WindowFocused { window_id }.into()];
    if window.shape == Shape::Minimised {
        events.push(WindowShaped { window_id, shape: window.shape_before.unwrap_or_default() }.into());
    }
    events
}

fn known(desktop: &Desktop, window_id: WindowId) -> Result<&Window, Refused> {
    desktop.windows.iter().find(|window| window.window_id == window_id).ok_or(Refused::NoWindow(window_id))
}

fn find(desktop: &mut Desktop, window_id: WindowId) -> Option<&mut Window> {
    desktop.windows.iter_mut().find(|window| window.window_id == window_id)
}

fn raise(desktop: &mut Desktop, window_id: WindowId) {
    if let Some(at) = desktop.windows.iter().position(|window| window.window_id == window_id) {
        let window = desktop.windows.remove(at);
        desktop.windows.push(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::DocumentId;
    use choir_proto::desktop::App;
    use choir_proto::event::DocumentTrashed;
    use uuid::Uuid;

    fn window(number: u128) -> WindowId {
        WindowId::new(Uuid::from_u128(number))
    }

    fn after(commands: impl IntoIterator<Item = DesktopCommand>) -> Desktop {
        let mut desktop = Desktop::default();
        for (number, command) in commands.into_iter().enumerate() {
            for event in step(&desktop, command, window(number as u128)).unwrap() {
                apply(&mut desktop, None, &event);
            }
        }
        desktop
    }

    #[test]
    fn opening_the_same_subject_twice_brings_its_window_to_the_front() {
        let open = |path: &str| DesktopCommand::Open {
            app: App::Files,
            subject: Some(Subject::Path(path.into())),
            rect: None,
        };
        let minimise = DesktopCommand::Shape { window_id: window(0), shape: Shape::Minimised };
        let desktop = after([open("a"), open("b"), minimise, open("a")]);
        let order: Vec<_> = desktop.windows.iter().map(|window| (window.window_id, window.shape)).collect();
        assert_eq!(order, [(window(1), Shape::Normal), (window(0), Shape::Normal)]);
    }

    #[test]
    fn a_window_that_was_minimised_comes_back_as_it_was() {
        let open = |path: &str| DesktopCommand::Open {
            app: App::Files,
            subject: Some(Subject::Path(path.into())),
            rect: None,
        };
        let shape = |shape| DesktopCommand::Shape { window_id: window(0), shape };
        let minimise = || shape(Shape::Minimised);
        let shown = |shaped, back| after([open("a"), shape(shaped), minimise(), minimise(), back]).windows[0].clone();
        for shaped in [Shape::Normal, Shape::Maximised, Shape::LeftHalf, Shape::RightHalf] {
            assert_eq!(shown(shaped, minimise()).shape_before, Some(shaped));
            assert_eq!(shown(shaped, open("a")).shape, shaped);
            assert_eq!(shown(shaped, DesktopCommand::Focus { window_id: window(0) }).shape, shaped);
            assert_eq!(shown(shaped, open("a")).shape_before, None);
        }
    }

    #[test]
    fn a_run_takes_the_windows_of_a_document_that_it_did_not_need() {
        let (gone, other) = (DocumentId::new(Uuid::from_u128(1)), DocumentId::new(Uuid::from_u128(2)));
        let open = |id| DesktopCommand::Open { app: App::Writer, subject: Some(Subject::Document(id)), rect: None };
        let mut desktop = after([open(gone), open(other)]);
        let run = RunId::new(Uuid::from_u128(3));
        apply(&mut desktop, Some(run), &DocumentTrashed { document_id: gone, reason: String::new() }.into());
        let subjects: Vec<_> = desktop.windows.into_iter().map(|window| window.subject).collect();
        assert_eq!(subjects, [Some(Subject::Run(run)), Some(Subject::Document(other))]);
    }

    #[test]
    fn a_window_that_is_not_there_cannot_be_moved() {
        let command = DesktopCommand::Close { window_id: window(7) };
        assert_eq!(step(&Desktop::default(), command, window(1)).unwrap_err(), Refused::NoWindow(window(7)));
    }
}
