// The document editor: CodeMirror with Markdown shown in place. Nothing here makes HTML of a document.

import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { markdown, markdownKeymap } from '@codemirror/lang-markdown';
import { unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState } from '@codemirror/state';
import { EditorView, drawSelection, keymap, placeholder } from '@codemirror/view';
import { GFM } from '@lezer/markdown';
import { StyleModule } from 'style-mod';
import { request } from './bridge.js';
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

// Opens the editor of a document in an element; `onState` is told how it stands, as JSON.
export function openEditor(parent, id, onState) {
  const view = new EditorView({ parent, state: EditorState.create({ extensions: extensions() }) });
  let counted = 0;
  const say = (state) => {
    // Not on every key: counting a long text takes longer than a key may.
    if (state.phase !== 'editing') counted = words(view.state.doc);
    onState(JSON.stringify({ ...state, words: counted }));
  };
  const sync = new Sync(view, id, say);
  sync.open();
  return {
    refresh: (version) => sync.refresh(version),
    text: () => view.state.doc.toString(),
    close: () => {
      sync.close();
      view.destroy();
    },
  };
}

// Shows one version of a document, with what it changed; nothing in it can be edited.
export async function openVersion(parent, id, number) {
  const path = `/api/documents/${encodeURIComponent(id)}/versions`;
  const [now, before] = await Promise.all([number, Math.max(number - 1, 1)].map((version) => read(`${path}/${version}`)));
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: now,
      extensions: [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        markdown({ extensions: GFM, completeHTMLTags: false }),
        preview,
        unifiedMergeView({ original: before, mergeControls: false, gutter: false }),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': `Version ${number}`, tabindex: '0' }),
      ],
    }),
  });
  return { content: now, close: () => view.destroy() };
}

async function read(path) {
  const { status, text } = await request('GET', path);
  if (status !== 200) throw new Error(`status ${status}`);
  return JSON.parse(text).content;
}

function extensions() {
  return [
    history(),
    drawSelection(),
    search({ top: true }),
    highlightSelectionMatches(),
    keymap.of([...markdownKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
    markdown({ extensions: GFM, completeHTMLTags: false }),
    preview,
    placeholder('Write, or ask for something below'),
    EditorView.lineWrapping,
    Sync.listener,
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
