// Writing together, with evidence, and without losing a word.

import assert from "node:assert/strict";
import { journey } from "./harness.mjs";
import { ask, call, choose, compare, open, prompt, saving, text, until, window } from "./speech.mjs";

journey("two people write one text, each undoes their own words, and a dead server loses none", {}, async (world) => {
  const choir = await world.start();
  const one = await world.signIn();
  await choose(one, "New document");
  const mine = window(one, "Writer — ");
  await text(mine).click();
  await one.keyboard.type("# Notes\n\nFirst line.");
  await saving(mine).filter({ hasText: "Saved" }).waitFor();

  const two = await world.join(one);
  const theirs = window(two, "Writer — ");
  await text(theirs).filter({ hasText: "First line." }).waitFor();
  await text(theirs).click();
  await two.keyboard.press("Control+End");
  await two.keyboard.type(" Second author.");
  await text(mine).filter({ hasText: "First line. Second author." }).waitFor();
  await text(mine).click();
  await one.keyboard.press("Control+z");
  await text(theirs).filter({ hasText: /^(?!.*First line)/ }).filter({ hasText: "Second author." }).waitFor();
  await one.keyboard.press("Control+y");
  await text(theirs).filter({ hasText: "First line. Second author." }).waitFor();
  await world.leave(two);

  // The plug is pulled; what is typed meanwhile is kept here and sent when the server is back.
  await choir.kill();
  await saving(mine).filter({ hasText: "Kept here" }).waitFor();
  await one.keyboard.press("Control+End");
  await one.keyboard.type(" Typed in the dark.");
  await mine.getByRole("alert").filter({ hasText: "kept in this browser" }).waitFor();
  // It may have died in the middle of an answer, and be back before the page asks again.
  world.forgive(/ERR_CONNECTION_(REFUSED|RESET|CLOSED)|ERR_EMPTY_RESPONSE|WebSocket connection/);
  await world.start();
  await saving(mine).filter({ hasText: "Saved" }).waitFor();
  const { documents } = await call(one, "GET", "/api/documents");
  const { content } = await call(one, "GET", `/api/documents/${documents[0].document_id}`);
  assert.match(content, /First line\. Second author\. Typed in the dark\.$/);
});

journey("a document shows what it stands on, and a person's words change only by their own word", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await compare(page);
  const writer = await open(page, "Heron or Wren");
  await text(writer).filter({ hasText: "What was checked" }).waitFor();

  // A citation opens its source at the words; a quotation without a source is named.
  const sources = writer.getByRole("region", { name: "Sources" });
  await sources.getByRole("button", { name: /Wren has never lost a message/ }).waitFor();
  await sources.getByRole("button", { name: /Source of “Batches of sixty-four/ }).click();
  const source = writer.getByLabel("Source", { exact: true });
  assert.equal(await source.getByRole("mark").textContent(), "Batches of sixty-four are forty times faster.");
  // It lies below the text, by its own name, and the words that cite it stay in sight.
  const card = writer.getByRole("article", { name: "Heron 3.1: a queue for one machine" });
  const words = await text(writer).getByText("Batches of sixty-four").last().elementHandle();
  await until(page, ([words, card]) => words.getBoundingClientRect().bottom <= card.getBoundingClientRect().top, [words, await card.elementHandle()]);
  await world.assertAccessible(page);
  await card.getByRole("button", { name: "Put the source away" }).click();
  await card.waitFor({ state: "detached" });
  await text(writer).getByText("Batches of sixty-four").last().click();
  await card.waitFor();
  await sources.getByRole("button", { name: /Source of “Batches of sixty-four/, pressed: true }).click();
  await card.waitFor({ state: "detached" });

  // Where a selection comes from: the agent, and the person's words that began it.
  await text(writer).getByText("## One machine").click({ clickCount: 3 });
  const selection = writer.getByRole("region", { name: "Selection" });
  await selection.getByRole("button", { name: "Where from?" }).click();
  const origins = selection.getByRole("list", { name: "Where the selection comes from" });
  await origins.getByRole("listitem").filter({ hasText: "writer" }).filter({ hasText: "Compare Heron and Wren" }).waitFor();

  // A person's own sentence changes only when they accept it.
  await text(writer).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\nWe should probly take Heron.\n");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  await ask(page, "Tidy my sentence.");
  const proposal = writer.getByRole("article", { name: "Proposal" });
  await proposal.filter({ hasText: "probly" }).waitFor();
  await text(writer).filter({ hasText: "probly" }).waitFor();
  await proposal.getByRole("button", { name: "Accept" }).click();
  await text(writer).filter({ hasText: "We should take Heron." }).waitFor();
  await proposal.waitFor({ state: "detached" });

  // The past: every version with what it changed, and the way back.
  await writer.getByText("Versions", { exact: true }).click();
  await writer.getByRole("button", { name: /writer/ }).last().click();
  await writer.getByRole("button", { name: "Earlier version" }).click();
  await writer.getByRole("status").filter({ hasText: "Version 1" }).waitFor();
  await writer.getByRole("button", { name: "Back to now" }).click();
  await text(writer).filter({ hasText: "We should take Heron." }).waitFor();

  // Find and replace, by its button.
  await writer.getByRole("button", { name: "Find and replace" }).click();
  await writer.getByRole("textbox", { name: "Find" }).fill("Heron 3.1");
  await writer.getByRole("textbox", { name: "Replace" }).fill("Heron 3.2");
  await writer.getByRole("button", { name: "Replace all" }).click();
  await text(writer).filter({ hasText: "Heron 3.2" }).waitFor();
});

journey("what a run changed lies side by side, and goes back file by file or as a whole", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/files?path=greeting/words.txt", "Hello, world\n", "application/octet-stream");
  await ask(page, "Translate the greeting.");
  const writer = window(page, "Writer");
  const undo = writer.getByRole("button", { name: "Undo", exact: true });
  const read = (path) => page.evaluate(async (path) => (await fetch(`/api/files?path=${path}`)).text(), path);
  await writer.getByRole("button", { name: "Changes", exact: true }).click();
  const words = writer.getByRole("article", { name: "greeting/words.txt" });
  await words.getByText("Hello, world", { exact: true }).waitFor();
  await words.getByText("Hallo, Welt", { exact: true }).waitFor();
  await world.assertAccessible(page);

  await words.getByRole("button", { name: "Undo greeting/words.txt" }).click();
  await words.getByText("taken back").waitFor();
  assert.equal(await read("greeting/words.txt"), "Hello, world\n");
  assert.match(await read("greeting/greet.sh"), /words\.txt/);

  await writer.getByRole("button", { name: "Undo this run" }).click();
  await writer.getByRole("button", { name: "Bring it back" }).waitFor();
  // Asked beside the page, for which this would be an error.
  const gone = await page.request.get(new URL("/api/files?path=greeting/greet.sh", page.url()).href);
  assert.equal(gone.status(), 404);

  // The margin knows that too, and the second click of two was meant for the first.
  await writer.getByRole("button", { name: "Changes", exact: true }).click();
  await writer.getByRole("button", { name: "Bring it back" }).click();
  await undo.waitFor();
  assert.match(await read("greeting/greet.sh"), /words\.txt/);
  await undo.dblclick();
  await writer.getByRole("button", { name: "Bring it back" }).waitFor();
  const again = await page.request.get(new URL("/api/files?path=greeting/greet.sh", page.url()).href);
  assert.equal(again.status(), 404);
});

journey("what is held for review arrives file by file or as a whole, when a person says so", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await choose(page, "Settings");
  const settings = window(page, "Settings");
  await settings.getByRole("checkbox", { name: /^Hold what agents change/ }).check();
  await page.getByRole("status").getByText("Kept.").waitFor();
  await settings.getByRole("button", { name: "Close", exact: true }).click();
  await call(page, "PUT", "/api/files?path=greeting/words.txt", "Hello, world\n", "application/octet-stream");
  await ask(page, "Translate the greeting.");
  const writer = window(page, "Writer");
  // The answer stands where the empty document was.
  await writer.getByText("The greeting is German now.").waitFor();
  await writer.getByRole("button", { name: "Changes", exact: true }).click();
  await writer.getByText("held until you have looked at it").waitFor();
  const read = (path) => page.evaluate(async (path) => (await fetch(`/api/files?path=${path}`)).text(), path);
  assert.equal(await read("greeting/words.txt"), "Hello, world\n");

  await writer.getByRole("button", { name: "Keep greeting/words.txt" }).click();
  await page.getByRole("status").getByText("greeting/words.txt is in the workspace.").waitFor();
  assert.equal(await read("greeting/words.txt"), "Hallo, Welt\n");
  await world.assertAccessible(page);
  await writer.getByRole("button", { name: "Keep all that was held" }).click();
  await writer.getByText("in the workspace", { exact: true }).waitFor();
  assert.match(await read("greeting/greet.sh"), /words\.txt/);
});

journey("the name at another's caret is never cut off by the paper", {}, async (world) => {
  await world.start();
  const one = await world.signIn();
  await prompt(one).waitFor();
  const long = "Words that fill a line of the page and then go on to fill another one of it. ";
  const { document_id } = await call(one, "POST", "/api/documents", { title: "Edges", content: `Edges\n\n${long.repeat(3)}\n` });
  await call(one, "POST", "/api/desktop", { command: "open", app: "writer", subject: { document: document_id } });
  const mine = window(one, "Writer — ");
  await text(mine).filter({ hasText: "Words that fill" }).waitFor();
  const two = await world.join(one);
  const theirs = window(two, "Writer — ");
  await text(theirs).getByText("Words that fill").click();
  const inside = async (keys) => {
    for (const key of keys) await two.keyboard.press(key);
    const name = text(mine).getByText("Somebody else");
    await name.waitFor();
    // The name is drawn anew wherever the caret goes, so it is looked for each time.
    const isInside = (name) => {
      const paper = name.closest(".cm-scroller")?.getBoundingClientRect();
      const { left, right, top } = name.getBoundingClientRect();
      return Boolean(paper) && left >= paper.left && right <= paper.right && top >= paper.top;
    };
    while (!(await name.evaluate(isInside))) await one.evaluate(() => new Promise((drawn) => requestAnimationFrame(drawn)));
  };
  for (const keys of [["Home"], ["End"], ["ArrowUp", "End"], ["Control+Home"]]) await inside(keys);
  assert.equal(await text(mine).evaluate((content) => content.parentElement.scrollWidth > content.parentElement.clientWidth), false);
});
