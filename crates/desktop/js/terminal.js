// A terminal: xterm.js on a socket of bytes. It comes back after an interruption, and the server repaints the screen.

import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal } from '@xterm/xterm';

const SCROLLBACK_LINES = 10_000;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 10_000;
// Bytes that may wait to be drawn; beyond them the socket is closed and the screen repainted by the server.
const BACKLOG_BYTES_MAX = 16 * 1024 * 1024;

// Letters that are kept until the line stands.
const EARLY_CHARS_MAX = 4096;

// A pause between two letters after which a hand rests.
const REST_MS = 250;

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

// What the server says of a terminal whose program has ended: `ended`, or `ended with 0`.
const ENDED = /^ended\b/;

// Opens a terminal in an element; `onState` hears `connecting`, `open`, `away`, `ended` and with what if that is known, or `find`
// when the person wants to search.
// Titles and clipboards that a program asks for (OSC 0, 2 and 52) go nowhere: nobody listens to them.
export function openTerminal(parent, id, onState) {
  const terminal = new Terminal({
    allowProposedApi: false,
    // A cursor that blinks draws the page all the time, and an echo waits for each of these frames.
    cursorBlink: false,
    fontFamily: token('--font-code'),
    fontSize: 13,
    lineHeight: 1.25,
    linkHandler: { activate: (_, address) => follow(address) },
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    scrollback: SCROLLBACK_LINES,
    theme: theme(),
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  terminal.loadAddon(new WebLinksAddon((_, address) => follow(address)));
  terminal.open(parent);
  terminal.onKey(atRest(terminal));
  terminal.attachCustomKeyEventHandler((event) => !clipboard(terminal, event) && !finds(event, onState));

  const line = new Line(id, terminal, onState);
  const resize = () => parent.clientWidth > 0 && fit.fit();
  const sizes = new ResizeObserver(resize);
  sizes.observe(parent);
  const themes = watchTheme(() => (terminal.options.theme = theme()));
  terminal.onData((text) => line.send(text));
  terminal.onBinary((text) => line.send(text));
  terminal.onResize(() => line.resize());
  // The face may come after the first measure.
  document.fonts.ready.then(resize);
  resize();
  line.connect();

  return {
    // Whether the words are there; the next place is selected.
    find: (words, back) => (back ? search.findPrevious(words) : search.findNext(words)),
    focus: () => terminal.focus(),
    // Keys that a keyboard on a screen does not have; that keyboard stays where it is.
    press: (keys) => {
      terminal.focus();
      terminal.input(keys);
    },
    paste: () => paste(terminal),
    // What is selected, or else what is on the screen.
    copy: () => write(terminal.getSelection() || screen(terminal)),
    close: () => {
      line.close();
      sizes.disconnect();
      themes();
      terminal.dispose();
    },
  };
}

class Line {
  constructor(id, terminal, onState) {
    this.id = id;
    this.address = new URL(`/api/terminals/${encodeURIComponent(id)}`, location.href);
    this.address.protocol = this.address.protocol === 'https:' ? 'wss:' : 'ws:';
    this.terminal = terminal;
    this.onState = onState;
    this.retry = RETRY_FIRST_MS;
    this.encoder = new TextEncoder();
    this.early = '';
  }

  connect() {
    this.onState('connecting');
    let [backlog, opened] = [0, false];
    const socket = new WebSocket(this.address);
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    socket.onopen = () => {
      opened = true;
      this.retry = RETRY_FIRST_MS;
      this.terminal.reset();
      this.resize();
      const early = this.early;
      this.early = '';
      if (early) this.send(early);
      this.onState('open');
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') return;
      backlog += data.byteLength;
      this.terminal.write(new Uint8Array(data), () => (backlog -= data.byteLength));
      if (backlog > BACKLOG_BYTES_MAX) socket.close();
    };
    socket.onclose = ({ reason }) => this.over(reason, opened);
  }

  // A terminal that has ended says how. One that was never reached may be gone, which the server tells when it is asked.
  async over(reason, opened) {
    if (this.closed) return;
    if (ENDED.test(reason)) return this.onState(reason);
    if (!opened && (await this.gone())) return this.closed || this.onState('ended');
    this.away();
  }

  async gone() {
    const answer = await fetch('/api/terminals', { credentials: 'same-origin' }).catch(() => undefined);
    if (!answer?.ok) return false;
    const { terminals } = await answer.json();
    return terminals.every(({ terminal_id }) => terminal_id !== this.id);
  }

  away() {
    if (this.closed) return;
    this.onState('away');
    this.timer = setTimeout(() => this.connect(), this.retry);
    this.retry = Math.min(this.retry * 2, RETRY_MAX_MS);
  }

  // What is typed before the line stands is sent as soon as it does.
  send(text) {
    const state = this.socket?.readyState;
    if (state === WebSocket.OPEN) this.socket.send(this.encoder.encode(text));
    else if (state === WebSocket.CONNECTING && this.early.length < EARLY_CHARS_MAX) this.early += text;
  }

  resize() {
    const { cols, rows } = this.terminal;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ resize: { cols, rows } }));
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }
}

// A letter that goes into the text area asks for a frame, and after a key the browser holds the echo back until that frame is
// drawn. Letters go there when the hand rests: screen readers that say what is typed find them there.
function atRest(terminal) {
  let [typed, timer] = ['', undefined];
  return ({ key, domEvent }) => {
    if (key.length !== 1 || key < ' ') return;
    domEvent.preventDefault();
    typed += key;
    clearTimeout(timer);
    timer = setTimeout(() => {
      terminal.textarea.value += typed;
      typed = '';
    }, REST_MS);
  };
}

// Only web addresses open, and the page they open in cannot reach this one.
function follow(address) {
  if (/^https?:\/\//i.test(address)) window.open(address, '_blank', 'noopener,noreferrer');
}

// Ctrl+Shift+C and V, as in other terminals: a program in the terminal can never reach the clipboard by itself.
function clipboard(terminal, event) {
  if (event.type !== 'keydown' || !event.ctrlKey || !event.shiftKey) return false;
  if (event.code === 'KeyC' && terminal.hasSelection()) {
    write(terminal.getSelection());
    event.preventDefault();
    return true;
  }
  if (event.code === 'KeyV') {
    paste(terminal);
    event.preventDefault();
    return true;
  }
  return false;
}

// Both say whether the browser gave the clipboard away.
const gave = (wish) => wish().then(() => true, () => false);
const write = (text) => gave(async () => navigator.clipboard.writeText(text));
const paste = (terminal) => gave(async () => terminal.paste(await navigator.clipboard.readText()));

function screen(terminal) {
  const { active } = terminal.buffer;
  const lines = Array.from({ length: terminal.rows }, (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? '');
  return lines.join('\n').trimEnd();
}

// Ctrl+Shift+F, as in other terminals: without Shift the key is the program's.
function finds(event, onState) {
  const wanted = event.type === 'keydown' && event.ctrlKey && event.shiftKey && event.code === 'KeyF';
  if (wanted) {
    event.preventDefault();
    onState('find');
  }
  return wanted;
}

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function theme() {
  const colours = NAMES.flatMap((name) => [
    [name, token(`--ansi-${name}`)],
    [`bright${name[0].toUpperCase()}${name.slice(1)}`, token(`--ansi-bright-${name}`)],
  ]);
  return {
    ...Object.fromEntries(colours),
    background: token('--raised'),
    foreground: token('--text'),
    cursor: token('--accent'),
    cursorAccent: token('--raised'),
    selectionBackground: token('--terminal-selection'),
  };
}

function watchTheme(onChange) {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const chosen = new MutationObserver(onChange);
  system.addEventListener('change', onChange);
  chosen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme', 'style'] });
  return () => {
    system.removeEventListener('change', onChange);
    chosen.disconnect();
  };
}
