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
  await files.getByRole("button", { name: "Make no folder" }).click();
  await files.getByRole("textbox", { name: "Name of the folder" }).waitFor({ state: "detached" });
  await files.getByRole("button", { name: "New folder" }).click();
  await files.getByRole("textbox", { name: "Name of the folder" }).fill("papers");
  await files.getByRole("textbox", { name: "Name of the folder" }).press("Enter");
  await files.getByRole("button", { name: "papers", exact: true }).last().click();
  await window(page, "Files — papers").getByText("Nothing here", { exact: true }).waitFor();

  // Dropped on the window, as from another program.
  await window(page, "Files — papers").getByText("Drop files and folders on this window").evaluate((element) => {
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
  await files.getByRole("button", { name: "Keep the name" }).click();
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

journey("an upload over a file keeps the old one, and its undo brings it back", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/files?path=papers/notes.txt", "old\n", "application/octet-stream");
  await choose(page, "Files");
  const files = window(page, "Files");
  await files.getByRole("button", { name: "papers", exact: true }).last().click();
  await files.getByRole("button", { name: /^notes\.txt/ }).first().click();
  const preview = files.getByRole("region", { name: "Preview of notes.txt" });
  await preview.getByText("old").waitFor();
  const content = () => page.evaluate(async () => (await fetch("/api/files?path=papers/notes.txt")).text());
  const upload = async (text) => {
    const choosing = page.waitForEvent("filechooser");
    await files.getByRole("button", { name: "Upload" }).click();
    await (await choosing).setFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from(text) });
    await files.getByText("The old papers/notes.txt is in the trash.").waitFor();
  };
  await upload("new\n");
  assert.equal(await content(), "new\n");
  // What is looked at follows.
  await preview.getByText("new").waitFor();
  await files.getByRole("button", { name: "Undo", exact: true }).click();
  await page.getByRole("status").getByText("papers/notes.txt is back.").waitFor();
  assert.equal(await content(), "old\n");
  await preview.getByText("old").waitFor();
});

journey("a folder follows what others do to it, in every browser, and what a terminal did", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Files");
  const other = await world.join(page);
  const files = window(page, "Files");
  await window(other, "Files").getByText("Nothing here", { exact: true }).waitFor();
  await files.getByText("Nothing here", { exact: true }).waitFor();
  const put = (path, text) => call(other, "PUT", `/api/files?path=${path}`, text, "application/octet-stream");
  await put("list.txt", "one\n");
  const entry = (browser, name) => window(browser, "Files").getByRole("button", { name: new RegExp(`^${name}`) }).first();
  for (const browser of [page, other]) await entry(browser, "list.txt").waitFor();
  // Whatever is being looked at or written stays, and follows.
  await entry(page, "list.txt").click();
  const preview = files.getByRole("region", { name: "Preview of list.txt" });
  await preview.getByText("one").waitFor();
  await files.getByRole("button", { name: "New folder" }).click();
  await files.getByRole("textbox", { name: "Name of the folder" }).fill("half a na");
  await put("list.txt", "two\n");
  await preview.getByText("two").waitFor();
  assert.equal(await files.getByRole("textbox", { name: "Name of the folder" }).inputValue(), "half a na");
  await call(other, "POST", "/api/files/move", { from: "list.txt", to: "moved.txt" });
  await entry(page, "moved.txt").waitFor();
  await entry(page, "list.txt").waitFor({ state: "detached" });

  // A shell tells nobody; who turns back to the folder sees what it did.
  await choose(page, "Terminal");
  const input = window(page, "Terminal").getByRole("textbox", { name: "Terminal input" });
  await input.focus();
  await page.keyboard.type("touch by-hand && echo do''ne\n");
  await window(page, "Terminal").getByText(/^done/).first().waitFor();
  await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: /^Files/ }).click();
  await entry(page, "by-hand").waitFor();
});

journey("large files say how far they are, both ways, end up whole, and can be stopped", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  const line = (throughput) =>
    client.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: throughput, uploadThroughput: throughput });
  await line(4_000_000);
  await choose(page, "Files");
  const files = window(page, "Files");
  const told = (words) => page.getByRole("status").getByText(words);
  const stop = page.getByRole("status").getByRole("button", { name: "Cancel" });
  const send = async (name) => {
    const choosing = page.waitForEvent("filechooser");
    await files.getByRole("button", { name: "Upload" }).click();
    await (await choosing).setFiles({ name, mimeType: "application/octet-stream", buffer: Buffer.alloc(LARGE_BYTES, 7) });
    await told(new RegExp(`Uploading ${name} … [1-9]\\d* %`)).waitFor();
  };
  const list = async () => (await call(page, "GET", "/api/files/list?path=")).files;

  await send("large.bin");
  await told("large.bin is in the workspace.").waitFor();
  assert.equal((await list()).find(({ name }) => name === "large.bin").size, LARGE_BYTES);
  // So slow that nobody can be too late to stop it.
  await line(200_000);
  await send("stopped.bin");
  await stop.click();
  await told("stopped.bin was not uploaded.").waitFor();
  assert.deepEqual((await list()).map(({ name }) => name), ["large.bin"]);

  await line(4_000_000);
  const fetching = files.getByRole("link", { name: "Download large.bin" });
  const downloading = page.waitForEvent("download");
  await fetching.click();
  await told(/Downloading large\.bin … [1-9]\d? %/).waitFor();
  const download = await downloading;
  assert.equal(download.suggestedFilename(), "large.bin");
  assert.deepEqual(await readFile(await download.path()), Buffer.alloc(LARGE_BYTES, 7));
  await line(200_000);
  await fetching.click();
  await told(/Downloading large\.bin … [1-9]\d? %/).waitFor();
  await stop.click();
  await told("large.bin was not downloaded.").waitFor();
});

journey("a folder that is dropped or chosen comes in whole, and does not mix with one of its name", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Files");
  const files = window(page, "Files");
  await files.getByText("Nothing here", { exact: true }).waitFor();
  // A page cannot make the entries that a file manager gives; these answer like them, in parts.
  const drop = () =>
    files.getByText(/^(Nothing here|Workspace)$/).first().evaluate((element) => {
      const file = (name, text) => ({ isFile: true, isDirectory: false, name, file: (found) => found(new File([text], name)) });
      const folder = (name, entries) => ({
        isFile: false,
        isDirectory: true,
        name,
        createReader: () => {
          const parts = [...entries.map((entry) => [entry]), []];
          return { readEntries: (read) => read(parts.shift()) };
        },
      });
      const fruit = folder("fruit", [file("pear.txt", "ripe\n"), folder("red", [file("apple.txt", "sour\n")]), folder("empty", [])]);
      const event = new Event("drop", { bubbles: true, cancelable: true });
      event.dataTransfer = { types: ["Files"], files: [new File([], "fruit")], items: [{ webkitGetAsEntry: () => fruit }] };
      element.dispatchEvent(event);
    });
  await drop();
  await page.getByRole("status").getByText("fruit is in the workspace, with 2 files.").waitFor();
  const read = (path) => page.evaluate(async (path) => (await fetch(`/api/files?path=${path}`)).text(), path);
  const names = async (path) => (await call(page, "GET", `/api/files/list?path=${path}`)).files.map(({ name }) => name).sort();
  assert.deepEqual(await names("fruit"), ["empty", "pear.txt", "red"]);
  assert.equal(await read("fruit/red/apple.txt"), "sour\n");
  await files.getByRole("button", { name: "fruit", exact: true }).last().waitFor();
  await drop();
  await files.getByRole("button", { name: "fruit-2", exact: true }).last().waitFor();
  assert.equal(await read("fruit-2/pear.txt"), "ripe\n");

  const choosing = page.waitForEvent("filechooser");
  await choose(page, "Bring in a folder");
  await (await choosing).setFiles(new URL("scenarios/sources", import.meta.url).pathname);
  await page.getByRole("status").getByText(/^sources is in the workspace, with \d+ files/).waitFor();
  assert.ok((await names("sources")).includes("heron.md"));
});

journey("files and folders are moved by hand and by name, and that is taken back", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const path of ["notes.txt", "papers/old.txt"]) await call(page, "PUT", `/api/files?path=${path}`, "text\n", "application/octet-stream");
  await choose(page, "Files");
  const files = window(page, "Files");
  const entry = (name) => files.getByRole("button", { name: new RegExp(`^${name}`) }).last();
  await entry("notes.txt").dragTo(entry("papers"));
  await files.getByText("notes.txt is now papers/notes.txt.").waitFor();
  await files.getByRole("button", { name: /^notes\.txt/ }).waitFor({ state: "detached" });
  await choose(page, "Bring back what was put away");
  await page.getByRole("status").getByText("notes.txt is back.").waitFor();
  await entry("notes.txt").waitFor();

  // By keys alone, into a folder that is not there yet; a folder cannot go into itself.
  await files.getByRole("button", { name: "Move papers" }).press("Enter");
  const field = files.getByRole("combobox", { name: "Folder for papers" });
  await field.fill("papers/inner");
  await field.press("Enter");
  await files.getByRole("alert").getByText("A folder cannot be in itself.").waitFor();
  await field.fill("archive/2026");
  await field.press("Enter");
  await files.getByText("papers is now archive/2026/papers.").waitFor();
  const { files: moved } = await call(page, "GET", "/api/files/list?path=archive/2026/papers");
  assert.deepEqual(moved.map(({ name }) => name), ["old.txt"]);
  await world.assertAccessible(page);
});
