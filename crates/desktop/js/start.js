import init from 'choir-desktop-bindgen';
import { sayBroken, watchBreaks } from './broken.js';
import { keepFocus } from './focus.js';

watchBreaks(globalThis, sayBroken);
keepFocus();

try {
  await init({ module_or_path: WASM });
} catch (error) {
  const alert = document.createElement('p');
  alert.setAttribute('role', 'alert');
  alert.className = 'start-failed';
  alert.textContent = `The desktop could not start in this browser: ${error.message}. Nothing was lost; reload to try again.`;
  document.getElementById('main').replaceChildren(alert);
}
