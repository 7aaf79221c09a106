// The page and the server apart: a server that goes away, a browser that forgets everything, and a slow line.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, open, prompt, saving, text, window } from "./speech.mjs";

const connection = (page) => page.getByRole("status", { name: "Connection" });

journey("a server that goes away is counted down for, asked again and caught up with", { scenario: "document.json" }, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  await connection(page).filter({ hasText: "Live" }).waitFor();
  const other = await world.join(page);
  await connection(other).filter({ hasText: "Live" }).waitFor();
  await choose(page, "Settings");
  const settings = window(page, "Settings");
  await settings.getByRole("button", { name: "Minimise" }).click();
  await settings.waitFor({ state: "hidden" });
  await choose(page, "Files");
  await window(other, "Files").waitFor();

  // Whatever was on its way ends somehow.
  world.forgive(/ERR_CONNECTION_(REFUSED|RESET|CLOSED)|ERR_EMPTY_RESPONSE|WebSocket connection/);
  await choir.kill();
  for (const each of [page, other]) await connection(each).filter({ hasText: /Away, next try in \d+ s/ }).waitFor();
  await world.assertAccessible(page);

  // Windows can be looked at all the same.
  await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: /^Settings/ }).click();
  await settings.getByRole("heading", { name: "Limits" }).click();
  assert.equal(await page.getByRole("alert").filter({ hasText: "Whether it was done is not known." }).count(), 0);

  // What is sent meanwhile is not lost, and that is said.
  await ask(page, "What is six times seven? Ask the shell and write it down.");
  await page.getByRole("alert").filter({ hasText: "Your words are still in the prompt bar." }).waitFor();
  assert.match(await prompt(page).inputValue(), /^What is six times seven/);
  await connection(page).filter({ hasText: /next try in [2-9] s/ }).waitFor();
  // Whoever is in a hurry asks now; the page says so, and goes on to count when nobody answers.
  const asked = page.waitForRequest(/\/api\/desktop$/);
  await connection(page).getByRole("button", { name: "Try now" }).click();
  await asked;

  await world.start();
  await connection(page).filter({ hasText: "Live" }).waitFor();
  await page.getByRole("status").getByText(/^Connected again/).waitFor();
  await window(page, "Files").waitFor();
  await prompt(page).press("Enter");
  await text(window(page, "Writer")).filter({ hasText: "The answer is 42." }).waitFor();
  // The other page comes back by itself, with all that happened.
  await text(window(other, "Writer")).filter({ hasText: "The answer is 42." }).waitFor();
  await connection(other).filter({ hasText: "Live" }).waitFor();
});

journey("a server that stands still is noticed, and words that it had taken are not sent twice", { scenario: "document.json" }, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  await connection(page).filter({ hasText: "Live" }).waitFor();
  await prompt(page).fill("A draft.");
  await page.reload();
  await prompt(page).waitFor();
  assert.equal(await prompt(page).inputValue(), "A draft.");
  await connection(page).filter({ hasText: "Live" }).waitFor();

  world.forgive(/ERR_|WebSocket connection|signal timed out/);
  choir.stall();
  await ask(page, "What is six times seven? Ask the shell and write it down.");
  await page.getByRole("status").getByText(/^Sending “What is six/).waitFor();
  await connection(page).filter({ hasText: "Away" }).waitFor();
  choir.goOn();
  await connection(page).filter({ hasText: "Live" }).waitFor();
  await text(window(page, "Writer")).filter({ hasText: "The answer is 42." }).waitFor();
  assert.equal(await prompt(page).inputValue(), "");

  // An answer that is lost leaves it open whether the words were taken; the log says it.
  let lost;
  await page.route(/\/api\/runs$/, (route) => {
    if (route.request().method() !== "POST") return route.continue();
    lost = route.request().postDataJSON();
    return route.abort();
  });
  await ask(page, "What is six times seven, again?");
  const alert = page.getByRole("alert").filter({ hasText: "Whether it has them already is not known yet." });
  await alert.waitFor();
  assert.equal(await prompt(page).inputValue(), "What is six times seven, again?");
  await page.unroute(/\/api\/runs$/);
  await call(page, "POST", "/api/runs", lost);
  await page.getByRole("status").getByText("“What is six times seven, again?” had been taken.").waitFor();
  assert.equal(await prompt(page).inputValue(), "");
  await alert.waitFor({ state: "detached" });
});

journey("a browser that forgets everything loses nothing", {}, async (world) => {
  const choir = await world.start();
  // Where a window lies is looked at, and not how it comes there.
  const page = await world.signIn({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce" });
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Kept", content: "# Kept\n\nWords.\n" });
  const writer = await open(page, "Kept");
  await text(writer).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("More words.");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  await choose(page, "Settings");
  await window(page, "Settings").getByRole("radio", { name: "Vespers" }).click();
  await page.waitForFunction(() => document.documentElement.dataset.theme === "vespers");
  const { windows } = await call(page, "GET", "/api/desktop");
  await call(page, "POST", "/api/desktop", { command: "move", window_id: windows.find(({ subject }) => subject?.document).window_id, rect: { x: 123, y: 45, width: 700, height: 500 } });

  await page.context().clearCookies();
  await page.evaluate(() => {
    localStorage.clear();
    sessionStorage.clear();
  });
  world.expect(/401/);
  // The door has no picture of its own.
  world.forgive(/favicon/);
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await world.assertAccessible(page);
  await choir.stop();
  const again = await world.start();
  await page.goto(again.url);
  await text(window(page, "Writer — Kept")).filter({ hasText: "More words." }).waitFor();
  await window(page, "Settings").getByRole("radio", { name: "Vespers", checked: true }).waitFor();
  await page.waitForFunction(() => document.documentElement.dataset.theme === "vespers");
  const { x, y } = await window(page, "Writer — Kept").boundingBox();
  assert.deepEqual([x, y], [123, 45]);
});

journey("on a slow line the page says that it opens, and then is as good as on a quick one", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.setCacheDisabled", { cacheDisabled: true });
  // Four hundred kilobits a second, and four tenths of a second there and back.
  await client.send("Network.emulateNetworkConditions", { offline: false, latency: 400, downloadThroughput: 150_000, uploadThroughput: 50_000 });
  const reloading = page.reload({ waitUntil: "commit" });
  await page.getByRole("status").getByText("Opening the desktop …").waitFor();
  await reloading;
  await prompt(page).waitFor();
  await connection(page).filter({ hasText: "Live" }).waitFor();
  await page.getByText("Opening the desktop …").waitFor({ state: "hidden" });
  await choose(page, "New document");
  const writer = window(page, "Writer");
  await text(writer).click();
  await page.keyboard.type("Slow, and whole.");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
});
