// Tokens as they are shown: always as text, isolated from the direction of their neighbors, never longer than a line.

import { h } from "./elements.js";

const LONGEST = 40;
const NAMED = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0" };
// control characters, and those that change the direction of what follows
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// letters and marks; in these scripts nobody writes joiners inside a word, and nobody would see them there
const LETTER = /[\p{L}\p{M}]/u;
const UNJOINED = /\p{Script=Latin}|\p{Script=Greek}|\p{Script=Cyrillic}|\p{Script=Han}|\p{Script=Kana}|\p{Script=Hira}|\p{Script=Hangul}/u;

// a joiner that is part of an emoji, or stands inside a word, as in Persian and in the scripts of India
function joins(letter, offset, whole) {
  if (letter !== "\u200c" && letter !== "\u200d") return false;
  if (letter === "\u200d" && /\p{Extended_Pictographic}/u.test(whole)) return true;
  const before = Array.from(whole.slice(Math.max(0, offset - 2), offset)).at(-1) ?? "";
  const after = Array.from(whole.slice(offset + 1, offset + 3))[0] ?? "";
  return [before, after].every((one) => LETTER.test(one) && !UNJOINED.test(one));
}

export function visible(token) {
  if (token === "") return "∅";
  if (/^ +$/.test(token)) return "␣".repeat(Math.min(token.length, LONGEST));
  return token.replace(HIDDEN, (letter, offset) =>
    joins(letter, offset, token) ? letter : (NAMED[letter] ?? `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`),
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
