// Settings: models for each role, tried before they are kept; limits; the theme. Keys are in the first minute.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { call, choose, prompt, window } from "./speech.mjs";

journey("models are tried and kept for each role, limits are kept and shown, and the theme is for every browser", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn({ viewport: { width: 1440, height: 900 }, colorScheme: "light" });
  await prompt(page).waitFor();
  await page.getByRole("contentinfo").getByText("≤ $5.00").waitFor();
  await choose(page, "Settings");
  const settings = window(page, "Settings");
  const field = (name) => settings.getByRole("combobox", { name, exact: true });
  const said = (name) => settings.getByRole("status", { name, exact: true });
  const told = (words) => page.getByRole("status").getByText(words, { exact: true });

  // What was not tried is not called verified.
  const provider = settings.getByRole("region", { name: "Providers" });
  await provider.getByRole("img", { name: "not tried yet" }).waitFor();
  await provider.getByRole("button", { name: "Test", exact: true }).click();
  await provider.getByRole("img", { name: "answers" }).waitFor();

  await field("For the writer").fill("scripted/other");
  await field("For the terminal").fill("a-word");
  await field("For the researcher").fill("nobody/model");
  // Nobody is called so.
  world.expect(/404 .*\/api\/providers\/nobody\/test|status of 404/);
  await settings.getByRole("button", { name: "Test models" }).click();
  await said("For everything").filter({ hasText: "scripted answers and has it." }).waitFor();
  await said("For the writer").filter({ hasText: "scripted answers and has it." }).waitFor();
  await said("For the terminal").filter({ hasText: "It is written PROVIDER/MODEL." }).waitFor();
  await said("For the researcher").filter({ hasText: /./ }).filter({ hasNotText: /answers|Asking/ }).waitFor();
  await world.assertAccessible(page);
  for (const name of ["For the terminal", "For the researcher"]) await field(name).fill("");
  await settings.getByRole("button", { name: "Keep models" }).click();
  await told("Models are kept.").waitFor();

  await settings.getByRole("spinbutton", { name: "Dollars per run" }).fill("2.50");
  await settings.getByRole("textbox", { name: "Network without asking" }).fill("git");
  await settings.getByRole("button", { name: "Keep limits" }).click();
  await told("Limits are kept.").waitFor();
  await page.getByRole("contentinfo").getByText("≤ $2.50").waitFor();
  const kept = await call(page, "GET", "/api/settings");
  assert.deepEqual([kept.models.roles.writer, kept.budget.usd_per_run, kept.egress.ceiling], ["scripted/other", 2.5, ["git"]]);

  const other = await world.join(page);
  await window(other, "Settings").getByRole("combobox", { name: "For the writer" }).waitFor();
  assert.equal(await window(other, "Settings").getByRole("combobox", { name: "For the writer" }).inputValue(), "scripted/other");
  await settings.getByRole("radio", { name: "Vespers" }).click();
  for (const each of [page, other]) {
    await window(each, "Settings").getByRole("radio", { name: "Vespers", checked: true }).waitFor();
    await each.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(15, 18, 24)");
  }
});
