// The prompt bar: what was asked before, what Enter will do, and what the agents should look at.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, prompt, text, until, window } from "./speech.mjs";

const FIRST = "What is six times seven? Ask the shell and write it down.";

journey("the prompt bar remembers, says what Enter will do, and completes what is meant", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/files?path=notes/bees.md", "Bees sleep in flowers.\n", "application/octet-stream");
  await ask(page, FIRST);
  await text(window(page, "Writer").first()).filter({ hasText: "The answer is 42." }).waitFor();

  // What was asked before comes back, and what was begun is not lost by it.
  await prompt(page).fill("Half a tho");
  await prompt(page).press("ArrowUp");
  assert.equal(await prompt(page).inputValue(), FIRST);
  await prompt(page).press("ArrowDown");
  assert.equal(await prompt(page).inputValue(), "Half a tho");

  // The chip follows the focused window; Tab switches, and so does a click.
  const chip = (name) => page.getByRole("contentinfo").getByRole("button", { name });
  await chip(/^Continue/).waitFor();
  await prompt(page).press("Tab");
  await chip("New").waitFor();
  await chip("New").click();
  await chip(/^Continue/).waitFor();

  // `@` completes files and documents by keyboard, and what was chosen can be taken away.
  await prompt(page).fill("");
  await prompt(page).pressSequentially("Read @notes/be");
  await page.getByRole("option", { name: /notes\/bees\.md/ }).waitFor();
  await prompt(page).press("Enter");
  const mentioned = page.getByRole("list", { name: "To look at" });
  await mentioned.getByText("notes/bees.md").waitFor();
  assert.equal(await prompt(page).inputValue(), "Read ");
  await world.assertAccessible(page);
  await mentioned.getByRole("button", { name: "Take notes/bees.md away" }).click();
  await mentioned.waitFor({ state: "detached" });

  // In the middle of a sentence too, and by a name whose folder nobody remembers.
  await prompt(page).fill("Read  to me.");
  for (let at = 0; at < " to me.".length; at++) await prompt(page).press("ArrowLeft");
  await prompt(page).pressSequentially("@bees");
  await page.getByRole("option", { name: /notes\/bees\.md/ }).click();
  await mentioned.getByText("notes/bees.md").waitFor();
  assert.equal(await prompt(page).inputValue(), "Read  to me.");
  await prompt(page).pressSequentially("it");
  assert.equal(await prompt(page).inputValue(), "Read it to me.");
  await mentioned.getByRole("button", { name: "Take notes/bees.md away" }).click();

  // Documents and runs as well, by keys or by a click; Escape leaves what was typed.
  const option = (name, kind) => page.getByRole("option", { name }).filter({ hasText: kind });
  await prompt(page).fill("");
  await prompt(page).pressSequentially("@six");
  await option("Six times seven", "document").waitFor();
  await option("What is six times seven", "run").click();
  await prompt(page).pressSequentially("@six");
  await option("Six times seven", "document").waitFor();
  await prompt(page).press("Tab");
  assert.equal(await mentioned.getByRole("listitem").count(), 2);
  await prompt(page).pressSequentially("@six");
  await option("Six times seven", "document").waitFor();
  await prompt(page).press("Escape");
  await page.getByRole("option").first().waitFor({ state: "detached" });
  assert.equal(await prompt(page).inputValue(), "@six");
  await prompt(page).fill("Go on with these.");
  await prompt(page).press("Enter");
  await mentioned.waitFor({ state: "detached" });
  // They leave the bar with the words, before these have arrived.
  await until(page, async () => (await (await fetch("/api/runs")).json()).runs[0].prompt === "Go on with these.");
  const { runs } = await call(page, "GET", "/api/runs");
  const { events } = await call(page, "GET", `/api/events?kind=run.accepted&run=${runs[0].run_id}`);
  const kinds = events[0].payload.request.context.map((one) => Object.keys(one)[0]);
  assert.deepEqual(kinds.sort(), ["document_id", "run_id"]);
});

journey("several prompts are worked on at once, and none waits for another", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  // Whatever lies in front: Tab leads to something new.
  const chip = (name) => page.getByRole("contentinfo").getByRole("button", { name });
  const mean = async (words) => {
    await prompt(page).fill(words);
    const meant = chip(/^(New|Continue|Steer)/);
    for (let now = await meant.innerText(); now.trim() !== "New"; now = await meant.innerText()) {
      await prompt(page).press("Tab");
      // One step at a time: a second one before the first is drawn leads past what is looked for.
      await meant.filter({ hasNotText: now.trim() }).waitFor();
    }
  };
  const begin = async (words) => {
    await mean(words);
    await prompt(page).press("Enter");
  };
  for (const what of ["door", "roof"]) await begin(`Which colour shall the ${what} be?`);
  await page.getByRole("button", { name: "Inbox, 2 waiting" }).waitFor();
  for (const how of ["How much", "And how much"]) await begin(`${how} is six times seven?`);
  const answers = page.getByRole("article", { name: "Answer" });
  await answers.filter({ hasText: "And how much" }).getByText("Forty-two.").waitFor();
  await answers.filter({ has: page.getByRole("button", { name: /^How much/ }) }).getByText("Forty-two.").waitFor();
  await page.getByRole("button", { name: "Inbox, 2 waiting" }).waitFor();
  const { runs } = await call(page, "GET", "/api/runs");
  assert.deepEqual(runs.map(({ status }) => status).sort(), ["blocked", "blocked", "completed", "completed"]);

  // What Enter will do does not change under the hands of somebody who types.
  await mean("Which colour shall the wall be?");
  const [front] = (await call(page, "GET", "/api/desktop")).windows.slice(-1);
  if (front) await call(page, "POST", "/api/desktop", { command: "close", window_id: front.window_id });
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Walls", content: "# Walls\n" });
  await call(page, "POST", "/api/desktop", { command: "open", app: "writer", subject: { document: document_id } });
  await page.getByRole("dialog", { name: "Writer — Walls" }).waitFor();
  await chip("New").waitFor();
  await prompt(page).fill("");
  await chip("Continue Walls").waitFor();
});

journey("short answers stay until they are put away, all of them, and for every browser", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const asked = ["How much", "And how much", "Once more, how much", "At last, how much", "Truly, how much"].map((how) => `${how} is six times seven?`);
  for (const words of asked) await call(page, "POST", "/api/runs", { prompt: words });
  const answers = (browser) => browser.getByRole("article", { name: "Answer" });
  const answer = (browser, words) => answers(browser).filter({ has: browser.getByRole("button", { name: words, exact: true }) });
  for (const words of asked) await answer(page, words).getByText("Forty-two.").waitFor();
  // Whoever comes later finds them too, each in reach; most of the canvas stays free, and so does the prompt bar.
  const other = await world.join(page);
  for (const words of asked) await answer(other, words).getByText("Forty-two.").scrollIntoViewIfNeeded();
  const { height } = await page.getByRole("complementary", { name: "Answers and progress" }).boundingBox();
  assert.ok(height < 560, `answers cover ${height} px`);
  await world.assertAccessible(page);
  await answer(page, asked[0]).getByRole("button", { name: "Dismiss" }).click();
  for (const browser of [page, other]) await answer(browser, asked[0]).waitFor({ state: "detached" });
  await other.reload();
  await answer(other, asked[1]).waitFor();
  assert.equal(await answers(other).count(), asked.length - 1);
  await page.getByRole("button", { name: "Dismiss all" }).click();
  for (const browser of [page, other]) await answers(browser).first().waitFor({ state: "detached" });
  // With the run they are kept.
  await choose(page, "Writer");
  await window(page, "Writer").getByRole("region", { name: "Runs" }).getByRole("button", { name: asked[0] }).first().click();
  await window(page, "Writer").getByText("Forty-two.").waitFor();
});

journey("files and pictures are pasted and dropped into the prompt bar, and reach the agents", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await prompt(page).evaluate(give, { event: "paste", name: "picture.png", type: "image/png", bytes: [137, 80, 78, 71] });
  await prompt(page).evaluate(give, { event: "drop", name: "table.csv", type: "text/csv", bytes: [97, 44, 98, 10] });
  const mentioned = page.getByRole("list", { name: "To look at" });
  for (const name of ["uploads/picture.png", "uploads/table.csv"]) await mentioned.getByText(name).waitFor();
  // What misses the bar does not make the browser leave the desktop for the file.
  await page.getByRole("main").evaluate(give, { event: "drop", name: "notes.txt", type: "text/plain", bytes: [104, 105] });
  await mentioned.getByText("uploads/notes.txt").waitFor();
  await ask(page, FIRST);
  await text(window(page, "Writer").first()).filter({ hasText: "The answer is 42." }).waitFor();
  await mentioned.waitFor({ state: "detached" });
  const { events } = await call(page, "GET", "/api/events?kind=run.accepted");
  const paths = events[0].payload.request.context.map(({ path }) => path);
  assert.deepEqual(paths.sort(), ["uploads/notes.txt", "uploads/picture.png", "uploads/table.csv"]);
  const { files } = await call(page, "GET", "/api/files/list?path=uploads");
  assert.deepEqual(files.map(({ name, size }) => [name, size]), [["notes.txt", 2], ["picture.png", 4], ["table.csv", 4]]);
});

journey("what is attached goes with its own words, however slow the line is, and what is dropped on a text is not lost", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const name of ["a", "b"]) await call(page, "PUT", `/api/files?path=${name}.md`, name, "text/markdown");
  const mentioned = page.getByRole("list", { name: "To look at" });
  const mention = async (name) => {
    await prompt(page).pressSequentially(` @${name}.md`);
    await page.getByRole("option", { name: new RegExp(`${name}\\.md`) }).click();
    await mentioned.getByText(`${name}.md`).waitFor();
  };
  const asked = ["How much is six times seven?", "And how much is six times seven?"];

  // Two prompts whose answers are still on their way when something is attached to a third.
  let pass;
  const held = new Promise((resolve) => (pass = resolve));
  await page.route(/\/api\/runs$/, async (route) => (await held, route.continue()));
  await prompt(page).fill(asked[0]);
  await mention("a");
  await prompt(page).press("Enter");
  await ask(page, asked[1]);
  await prompt(page).fill("Once more");
  await mention("b");
  pass();
  for (const words of asked) await page.getByRole("article", { name: "Answer" }).getByRole("button", { name: words, exact: true }).waitFor();
  await page.unroute(/\/api\/runs$/);
  const context = async (words) => {
    const { events } = await call(page, "GET", "/api/events?kind=run.accepted");
    return events.map(({ payload }) => payload.request).find(({ prompt }) => prompt === words)?.context ?? [];
  };
  assert.deepEqual(await context(asked[0]), [{ path: "a.md" }]);
  assert.deepEqual(await context(asked[1]), []);
  await mentioned.getByText("b.md").waitFor();
  await mentioned.getByRole("button", { name: "Take b.md away" }).click();

  // Enter while a file is on its way waits for it. It misses the bar and falls on a text, which takes pictures only.
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Bees", content: "# Bees\n" });
  await call(page, "POST", "/api/desktop", { command: "open", app: "writer", subject: { document: document_id } });
  await text(window(page, "Writer — Bees")).filter({ hasText: "Bees" }).waitFor();
  let arrive;
  const under = new Promise((resolve) => (arrive = resolve));
  await page.route(/\/api\/files\?path=uploads.+paper/, async (route) => (await under, route.continue()));
  await text(window(page, "Writer — Bees")).evaluate(give, { event: "drop", name: "paper.pdf", type: "application/pdf", bytes: [37, 80, 68, 70] });
  await page.getByRole("status").getByText(/^Uploading paper\.pdf/).waitFor();
  await prompt(page).fill("Once more, how much is six times seven?");
  await prompt(page).press("Enter");
  await page.getByRole("status").getByText("Your words go as soon as the file is there.").waitFor();
  arrive();
  await page.getByRole("article", { name: "Answer" }).getByRole("button", { name: /^Once more/ }).waitFor();
  assert.deepEqual(await context("Once more, how much is six times seven?"), [{ path: "uploads/paper.pdf" }]);
  await mentioned.waitFor({ state: "detached" });
  assert.equal((await call(page, "GET", `/api/documents/${document_id}`)).content, "# Bees\n");

  // A file that came since is found by its name.
  await call(page, "PUT", "/api/files?path=late.md", "late", "text/markdown");
  await prompt(page).fill("");
  await mention("late");
});

journey("what is called alike is attached side by side, and nothing takes the place of another", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  // Every picture of a clipboard has the same name, and two may come at once.
  for (const byte of [1, 2]) await prompt(page).evaluate(give, { event: "paste", name: "image.png", type: "image/png", bytes: [byte] });
  const mentioned = page.getByRole("list", { name: "To look at" });
  for (const name of ["uploads/image.png", "uploads/image-2.png"]) await mentioned.getByText(name).waitFor();
  await prompt(page).evaluate(give, { event: "paste", name: "image.png", type: "image/png", bytes: [3] });
  await mentioned.getByText("uploads/image-3.png").waitFor();
  const bytes = await page.evaluate(async () => {
    const read = async (name) => new Uint8Array(await (await fetch(`/api/files?path=uploads/${name}`)).arrayBuffer())[0];
    return Promise.all(["image.png", "image-2.png", "image-3.png"].map(read));
  });
  assert.deepEqual(bytes.sort(), [1, 2, 3]);

  // A document and a run of one title, by their completion.
  await ask(page, FIRST);
  await text(window(page, "Writer").first()).filter({ hasText: "The answer is 42." }).waitFor();
  await call(page, "POST", "/api/documents", { title: FIRST, content: `# ${FIRST}\n` });
  for (const kind of ["document", "run"]) {
    await prompt(page).fill("");
    await prompt(page).pressSequentially("@what");
    await page.getByRole("option", { name: "What is six times seven" }).filter({ hasText: kind }).click();
  }
  assert.equal(await mentioned.getByRole("listitem").filter({ hasText: "What is six times seven" }).count(), 2);
  // A long text is taken as it is, and one that is too long comes back with the computer's own words.
  await prompt(page).fill("x".repeat(300_000));
  world.expect(/refused request: 4\d\d POST .*\/api\/runs/);
  world.forgive(/console error: Failed to load resource/);
  await prompt(page).press("Enter");
  await page.getByRole("alert").getByText("Your words are still in the prompt bar.").waitFor();
  assert.equal((await prompt(page).inputValue()).length, 300_000);
  await prompt(page).fill(`${"y".repeat(30_000)} end`);
  await prompt(page).press("Enter");
  await until(page, async () => (await (await fetch("/api/runs")).json()).runs[0].prompt.length === 30_004);
});

journey("the tab says what runs and what waits, and the badge leads there", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  assert.equal(await page.title(), "ChoirOS");
  await ask(page, "Ask me about the colour of the bicycle shed.");
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).waitFor();
  await page.waitForFunction(() => document.title === "1 waiting for you · ChoirOS");
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).click();
  const question = window(page, "Inbox").getByRole("article", { name: "Question" });
  await question.getByRole("textbox", { name: "Your answer" }).fill("Green.");
  await question.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByRole("article", { name: "Answer" }).waitFor();
  await page.waitForFunction(() => document.title === "ChoirOS");
});

journey("agents at work are steered from the prompt bar, which says so, and Tab goes round", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await ask(page, "Ask me about the colour of the bicycle shed.");
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).waitFor();
  const chip = (name) => page.getByRole("contentinfo").getByRole("button", { name });
  await chip(/^Steer Ask me about/).waitFor();
  await prompt(page).focus();
  for (const name of [/^Continue Ask me about/, "New", /^Steer Ask me about/]) {
    await page.keyboard.press("Tab");
    await chip(name).waitFor();
  }
  await page.keyboard.type("Green, if nobody minds.");
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Told the agents.").waitFor();
  const { events } = await call(page, "GET", "/api/events?kind=run.steered");
  assert.deepEqual(events.map(({ payload }) => payload.text), ["Green, if nobody minds."]);
  assert.equal((await call(page, "GET", "/api/runs")).runs.length, 1, "who steers starts nothing");
});

/// Gives an element a file, as the clipboard or a hand does.
function give(element, { event, name, type, bytes }) {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type }));
  const options = { bubbles: true, cancelable: true };
  const given = event === "paste" ? new ClipboardEvent("paste", { ...options, clipboardData: data }) : new DragEvent("drop", { ...options, dataTransfer: data });
  element.dispatchEvent(given);
}
