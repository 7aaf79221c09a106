// Takes the pictures of docs/screenshots from the real thing: `CHOIR_BIN=… node tests/browser/pictures.mjs DIRECTORY`.

import { join } from "node:path";
import { World } from "./harness.mjs";

const directory = process.argv[2];
const world = await World.create("pictures.json");
try {
  await world.start();
  const page = await world.signIn({ viewport: { width: 1440, height: 900 }, deviceScaleFactor: 2 });
  const shoot = async (name) => {
    // What moves has come to rest, except what never does, and every letter has its face.
    await page.evaluate(() => {
      const ends = document.getAnimations().filter((one) => Number.isFinite(one.effect.getComputedTiming().endTime));
      return Promise.all([document.fonts.ready, ...ends.map((one) => one.finished)]);
    });
    await page.screenshot({ path: join(directory, `${name}.png`) });
  };
  await page.getByRole("textbox", { name: "Prompt", exact: true }).waitFor();
  await shoot("empty-matins");
  await page.getByRole("textbox", { name: "Prompt", exact: true }).fill("Sort 200,000 numbers as numbers and as text. Compare, with figures.");
  await page.keyboard.press("Enter");
  const writer = page.getByRole("dialog", { name: /^Writer/ });
  await writer.getByRole("textbox", { name: "Document", exact: true }).filter({ hasText: "out of order" }).waitFor();
  await writer.getByText("Conductor").waitFor();
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("menuitem", { name: /^Terminal/ }).click();
  await page.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type("wc -l sorting/*; head -n 3 sorting/text.txt\n");
  await page.getByRole("dialog", { name: /^Terminal/ }).getByText("400000 total").or(page.getByText("600000 total")).first().waitFor();
  await shoot("writer-matins");
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot("writer-vespers");
} finally {
  await world.destroy();
}
