// Tables and pictures shown in place of their Markdown while the caret is elsewhere. Elements are made one by one and hold
// text; a picture comes from the workspace, never from an address that a document names.

import { syntaxTree } from '@codemirror/language';
import { StateField } from '@codemirror/state';
import { Decoration, EditorView, WidgetType } from '@codemirror/view';
import { read } from './table.js';

// In a longer text the Markdown itself is shown: looking through all of it on every key takes too long.
const CHARACTERS_MAX = 400_000;
const PICTURE = /\.(png|jpe?g|gif|webp)$/i;
const TYPES = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' };

class Table extends WidgetType {
  constructor(source) {
    super();
    this.source = source;
  }

  eq(other) {
    return other.source === this.source;
  }

  toDOM() {
    const table = document.createElement('table');
    table.className = 'md-grid';
    const { head, rows, align } = read(this.source);
    table.createTHead().append(row('th', head, align));
    const body = table.createTBody();
    for (const cells of rows) body.append(row('td', cells, align));
    const around = document.createElement('div');
    around.className = 'md-grid-around';
    around.append(table);
    return around;
  }

  ignoreEvent() {
    return false;
  }
}

function row(kind, cells, align) {
  const made = document.createElement('tr');
  cells.forEach((text, index) => {
    const cell = document.createElement(kind);
    if (align[index]) cell.dataset.align = align[index];
    inline(cell, text);
    made.append(cell);
  });
  return made;
}

// Strong, emphasis and code, no deeper: a cell is short.
function inline(parent, text) {
  for (const part of text.split(/(\*\*[^*]+\*\*|\*[^*]+\*|`[^`]+`)/)) {
    const found = /^(\*\*|\*|`)(.+)\1$/.exec(part);
    if (!found) parent.append(part);
    else {
      const element = document.createElement({ '**': 'strong', '*': 'em', '`': 'code' }[found[1]]);
      element.textContent = found[2];
      parent.append(element);
    }
  }
}

class Picture extends WidgetType {
  constructor(path, words) {
    super();
    this.path = path;
    this.words = words;
  }

  eq(other) {
    return other.path === this.path && other.words === this.words;
  }

  toDOM(view) {
    const around = document.createElement('span');
    around.className = 'md-picture';
    this.load(around).finally(() => view.requestMeasure());
    return around;
  }

  async load(around) {
    const type = TYPES[this.path.split('.').pop().toLowerCase()];
    const answer = await fetch(`/api/files?path=${encodeURIComponent(this.path)}`, { credentials: 'same-origin' }).catch(() => undefined);
    if (!answer?.ok || !type) {
      around.textContent = `${this.words || 'Picture'}: ${this.path} is not in the workspace`;
      return;
    }
    const image = document.createElement('img');
    image.alt = this.words;
    // Decoded as a picture and nothing else, whatever the bytes are.
    image.src = URL.createObjectURL(new Blob([await answer.blob()], { type }));
    image.onload = () => URL.revokeObjectURL(image.src);
    around.replaceChildren(image);
  }
}

function find(state) {
  const found = [];
  if (state.doc.length > CHARACTERS_MAX) return found;
  syntaxTree(state).iterate({
    enter: (node) => {
      if (node.name === 'Table') found.push({ kind: 'table', from: node.from, to: node.to });
      if (node.name === 'Image') {
        const url = node.node.getChild('URL');
        const path = url ? state.sliceDoc(url.from, url.to) : '';
        if (PICTURE.test(path) && !/^[a-z][a-z0-9+.-]*:|^\/\//i.test(path)) {
          found.push({ kind: 'picture', from: node.from, to: node.to, path: path.replace(/^\.?\//, '') });
        }
      }
      return !['Table', 'FencedCode', 'CodeBlock', 'Image'].includes(node.name);
    },
  });
  return found;
}

function draw(state, found) {
  const active = ({ from, to }) => !state.readOnly && state.selection.ranges.some((range) => range.from <= to && range.to >= from);
  const made = found
    .filter((one) => !active(one))
    .map((one) =>
      one.kind === 'table'
        ? Decoration.replace({ widget: new Table(state.sliceDoc(one.from, one.to)), block: true }).range(one.from, one.to)
        : Decoration.replace({ widget: new Picture(one.path, /^!\[([^\]]*)/.exec(state.sliceDoc(one.from, one.to))?.[1] ?? '') }).range(one.from, one.to),
    );
  return Decoration.set(made, true);
}

export const blocks = StateField.define({
  create: (state) => {
    const found = find(state);
    return { found, tree: syntaxTree(state), drawn: draw(state, found) };
  },
  update(value, transaction) {
    const tree = syntaxTree(transaction.state);
    if (!transaction.docChanged && !transaction.selection && tree === value.tree) return value;
    const found = transaction.docChanged || tree !== value.tree ? find(transaction.state) : value.found;
    if (found.length === 0 && value.found.length === 0) return { ...value, found, tree };
    return { found, tree, drawn: draw(transaction.state, found) };
  },
  provide: (field) => EditorView.decorations.from(field, (value) => value.drawn),
});
