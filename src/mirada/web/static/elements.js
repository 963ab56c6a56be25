// Elements made from data. Children are text or elements, never markup: what a model or a person wrote stays text.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "circle", "line", "text", "g", "polyline", "rect", "title"].includes(tag) && tag !== "title";
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function eye() {
  return h(
    "svg", { viewBox: "0 0 32 32", class: "eye", "aria-hidden": "true" },
    h("path", { d: "M2 16c5-7.5 9.5-10 14-10s9 2.5 14 10c-5 7.5-9.5 10-14 10S7 23.5 2 16Z", class: "lid" }),
    h("circle", { cx: 16, cy: 16, r: 6.5, class: "iris" }),
    h("circle", { cx: 16, cy: 16, r: 2.6, class: "light" }),
  );
}
