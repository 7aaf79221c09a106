// A terminal: what is copied, pasted, looked for and followed; what a program may not do; and that it is still there after
// a reload.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { choose, prompt, until, window } from "./speech.mjs";

journey("a terminal is copied from, pasted into, searched, followed and found again", {}, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const { origin } = new URL(choir.url);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin });
  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  const input = terminal.getByRole("textbox", { name: "Terminal input" });
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  const run = async (command, shown) => {
    await input.focus();
    await page.keyboard.type(`${command}\n`);
    await terminal.getByText(shown).first().waitFor();
  };

  // Copy: a word that is chosen by the mouse.
  await run("echo pe''ars-and-plums", "pears-and-plums");
  await choosesWord(page, terminal, "pears-and-plums");
  await page.keyboard.press("Control+Shift+C");
  await until(page, async () => (await navigator.clipboard.readText()) === "pears-and-plums");

  // Paste: as if typed.
  await page.evaluate(() => navigator.clipboard.writeText("echo pas''ted"));
  await input.focus();
  await page.keyboard.press("Control+Shift+V");
  await terminal.getByText("echo pas''ted").first().waitFor();
  await page.keyboard.press("Enter");
  await terminal.getByText(/^pasted/).first().waitFor();

  // Search: what is found is chosen, and what is not there is said not to be.
  await run("seq 300; echo e''nd", /^end/);
  await input.press("Control+Shift+F");
  const find = terminal.getByRole("searchbox", { name: "Find in this terminal" });
  await find.fill("nowhere-at-all");
  await terminal.getByText("Not here").waitFor();
  await find.fill("pears-and-plums");
  await terminal.getByText("Not here").waitFor({ state: "detached" });
  await world.assertAccessible(page);
  await find.press("Escape");
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await input.press("Control+Shift+C");
  await until(page, async () => (await navigator.clipboard.readText()) === "pears-and-plums");

  // A program reaches neither the clipboard nor a title; a control: the same bytes without their escape are shown.
  const title = await page.title();
  await run(`printf '\\033]52;c;%s\\a\\033]2;Not mine\\a\\033]0;Nor this\\a' $(printf stolen | base64); echo do''ne`, /^done/);
  assert.equal(await clipboard(), "pears-and-plums");
  assert.equal(await page.title(), title);
  assert.equal(await page.getByRole("dialog", { name: /Not mine|Nor this/ }).count(), 0);
  await run("printf 'x]2;Not mi%s\\n' ne", "x]2;Not mine");

  // A link opens beside this page, which it cannot reach.
  await run(`clear; echo see ${origin}/health''`, `${origin}/health`);
  const opening = page.context().waitForEvent("page");
  const place = await glyphs(terminal, `${origin}/health`);
  await page.mouse.move(place.x - 30, place.y);
  await page.mouse.move(place.x, place.y);
  await terminal.locator(".xterm-cursor-pointer").waitFor();
  await page.mouse.click(place.x, place.y);
  const opened = await opening;
  await opened.waitForURL(`${origin}/health`);
  assert.equal(await opened.evaluate(() => globalThis.opener), null);
  await opened.close();

  // The shell outlives the page, and its screen is painted again.
  await run("KEPT=still-here; echo st''ands", /^stands/);
  await page.reload();
  await terminal.getByText(/^stands/).first().waitFor();
  await run("echo is-$KEPT", "is-still-here");
});

journey("a terminal that has ended says so, with what it wrote, and another can be started", {}, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  const input = terminal.getByRole("textbox", { name: "Terminal input" });
  const start = terminal.getByRole("button", { name: "Start a terminal" });
  const run = async (command, shown) => {
    await input.focus();
    await page.keyboard.type(`${command}\n`);
    await terminal.getByText(shown).first().waitFor();
  };
  await run("echo la''st; exit 3", /^last/);
  await terminal.getByRole("status").getByText("Ended with 3.").waitFor();
  await terminal.getByText(/^last/).first().waitFor();
  await world.assertAccessible(page);
  await start.click();
  await start.waitFor({ state: "detached" });
  await run("echo ag''ain", /^again/);

  // A computer that was started again has no terminals of before; the window says so.
  world.forgive(/refused request: 404 GET .*\/api\/terminals/);
  world.forgive(/console error|failed request/);
  await choir.kill();
  await world.start();
  await terminal.getByRole("status").getByText("Ended.").waitFor();
  await start.click();
  await start.waitFor({ state: "detached" });
  await run("echo on''ce more", /^once more/);
});

/// Where words stand on the screen.
async function glyphs(terminal, words) {
  const row = terminal.locator(".xterm-rows > div").filter({ hasText: words }).last();
  await row.waitFor();
  return row.evaluate((row, words) => {
    const pieces = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    let before = 0;
    const at = row.textContent.indexOf(words) + words.length / 2;
    while (pieces.nextNode()) {
      const { length } = pieces.currentNode;
      if (at < before + length) {
        const range = document.createRange();
        range.setStart(pieces.currentNode, Math.floor(at - before));
        range.setEnd(pieces.currentNode, Math.floor(at - before) + 1);
        const { x, y, width, height } = range.getBoundingClientRect();
        return { x: x + width / 2, y: y + height / 2 };
      }
      before += length;
    }
  }, words);
}

async function choosesWord(page, terminal, word) {
  const { x, y } = await glyphs(terminal, word);
  await page.mouse.dblclick(x, y);
}
