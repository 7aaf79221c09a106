// The names that people, screen readers and other tests rely on, line by line, and what the menu teaches.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, menu, open, prompt, text, until, window } from "./speech.mjs";

const APPS = ["Writer", "Terminal", "Files", "Trace", "Timeline", "Search", "Inbox", "Settings"];
/// What can be asked of the desktop without a word.
const ACTIONS = [
  ...["New prompt", "New document", "Dismiss all answers", "Plan first", "Check the result"],
  ...["Find and replace", "Save as Markdown", "Save as a web page", "Print", "Show its changes", "Outline", "Versions"],
  ...["Accept the first proposal", "Reject the first proposal"],
  ...["Steer run", "Pause run", "Resume run", "Cancel run", "Undo run", "Show its trace"],
  ...["Ask about the selection", "Change the selection", "Verify the selection", "Where the selection comes from"],
  ...["New folder", "Upload files", "Bring in a folder", "Bring back what was put away"],
  ...["Look in the terminal", "Copy from the terminal", "Paste into the terminal"],
];
const SCREEN = { viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" };
/// The prompt bar grows to so many lines.
const LINES_MAX = 6;

journey("the prompt bar is reached by ? and Ctrl or ⌘ K and left by Esc; Enter sends, Shift+Enter breaks, ↑ recalls", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const focused = prompt(page).and(page.locator(":focus"));
  for (const keys of ["?", "Control+k", "Meta+k"]) {
    await page.keyboard.press(keys);
    await focused.waitFor();
    assert.equal(await prompt(page).inputValue(), "", `${keys} must not type`);
    await page.keyboard.press("Escape");
    await focused.waitFor({ state: "detached" });
  }

  const height = async () => (await prompt(page).boundingBox()).height;
  const single = await height();
  // Within a text field a question mark is a question mark.
  await prompt(page).pressSequentially("How much?");
  await prompt(page).press("Shift+Enter");
  await prompt(page).pressSequentially("I mean, six times seven.");
  assert.equal(await prompt(page).inputValue(), "How much?\nI mean, six times seven.");
  const double = await height();
  assert.ok(double > single, `two lines are ${double} px high, one is ${single} px`);
  for (let line = 0; line < 12; line++) await prompt(page).press("Shift+Enter");
  assert.ok((await height()) <= single + (LINES_MAX - 1) * (double - single) + 1, "it grows beyond six lines");
  await prompt(page).fill("How much?\nI mean, six times seven.");
  await prompt(page).press("Enter");
  const answers = page.getByRole("article", { name: "Answer" });
  await answers.filter({ hasText: "How much?" }).getByText("Forty-two.").waitFor();
  assert.equal(await prompt(page).inputValue(), "", "the answer is never in the bar");
  await ask(page, "And once more, six times seven?");
  await answers.filter({ hasText: "And once more" }).getByText("Forty-two.").waitFor();

  // Also through a prompt of several lines, there and back.
  await prompt(page).pressSequentially("Half a tho");
  for (const want of ["And once more, six times seven?", "How much?\nI mean, six times seven."]) {
    await prompt(page).press("ArrowUp");
    assert.equal(await prompt(page).inputValue(), want);
  }
  for (const want of ["And once more, six times seven?", "Half a tho"]) {
    await prompt(page).press("ArrowDown");
    assert.equal(await prompt(page).inputValue(), want);
  }
});

journey("a short answer stays until it is dismissed, and is listed with its run", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await ask(page, "How much is six times seven?");
  const answer = page.getByRole("article", { name: "Answer" });
  await answer.getByText("Forty-two.").waitFor();
  await page.reload();
  await answer.getByText("Forty-two.").waitFor();
  await answer.getByRole("button", { name: "Dismiss" }).click();
  await answer.waitFor({ state: "detached" });
  await page.reload();
  await choose(page, "Writer");
  const library = page.getByRole("dialog", { name: "Writer", exact: true });
  await library.getByRole("region", { name: "Runs" }).getByRole("button", { name: /^completed, unverified How much/ }).click();
  await window(page, "Writer — How much").getByText("Forty-two.").waitFor();
  assert.equal(await answer.count(), 0, "what was dismissed stays away");
});

journey("each window is a dialog beside others, named by its app, with its buttons and its place in the taskbar", {}, async (world) => {
  await world.start();
  const page = await world.signIn(SCREEN);
  await prompt(page).waitFor();
  const taskbar = page.getByRole("navigation", { name: "Taskbar", exact: true });
  for (const [index, app] of APPS.entries()) {
    await choose(page, app);
    const opened = window(page, app);
    await opened.waitFor();
    assert.equal(await opened.getAttribute("aria-modal"), "false");
    assert.equal(await taskbar.getByRole("button").count(), index + 1);
  }
  await window(page, "Terminal").getByRole("textbox", { name: "Terminal input" }).waitFor();
  for (const app of APPS.toReversed()) {
    const opened = window(page, app);
    const place = taskbar.getByRole("button", { name: new RegExp(`^${app}`) });
    const button = (name) => opened.getByRole("button", { name, exact: true });
    // Whichever lies beneath comes to the front by its place in the taskbar.
    if ((await place.getAttribute("aria-pressed")) === "false") await place.click();
    await place.and(page.locator("[aria-pressed=true]")).waitFor();
    const before = await opened.boundingBox();
    await button("Maximise").click();
    await button("Restore").waitFor();
    assert.equal(await button("Maximise").count(), 0);
    assert.equal((await opened.boundingBox()).width, SCREEN.viewport.width);
    await button("Restore").click();
    await button("Maximise").waitFor();
    assert.deepEqual(await opened.boundingBox(), before);
    await button("Minimise").click();
    await opened.waitFor({ state: "hidden" });
    await place.click();
    await opened.waitFor();
    await button("Close").click();
    await opened.waitFor({ state: "detached" });
    await place.waitFor({ state: "detached" });
  }
});

journey("the menu has every app and every action, and the keys that it teaches do what it does", {}, async (world) => {
  await world.start();
  const page = await world.signIn(SCREEN);
  await prompt(page).waitFor();
  await menu(page).focus();
  await page.keyboard.press("Enter");
  const items = page.getByRole("menu").getByRole("menuitem");
  const lines = await items.allInnerTexts();
  const taught = new Map(lines.map((line) => line.split("\n").map((part) => part.trim())).map(([name, keys]) => [name, keys]));
  for (const name of [...APPS, ...ACTIONS]) assert.ok(taught.has(name), `${name} is not in the menu`);
  // Whoever has no mouse goes to the ends and leaves, and is where they came from.
  await page.keyboard.press("End");
  await items.last().and(page.locator(":focus")).waitFor();
  await page.keyboard.press("ArrowDown");
  await items.first().and(page.locator(":focus")).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  await menu(page).and(page.locator(":focus")).waitFor();

  const windows = async () => (await call(page, "GET", "/api/desktop")).windows.map(({ app, shape, rect }) => ({ app, shape, rect }));
  const command = (body) => call(page, "POST", "/api/desktop", body);
  // Two windows, the second in front, both where they were.
  const begin = async (shape) => {
    for (const { window_id } of (await call(page, "GET", "/api/desktop")).windows) await command({ command: "close", window_id });
    await command({ command: "open", app: "inbox", rect: { x: 100, y: 100, width: 500, height: 400 } });
    await command({ command: "open", app: "files", rect: { x: 300, y: 200, width: 600, height: 400 } });
    const { window_id } = (await call(page, "GET", "/api/desktop")).windows.at(-1);
    if (shape) await command({ command: "shape", window_id, shape });
    await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: "Files", pressed: true }).waitFor();
    return windows();
  };
  const becomes = async (before) => {
    await until(
      page,
      async (before) => JSON.stringify((await (await fetch("/api/desktop")).json()).windows.map(({ app, shape, rect }) => ({ app, shape, rect }))) !== before,
      JSON.stringify(before),
    );
    return windows();
  };
  const acts = [...taught].filter(([, keys]) => /^(F6|(Ctrl )?Alt )/.test(keys ?? ""));
  assert.ok(acts.length >= 15, `only ${acts.length} actions on windows teach their keys`);
  for (const [name, keys] of acts) {
    const shape = name === "Restore window" ? "maximised" : undefined;
    const before = await begin(shape);
    await choose(page, `${name}`);
    const chosen = await becomes(before);
    await begin(shape);
    // In a field, some of them belong to its text.
    await window(page, "Files").focus();
    await page.keyboard.press(pressed(keys));
    assert.deepEqual(await becomes(before), chosen, `${keys} does something else than “${name}”`);
  }

  // Within a document.
  await call(page, "POST", "/api/documents", { title: "Pears", content: "# Pears\n\nRipe.\n" });
  const writer = await open(page, "Pears");
  const find = writer.getByRole("textbox", { name: "Find", exact: true });
  await choose(page, "Find and replace");
  await find.waitFor();
  await find.press("Escape");
  await find.waitFor({ state: "detached" });
  await text(writer).press(pressed(taught.get("Find and replace")));
  await find.waitFor();
  await find.pressSequentially("ripe");
  assert.equal(await find.getAttribute("aria-invalid"), "false");
  await find.pressSequentially("ness");
  assert.equal(await find.getAttribute("aria-invalid"), "true", "what is nowhere is said to be nowhere");
  await find.press("Escape");

  // Within the menu: letters lead to what begins with them, the arrows to the side from group to group.
  const focused = page.getByRole("menuitem").and(page.locator(":focus"));
  await menu(page).click();
  await focused.waitFor();
  await page.keyboard.press("d");
  await focused.filter({ hasText: "Dismiss all answers" }).waitFor();
  const groups = await page.getByRole("menu").getByRole("group").all();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  assert.equal(await groups[1].getByRole("menuitem").first().evaluate((item) => item === document.activeElement), true);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await groups[0].getByRole("menuitem").first().evaluate((item) => item === document.activeElement), true);
  await page.keyboard.press("Escape");
});

journey("what the menu says of a window its buttons do, and where there is nothing to do it says what is missing", {}, async (world) => {
  await world.start();
  const page = await world.signIn(SCREEN);
  await prompt(page).waitFor();
  const told = (words) => page.getByRole("status").getByText(words).first().waitFor();
  for (const [line, missing] of [
    ["Outline", "The document in front has fewer than two headings."],
    ["Versions", "No document is in the front window."],
    ["Ask about the selection", "Select some words of a document first."],
    ["Accept the first proposal", "The document in front has no proposal that waits."],
    ["Steer run", "No run works on what is in the front window."],
    ["Upload files", "Files is not the front window."],
    ["Look in the terminal", "No terminal is in the front window."],
    ["Dismiss all answers", "No answer is on the desktop."],
  ]) {
    await choose(page, line);
    await told(missing);
  }

  await call(page, "POST", "/api/documents", { title: "Pears", content: "# Pears\n\nRipe.\n\n## Plums\n\nSour.\n" });
  const writer = await open(page, "Pears");
  await writer.getByText("Outline", { exact: true }).waitFor();
  await choose(page, "Outline");
  await writer.getByRole("button", { name: "Plums", exact: true }).waitFor();
  await choose(page, "Versions");
  await writer.getByRole("button", { name: /^1 / }).waitFor();
  await text(writer).getByText("Ripe.").dblclick();
  await writer.getByRole("region", { name: "Selection" }).waitFor();
  for (const [line, pressed] of [["Ask about", "Ask"], ["Change the", "Change"], ["Verify the", "Verify"]]) {
    await choose(page, line);
    await writer.getByRole("button", { name: pressed, exact: true, pressed: true }).waitFor();
    await writer.getByRole("textbox", { name: "About the selection" }).and(page.locator(":focus")).waitFor();
  }
  await choose(page, "Where the selection");
  await writer.getByRole("list", { name: "Where the selection comes from" }).waitFor();

  await choose(page, "Files");
  const files = window(page, "Files");
  await choose(page, "New folder");
  await files.getByRole("textbox", { name: "Name of the folder" }).and(page.locator(":focus")).waitFor();
  const choosing = page.waitForEvent("filechooser");
  await choose(page, "Upload files");
  await choosing;

  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  await terminal.getByRole("textbox", { name: "Terminal input" }).waitFor();
  await choose(page, "Look in the terminal");
  await terminal.getByRole("searchbox", { name: "Find in this terminal" }).and(page.locator(":focus")).waitFor();
});

/// Keys as the menu writes them, as a keyboard has them.
function pressed(keys) {
  const names = { Ctrl: "Control", "←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown" };
  return keys.split(" ").map((key) => names[key] ?? (key.length === 1 ? key.toLowerCase() : key)).join("+");
}
