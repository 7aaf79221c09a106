import init from 'choir-desktop-bindgen';
import { keepFocus } from './focus.js';

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
