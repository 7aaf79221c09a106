// What ends the page's program is noticed, once, and nothing else is taken for it. Run with `node --test crates/desktop/js`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { watchBreaks } from './broken.js';

function heard(...events) {
  const page = new EventTarget();
  let breaks = 0;
  watchBreaks(page, () => breaks++);
  for (const [kind, what] of events) page.dispatchEvent(Object.assign(new Event(kind), what));
  return breaks;
}

const fault = new WebAssembly.RuntimeError('unreachable');

test('a program that broke is noticed wherever it was called from, and once', () => {
  assert.equal(heard(['error', { error: fault }]), 1);
  assert.equal(heard(['unhandledrejection', { reason: fault }]), 1);
  assert.equal(heard(['error', { error: fault }], ['error', { error: fault }], ['unhandledrejection', { reason: fault }]), 1);
});

test('an error that leaves the program running is none of it', () => {
  assert.equal(heard(['error', { error: new Error('a script') }], ['error', {}], ['unhandledrejection', { reason: undefined }]), 0);
});
