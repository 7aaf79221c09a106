// The first minute: an empty desktop, no model yet, and the buttons that mend it.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { journey } from "./harness.mjs";
import { choose, prompt, until, window } from "./speech.mjs";

/// Where a model server is looked for on this machine.
const USUAL_PORT = 11434;

journey("an example is a click away, a server on this machine is found and used, and a key is pasted and tried", {}, async (world) => {
  const models = await provider(USUAL_PORT, () => true);
  const strict = await provider(0, (key) => key === "Bearer right-key");
  try {
    await world.start();
    const page = await world.signIn();
    await page.getByText("No model yet").waitFor();
    await world.assertAccessible(page);
    await page.getByRole("button", { name: /^A short answer/ }).click();
    await prompt(page).and(page.locator(":focus")).waitFor();
    assert.match(await prompt(page).inputValue(), /29 February 2024/);

    // A key is pasted: where it goes is open and has the focus.
    await page.getByRole("button", { name: "Add a key" }).click();
    const settings = window(page, "Settings");
    const key = settings.getByRole("textbox", { name: "Key", exact: true });
    await key.and(page.locator(":focus")).waitFor();
    await settings.getByRole("combobox", { name: "Speaks" }).selectOption("openai");
    assert.equal(await settings.getByRole("textbox", { name: "Name" }).inputValue(), "openai");
    await settings.getByRole("textbox", { name: "Name" }).fill("mine");
    await settings.getByRole("textbox", { name: "Address" }).fill(`http://127.0.0.1:${strict.port}/v1`);
    await key.fill("wrong-key");
    await settings.getByRole("button", { name: "Keep provider" }).click();
    await page.getByRole("status").getByText("mine is kept.").waitFor();

    // Both outcomes in plain words, and no key in either.
    const tested = settings.getByRole("status");
    await settings.getByRole("button", { name: "Test", exact: true }).click();
    await tested.getByText(/refused the key|does not accept|not accepted/i).waitFor();
    await settings.getByRole("textbox", { name: "Key for mine" }).fill("right-key");
    await settings.getByRole("button", { name: "Keep", exact: true }).click();
    await settings.getByRole("textbox", { name: "Key for mine" }).and(page.getByPlaceholder("Replace the key")).waitFor();
    await settings.getByRole("button", { name: "Test", exact: true }).click();
    await tested.getByText(/It offers 1 model/).waitFor();
    assert.doesNotMatch(await page.content(), /right-key|wrong-key/);
    await world.assertAccessible(page);
  } finally {
    models.close();
    strict.close();
  }
});

journey("a sandbox that cannot be had says what mends it, and is looked at again", {}, async (world) => {
  const choir = await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(choir.url).origin });
  let detail = "no user namespaces; run `sudo sysctl -w kernel.unprivileged_userns_clone=1` and start again";
  await page.route("**/health", async (route) => {
    const answer = await route.fetch();
    const health = await answer.json();
    if (detail) health.components.sandbox = { status: "degraded", detail };
    await route.fulfill({ response: answer, json: health });
  });
  await page.reload();
  await page.getByText("Sandbox degraded: no user namespaces").waitFor();
  await world.assertAccessible(page);
  await page.getByRole("button", { name: "Copy the command" }).click();
  await until(page, async () => (await navigator.clipboard.readText()) === "sudo sysctl -w kernel.unprivileged_userns_clone=1");
  detail = undefined;
  await page.getByRole("button", { name: "Look again" }).click();
  await page.getByText("Sandbox ready").waitFor();
  await page.getByRole("button", { name: "Look again" }).waitFor({ state: "detached" });
});

journey("what answers on this machine is one click from being used", {}, async (world) => {
  const models = await provider(USUAL_PORT, () => true);
  try {
    await world.start();
    const page = await world.signIn();
    await page.getByRole("button", { name: `Use ollama at http://127.0.0.1:${USUAL_PORT}/v1` }).click();
    await page.getByText("No model yet").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Add a key" }).waitFor({ state: "detached" });
    await choose(page, "Settings");
    await window(page, "Settings").getByText("ollama", { exact: true }).waitFor();
  } finally {
    models.close();
  }
});

/// A server that speaks chat completions, to those whose key it likes.
async function provider(port, likes) {
  const server = createServer((request, answer) => {
    const liked = likes(request.headers.authorization);
    answer.writeHead(liked ? 200 : 401, { "content-type": "application/json" });
    answer.end(JSON.stringify(liked ? { object: "list", data: [{ id: "small", object: "model" }] } : { error: { message: "bad key" } }));
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return { port: server.address().port, close: () => server.close() };
}
