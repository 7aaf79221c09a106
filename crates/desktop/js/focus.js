// The keyboard never falls out of the page. What had the focus may go: a row is deleted, a window closed, a button has nothing
// to do any more. The focus then goes to what a person would look at next, and never to nothing.

import { focusWindow } from './bridge.js';

const FOCUSABLE = 'a[href], button, input, textarea, select, summary, [tabindex="0"], [contenteditable="true"]';
const WRITABLE = 'input, textarea, [contenteditable="true"]';
// How many earlier places are remembered.
const PLACES_MAX = 8;

const usable = (element) => element.isConnected && !element.matches(':disabled') && element.checkVisibility();

const first = (within) => [within, ...within.querySelectorAll(FOCUSABLE)].find((one) => one.matches(FOCUSABLE) && usable(one));

// Rows of one list are alike; so are a field and the row that it stood for.
function alike(one, other) {
  if (!other) return false;
  const shared = [...one.classList].some((name) => other.classList.contains(name));
  return shared || (one.classList.length === 0 && other.classList.length === 0 && one.tagName === other.tagName);
}

// Everything an element lies in, and between what: what is gone cannot be asked any more.
function placed(element) {
  const steps = [];
  // Windows are no list: the one in front is next, wherever it stands.
  for (let child = element; child.parentElement && !child.matches('.window'); child = child.parentElement) {
    const { parentElement: parent, previousElementSibling: before, nextElementSibling: after } = child;
    steps.push({ child, parent, before, after });
  }
  const [window, form, menu] = ['.window', 'form', '[role="menu"]'].map((name) => element.closest(name));
  return { element, steps, window, form, menu };
}

// What stands now where the lost thing stood in its list, or after it, or before.
function neighbour({ steps }) {
  const step = steps.find(({ parent }) => parent.isConnected && parent.checkVisibility());
  if (!step || usable(step.child)) return undefined;
  const { child, parent, before, after } = step;
  const here = (one) => one?.parentElement === parent && one !== child;
  const instead = [before, after].filter(here).map((one) => (one === before ? one.nextElementSibling : one.previousElementSibling));
  const near = [...instead.filter((one) => one !== before && one !== after), after, before, ...parent.children];
  // Looked into one by one: a list may be long.
  return first(near.find((one) => here(one) && alike(child, one) && first(one)) ?? child);
}

export function keepFocus() {
  // What had the focus last, where it was before, and the window that has it while a button cannot.
  let last;
  let earlier = [];
  let standing;
  let planned = false;
  let touched = false;

  const give = (target) => {
    // On a screen that is touched, a field would bring up the keys, which nobody asked for.
    const wanted = touched && target?.matches(WRITABLE) ? target.closest('.window') : target;
    wanted?.focus();
  };
  const toWindow = (window) => {
    if (touched) window.focus();
    else focusWindow(window.id);
  };
  // Where the focus goes from what is gone.
  const goOn = () => {
    const { element, form, menu, window } = last;
    if (element.isConnected && element.matches(':disabled') && element.checkVisibility() && !form && window) {
      // It may come back in a moment.
      standing = window;
      return window.focus({ preventScroll: true });
    }
    // A field that a button brought gives it back to the button.
    const opener = form && !usable(form) && earlier.length > 0 && usable(earlier.at(-1)) ? earlier.at(-1) : undefined;
    const field = form && usable(form) ? ([...form.querySelectorAll(WRITABLE)].find(usable) ?? first(form)) : undefined;
    const folded = element.closest('details:not([open])')?.querySelector('summary');
    const before = earlier.findLast((one) => usable(one) && one.closest('.window') === window);
    const button = menu && document.querySelector('.menu-button');
    const target = button ?? field ?? folded ?? opener ?? neighbour(last) ?? (window ? before : undefined);
    if (target) return give(target);
    const front = window && usable(window) ? window : document.querySelector('.window.front:not([hidden])');
    if (front) toWindow(front);
    else give(document.getElementById('prompt'));
  };
  const look = () => {
    planned = false;
    const active = document.activeElement;
    if (!last || (active !== document.body && active !== last.element && active !== standing)) return;
    if (!usable(last.element)) {
      if (active !== standing || !last.element.isConnected) goOn();
    } else if (active !== last.element) last.element.focus();
  };
  const plan = () => {
    if (!planned) requestAnimationFrame(look);
    planned = true;
  };

  document.addEventListener('focusin', ({ target }) => {
    if (target === standing) return;
    if (last) earlier = [...earlier, last.element].slice(-PLACES_MAX);
    last = placed(target);
    standing = undefined;
  });
  // Whoever leaves a thing that is still there wants to be nowhere.
  document.addEventListener('focusout', ({ target }) => {
    requestAnimationFrame(() => {
      if (document.activeElement === document.body && last?.element === target && usable(target)) last = undefined;
    });
  });
  document.addEventListener('pointerdown', ({ pointerType }) => (touched = pointerType === 'touch'), true);
  document.addEventListener('keydown', () => (touched = false), true);
  new MutationObserver((changes) => {
    // Most changes leave the focus alone, and cost nothing here.
    if (last && (document.activeElement !== last.element || changes.some(({ type }) => type === 'attributes'))) plan();
  }).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ['hidden', 'disabled', 'open'] });
}
