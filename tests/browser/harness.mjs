// What every journey stands on: the real binary on a fresh data directory, a real Chromium, and no tolerance for
// errors in the page. A journey speaks only through accessible names; this file holds everything else.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { rest } from "./speech.mjs";

/// How long the binary may take until it says that it is ready, on a machine that is busy compiling.
const START_MS = 30_000;
/// How long SIGTERM may take to drain.
const STOP_MS = 15_000;
/// How long a locator waits for what it names.
const LOCATE_MS = 20_000;
/// How long a whole journey may take.
const JOURNEY_MS = 180_000;
/// Lines of the binary's log that a failure shows.
const LOG_LINES = 60;

const BROWSER_FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/// Declares one journey. `scenario` names a file under `scenarios/` that plays the model; without it there is no model.
export function journey(name, { scenario } = {}, walk) {
  test(name, { timeout: JOURNEY_MS }, async (t) => {
    const world = await World.create(scenario);
    try {
      await walk(world, t);
      world.assertNoPageErrors();
      world.assertExpectedErrors();
    } catch (error) {
      await world.describe(t);
      // The journey's own failure is the one to report.
      await world.destroy().catch((second) => t.diagnostic(`then: ${second.message}`));
      throw error;
    }
    await world.destroy();
  });
}

/// One journey's surroundings: a data directory, the binary on it, and the browsers looking at it.
export class World {
  #directory;
  #config;
  #browser;
  #choir;
  #pageErrors = [];
  #expected = [];
  #forgiven = [];

  static async create(scenario) {
    const world = new World();
    world.#directory = await mkdtemp(join(tmpdir(), "choir-journey-"));
    world.#config = join(world.#directory, "choir.toml");
    await writeFile(world.#config, configuration(scenario));
    return world;
  }

  /// Starts the binary on this journey's data and waits until it can serve; at the same address as before, if it was
  /// started before, because a browser may still be looking at it.
  async start() {
    const listen = this.#choir ? new URL(this.#choir.url).host : "127.0.0.1:0";
    this.#choir = await Choir.start(["--listen", listen, "--data", join(this.#directory, "data"), "--config", this.#config]);
    return this.#choir;
  }

  /// Errors that the journey causes, before or after this: that they come is checked too, so that none is expected in vain.
  expect(pattern) {
    this.#expected.push(pattern);
  }

  /// Errors that the journey may cause, or not, by who is quicker.
  forgive(pattern) {
    this.#forgiven.push(pattern);
  }

  /// Opens the sign-in URL of the running binary in a browser that has never been here.
  async signIn(screen) {
    return this.#open(this.#choir.url, [], screen);
  }

  /// A second browser of the same person: the session of the first, and nothing else of it.
  async join(page, screen) {
    const { cookies } = await page.context().storageState();
    return this.#open(new URL(this.#choir.url).origin, cookies, screen);
  }

  async #open(address, cookies = [], screen = { viewport: { width: 1440, height: 900 } }) {
    this.#browser ??= await launch();
    const context = await this.#browser.newContext(screen);
    context.setDefaultTimeout(LOCATE_MS);
    await context.addCookies(cookies);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.#pageErrors.push(`page error: ${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() === "error") this.#pageErrors.push(`console error: ${message.text()} (${message.location().url})`);
    });
    page.on("response", (answer) => {
      if (answer.status() >= 400) this.#pageErrors.push(`refused request: ${answer.status()} ${answer.request().method()} ${answer.url()}`);
    });
    page.on("requestfailed", (request) => {
      // What the page itself gave up, by leaving or by its own word, is no failure.
      const why = request.failure()?.errorText;
      if (why !== "net::ERR_ABORTED") this.#pageErrors.push(`failed request: ${why} ${request.method()} ${request.url()}`);
    });
    await page.goto(address);
    return page;
  }

  /// Closes a page's whole browser session, and judges what it reported so far: a server that goes away afterwards may
  /// cause errors that belong to nobody.
  async leave(page) {
    this.assertNoPageErrors();
    await page.context().close();
  }

  /// Fails on barriers that axe calls serious or critical, naming each with the elements that have it.
  async assertAccessible(page) {
    // Evaluated through the debugger, which the page's own content policy does not bind.
    await page.evaluate(await axeSource());
    // A notice half faded in has the contrast of half a notice.
    await rest(page);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    const lines = grave.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html}`));
    if (lines.length > 0) throw new Error(`axe found:\n${lines.join("\n")}`);
  }

  assertNoPageErrors() {
    const known = [...this.#expected, ...this.#forgiven];
    const errors = this.#pageErrors.filter((error) => !known.some((pattern) => pattern.test(error)));
    if (errors.length > 0) throw new Error(`the page reported:\n${errors.join("\n")}`);
  }

  assertExpectedErrors() {
    const missing = this.#expected.filter((pattern) => !this.#pageErrors.some((error) => pattern.test(error)));
    if (missing.length > 0) throw new Error(`the page was expected to report ${missing.join(", ")}, and did not`);
  }

  /// Shows what a person would need to understand a failure: the pages as assistive technology sees them, and the log.
  async describe(t) {
    for (const page of this.#browser?.contexts().flatMap((context) => context.pages()) ?? []) {
      const seen = await page.locator("body").ariaSnapshot({ timeout: 1_000 }).catch((error) => `unreadable: ${error}`);
      t.diagnostic(`page ${page.url().replace(/token=[^&]*/, "token=…")}\n${seen}`);
    }
    this.#pageErrors.forEach((error) => t.diagnostic(error));
    t.diagnostic(`log of choir:\n${this.#choir?.log.join("\n") ?? "never started"}`);
  }

  async destroy() {
    await this.#browser?.close();
    try {
      await this.#choir?.stop();
    } finally {
      await rm(this.#directory, { recursive: true, force: true });
    }
  }
}

/// The running binary.
class Choir {
  log = [];
  url;
  #process;
  #exited;

  static async start(options) {
    const choir = new Choir();
    await choir.#start(options);
    return choir;
  }

  async #start(options) {
    const program = required("CHOIR_BIN");
    this.#process = spawn(program, ["up", ...options], { stdio: ["ignore", "pipe", "pipe"] });
    this.#exited = new Promise((resolve) => {
      this.#process.once("exit", (code, signal) => resolve({ code, signal }));
      this.#process.once("error", (error) => resolve({ error }));
    });
    createInterface({ input: this.#process.stderr }).on("line", (line) => this.#keep(line));
    const address = new Promise((resolve) => {
      createInterface({ input: this.#process.stdout }).on("line", (line) => {
        const ready = /^ready (http:\S+)$/.exec(line);
        if (ready) resolve(ready[1]);
        else this.#keep(line);
      });
    });
    const end = this.#exited.then((how) => Promise.reject(new Error(`choir ended before it was ready: ${JSON.stringify(how)}`)));
    try {
      this.url = await Promise.race([address, end, deadline(START_MS, "choir was not ready")]);
    } catch (error) {
      this.#process.kill("SIGKILL");
      throw new Error(`${error.message}\n${this.log.join("\n")}`);
    }
  }

  #keep(line) {
    this.log.push(line);
    if (this.log.length > LOG_LINES) this.log.shift();
  }

  /// Makes it stand still, with every connection open, until it goes on.
  stall() {
    this.#process.kill("SIGSTOP");
  }

  goOn() {
    this.#process.kill("SIGCONT");
  }

  /// Pulls the plug: no signal handler runs, and the children have to notice by themselves.
  async kill() {
    this.#process.kill("SIGKILL");
    await this.#exited;
  }

  /// Asks it to stop, and insists on a clean end unless it was killed before.
  async stop() {
    this.#process.kill("SIGTERM");
    const how = await Promise.race([this.#exited, deadline(STOP_MS, "choir did not stop")]).catch((error) => {
      this.#process.kill("SIGKILL");
      throw error;
    });
    if (how.signal !== "SIGKILL" && how.code !== 0) throw new Error(`choir ended with ${JSON.stringify(how)}\n${this.log.join("\n")}`);
  }
}

function launch() {
  return chromium.launch({ executablePath: required("CHOIR_CHROMIUM"), headless: true, args: BROWSER_FLAGS });
}

function axeSource() {
  return readFile(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
}

function configuration(scenario) {
  if (!scenario) return "";
  const script = fileURLToPath(new URL(`scenarios/${scenario}`, import.meta.url));
  // A JSON string is a TOML string too.
  return `[models]\ndefault = "scripted/scripted"\n\n[providers.scripted]\nkind = "scripted"\nscript = ${JSON.stringify(script)}\n`;
}

function deadline(milliseconds, what) {
  const signal = AbortSignal.timeout(milliseconds);
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error(`${what} within ${milliseconds} ms`))));
}

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run the journeys with \`cargo xtask browser\``);
  return value;
}
