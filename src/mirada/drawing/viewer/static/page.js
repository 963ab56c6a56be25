// A page with its records inside: shows them, and gives `window.mirada` to whoever wants the numbers.

import { mount } from "./mount.js";

function fromBase64(text) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// as drawing/viewer/page.py writes it: seven bits a character; a letter stands for one that a page cannot hold and the next
const LEFT_OUT = [0, 10, 13, 60];
const OTHERS = 256;
function fromDense(text, size) {
  const bytes = new Uint8Array(size);
  let [value, bits, at] = [0, 0, 0];
  const put = (seven) => {
    value = ((value << 7) | seven) & 0x7fff;
    bits += 7;
    if (bits < 8) return;
    bits -= 8;
    bytes[at] = value >> bits; // what is beyond the end is dropped, and so is what is above a byte
    at += 1;
  };
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code >= OTHERS) put(LEFT_OUT[(code - OTHERS) >> 7]);
    put(code & 127);
  }
  return bytes;
}

function recordIn({ textContent, dataset }) {
  return dataset.size === undefined ? fromBase64(textContent.trim()) : fromDense(textContent, Number(dataset.size));
}

const element = document.getElementById("mirada");
const blocks = [...document.querySelectorAll("script[data-record]")];
const viewer = mount(element, blocks.map(recordIn), {
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
