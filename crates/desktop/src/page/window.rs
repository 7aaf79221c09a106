//! A window: a bar, eight handles, and an app inside.

use super::apps::AppView;
use super::bridge::{self, Held};
use super::desk::{Desk, use_desk};
use super::keys::{close, place};
use super::rich::{Glyph, IconButton, Standing};
use choir_desktop::computer::{focused, title};
use choir_desktop::icon::Icon;
use choir_desktop::status::{Mark, run_words};
use choir_proto::WindowId;
use choir_proto::desktop::{DesktopCommand, Rect, Shape, Subject, Window};
use choir_proto::run::Run;
use dioxus::prelude::*;
use web_sys::Element as Node;

const EDGES: [&str; 8] = ["n", "ne", "e", "se", "s", "sw", "w", "nw"];

/// Follows one window of the desktop; it is drawn again only when that window changes.
#[component]
pub(crate) fn WindowFrame(id: WindowId) -> Element {
    let desk = use_desk();
    let window = use_memo(move || {
        let desktop = desk.desktop.read();
        let height = desktop.windows.iter().position(|window| window.window_id == id)?;
        let front = focused(&desktop).map(|window| window.window_id) == Some(id);
        Some((desktop.windows[height].clone(), height, front))
    });
    let Some((window, height, front)) = window() else { return rsx! {} };
    rsx! { Frame { window, height, front } }
}

#[component]
fn Frame(window: Window, height: usize, front: bool) -> Element {
    let desk = use_desk();
    let mut held = use_signal(|| None::<Held>);
    let id = window.window_id;
    // Subscribes to what `place` reads, so that a drag and another size of the page are followed.
    desk.dragged.read();
    desk.canvas.read();
    let name = title(&window, &desk.runs.read(), &desk.documents.read());
    let rect = (window.shape == Shape::Normal).then(|| place(desk, &window));
    let pixels = |value: fn(Rect) -> i64| rect.map(|rect| format!("{}px", value(rect)));
    rsx! {
        section {
            id: "window-{id}",
            class: if front { "window front" } else { "window" },
            role: "dialog",
            "aria-modal": "false",
            "aria-label": "{name}",
            tabindex: "-1",
            "data-shape": shape_name(window.shape),
            hidden: window.shape == Shape::Minimised,
            left: pixels(|rect| rect.x.into()),
            top: pixels(|rect| rect.y.into()),
            width: pixels(|rect| rect.width.into()),
            height: pixels(|rect| rect.height.into()),
            z_index: "{height + 1}",
            onmounted: move |event| {
                let Some(element) = event.data().downcast::<Node>().cloned() else { return };
                held.set(Some(draggable(desk, id, &element)));
            },
            onpointerdown: move |_| {
                if !front { desk.command(DesktopCommand::Focus { window_id: id }) }
            },
            Bar { window: window.clone(), name: name.clone() }
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
fn Bar(window: Window, name: String) -> Element {
    let desk = use_desk();
    let window_id = window.window_id;
    let shape = move |shape| desk.command(DesktopCommand::Shape { window_id, shape });
    let run = run_of(desk, &window);
    rsx! {
        header { class: "bar", "data-bar": "",
            Glyph { icon: Icon::of(window.app) }
            span { class: "name", "{name}" }
            if let Some(run) = run {
                Standing { mark: Mark::from(run.status), label: run_words(run.status) }
            }
            span { class: "buttons",
                IconButton { icon: Icon::Minimise, label: "Minimise", onclick: move |_| shape(Shape::Minimised) }
                if window.shape == Shape::Normal {
                    IconButton { icon: Icon::Maximise, label: "Maximise", onclick: move |_| shape(Shape::Maximised) }
                } else {
                    IconButton { icon: Icon::Restore, label: "Restore", onclick: move |_| shape(Shape::Normal) }
                }
                IconButton {
                    icon: Icon::Close,
                    label: "Close",
                    onclick: move |_| close(desk, &window),
                }
            }
        }
    }
}

/// The run that a window is about.
fn run_of(desk: Desk, window: &Window) -> Option<Run> {
    let runs = desk.runs.read();
    match window.subject {
        Some(Subject::Document(id)) => runs.of_document(id).cloned(),
        Some(Subject::Run(id)) => runs.get(id).cloned(),
        _ => None,
    }
}
