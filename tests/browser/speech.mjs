// How journeys speak of the desktop: by role and name, as people and screen readers do.

import { readFile } from "node:fs/promises";

export const prompt = (page) => page.getByRole("textbox", { name: "Prompt", exact: true });
export const menu = (page) => page.getByRole("button", { name: "Menu", exact: true });
export const window = (page, app) => page.getByRole("dialog", { name: new RegExp(`^${app}`) });
export const text = (writer) => writer.getByRole("textbox", { name: "Document", exact: true });
export const saving = (writer) => writer.getByRole("status", { name: "Saving" });

/// Opens something by the menu.
export async function choose(page, name) {
  await menu(page).click();
  await page.getByRole("menu").getByRole("menuitem", { name: new RegExp(`^${name}`) }).click();
}

/// Types a prompt and sends it.
export async function ask(page, words) {
  await prompt(page).fill(words);
  await prompt(page).press("Enter");
}

/// A request of the signed-in page itself.
export function call(page, method, path, body, type = "application/json") {
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  return page.evaluate(
    async ({ method, path, sent, type }) => {
      const answer = await fetch(path, { method, body: sent, headers: sent === undefined ? {} : { "content-type": type } });
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      const words = await answer.text();
      return words ? JSON.parse(words) : undefined;
    },
    { method, path, sent, type },
  );
}

/// How long something may take to become so, on a machine that is busy compiling.
const BECOMES_MS = 30_000;

/// Waits until the page finds out that something is so, and has to ask somebody for it. The driver's own `waitForFunction` takes
/// a promise for a yes, whatever becomes of it.
export async function until(page, find, argument) {
  const late = AbortSignal.timeout(BECOMES_MS);
  while (!(await page.evaluate(find, argument))) {
    if (late.aborted) throw new Error(`it did not become so within ${BECOMES_MS} ms: ${find}`);
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(drawn)));
  }
}

/// Brings in the sources that `studio.json` quotes, and starts the comparison that stands on them.
export async function compare(page) {
  const context = [];
  for (const name of ["heron", "wren"]) {
    const source = await readFile(new URL(`scenarios/sources/${name}.md`, import.meta.url), "utf8");
    const { artifact_id } = await call(page, "POST", "/api/artifacts", source, "text/markdown");
    context.push({ artifact_id });
  }
  await call(page, "POST", "/api/runs", { prompt: "Compare Heron and Wren: which queue should we take? Quote the sources.", context });
}

/// Opens a document from the Library.
export async function open(page, title) {
  await choose(page, "Writer");
  const library = page.getByRole("dialog", { name: "Writer", exact: true });
  await library.getByRole("region", { name: "Documents" }).getByRole("button", { name: new RegExp(title) }).first().click();
  const writer = page.getByRole("dialog", { name: new RegExp(`^Writer — ${title}`) });
  await text(writer).waitFor();
  return writer;
}

/// Waits until what moves has come to rest, except what never does, and every letter has its face.
export async function rest(page) {
  await page.evaluate(() => {
    const ends = document.getAnimations().filter((one) => Number.isFinite(one.effect.getComputedTiming().endTime));
    // What leaves the page while it moves ends by being given up.
    return Promise.allSettled([document.fonts.ready, ...ends.map((one) => one.finished)]).then(() => {});
  });
}
