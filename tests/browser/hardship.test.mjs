// Too much of everything: the desktop stays usable and says what happened.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { call, choose, open, prompt, saving, text, window } from "./speech.mjs";

/// Three pieces make a document that no page keeps a replica of.
const PIECE_BYTES = 6_660_000;
const PIECES = 3;
const MANY_LINES = 1_000_000;
const MANY_FILES = 100_000;
// Far longer than any of it takes, also where much else is going on.
const PATIENCE_MS = 300_000;

journey("a long document and a million lines leave the desktop usable", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();

  const line = "All work and no play makes a long document that nobody reads to its end.\n";
  await choose(page, "New document");
  const begun = window(page, "Writer");
  await text(begun).click();
  await page.keyboard.type("# Long\n\n");
  for (let piece = 0; piece < PIECES; piece++) {
    await text(begun).evaluate(paste, { line, count: Math.ceil(PIECE_BYTES / line.length) });
    await saving(begun).filter({ hasText: "Saved" }).waitFor();
    await usable(page);
  }
  await begun.getByRole("button", { name: "Close", exact: true }).click();
  await begun.waitFor({ state: "detached" });
  // It is named by its heading as soon as somebody has looked through all of it.
  const writer = await open(page, "(Long|Untitled)");
  await writer.getByText("too long to be edited here").waitFor();
  await text(writer).filter({ hasText: "All work" }).waitFor();
  await usable(page);
  await writer.getByRole("button", { name: "Close", exact: true }).click();

  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  await terminal.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type(`seq ${MANY_LINES} && echo a''ll there\n`);
  await usable(page);
  await terminal.getByText("all there").first().waitFor({ timeout: PATIENCE_MS });
  await usable(page);
});

journey("a page that breaks says so, and a reload brings back what was being written", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).fill("Half a tho");
  world.expect(/page error: .*unreachable/);
  // As a fault of the page's program does it.
  await page.evaluate(() => queueMicrotask(() => { throw new WebAssembly.RuntimeError("unreachable"); }));
  const alert = page.getByRole("alert").filter({ hasText: "This page broke. Reload it; nothing was lost." });
  await alert.waitFor();
  await world.assertAccessible(page);
  await alert.getByRole("button", { name: "Reload" }).click();
  await alert.waitFor({ state: "detached" });
  await prompt(page).and(page.locator(":enabled")).waitFor();
  assert.equal(await prompt(page).inputValue(), "Half a tho");
});

journey("a folder of a hundred thousand files is listed, says what it leaves out, and finds each of them", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  await terminal.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type(`mkdir many && (cd many && seq ${MANY_FILES} | xargs touch) && echo a''ll made\n`);
  await terminal.getByText("all made").first().waitFor({ timeout: PATIENCE_MS });
  await call(page, "POST", "/api/desktop", { command: "open", app: "files", subject: { path: "many" } });
  const files = window(page, "Files");
  await files.getByRole("status").filter({ hasText: `1000 of ${MANY_FILES} are shown` }).waitFor({ timeout: PATIENCE_MS });
  await usable(page);
  await files.getByRole("searchbox", { name: "Find in this folder" }).fill("99999");
  await files.getByRole("button", { name: /^99999/ }).waitFor();
  await files.getByRole("searchbox", { name: "Find in this folder" }).fill("nothing like it");
  await files.getByText("Nothing here is called “nothing like it”.").waitFor();
  await usable(page);
});

/// Pastes, as a person with a very large clipboard would.
function paste(element, { line, count }) {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", line.repeat(count));
  element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}

/// The prompt bar takes letters, before a locator loses its patience.
async function usable(page) {
  await prompt(page).fill("Still here?");
  assert.equal(await prompt(page).inputValue(), "Still here?");
  await prompt(page).fill("");
}
