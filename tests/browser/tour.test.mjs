// The tour, as somebody without a model sees it: recorded answers, real tools, and a plug that is pulled for real.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { call, prompt, text, window } from "./speech.mjs";

const offers = (page) => page.getByRole("region", { name: "Tour", exact: true });
const card = (page) => page.getByRole("article", { name: "Tour", exact: true });

/// Begins a part of the tour from the empty desktop.
async function begin(world, title) {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await offers(page).getByText("recorded model, real tools").waitFor();
  await offers(page).getByRole("button", { name: new RegExp(title) }).click();
  await card(page).waitFor();
  return page;
}

journey("a liar is caught, the plug is pulled, and the run goes on to its end", {}, async (world) => {
  const page = await begin(world, "The liar is caught");
  const seen = (words) => card(page).getByRole("listitem").filter({ hasText: words }).getByLabel("seen");
  await seen("says no").waitFor();
  const before = await processes(page);
  await card(page).getByRole("button", { name: "Pull the plug" }).click();
  await card(page).getByText(/stood again after \d+ ms, and the run went on/).waitFor();
  assert.equal(await processes(page), before + 1, "another process stands in its place");
  await seen("verified").waitFor();
  await card(page).getByLabel("verified", { exact: true }).first().waitFor();
  await world.assertAccessible(page);

  // Who passed the check is marked so; who was not checked is not.
  const writer = window(page, "Writer");
  await writer.getByText(/^\d agents$/).click();
  const plan = writer.getByRole("list", { name: "Plan" });
  assert.equal(await plan.getByRole("img", { name: "verified", exact: true }).count(), 1);
  await plan.getByRole("img", { name: "done, unverified", exact: true }).first().waitFor();
  await writer.getByRole("button", { name: "Changes" }).click();
  await writer.getByRole("button", { name: "Undo this run" }).click();
  await writer.getByRole("button", { name: "Bring it back" }).click();
  await writer.getByRole("button", { name: "Undo this run" }).waitFor();
  await card(page).getByRole("button", { name: "Dismiss" }).click();
  await card(page).waitFor({ state: "detached" });
});

journey("quotations hold, and the doctored one is flagged in the margin", {}, async (world) => {
  const page = await begin(world, "Quotes that hold");
  const writer = window(page, "Writer");
  await text(writer).filter({ hasText: "Heron or Wren" }).waitFor();
  await writer.getByText("Heron never drops a message").first().waitFor();
  await writer.getByRole("region", { name: "Sources" }).getByText(/No source: “Heron never drops/).first().waitFor();
});

journey("a figure says that it is stale when its table changes, and is made again", {}, async (world) => {
  const page = await begin(world, "Numbers that stay alive");
  const writer = window(page, "Writer");
  await text(writer).filter({ hasText: "pears   ###" }).waitFor();
  await writer.getByRole("article", { name: "Figure, up to date" }).waitFor();
  await card(page).getByRole("button", { name: "Edit a row of the table" }).click();
  const stale = writer.getByRole("article", { name: "Figure, stale" });
  await stale.getByText("projects/tour/prices.csv has changed").waitFor();
  await world.assertAccessible(page);
  await stale.getByRole("button", { name: "Run it again" }).click();
  await writer.getByRole("article", { name: "Figure, up to date" }).waitFor();
  await text(writer).filter({ hasText: "pears   #########" }).waitFor();
});

/// How often the computer was started, by the log.
async function processes(page) {
  const { events } = await call(page, "GET", "/api/events?kind=computer.started");
  return events.length;
}
