// Every app with something in it, in both themes, wide and narrow: no barrier that axe calls serious, nothing moving for
// those who asked for stillness, nothing beneath the strip.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, compare, menu, open, prompt, text } from "./speech.mjs";

const THEMES = ["matins", "vespers"];
const APPS = ["Terminal", "Files", "Trace", "Timeline", "Search", "Inbox", "Settings"];

journey("every app is accessible in both themes", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  await prompt(page).waitFor();
  await world.assertAccessible(page);
  await compare(page);
  const writer = await open(page, "Heron or Wren");
  await text(writer).filter({ hasText: "What was checked" }).waitFor();
  await writer.getByRole("region", { name: "Sources" }).waitFor();
  for (const theme of THEMES) {
    await call(page, "POST", "/api/desktop", { command: "theme", theme });
    await page.locator(`html[data-theme=${theme}]`).waitFor();
    await world.assertAccessible(page);
    for (const app of APPS) {
      await choose(page, app);
      const opened = page.getByRole("dialog", { name: new RegExp(`^${app}`) });
      await opened.waitFor();
      await world.assertAccessible(page);
      const { y, height } = await opened.boundingBox();
      const strip = await page.getByRole("contentinfo").boundingBox();
      assert.ok(y + height <= strip.y, `${app} lies beneath the strip`);
      await opened.getByRole("button", { name: "Close", exact: true }).click();
      await opened.waitFor({ state: "detached" });
    }
    await choose(page, "New prompt");
  }
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0, "something moves although stillness was asked for");
});

journey("on a phone everything is in reach", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await prompt(page).waitFor();
  await compare(page);
  const writer = await open(page, "Heron or Wren");
  await text(writer).filter({ hasText: "One machine" }).waitFor();
  await world.assertAccessible(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} px wide`);

  // The text has the screen; what is known about it unfolds below.
  const about = writer.getByRole("button", { name: "About this document" });
  const sources = writer.getByRole("region", { name: "Sources" });
  assert.equal(await sources.isVisible(), false);
  const { height } = await text(writer).locator("xpath=ancestor::*[contains(@class,'paper')]").boundingBox();
  assert.ok(height > 600, `the text has ${height} px`);
  await about.tap();
  await sources.getByRole("button").first().waitFor();
  await world.assertAccessible(page);

  // A terminal has the keys that a screen's keyboard lacks.
  await choose(page, "Terminal");
  const terminal = page.getByRole("dialog", { name: /^Terminal/ });
  await terminal.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type("echo be''gun; sleep 1000; echo e''nded\n");
  await terminal.getByText(/^begun/).first().waitFor();
  const key = (name) => terminal.getByRole("toolbar", { name: "Keys" }).getByRole("button", { name, exact: true });
  await key("Ctrl C").tap();
  await page.keyboard.type("echo af''ter\n");
  await terminal.getByText(/^after/).first().waitFor();
  await key("↑").tap();
  await terminal.getByText("echo af''ter").nth(1).waitFor();
  assert.equal(await terminal.getByText(/^ended/).count(), 0);
  await world.assertAccessible(page);
  await terminal.getByRole("button", { name: "Close", exact: true }).tap();

  // What waits has a place here too.
  await ask(page, "Ask me about the colour of the bicycle shed.");
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).tap();
  await page.getByRole("dialog", { name: /^Inbox/ }).getByRole("article", { name: "Question" }).waitFor();
  await world.assertAccessible(page);
});

journey("the whole menu is seen at once on a screen of an ordinary size", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await menu(page).click();
  const hidden = await page.getByRole("menu").evaluate((menu) => menu.scrollHeight - menu.clientHeight);
  assert.equal(hidden, 0, `${hidden} pixels of the menu are out of sight`);
  const lines = await page.getByRole("menuitem").evaluateAll((items) => items.map((item) => [item.textContent, item.querySelector("span").getClientRects()[0].height]));
  const broken = lines.filter(([, height]) => height > lines[0][1]).map(([name]) => name);
  assert.deepEqual(broken, [], "a line of the menu is two");
});
