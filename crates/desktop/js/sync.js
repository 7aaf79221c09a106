// Keeps an editor and the server's document in step. Everything the editor knows of the server passes through this class,
// so that another protocol can take its place: `open`, `refresh` when the server has news, `close`.
//
// What the server last said is `synced`; what the person typed since is `unsent`, as changes over it. A text that comes from
// the server is turned into changes over `synced`, mapped over `unsent`, and applied: newer keystrokes stay where they are.

import { ChangeSet, StateEffect, Text, Transaction } from '@codemirror/state';
import { diff } from '@codemirror/merge';
import { EditorView } from '@codemirror/view';
import { request } from './bridge.js';

// A pause in typing after which the text is sent; a long text, which is sent whole, waits a little longer.
const SAVE_AFTER_MS = 400;
const SAVE_AFTER_MAX_MS = 5_000;
const saveAfter = (doc) => Math.min(SAVE_AFTER_MS + doc.length / 1_000, SAVE_AFTER_MAX_MS);
const RETRY_MS = 3_000;
// Beyond this many characters a change is taken as one block: a finer difference would cost seconds.
const DIFF_CHARACTERS_MAX = 400_000;

const fromServer = StateEffect.define();
const owners = new WeakMap();

export class Sync {
  static listener = EditorView.updateListener.of((update) => owners.get(update.view)?.update(update));

  constructor(view, id, onState) {
    this.view = view;
    this.path = `/api/documents/${encodeURIComponent(id)}`;
    this.onState = onState;
    this.version = 0;
    this.wanted = 0;
    this.synced = Text.empty;
    this.unsent = ChangeSet.empty(0);
    this.busy = false;
    this.closed = false;
    owners.set(view, this);
  }

  async open() {
    this.say('loading');
    await this.pull();
  }

  // The server has version `version`; zero asks to try again.
  refresh(version) {
    this.wanted = Math.max(this.wanted, version);
    if (this.failed) this.later(0);
    else if (this.wanted > this.version && !this.busy) this.pull();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    owners.delete(this.view);
    // The last words are sent although nobody waits for the answer.
    if (!this.unsent.empty && !this.busy) this.put(this.view.state.doc).catch(() => {});
  }

  update(update) {
    if (!update.docChanged) return;
    if (update.transactions.some((transaction) => transaction.effects.some((effect) => effect.is(fromServer)))) return;
    this.unsent = this.unsent.compose(update.changes);
    this.say('editing');
    this.later(saveAfter(this.view.state.doc));
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.push(), ms);
  }

  async pull() {
    await this.exchange(async () => this.accept(await answer(request('GET', this.path))));
  }

  async push() {
    if (this.busy || this.closed) return;
    if (this.unsent.empty) return this.pull();
    this.say('saving');
    await this.exchange(async () => {
      const sent = this.view.state.doc;
      // From here on `unsent` means: typed after this text was sent.
      const before = { synced: this.synced, unsent: this.unsent };
      this.synced = sent;
      this.unsent = ChangeSet.empty(sent.length);
      try {
        this.accept(await this.put(sent));
      } catch (error) {
        this.synced = before.synced;
        this.unsent = before.unsent.compose(this.unsent);
        throw error;
      }
    });
  }

  put(doc) {
    const body = JSON.stringify({ base_version: this.version, content: doc.toString() });
    return answer(request('PUT', this.path, body));
  }

  // One exchange at a time; what happened meanwhile is looked at after it.
  async exchange(act) {
    if (this.busy || this.closed) return;
    this.busy = true;
    try {
      await act();
      this.failed = false;
    } catch (error) {
      this.failed = true;
      if (!this.closed) {
        this.say('failed', `${error.message} What you typed is kept in this window.`);
        // A document that is gone does not come back by asking again.
        if (error.status !== 404) this.later(RETRY_MS);
      }
      return;
    } finally {
      this.busy = false;
    }
    if (this.closed) return;
    if (!this.unsent.empty) this.later(saveAfter(this.view.state.doc));
    else if (this.wanted > this.version) this.pull();
    else this.say('saved');
  }

  accept({ content, version }) {
    if (this.closed) return;
    const theirs = Text.of(content.split(/\r\n?|\n/));
    const changes = changesBetween(this.synced, theirs);
    // At the same place the person's keys come first: they belong to the word before them.
    const mapped = changes.map(this.unsent);
    this.unsent = this.unsent.map(changes, true);
    this.synced = theirs;
    this.version = version;
    if (mapped.empty) return;
    this.view.dispatch({
      changes: mapped,
      effects: fromServer.of(null),
      annotations: [Transaction.remote.of(true), Transaction.addToHistory.of(false)],
    });
  }

  say(phase, message = '') {
    this.onState({ phase, version: this.version, message });
  }
}

// The difference of two texts as changes.
export function changesBetween(from, to) {
  if (from.eq(to)) return ChangeSet.empty(from.length);
  const [old, now] = [from.toString(), to.toString()];
  if (old.length + now.length > DIFF_CHARACTERS_MAX) return oneBlock(old, now);
  const parts = diff(old, now).map(({ fromA, toA, fromB, toB }) => ({ from: fromA, to: toA, insert: now.slice(fromB, toB) }));
  return ChangeSet.of(parts, old.length);
}

function oneBlock(old, now) {
  let start = 0;
  const shortest = Math.min(old.length, now.length);
  while (start < shortest && old[start] === now[start]) start++;
  let end = 0;
  while (end < shortest - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  const change = { from: start, to: old.length - end, insert: now.slice(start, now.length - end) };
  return ChangeSet.of([change], old.length);
}

async function answer(asked) {
  const { status, text } = await asked;
  if (status >= 200 && status < 300) return JSON.parse(text);
  throw Object.assign(new Error(refusal(text) ?? `The computer answered with status ${status}.`), { status });
}

function refusal(text) {
  try {
    const { message, hint } = JSON.parse(text).error;
    return [message, hint].filter(Boolean).join(' ');
  } catch {
    return undefined;
  }
}
