// The margin: a part of a text is asked about, verified or changed, and the answer stands beside it.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { call, open, prompt, text } from "./speech.mjs";

const SENTENCE = "Some wild bees sleep in flowers at night.";

journey("a selection is asked about, verified and changed, and all of it is answered in the margin", { scenario: "margin.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Bees", content: `# Bees\n\n${SENTENCE}\n\nOthers do not.\n` });
  const writer = await open(page, "Bees");
  const selection = writer.getByRole("region", { name: "Selection" });
  const threads = writer.getByRole("region", { name: "Threads" });
  const about = async (verb, words) => {
    await text(writer).getByText(SENTENCE).click({ clickCount: 3 });
    await selection.getByRole("button", { name: verb, exact: true }).click();
    await selection.getByRole("textbox", { name: "About the selection" }).fill(words);
    await selection.getByRole("textbox", { name: "About the selection" }).press("Enter");
  };

  await about("Ask", "Why flowers?");
  const asked = threads.getByRole("article", { name: "Thread" }).filter({ hasText: "Why flowers?" });
  await asked.getByText("close", { exact: true }).waitFor();
  await asked.getByRole("button", { name: `“${SENTENCE}”` }).waitFor();
  assert.equal(await page.getByRole("article", { name: "Answer" }).count(), 0, "what is in the margin needs no card");
  const { runs } = await call(page, "GET", "/api/runs");
  assert.deepEqual([runs[0].selection.action, runs[0].selection.quote.trim()], ["ask", SENTENCE]);
  await world.assertAccessible(page);

  // What was checked is said with its standing; the text stays as it is.
  await text(writer).getByText(SENTENCE).click({ clickCount: 3 });
  await selection.getByRole("button", { name: "Verify", exact: true }).click();
  await selection.getByRole("textbox", { name: "About the selection" }).press("Enter");
  const verified = threads.getByRole("article", { name: "Thread" }).filter({ hasText: "Check this against its sources." });
  await verified.getByText("No source here says where they sleep.").waitFor();
  const { runs: after } = await call(page, "GET", "/api/runs");
  assert.deepEqual([after[0].selection.action, after[0].selection.quote.trim()], ["verify", SENTENCE]);
  await text(writer).filter({ hasText: SENTENCE }).waitFor();
  assert.equal(await writer.getByRole("article", { name: "Proposal" }).count(), 0);

  await about("Change", "Say it shorter.");
  const proposal = writer.getByRole("article", { name: "Proposal" });
  // A no asks nothing and can be taken back.
  await proposal.getByRole("button", { name: "Reject" }).click();
  await proposal.waitFor({ state: "detached" });
  await writer.getByRole("status").filter({ hasText: "Rejected. The text stays as it is." }).getByRole("button", { name: "Undo" }).click();
  await proposal.getByRole("button", { name: "Accept" }).click();
  await text(writer).filter({ hasText: "Some bees sleep in flowers." }).waitFor();
  await text(writer).filter({ hasText: "Others do not." }).waitFor();

  // The words that were asked about are gone now; the thread stays until it is put away.
  await asked.getByRole("button", { name: "Put the thread away" }).click();
  await asked.waitFor({ state: "detached" });
});

journey("on a phone a proposal is counted, and its mark leads to it", { scenario: "margin.json" }, async (world) => {
  await world.start();
  const page = await world.signIn({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await prompt(page).waitFor();
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Bees", content: `# Bees\n\n${SENTENCE}\n\nOthers do not.\n` });
  const writer = await open(page, "Bees");
  const selection = { from: 8, to: 8 + SENTENCE.length, action: "change" };
  await call(page, "POST", "/api/runs", { prompt: "Say it shorter.", document_id, selection });
  const count = writer.getByRole("button", { name: "1 proposal" });
  const proposal = writer.getByRole("article", { name: "Proposal" });
  const about = writer.getByRole("button", { name: "About this document" });
  await count.waitFor();
  assert.equal(await proposal.isVisible(), false, "the text has the screen");
  await world.assertAccessible(page);
  await count.tap();
  await proposal.getByRole("button", { name: "Accept" }).waitFor();
  await about.tap();
  await proposal.waitFor({ state: "hidden" });
  await text(writer).getByText("wild bees").tap();
  await proposal.getByRole("button", { name: "Accept" }).tap();
  await text(writer).filter({ hasText: "Some bees sleep in flowers." }).waitFor();
  await count.waitFor({ state: "detached" });
});
