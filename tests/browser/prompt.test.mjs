// From a sentence to a document that survives the plug being pulled.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";

/// What the scenario's one `bash` call prints into the document: no script knows it, only the shell can compute it.
const COMPUTED = "The answer is 42.";

journey("a prompt becomes a document, and kill -9 does not lose it", { scenario: "document.json" }, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  assert.ok(!page.url().includes("token="), "the one-time token must not stay in the address bar");

  await ask(page, "What is six times seven? Ask the shell and write it down.");
  await seesDocument(page);
  await world.assertAccessible(page);
  await world.leave(page);

  await choir.kill();
  await world.start();
  const again = await world.signIn();
  await seesDocument(again);
  await findsDocument(again);
});

async function ask(page, text) {
  const prompt = page.getByRole("textbox", { name: "Prompt", exact: true });
  await prompt.fill(text);
  await prompt.press("Enter");
}

/// A Writer window holds the document with what the shell computed.
async function seesDocument(page) {
  const writer = page.getByRole("dialog", { name: /^Writer/ });
  const document = writer.getByRole("textbox", { name: "Document", exact: true });
  await document.filter({ hasText: COMPUTED }).waitFor();
}

/// Search finds the document by a word that only the shell knew, and opens it.
async function findsDocument(page) {
  await page.getByRole("button", { name: "Menu", exact: true }).click();
  await page.getByRole("menu").getByRole("menuitem", { name: /^Search/ }).click();
  const search = page.getByRole("dialog", { name: /^Search/ });
  await search.getByRole("searchbox", { name: "Search", exact: true }).fill("answer 42");
  const found = search.getByRole("region", { name: "Results" }).getByRole("button").filter({ hasText: "document" });
  await found.first().click();
  await seesDocument(page);
}
