// A word to somebody who looks elsewhere: asked for, never assumed.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, choose, prompt, window } from "./speech.mjs";

journey("the browser tells what ended, what failed and what needs somebody, to those who asked and look elsewhere", { scenario: "told.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  // What ends before the page has read how things stand is part of that, and nothing to be told.
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "Live" }).waitFor();
  await page.evaluate(listen);
  const told = () => page.evaluate(() => globalThis.told);
  const ends = (prompt) => page.getByRole("status").getByText(new RegExp(`“${prompt}.*” `)).waitFor();

  // Nobody asked for it yet.
  await look(page, "elsewhere");
  await ask(page, "How much is six times seven?");
  await ends("How much is six");
  assert.deepEqual(await told(), []);

  await choose(page, "Settings");
  const settings = window(page, "Settings");
  const allow = settings.getByRole("button", { name: "Allow notifications" });
  await allow.waitFor();
  await page.context().grantPermissions(["notifications"]);
  await allow.click();
  await settings.getByText("This browser tells you when a run ends").waitFor();
  await settings.getByRole("button", { name: "Close", exact: true }).click();

  // Who looks at the page sees it there.
  await look(page, "here");
  await ask(page, "And again, how much is six times seven?");
  await ends("And again");
  assert.deepEqual(await told(), []);

  await look(page, "elsewhere");
  await ask(page, "Once more, how much is six times seven?");
  await ends("Once more");
  await ask(page, "Fly to the moon.");
  await ends("Fly to the moon");
  // The tab says so too, until somebody comes back to it.
  await page.waitForFunction(() => document.title === "Run failed · ChoirOS");
  await page.evaluate(() => globalThis.dispatchEvent(new Event("focus")));
  await page.waitForFunction(() => document.title === "ChoirOS");
  await ask(page, "Which colour shall it be?");
  await page.getByRole("button", { name: "Inbox, 1 waiting" }).waitFor();
  assert.deepEqual(await told(), [
    ["A run is completed, unverified", "Once more, how much is six times seven?"],
    ["A run is failed", "Fly to the moon."],
    ["An agent needs you", "Green or red?"],
  ]);
});

/// Notes what the browser is asked to tell, and still has it told.
function listen() {
  globalThis.told = [];
  globalThis.Notification = new Proxy(globalThis.Notification, {
    construct: (target, [title, options]) => {
      globalThis.told.push([title, options.body]);
      return new target(title, options);
    },
  });
}

/// A browser without a screen always believes that somebody looks at it.
const look = (page, where) => page.evaluate((where) => void (document.hasFocus = () => where === "here"), where);
