// A page with its records inside: shows them, and sets `window.mirada`, which has the numbers.

import { mount } from "./mount.js";

function fromBase64(text) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

const element = document.getElementById("mirada");
const blocks = [...document.querySelectorAll("script[data-record]")];
const viewer = mount(element, blocks.map((block) => fromBase64(block.textContent.trim())), {
  title: document.title,
  language: element.dataset.language,
  onChange: ({ language, theme }) => {
    document.documentElement.lang = language;
    document.documentElement.dataset.theme = theme;
  },
});
// where to begin: as the page says, or as its address does (#view=graph&row=2)
for (const start of [element.dataset.start, window.location.hash.slice(1)]) viewer.begin(start);
document.documentElement.lang = viewer.app?.state.language ?? "en";
for (const block of blocks) block.remove(); // the text of a large record is not needed twice

window.mirada = {
  get streams() {
    return viewer.streams;
  },
  weights: (name, head, query) => viewer.weights(name, head, query),
  ready: viewer.ready,
  viewer,
};
