// A matrix of weights as a picture: bytes of square roots, filled row by row, coarse first, while the page stays alive.

import { inIdleTime } from "./elements.js";
import { signedLevel, level } from "./palette.js";

const MOST_CELLS = 2048 * 2048;

export class Plane {
  // `source` has queries, keys and fill(query, out); rows and columns are pooled by their largest weight where there are too many
  constructor(source, { signed = false, limit = 1, onprogress = () => {} } = {}) {
    Object.assign(this, { source, signed, limit, onprogress });
    this.step = Math.max(1, Math.ceil(Math.sqrt((source.queries * source.keys) / MOST_CELLS)));
    this.height = Math.ceil(source.queries / this.step);
    this.width = Math.ceil(source.keys / this.step);
    this.bytes = new Uint8Array(this.width * this.height);
    this.filled = new Uint8Array(this.height); // 1 as soon as a row is exact
    this.broken = new Set(); // rows with numbers that are none
    this.most = 0;
    this.version = 0; // counts what a picture must be drawn again for
    this.#start();
  }
  #start() {
    const order = [];
    for (let stride = 16; stride >= 1; stride >>= 1) {
      for (let y = 0; y < this.height; y += stride) if (stride === 16 || (y / stride) % 2) order.push([y, stride]);
    }
    const row = new Float32Array(this.source.keys);
    let next = 0;
    const one = () => {
      const [y, stride] = order[next++];
      this.#row(y, row);
      // until they are computed, the rows below look like this one
      for (let copy = 1; copy < stride && y + copy < this.height; copy += 1) {
        if (!this.filled[y + copy]) this.bytes.copyWithin((y + copy) * this.width, y * this.width, (y + 1) * this.width);
      }
      return next < order.length;
    };
    if (!order.length) return;
    const until = performance.now() + 25;
    let more = true;
    while (more && performance.now() < until) more = one();
    if (!more) return;
    let announced = performance.now();
    this.stop = inIdleTime(() => {
      const on = one();
      if (!on || performance.now() - announced > 80) {
        announced = performance.now();
        this.version += 1;
        this.onprogress(!on);
      }
      return on;
    });
  }
  #row(y, row) {
    const { step, width, source } = this;
    const out = this.bytes.subarray(y * width, (y + 1) * width);
    out.fill(0);
    const last = Math.min((y + 1) * step, source.queries);
    for (let query = y * step; query < last; query += 1) {
      source.fill(query, row);
      for (let key = 0; key < source.keys; key += 1) {
        const weight = row[key];
        if (weight !== weight) {
          this.broken.add(y);
          continue;
        }
        if (Math.abs(weight) > this.most) this.most = Math.abs(weight);
        const byte = Math.round(this.signed ? signedLevel(weight, this.limit) : level(weight, this.limit));
        const x = step === 1 ? key : Math.floor(key / step);
        if (step === 1 || query === y * step || byte > out[x]) out[x] = byte;
      }
    }
    this.filled[y] = 1;
  }
  // a limit that lets the pattern be seen: in large matrices the strongest half percent of the cells may exceed it
  clear() {
    if (this.bytes.length < 2000) return Math.max(this.most, 1e-6);
    if (this.limitOf === this.version) return this.clearLimit;
    this.limitOf = this.version;
    const counts = new Uint32Array(256);
    for (const byte of this.bytes) counts[byte] += 1;
    let [left, byte] = [(this.bytes.length - counts[0]) * 0.005, 255];
    while (byte > 1 && (left -= counts[byte]) > 0) byte -= 1;
    return (this.clearLimit = Math.max(1e-6, this.limit * Math.min(1, ((byte + 1) / 255) ** 2)));
  }
  // the whole as a canvas of its own, a pixel a cell
  picture(palette, gain = 1) {
    const made = [this.version, gain];
    if (this.canvas && this.palette === palette && made.every((part, index) => part === this.drawn[index])) return this.canvas;
    this.canvas ??= document.createElement("canvas");
    Object.assign(this, { palette, drawn: made });
    Object.assign(this.canvas, { width: Math.max(1, this.width), height: Math.max(1, this.height) });
    const image = new ImageData(this.canvas.width, this.canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const colors = gain === 1 ? palette.words : Uint32Array.from(
      palette.words,
      (_, byte) => palette.words[Math.min(255, Math.round(byte * gain))],
    );
    for (let i = 0; i < this.bytes.length; i += 1) pixels[i] = colors[this.bytes[i]];
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    return this.canvas;
  }
  close() {
    this.stop?.();
  }
}

// a head at a glance: at most `size` rows and columns; rows are picked, columns pooled by their largest weight
export function thumbnail(stream, head, size) {
  const [height, width] = [Math.min(size, stream.queries), Math.min(size, stream.keys)];
  const bytes = new Uint8Array(Math.max(1, width * height));
  if (stream.edges) {
    const { sources, targets } = stream.weights.loaded;
    for (let edge = 0; edge < sources.length; edge += 1) {
      const at = Math.floor((targets[edge] * height) / stream.queries) * width + Math.floor((sources[edge] * width) / stream.keys);
      bytes[at] = Math.max(bytes[at], level(stream.weights.weight(head, edge), 1));
    }
  } else {
    const row = new Float32Array(stream.keys);
    for (let y = 0; y < height; y += 1) {
      stream.fill(head, Math.floor(((y + 0.5) * stream.queries) / height), row);
      for (let key = 0; key < stream.keys; key += 1) {
        const at = y * width + Math.floor((key * width) / stream.keys);
        const byte = level(row[key], 1);
        if (byte > bytes[at]) bytes[at] = byte;
      }
    }
  }
  return { bytes, width: Math.max(1, width), height: Math.max(1, height) };
}

export function paintThumbnail(canvas, { bytes, width, height }, palette) {
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  // relative to the strongest cell: the pattern is what a glance is for
  let most = 1;
  for (const byte of bytes) if (byte > most) most = byte;
  for (let i = 0; i < width * height; i += 1) pixels[i] = palette.words[Math.min(255, Math.round((bytes[i] * 255) / most))];
  canvas.getContext("2d").putImageData(image, 0, 0);
}
