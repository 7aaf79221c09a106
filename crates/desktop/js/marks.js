// What is known of places in the text: evidence, quotations without any, changes that wait, and who wrote a line. Places
// come from the server in characters, are kept as positions, and move with the text.

import { StateEffect, StateField } from '@codemirror/state';
import { Decoration, EditorView } from '@codemirror/view';

// Lines written so recently are tinted, unless that is most of the text: then nothing stands out.
const NEW_MS = 20_000;
const NEW_SHARE_MAX = 0.5;
const KINDS = new Set(['citation', 'unsupported', 'proposal', 'thread']);

export const setMarks = StateEffect.define();
export const setAuthors = StateEffect.define();

const kept = (effect, make) =>
  StateField.define({
    create: () => Decoration.none,
    update(value, transaction) {
      let now = value.map(transaction.changes);
      for (const one of transaction.effects) if (one.is(effect)) now = make(one.value, transaction.state.doc);
      return now;
    },
    provide: (field) => EditorView.decorations.from(field),
  });

const marked = kept(setMarks, (marks, doc) => {
  const at = positions(doc, marks.flatMap(({ from, to }) => [from, to]));
  const found = marks
    .filter(({ kind, from, to }) => KINDS.has(kind) && at.get(to) > at.get(from))
    .map(({ kind, key, from, to }) => Decoration.mark({ class: `mark-${kind}`, attributes: { 'data-mark': kind, 'data-key': String(key) } }).range(at.get(from), at.get(to)));
  return Decoration.set(found, true);
});

const authored = kept(setAuthors, ({ pieces, now }, doc) => {
  const at = positions(doc, pieces.flatMap(({ from, to }) => [from, to]));
  const lines = new Map();
  for (const { from, to, author, at_ms } of pieces) {
    if (!/^[a-z]+$/.test(author) || author === 'person') continue;
    const last = doc.lineAt(Math.max(at.get(to) - 1, at.get(from))).number;
    for (let number = doc.lineAt(at.get(from)).number; number <= last; number++) {
      if (doc.line(number).length > 0) lines.set(number, { author, fresh: now - at_ms < NEW_MS });
    }
  }
  const few = [...lines.values()].filter(({ fresh }) => fresh).length <= lines.size * NEW_SHARE_MAX;
  const drawn = [...lines].map(([number, { author, fresh }]) => {
    const name = `by by-${author}${fresh && few ? ' new' : ''}`;
    return Decoration.line({ class: name }).range(doc.line(number).from);
  });
  return Decoration.set(drawn, true);
});

// A click on a mark is told, and still places the caret.
export const marks = (onMark) => [
  marked,
  authored,
  EditorView.domEventHandlers({
    click: (event) => {
      const found = event.target.closest?.('[data-mark]');
      if (found && !(event.ctrlKey || event.metaKey)) onMark({ kind: found.dataset.mark, key: found.dataset.key });
    },
  }),
];

// Characters as the server counts them, as positions of the editor, which counts what lies beyond the first plane twice.
export function positions(doc, characters) {
  const wanted = [...new Set(characters)].sort((a, b) => a - b);
  const found = new Map();
  let count = 0;
  let position = 0;
  let next = 0;
  for (const piece of doc.iter()) {
    if (next === wanted.length) break;
    for (let index = 0; index <= piece.length && next < wanted.length; ) {
      while (next < wanted.length && wanted[next] === count) found.set(wanted[next++], position + index);
      if (index === piece.length) break;
      index += piece.codePointAt(index) > 0xffff ? 2 : 1;
      count += 1;
    }
    position += piece.length;
  }
  for (; next < wanted.length; next++) found.set(wanted[next], doc.length);
  return found;
}

// The other way round.
export function characters(doc, position) {
  let count = 0;
  for (const piece of doc.iterRange(0, position)) for (const _ of piece) count += 1;
  return count;
}
