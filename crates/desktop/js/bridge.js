// What the page needs of the browser, and no more: requests, sockets, keys, dragging, sizes. Every function that starts
// something returns a function or an object that ends it.

// --- the server -----------------------------------------------------------------------------------------------------

const REQUEST_TIMEOUT_MS = 30_000;

export async function request(method, path, body, type) {
  const headers = body === undefined ? {} : { 'content-type': type ?? 'application/json' };
  // A file may take as long as it takes.
  const signal = typeof body === 'object' ? undefined : AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const answer = await fetch(path, { method, body, headers, signal, credentials: 'same-origin' });
  return { status: answer.status, text: await answer.text() };
}

// How something that takes long is stopped.
export function stopper() {
  const controller = new AbortController();
  const { signal } = controller;
  return { signal, stop: () => controller.abort(), stopped: () => signal.aborted };
}

// Sends a file that the person chose, telling how far it is, from 0 to 1. Only this old way knows that of what is sent.
export function upload(path, file, onProgress, signal) {
  return new Promise((done, refuse) => {
    const request = new XMLHttpRequest();
    request.open('PUT', path);
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.onprogress = ({ lengthComputable, loaded, total }) => lengthComputable && onProgress(loaded / total);
    request.onload = () => done({ status: request.status, text: request.responseText });
    request.onerror = () => refuse(new Error('the connection broke'));
    request.onabort = () => refuse(new Error('it was stopped'));
    signal?.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

// Fetches a file of a known size, telling how far it is, and gives it to the person when all of it is there.
export async function download(path, name, size, onProgress, signal) {
  const answer = await fetch(path, { credentials: 'same-origin', signal });
  if (!answer.ok) return { status: answer.status, text: await answer.text() };
  let loaded = 0;
  const counted = new TransformStream({
    transform: (piece, rest) => {
      loaded += piece.byteLength;
      onProgress(loaded / size);
      rest.enqueue(piece);
    },
  });
  give(name, await new Response(answer.body.pipeThrough(counted)).blob());
  return { status: answer.status, text: '' };
}

// Follows a stream of texts until it ends; `onText` answers whether to go on.
export function follow(path, onOpen, onText) {
  const address = new URL(path, location.href);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  return new Promise((ended) => {
    const socket = new WebSocket(address);
    const end = () => {
      watch.stop();
      ended();
    };
    // Not by waiting for the socket to say that it is closed: whoever stands still does not say goodbye.
    const watch = watchSilence(() => {
      Object.assign(socket, { onopen: null, onmessage: null, onclose: null });
      socket.close();
      end();
    });
    socket.onopen = () => {
      watch.heard();
      onOpen();
    };
    socket.onmessage = ({ data }) => {
      watch.heard();
      if (typeof data === 'string' && !onText(data)) socket.close();
    };
    socket.onclose = end;
  });
}

// So long may nothing be heard before the server is asked whether it is there, and so long it may take to answer.
const SILENCE_MS = 8_000;
const HEALTH_TIMEOUT_MS = 4_000;

// A server that stands still keeps its sockets open, and looks as if nothing happened. While somebody looks at the page and
// nothing is heard, it is asked; `onGone` is told, once, when it does not answer.
function watchSilence(onGone) {
  let last = Date.now();
  let timer;
  let asking = false;
  const heard = () => {
    last = Date.now();
  };
  const wait = () => {
    clearTimeout(timer);
    if (document.visibilityState === 'visible') timer = setTimeout(look, Math.max(last + SILENCE_MS - Date.now(), 0));
  };
  const look = async () => {
    if (asking) return;
    if (Date.now() - last < SILENCE_MS) return wait();
    asking = true;
    const before = last;
    const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    // Any answer will do: this is not about how well it is.
    await fetch('/health', { signal, cache: 'no-store' }).then(heard, () => {});
    asking = false;
    if (timer === undefined) return;
    if (last === before) onGone();
    else wait();
  };
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
    document.removeEventListener('visibilitychange', wait);
  };
  document.addEventListener('visibilitychange', wait);
  wait();
  return { heard, stop };
}

// Whatever brings the network back is a reason to try again at once.
export function watchReturn(onReturn) {
  const seen = () => document.visibilityState === 'visible' && onReturn();
  globalThis.addEventListener('online', onReturn);
  globalThis.addEventListener('focus', onReturn);
  document.addEventListener('visibilitychange', seen);
  return () => {
    globalThis.removeEventListener('online', onReturn);
    globalThis.removeEventListener('focus', onReturn);
    document.removeEventListener('visibilitychange', seen);
  };
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const now = () => Date.now();
export const visit = (address) => location.assign(address);

// --- the page -------------------------------------------------------------------------------------------------------

export function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

export const setTitle = (text) => (document.title = text);

// The browser's own dialog; the stylesheet decides what is on the paper. What is drawn there has its pictures first; one that
// cannot be had is its words.
export const print = () =>
  setTimeout(async () => {
    await Promise.all([...document.querySelectorAll('.printed img')].map((image) => image.decode().catch(() => {})));
    window.print();
  });

// Tells when the page goes on paper, by whatever way, and when that is over.
export function watchPrint(onPrint) {
  const [before, after] = [() => onPrint(true), () => onPrint(false)];
  window.addEventListener('beforeprint', before);
  window.addEventListener('afterprint', after);
  return () => {
    window.removeEventListener('beforeprint', before);
    window.removeEventListener('afterprint', after);
  };
}

// A word to somebody who looks elsewhere, if they asked for it.
export const isElsewhere = () => !document.hasFocus();

export function notify(title, text) {
  if (globalThis.Notification?.permission !== 'granted' || !isElsewhere()) return;
  let notice;
  try {
    notice = new Notification(title, { body: text, tag: title });
  } catch {
    // Some browsers allow them only to workers in the background. The notice in the page is still there.
    return;
  }
  notice.onclick = () => {
    window.focus();
    notice.close();
  };
}

export const notifications = () => globalThis.Notification?.permission ?? 'unsupported';
export const askNotifications = async () => (await globalThis.Notification?.requestPermission()) ?? 'unsupported';

export function focus(selector) {
  document.querySelector(selector)?.focus();
}

// A browser that does not give its clipboard away has said so to the person.
// Whether it is there now; a page that is not reached safely has no clipboard.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export const leave = () => document.activeElement?.blur();

// Does what a button or a fold of a window does; where that is folded away, it is unfolded. Answers whether it is there.
export function press(id, act) {
  const found = document.getElementById(id)?.querySelector(`[data-act="${act}"]`);
  if (!found || found.disabled) return false;
  found.closest('.side[data-unfolded=false]')?.querySelector('.unfold').click();
  found.click();
  // After what is drawn because of it, so that a field that came with it keeps the keyboard.
  if (found.matches('summary')) requestAnimationFrame(() => found.focus());
  return true;
}

// Focus goes into a window that came to the front, unless it is inside already.
export function focusWindow(id) {
  const window = document.getElementById(id);
  if (!window || (window !== document.activeElement && window.contains(document.activeElement))) return;
  const target = window.querySelector('[data-focus], .cm-content, .xterm-helper-textarea') ?? window;
  target.focus({ preventScroll: true });
}

// Scrolls what has this id into its list's view, as soon as it is drawn; nothing else moves.
export const bring = (id) => requestAnimationFrame(() => document.getElementById(id)?.scrollIntoView({ block: 'nearest' }));

export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing loses a convenience, not state of record.
  }
}

export function recall(key) {
  try {
    return localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

// Reports the canvas's size now and whenever it changes.
export function watchSize(element, onSize) {
  const observer = new ResizeObserver(([entry]) => onSize(entry.contentRect.width, entry.contentRect.height));
  observer.observe(element);
  return () => observer.disconnect();
}

// A keyboard of other letters has the same keys for what is not writing.
const letter = ({ key, code, ctrlKey, metaKey }) =>
  (ctrlKey || metaKey) && key.length === 1 && key > '~' && code.startsWith('Key') ? code.slice(3).toLowerCase() : key;

// Reports keys that mean something wherever the focus is; `onKey` says whether it took the key.
export function watchKeys(onKey) {
  const listen = (event) => {
    const typing = event.target.closest?.('input, textarea, select, [contenteditable="true"]') != null;
    const name = [event.ctrlKey || event.metaKey ? 'Ctrl' : '', event.altKey ? 'Alt' : '', event.shiftKey ? 'Shift' : '', letter(event)];
    if (onKey(name.filter(Boolean).join(' '), typing)) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  document.addEventListener('keydown', listen, true);
  return () => document.removeEventListener('keydown', listen, true);
}

// A text area as high as its text.
export function grow(element) {
  element.style.height = 'auto';
  element.style.height = `${element.scrollHeight}px`;
}

// The words before the caret of a field.
export function before(id) {
  const { value = '', selectionEnd } = document.getElementById(id) ?? {};
  return value.slice(0, selectionEnd ?? value.length);
}

// Gives a field other words, with the caret between them.
export function write(id, before, after) {
  const field = document.getElementById(id);
  field.value = before + after;
  field.setSelectionRange(before.length, before.length);
}

// --- files ----------------------------------------------------------------------------------------------------------

// Files, or a whole folder, of which the browser tells every file with its path.
export function chooseFiles(onFile, folder) {
  const input = document.createElement('input');
  input.type = 'file';
  input.multiple = true;
  input.webkitdirectory = folder;
  input.onchange = () => {
    const files = [...input.files];
    if (!folder) files.forEach((file) => onFile(file.name, file));
    else if (files.length > 0) onFile(files[0].webkitRelativePath.split('/')[0], files.map((file) => [file.webkitRelativePath, file]));
  };
  input.click();
}

// Everything in a folder that was dropped: paths that begin with its own name, folders without a file.
async function inside(entry, path) {
  if (entry.isFile) return [[path, await new Promise((found, refuse) => entry.file(found, refuse))]];
  const reader = entry.createReader();
  const found = [[path]];
  // A browser gives them in parts, and an empty one after the last.
  for (;;) {
    const part = await new Promise((read, refuse) => reader.readEntries(read, refuse));
    if (part.length === 0) return found;
    for (const one of part) found.push(...(await inside(one, `${path}/${one.name}`)));
  }
}

const MOVED = 'application/x-choir-path';

// Lets what has a path be dragged onto what is a folder; `onMove` is told both.
export function watchMoves(element, onMove) {
  const folder = (event) => (event.dataTransfer.types.includes(MOVED) ? event.target.closest('[data-folder]') : null);
  const aim = (to) => {
    element.querySelectorAll('[data-aim]').forEach((one) => one !== to && delete one.dataset.aim);
    if (to) to.dataset.aim = '';
  };
  const heard = {
    dragstart: (event) => {
      const path = event.target.closest?.('[data-path]')?.dataset.path;
      if (path) event.dataTransfer.setData(MOVED, path);
    },
    dragover: (event) => {
      const to = folder(event);
      if (to) event.preventDefault();
      aim(to);
    },
    dragend: () => aim(),
    drop: (event) => {
      const to = folder(event);
      aim();
      if (!to) return;
      event.preventDefault();
      onMove(event.dataTransfer.getData(MOVED), to.dataset.folder);
    },
  };
  for (const [name, listen] of Object.entries(heard)) element.addEventListener(name, listen);
  return () => {
    for (const [name, listen] of Object.entries(heard)) element.removeEventListener(name, listen);
  };
}

// Files dropped on an element or pasted into it; while something hovers, the element says so to its stylesheet. A folder comes
// with the paths of all that is in it.
export function watchDrop(element, onFile) {
  const over = (event) => {
    if (event.dataTransfer.types.includes(MOVED)) return;
    event.preventDefault();
    element.dataset.drop = '';
  };
  const leave = () => delete element.dataset.drop;
  const drop = (event) => {
    if (event.dataTransfer.types.includes(MOVED)) return;
    event.preventDefault();
    leave();
    take(event.dataTransfer, onFile);
  };
  const paste = (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length > 0) event.preventDefault();
    files.forEach((file) => onFile(file.name, file));
  };
  const heard = { dragover: over, dragleave: leave, drop, paste };
  for (const [name, listen] of Object.entries(heard)) element.addEventListener(name, listen);
  return () => {
    for (const [name, listen] of Object.entries(heard)) element.removeEventListener(name, listen);
  };
}

// What was dropped: files, and folders with the paths of all that is in them.
function take({ items, files }, onFile) {
  // Both have to be asked for before this returns; what they name may be read later.
  const folders = [...items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
  const plain = [...files].filter(({ name }) => !folders.some((folder) => folder.name === name));
  plain.forEach((file) => onFile(file.name, file));
  // One that cannot be read to its end is not begun.
  folders.forEach((folder) => inside(folder, folder.name).then((all) => onFile(folder.name, all), () => onFile(folder.name, [])));
}

// Pictures that a text takes; it would take any other file as letters.
const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

// Files dropped where nothing else takes them: without this the browser would leave the desktop to show them. `element` is
// where they go, and says so.
export function watchStrays(element, onFile) {
  const brings = ({ dataTransfer }) => dataTransfer.types.includes('Files');
  const isText = ({ target }) => !!target.closest?.('.cm-content[contenteditable=true]');
  const isPictures = ({ dataTransfer }) => [...dataTransfer.items].every(({ kind, type }) => kind === 'file' && PICTURE.test(type));
  const leave = () => delete element.dataset.drop;
  const gather = (event) => {
    event.preventDefault();
    take(event.dataTransfer, onFile);
  };
  const heard = [
    ['dragover', (event) => {
      if (!brings(event)) return;
      const stray = !event.defaultPrevented && !(isText(event) && isPictures(event));
      if (!event.defaultPrevented) event.preventDefault();
      if (stray) element.dataset.drop = '';
      else if (!element.contains(event.target)) leave();
    }],
    ['dragleave', (event) => event.relatedTarget ?? leave()],
    // Before the text takes them.
    ['drop', (event) => {
      leave();
      if (!brings(event) || !isText(event) || isPictures(event)) return;
      event.stopPropagation();
      gather(event);
    }, true],
    ['drop', (event) => brings(event) && !event.defaultPrevented && gather(event)],
  ];
  for (const one of heard) document.addEventListener(...one);
  return () => {
    for (const one of heard) document.removeEventListener(...one);
  };
}

// The bytes of a file, to be shown as a picture.
export async function bytes(path) {
  const answer = await fetch(path, { credentials: 'same-origin' });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.blob();
}

// Gives a text to the person as a file.
export const save = (name, text) => give(name, new Blob([text], { type: 'text/markdown' }));

// Not every browser has taken the bytes when the click returns.
const GIVEN_MS = 10_000;

function give(name, blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), GIVEN_MS);
}

// An address under which this page, and only this page, can show a picture: whatever the bytes are, they are not run.
export const picture = (blob, type) => URL.createObjectURL(new Blob([blob], { type }));
export const forget = (address) => URL.revokeObjectURL(address);

// --- dragging -------------------------------------------------------------------------------------------------------

// A hand that shakes this little means a click.
const DRAG_PX = 4;
const SNAP_PX = 12;
const WIDTH_MIN = 320;
// What the buttons of a bar take.
const BUTTONS = 110;
const HEIGHT_MIN = 200;

// Lets a window be dragged by its bar and resized by its eight handles. While the pointer is down only this window's own
// style changes; the outcome is told once, at the end.
export function dragWindow(element, onRect, onShape) {
  const start = (event) => {
    const handle = event.target.closest('[data-edge]');
    const bar = event.target.closest('[data-bar]');
    if (event.button !== 0 || !(handle || bar) || event.target.closest('button') || narrow()) return;
    if (bar && element.dataset.shape !== 'normal' && event.pointerType === 'touch') return;
    drag(element, event, handle?.dataset.edge ?? '', onRect, onShape);
  };
  const toggle = (event) => {
    if (event.target.closest('[data-bar]') && !event.target.closest('button') && !narrow()) {
      onShape(element.dataset.shape === 'normal' ? 'maximised' : 'normal');
    }
  };
  element.addEventListener('pointerdown', start);
  element.addEventListener('dblclick', toggle);
  return () => {
    element.removeEventListener('pointerdown', start);
    element.removeEventListener('dblclick', toggle);
  };
}

const narrow = () => matchMedia('(max-width: 760px)').matches;

function drag(element, down, edge, onRect, onShape) {
  const canvas = element.parentElement.getBoundingClientRect();
  const from = element.getBoundingClientRect();
  const before = { x: from.left - canvas.left, y: from.top - canvas.top, width: from.width, height: from.height };
  const preview = element.parentElement.querySelector('.snap');
  const { left, top, width, height } = element.style;
  const { shape: shaped } = element.dataset;
  let after;
  let shape = '';

  const move = (event) => {
    const dx = event.clientX - down.clientX;
    const dy = event.clientY - down.clientY;
    if (!after && Math.hypot(dx, dy) < DRAG_PX) return;
    // Only now: a captured pointer would take clicks and double clicks away from the bar.
    if (!after) element.setPointerCapture(down.pointerId);
    if (!after && shaped !== 'normal') {
      Object.assign(before, loosened(element, down, from, canvas));
      element.dataset.shape = 'normal';
    }
    element.classList.add('dragged');
    after = edge ? resized(before, edge, dx, dy, canvas) : moved(before, dx, dy, canvas);
    shape = edge ? '' : snap(event, canvas);
    preview.dataset.shape = shape;
    element.style.left = `${after.x}px`;
    element.style.top = `${after.y}px`;
    element.style.width = `${after.width}px`;
    element.style.height = `${after.height}px`;
  };
  const end = (event) => {
    window.removeEventListener('pointermove', move);
    window.removeEventListener('pointerup', end);
    window.removeEventListener('pointercancel', end);
    element.classList.remove('dragged');
    preview.dataset.shape = '';
    if (!after) return;
    if (shape && event.type === 'pointerup') {
      // What the page wrote on the window stands there again: it writes only what has changed for it.
      Object.assign(element.style, { left, top, width, height });
      element.dataset.shape = shaped;
      onShape(shape);
    } else onRect(Math.round(after.x), Math.round(after.y), Math.round(after.width), Math.round(after.height));
  };
  window.addEventListener('pointermove', move);
  window.addEventListener('pointerup', end);
  window.addEventListener('pointercancel', end);
}

// A snapped window that is dragged away has its own size again, and the hand is at the same part of its bar.
function loosened(element, down, from, canvas) {
  const [width, height] = [element.style.width, element.style.height].map(parseFloat);
  const part = (down.clientX - from.left) / from.width;
  return { x: down.clientX - canvas.left - width * part, y: from.top - canvas.top, width, height };
}

// A window hangs over at the left only: its buttons stand at the right end of its bar.
function moved(rect, dx, dy, canvas) {
  const reach = Math.max(rect.width / 3, Math.min(BUTTONS, rect.width));
  return {
    ...rect,
    x: Math.min(Math.max(rect.x + dx, reach - rect.width), Math.max(canvas.width - rect.width, 0)),
    y: Math.min(Math.max(rect.y + dy, 0), Math.max(canvas.height - rect.height, 0)),
  };
}

function resized(rect, edge, dx, dy, canvas) {
  let { x, y, width, height } = rect;
  if (edge.includes('e')) width = Math.min(Math.max(width + dx, WIDTH_MIN), canvas.width - x);
  if (edge.includes('s')) height = Math.min(Math.max(height + dy, HEIGHT_MIN), canvas.height - y);
  if (edge.includes('w')) {
    const right = x + width;
    x = Math.min(Math.max(x + dx, 0), right - WIDTH_MIN);
    width = right - x;
  }
  if (edge.includes('n')) {
    const bottom = y + height;
    y = Math.min(Math.max(y + dy, 0), bottom - HEIGHT_MIN);
    height = bottom - y;
  }
  return { x, y, width, height };
}

function snap(event, canvas) {
  if (event.clientX <= canvas.left + SNAP_PX) return 'left_half';
  if (event.clientX >= canvas.right - SNAP_PX) return 'right_half';
  if (event.clientY <= canvas.top + SNAP_PX / 2) return 'maximised';
  return '';
}

// --- apps that are loaded when they are first opened -----------------------------------------------------------------

// An app that comes later than the focus of its window takes it then, if nobody else did meanwhile.
function takeFocus(element) {
  const window = element.closest('.window');
  if (window && window === document.activeElement) focusWindow(window.id);
}

export async function editor(element, id, long, onState) {
  const { openEditor, openReader } = await import('./editor.js');
  // The window may show something else by now; nobody would see what is opened, and the document may be gone.
  if (!element.isConnected) return { close: () => {} };
  const opened = await (long ? openReader : openEditor)(element, id, onState);
  takeFocus(element);
  return opened;
}

export async function version(element, id, number, against) {
  const { openVersion } = await import('./editor.js');
  return openVersion(element, id, number, against);
}

export async function terminal(element, id, onState) {
  const { openTerminal } = await import('./terminal.js');
  const opened = openTerminal(element, id, onState);
  takeFocus(element);
  return opened;
}
