// A Markdown table as cells, and how its columns stand.

// More is not shown: the Markdown itself is one click away.
export const ROWS_MAX = 400;
export const COLUMNS_MAX = 40;
// A longer cell is no figure, whatever it is made of.
const FIGURE_CHARACTERS_MAX = 40;

// Every line is split once, however many columns ask for it: this runs while somebody types.
export function read(source) {
  const [head, rule, ...lines] = source.split('\n');
  const rows = lines.slice(0, ROWS_MAX).map(cells);
  const align = cells(rule ?? '').map((cell, index) => {
    if (/^:.*:$/.test(cell)) return 'center';
    // Figures stand under each other, whether the text asks for it or not.
    return cell.endsWith(':') || rows.every((row) => isFigure(row[index] ?? '')) ? 'right' : '';
  });
  return { head: cells(head), rows, align };
}

// Two plain questions: as one pattern they would be asked again from every digit of a long cell.
function isFigure(text) {
  return text.length <= FIGURE_CHARACTERS_MAX && /^[\d\s.,%$€+−*-]+$/.test(text) && /\d/.test(text);
}

// The cells of a line, without its outer bars; an escaped bar is a letter. Where some are left out, the last one says so.
function cells(line) {
  const all = line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/, COLUMNS_MAX + 1)
    .map((cell) => cell.trim().replace(/\\\|/g, '|'));
  if (all.length > COLUMNS_MAX) all[COLUMNS_MAX] = '…';
  return all;
}
