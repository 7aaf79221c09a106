// The keyboard never falls out of the page: when what had the focus goes, the next thing has it.

import { journey } from "./harness.mjs";
import { ask, call, choose, compare, open, prompt, saving, text, window } from "./speech.mjs";

/// Waits until something has the focus.
const has = (page, thing) => thing.and(page.locator(":focus")).waitFor();

journey("windows, rows, fields and previews give the focus on", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  for (const name of ["one.txt", "two.txt"]) await call(page, "PUT", `/api/files?path=${name}`, "Words.", "application/octet-stream");
  for (const title of ["Apples", "Pears"]) await call(page, "POST", "/api/documents", { title, content: `# ${title}\n` });
  await choose(page, "Settings");
  await choose(page, "Files");
  const files = window(page, "Files");
  const row = (name) => files.getByRole("button", { name: new RegExp(`^${name}`) });

  await row("two.txt").click();
  await files.getByRole("button", { name: "Close preview" }).click();
  await has(page, row("two.txt"));
  await files.getByRole("button", { name: "Rename two.txt" }).click();
  const field = files.getByRole("textbox", { name: "New name" });
  await field.press("Escape");
  await has(page, row("two.txt"));
  await files.getByRole("button", { name: "Rename two.txt" }).click();
  await field.fill("../two.txt");
  await field.press("Enter");
  await files.getByRole("alert").filter({ hasText: "A name has no “/” in it." }).waitFor();
  await has(page, field);
  await world.assertAccessible(page);
  world.expect(/409/);
  await field.fill("one.txt");
  await field.press("Enter");
  await files.getByRole("alert").filter({ hasText: "There is something of that name already." }).waitFor();
  await field.fill("three.txt");
  await field.press("Enter");
  await has(page, row("three.txt"));
  await files.getByRole("button", { name: "New folder" }).click();
  await files.getByRole("textbox", { name: "Name of the folder" }).press("Escape");
  await has(page, files.getByRole("button", { name: "New folder" }));
  await files.getByRole("button", { name: "Delete one.txt" }).click();
  await has(page, row("three.txt"));

  // What was deleted has its name in the trash, and is brought back from there.
  await row("\\.trash").last().click();
  await files.getByRole("button", { name: "Restore one.txt" }).click();
  await files.getByText("Restore one.txt").waitFor({ state: "detached" });
  await page.getByRole("status").getByText("one.txt is back.").waitFor();

  await choose(page, "Writer");
  const library = window(page, "Writer");
  await library.getByRole("button", { name: "Move Pears to the trash" }).click();
  await has(page, library.getByRole("button", { name: /^Apples/ }));
  await library.getByRole("button", { name: "Undo" }).click();
  await library.getByRole("button", { name: /^Pears/ }).waitFor();

  // The window in front is next, and then the prompt bar.
  await library.getByRole("button", { name: "Close" }).click();
  await has(page, files.getByRole("searchbox"));
  await files.getByRole("button", { name: "Minimise" }).click();
  await has(page, window(page, "Settings").getByLabel("Key", { exact: true }));
  await window(page, "Settings").getByRole("button", { name: "Close" }).click();
  await has(page, prompt(page));
  // Whoever leaves wants to be nowhere.
  await prompt(page).press("Escape");
  await page.locator("body:focus, :root:not(:has(:focus))").first().waitFor();
});

journey("what is decided in a document and in the Inbox gives the focus on", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await compare(page);
  const writer = await open(page, "Heron or Wren");
  await text(writer).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\nWe should probly take Heron.\n");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();

  await page.keyboard.press("Shift+ArrowUp");
  const about = writer.getByRole("button", { name: "Ask", exact: true });
  await about.click();
  await writer.getByRole("textbox", { name: "About the selection" }).press("Escape");
  await has(page, about);

  await ask(page, "Tidy my sentence.");
  const proposal = writer.getByRole("article", { name: "Proposal" });
  await proposal.getByRole("button", { name: "Accept" }).click();
  await proposal.waitFor({ state: "detached" });
  await writer.locator(":focus").waitFor();

  await writer.getByText("Versions", { exact: true }).click();
  const version = writer.getByRole("button", { name: /^1 / });
  await version.press("Enter");
  await writer.getByRole("button", { name: "Back to now" }).click();
  await has(page, text(writer));
  await version.press("Enter");
  await writer.getByRole("button", { name: "Back to now" }).waitFor();
  await page.keyboard.press("Escape");
  await text(writer).waitFor();

  await call(page, "PUT", "/api/settings", { tools: { bash: "ask" } });
  await ask(page, "Ask me about the colour of the bicycle shed.");
  await choose(page, "Inbox");
  const inbox = window(page, "Inbox");
  await inbox.getByRole("article", { name: "Question" }).getByRole("button", { name: "Do not answer" }).click();
  await inbox.getByRole("article", { name: "Approval" }).getByRole("button", { name: "Deny" }).click();
  await inbox.getByText("Nothing waits for you").waitFor();
  await has(page, inbox);
});

journey("a file that is taken back and a card that is dismissed give the focus on", { scenario: "studio.json" }, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "PUT", "/api/files?path=greeting/words.txt", "Hello, world\n", "application/octet-stream");
  await ask(page, "Translate the greeting.");
  const writer = window(page, "Writer");
  await writer.getByRole("button", { name: "Undo", exact: true }).waitFor();
  await writer.getByRole("button", { name: "Changes", exact: true }).click();
  await writer.getByText("2 files changed").waitFor();
  // Who looks at the changes has one undo of the run, and not two beside each other.
  await writer.getByRole("button", { name: "Undo", exact: true }).waitFor({ state: "detached" });
  await writer.getByRole("button", { name: "Undo greeting/words.txt" }).press("Enter");
  await has(page, writer.getByRole("button", { name: "Bring back greeting/words.txt" }));
  await page.keyboard.press("Enter");
  await writer.getByRole("button", { name: "Undo greeting/words.txt" }).waitFor();
  await writer.locator(":focus").waitFor();

  await ask(page, "What day of the week was 29 February 2024, and when is the next such day?");
  const cards = page.getByRole("complementary", { name: "Answers and progress" });
  const dismiss = (words) => cards.getByRole("article").filter({ hasText: words }).getByRole("button", { name: "Dismiss" }).press("Enter");
  await dismiss("Thursday");
  await has(page, cards.getByRole("button", { name: "Translate the greeting." }));
  await dismiss("German");
  await has(page, writer);
});
