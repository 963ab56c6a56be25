// From the bytes of a stream to its weights, row by row: nothing is kept as queries x keys numbers unless it was stored so.

import { RecordError } from "./archive.js";

const SQUARES = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);
const KEPT_HEADS = 16;

let halves = null; // every float16 there is
export function fromHalf(bytes) {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
  });
  const words = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 1);
  const out = new Float32Array(words.length);
  for (let i = 0; i < words.length; i += 1) out[i] = halves[words[i]];
  return out;
}

export const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);

function exactly(archive, name, wanted) {
  const size = archive.size(name);
  if (size !== wanted) throw new RecordError("blobSize", name, size, wanted);
}

class Stored {
  constructor(archive, { heads, queries, keys, data }, bytesEach) {
    exactly(archive, data.weights, heads * queries * keys * bytesEach);
    Object.assign(this, { archive, queries, keys, name: data.weights });
  }
  allowed() {
    return true;
  }
}

class Sqrt8 extends Stored {
  constructor(archive, stream) {
    super(archive, stream, 1);
  }
  get bytes() {
    return (this.loaded ??= this.archive.read(this.name));
  }
  fill(head, query, out) {
    const start = (head * this.queries + query) * this.keys;
    for (let key = 0; key < this.keys; key += 1) out[key] = SQUARES[this.bytes[start + key]];
  }
  // the bytes of a head as they are: what a picture is drawn from
  head(head) {
    return this.bytes.subarray(head * this.queries * this.keys, (head + 1) * this.queries * this.keys);
  }
}

class Float32 extends Stored {
  constructor(archive, stream) {
    super(archive, stream, 4);
  }
  get numbers() {
    return (this.loaded ??= floats(this.archive.read(this.name)));
  }
  fill(head, query, out) {
    const start = (head * this.queries + query) * this.keys;
    out.set(this.numbers.subarray(start, start + this.keys));
  }
}

class QK16 {
  constructor(archive, { heads, queries, keys, data }) {
    const dim = archive.size(data.q) / (heads * queries * 2);
    if (!Number.isInteger(dim) || dim < 1) throw new RecordError(
      "blobSize",
      data.q,
      archive.size(data.q),
      `2 x ${heads} x ${queries} x dim`,
    );
    exactly(archive, data.k, heads * keys * dim * 2);
    const mask = data.mask ?? { kind: "complete" };
    if (!["complete", "causal", "window", "bits"].includes(mask.kind)) throw new RecordError("unknownMask", mask.kind);
    if (mask.kind === "bits") exactly(archive, mask.data, Math.ceil((queries * keys) / 8));
    Object.assign(
      this,
      { archive, heads, queries, keys, dim, data, mask, scale: data.scale ?? 1 / Math.sqrt(dim), kept: new Map() },
    );
  }
  get bits() {
    return (this.loadedBits ??= this.archive.read(this.mask.data));
  }
  allowed(query, key) {
    const { kind } = this.mask;
    if (kind === "complete") return true;
    if (kind === "causal") return key <= query;
    if (kind === "window") return key >= query - this.mask.left && key <= query + (this.mask.right ?? 0);
    const bit = query * this.keys + key;
    return (this.bits[bit >> 3] & (128 >> (bit & 7))) !== 0;
  }
  // queries and keys of a head as float32; the last few heads are kept
  vectors(head) {
    const found = this.kept.get(head);
    if (found) return found;
    this.packed ??= { q: this.archive.read(this.data.q), k: this.archive.read(this.data.k) };
    const part = (bytes, rows) => fromHalf(bytes.slice(head * rows * this.dim * 2, (head + 1) * rows * this.dim * 2));
    const made = { q: part(this.packed.q, this.queries), k: part(this.packed.k, this.keys) };
    this.kept.set(head, made);
    if (this.kept.size > KEPT_HEADS) this.kept.delete(this.kept.keys().next().value);
    return made;
  }
  // the keys that a query may see stand between these two; single ones inside may still be hidden (bits)
  reach(query) {
    if (this.mask.kind === "causal") return [0, Math.min(this.keys, query + 1)];
    if (this.mask.kind === "window") return [
      Math.max(0, query - this.mask.left),
      Math.min(this.keys, query + (this.mask.right ?? 0) + 1),
    ];
    return [0, this.keys];
  }
  fill(head, query, out) {
    const { q, k } = this.vectors(head);
    const { dim, scale } = this;
    const bits = this.mask.kind === "bits";
    const [low, high] = this.reach(query);
    const start = query * dim;
    let most = -Infinity;
    out.fill(0);
    for (let key = low; key < high; key += 1) {
      if (bits && !this.allowed(query, key)) continue;
      let sum = 0;
      for (let i = 0, j = key * dim; i < dim; i += 1, j += 1) sum += q[start + i] * k[j];
      out[key] = sum * scale;
      if (out[key] > most || out[key] !== out[key]) most = out[key];
    }
    if (most === -Infinity) return; // a query that sees nothing
    let total = 0;
    for (let key = low; key < high; key += 1) {
      if (bits && !this.allowed(query, key)) continue;
      out[key] = Math.exp(out[key] - most);
      total += out[key];
    }
    for (let key = low; key < high; key += 1) out[key] /= total;
  }
}

class Edges8 {
  constructor(archive, { heads, queries, keys, data }) {
    const count = archive.size(data.edges) / 8;
    this.exact = data.weights_type === "float32";
    exactly(archive, data.weights, heads * count * (this.exact ? 4 : 1));
    Object.assign(this, { archive, queries, keys, count, data });
  }
  get loaded() {
    if (this.parts) return this.parts;
    const bytes = this.archive.read(this.data.weights);
    const both = this.archive.read(this.data.edges);
    const ends = new Int32Array(both.buffer, both.byteOffset, both.byteLength >> 2);
    const [sources, targets] = [ends.subarray(0, this.count), ends.subarray(this.count)];
    const starts = new Int32Array(this.queries + 1); // the edges of a query, one after another
    for (let edge = 0; edge < this.count; edge += 1) {
      const inside = sources[edge] >= 0 && sources[edge] < this.keys && targets[edge] >= 0 && targets[edge] < this.queries;
      if (!inside) throw new RecordError("edgeOutside", edge, sources[edge], targets[edge]);
      starts[targets[edge] + 1] += 1;
    }
    for (let query = 0; query < this.queries; query += 1) starts[query + 1] += starts[query];
    const order = new Int32Array(this.count);
    const next = starts.slice();
    for (let edge = 0; edge < this.count; edge += 1) order[next[targets[edge]]++] = edge;
    const weights = this.exact ? floats(bytes) : bytes;
    return (this.parts = { weights, sources, targets, starts, order });
  }
  weight(head, edge) {
    const value = this.loaded.weights[head * this.count + edge];
    return this.exact ? value : SQUARES[value];
  }
  allowed(query, key) {
    return this.neighbors(query).some(([other]) => other === key);
  }
  // [key, edge] of every edge that ends at a query
  neighbors(query) {
    const { starts, order, sources } = this.loaded;
    return Array.from(order.subarray(starts[query], starts[query + 1]), (edge) => [sources[edge], edge]);
  }
  fill(head, query, out) {
    out.fill(0);
    for (const [key, edge] of this.neighbors(query)) out[key] = this.weight(head, edge);
  }
}

const ENCODINGS = { sqrt8: Sqrt8, float32: Float32, qk16: QK16, edges8: Edges8 };

export function decoder(archive, stream) {
  const kind = Object.hasOwn(ENCODINGS, stream.encoding) ? ENCODINGS[stream.encoding] : null;
  if (!kind) throw new RecordError("unknownEncoding", stream.name, String(stream.encoding));
  return new kind(archive, stream);
}
