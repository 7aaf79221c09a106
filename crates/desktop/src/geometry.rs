//! Where windows lie: placing new ones, moving and resizing by keyboard, and keeping all of them in reach.

use choir_proto::desktop::{App, Rect, Shape, Window};

/// The free space between windows and the canvas's edge.
const MARGIN: u32 = 16;
/// Smaller, a window bar has no room for its buttons.
const WINDOW_MIN: Size = Size { width: 320, height: 200 };
/// Narrower, Writer has no room for a measure of 66 characters and its margin.
const WRITER_WIDTH_MIN: u32 = 860;
/// A run opens Writer at this share of the width, with room at its right.
const WRITER_SHARE_PERCENT: u32 = 60;
/// Other windows take at most this share of the height.
const HEIGHT_SHARE_PERCENT: u32 = 75;
/// One press of an arrow key, in pixels.
pub const STEP: i32 = 32;

/// Width and height in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// An arrow key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the four arrows need no words")]
pub enum Arrow {
    Left,
    Right,
    Up,
    Down,
}

/// A place for a new window that covers as little as possible of those already there, their bars least of all. Writer keeps the
/// left for itself: the next one lies over the one before, whole, and neither is pushed aside.
pub fn place(app: App, canvas: Size, windows: &[Window]) -> Rect {
    let counts = |window: &&Window| window.shape == Shape::Normal && (app, window.app) != (App::Writer, App::Writer);
    let taken: Vec<Rect> = windows.iter().filter(counts).filter_map(|window| window.rect).collect();
    let size = wanted(app, canvas);
    let favourite = if app == App::Writer { corner(size, 0, 0) } else { centre(size, canvas) };
    // `min_by_key` keeps the first of equals, so an empty canvas gives the app's favourite place.
    let places = std::iter::once(favourite).chain(smaller(app, size).flat_map(|size| grid(size, canvas)));
    let lost = |rect: &Rect| SHRINK_WEIGHT * (area(size.width, size.height) - area(rect.width, rect.height));
    places
        .min_by_key(|rect| lost(rect) + taken.iter().map(|other| cost(*rect, *other)).sum::<u64>())
        .unwrap_or(favourite)
}

/// As large as wanted, and somewhat smaller where that keeps others in reach. Writer stays wide enough for its margin.
fn smaller(app: App, size: Size) -> impl Iterator<Item = Size> {
    let narrowest = if app == App::Writer { WRITER_WIDTH_MIN } else { WINDOW_MIN.width };
    let scaled = move |percent: u32| Size {
        width: (size.width * percent / 100).max(narrowest.min(size.width)),
        height: (size.height * percent / 100).max(WINDOW_MIN.height.min(size.height)),
    };
    [100, 85, 70].into_iter().map(scaled)
}

const fn area(width: u32, height: u32) -> u64 {
    width as u64 * height as u64
}

/// The same window, whole and in reach on this canvas.
pub fn fit(rect: Rect, canvas: Size) -> Rect {
    let width = rect.width.clamp(WINDOW_MIN.width.min(canvas.width), canvas.width.max(1));
    let height = rect.height.clamp(WINDOW_MIN.height.min(canvas.height), canvas.height.max(1));
    // Its buttons stand at the right end of the bar, so it hangs over at the left only, with them and a third in reach.
    let reach = (width / 3).max(BUTTONS.min(width)) as i32;
    let x = rect.x.clamp(reach - width as i32, canvas.width.saturating_sub(width) as i32);
    let y = rect.y.clamp(0, canvas.height.saturating_sub(height) as i32);
    Rect { x, y, width, height }
}

/// The window one step further.
pub fn nudge(rect: Rect, arrow: Arrow, canvas: Size) -> Rect {
    let (dx, dy) = delta(arrow);
    fit(Rect { x: rect.x.saturating_add(dx), y: rect.y.saturating_add(dy), ..rect }, canvas)
}

/// The window one step wider, narrower, higher or lower, its upper left corner staying.
pub fn grow(rect: Rect, arrow: Arrow, canvas: Size) -> Rect {
    let (dx, dy) = delta(arrow);
    let width = rect.width.saturating_add_signed(dx).max(WINDOW_MIN.width);
    let height = rect.height.saturating_add_signed(dy).max(WINDOW_MIN.height);
    fit(Rect { width, height, ..rect }, canvas)
}

const fn delta(arrow: Arrow) -> (i32, i32) {
    match arrow {
        Arrow::Left => (-STEP, 0),
        Arrow::Right => (STEP, 0),
        Arrow::Up => (0, -STEP),
        Arrow::Down => (0, STEP),
    }
}

/// How large an app wants to be.
fn wanted(app: App, canvas: Size) -> Size {
    let room = Size {
        width: canvas.width.saturating_sub(2 * MARGIN).max(1),
        height: canvas.height.saturating_sub(2 * MARGIN).max(1),
    };
    let (width, height) = match app {
        App::Writer => ((canvas.width * WRITER_SHARE_PERCENT / 100).max(WRITER_WIDTH_MIN), room.height),
        App::Terminal => (760, 460),
        App::Files | App::Preview => (860, 560),
        App::Trace | App::Timeline => (760, 560),
        App::Inbox | App::Search => (520, 560),
        App::Settings => (680, 620),
    };
    // On a low canvas windows stay low enough to leave bars above or below them.
    let high = if app == App::Writer { room.height } else { room.height * HEIGHT_SHARE_PERCENT / 100 };
    Size { width: width.min(room.width), height: height.min(high.max(WINDOW_MIN.height.min(room.height))) }
}

/// At most this many places are looked at in each direction.
const STEPS: u32 = 16;
/// A covered bar is this many times worse than covered content: it is what a window is taken by.
const BAR_WEIGHT: u64 = 60;
/// A window that is smaller than it wants to be is this many times worse than one that covers others.
const SHRINK_WEIGHT: u64 = 8;
/// Covered buttons are worse still: a window that cannot be closed is in the way for good.
const BUTTONS_WEIGHT: u64 = 10_000;
/// The height of a window bar.
const BAR: u32 = 36;
/// The width of its buttons, at its right end.
const BUTTONS: u32 = 110;

fn corner(size: Size, right: u32, down: u32) -> Rect {
    Rect { x: (MARGIN + right) as i32, y: (MARGIN + down) as i32, width: size.width, height: size.height }
}

/// The room left beside a window of this size.
fn room(size: Size, canvas: Size) -> Size {
    let left = |whole: u32, part: u32| whole.saturating_sub(part + 2 * MARGIN);
    Size { width: left(canvas.width, size.width), height: left(canvas.height, size.height) }
}

fn centre(size: Size, canvas: Size) -> Rect {
    let room = room(size, canvas);
    corner(size, room.width / 2, room.height / 2)
}

/// Places all over the canvas, the right side first: Writer keeps the left.
fn grid(size: Size, canvas: Size) -> impl Iterator<Item = Rect> {
    let room = room(size, canvas);
    let columns = (0..=STEPS).rev().map(move |step| room.width * step / STEPS);
    columns.flat_map(move |right| (0..=STEPS).map(move |step| corner(size, right, room.height * step / STEPS)))
}

fn cost(rect: Rect, other: Rect) -> u64 {
    let bar = Rect { height: BAR, ..other };
    overlap(rect, other) + BAR_WEIGHT * overlap(rect, bar) + BUTTONS_WEIGHT * overlap(rect, buttons(other))
}

fn buttons(rect: Rect) -> Rect {
    let width = BUTTONS.min(rect.width);
    Rect { x: rect.x.saturating_add_unsigned(rect.width - width), width, height: BAR, ..rect }
}

fn overlap(a: Rect, b: Rect) -> u64 {
    let across = |a: i32, a_size: u32, b: i32, b_size: u32| {
        let end = (i64::from(a) + i64::from(a_size)).min(i64::from(b) + i64::from(b_size));
        (end - i64::from(a.max(b))).max(0) as u64
    };
    across(a.x, a.width, b.x, b.width) * across(a.y, a.height, b.y, b.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANVAS: Size = Size { width: 1440, height: 836 };

    fn window(app: App, rect: Rect) -> Window {
        let window_id = "01970000-0000-7000-8000-000000000001".parse().unwrap();
        Window { window_id, app, subject: None, rect: Some(rect), shape: Shape::Normal, shape_before: None }
    }

    #[test]
    fn writer_takes_the_left_sixty_percent_and_leaves_room_at_its_right() {
        let writer = place(App::Writer, CANVAS, &[]);
        assert_eq!(writer, Rect { x: 16, y: 16, width: 864, height: 804 });
        assert!(writer.x as u32 + writer.width + 400 < CANVAS.width);
    }

    #[test]
    fn a_second_window_goes_where_it_covers_least() {
        let writer = place(App::Writer, CANVAS, &[]);
        let below = [window(App::Writer, writer)];
        let terminal = place(App::Terminal, CANVAS, &below);
        assert_eq!(terminal.x, 1440 - 760 - 16);
        let inbox = place(App::Inbox, CANVAS, &below);
        assert_eq!(overlap(writer, inbox), 0);
    }

    #[test]
    fn another_writer_lies_over_the_one_before_and_is_as_large() {
        let writer = place(App::Writer, CANVAS, &[]);
        let inbox = place(App::Inbox, CANVAS, &[window(App::Writer, writer)]);
        let both = [window(App::Writer, writer), window(App::Inbox, inbox)];
        assert_eq!(place(App::Writer, CANVAS, &both[..1]), writer);
        assert_eq!(place(App::Writer, CANVAS, &both), writer);
    }

    #[test]
    fn six_windows_leave_the_buttons_of_each_in_reach() {
        for canvas in [CANVAS, Size { width: 1280, height: 720 }] {
            let mut taken = Vec::new();
            for app in [App::Writer, App::Terminal, App::Files, App::Search, App::Inbox, App::Settings] {
                taken.push(window(app, place(app, canvas, &taken)));
            }
            let taken: Vec<Rect> = taken.iter().filter_map(|window| window.rect).collect();
            for (below, rect) in taken.iter().enumerate() {
                for above in &taken[below + 1..] {
                    assert_eq!(overlap(buttons(*rect), *above), 0, "{above:?} covers the buttons of {rect:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_larger_than_the_canvas_or_out_of_reach() {
        let phone = Size { width: 390, height: 780 };
        for app in [App::Writer, App::Terminal, App::Files, App::Settings] {
            let rect = place(app, phone, &[]);
            assert!(rect.width <= phone.width && rect.height <= phone.height && rect.x >= 0 && rect.y >= 0, "{rect:?}");
        }
        let lost = fit(Rect { x: 9_000, y: -50, width: 5_000, height: 10 }, CANVAS);
        assert_eq!(lost, Rect { x: 0, y: 0, width: 1440, height: 200 });
        assert!(fit(Rect { x: i32::MIN, y: i32::MAX, width: u32::MAX, height: 0 }, CANVAS).width == 1440);
    }

    #[test]
    fn a_smaller_canvas_keeps_the_buttons_of_each_window_on_it() {
        for canvas in [CANVAS, Size { width: 1024, height: 704 }, Size { width: 720, height: 386 }] {
            let whole = Rect { x: 0, y: 0, width: canvas.width, height: canvas.height };
            for x in [i32::MIN, -2_000, -300, 0, 400, 780, 1_200, i32::MAX] {
                for width in [0, 320, 640, 864, 1_424] {
                    let rect = fit(Rect { x, y: 300, width, height: 400 }, canvas);
                    let controls = buttons(rect);
                    let seen = overlap(controls, whole);
                    assert_eq!(seen, area(controls.width, controls.height), "{rect:?} on {canvas:?}");
                }
            }
        }
    }

    #[test]
    fn a_window_in_reach_stays_where_it_is() {
        for x in [-200, 0, 16, 560] {
            let rect = Rect { x, y: 16, width: 864, height: 804 };
            assert_eq!(fit(rect, CANVAS), rect);
        }
    }

    #[test]
    fn arrows_move_and_grow_by_one_step_and_stop_at_the_edges() {
        let rect = Rect { x: 100, y: 10, width: 400, height: 300 };
        assert_eq!(nudge(rect, Arrow::Right, CANVAS).x, 132);
        assert_eq!(nudge(rect, Arrow::Up, CANVAS).y, 0);
        assert_eq!(grow(rect, Arrow::Down, CANVAS).height, 332);
        assert_eq!(grow(Rect { width: 330, ..rect }, Arrow::Left, CANVAS).width, 320);
    }
}
