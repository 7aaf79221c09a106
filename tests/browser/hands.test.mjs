// Windows in hands: a mouse and a finger move them, take each of the eight handles, and snap them.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { call, prompt, until, window } from "./speech.mjs";

const SCREEN = { width: 1440, height: 900 };
const PLACE = { x: 400, y: 200, width: 600, height: 400 };
/// How far a hand goes.
const [RIGHT, DOWN] = [40, 24];
/// What each handle changes when it goes right and down.
const HANDLES = {
  n: { y: DOWN, height: -DOWN },
  ne: { y: DOWN, width: RIGHT, height: -DOWN },
  e: { width: RIGHT },
  se: { width: RIGHT, height: DOWN },
  s: { height: DOWN },
  sw: { x: RIGHT, width: -RIGHT, height: DOWN },
  w: { x: RIGHT, width: -RIGHT },
  nw: { x: RIGHT, y: DOWN, width: -RIGHT, height: -DOWN },
};
const HALF = { y: 8, width: 708, height: 820 };

journey("a mouse moves a window, takes each of its handles and snaps it", {}, (world) => handle(world, mouse, {}));
journey("a finger does the same", {}, (world) => handle(world, finger, { hasTouch: true }));

async function handle(world, hand, screen) {
  await world.start();
  // Where a window lies is looked at, and not how it comes there.
  const page = await world.signIn({ viewport: SCREEN, reducedMotion: "reduce", ...screen });
  await prompt(page).waitFor();
  await call(page, "POST", "/api/desktop", { command: "open", app: "inbox", rect: PLACE });
  const inbox = window(page, "Inbox");
  await inbox.waitFor();
  const id = await inbox.getAttribute("id");
  const { windows } = await call(page, "GET", "/api/desktop");
  const put = (command) => call(page, "POST", "/api/desktop", { window_id: windows[0].window_id, ...command });
  const drag = await hand(page);
  const shows = (want) =>
    page.waitForFunction(([id, want]) => {
      const now = document.getElementById(id).getBoundingClientRect();
      return Object.entries(want).every(([side, length]) => Math.abs(now[side] - length) < 2);
    }, [id, want]);
  // On the page, and in the state of record.
  const lies = async (want) => {
    await shows(want);
    await until(page, async (want) => {
      const { rect } = (await (await fetch("/api/desktop")).json()).windows[0];
      return Object.entries(want).every(([side, length]) => Math.abs(rect[side] - length) < 2);
    }, want);
  };

  for (const [edge, change] of Object.entries(HANDLES)) {
    await put({ command: "move", rect: PLACE });
    await lies(PLACE);
    const from = {
      x: edge.includes("w") ? PLACE.x : edge.includes("e") ? PLACE.x + PLACE.width - 1 : PLACE.x + PLACE.width / 2,
      y: edge.includes("n") ? PLACE.y : edge.includes("s") ? PLACE.y + PLACE.height - 1 : PLACE.y + PLACE.height / 2,
    };
    await drag(from, { x: from.x + RIGHT, y: from.y + DOWN });
    await lies(Object.fromEntries(Object.entries(PLACE).map(([side, length]) => [side, length + (change[side] ?? 0)])));
  }

  await put({ command: "move", rect: PLACE });
  await lies(PLACE);
  const bar = { x: PLACE.x + 200, y: PLACE.y + 18 };
  await drag(bar, { x: bar.x - 100, y: bar.y - 50 });
  const moved = { ...PLACE, x: PLACE.x - 100, y: PLACE.y - 50 };
  await lies(moved);
  const grip = { x: moved.x + 200, y: moved.y + 18 };
  await drag(grip, { x: 2, y: 400 });
  await shows({ x: 8, ...HALF });
  await inbox.getByRole("button", { name: "Restore", exact: true }).click();
  await lies(moved);
  await drag(grip, { x: SCREEN.width - 2, y: 400 });
  await shows({ x: 724, ...HALF });
  await inbox.getByRole("button", { name: "Restore", exact: true }).click();
  await lies(moved);
  await drag(grip, { x: 700, y: 1 });
  await shows({ x: 0, y: 0, width: SCREEN.width });
  await inbox.getByRole("button", { name: "Restore", exact: true }).click();
  await lies(moved);
  // Dragged away from where it was snapped, it has its own size again, under the hand. A finger scrolls there.
  if (hand === mouse) {
    await page.mouse.dblclick(grip.x, grip.y);
    await shows({ x: 0, y: 0, width: SCREEN.width });
    await drag({ x: 720, y: 18 }, { x: 720, y: 168 });
    await lies({ x: 720 - PLACE.width / 2, y: 150, width: PLACE.width, height: PLACE.height });
    await put({ command: "shape", shape: "maximised" });
    await shows({ x: 0, y: 0, width: SCREEN.width });
    // Snapped again on the way, it is as it was. The page says so beside: what comes next must not overtake it.
    const said = page.waitForResponse((answer) => answer.request().method() === "POST" && answer.url().endsWith("/api/desktop"));
    await drag({ x: 720, y: 18 }, { x: 720, y: 1 });
    await said;
    await shows({ x: 0, y: 0, width: SCREEN.width });
    await put({ command: "move", rect: moved });
    await lies(moved);
  }
  // Nothing is beyond reach: a window stays on the canvas.
  await drag(grip, { x: 700, y: SCREEN.height - 2 });
  const { y, height } = await inbox.boundingBox();
  const strip = await page.getByRole("contentinfo").boundingBox();
  assert.ok(y + height <= strip.y, "a window lies beneath the strip");
}

/// Presses, goes there in steps, and lets go.
function mouse(page) {
  return async (from, to) => {
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(to.x, to.y, { steps: 6 });
    await page.mouse.up();
  };
}

async function finger(page) {
  const client = await page.context().newCDPSession(page);
  const touch = (type, ...touchPoints) => client.send("Input.dispatchTouchEvent", { type, touchPoints });
  return async (from, to) => {
    await touch("touchStart", from);
    for (let step = 1; step <= 6; step++) {
      await touch("touchMove", { x: from.x + ((to.x - from.x) * step) / 6, y: from.y + ((to.y - from.y) * step) / 6 });
    }
    await touch("touchEnd");
  };
}
