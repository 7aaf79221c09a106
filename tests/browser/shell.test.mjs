// The desktop itself: signing in, the menu, the prompt bar, windows, and two people looking at one computer.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";

/// The apps that the menu must open today.
const APPS = ["Writer", "Terminal", "Files", "Search", "Inbox", "Settings"];

const prompt = (page) => page.getByRole("textbox", { name: "Prompt", exact: true });
const menu = (page) => page.getByRole("button", { name: "Menu", exact: true });
const window = (page, app) => page.getByRole("dialog", { name: new RegExp(`^${app}`) });

journey("the sign-in URL works once, and nothing opens without it", {}, async (world) => {
  const choir = await world.start();
  const first = await world.signIn();
  await prompt(first).waitFor();
  const cookies = await first.context().cookies();
  assert.ok(cookies.length > 0 && cookies.every((cookie) => cookie.httpOnly && cookie.sameSite !== "None"));
  await first.reload();
  await prompt(first).waitFor();
  await world.leave(first);

  const answer = await fetch(choir.url, { redirect: "manual" });
  assert.equal(answer.headers.get("set-cookie"), null, "a used sign-in URL must not open another session");
  const origin = new URL(choir.url).origin;
  const runs = await fetch(`${origin}/api/runs`);
  assert.equal(runs.status, 401);
});

journey("the menu opens every app, and the taskbar knows them", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  for (const app of APPS) {
    await menu(page).click();
    await page.getByRole("menu").getByRole("menuitem", { name: new RegExp(`^${app}`) }).click();
    await window(page, app).first().waitFor();
  }
  const taskbar = page.getByRole("navigation", { name: "Taskbar", exact: true });
  for (const app of APPS) await taskbar.getByRole("button", { name: new RegExp(app) }).first().waitFor();
  await world.assertAccessible(page);

  const files = window(page, "Files");
  await files.getByRole("button", { name: "Close", exact: true }).click();
  await files.waitFor({ state: "detached" });
});

journey("the keyboard reaches the prompt bar from anywhere", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const keys of ["Control+k", "?"]) {
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press(keys);
    await prompt(page).and(page.locator(":focus")).waitFor();
    assert.doesNotMatch(await prompt(page).evaluate((bar) => bar.value ?? bar.textContent), /\?|k/, `${keys} must not type`);
  }
});

journey("two browsers show one desktop, live", { scenario: "document.json" }, async (world) => {
  await world.start();
  const one = await world.signIn();
  await prompt(one).waitFor();
  const two = await world.join(one);
  await prompt(two).waitFor();
  await prompt(one).fill("What is six times seven? Ask the shell and write it down.");
  await prompt(one).press("Enter");
  const document = window(two, "Writer").getByRole("textbox", { name: "Document", exact: true });
  await document.filter({ hasText: "The answer is 42." }).waitFor();
});
