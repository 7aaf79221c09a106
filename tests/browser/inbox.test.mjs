// What only a person can decide: a question, and a command that is shown exactly.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, prompt, window } from "./speech.mjs";

const ASKED = "Ask me about the colour of the bicycle shed.";

journey("a question is answered, and a command runs only after it was shown and approved", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/settings", { tools: { bash: "ask" } });
  await ask(page, ASKED);

  await page.getByRole("button", { name: "Inbox, 1 waiting" }).click();
  const inbox = window(page, "Inbox");
  const question = inbox.getByRole("article", { name: "Question" });
  await question.filter({ hasText: "Green and red are in stock." }).waitFor();
  await question.getByRole("textbox", { name: "Your answer" }).fill("Green, please.");
  await question.getByRole("button", { name: "Answer", exact: true }).click();

  const approval = inbox.getByRole("article", { name: "Approval" });
  const exactly = approval.getByLabel("Exactly this");
  await exactly.waitFor();
  assert.equal((await exactly.textContent()).trim(), "echo 'The shed will be green.' | tee shed.txt");
  for (const name of ["Approve once", "For this run", "Always", "Deny"]) await approval.getByRole("button", { name }).waitFor();
  await world.assertAccessible(page);
  assert.equal(await exists(page), false, "nothing may run before the word");
  await approval.getByRole("button", { name: "Approve once" }).click();
  await page.getByRole("article", { name: "Answer" }).filter({ hasText: "The shed will be green." }).waitFor();
  await inbox.getByText("Nothing waits for you").waitFor();
  assert.equal(await exists(page), true);
});

journey("what is denied does not run", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/settings", { tools: { bash: "ask" } });
  await ask(page, ASKED);
  await choose(page, "Inbox");
  const inbox = window(page, "Inbox");
  await inbox.getByRole("article", { name: "Question" }).getByRole("button", { name: "Do not answer" }).click();
  await inbox.getByRole("article", { name: "Approval" }).getByRole("button", { name: "Deny" }).click();
  await inbox.getByText("Nothing waits for you").waitFor();
  assert.equal(await exists(page), false);
});

/// Whether the command left its file.
async function exists(page) {
  const { files } = await call(page, "GET", "/api/files/list?path=");
  return files.some(({ name }) => name === "shed.txt");
}
