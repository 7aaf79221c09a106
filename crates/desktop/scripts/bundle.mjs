// `bundle.mjs BINDGEN_DIR DIST`: scripts, styles, fonts, icons and the wasm module as files whose names carry the hash of
// their content, each with a brotli twin where that helps, and the one page that names them.

import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buffer } from 'node:stream/consumers';
import { constants, createBrotliCompress } from 'node:zlib';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const COMPRESSIBLE = /\.(js|css|wasm|html|svg)$/;
// The best, because it is done once and sent often; a developer may ask for less.
const QUALITY = Number(process.env.CHOIR_DESKTOP_BROTLI ?? constants.BROTLI_MAX_QUALITY);

const [bindgen, dist] = process.argv.slice(2).map((path) => resolve(path));
if (!bindgen || !dist) {
  console.error('usage: bundle.mjs BINDGEN_DIR DIST');
  process.exit(2);
}

const stylesWithoutInlining = {
  name: 'styles-without-inlining',
  setup: (it) => it.onLoad({ filter: /@xterm\/xterm\/lib\/xterm\.mjs$/ }, rewriteStyles),
};

// Built beside the final place and moved there whole: a half-made desktop is never embedded.
const partial = `${dist}.${process.pid}`;
rmSync(partial, { recursive: true, force: true });
mkdirSync(join(partial, 'assets'), { recursive: true });

const wasm = keep('desktop.wasm', readFileSync(join(bindgen, 'desktop_bg.wasm')));
const icon = keep('icon.svg', readFileSync(join(here, 'icon.svg')));
const bundled = await bundle();
const [inter] = bundled.filter((file) => /inter-.*\.woff2$/.test(file));
writeFileSync(
  join(partial, 'index.html'),
  fill(readFileSync(join(here, 'index.html'), 'utf8'), {
    icon,
    wasm,
    font: inter,
    style: entry(bundled, 'desktop', 'css'),
    script: entry(bundled, 'start', 'js'),
    icons: symbols(),
  }),
);
await compress(partial);
rmSync(dist, { recursive: true, force: true });
renameSync(partial, dist);

// Writes an asset under its hashed name and returns its address.
function keep(name, bytes) {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  const [stem, extension] = name.split('.');
  const file = `assets/${stem}-${hash}.${extension}`;
  writeFileSync(join(partial, file), bytes);
  return `/${file}`;
}

async function bundle() {
  const result = await build({
    entryPoints: { start: join(here, 'js/start.js'), desktop: join(here, 'styles/desktop.css') },
    outdir: join(partial, 'assets'),
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    legalComments: 'none',
    metafile: true,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    loader: { '.woff2': 'file', '.svg': 'file' },
    alias: { 'choir-desktop-bindgen': join(bindgen, 'desktop.js'), 'choir-desktop-js': join(here, 'js') },
    nodePaths: [join(here, 'node_modules')],
    define: { WASM: JSON.stringify(wasm) },
    plugins: [stylesWithoutInlining],
    logLevel: 'warning',
    // wasm-bindgen names a module once for each way it is imported.
    logOverride: { 'duplicate-object-key': 'silent' },
  });
  return Object.keys(result.metafile.outputs).map((path) => `/${relative(partial, resolve(path))}`);
}

function entry(files, name, extension) {
  const found = files.filter((file) => basename(file).startsWith(`${name}-`) && file.endsWith(`.${extension}`));
  if (found.length !== 1) throw new Error(`expected one ${name}.${extension}, found ${found.join(', ') || 'none'}`);
  return found[0];
}

// The page's policy allows no inline style. xterm.js writes its sheets into style elements and colours into style
// attributes; both have an equal that the policy allows. A release that moves these places must fail here, not in the page.
function rewriteStyles({ path }) {
  let text = readFileSync(path, 'utf8');
  text = replaceExactly(text, /(this\._document|\w+\.mainDocument)\.createElement\("style"\)/g, 'choirSheet($1)', 3);
  text = replaceExactly(
    text,
    /(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/g,
    '$1.style.cssText+=$2',
    1,
  );
  return { contents: `import { sheet as choirSheet } from ${JSON.stringify(join(here, 'js/sheet.js'))};\n${text}`, loader: 'js' };
}

function replaceExactly(text, pattern, replacement, count) {
  const found = text.match(pattern)?.length ?? 0;
  if (found !== count) throw new Error(`xterm.js changed: ${pattern} matches ${found} times, not ${count}`);
  return text.replace(pattern, replacement);
}

// Only the icons that the desktop names, as symbols that the page can use by reference.
function symbols() {
  const names = readFileSync(join(here, 'src/icon.rs'), 'utf8').matchAll(/=> "([a-z0-9-]+)"/g);
  const all = [...names].map(([, name]) => {
    const text = readFileSync(join(here, 'node_modules/lucide-static/icons', `${name}.svg`), 'utf8');
    const inner = text.replace(/<!--.*?-->/gs, '').replace(/^.*?<svg[^>]*>/s, '').replace('</svg>', '');
    return `<symbol id="icon-${name}" viewBox="0 0 24 24">${inner.replace(/\s+/g, ' ').trim()}</symbol>`;
  });
  return `<svg hidden>${all.join('')}</svg>`;
}

function fill(template, values) {
  return template.replace(/\{\{(\w+)\}\}/g, (_, name) => {
    if (!values[name]) throw new Error(`the page asks for ${name}`);
    return values[name];
  });
}

async function compress(directory) {
  for (const found of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!found.isFile() || !COMPRESSIBLE.test(found.name)) continue;
    const path = join(found.parentPath ?? found.path, found.name);
    const bytes = readFileSync(path);
    writeFileSync(`${path}.br`, await brotli(path.endsWith('.wasm') ? apart(bytes) : [bytes]));
  }
}

// Each part has statistics of its own within the one stream.
async function brotli(parts) {
  const stream = createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: QUALITY } });
  const packed = buffer(stream);
  for (const part of parts) {
    await new Promise((done) => stream.write(part, done));
    if (part !== parts.at(-1)) await new Promise((done) => stream.flush(constants.BROTLI_OPERATION_FLUSH, done));
  }
  stream.end();
  return packed;
}

// Tables, code and data of a wasm module are as unlike as three languages: apart, they take a third of a percent less.
function apart(wasm) {
  const [ELEMENTS, CODE, DATA] = [9, 10, 11];
  const cuts = sections(wasm).filter(({ id }) => [ELEMENTS, CODE, DATA].includes(id)).map(({ at }) => at);
  return [0, ...cuts].map((from, index) => wasm.subarray(from, cuts[index] ?? wasm.length));
}

// The sections of a wasm module: a byte that says what it is, a length in groups of seven bits, and so many bytes.
function sections(wasm) {
  const HEADER = 8;
  const found = [];
  for (let at = HEADER; at < wasm.length; ) {
    let [size, end, bits] = [0, at + 1, 0];
    do {
      size |= (wasm[end] & 0x7f) << bits;
      bits += 7;
    } while (wasm[end++] & 0x80);
    found.push({ id: wasm[at], at });
    at = end + size;
  }
  return found;
}
