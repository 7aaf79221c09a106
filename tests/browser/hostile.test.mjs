// Nothing that a document, a title, a file's name, a file or a terminal says ever runs, loads from elsewhere or lies.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import * as hostile from "./hostile.mjs";
import { call, choose, prompt, text, window } from "./speech.mjs";

journey("hostile texts are shown and never run", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const alarm = await watch(page);

  // Every payload in one document, in the title of its own, and in a file's name.
  const content = `# ${hostile.documents[0]}\n\n${hostile.documents.join("\n\n")}\n\nThe end.\n`;
  const { document_id } = await call(page, "POST", "/api/documents", { title: hostile.titles[7], content });
  for (const title of hostile.titles) await call(page, "POST", "/api/documents", { title, content: title });
  for (const name of hostile.names) await put(page, `hostile/${name}`, "x");
  await put(page, "readme.md", content);
  await put(page, "table.csv", hostile.titles.map((payload) => `"${payload.replaceAll('"', '""')}",x`).join("\n"));
  await put(page, "picture.svg", `<svg xmlns="http://www.w3.org/2000/svg" onload="globalThis.pwned=1"><script>globalThis.pwned=1</script><image href="http://evil.invalid/x"/></svg>`);

  await call(page, "POST", "/api/desktop", { command: "open", app: "writer", subject: { document: document_id } });
  const writer = page.getByRole("dialog", { name: /^Writer — / });
  await text(writer).click();
  await page.keyboard.press("Control+End");
  await text(writer).getByText("The end.").waitFor();
  // Pictures are drawn where somebody looks, as soon as the text is understood that far.
  const picture = text(writer).getByText("x.png is not in the workspace").first();
  await text(writer).focus();
  for (let turns = 0; turns < 60 && !(await picture.isVisible()); turns++) await page.keyboard.press(turns % 20 < 10 ? "PageUp" : "PageDown");
  await picture.waitFor();
  await page.keyboard.press("Control+Home");
  await choose(page, "Writer");
  await page.getByRole("region", { name: "Documents" }).getByRole("button").nth(50).waitFor();
  await close(page, "Writer");

  await choose(page, "Files");
  const files = window(page, "Files");
  for (const name of ["readme.md", "table.csv", "picture.svg"]) {
    await files.getByRole("button", { name: new RegExp(`^${name}`) }).click();
    await files.getByRole("region", { name: `Preview of ${name}` }).waitFor();
  }
  await files.getByRole("button", { name: "hostile", exact: true }).first().click();
  await files.getByRole("button", { name: /^Rename/ }).nth(20).waitFor();
  await close(page, "Files");

  await choose(page, "Search");
  await window(page, "Search").getByRole("searchbox", { name: "Search" }).fill("pwned");
  await window(page, "Search").getByRole("status").filter({ hasText: "result" }).waitFor();
  await close(page, "Search");

  await choose(page, "Terminal");
  const terminal = window(page, "Terminal");
  await terminal.getByRole("textbox", { name: "Terminal input" }).focus();
  for (const payload of hostile.terminal) await page.keyboard.type(`printf '${payload}'\n`);
  await page.keyboard.type("echo st''ill here\n");
  await terminal.getByText("still here").first().waitFor();

  const count = hostile.documents.length + hostile.titles.length + hostile.names.length + hostile.terminal.length;
  assert.ok(count >= 100, `${count} payloads`);
  assert.equal(await page.evaluate(() => globalThis.pwned), undefined, "something ran");
  assert.doesNotMatch(await page.title(), /pwned/, "a terminal named the page");
  assert.deepEqual(alarm.elsewhere(), [], "something was loaded from elsewhere");
  assert.deepEqual(alarm.dialogs, []);
  // Pictures are asked of the workspace alone, where these are not.
  world.expect(/(status of|refused request:) 40[04].*\/api\/files\?path=/);
  // What the page's policy had to stop would be reported: a payload that became an element. None did.
  world.assertNoPageErrors();

  // The alarm works: in a page without our policy the same payload rings it.
  const bare = await page.context().newPage();
  await bare.setContent(`<body></body>`);
  await bare.evaluate((payload) => (document.body.innerHTML = payload), hostile.control);
  await bare.waitForFunction(() => globalThis.pwned === 1);
});

/// Everything that a page must not do, noted.
async function watch(page) {
  const origin = new URL(page.url()).origin;
  const asked = [];
  const dialogs = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("dialog", (dialog) => dialogs.push(dialog.message()) && dialog.dismiss());
  return { dialogs, elsewhere: () => asked.filter((url) => !/^(blob|data):/.test(url) && new URL(url).origin !== origin) };
}

const put = (page, path, bytes) => call(page, "PUT", `/api/files?path=${encodeURIComponent(path)}`, bytes, "application/octet-stream");

async function close(page, app) {
  await window(page, app).last().getByRole("button", { name: "Close", exact: true }).click();
}
