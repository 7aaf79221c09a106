// What only a person can decide: a question, and a command that is shown exactly.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, prompt, until, window } from "./speech.mjs";

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

journey("a plan waits in the inbox too, with its yes beside it", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "POST", "/api/runs", { prompt: "Translate the greeting.", plan_first: true });
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).click();
  const inbox = window(page, "Inbox");
  await inbox.getByRole("button", { name: "Go on with this plan" }).click();
  await page.getByRole("article", { name: "Answer" }).filter({ hasText: "The greeting is German now." }).waitFor();
  await inbox.getByText("Nothing waits for you").waitFor();
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

journey("who changed the same file as an agent chooses by a button what stays", { scenario: "conflict.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/settings", { tools: { bash: "ask" } });
  await choose(page, "Inbox");
  const inbox = window(page, "Inbox");
  for (const [button, stays, beside] of [
    ["Keep mine", "Tuesday\n", undefined],
    ["Take theirs", "Thursday\n", undefined],
    ["Keep both", "Tuesday\n", "Thursday\n"],
  ]) {
    await write(page, "Monday\n");
    await ask(page, "Move the meeting to Thursday.");
    const approval = inbox.getByRole("article", { name: "Approval" });
    await approval.waitFor();
    await write(page, "Tuesday\n");
    await approval.getByRole("button", { name: "Approve once" }).click();

    const question = inbox.getByRole("article", { name: "Question" });
    await question.getByText(/somebody else changed meeting\.txt/).waitFor();
    assert.deepEqual(await question.getByRole("button").allTextContents(), ["Keep mine", "Take theirs", "Keep both"]);
    assert.equal(await question.getByRole("textbox").count(), 0, "there is nothing to type");
    await world.assertAccessible(page);
    // By the keyboard alone: Tab leads from one to the next, and Enter says it.
    await question.getByRole("button", { name: "Keep mine" }).focus();
    const focused = () => page.evaluate(() => document.activeElement.textContent);
    while ((await focused()) !== button) {
      assert.notEqual(await focused(), "Keep both", `${button} cannot be reached`);
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Enter");
    await inbox.getByText("Nothing waits for you").waitFor();
    await until(page, async () => {
      const { runs } = await (await fetch("/api/runs")).json();
      return runs.every(({ status }) => status === "completed");
    });
    assert.deepEqual([await read(page, "meeting.txt"), await read(page, "meeting.txt.theirs")], [stays, beside], button);
  }
});

function write(page, text) {
  return call(page, "PUT", "/api/files?path=meeting.txt", text, "application/octet-stream");
}

/// A file's text, asked beside the page: for it, a file that is not there would be an error.
async function read(page, path) {
  const answer = await page.request.get(new URL(`/api/files?path=${path}`, page.url()).href);
  return answer.status() === 404 ? undefined : await answer.text();
}

/// Whether the command left its file.
async function exists(page) {
  const { files } = await call(page, "GET", "/api/files/list?path=");
  return files.some(({ name }) => name === "shed.txt");
}
