// Files: what a person does to a folder, by hand.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { journey } from "./harness.mjs";
import { call, choose, prompt, window } from "./speech.mjs";

/// Long enough that its way can be seen.
const LARGE_BYTES = 8_000_000;

journey("folders are made, files dropped, looked at, renamed, thrown away and brought back", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Files");
  const files = window(page, "Files");
  await files.getByRole("button", { name: "New folder" }).click();
  await files.getByRole("textbox", { name: "Name of the folder" }).fill("papers");
  await files.getByRole("textbox", { name: "Name of the folder" }).press("Enter");
  await files.getByRole("button", { name: "papers", exact: true }).last().click();
  await window(page, "Files — papers").getByText("Nothing here", { exact: true }).waitFor();

  // Dropped on the window, as from another program.
  await window(page, "Files — papers").getByText("Drop files on this window").evaluate((element) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["name,price\npears,3\n"], "prices.csv", { type: "text/csv" }));
    dataTransfer.items.add(new File(["# Pears\n\n*Ripe.*\n"], "pears.md", { type: "text/markdown" }));
    element.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }));
  });
  const entry = (name) => files.getByRole("button", { name: new RegExp(`^${name}`) }).first();
  await entry("prices.csv").click();
  await files.getByRole("group", { name: "Table" }).getByText("pears").waitFor();
  await entry("pears.md").click();
  await files.getByRole("heading", { name: "Pears" }).waitFor();
  await world.assertAccessible(page);

  await files.getByRole("button", { name: "Rename pears.md" }).click();
  await files.getByRole("textbox", { name: "New name" }).fill("fruit.md");
  await files.getByRole("textbox", { name: "New name" }).press("Enter");
  await entry("fruit.md").waitFor();
  await files.getByRole("button", { name: "Delete fruit.md" }).click();
  await files.getByText("papers/fruit.md is in the trash.").waitFor();
  await files.getByRole("button", { name: "Undo", exact: true }).click();
  await entry("fruit.md").waitFor();

  const downloading = page.waitForEvent("download");
  await files.getByRole("link", { name: "Download prices.csv" }).click();
  const download = await downloading;
  assert.equal(download.suggestedFilename(), "prices.csv");
  assert.equal(await readFile(await download.path(), "utf8"), "name,price\npears,3\n");
});

journey("a large upload says how far it is, and ends up whole", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 4_000_000 });
  await choose(page, "Files");
  const choosing = page.waitForEvent("filechooser");
  await window(page, "Files").getByRole("button", { name: "Upload" }).click();
  await (await choosing).setFiles({ name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(LARGE_BYTES, 7) });
  await page.getByRole("status").getByText(/Uploading large\.bin … [1-9]\d* %/).waitFor();
  await page.getByRole("status").getByText("large.bin is in the workspace.").waitFor();
  const { files } = await call(page, "GET", "/api/files/list?path=");
  assert.equal(files.find(({ name }) => name === "large.bin").size, LARGE_BYTES);
});
