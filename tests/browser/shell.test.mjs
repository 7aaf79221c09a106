// The desktop itself: signing in, the menu, the prompt bar, windows, and two people looking at one computer.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { choose } from "./speech.mjs";

/// The apps that the menu must open today.
const APPS = ["Writer", "Terminal", "Files", "Trace", "Timeline", "Search", "Inbox", "Settings"];

const prompt = (page) => page.getByRole("textbox", { name: "Prompt", exact: true });
const menu = (page) => page.getByRole("button", { name: "Menu", exact: true });
const window = (page, app) => page.getByRole("dialog", { name: new RegExp(`^${app}`) });

journey("the sign-in URL works once, and nothing opens without it", {}, async (world) => {
  const choir = await world.start();
  const first = await world.signIn();
  await prompt(first).waitFor();
  const cookies = await first.context().cookies();
  assert.ok(cookies.length > 0 && cookies.every((cookie) => cookie.httpOnly && cookie.sameSite !== "None"));
  await first.reload();
  await prompt(first).waitFor();
  await world.leave(first);

  const answer = await fetch(choir.url, { redirect: "manual" });
  assert.equal(answer.headers.get("set-cookie"), null, "a used sign-in URL must not open another session");
  const origin = new URL(choir.url).origin;
  const runs = await fetch(`${origin}/api/runs`);
  assert.equal(runs.status, 401);
});

journey("the menu opens every app, and the taskbar knows them", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  for (const app of APPS) {
    await menu(page).click();
    await page.getByRole("menu").getByRole("menuitem", { name: new RegExp(`^${app}`) }).click();
    await window(page, app).first().waitFor();
  }
  const taskbar = page.getByRole("navigation", { name: "Taskbar", exact: true });
  for (const app of APPS) await taskbar.getByRole("button", { name: new RegExp(app) }).first().waitFor();
  await world.assertAccessible(page);

  const files = window(page, "Files");
  await files.getByRole("button", { name: "Close", exact: true }).click();
  await files.waitFor({ state: "detached" });
});

journey("the keyboard reaches the prompt bar from anywhere", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const keys of ["Control+k", "?"]) {
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press(keys);
    await prompt(page).and(page.locator(":focus")).waitFor();
    assert.doesNotMatch(await prompt(page).evaluate((bar) => bar.value ?? bar.textContent), /\?|k/, `${keys} must not type`);
  }
});

journey("windows are moved, resized, snapped, minimised and brought back by the menu and by keys alone", {}, async (world) => {
  await world.start();
  // Where a window lies is looked at, and not how it comes there.
  const page = await world.signIn({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  await prompt(page).waitFor();
  const choose = async (name) => {
    await menu(page).focus();
    await page.keyboard.press("Enter");
    const item = page.getByRole("menuitem", { name: new RegExp(`^${name}`) });
    // Down to it, as somebody without a mouse goes.
    for (let tries = 0; tries < 60 && !(await item.evaluate((element) => element === document.activeElement)); tries++) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
  };
  await choose("Files");
  const files = window(page, "Files");
  await files.waitFor();
  const becomes = async (what, want) => {
    const before = await files.boundingBox();
    await what();
    const id = await files.getAttribute("id");
    await page.waitForFunction(([id, want]) => {
      const now = document.getElementById(id).getBoundingClientRect();
      return Object.entries(want).every(([side, length]) => Math.abs(now[side] - length) < 2);
    }, [id, { ...before, ...want(before) }]);
  };
  const placed = await files.boundingBox();
  await becomes(() => choose("Move right"), ({ x }) => ({ x: x + 32 }));
  // Where somebody writes, these keys select words.
  await files.getByRole("searchbox").fill("two words");
  await page.keyboard.press("Alt+Shift+ArrowLeft");
  assert.deepEqual(await files.boundingBox(), { ...placed, x: placed.x + 32 });
  await files.focus();
  await becomes(() => page.keyboard.press("Alt+Shift+ArrowLeft"), ({ x }) => ({ x: x - 32 }));
  await becomes(() => choose("Narrower"), ({ width }) => ({ width: width - 32 }));
  await becomes(() => page.keyboard.press("Control+Alt+Shift+ArrowDown"), ({ height }) => ({ height: height + 32 }));
  const half = { y: 8, width: 708, height: 820 };
  await becomes(() => page.keyboard.press("Control+Alt+ArrowLeft"), () => ({ x: 8, ...half }));
  await becomes(() => choose("Snap right"), () => ({ x: 724, ...half }));
  await becomes(() => choose("Restore window"), () => ({ ...placed, width: placed.width - 32, height: placed.height + 32 }));
  await page.keyboard.press("Control+Alt+m");
  await files.waitFor({ state: "hidden" });
  await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: /Files/ }).press("Enter");
  await files.waitFor();
  await page.keyboard.press("Control+Alt+w");
  await files.waitFor({ state: "detached" });
  await choose("Wider");
  await page.getByRole("status").getByText("No window is open.").waitFor();
  await choose("Print");
  await page.getByRole("status").getByText("No document is in the front window.").waitFor();
});

journey("two browsers show one desktop, live", { scenario: "document.json" }, async (world) => {
  await world.start();
  const one = await world.signIn();
  await prompt(one).waitFor();
  const two = await world.join(one);
  await prompt(two).waitFor();
  await prompt(one).fill("What is six times seven? Ask the shell and write it down.");
  await prompt(one).press("Enter");
  const document = window(two, "Writer").getByRole("textbox", { name: "Document", exact: true });
  await document.filter({ hasText: "The answer is 42." }).waitFor();

  // What is done to a window in one is seen in the other; what is typed and not sent is not.
  await prompt(one).fill("Only here");
  await window(two, "Writer").getByRole("button", { name: "Maximise", exact: true }).click();
  await window(one, "Writer").getByRole("button", { name: "Restore", exact: true }).click();
  await window(two, "Writer").getByRole("button", { name: "Maximise", exact: true }).waitFor();
  await window(two, "Writer").getByRole("button", { name: "Minimise", exact: true }).click();
  await window(one, "Writer").waitFor({ state: "hidden" });
  await one.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: /^Writer/ }).click();
  await window(two, "Writer").waitFor();
  await window(one, "Writer").getByRole("button", { name: "Close", exact: true }).click();
  await window(two, "Writer").waitFor({ state: "detached" });
  assert.equal(await prompt(two).inputValue(), "");
});

journey("an error stays until it is put away, whatever else was told before it", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await page.clock.install();
  await page.reload();
  const told = page.getByRole("status").getByText("No document is in the front window.");
  await choose(page, "Print");
  await told.waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
  await told.waitFor({ state: "detached" });
  world.expect(/refused request: 400 POST .*\/api\/desktop/);
  world.forgive(/console error: Failed to load resource/);
  const error = { code: "bad_request", message: "It cannot be so.", hint: "" };
  await page.route("**/api/desktop", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 400, json: { error } }) : route.continue()));
  await choose(page, "Vespers");
  const alert = page.getByRole("alert").getByText("It cannot be so.");
  await alert.waitFor();
  // All that goes by itself goes; the error was told later than what had this much time.
  await choose(page, "Print");
  await told.waitFor();
  await page.clock.fastForward(10_000);
  await told.waitFor({ state: "detached" });
  await alert.waitFor();
  // Nor does it give way to what is told beside it.
  for (const line of ["Print", "Pause run", "Outline", "Paste", "Find"]) await choose(page, line);
  await alert.waitFor();
});
