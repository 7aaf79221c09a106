// Takes the pictures of docs/screenshots from the real thing: `cargo xtask pictures`, or
// `CHOIR_BIN=… CHOIR_CHROMIUM=… node tests/browser/pictures.mjs DIRECTORY`. Look at every one.

import { join } from "node:path";
import { World } from "./harness.mjs";
import { ask, call, choose, compare, open, prompt, saving, text, window } from "./speech.mjs";

const THEMES = ["matins", "vespers"];
const WIDE = { name: "", screen: { viewport: { width: 1440, height: 900 }, deviceScaleFactor: 1 } };
const NARROW = { name: "-phone", screen: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true } };

const directory = process.argv[2];
if (!directory) throw new Error("which directory?");
for (const { name, screen } of [WIDE, NARROW]) {
  const world = await World.create("studio.json");
  try {
    await world.start();
    const page = await world.signIn(screen);
    await prompt(page).waitFor();
    await page.getByText("What should be done?").waitFor();
    await each(page, `home${name}`);
    await tour(page, name);
    await fill(page);
    await apps(page, name);
    if (name === "") await hero(page, world);
  } finally {
    await world.destroy();
  }
}

/// What a newcomer without a model sees: the liar caught, and the plug at hand.
async function tour(page, name) {
  await page.getByRole("button", { name: /^The liar is caught/ }).click();
  const card = page.getByRole("article", { name: "Tour", exact: true });
  await card.getByRole("listitem").filter({ hasText: "says no" }).getByLabel("seen").waitFor();
  await each(page, `tour${name}`);
  await card.getByLabel("verified", { exact: true }).first().waitFor();
  await card.getByRole("button", { name: "Dismiss" }).click();
  await close(page, window(page, "Writer"));
  const { runs } = await call(page, "GET", "/api/runs");
  for (const { run_id } of runs) await call(page, "POST", `/api/runs/${run_id}/trash`);
  const { documents } = await call(page, "GET", "/api/documents");
  for (const { document_id } of documents) await call(page, "POST", `/api/documents/${document_id}/trash`);
}

/// A day's work: a comparison with sources, a change of files, a question that waits.
async function fill(page) {
  await compare(page);
  await call(page, "PUT", "/api/files?path=greeting/words.txt", "Hello, world\n", "application/octet-stream");
  await call(page, "PUT", "/api/files?path=notes/queues.md", "# Queues\n\nHeron for one machine, Wren for more.\n\n- batches of 64\n- mind the version\n", "application/octet-stream");
  await ask(page, "Translate the greeting.");
  await window(page, "Writer").getByRole("button", { name: "Undo", exact: true }).waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).click();
  // The window said it all; a card about it is no part of the other pictures.
  const cards = page.getByRole("article", { name: "Answer" });
  if ((await cards.count()) > 0) await cards.first().getByRole("button", { name: "Dismiss" }).click();
}

async function apps(page, name) {
  const writer = await alone(page, await open(page, "Heron or Wren"));
  await text(writer).filter({ hasText: "One machine" }).waitFor();
  await writer.getByRole("region", { name: "Sources", includeHidden: true }).waitFor({ state: "attached" });
  await each(page, `writer${name}`);
  // On a phone it lies folded.
  const about = writer.getByRole("button", { name: "About this document" });
  if (await about.isVisible()) await about.click();
  await writer.getByRole("button", { name: /^Source of “A message is kept/ }).click();
  await writer.getByLabel("Source", { exact: true }).waitFor();
  await each(page, `source${name}`);
  await close(page, writer);

  await choose(page, "Writer");
  await page.getByRole("region", { name: "Runs" }).getByRole("button", { name: /verified Translate/ }).click();
  const changed = await alone(page, window(page, "Writer — Translate"));
  await changed.getByRole("button", { name: "Changes", exact: true }).click();
  await changed.getByText("Hallo, Welt", { exact: true }).waitFor();
  await each(page, `changes${name}`);
  await close(page, changed);

  await choose(page, "Writer");
  await each(page, `library${name}`);
  await close(page, window(page, "Writer"));

  await choose(page, "Terminal");
  await page.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type("ls -l greeting queues; sh greeting/greet.sh; cat queues/throughput.csv\n");
  await window(page, "Terminal").getByText("164000").first().waitFor();
  await each(page, `terminal${name}`);
  await close(page, window(page, "Terminal"));

  await choose(page, "Files");
  const files = window(page, "Files");
  await files.getByRole("button", { name: "queues", exact: true }).last().click();
  await window(page, "Files").getByRole("button", { name: /^throughput.csv/ }).click();
  await window(page, "Files").getByRole("group", { name: "Table" }).waitFor();
  await each(page, `files${name}`);
  await close(page, window(page, "Files"));

  for (const app of ["Trace", "Timeline", "Settings", "Search"]) {
    await choose(page, app);
    const opened = window(page, app);
    await opened.waitFor();
    if (app === "Trace") await opened.getByRole("button", { name: /Compare Heron/ }).click();
    if (app === "Search") {
      await opened.getByRole("searchbox", { name: "Search" }).fill("message");
      await opened.getByRole("region", { name: "Results" }).getByRole("button").first().waitFor();
    }
    await each(page, `${app.toLowerCase()}${name}`);
    await close(page, window(page, app));
  }

  await call(page, "PUT", "/api/settings", { tools: { bash: "ask" } });
  await ask(page, "Ask me about the colour of the bicycle shed.");
  await choose(page, "Inbox");
  const inbox = window(page, "Inbox");
  await inbox.getByRole("article", { name: "Question" }).waitFor();
  await each(page, `inbox${name}`);
  await inbox.getByRole("textbox", { name: "Your answer" }).fill("Green.");
  await inbox.getByRole("button", { name: "Answer", exact: true }).click();
  await inbox.getByRole("article", { name: "Approval" }).waitFor();
  await each(page, `approval${name}`);
  await inbox.getByRole("button", { name: "Approve once" }).click();
  await page.getByRole("article", { name: "Answer" }).getByText("The shed will be green.").waitFor();
  await close(page, inbox);
  await each(page, `answer${name}`);
}

/// The one on the front page: two authors in a paragraph, evidence beside it, a terminal on the files.
async function hero(page, world) {
  const answers = page.getByRole("article", { name: "Answer" });
  while ((await answers.count()) > 0) await answers.first().getByRole("button", { name: "Dismiss" }).click();
  const { windows } = await call(page, "GET", "/api/desktop");
  for (const { window_id } of windows) await call(page, "POST", "/api/desktop", { command: "close", window_id });
  const writer = await alone(page, await open(page, "Heron or Wren"));
  const other = await world.join(page);
  const theirs = other.getByRole("dialog", { name: /^Writer — Heron/ });
  await text(theirs).getByText("Choose Heron").click();
  // In the paragraph's first line, where the name above the caret hides no words.
  await other.keyboard.press("ArrowUp");
  await choose(page, "Terminal");
  await window(page, "Terminal").waitFor();
  const { windows: all } = await call(page, "GET", "/api/desktop");
  const beside = { x: 896, y: 16, width: 528, height: 360 };
  await call(page, "POST", "/api/desktop", { command: "move", window_id: all.at(-1).window_id, rect: beside });
  await page.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type("column -s, -t queues/throughput.csv || cat queues/throughput.csv\n");
  await window(page, "Terminal").getByText("164000").first().waitFor();
  await text(writer).getByText("Choose Heron").click();
  await page.keyboard.press("End");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  await each(page, "desktop");
}

/// The Library has done its part; what it opened takes the place that a run would give it.
async function alone(page, opened) {
  await opened.waitFor();
  // On a phone it lies beneath, out of reach of any finger.
  const { windows: all } = await call(page, "GET", "/api/desktop");
  for (const { window_id } of all.slice(0, -1)) await call(page, "POST", "/api/desktop", { command: "close", window_id });
  await page.getByRole("dialog", { name: "Writer", exact: true }).waitFor({ state: "detached" });
  const { windows } = await call(page, "GET", "/api/desktop");
  const rect = { x: 16, y: 16, width: 864, height: 804 };
  await call(page, "POST", "/api/desktop", { command: "move", window_id: windows.at(-1).window_id, rect });
  return opened;
}

async function close(page, opened) {
  await opened.getByRole("button", { name: "Close", exact: true }).click();
  await opened.waitFor({ state: "detached" });
}

async function each(page, name) {
  // What was only told in passing is no part of the picture.
  const told = page.getByRole("status").getByRole("button", { name: "Dismiss" });
  while ((await told.count()) > 0) await told.first().click();
  for (const theme of THEMES) {
    await call(page, "POST", "/api/desktop", { command: "theme", theme });
    await page.locator(`html[data-theme=${theme}]`).waitFor();
    // What moves has come to rest, except what never does, and every letter has its face.
    await page.evaluate(() => {
      const ends = document.getAnimations().filter((one) => Number.isFinite(one.effect.getComputedTiming().endTime));
      return Promise.all([document.fonts.ready, ...ends.map((one) => one.finished)]);
    });
    await page.screenshot({ path: join(directory, `${name}-${theme}.png`) });
    console.error(`${name}-${theme}`);
  }
}
