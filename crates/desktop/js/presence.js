// Who else is here: other people by caret and underline, agents by a caret where they last wrote. Only classes are made;
// the stylesheet knows the hues.

import { EditorView, ViewPlugin, Decoration, WidgetType } from '@codemirror/view';
import { Annotation } from '@codemirror/state';
import { createAbsolutePositionFromRelativePosition, createRelativePositionFromJSON, createRelativePositionFromTypeIndex } from 'yjs';
import { ySyncAnnotation } from 'y-codemirror.next';

// An agent's caret leaves when it has not written for so long.
const AGENT_MS = 8_000;
const NAME_CHARACTERS_MAX = 24;
const others = Annotation.define();

class Caret extends WidgetType {
  constructor(name, kind) {
    super();
    this.name = name;
    this.kind = kind;
  }

  eq(other) {
    return other.name === this.name && other.kind === this.kind;
  }

  toDOM() {
    const caret = document.createElement('span');
    caret.className = `caret caret-${this.kind}`;
    caret.setAttribute('aria-hidden', 'true');
    const flag = document.createElement('span');
    flag.className = 'caret-flag';
    flag.textContent = this.name;
    caret.append(flag);
    return caret;
  }

  ignoreEvent() {
    return true;
  }
}

// `agent` says which agent writes now, if one does.
export function presence(sync, agent) {
  const plugin = ViewPlugin.fromClass(
    class {
      decorations = Decoration.none;
      wrote = null;

      constructor(view) {
        this.view = view;
        this.heard = ({ added, updated, removed }) => {
          const elsewhere = [...added, ...updated, ...removed].some((client) => client !== sync.doc.clientID);
          if (elsewhere) view.dispatch({ annotations: others.of(true) });
        };
        sync.awareness.on('change', this.heard);
      }

      update(update) {
        if (update.docChanged) this.notice(update);
        if (update.selectionSet || update.focusChanged || update.docChanged) this.tell(update.view);
        this.decorations = this.draw(update.state.doc.length);
        if (this.decorations.size > 0) this.fit(update.view);
      }

      // A name that would be cut off by an edge of the paper stands at the caret's other side.
      fit(view) {
        view.requestMeasure({
          key: this,
          read: () => {
            const paper = view.scrollDOM.getBoundingClientRect();
            return [...view.contentDOM.querySelectorAll('.caret')].map((caret) => {
              const { left, top } = caret.getBoundingClientRect();
              const { offsetWidth, offsetHeight } = caret.firstChild;
              return [caret, left + offsetWidth > paper.left + view.scrollDOM.clientWidth, top - offsetHeight < paper.top];
            });
          },
          write: (carets) => {
            for (const [caret, right, top] of carets) {
              caret.classList.toggle('caret-turned', right);
              caret.classList.toggle('caret-below', top);
            }
          },
        });
      }

      tell(view) {
        const { anchor, head } = view.state.selection.main;
        const at = (index) => createRelativePositionFromTypeIndex(sync.text, index);
        const cursor = view.hasFocus ? { anchor: at(anchor), head: at(head) } : null;
        const now = sync.awareness.getLocalState()?.cursor ?? null;
        if (JSON.stringify(now) !== JSON.stringify(cursor)) sync.awareness.setLocalStateField('cursor', cursor);
      }

      // Where somebody who has no caret of their own wrote.
      notice(update) {
        if (this.wrote) this.wrote.at = update.changes.mapPos(this.wrote.at, 1);
        const remote = update.transactions.some((one) => one.annotation(ySyncAnnotation));
        const role = remote && sync.synced ? agent() : undefined;
        if (!role) return;
        let last = 0;
        update.changes.iterChanges((_a, _b, _c, to) => (last = Math.max(last, to)));
        clearTimeout(this.wrote?.timer);
        const timer = setTimeout(() => {
          this.wrote = null;
          this.view.dispatch({ annotations: others.of(true) });
        }, AGENT_MS);
        this.wrote = { at: last, role, timer };
      }

      draw(length) {
        const found = [];
        for (const [client, state] of sync.awareness.getStates()) {
          if (client === sync.doc.clientID || !state.cursor) continue;
          const anchor = absolute(state.cursor.anchor);
          const head = absolute(state.cursor.head);
          if (anchor === null || head === null || Math.max(anchor, head) > length) continue;
          const name = String(state.user?.name ?? 'Somebody').slice(0, NAME_CHARACTERS_MAX);
          const [from, to] = [Math.min(anchor, head), Math.max(anchor, head)];
          if (to > from) found.push(Decoration.mark({ class: 'person-selection' }).range(from, to));
          found.push(Decoration.widget({ widget: new Caret(name, 'person'), side: 1 }).range(head));
        }
        if (this.wrote && this.wrote.at <= length) {
          found.push(Decoration.widget({ widget: new Caret(this.wrote.role, this.wrote.role), side: 1 }).range(this.wrote.at));
        }
        return Decoration.set(found, true);
      }

      destroy() {
        clearTimeout(this.wrote?.timer);
        sync.awareness.off('change', this.heard);
      }
    },
    { decorations: (value) => value.decorations },
  );
  const absolute = (position) => {
    const found = createAbsolutePositionFromRelativePosition(createRelativePositionFromJSON(position), sync.doc);
    return found && found.type === sync.text ? found.index : null;
  };
  return [plugin, EditorView.editorAttributes.of({ class: 'shared' })];
}
