// The Library: names, how things stand, and the trash that gives everything back.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, open, prompt, text, window } from "./speech.mjs";

const ASKED = "What is six times seven? Ask the shell and write it down.";

journey("documents and runs are renamed, put away and brought back, for every browser", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await ask(page, ASKED);
  const writer = window(page, "Writer").first();
  await writer.getByRole("textbox", { name: "Document", exact: true }).filter({ hasText: "The answer is 42." }).waitFor();
  await writer.getByRole("region", { name: "Run" }).getByText("completed, unverified").waitFor();

  await choose(page, "Writer");
  const library = page.getByRole("dialog", { name: "Writer", exact: true });
  const [documents, runs] = ["Documents", "Runs"].map((name) => library.getByRole("region", { name, exact: true }));
  await documents.getByRole("img", { name: "completed, unverified" }).first().waitFor();
  await documents.getByRole("button", { name: /^Rename/ }).first().click();
  await documents.getByRole("textbox", { name: "New title" }).fill("Six times seven");
  await documents.getByRole("textbox", { name: "New title" }).press("Enter");
  await documents.getByRole("button", { name: "Move Six times seven to the trash" }).click();
  await documents.getByText("Six times seven").waitFor({ state: "detached" });
  await runs.getByRole("button", { name: /^Move What is six times seven.* to the trash/ }).click();
  await runs.getByText("No run yet").waitFor();
  await world.assertAccessible(page);

  // Another browser of the same person, which never saw them.
  const other = await world.join(page);
  await prompt(other).waitFor();
  const there = other.getByRole("dialog", { name: "Writer", exact: true });
  await there.getByRole("region", { name: "Documents", exact: true }).waitFor();
  // Neither the document nor the run, whose words it has.
  await there.getByText("No run yet").waitFor();
  await there.getByRole("region", { name: "Documents", exact: true }).getByText("Six times seven").waitFor({ state: "detached" });
  await there.getByText("Trash", { exact: true }).click();
  await there.getByRole("button", { name: "Restore Six times seven" }).click();
  await there.getByRole("button", { name: /^Restore What is six times seven/ }).click();
  await there.getByText("The trash is empty.").waitFor();
  await documents.getByText("Six times seven").waitFor();
  await runs.getByRole("button", { name: /^completed, unverified What is six/ }).waitFor();
});

journey("what is erased does not stay on a page that is open", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await ask(page, ASKED);
  const writer = window(page, "Writer").first();
  await writer.getByRole("region", { name: "Run" }).getByText("completed, unverified").waitFor();
  await page.evaluate(() => (globalThis.words = "seen"));
  const { events } = await call(page, "GET", "/api/events?kind=run.accepted");
  // Not waited for: the page begins anew as soon as it hears of it, which may be before the answer.
  await page.evaluate((id) => {
    fetch(`/api/events/${id}/erase`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } });
  }, events[0].id);
  await page.waitForFunction(() => globalThis.words === undefined);
  await prompt(page).waitFor();
  await page.getByRole("region", { name: "Run" }).getByText(ASKED).waitFor({ state: "detached" });
});

journey("a document that is put away while it is open says so in every browser, and comes back from there", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Pears", content: "# Pears\n\nRipe.\n" });
  const writer = await open(page, "Pears");
  await text(writer).filter({ hasText: "Ripe." }).waitFor();
  const chip = (name) => page.getByRole("contentinfo").getByRole("button", { name });
  await chip(/^Continue/).waitFor();
  const { documents } = await call(page, "GET", "/api/documents");
  await call(page, "POST", `/api/documents/${documents[0].document_id}/trash`);
  const told = (writer) => writer.getByRole("status").filter({ hasText: "This document is in the trash." });
  await told(writer).waitFor();
  await text(writer).filter({ hasText: "Ripe." }).waitFor();
  await chip("New").waitFor();

  // A browser that comes later knows the window's name all the same, and brings the document back for all.
  const other = await world.join(page);
  const there = window(other, "Writer — Pears");
  await told(there).waitFor();
  await world.assertAccessible(other);
  const third = await world.join(page);
  await told(window(third, "Writer — Pears")).waitFor();
  await there.getByRole("button", { name: "Restore it" }).click();
  for (const each of [writer, there, window(third, "Writer — Pears")]) await told(each).waitFor({ state: "detached" });
  await chip(/^Continue/).waitFor();
});

journey("what comes back from the trash is listed where nobody knew of it, and the marks of Markdown are never read as letters", { scenario: "marked.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Plums", content: "# Plums\n" });
  await call(page, "POST", `/api/documents/${document_id}/trash`);
  const other = await world.join(page);
  await choose(other, "Writer");
  const documents = other.getByRole("dialog", { name: "Writer", exact: true }).getByRole("region", { name: "Documents" });
  await documents.getByText("No document yet.").waitFor();
  await call(page, "POST", `/api/documents/${document_id}/restore`);
  await documents.getByText("Plums").waitFor();
  await other.getByRole("dialog", { name: "Writer", exact: true }).getByRole("button", { name: "Close", exact: true }).click();

  await ask(page, "What does `seq 3` print, **exactly**?");
  const answer = page.getByRole("article", { name: "Answer" });
  await answer.getByRole("code").filter({ hasText: "seq 3" }).first().waitFor();
  await answer.getByRole("cell", { name: "three" }).waitFor();
  await answer.getByRole("button", { name: "What does seq 3 print, exactly?" }).click();
  const plan = window(page, "Writer").getByRole("list", { name: "Plan" });
  await window(page, "Writer").getByText("2 agents").click();
  await plan.getByRole("code").filter({ hasText: "seq 3" }).first().waitFor();
  for (const part of [answer, plan]) assert.doesNotMatch(await part.innerText(), /[`*|]/);
});

journey("the Library shows what is chosen in its own window, and the next Writer lies over the one before", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const title of ["Trees", "Bees"]) await call(page, "POST", "/api/documents", { title, content: `# ${title}\n` });
  const writers = page.getByRole("dialog", { name: /^Writer/ });
  await open(page, "Trees");
  assert.equal(await writers.count(), 1);
  const first = await window(page, "Writer — Trees").boundingBox();
  const bees = await open(page, "Bees");
  assert.equal(await writers.count(), 2);
  assert.deepEqual(await bees.boundingBox(), first);
  // What is open already comes to the front; with Ctrl another window opens.
  await choose(page, "Writer");
  const library = page.getByRole("dialog", { name: "Writer", exact: true });
  const row = (title) => library.getByRole("region", { name: "Documents" }).getByRole("button", { name: new RegExp(`^${title}`) }).first();
  await row("Trees").click();
  await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: "Writer — Trees", pressed: true }).waitFor();
  await call(page, "POST", "/api/documents", { title: "Birds", content: "# Birds\n" });
  await choose(page, "Writer");
  await row("Birds").click({ modifiers: ["Control"] });
  await window(page, "Writer — Birds").waitFor();
  await library.waitFor();
});
