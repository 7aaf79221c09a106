// A page whose program broke does nothing any more, and looks as if it did. This says so; it is no part of that program.

const WORDS = 'This page broke. Reload it; nothing was lost.';

// Calls `onBreak`, once, when the program ends by a fault of its own. Other errors leave it running.
export function watchBreaks(page, onBreak) {
  const hear = ({ error, reason }) => {
    if (!((error ?? reason) instanceof WebAssembly.RuntimeError)) return;
    stop();
    onBreak();
  };
  const stop = () => {
    for (const kind of ['error', 'unhandledrejection']) page.removeEventListener(kind, hear);
  };
  for (const kind of ['error', 'unhandledrejection']) page.addEventListener(kind, hear);
}

// Says it over everything, with the way out.
export function sayBroken() {
  const alert = document.createElement('div');
  alert.setAttribute('role', 'alert');
  alert.className = 'broken';
  const words = document.createElement('p');
  words.textContent = WORDS;
  const reload = document.createElement('button');
  reload.type = 'button';
  reload.className = 'primary';
  reload.textContent = 'Reload';
  reload.onclick = () => location.reload();
  alert.append(words, reload);
  document.body.append(alert);
  reload.focus();
}
