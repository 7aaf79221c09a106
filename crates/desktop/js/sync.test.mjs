// What a person types is never lost, whatever the server does meanwhile. Run with `node --test crates/desktop/js`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { EditorState, Text } from '@codemirror/state';
import { Sync, changesBetween } from './sync.js';

// A server that merges by keeping both sides' lines, and answers when it is told to.
class Server {
  constructor(content) {
    this.content = content;
    this.version = 1;
    this.waiting = [];
    this.bodies = [];
    globalThis.fetch = (path, { method, body }) =>
      new Promise((answer, refuse) => this.waiting.push({ method, body: body && JSON.parse(body), answer, refuse }));
  }

  // Lets the oldest request through and waits until the page has dealt with it.
  async serve(merge = (content) => content) {
    const { method, body, answer } = this.waiting.shift();
    if (method === 'PUT') {
      this.bodies.push(body);
      this.content = merge(body.content);
      this.version += 1;
    }
    const text = JSON.stringify({ content: this.content, version: this.version });
    answer({ status: 200, text: async () => text });
    await settled();
  }

  async fail() {
    this.waiting.shift().refuse(new Error('the network is down.'));
    await settled();
  }
}

const settled = () => new Promise((done) => setImmediate(done));

// An editor without a page.
class View {
  state = EditorState.create({});

  dispatch(spec) {
    const transaction = this.state.update(spec);
    this.state = transaction.state;
    this.sync.update({ docChanged: transaction.docChanged, changes: transaction.changes, transactions: [transaction] });
  }

  type(at, text) {
    this.dispatch({ changes: { from: at, insert: text } });
  }

  get text() {
    return this.state.doc.toString();
  }
}

async function opened(content) {
  const server = new Server(content);
  const view = new View();
  const states = [];
  view.sync = new Sync(view, 'id', (state) => states.push(state.phase));
  view.sync.later = () => {};
  view.sync.open();
  await server.serve();
  return { server, view, states, sync: view.sync };
}

test('opening shows the text and says that it is saved', async () => {
  const { view, states } = await opened('one\ntwo');
  assert.equal(view.text, 'one\ntwo');
  assert.deepEqual(states, ['loading', 'saved']);
});

test('keys pressed while a save is under way stay, and are sent next', async () => {
  const { server, view, sync } = await opened('one\ntwo');
  view.type(3, ' A');
  sync.push();
  view.type(view.text.length, ' B');
  await server.serve((content) => `${content}\nagent`);
  assert.equal(view.text, 'one A\ntwo B\nagent');
  sync.push();
  await server.serve();
  assert.deepEqual(server.bodies.map(({ base_version }) => base_version), [1, 2]);
  assert.equal(server.content, 'one A\ntwo B\nagent');
});

test('news from the server meets unsent keys', async () => {
  const { server, view, sync } = await opened('one\ntwo');
  view.type(7, ' mine');
  server.content = 'zero\none\ntwo';
  server.version = 2;
  sync.refresh(2);
  await server.serve();
  assert.equal(view.text, 'zero\none\ntwo mine');
});

test('a save that fails is repeated with everything typed since', async () => {
  const { server, view, sync, states } = await opened('one');
  view.type(3, ' A');
  sync.push();
  view.type(5, ' B');
  await server.fail();
  assert.equal(states.at(-1), 'failed');
  assert.equal(view.text, 'one A B');
  sync.push();
  await server.serve();
  assert.equal(server.content, 'one A B');
  assert.equal(states.at(-1), 'saved');
});

test('closing sends the last words', async () => {
  const { server, view, sync } = await opened('one');
  view.type(3, ' last');
  sync.close();
  await server.serve();
  assert.equal(server.content, 'one last');
});

test('a difference turns one text into the other', () => {
  for (const [from, to] of [['', 'a'], ['a\nb\nc', 'a\nc'], ['abc', 'xbz'], ['same', 'same'], ['x'.repeat(300_000), `${'x'.repeat(300_000)}y`]]) {
    const [old, now] = [Text.of(from.split('\n')), Text.of(to.split('\n'))];
    assert.equal(changesBetween(old, now).apply(old).toString(), to);
  }
});
