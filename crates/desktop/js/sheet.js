// A stand-in for a style element, for libraries that make one: the page's policy allows no inline style, but it allows
// sheets that a script constructs. Setting `textContent` replaces the rules; `remove` takes them away.
export function sheet(document) {
  const rules = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, rules];
  const element = document.createElement('span');
  element.hidden = true;
  Object.defineProperty(element, 'textContent', { set: (text) => rules.replaceSync(text) });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== rules);
    remove();
  };
  return element;
}
