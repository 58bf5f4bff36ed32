// Checks how accessible a page is and returns its faults as sentences. The function runs inside the page, so it must
// not use anything defined outside of it.
export function accessible() {
  const faults = [];
  const root = document.documentElement;
  if (!root.lang) faults.push('the page has no language');
  if (document.querySelectorAll('h1').length !== 1) faults.push('the page has not exactly one h1');
  if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} px wide and has to be scrolled`);
  for (const field of document.querySelectorAll('input:not([type=hidden])')) {
    if (field.labels.length === 0) faults.push(`the field ${field.name} has no label`);
  }
  let level = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) faults.push(`the heading “${heading.textContent.trim()}” skips a level`);
    level = next;
  }

  const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push(`“${element.textContent.trim().slice(0, 40)}” has a contrast of ${contrast.toFixed(2)}`);
  }
  return faults;
}
