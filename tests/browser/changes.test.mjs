// Files that are no text: there is nothing to lay side by side, and all the same each goes its own way.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, prompt, window } from "./speech.mjs";

const OLD = "\u0000\u0001old";
const NEW = "\u0000\u0001new";

journey("files that are no text are kept, taken back and brought back one by one, for every browser", { scenario: "binary.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/files?path=logo.bin", OLD, "application/octet-stream");
  await ask(page, "Draw the logo anew.");
  const logo = await changed(page, "logo.bin");
  await logo.getByText("Not text.").waitFor();
  assert.equal(await read(page, "logo.bin"), NEW);

  await logo.getByRole("button", { name: "Undo logo.bin" }).click();
  await logo.getByText("taken back").waitFor();
  assert.deepEqual([await read(page, "logo.bin"), await read(page, "small.bin")], [OLD, "\u0000\ufffd"]);
  const small = await changed(page, "small.bin");
  await small.getByRole("button", { name: "Undo small.bin" }).click();
  await small.getByText("taken back").waitFor();
  assert.equal(await read(page, "small.bin"), undefined);

  // The log knows it, and not this page alone.
  await page.reload();
  const again = await changed(page, "logo.bin");
  await again.getByText("taken back").waitFor();
  await world.assertAccessible(page);
  await again.getByRole("button", { name: "Bring back logo.bin" }).click();
  await again.getByRole("button", { name: "Undo logo.bin" }).waitFor();
  assert.equal(await read(page, "logo.bin"), NEW);

  // What somebody changed since is left alone, and that is said.
  await call(page, "PUT", "/api/files?path=logo.bin", "\u0000mine", "application/octet-stream");
  await again.getByRole("button", { name: "Undo logo.bin" }).click();
  await page.getByRole("status").getByText(/left alone/).waitFor();
  assert.equal(await read(page, "logo.bin"), "\u0000mine");
});

journey("of what is held, one file that is no text is brought in and the other is not", { scenario: "binary.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Settings");
  await window(page, "Settings").getByRole("checkbox", { name: /^Hold what agents change/ }).check();
  await page.getByRole("status").getByText("Kept.").waitFor();
  await window(page, "Settings").getByRole("button", { name: "Close", exact: true }).click();
  await call(page, "PUT", "/api/files?path=logo.bin", OLD, "application/octet-stream");
  await ask(page, "Draw the logo anew.");
  const logo = await changed(page, "logo.bin");
  await logo.getByRole("button", { name: "Keep logo.bin" }).click();
  await logo.getByRole("button", { name: "Undo logo.bin" }).waitFor();
  assert.deepEqual([await read(page, "logo.bin"), await read(page, "small.bin")], [NEW, undefined]);
  await logo.getByRole("button", { name: "Undo logo.bin" }).click();
  await logo.getByRole("button", { name: "Undo logo.bin" }).waitFor({ state: "detached" });
  assert.equal(await read(page, "logo.bin"), OLD);
  await logo.getByRole("button", { name: "Keep logo.bin" }).waitFor();
});

/// What the run did to a file, as its window shows it.
async function changed(page, path) {
  const writer = window(page, "Writer");
  const file = writer.getByRole("article", { name: path, exact: true });
  // Until it has ended there is the word "Cancel" instead, and what is held has nothing to take back.
  await writer.getByRole("region", { name: "Run" }).getByText(/^completed/).waitFor();
  if (!(await file.isVisible())) await writer.getByRole("button", { name: "Changes", exact: true }).click();
  await file.waitFor();
  return file;
}

/// A file's text, asked beside the page: for it, a file that is gone would be an error.
async function read(page, path) {
  const answer = await page.request.get(new URL(`/api/files?path=${path}`, page.url()).href);
  return answer.status() === 404 ? undefined : await answer.text();
}
