//! A window: a bar, eight handles, and an app inside.

use super::apps::AppView;
use super::bridge::{self, Held};
use super::desk::{Desk, use_desk};
use super::keys::{close, place};
use super::rich::{Glyph, IconButton, Standing};
use choir_desktop::computer::{focused, title};
use choir_desktop::icon::Icon;
use choir_desktop::status::{Mark, run_words};
use choir_proto::desktop::{DesktopCommand, Rect, Shape, Subject, Window};
use choir_proto::{RunStatus, WindowId};
use dioxus::prelude::*;
use web_sys::Element as Node;

const EDGES: [&str; 8] = ["n", "ne", "e", "se", "s", "sw", "w", "nw"];

/// Everything that a frame shows.
#[derive(Debug, Clone, PartialEq)]
struct View {
    window: Window,
    /// Its place in the pile.
    height: usize,
    /// Whether it has the focus.
    front: bool,
    name: String,
    /// Of the run that it is about.
    status: Option<RunStatus>,
}

impl View {
    fn of(desk: Desk, id: WindowId) -> Option<Self> {
        let (desktop, runs) = (desk.desktop.read(), desk.runs.read());
        let height = desktop.windows.iter().position(|window| window.window_id == id)?;
        let window = desktop.windows[height].clone();
        let run = match window.subject {
            Some(Subject::Document(id)) => runs.of_document(id),
            Some(Subject::Run(id)) => runs.get(id),
            _ => None,
        };
        Some(Self {
            height,
            front: focused(&desktop).map(|window| window.window_id) == Some(id),
            name: title(&window, &runs, &desk.documents.read()),
            status: run.map(|run| run.status),
            window,
        })
    }
}

/// Follows one window of the desktop; its frame is drawn again only when what it shows changes.
#[component]
pub(crate) fn WindowFrame(id: WindowId) -> Element {
    let desk = use_desk();
    let view = use_memo(move || View::of(desk, id));
    match view() {
        Some(view) => rsx! { Frame { view } },
        None => rsx! {},
    }
}

#[component]
fn Frame(view: View) -> Element {
    let desk = use_desk();
    let mut held = use_signal(|| None::<Held>);
    let window = view.window.clone();
    let (id, front) = (window.window_id, view.front);
    // Subscribes to what `place` reads, so that a drag and another size of the page are followed.
    desk.dragged.read();
    desk.canvas.read();
    // A window that is snapped keeps its own place, for when it is dragged away; the stylesheet places it meanwhile.
    let rect = place(desk, &window);
    rsx! {
        section {
            id: "window-{id}",
            class: if front { "window front" } else { "window" },
            role: "dialog",
            "aria-modal": "false",
            "aria-label": "{view.name}",
            tabindex: "-1",
            "data-shape": shape_name(window.shape),
            hidden: window.shape == Shape::Minimised,
            left: "{rect.x}px",
            top: "{rect.y}px",
            width: "{rect.width}px",
            height: "{rect.height}px",
            z_index: "{view.height + 1}",
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                held.set(Some(draggable(desk, id, &element)));
            },
            onpointerdown: move |_| {
                if !front { desk.to_front(id) }
            },
            Bar { view: view.clone() }
            div { class: "content", AppView { window: window.clone() } }
            for edge in EDGES { span { class: "edge", "data-edge": edge } }
        }
    }
}

fn draggable(desk: Desk, id: WindowId, element: &Node) -> Held {
    let on_rect = move |x, y, width, height| desk.move_to(id, Rect { x, y, width, height });
    let on_shape = move |name: String| {
        let shape = [Shape::Normal, Shape::Maximised, Shape::LeftHalf, Shape::RightHalf];
        if let Some(shape) = shape.into_iter().find(|shape| shape_name(*shape) == name) {
            desk.command(DesktopCommand::Shape { window_id: id, shape });
        }
    };
    bridge::draggable(element, on_rect, on_shape)
}

const fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Normal => "normal",
        Shape::Minimised => "minimised",
        Shape::Maximised => "maximised",
        Shape::LeftHalf => "left_half",
        Shape::RightHalf => "right_half",
    }
}

#[component]
fn Bar(view: View) -> Element {
    let desk = use_desk();
    let window = view.window;
    let window_id = window.window_id;
    let shape = move |shape| desk.command(DesktopCommand::Shape { window_id, shape });
    rsx! {
        header { class: "bar", "data-bar": "",
            Glyph { icon: Icon::of(window.app) }
            span { class: "name", "{view.name}" }
            if let Some(status) = view.status {
                Standing { mark: Mark::from(status), label: run_words(status) }
            }
            span { class: "buttons",
                IconButton { icon: Icon::Minimise, label: "Minimise", onclick: move |_| shape(Shape::Minimised) }
                if window.shape == Shape::Normal {
                    IconButton { icon: Icon::Maximise, label: "Maximise", onclick: move |_| shape(Shape::Maximised) }
                } else {
                    IconButton { icon: Icon::Restore, label: "Restore", onclick: move |_| shape(Shape::Normal) }
                }
                IconButton { icon: Icon::Close, label: "Close", onclick: move |_| close(desk, &window) }
            }
        }
    }
}
