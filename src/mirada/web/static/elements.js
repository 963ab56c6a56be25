// DOM elements, made as in the attention viewer, and the logo of mirada.

import { svg } from "./attention/elements.js";

export { h, svg } from "./attention/elements.js";

export function eye() {
  return svg(
    "svg", { viewBox: "0 0 32 32", class: "eye", "aria-hidden": "true" },
    svg("path", { d: "M2 16c5-7.5 9.5-10 14-10s9 2.5 14 10c-5 7.5-9.5 10-14 10S7 23.5 2 16Z", class: "lid" }),
    svg("circle", { cx: 16, cy: 16, r: 6.5, class: "iris" }),
    svg("circle", { cx: 16, cy: 16, r: 2.6, class: "light" }),
  );
}
