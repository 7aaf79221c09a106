// Takes the pictures of docs/screenshots from the real thing: `cargo xtask pictures`, or
// `CHOIR_BIN=… CHOIR_CHROMIUM=… node tests/browser/pictures.mjs DIRECTORY`. Look at every one.

import { join } from "node:path";
import { World } from "./harness.mjs";
import { ask, call, choose, compare, menu, open, prompt, rest, text, until, window } from "./speech.mjs";

const THEMES = ["matins", "vespers"];
const SCREEN = { width: 1440, height: 900 };
const WIDE = { name: "", screen: { viewport: SCREEN, deviceScaleFactor: 2 } };
const NARROW = { name: "-phone", screen: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true } };

/// Pictures of the README, which have every pixel; the other wide ones are half as large.
const LARGE = ["desktop", "changes", "writer", "files", "source"];

/// What a person wrote.
const NOTES = {
  "Questions for the review": "- Who runs the machines at night?\n- What does a day without the queue cost?",
  "Reading list": "1. Heron 3.1: a queue for one machine\n2. Wren in production: a report",
};

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

/// A day's work: a comparison with sources, a change of files that was checked, notes, and something that did not work.
async function fill(page) {
  for (const [title, content] of Object.entries(NOTES)) await call(page, "POST", "/api/documents", { title, content: `# ${title}\n\n${content}\n` });
  await call(page, "PUT", "/api/files?path=greeting/words.txt", "Hello, world\n", "application/octet-stream");
  await call(page, "PUT", "/api/files?path=notes/queues.md", "# Queues\n\nHeron for one machine, Wren for more.\n\n- batches of 64\n- mind the version\n", "application/octet-stream");
  await begin(page, { prompt: "Publish the comparison on the wiki." }, "failed");
  await begin(page, { prompt: "Translate the greeting.", verify: { mode: "commands", commands: ["cat greeting/*.txt | grep -q Hallo"] } }, "verified");
  await compare(page);
  await ended(page, /^Compare/, "completed");
  // What is told of it is put away with the next picture.
  await page.getByRole("status").getByText(/^“Compare/).waitFor();
}

/// Starts a run and waits for its end.
async function begin(page, request, status) {
  await call(page, "POST", "/api/runs", request);
  await ended(page, new RegExp(`^${request.prompt}`), status);
}

async function ended(page, prompt, status) {
  await until(
    page,
    async ([prompt, status]) => (await (await fetch("/api/runs")).json()).runs.some((run) => run.prompt.match(prompt) && run.status === status),
    [prompt.source, status],
  );
}

async function apps(page, name) {
  // Before anything of the furniture is moved: what was done is what there is to see.
  await choose(page, "Timeline");
  await window(page, "Timeline").getByText("run.ended").first().waitFor();
  await each(page, `timeline${name}`);
  await close(page, window(page, "Timeline"));

  const writer = await alone(page, await open(page, "Heron or Wren"));
  await text(writer).filter({ hasText: "One machine" }).waitFor();
  await writer.getByRole("region", { name: "Sources", includeHidden: true }).waitFor({ state: "attached" });
  await each(page, `writer${name}`);
  // On a phone it lies folded.
  const about = writer.getByRole("button", { name: "About this document" });
  if (await about.isVisible()) await about.click();
  await writer.getByRole("button", { name: /^Source of “A message is kept/ }).click();
  await writer.getByLabel("Source", { exact: true }).waitFor();
  if (await about.isVisible()) await about.click();
  await each(page, `source${name}`);
  await close(page, writer);

  await choose(page, "Writer");
  await page.getByRole("region", { name: "Runs" }).getByRole("button", { name: /^verified Translate/ }).click();
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

  for (const app of ["Trace", "Settings", "Search"]) {
    await choose(page, app);
    const opened = window(page, app);
    await opened.waitFor();
    if (app === "Trace") await opened.getByRole("button", { name: /Compare Heron/ }).click();
    if (app === "Trace") await opened.getByText("model.called").first().waitFor();
    if (app === "Settings") {
      await opened.getByRole("button", { name: "Test", exact: true }).click();
      await opened.getByText("answers.").waitFor();
      await opened.getByRole("heading", { name: "Providers" }).scrollIntoViewIfNeeded();
    }
    if (app === "Search") {
      await opened.getByRole("searchbox", { name: "Search" }).fill("message");
      await opened.getByRole("region", { name: "Results" }).getByRole("button").first().waitFor();
    }
    await each(page, `${app.toLowerCase()}${name}`);
    await close(page, window(page, app));
  }

  await menu(page).click();
  await page.getByRole("menu").waitFor();
  await each(page, `menu${name}`);
  await page.keyboard.press("Escape");

  // The desktop is empty, but for the answer.
  await each(page, "nothing", []);
  await ask(page, "What day of the week was 29 February 2024, and when is the next such day?");
  const answer = page.getByRole("article", { name: "Answer" });
  await answer.getByText("Thursday").waitFor();
  await each(page, `answer${name}`);

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
  await answer.getByText("The shed will be green.").waitFor();
  await call(page, "PUT", "/api/settings", { tools: { bash: "auto" } });
}

/// The one on the front page: a person and an agent in one paragraph, a source below it, and a figure that was checked.
async function hero(page, world) {
  const { windows } = await call(page, "GET", "/api/desktop");
  for (const { window_id } of windows) await call(page, "POST", "/api/desktop", { command: "close", window_id });
  const writer = await alone(page, await open(page, "Heron or Wren"));
  await choose(page, "Terminal");
  await window(page, "Terminal").waitFor();
  const { windows: all } = await call(page, "GET", "/api/desktop");
  const beside = { x: 896, y: 16, width: 528, height: 300 };
  await call(page, "POST", "/api/desktop", { command: "move", window_id: all.at(-1).window_id, rect: beside });
  await page.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type("column -s, -t queues/throughput.csv\n");
  await window(page, "Terminal").getByText("164000").first().waitFor();
  const below = { x: 896, y: 332, width: 528, height: 488 };
  await call(page, "POST", "/api/desktop", { command: "open", app: "files", subject: { path: "notes" }, rect: below });
  await window(page, "Files").getByRole("button", { name: /^queues.md/ }).click();
  await window(page, "Files").getByRole("heading", { name: "Queues" }).waitFor();
  await writer.getByRole("button", { name: /^Source of “A message that was answered/ }).click();
  await writer.getByLabel("Source", { exact: true }).waitFor();
  // The paragraph that is written in the middle of what is left of the paper.
  await text(writer).hover({ position: { x: 200, y: 200 } });
  await page.mouse.wheel(0, 230);
  await page.mouse.move(SCREEN.width / 2, SCREEN.height - 4);

  const other = await world.join(page);
  const theirs = other.getByRole("dialog", { name: /^Writer — Heron/ });
  await text(theirs).getByText("Choose Heron").click({ position: { x: 120, y: 12 } });
  await other.keyboard.press("Control+ArrowRight");
  await text(writer).getByText("Somebody else").waitFor();
  const { documents } = await call(page, "GET", "/api/documents");
  const { document_id } = documents.find(({ title }) => title === "Heron or Wren");
  const verify = { mode: "commands", commands: ["cat queues/*.csv | grep -q '^wren,2.8'"] };
  const { run_id } = await call(page, "POST", "/api/runs", { prompt: "Add what one message costs, and check it.", document_id, verify });
  await writer.getByRole("list", { name: "Plan" }).getByLabel("verified", { exact: true }).waitFor();
  // The name at the agent's caret.
  await text(writer).getByText("writer", { exact: true }).waitFor();
  await each(page, "desktop");
  await call(page, "POST", `/api/runs/${run_id}/cancel`);
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

/// The first of them, unless it has gone by itself meanwhile.
function putAway(buttons) {
  return buttons.first().click({ timeout: 2_000 }).catch(() => {});
}

async function each(page, name, themes = THEMES) {
  // What was only told in passing is no part of the picture.
  const told = page.getByRole("status").getByRole("button", { name: "Dismiss" });
  while ((await told.count()) > 0) await putAway(told);
  // Cards belong to the pictures that are of them.
  const cards = page.getByRole("article", { name: /^(Answer|Run)$/ }).getByRole("button", { name: "Dismiss" });
  while (!name.startsWith("answer") && (await cards.count()) > 0) await putAway(cards);
  for (const theme of themes) {
    await call(page, "POST", "/api/desktop", { command: "theme", theme });
    await page.locator(`html[data-theme=${theme}]`).waitFor();
    await rest(page);
    const scale = LARGE.includes(name) || name.includes("-phone") ? "device" : "css";
    await page.screenshot({ path: join(directory, `${name}-${theme}.png`), scale });
    console.error(`${name}-${theme}`);
  }
}
