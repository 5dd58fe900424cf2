// What the tests ask of a page. Each function gives plain data: names of what it has found.
const name = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") || ""}: ` +
  (one.textContent || one.title || "").trim().slice(0, 60);
const isShown = (one) => one.checkVisibility({visibilityProperty: true}) &&
  !one.closest(".skip:not(:focus)");
const listTexts = () => [...document.body.querySelectorAll("*")].filter((one) => isShown(one) &&
  [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
  !["STYLE", "TITLE"].includes(one.tagName) && one.tagName !== "title");
const countTexts = () => listTexts().length;

// Of an element's own text, line by line.
const listBoxes = (one) => {
  const range = document.createRange();
  return [...one.childNodes].filter((node) => node.nodeType === 3 && node.data.trim())
    .flatMap((node) => { range.selectNodeContents(node); return [...range.getClientRects()]; })
    .filter((box) => box.width > 0.5 && box.height > 0.5);
};

// What is beyond the window, unless a region around it scrolls.
const findOverflow = () => [...document.body.querySelectorAll("*")].filter((one) => {
  if (!isShown(one) || one.closest(".scroll") && !one.matches(".scroll")) return false;
  const box = one.getBoundingClientRect();
  return box.right > innerWidth + 0.5 || box.left < -0.5;
}).map(name);

// Captions of tables that go on where one has to scroll to.
const findCutCaptions = () => [...document.querySelectorAll(".scroll caption")].filter((one) => {
  const right = one.closest(".scroll").getBoundingClientRect().right;
  return isShown(one) && listBoxes(one).some((box) => box.right > right + 0.5);
}).map(name);

// Lines of text that lie over lines of another element.
const findOverlaps = () => {
  const lines = listTexts().flatMap((one) => listBoxes(one).map((box) => ({one, box})));
  const found = [];
  lines.forEach((first, place) => {
    for (const second of lines.slice(place + 1)) {
      if (first.one === second.one) continue;
      const a = first.box, b = second.box;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Lines are boxes with some room above and below the letters.
      if (wide > 1 && high > 0.35 * Math.min(a.height, b.height)) {
        found.push(`${name(first.one)} | ${name(second.one)}`);
      }
    }
  });
  return found;
};

const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = parse(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const findGround = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    const parts = parse(colour);
    if (parts.length === 3 || parts[3] > 0) return colour;
  }
  return "rgb(255, 255, 255)";
};
// Text whose colour differs from what is behind it by less than a ratio of light.
const findPale = (least) => listTexts().filter((one) => {
  const style = getComputedStyle(one);
  const [a, b] = [light(one.closest("svg") ? style.fill : style.color), light(findGround(one))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < least;
}).map(name);

const listInteractive = () => [...document.querySelectorAll("a, summary, iframe, [tabindex='0']")]
  .filter((one) => one.matches(".skip") || isShown(one)).map(name);
const nameFocused = () => name(document.activeElement);
// What is focused within a frame shows it there.
const hasOutline = () => {
  const one = document.activeElement;
  return one.matches("iframe") || getComputedStyle(one).outlineStyle !== "none";
};
