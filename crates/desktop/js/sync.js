// Keeps a replica of a document in step with the server's, by the Yjs protocol over one socket. What the person typed is
// sent at once, counted when the server says that it is in the log, and until then kept where a reload finds it again.

import { fromBase64, toBase64 } from 'lib0/buffer';
import * as decoding from 'lib0/decoding';
import * as encoding from 'lib0/encoding';
import { Awareness, applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates } from 'y-protocols/awareness';
import * as protocol from 'y-protocols/sync';
import * as Y from 'yjs';

// The text of a document, by the name that the server knows it.
const ROOT = 'content';
// Messages of the Yjs protocol, and our own: how many of our updates are in the log, and the version that they made.
const SYNC = 0;
const AWARENESS = 1;
const WHO_IS_THERE = 3;
const ACKNOWLEDGED = 100;
// Which generation of the document is spoken of.
const GENERATION = 101;
// The server refused what we said; saying it again would not help.
const REFUSED = 1008;
// Something of the document was erased: what we have must not come back.
const ANEW = 4001;

// The longest message that the computer takes, as `choir_proto::wire::frames` has it.
const MESSAGE_BYTES_MAX = 8 << 20;
const TOO_LONG =
  'This is more than 8 MiB at once, which the computer does not take. It is not saved: take it back, or bring it in as a file.';

const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 10_000;
// A pause after which what is not acknowledged is kept in the browser too.
const KEEP_AFTER_MS = 200;
const KEY = 'choir.unsent';

export class Sync {
  // `onState` hears `{ phase, version, message }`; `look` says with which status the document can be read; `onAnew` is told
  // that this replica is of no use any more, and that another one has to begin with nothing.
  constructor(id, onState, look, onAnew = () => {}) {
    this.path = `/api/documents/${encodeURIComponent(id)}/sync`;
    this.onState = onState;
    this.look = look;
    this.onAnew = onAnew;
    this.generation = 0;
    this.doc = new Y.Doc();
    this.text = this.doc.getText(ROOT);
    this.awareness = new Awareness(this.doc);
    this.version = 0;
    this.retry = RETRY_FIRST_MS;
    this.prefix = `${KEY}.${id}.`;
    this.key = `${this.prefix}${this.doc.clientID}`;
    this.doc.on('update', (update, origin) => this.changed(update, origin));
    this.awareness.on('update', (changes, origin) => this.present(changes, origin));
    this.leaving = () => this.keep();
    globalThis.addEventListener?.('pagehide', this.leaving);
  }

  open() {
    this.absorb();
    this.say('loading');
    this.connect();
  }

  connect() {
    clearTimeout(this.timer);
    const address = new URL(`${this.path}?generation=${this.generation}`, location.href);
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(address);
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    this.welcomed = false;
    this.sent = 0;
    this.acknowledged = 0;
    socket.onopen = () => this.greet();
    socket.onmessage = ({ data }) => typeof data !== 'string' && this.receive(new Uint8Array(data));
    socket.onclose = ({ code, reason }) => socket === this.socket && this.away(code, reason);
  }

  // Tries again at once, because the person or a better connection asks for it.
  again() {
    if (this.closed || this.tooLong || this.socket?.readyState === WebSocket.OPEN) return;
    this.retry = RETRY_FIRST_MS;
    this.connect();
  }

  greet() {
    this.opened = true;
    this.retry = RETRY_FIRST_MS;
    this.send(SYNC, (encoder) => protocol.writeSyncStep1(encoder, this.doc));
    this.send(WHO_IS_THERE, () => {});
    this.announce([this.doc.clientID]);
  }

  receive(bytes) {
    const decoder = decoding.createDecoder(bytes);
    switch (decoding.readVarUint(decoder)) {
      case SYNC:
        return this.synchronise(decoder);
      case AWARENESS:
        return applyAwarenessUpdate(this.awareness, decoding.readVarUint8Array(decoder), this);
      case GENERATION:
        this.generation = decoding.readVarUint(decoding.createDecoder(decoding.readVarUint8Array(decoder)));
        return;
      case ACKNOWLEDGED:
        // A count and a version, as an array of bytes.
        return this.acknowledge(decoding.createDecoder(decoding.readVarUint8Array(decoder)));
    }
  }

  synchronise(decoder) {
    const answer = encoding.createEncoder();
    encoding.writeVarUint(answer, SYNC);
    const kind = protocol.readSyncMessage(decoder, answer, this.doc, this);
    if (kind === protocol.messageYjsSyncStep1) {
      // The answer holds everything that the server lacks; what is typed from here on is sent as it comes.
      this.welcomed = true;
      this.count(encoding.toUint8Array(answer));
    }
    if (kind === protocol.messageYjsSyncStep2) {
      this.synced = true;
      this.settle();
    }
  }

  acknowledge(decoder) {
    this.acknowledged = decoding.readVarUint(decoder);
    this.version = decoding.readVarUint(decoder);
    if (!this.pending()) this.base = Y.encodeStateVector(this.doc);
    this.settle();
  }

  // Whether something typed here may not be in the log yet.
  pending() {
    return !this.welcomed || this.sent !== this.acknowledged;
  }

  settle() {
    if (!this.synced || this.socket.readyState !== WebSocket.OPEN) return;
    this.say(this.pending() ? 'saving' : 'saved');
    if (!this.pending()) this.forget();
  }

  changed(update, origin) {
    if (origin === this) return;
    this.say(this.socket?.readyState === WebSocket.OPEN ? 'editing' : 'away', this.words);
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keep(), KEEP_AFTER_MS);
    if (this.tooLong) return this.comeBack();
    if (!this.welcomed) return;
    const encoder = encoding.createEncoder();
    encoding.writeVarUint(encoder, SYNC);
    protocol.writeUpdate(encoder, update);
    this.count(encoding.toUint8Array(encoder));
  }

  count(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    if (message.length > MESSAGE_BYTES_MAX) return this.refuse();
    this.sent += 1;
    this.socket.send(message);
  }

  // Sent, it would end the visit, and every later one: who comes again brings it again.
  refuse() {
    this.tooLong = true;
    this.welcomed = false;
    this.socket.close();
    this.say('failed', TOO_LONG);
  }

  // Once it was taken back, or is no longer too long, everything else goes on.
  comeBack() {
    const unsent = Y.encodeStateAsUpdate(this.doc, this.base);
    if (unsent.length > MESSAGE_BYTES_MAX / 2) return this.say('failed', TOO_LONG);
    this.tooLong = false;
    this.again();
  }

  send(kind, write) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const encoder = encoding.createEncoder();
    encoding.writeVarUint(encoder, kind);
    write(encoder);
    this.socket.send(encoding.toUint8Array(encoder));
  }

  present({ added, updated, removed }, origin) {
    if (origin !== this) this.announce([...added, ...updated, ...removed]);
  }

  announce(clients) {
    this.send(AWARENESS, (encoder) => encoding.writeVarUint8Array(encoder, encodeAwarenessUpdate(this.awareness, clients)));
  }

  async away(code, reason) {
    this.welcomed = false;
    const others = [...this.awareness.getStates().keys()].filter((client) => client !== this.doc.clientID);
    removeAwarenessStates(this.awareness, others, this);
    if (this.closed || this.tooLong) return;
    if (code === ANEW) {
      this.drop();
      return this.onAnew();
    }
    if (code === REFUSED) {
      return this.say('failed', `The computer did not take this: ${reason || 'it gave no reason'}. What you typed is kept in this browser.`);
    }
    // A socket that never opened gives no reason; reading the document does.
    const status = this.opened ? undefined : await this.look();
    if (this.closed) return;
    if (status === 404) return this.say('failed', 'This document is not there any more.');
    this.words = 'The computer is away. What you type is kept in this browser and sent when it is back.';
    this.say('away', this.words);
    this.timer = setTimeout(() => this.connect(), this.retry);
    this.retry = Math.min(this.retry * 2, RETRY_MAX_MS);
  }

  // Forgets everything, here and where a reload would find it.
  drop() {
    this.dropped = true;
    clearTimeout(this.keeping);
    this.forget();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.keeping);
    globalThis.removeEventListener?.('pagehide', this.leaving);
    this.keep();
    this.socket?.close();
    this.awareness.destroy();
    this.doc.destroy();
  }

  // --- what a reload finds again ---

  keep() {
    if (this.dropped || !this.pending()) return;
    const update = Y.encodeStateAsUpdate(this.doc, this.base);
    // A replica without anything of its own has nothing to keep.
    if (update.length <= 2) return;
    try {
      localStorage.setItem(this.key, `${this.generation} ${toBase64(update)}`);
    } catch {
      // A browser that keeps nothing, or is full: the words are still in this window and are sent from it.
    }
  }

  absorb() {
    this.absorbed = [this.key];
    try {
      const kept = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
      for (const key of kept) {
        // One of an earlier version of this page says no generation; the server then takes it as it always did.
        const [update, generation = 0] = localStorage.getItem(key).split(' ').reverse();
        // The oldest of what is kept here speaks for all of it.
        const known = [this.generation, Number(generation)].filter(Boolean);
        this.generation = known.length ? Math.min(...known) : 0;
        Y.applyUpdate(this.doc, fromBase64(update), this);
        this.absorbed.push(key);
      }
    } catch {
      // A browser that keeps nothing, or bytes that are no update: nothing that could be sent.
    }
  }

  // What was kept is part of this replica, and all of this replica is in the log.
  forget() {
    try {
      for (const key of this.absorbed) localStorage.removeItem(key);
    } catch {
      // What cannot be removed is absorbed again, which changes nothing.
    }
  }

  say(phase, message = '') {
    this.onState({ phase, version: this.version, message });
  }
}
