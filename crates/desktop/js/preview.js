// Markdown shown in place: marks step back where the caret is not, and the text looks as it means. Only classes and
// spans are made; a link opens on Ctrl/⌘ and a click or Enter, or at the touch of a finger, and only a web address does.

import { syntaxTree } from '@codemirror/language';
import { Prec } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin, WidgetType, keymap } from '@codemirror/view';

const INLINE = { StrongEmphasis: 'md-strong', Emphasis: 'md-em', InlineCode: 'md-code', Strikethrough: 'md-strike', Link: 'md-link', URL: 'md-url', CodeInfo: 'md-info' };
const LINES = { FencedCode: 'md-fence', CodeBlock: 'md-fence', Blockquote: 'md-quote', Table: 'md-table' };
// Scripts that are read from the right: a line of them begins there.
const FROM_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;
// The name of a box that can be ticked is the beginning of what stands behind it.
const TASK_CHARACTERS_MAX = 80;
const MARKS = new Set(['HeaderMark', 'EmphasisMark', 'CodeMark', 'LinkMark', 'StrikethroughMark', 'QuoteMark']);

class Bullet extends WidgetType {
  toDOM() {
    const bullet = document.createElement('span');
    bullet.className = 'md-bullet';
    bullet.textContent = '•';
    return bullet;
  }

  eq() {
    return true;
  }
}

// A box that can be ticked by mouse, touch or keyboard; the text is changed as if it had been written.
class Task extends WidgetType {
  constructor(done, words, locked) {
    super();
    Object.assign(this, { done, words, locked });
  }

  toDOM(view) {
    const box = document.createElement('input');
    box.type = 'checkbox';
    box.className = 'md-task';
    this.updateDOM(box);
    box.onchange = () => {
      const from = view.posAtDOM(box);
      view.dispatch({ changes: { from, to: from + '[ ]'.length, insert: box.checked ? '[x]' : '[ ]' }, userEvent: 'input' });
    };
    return box;
  }

  // One that was ticked is the same box still, and keeps the focus.
  updateDOM(box) {
    box.checked = this.done;
    box.disabled = this.locked;
    box.setAttribute('aria-label', this.words);
    return true;
  }

  eq(other) {
    return other.done === this.done && other.words === this.words && other.locked === this.locked;
  }

  // What the box does itself is its own; undo and the like are the editor's.
  ignoreEvent(event) {
    return !(event.ctrlKey || event.metaKey);
  }
}

class Rule extends WidgetType {
  toDOM() {
    const rule = document.createElement('span');
    rule.className = 'md-rule';
    return rule;
  }

  eq() {
    return true;
  }
}

// Hidden by size, not replaced: a replaced mark would let the line break between a word and its comma.
const hidden = Decoration.mark({ class: 'md-hidden' });
const bullet = Decoration.replace({ widget: new Bullet() });
const rule = Decoration.replace({ widget: new Rule() });
const ownDirection = Decoration.line({ attributes: { dir: 'auto' } });

function decorations(view, met) {
  const found = [];
  const { doc, selection } = view.state;
  const active = (from, to) => met && view.hasFocus && selection.ranges.some((range) => range.from <= to && range.to >= from);
  const line = (at, name) => found.push(Decoration.line({ class: name }).range(doc.lineAt(at).from));
  const lines = (node, name) => {
    const last = doc.lineAt(node.to).number;
    for (let number = doc.lineAt(node.from).number; number <= last; number++) line(doc.line(number).from, name);
  };
  for (const { from, to } of view.visibleRanges) {
    for (let one = doc.lineAt(from); ; one = doc.line(one.number + 1)) {
      if (FROM_RIGHT.test(one.text)) found.push(ownDirection.range(one.from));
      if (one.to >= to || one.number === doc.lines) break;
    }
    syntaxTree(view.state).iterate({
      from,
      to,
      enter: (node) => {
        const heading = /^(?:ATX|Setext)Heading(\d)$/.exec(node.name);
        if (heading) line(node.from, `md-heading md-h${heading[1]}`);
        if (node.name === 'ListItem') line(node.from, 'md-item');
        if (LINES[node.name]) lines(node, LINES[node.name]);
        const dead = node.name === 'Link' && !address(view.state, node.from + 1);
        if (INLINE[node.name] && node.to > node.from && !dead) found.push(Decoration.mark({ class: INLINE[node.name] }).range(node.from, node.to));
        mark(node.node, view.state, active, found);
      },
    });
  }
  return Decoration.set(found, true);
}

function mark(node, { doc, readOnly }, active, found) {
  const around = node.parent && node.name !== 'HorizontalRule' ? node.parent : node;
  const { from, to } = doc.lineAt(node.from);
  if (node.name === 'TaskMarker' && !active(from, node.to)) {
    const done = doc.sliceString(node.from + 1, node.from + 2) !== ' ';
    const words = doc.sliceString(node.to, Math.min(to, node.to + TASK_CHARACTERS_MAX)).replace(/[*_`~]/g, '').trim() || 'Task';
    found.push(Decoration.replace({ widget: new Task(done, words, readOnly) }).range(node.from, node.to));
  } else if (node.name === 'ListMark' && !/[-*+]/.test(doc.sliceString(node.from, node.to))) {
    // A number is a word of the text.
  } else if (node.name === 'ListMark' && node.nextSibling?.name === 'Task') {
    if (!active(from, node.nextSibling.from + '[ ]'.length)) found.push(hidden.range(node.from, space(doc, node.to)));
  } else if (node.name === 'ListMark' && !active(node.from, node.to)) {
    found.push(bullet.range(node.from, node.to));
  } else if (node.name === 'HorizontalRule' && !active(from, to)) {
    found.push(rule.range(node.from, node.to));
  } else if (MARKS.has(node.name) && node.to > node.from) {
    const quiet = node.name === 'HeaderMark' || node.name === 'QuoteMark' ? active(from, to) : active(around.from, around.to);
    if (quiet) found.push(Decoration.mark({ class: 'md-mark' }).range(node.from, node.to));
    else found.push(hidden.range(node.from, node.name === 'HeaderMark' || node.name === 'QuoteMark' ? space(doc, node.to) : node.to));
  } else if (node.name === 'URL' && node.parent?.name === 'Link' && !active(around.from, around.to)) {
    found.push(hidden.range(node.from, node.to));
  }
}

// The space after a heading's or a quote's mark belongs to the mark.
const space = (doc, at) => (doc.sliceString(at, at + 1) === ' ' ? at + 1 : at);

const plugin = ViewPlugin.fromClass(
  class {
    constructor(view) {
      // A caret that nobody has placed yet shows no marks: the text is read before it is written.
      this.met = false;
      this.decorations = decorations(view, this.met);
    }

    update(update) {
      this.met ||= update.transactions.some((one) => ['select', 'input', 'delete', 'move'].some((kind) => one.isUserEvent(kind)));
      const parsed = syntaxTree(update.startState) !== syntaxTree(update.state);
      const unlocked = update.startState.readOnly !== update.state.readOnly;
      if (update.docChanged || update.viewportChanged || update.selectionSet || update.focusChanged || parsed || unlocked) {
        this.decorations = decorations(update.view, this.met);
      }
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

// The address of the link at a position, if it is one that may be opened.
function address(state, at) {
  for (let node = syntaxTree(state).resolveInner(at, 1); node; node = node.parent) {
    const url = node.name === 'URL' ? node : node.name === 'Link' ? node.getChild('URL') : null;
    const text = url && state.sliceDoc(url.from, url.to);
    if (text) return /^https?:\/\//i.test(text) ? text : null;
  }
  return null;
}

function follow(view, at) {
  const target = at === null ? null : address(view.state, at);
  if (target) window.open(target, '_blank', 'noopener,noreferrer');
  return !!target;
}

const under = (view, { clientX: x, clientY: y }) => view.posAtCoords({ x, y });

const links = EditorView.domEventHandlers({
  mousedown: (event, view) => (event.ctrlKey || event.metaKey) && follow(view, under(view, event)),
  // Whoever writes in a link has its address before them.
  click: (event, view) => event.pointerType === 'touch' && !!event.target.closest?.('.md-link') && follow(view, under(view, event)),
});

// Before the keys of writing: there it would begin a line.
const enter = Prec.high(keymap.of([{ key: 'Mod-Enter', run: (view) => follow(view, view.state.selection.main.head) }]));

export const preview = [plugin, links, enter];
