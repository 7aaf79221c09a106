// The prompt bar: what was asked before, what Enter will do, and what the agents should look at.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, prompt, text, window } from "./speech.mjs";

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
});

journey("files and pictures are pasted and dropped into the prompt bar, and reach the agents", { scenario: "document.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await prompt(page).evaluate(give, { event: "paste", name: "picture.png", type: "image/png", bytes: [137, 80, 78, 71] });
  await prompt(page).evaluate(give, { event: "drop", name: "table.csv", type: "text/csv", bytes: [97, 44, 98, 10] });
  const mentioned = page.getByRole("list", { name: "To look at" });
  for (const name of ["uploads/picture.png", "uploads/table.csv"]) await mentioned.getByText(name).waitFor();
  await ask(page, FIRST);
  await text(window(page, "Writer").first()).filter({ hasText: "The answer is 42." }).waitFor();
  await mentioned.waitFor({ state: "detached" });
  const { events } = await call(page, "GET", "/api/events?kind=run.accepted");
  const paths = events[0].payload.request.context.map(({ path }) => path);
  assert.deepEqual(paths.sort(), ["uploads/picture.png", "uploads/table.csv"]);
  const { files } = await call(page, "GET", "/api/files/list?path=uploads");
  assert.deepEqual(files.map(({ name, size }) => [name, size]), [["picture.png", 4], ["table.csv", 4]]);
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

/// Gives an element a file, as the clipboard or a hand does.
function give(element, { event, name, type, bytes }) {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type }));
  const options = { bubbles: true, cancelable: true };
  const given = event === "paste" ? new ClipboardEvent("paste", { ...options, clipboardData: data }) : new DragEvent("drop", { ...options, dataTransfer: data });
  element.dispatchEvent(given);
}
