// The document editor: CodeMirror over a replica of the document, with Markdown shown in place. Nothing here makes HTML of
// a document.

import { defaultKeymap } from '@codemirror/commands';
import { markdown, markdownKeymap } from '@codemirror/lang-markdown';
import { syntaxTree } from '@codemirror/language';
import { getChunks, unifiedMergeView } from '@codemirror/merge';
import { getSearchQuery, highlightSelectionMatches, openSearchPanel, search, searchKeymap, setSearchQuery } from '@codemirror/search';
import { Compartment, EditorSelection, EditorState } from '@codemirror/state';
import { EditorView, drawSelection, keymap, placeholder } from '@codemirror/view';
import { GFM } from '@lezer/markdown';
import { StyleModule } from 'style-mod';
import { yCollab, yUndoManagerKeymap } from 'y-codemirror.next';
import { UndoManager } from 'yjs';
import { blocks } from './blocks.js';
import { request, upload } from './bridge.js';
import { characters, marks, positions, setAuthors, setMarks } from './marks.js';
import { presence } from './presence.js';
import { preview } from './preview.js';
import { Sync } from './sync.js';

// The page's policy allows no style elements; sheets that a script constructs are allowed and do the same.
const mounted = new WeakSet();
StyleModule.mount = (root, modules) => {
  for (const module of [modules].flat()) {
    if (mounted.has(module)) continue;
    mounted.add(module);
    const sheet = new CSSStyleSheet();
    // In a layer, so that the desktop's own stylesheet has the last word although it comes first.
    sheet.replaceSync(`@layer codemirror { ${module.getRules()} }`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  }
};

// Figures of the text follow the keys at this distance: counting a long text takes longer than a key may.
const FIGURES_AFTER_MS = 250;
const HEADINGS_MAX = 200;
// What is brought into view has so much around it.
const REVEALED_PX = 40;

// Opens the editor of a document in an element; `onState` is told how it stands, as JSON.
export function openEditor(parent, id, onState) {
  const path = `/api/documents/${encodeURIComponent(id)}`;
  const state = { phase: 'loading', version: 0, message: '', words: null, outline: [], selection: null, mark: null, notice: null };
  let writing;
  let timer;
  let locked = true;
  const say = () => onState(JSON.stringify(state));
  const stands = (now) => {
    const same = now.phase === state.phase && now.version === state.version && now.message === state.message;
    Object.assign(state, now);
    // Said while a message of the server is dealt with, never while the editor deals with a key.
    if (locked && sync.synced) {
      locked = false;
      figures();
      view.dispatch({ effects: editable.reconfigure(locks(false)) });
    }
    if (!same) say();
  };
  const look = async () => (await request('GET', path).catch(() => ({}))).status;
  // Something was erased: the text, and what could be undone in it, begin with what is left.
  const anew = () => {
    const old = sync;
    sync = new Sync(id, stands, look, anew);
    locked = true;
    view.setState(begun());
    old.close();
    join();
  };
  let sync = new Sync(id, stands, look, anew);
  const editable = new Compartment();
  const figures = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      Object.assign(state, { words: words(view.state.doc), outline: outline(view.state), selection: selected(view.state) });
      say();
    }, FIGURES_AFTER_MS);
  };
  const onMark = (mark) => {
    say(Object.assign(state, { mark }));
    state.mark = null;
  };
  const tell = (notice) => {
    say(Object.assign(state, { notice }));
    state.notice = null;
  };
  const begun = () =>
    EditorState.create({
      extensions: [
        editable.of(locks(true)),
        pictures(tell),
        yCollab(sync.text, null, { undoManager: new UndoManager(sync.text) }),
        presence(sync, () => writing),
        marks(onMark),
        writable(),
        EditorView.updateListener.of((update) => (update.docChanged || update.selectionSet) && figures()),
      ],
    });
  const view = new EditorView({ parent, state: begun() });
  const join = () => {
    sync.awareness.setLocalState({ user: { name: 'Somebody else' }, cursor: null });
    sync.open();
  };
  join();
  const show = (from, to) => {
    const at = positions(view.state.doc, [from, to]);
    const range = EditorSelection.range(at.get(from), at.get(to));
    view.dispatch({ selection: range, effects: EditorView.scrollIntoView(range, { y: 'center' }) });
    view.focus();
  };
  return {
    retry: () => sync.again(),
    text: () => view.state.doc.toString(),
    // Marks and authors as JSON; places are in characters.
    mark: (json) => view.dispatch({ effects: setMarks.of(placed(view.state.doc, JSON.parse(json))) }),
    authors: (json) => view.dispatch({ effects: setAuthors.of({ pieces: JSON.parse(json), now: Date.now() }) }),
    writes: (role) => (writing = role || undefined),
    show,
    reveal: (at) => {
      const place = positions(view.state.doc, [at]).get(at);
      view.dispatch({ effects: EditorView.scrollIntoView(place, { y: 'nearest', yMargin: REVEALED_PX }) });
    },
    find: () => openSearchPanel(view),
    line: (at) => {
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'start', yMargin: 24 }) });
      view.focus();
    },
    close: () => {
      clearTimeout(timer);
      sync.close();
      view.destroy();
    },
  };
}

// A document that is too long for a replica in a page is shown for reading.
export async function openReader(parent, id, onState) {
  const state = { phase: 'loading', version: 0, message: '', words: null };
  const say = (now) => onState(JSON.stringify(Object.assign(state, now)));
  say({});
  const content = await read(`/api/documents/${encodeURIComponent(id)}`);
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: content,
      extensions: [
        locks(true),
        base(),
        finding,
        keymap.of(searchKeymap),
        EditorView.contentAttributes.of({ 'aria-label': 'Document', 'aria-readonly': 'true', role: 'textbox', tabindex: '0' }),
      ],
    }),
  });
  say({ phase: 'reading', words: words(view.state.doc), message: 'This document is too long to be edited here. It can be read, searched and saved.' });
  const nothing = () => {};
  return {
    retry: nothing,
    mark: nothing,
    authors: nothing,
    writes: nothing,
    reveal: nothing,
    text: () => view.state.doc.toString(),
    show: (from) => view.dispatch({ effects: EditorView.scrollIntoView(positions(view.state.doc, [from]).get(from)) }),
    find: () => openSearchPanel(view),
    line: (at) => view.dispatch({ effects: EditorView.scrollIntoView(at, { y: 'start' }) }),
    close: () => view.destroy(),
  };
}

// Where pictures go that are pasted or dropped into a text.
const PICTURES = 'uploads';
// What takes longer than this is told about.
const SLOW_MS = 1_000;
const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

// A picture that is pasted or dropped is kept in the workspace, and the text names it.
function pictures(tell) {
  // Places in the text that wait for their picture. They move with the words around them: people go on writing meanwhile.
  const places = new Set();
  const keep = async (view, at, file) => {
    const place = { at };
    places.add(place);
    const slow = setTimeout(() => tell(`“${file.name}” is on its way. It will stand where you put it.`), SLOW_MS);
    try {
      const words = await keepPicture(file);
      // Whoever has gone on elsewhere stays there.
      const follows = view.state.selection.main.head === place.at;
      const selection = follows ? { anchor: place.at + words.length } : undefined;
      view.dispatch({ changes: { from: place.at, insert: words }, selection, userEvent: 'input.paste' });
    } catch (error) {
      tell(`“${file.name}” was not kept: ${error.message}.`);
    } finally {
      clearTimeout(slow);
      places.delete(place);
    }
  };
  const take = (view, at, data) => {
    const files = [...(data?.files ?? [])].filter((file) => PICTURE.test(file.type));
    if (view.state.readOnly || files.length === 0) return false;
    for (const file of files) keep(view, at, file);
    return true;
  };
  return [
    EditorView.updateListener.of(({ changes }) => {
      for (const place of places) place.at = changes.mapPos(place.at, 1);
    }),
    EditorView.domEventHandlers({
      paste: (event, view) => take(view, view.state.selection.main.head, event.clipboardData),
      drop: (event, view) => take(view, view.posAtCoords({ x: event.clientX, y: event.clientY }) ?? view.state.doc.length, event.dataTransfer),
    }),
  ];
}

// Keeps a picture and gives the words that show it.
async function keepPicture(file) {
  // What comes from a clipboard is always called the same; the hour tells them apart.
  const ending = PICTURE.exec(file.type)[1];
  const name = file.name.replace(/\.[^.]*$/, '').replace(/[^\p{L}\p{N}-]+/gu, '-') || 'picture';
  const path = `${PICTURES}/${name}-${Date.now().toString(36)}.${ending}`;
  const { status } = await upload(`/api/files?path=${encodeURIComponent(path)}`, file, () => {});
  if (status >= 300) throw new Error(`the computer answered ${status}`);
  return `![${name}](${path})`;
}

// What find and replace says of itself, in the desktop's own words.
const WORDS = {
  next: 'Next',
  previous: 'Previous',
  all: 'All',
  'match case': 'Match case',
  regexp: 'Pattern',
  'by word': 'Whole words',
  replace: 'Replace',
  'replace all': 'Replace all',
};

// A field whose words are nowhere in the text says so.
const unfound = EditorView.updateListener.of(({ view, state, docChanged, transactions }) => {
  const field = view.dom.querySelector('.cm-search [main-field]');
  const isNew = docChanged || transactions.some(({ effects }) => effects.some((effect) => effect.is(setSearchQuery)));
  if (!field || !isNew) return;
  const query = getSearchQuery(state);
  const none = query.search !== '' && (!query.valid || query.getCursor(state).next().done === true);
  field.setAttribute('aria-invalid', String(none));
  field.closest('.cm-search').dataset.none = none ? 'Nothing found' : '';
});

const finding = [search({ top: true }), unfound];

// Until the text is there, keys would go to the wrong place.
const locks = (locked) => [EditorState.readOnly.of(locked), EditorView.editable.of(!locked)];

// A proposal says which words it is about and where they were; they are looked for nearest to that place.
function placed(doc, list) {
  let text;
  return list.flatMap((mark) => {
    if (mark.old === undefined) return [mark];
    text ??= doc.toString();
    const near = positions(doc, [mark.from]).get(mark.from);
    const places = [text.indexOf(mark.old, near), text.lastIndexOf(mark.old, near)].filter((place) => place >= 0);
    if (mark.old === '' || places.length === 0) return [];
    const [at] = places.sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
    const from = characters(doc, at);
    return [{ ...mark, from, to: from + [...mark.old].length }];
  });
}

// Shows one version of a document, with what changed since another; nothing in it can be edited.
export async function openVersion(parent, id, number, against) {
  const path = `/api/documents/${encodeURIComponent(id)}/versions`;
  const [now, before] = await Promise.all([number, Math.max(against, 1)].map((version) => read(`${path}/${version}`)));
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: ended(now),
      extensions: [
        locks(true),
        base(),
        unifiedMergeView({ original: ended(before), mergeControls: false, gutter: false }),
        EditorView.contentAttributes.of({ 'aria-label': `Version ${number}`, tabindex: '0' }),
      ],
    }),
  });
  const [change] = getChunks(view.state)?.chunks ?? [];
  if (change) view.dispatch({ effects: EditorView.scrollIntoView(change.fromB, { y: 'start', yMargin: REVEALED_PX }) });
  return { content: now, close: () => view.destroy() };
}

// A last line without its end is the same line as with it: what comes after it changes nothing of it.
const ended = (text) => (text.endsWith('\n') ? text : `${text}\n`);

async function read(path) {
  const { status, text } = await request('GET', path);
  if (status !== 200) throw new Error(`status ${status}`);
  return JSON.parse(text).content;
}

// What every text has, editable or not. Only "\n" ends a line: the replica counts every other character as one of the text.
function base() {
  return [EditorState.phrases.of(WORDS), EditorState.lineSeparator.of('\n'), markdown({ extensions: GFM, completeHTMLTags: false }), preview, EditorView.lineWrapping, EditorView.perLineTextDirection.of(true)];
}

function writable() {
  return [
    base(),
    blocks,
    drawSelection(),
    finding,
    highlightSelectionMatches(),
    keymap.of([...yUndoManagerKeymap, ...markdownKeymap, ...defaultKeymap, ...searchKeymap]),
    placeholder('Write, or ask for something below'),
    EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, '\n')),
    EditorView.contentAttributes.of({ 'aria-label': 'Document', spellcheck: 'true', tabindex: '0', autocapitalize: 'sentences' }),
  ];
}

// Counted on the text as it is; a very long document is estimated.
const COUNT_CHARACTERS_MAX = 400_000;

function words(doc) {
  if (doc.length > COUNT_CHARACTERS_MAX) return Math.round(doc.length / 6);
  let count = 0;
  for (const line of doc.iterLines()) count += line.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
  return count;
}

function outline(state) {
  const found = [];
  syntaxTree(state).iterate({
    enter: (node) => {
      const heading = /^(?:ATX|Setext)Heading(\d)$/.exec(node.name);
      if (heading && found.length < HEADINGS_MAX) {
        const text = state.sliceDoc(node.from, node.to).split('\n')[0].replace(/^#+\s*|\s*#+$/g, '').replace(/[*_`]/g, '');
        found.push({ level: Number(heading[1]), text, at: node.from });
      }
      return node.name === 'Document';
    },
  });
  return found;
}

function selected(state) {
  const { from, to } = state.selection.main;
  if (from === to) return null;
  return { from: characters(state.doc, from), to: characters(state.doc, to) };
}
