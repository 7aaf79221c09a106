//! Keys that work wherever the focus is, and what the menu's actions do.

use super::apps;
use super::bridge::{self, Held};
use super::cards::{control, dismiss_answers, open_trace};
use super::desk::Desk;
use super::server::{self, Failure, Kept};
use choir_desktop::computer::focused;
use choir_desktop::geometry::{self, Arrow};
use choir_desktop::menu::{Act, Action, Verb, Wish};
use choir_proto::DocumentId;
use choir_proto::desktop::{App, DesktopCommand, Rect, Shape, Subject, Window};
use choir_proto::document::NewDocument;
use dioxus::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// The element that takes the prompt.
pub(crate) const PROMPT: &str = "#prompt";

/// Starts to listen.
pub(crate) fn listen(desk: Desk) -> Held {
    bridge::keys(move |key, typing| press(desk, &key, typing))
}

/// Answers whether the key meant something.
fn press(desk: Desk, key: &str, typing: bool) -> bool {
    match key {
        "Ctrl k" | "Ctrl K" => perform(desk, Action::FocusPrompt),
        "?" | "Shift ?" if !typing => perform(desk, Action::FocusPrompt),
        // Anything else in front is for the browser to print.
        "Ctrl p" if front_document(desk).is_some() => perform(desk, Action::Document(Wish::Print)),
        "F6" => perform(desk, Action::NextWindow),
        "Ctrl Alt ArrowLeft" => perform(desk, Action::Shape(Shape::LeftHalf)),
        "Ctrl Alt ArrowRight" => perform(desk, Action::Shape(Shape::RightHalf)),
        "Ctrl Alt ArrowUp" => perform(desk, Action::Shape(Shape::Maximised)),
        "Ctrl Alt ArrowDown" => perform(desk, Action::Shape(Shape::Normal)),
        "Ctrl Alt m" => perform(desk, Action::Shape(Shape::Minimised)),
        "Ctrl Alt w" => perform(desk, Action::CloseWindow),
        _ => return arrow(desk, key, typing),
    }
    true
}

/// Alt and Shift move the focused window with the arrows, Ctrl as well resizes it. In a text, the first of them select words.
fn arrow(desk: Desk, key: &str, typing: bool) -> bool {
    let (change, name): (fn(Rect, Arrow, geometry::Size) -> Rect, _) = match key.strip_prefix("Ctrl Alt Shift ") {
        Some(name) => (geometry::grow, name),
        None => match key.strip_prefix("Alt Shift ") {
            Some(name) if !typing => (geometry::nudge, name),
            _ => return false,
        },
    };
    let arrow = match name {
        "ArrowLeft" => Arrow::Left,
        "ArrowRight" => Arrow::Right,
        "ArrowUp" => Arrow::Up,
        "ArrowDown" => Arrow::Down,
        _ => return false,
    };
    shift(desk, change, arrow);
    true
}

/// Moves or resizes the focused window by one step.
fn shift(desk: Desk, change: fn(Rect, Arrow, geometry::Size) -> Rect, arrow: Arrow) {
    match top(desk) {
        Some(window) => desk.move_to(window.window_id, change(place(desk, &window), arrow, desk.canvas_now())),
        None => desk.tell("No window is open."),
    }
}

/// Where a window lies on this canvas.
pub(crate) fn place(desk: Desk, window: &Window) -> Rect {
    let dragged = desk.dragged_to(window.window_id);
    let canvas = desk.canvas_now();
    let rect = dragged.or(window.rect).unwrap_or_else(|| geometry::place(window.app, canvas, &[]));
    geometry::fit(rect, canvas)
}

fn top(desk: Desk) -> Option<Window> {
    focused(&desk.desktop.peek()).cloned()
}

/// Does what the menu says.
pub(crate) fn perform(desk: Desk, action: Action) {
    match action {
        Action::Open(App::Terminal) => apps::open_terminal(desk),
        Action::Open(app) => desk.open(app, None),
        Action::NewDocument => new_document(desk),
        Action::Tour(tour) => super::tour::begin(desk, tour),
        Action::FocusPrompt => bridge::focus(PROMPT),
        Action::Want(precaution) => {
            desk.toggle(precaution);
            bridge::focus(PROMPT);
        }
        Action::Theme(theme) => desk.command(DesktopCommand::Theme { theme }),
        Action::NextWindow => next_window(desk),
        Action::Move(arrow) => shift(desk, geometry::nudge, arrow),
        Action::Resize(arrow) => shift(desk, geometry::grow, arrow),
        Action::Document(wish) => wish_for(desk, wish),
        Action::Run(verb) => with_run(desk, verb),
        Action::Press(act) => press_button(desk, act),
        Action::DismissAnswers => dismiss_answers(desk),
        Action::Shape(shape) => with_top(desk, |window_id| DesktopCommand::Shape { window_id, shape }),
        Action::CloseWindow => match top(desk) {
            Some(window) => close(desk, &window),
            None => desk.tell("No window is open."),
        },
    }
}

/// Closes a window, and ends what runs in it.
pub(crate) fn close(desk: Desk, window: &Window) {
    desk.command(DesktopCommand::Close { window_id: window.window_id });
    if let Some(Subject::Terminal(id)) = window.subject {
        apps::close_terminal(id);
    }
}

fn with_top(desk: Desk, command: impl FnOnce(choir_proto::WindowId) -> DesktopCommand) {
    match top(desk) {
        Some(window) => desk.command(command(window.window_id)),
        None => desk.tell("No window is open."),
    }
}

/// Lets the front window do what a button of it does.
fn press_button(desk: Desk, act: Act) {
    let pressed = |window: Window| bridge::press(&format!("window-{}", window.window_id), act.name());
    if !top(desk).is_some_and(pressed) {
        desk.tell(act.missing());
    }
}

/// The open document itself does what is wished.
fn wish_for(mut desk: Desk, wish: Wish) {
    match front_document(desk) {
        Some(id) => desk.wish.set(Some((id, wish))),
        None => desk.tell("No document is in the front window."),
    }
}

fn front_document(desk: Desk) -> Option<DocumentId> {
    match top(desk)?.subject? {
        Subject::Document(id) => Some(id),
        _ => None,
    }
}

fn with_run(desk: Desk, verb: Verb) {
    let runs = desk.runs.peek();
    let run = match top(desk).and_then(|window| window.subject) {
        Some(Subject::Document(id)) => runs.of_document(id).map(|run| run.run_id),
        Some(Subject::Run(id)) => Some(id),
        _ => None,
    };
    match (run, verb) {
        (None, _) => desk.tell("No run is in the front window."),
        (Some(id), Verb::Pause) => control(desk, id, "pause"),
        (Some(id), Verb::Resume) => control(desk, id, "resume"),
        (Some(id), Verb::Cancel) => control(desk, id, "cancel"),
        (Some(id), Verb::Undo) => apps::undo_run(desk, id),
        (Some(id), Verb::Trace) => open_trace(desk, id),
    }
}

/// The lowest visible window comes to the front, so that repeating it visits all of them.
fn next_window(desk: Desk) {
    let lowest = desk.desktop.peek().windows.iter().find(|window| window.shape != Shape::Minimised).cloned();
    match lowest {
        Some(window) => desk.raise(&window),
        None => desk.tell("No window is open."),
    }
}

fn new_document(desk: Desk) {
    spawn_local(async move {
        let body = NewDocument { title: "Untitled".to_owned(), content: String::new() };
        let answer: Result<Kept, Failure> = server::send("POST", "/api/documents", &body).await;
        match answer {
            Ok(document) => desk.open(App::Writer, Some(Subject::Document(document.document_id))),
            Err(failure) => desk.undone("No document was begun.", &failure),
        }
    });
}
