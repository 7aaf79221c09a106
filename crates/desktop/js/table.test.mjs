// A table is read in one go, whatever somebody made of it. Run with `node --test crates/desktop/js`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { COLUMNS_MAX, ROWS_MAX, read } from './table.js';

test('cells are told apart and figures stand on the right', () => {
  const { head, rows, align } = read('| Bird | Weight | Note | Mid |\n|---|---|---|:-:|\n| Heron | 1,5 | a \\| b | x |\n| Wren | −9 % | | y |');
  assert.deepEqual(head, ['Bird', 'Weight', 'Note', 'Mid']);
  assert.deepEqual(rows, [
    ['Heron', '1,5', 'a | b', 'x'],
    ['Wren', '−9 %', '', 'y'],
  ]);
  assert.deepEqual(align, ['', 'right', '', 'center']);
});

test('a table of very many columns and rows is cut, and says so', () => {
  const line = (cell) => `|${`${cell}|`.repeat(10_000)}`;
  const source = [line('a'), line('-'), ...Array(2 * ROWS_MAX).fill(line('1'))].join('\n');
  const { head, rows, align } = read(source);
  assert.equal(rows.length, ROWS_MAX);
  assert.equal(head.length, COLUMNS_MAX + 1);
  assert.equal(head.at(-1), '…');
  assert.equal(align[0], 'right');
});

test('a very long cell is no figure, and is not looked through from each of its digits', () => {
  const { align } = read(`| a |\n|---|\n| ${'1'.repeat(390_000)}x |`);
  assert.deepEqual(align, ['']);
});
