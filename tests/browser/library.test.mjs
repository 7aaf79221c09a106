// The Library: names, how things stand, and the trash that gives everything back.

import { journey } from "./harness.mjs";
import { ask, choose, prompt, window } from "./speech.mjs";

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
  await page.evaluate(async () => {
    const { events } = await (await fetch("/api/events?kind=run.accepted")).json();
    const erased = await fetch(`/api/events/${events[0].id}/erase`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } });
    if (!erased.ok) throw new Error(await erased.text());
  });
  await page.waitForFunction(() => globalThis.words === undefined);
  await prompt(page).waitFor();
  await page.getByRole("region", { name: "Run" }).getByText(ASKED).waitFor({ state: "detached" });
});
