// Elements of the page. Every text becomes a text node: nothing that a record says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function make(node, fields, children) {
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) node.style.setProperty(key, part);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

// what is there of some children: a browser would write the word "null" for what is not
const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
export const refill = (node, ...children) => node.replaceChildren(...present(children));

export const h = (name, fields, ...children) => make(document.createElement(name), fields, children);
export const svg = (name, fields, ...children) => make(document.createElementNS(SVG, name), fields, children);

// a canvas whose pixels are the screen's; `paint` is given a context in CSS pixels
export function fitCanvas(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  const [wide, tall] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// a row of buttons of which one is chosen
export function choices(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      { type: "button", class: "choice", "aria-pressed": String(value === chosen), onclick: () => choose(value) },
      text,
    ),
  );
  return h("div", { class: "choices", role: "group", "aria-label": label }, buttons);
}

// run small pieces of work while nothing else is to be done; `stop()` ends it
export function inIdleTime(step) {
  let stopped = false;
  const go = () => {
    const until = performance.now() + 10;
    while (!stopped && performance.now() < until) if (step() === false) stopped = true;
    if (!stopped) setTimeout(go, 0);
  };
  setTimeout(go, 0);
  return () => (stopped = true);
}
