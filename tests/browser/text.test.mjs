// A text as a reader and a writer have it: what is in it, how long it is, what changed, and that nobody moves it under
// their eyes.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { journey } from "./harness.mjs";
import { call, choose, open, prompt, saving, text, until } from "./speech.mjs";

/// One dot.
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const FRUIT = "# Fruit\n\nPears and plums ripen in autumn.\n\n| fruit | price |\n|---|---|\n| pears | **3** |\n\n## Plums\n\nBlue ones.\n";
/// With the empty ones between them, more lines than a preview shows.
const PAPER_LINES = 2_600;
const LINES = 200;

journey("tables and pictures are shown, the outline leads, words are counted, and the text goes on paper and into a file", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Fruit", content: FRUIT });
  const writer = await open(page, "Fruit");
  await writer.getByRole("cell", { name: "3", exact: true }).getByRole("strong").waitFor();
  await saving(writer).filter({ hasText: "14 words" }).waitFor();

  // A picture is pasted, kept in the workspace and shown.
  await text(writer).getByText("Blue ones.").click();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await text(writer).evaluate(paste, { picture: PICTURE, name: "image.png" });
  await text(writer).getByText(/!\[image\]\(uploads\/image-\w+\.png\)/).waitFor();
  await page.keyboard.press("ArrowUp");
  const picture = writer.getByRole("img", { name: "image" });
  await picture.waitFor();
  await picture.evaluate((image) => image.decode());
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  const { files } = await call(page, "GET", "/api/files/list?path=uploads");
  assert.equal(files.length, 1);
  await world.assertAccessible(page);

  await writer.getByText("Outline", { exact: true }).click();
  await writer.getByRole("button", { name: "Plums", exact: true }).click();
  await text(writer).and(page.locator(":focus")).waitFor();
  await page.keyboard.press("End");
  await page.keyboard.type(" of all kinds");
  await text(writer).getByText("## Plums of all kinds").waitFor();
  await writer.getByRole("button", { name: "Plums of all kinds", exact: true }).waitFor();

  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  const save = async (name, file) => {
    const downloading = page.waitForEvent("download");
    await writer.getByRole("button", { name }).click();
    const download = await downloading;
    assert.equal(download.suggestedFilename(), file);
    return readFile(await download.path(), "utf8");
  };
  const saved = await save("Save as Markdown", "Fruit.md");
  assert.match(await save("Save as a web page", "Fruit.html"), /<h1[^>]*>Fruit<\/h1>/);
  assert.match(saved, /^# Fruit\n[\s\S]*\| pears \| \*\*3\*\* \|[\s\S]*## Plums of all kinds\n/);

  // On paper is the text alone, drawn whole.
  await page.evaluate(() => (globalThis.print = () => (globalThis.printed = true)));
  await writer.getByRole("button", { name: "Print" }).click();
  await page.waitForFunction(() => globalThis.printed);
  await page.emulateMedia({ media: "print" });
  assert.equal(await prompt(page).isVisible(), false);
  assert.equal(await text(writer).isVisible(), false);
  const paper = page.getByRole("dialog", { name: /^Writer/, includeHidden: true });
  for (const words of ["Fruit", "Pears and plums ripen in autumn.", "Plums of all kinds"]) {
    await paper.getByText(words, { exact: true }).filter({ visible: true }).first().waitFor();
  }
  await paper.getByRole("cell", { name: "pears", includeHidden: true }).filter({ visible: true }).waitFor();
});

journey("tasks in a text are ticked by hand and by keys, and the text says so", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Picnic", content: "# Picnic\n\n- [ ] Buy pears\n- [x] Ask *everybody*\n- a plain point\n\n**Bread** and\n***butter***\n> said Ann\n\nThe end\n" });
  const writer = await open(page, "Picnic");
  const box = (name) => text(writer).getByRole("checkbox", { name });
  assert.equal(await box("Ask").isChecked(), true);
  await box("Buy pears").check();
  await box("Ask").focus();
  await page.keyboard.press("Space");
  assert.equal(await box("Ask").isChecked(), false);
  await world.assertAccessible(page);
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  await until(page, async (id) => (await (await fetch(`/api/documents/${id}`)).json()).content.includes("- [x] Buy pears\n- [ ] Ask *everybody*\n- a plain"), document_id);
  // Whoever goes there with the caret writes the marks themselves, and the keys pass no line by.
  await text(writer).getByText("The end").click();
  await page.keyboard.press("Home");
  for (const line of ["", "> said Ann", "***butter***", "**Bread** and", "", "- a plain point", "- [ ] Ask *everybody*", "- [x] Buy pears"]) {
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Home");
    await until(page, (expected) => {
      const { anchorNode } = getSelection();
      const within = anchorNode.nodeType === Node.TEXT_NODE ? anchorNode.parentElement : anchorNode;
      return within.closest(".cm-line")?.textContent === expected;
    }, line);
  }
});

journey("a link opens by keys and by a finger, and only where it leads to a web page", {}, async (world) => {
  await world.start();
  const page = await world.signIn({ hasTouch: true });
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Links", content: "# Links\n\nSee [the web](https://choir.invalid/).\n\n[A trick](javascript:alert(1))\n" });
  const writer = await open(page, "Links");
  await page.evaluate(() => {
    globalThis.opened = [];
    globalThis.open = (address) => void globalThis.opened.push(address);
  });
  await text(writer).getByText("the web").click();
  await page.keyboard.press("Control+Enter");
  await text(writer).getByText("Links").click();
  await text(writer).getByText("the web").tap();
  await text(writer).getByText("A trick").tap();
  assert.deepEqual(await page.evaluate(() => globalThis.opened), ["https://choir.invalid/", "https://choir.invalid/"]);
  assert.equal((await call(page, "GET", "/api/documents")).documents[0].version, 1, "nothing was written");
});

journey("a picture that takes its time stands where it was put, and leaves whoever goes on writing elsewhere alone", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  await call(page, "POST", "/api/documents", { title: "Fruit", content: FRUIT });
  const writer = await open(page, "Fruit");
  await saving(writer).filter({ hasText: "14 words" }).waitFor();
  let pass;
  const held = new Promise((done) => (pass = done));
  await page.route(/\/api\/files\?path=uploads/, async (route) => {
    await held;
    await route.continue();
  });
  await text(writer).getByText("Blue ones.").click();
  await page.keyboard.press("End");
  await text(writer).evaluate(paste, { picture: PICTURE, name: "late.png" });
  await page.getByRole("status").getByText("“late.png” is on its way.").waitFor();
  await text(writer).getByText("Pears and plums ripen").click();
  await page.keyboard.press("End");
  await page.keyboard.type(" Often");
  pass();
  await writer.getByRole("img", { name: "late" }).waitFor();
  await page.keyboard.type(" late.");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  const { documents } = await call(page, "GET", "/api/documents");
  const { content } = await call(page, "GET", `/api/documents/${documents[0].document_id}`);
  assert.match(content, /ripen in autumn\. Often late\.\n[\s\S]*Blue ones\.!\[late\]\(uploads\/late-\w+\.png\)\n/);
});

journey("on paper a document is whole, light and has its pictures, whatever the screen is, by Ctrl+P and by the menu", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  // A red square.
  await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 40 });
    const context = canvas.getContext("2d");
    context.fillStyle = "red";
    context.fillRect(0, 0, 40, 40);
    const picture = await new Promise((made) => canvas.toBlob(made));
    await fetch("/api/files?path=red.png", { method: "PUT", body: picture, headers: { "content-type": "application/octet-stream" } });
  });
  const lines = Array.from({ length: PAPER_LINES }, (_, index) => `Line ${index}.\n`);
  const content = `# Report\n\nBefore ![A red square](red.png) after.\n\n\`\`\`\ncode\n\`\`\`\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n${lines.join("\n")}`;
  await call(page, "POST", "/api/documents", { title: "Report", content });
  await choose(page, "Vespers");
  const writer = await open(page, "Report");
  const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  assert.equal(await scheme(), "dark");
  const paper = page.getByRole("dialog", { name: /^Writer/, includeHidden: true });
  const last = paper.getByText(`Line ${PAPER_LINES - 1}.`, { exact: true }).filter({ visible: true });
  await text(writer).getByText("quoted").waitFor();
  for (const ask of [() => choose(page, "Print"), () => text(writer).press("Control+p")]) {
    // The dialog of a browser without a screen is nobody's; all that comes before it is real.
    await page.evaluate(() => (globalThis.print = () => (globalThis.printed = true)));
    await ask();
    await page.waitForFunction(() => globalThis.printed);
    await page.emulateMedia({ media: "print" });
    assert.equal(await scheme(), "light");
    await last.waitFor();
    const picture = paper.getByRole("img", { name: "A red square", includeHidden: true }).filter({ visible: true });
    assert.ok(await picture.evaluate((image) => image.complete && image.naturalWidth === 40), "the picture is not drawn");
    const dark = await last.evaluate((element) => {
      const bright = (colour) => {
        const [red, green, blue, opacity = 1] = colour.match(/[\d.]+/g).map(Number);
        return opacity === 0 ? 255 : (red + green + blue) / 3;
      };
      // One of each kind: there are thousands of paragraphs.
      const drawn = [...element.closest("[aria-hidden=true]").querySelectorAll("*")];
      const kinds = new Map(drawn.map((one) => [one.tagName, one]));
      return [document.documentElement, document.body, ...kinds.values()].filter((one) => bright(getComputedStyle(one).backgroundColor) < 200 || bright(getComputedStyle(one).color) > 120).map(({ tagName }) => tagName);
    });
    assert.deepEqual(dark, [], "dark on paper");
    const pdf = (await page.pdf({ printBackground: true })).toString("latin1");
    const pages = pdf.match(/\/Type\s*\/Page\b/g)?.length ?? 0;
    assert.ok(pages >= PAPER_LINES / 60, `only ${pages} pages`);
    assert.match(pdf, /\/Subtype\s*\/Image/);
    await page.emulateMedia({ media: null });
    await page.evaluate(() => {
      globalThis.printed = false;
      dispatchEvent(new Event("afterprint"));
    });
  }
});

journey("what changed while nobody looked is shown, and the line that is read stays where it is while others write", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const lines = Array.from({ length: LINES }, (_, index) => `Line ${index} of a long text that somebody reads slowly.\n`);
  const { document_id } = await call(page, "POST", "/api/documents", { title: "Long", content: `# Long\n\n${lines.join("\n")}` });
  const path = `/api/documents/${document_id}`;
  const write = async (change) => {
    const { version, content } = await call(page, "GET", path);
    return call(page, "PUT", path, { base_version: version, content: change(content) });
  };
  let writer = await open(page, "Long");
  await saving(writer).filter({ hasText: "Saved" }).waitFor();
  assert.equal(await writer.getByText("Changed since you looked.").count(), 0);
  await writer.getByRole("button", { name: "Close", exact: true }).click();
  await writer.waitFor({ state: "detached" });
  await write((content) => content.replace("Line 3 of", "The third line of"));
  writer = await open(page, "Long");
  await writer.getByText("Changed since you looked.").waitFor();
  await writer.getByRole("button", { name: "Show what" }).click();
  await writer.getByRole("status").filter({ hasText: "with what changed since version" }).waitFor();
  await writer.getByRole("insertion").filter({ hasText: "third" }).first().waitFor();
  await writer.getByRole("button", { name: "Back to now" }).click();

  // A window that is put down is not looked at either.
  await writer.getByRole("button", { name: "Minimise" }).click();
  await writer.waitFor({ state: "hidden" });
  await write((content) => content.replace("Line 5 of", "The fifth line of"));
  await page.getByRole("navigation", { name: "Taskbar" }).getByRole("button", { name: /^Writer/ }).click();
  await writer.getByText("Changed since you looked.").waitFor();
  await writer.getByRole("button", { name: "Show what" }).click();
  await writer.getByRole("insertion").filter({ hasText: "fifth" }).first().waitFor();
  await writer.getByRole("button", { name: "Back to now" }).click();

  // Somebody reads in the middle, and others write above.
  await text(writer).hover();
  const read = text(writer).getByText("Line 60 of");
  await page.evaluate(() => {
    globalThis.turned = 0;
    addEventListener("wheel", () => globalThis.turned++, { capture: true, passive: true });
  });
  let turns = 0;
  for (; turns < 60 && !(await read.isVisible()); turns++) await page.mouse.wheel(0, 300);
  // The last turn may still be on its way: who scrolls while others write is not somebody who reads.
  await page.waitForFunction((turns) => globalThis.turned >= turns, turns);
  const top = () => firstVisible(text(writer));
  const before = await settled(page, top);
  await write((content) => content.replace("# Long\n", `# Long\n\n${"An agent writes this above, and it is long enough for two lines of the page, or even three.\n\n".repeat(12)}`));
  await saving(writer).filter({ hasText: `${await words(page, path)} words` }).waitFor();
  stayed(await settled(page, top), before);
  await write((content) => content.replace(/An agent writes this above[^\n]*\n\n/g, ""));
  await saving(writer).filter({ hasText: `${await words(page, path)} words` }).waitFor();
  stayed(await settled(page, top), before);
});

journey("long words and wide tables leave the text on its paper, and a line begins where its script begins", {}, async (world) => {
  await world.start();
  const page = await world.signIn();
  await prompt(page).waitFor();
  const word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft";
  const content = `# ${word}\n\n${`${word} `.repeat(4)}\n\n| ${word} | ${word} |\n|---|---|\n| 1 | 2 |\n\nשלום עולם, this is a line.\n\nPlain.\n`;
  await call(page, "POST", "/api/documents", { title: word, content });
  const writer = await open(page, "Donau");
  await writer.getByRole("cell", { name: "1", exact: true }).waitFor();
  const over = await text(writer).evaluate((content) => content.parentElement.scrollWidth - content.parentElement.clientWidth);
  assert.equal(over, 0, `the text is ${over} px wider than its paper`);
  const direction = (words) => text(writer).getByText(words).evaluate((line) => getComputedStyle(line).direction);
  assert.deepEqual([await direction("שלום"), await direction("Plain.")], ["rtl", "ltr"]);

  // What is selected is drawn between the edges of the text, not over the margin of the paper.
  await text(writer).getByText("Plain.").click();
  await page.keyboard.press("Control+a");
  await writer.locator(".cm-selectionBackground").first().waitFor();
  const inset = await text(writer).evaluate((content) => {
    const pieces = [...content.closest(".cm-editor").querySelectorAll(".cm-selectionBackground")];
    const left = Math.min(...pieces.map((piece) => piece.getBoundingClientRect().left));
    return left - content.getBoundingClientRect().left;
  });
  assert.ok(inset >= 16, `the selection begins ${inset} px from the edge`);
});

/// The same line at the same height; heights are rounded to whole pixels on the way.
function stayed(now, before) {
  assert.equal(now.line, before.line);
  assert.ok(Math.abs(now.at - before.at) <= 1, `the line went from ${before.at} to ${now.at} px`);
}

/// Words as people count them.
async function words(page, path) {
  const { content } = await call(page, "GET", path);
  return content.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/// The first line that is seen, and where it is.
function firstVisible(editor) {
  return editor.evaluate((content) => {
    const edge = content.parentElement.getBoundingClientRect().top;
    const line = [...content.children].find((line) => line.getBoundingClientRect().top >= edge && line.textContent);
    return { line: line.textContent, at: Math.round(line.getBoundingClientRect().top - edge) };
  });
}

/// What it is when two frames in a row agree.
async function settled(page, look) {
  let [last, now] = [undefined, await look()];
  while (JSON.stringify(last) !== JSON.stringify(now)) {
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    [last, now] = [now, await look()];
  }
  return now;
}

function paste(element, { picture, name }) {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], name, { type: "image/png" }));
  element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}
