// Tokens as they are shown: always as text, isolated from the direction of their neighbors, never longer than a line.

import { h } from "./elements.js";

const LONGEST = 40;
const NAMED = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0" };
// control characters, and those that change the direction of what follows
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const joins = (letter, whole) => letter === "\u200d" && /\p{Extended_Pictographic}/u.test(whole); // part of an emoji

export function visible(token) {
  if (token === "") return "∅";
  if (/^ +$/.test(token)) return "␣".repeat(Math.min(token.length, LONGEST));
  return token.replace(HIDDEN, (letter) =>
    joins(letter, token) ? letter : (NAMED[letter] ?? `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`),
  );
}

const segments = typeof Intl.Segmenter === "function" ? new Intl.Segmenter() : null;

export function short(token, longest = LONGEST) {
  const text = visible(token.length > 4 * LONGEST ? token.slice(0, 4 * LONGEST) : token);
  if (text.length <= longest) return text;
  const letters = segments ? Array.from(segments.segment(text), (part) => part.segment) : Array.from(text);
  return letters.length <= longest && token.length <= 4 * LONGEST ? text : `${letters.slice(0, longest - 1).join("")}…`;
}

// an element with a token; the whole text of one that was cut is its title
export function tokenElement(token, fields = {}, longest = LONGEST) {
  const text = short(token, longest);
  return h(
    "bdi",
    { ...fields, class: `token ${fields.class ?? ""}`, title: fields.title ?? (text.endsWith("…") ? visible(token) : null) },
    text,
  );
}

// of a layer: the numbers stand out, "layers" says nothing
export function layerName(name) {
  if (name === "") return "attention";
  const parts = name.split(".").filter((part) => !["layers", "blocks", "h", "layer"].includes(part));
  return parts.join(" · ").replace(/^(?=\d)/, "L");
}
