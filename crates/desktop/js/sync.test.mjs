// What a person types is never lost, whatever the server does meanwhile. Run with `node --test crates/desktop/js`.

import assert from 'node:assert/strict';
import test from 'node:test';
import * as decoding from 'lib0/decoding';
import * as encoding from 'lib0/encoding';
import * as protocol from 'y-protocols/sync';
import * as Y from 'yjs';
import { Sync } from './sync.js';

globalThis.location = { href: 'http://127.0.0.1/' };

// A browser's memory.
class Memory {
  setItem(key, value) {
    this[key] = value;
  }
  getItem(key) {
    return this[key];
  }
  removeItem(key) {
    delete this[key];
  }
}

// A socket whose other end the test holds.
class Socket {
  static OPEN = 1;
  static all = [];
  readyState = 0;
  heard = [];
  constructor(address) {
    this.address = String(address);
    Socket.all.push(this);
  }
  send(bytes) {
    this.heard.push(bytes);
  }
  close() {
    this.readyState = 3;
  }
}
globalThis.WebSocket = Socket;

// The server's replica: takes what it hears only when it is told to, and acknowledges what it took.
class Server {
  doc = new Y.Doc();
  version = 1;

  constructor(text) {
    this.doc.getText('content').insert(0, text);
  }

  // Accepts the newest socket, as the real server does: its first word is how far it is.
  accept() {
    this.socket = Socket.all.at(-1);
    this.socket.readyState = Socket.OPEN;
    this.taken = 0;
    this.socket.onopen();
    this.say((encoder) => protocol.writeSyncStep1(encoder, this.doc));
    this.listen({ commits: false });
  }

  say(write) {
    const encoder = encoding.createEncoder();
    encoding.writeVarUint(encoder, 0);
    write(encoder);
    this.socket.onmessage({ data: encoding.toUint8Array(encoder).buffer });
  }

  // Reads what was said. What is not committed is lost with the socket.
  listen({ commits }) {
    for (const bytes of this.socket.heard.splice(0)) {
      const decoder = decoding.createDecoder(bytes);
      if (decoding.readVarUint(decoder) !== 0) continue;
      const kind = decoding.readVarUint(decoder);
      const body = decoding.readVarUint8Array(decoder);
      if (kind === 0) this.say((encoder) => protocol.writeSyncStep2(encoder, this.doc, body));
      else this.waiting = [...(this.waiting ?? []), body];
    }
    if (commits) this.commit();
  }

  commit() {
    for (const update of this.waiting ?? []) {
      Y.applyUpdate(this.doc, update);
      this.taken += 1;
      this.version += 1;
    }
    this.waiting = [];
    const numbers = encoding.createEncoder();
    encoding.writeVarUint(numbers, this.taken);
    encoding.writeVarUint(numbers, this.version);
    const message = encoding.createEncoder();
    encoding.writeVarUint(message, 100);
    encoding.writeVarUint8Array(message, encoding.toUint8Array(numbers));
    this.socket.onmessage({ data: encoding.toUint8Array(message).buffer });
  }

  // Dies, and forgets what it had not committed.
  die(code = 1006, reason = '') {
    this.waiting = [];
    this.socket.readyState = 3;
    this.socket.onclose({ code, reason });
  }

  get text() {
    return this.doc.getText('content').toString();
  }
}

function begin(text, status = 200) {
  globalThis.localStorage = new Memory();
  const server = new Server(text);
  const said = [];
  const sync = new Sync('d', (state) => said.push(state), async () => status);
  sync.open();
  return { server, sync, said, phase: () => said.at(-1).phase };
}

const settled = () => new Promise((done) => setImmediate(done));

test('what is typed is saved when the log has it, and not before', (t) => {
  const { server, sync, phase } = begin('one');
  t.after(() => sync.close());
  server.accept();
  server.listen({ commits: true });
  assert.equal(sync.text.toString(), 'one');
  assert.equal(phase(), 'saved');
  sync.text.insert(3, ' two');
  assert.equal(phase(), 'editing');
  server.listen({ commits: false });
  assert.ok(sync.pending(), 'heard is not kept');
  server.commit();
  assert.equal(phase(), 'saved');
  assert.equal(server.text, 'one two');
});

test('a server that dies before it commits is sent the words again', async (t) => {
  const { server, sync, phase, said } = begin('one');
  t.after(() => sync.close());
  server.accept();
  server.listen({ commits: true });
  sync.text.insert(3, ' two');
  server.listen({ commits: false });
  server.die();
  await settled();
  assert.equal(phase(), 'away');
  assert.match(said.at(-1).message, /kept/);
  // Typed while nobody listens, and meanwhile somebody else wrote.
  sync.text.insert(7, ' three');
  server.doc.getText('content').insert(0, 'zero ');
  sync.again();
  server.accept();
  server.listen({ commits: true });
  assert.equal(server.text, 'zero one two three');
  assert.equal(sync.text.toString(), server.text);
  assert.equal(phase(), 'saved');
});

test('a reload finds what was not in the log, and forgets what is', (t) => {
  const { server, sync } = begin('one');
  server.accept();
  server.listen({ commits: true });
  sync.text.insert(3, ' two');
  sync.close();
  assert.equal(Object.keys(localStorage).length, 1);

  const again = new Sync('d', () => {}, async () => 200);
  t.after(() => again.close());
  again.open();
  server.accept();
  server.listen({ commits: true });
  assert.equal(server.text, 'one two');
  assert.deepEqual(Object.keys(localStorage), []);
});

test('what the server refuses is not sent for ever, and says why', async (t) => {
  const { server, sync, said } = begin('one');
  t.after(() => sync.close());
  server.accept();
  server.listen({ commits: true });
  const sockets = Socket.all.length;
  server.die(1008, 'too long');
  await settled();
  assert.equal(said.at(-1).phase, 'failed');
  assert.match(said.at(-1).message, /too long/);
  assert.equal(Socket.all.length, sockets);
});

test('what is too long for one message is refused with words, and everything else goes on when it was taken back', async (t) => {
  const { server, sync, said } = begin('one');
  t.after(() => sync.close());
  server.accept();
  server.listen({ commits: true });
  const [sockets, heard] = [Socket.all.length, server.socket.heard.length];
  sync.text.insert(3, 'x'.repeat(9 << 20));
  server.die(1006, '');
  await settled();
  sync.again();
  assert.deepEqual([Socket.all.length, server.socket.heard.length], [sockets, heard], 'it is not sent, now or ever');
  assert.equal(said.at(-1).phase, 'failed');
  assert.match(said.at(-1).message, /more than 8 MiB/);

  sync.text.delete(3, 9 << 20);
  assert.equal(Socket.all.length, sockets + 1);
  server.accept();
  server.listen({ commits: true });
  sync.text.insert(3, ' two');
  server.listen({ commits: true });
  assert.equal(server.text, 'one two');
  assert.equal(said.at(-1).phase, 'saved');
});

test('a document that is gone is not asked for again', async (t) => {
  const { server, sync, said } = begin('one', 404);
  t.after(() => sync.close());
  server.socket = Socket.all.at(-1);
  server.die();
  await settled();
  assert.equal(said.at(-1).phase, 'failed');
  assert.match(said.at(-1).message, /not there/);
});

test('what was erased is dropped, also what a reload would find, and is not sent again', async (t) => {
  const { server, sync } = begin('secret');
  server.accept();
  assert.match(Socket.all.at(-1).address, /\?generation=0$/);
  const number = encoding.createEncoder();
  encoding.writeVarUint(number, 7);
  const message = encoding.createEncoder();
  encoding.writeVarUint(message, 101);
  encoding.writeVarUint8Array(message, encoding.toUint8Array(number));
  server.socket.onmessage({ data: encoding.toUint8Array(message).buffer });
  server.listen({ commits: true });
  let anew = 0;
  sync.onAnew = () => (anew += 1);
  server.die();
  await settled();
  sync.text.insert(6, ' of mine');
  sync.keep();
  assert.equal(Object.keys(localStorage).length, 1);

  // Kept with its generation, so that a reload says it too.
  const reloaded = new Sync('d', () => {}, async () => 200);
  t.after(() => reloaded.close());
  reloaded.open();
  assert.match(Socket.all.at(-1).address, /\?generation=7$/);

  sync.again();
  assert.match(Socket.all.at(-1).address, /\?generation=7$/);
  const sockets = Socket.all.length;
  server.socket = Socket.all.at(-1);
  server.die(4001, 'erased');
  await settled();
  assert.equal(anew, 1);
  sync.close();
  assert.deepEqual(Object.keys(localStorage), []);
  assert.equal(Socket.all.length, sockets, 'another replica connects, not this one');
});
