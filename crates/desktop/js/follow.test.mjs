// A server that stands still is noticed, and nobody is asked while nobody looks. Run with `node --test crates/desktop/js`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { follow } from './bridge.js';

// A socket whose other end the test holds.
class Socket {
  closed = false;
  constructor() {
    Socket.last = this;
  }
  close() {
    // The other end stands still: it never says that it closed, too.
    this.closed = true;
  }
}

// A page that is looked at or not, a server that answers or not, and a clock that the test turns.
function page(t) {
  const listeners = new Set();
  const world = { asked: 0, stalls: false, ended: false };
  globalThis.location = { href: 'http://127.0.0.1/' };
  globalThis.WebSocket = Socket;
  globalThis.document = {
    visibilityState: 'visible',
    addEventListener: (_, listen) => listeners.add(listen),
    removeEventListener: (_, listen) => listeners.delete(listen),
  };
  globalThis.fetch = async (path, { signal }) => {
    assert.equal(path, '/health');
    assert.ok(signal instanceof AbortSignal);
    world.asked += 1;
    if (world.stalls) throw new Error('it took too long');
    return { ok: true };
  };
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  world.looks = (looks) => {
    document.visibilityState = looks ? 'visible' : 'hidden';
    listeners.forEach((listen) => listen());
  };
  world.passes = async (ms) => {
    t.mock.timers.tick(ms);
    // What was asked is answered meanwhile.
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  };
  world.listeners = listeners;
  follow('/api/stream', () => {}, () => true).then(() => (world.ended = true));
  Socket.last.onopen();
  return world;
}

test('a server that stands still is noticed, although its socket stays open', async (t) => {
  const world = page(t);
  world.stalls = true;
  await world.passes(7_000);
  assert.deepEqual([world.asked, world.ended], [0, false]);
  await world.passes(1_000);
  assert.deepEqual([world.asked, world.ended, Socket.last.closed], [1, true, true]);
  assert.equal(world.listeners.size, 0);
  await world.passes(60_000);
  assert.equal(world.asked, 1);
});

test('whoever speaks or answers is not gone', async (t) => {
  const world = page(t);
  await world.passes(7_000);
  Socket.last.onmessage({ data: '{}' });
  await world.passes(7_000);
  assert.equal(world.asked, 0, 'something was heard a moment ago');
  await world.passes(1_000);
  await world.passes(8_000);
  assert.deepEqual([world.asked, world.ended], [2, false]);
});

test('nothing is asked while nobody looks, and at once when somebody does', async (t) => {
  const world = page(t);
  world.looks(false);
  world.stalls = true;
  await world.passes(600_000);
  assert.deepEqual([world.asked, world.ended], [0, false]);
  world.looks(true);
  await world.passes(0);
  assert.deepEqual([world.asked, world.ended], [1, true]);
});

test('a socket that closes is not watched any more', async (t) => {
  const world = page(t);
  Socket.last.onclose();
  await world.passes(60_000);
  assert.deepEqual([world.asked, world.ended, world.listeners.size], [0, true, 0]);
});
