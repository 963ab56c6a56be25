// A record: what an .attn file says (docs/attn.md), checked, with weights by row.

import { Archive, RecordError } from "./archive.js";
import { decoder, floats } from "./encodings.js";
import { rowsSampled, statisticsOf } from "./measures.js";
import { decidedByColumns, neighborhood } from "./neighborhood.js";

const VERSION = 1;
const MOST_STREAMS = 4096;
const MOST_WEIGHTS = 2 ** 31;
const MOST_MANIFEST = 64 * 2 ** 20;
const MOST_HEADS = 2 ** 16;
const LARGEST_AXIS = 2 ** 24;
const MOST_PLACES = 2 ** 20; // of an axis whose places the file does not name, and of a grid
const SPARSE = /^(Sparsemax|Hard|StraightThrough|Gumbel)\b/; // normalizers that give weights of 0 to what may be seen

const whole = (value, least = 0) => Number.isInteger(value) && value >= least;

export class Axis {
  constructor(name, fields) {
    if (typeof fields !== "object" || fields === null || !whole(fields.size)) throw new RecordError("axisSize", name);
    const most = fields.kind === "grid" || !fields.tokens ? MOST_PLACES : LARGEST_AXIS;
    if (fields.size > most) throw new RecordError("axisLarge", name, fields.size, most);
    Object.assign(this, fields, { name, kind: fields.kind ?? "plain", before: fields.before ?? [] });
    if (this.kind === "grid") this.#cells();
    this.tokens ??= Array.from({ length: this.size }, (_, place) => String(place));
    if (!Array.isArray(this.tokens) || this.tokens.length !== this.size) throw new RecordError("axisTokens", name, this.size);
    this.tokens = this.tokens.map(String);
  }
  #cells() {
    const right = whole(this.height, 1) && whole(this.width, 1) && Array.isArray(this.before);
    const cells = right ? this.height * this.width : -1;
    if (!right || this.before.length + cells !== this.size) throw new RecordError("axisGrid", this.name, this.size);
    const name = (cell) => `${Math.floor(cell / this.width) + 1}·${(cell % this.width) + 1}`;
    this.tokens ??= [...this.before, ...Array.from({ length: cells }, (_, cell) => name(cell))];
  }
}

export class Stream {
  constructor(record, fields, index) {
    Object.assign(this, { record, index, fields });
    for (const name of ["name", "kind", "heads", "queries", "keys"]) this[name] = fields[name];
    this.name = String(this.name ?? "");
    for (const [name, least] of [["heads", 1], ["queries", 0], ["keys", 0]]) {
      if (!whole(this[name], least)) throw new RecordError("streamSize", this.name, name);
    }
    const dense = fields.encoding !== "edges8"; // edges are as many as their blob says
    if (dense && this.heads * this.queries * this.keys > MOST_WEIGHTS) throw new RecordError("streamLarge", this.name);
    if (this.heads > MOST_HEADS) throw new RecordError("streamHeads", this.name, this.heads, MOST_HEADS);
    this.rows = this.#axis(fields.rows, this.queries);
    this.columns = this.#axis(fields.columns, this.keys);
    this.checks = fields.checks ?? {};
    this.weights = decoder(record.archive, { ...fields, data: fields.data ?? {} });
    this.found = [];
  }
  #axis(name, size) {
    const axis = Object.hasOwn(this.record.axes, name) ? this.record.axes[name] : null;
    if (!axis) throw new RecordError("axisMissing", this.name, String(name));
    if (axis.size !== size) throw new RecordError("axisFits", this.name, name, axis.size, size);
    return axis;
  }
  get square() {
    return this.rows === this.columns;
  }
  get edges() {
    return this.fields.encoding === "edges8";
  }
  fill(head, query, out) {
    this.weights.fill(head, query, out);
    return out;
  }
  row(head, query) {
    return this.fill(head, query, new Float32Array(this.keys));
  }
  // how many keys a query may see: a uniform row divides its attention among these
  visible(query) {
    return this.sees(query).reduce((count, one) => count + one, 0);
  }
  // 1 for every key that a query may see, with one head or (null) with any; that of the last query is kept
  sees(query, head = null) {
    if (this.seen?.query === query && this.seen.head === head) return this.seen.mask;
    const mask = new Uint8Array(this.keys);
    if (this.edges) for (const [key] of this.weights.neighbors(query)) mask[key] = 1;
    else if (this.fields.encoding === "qk16") mask.forEach((_, key) => (mask[key] = this.weights.allowed(query, key) ? 1 : 0));
    else this.#seesStored(query, head, mask);
    this.seen = { query, head, mask };
    return mask;
  }
  // by the words of the neighborhood; what data decided is taken from the weights: a softmax gives 0 only to what is hidden
  #seesStored(query, head, mask) {
    const where = (this.where ??= neighborhood(String(this.fields.where ?? ""), this.queries === this.keys));
    mask.forEach((_, key) => (mask[key] = where.allows(query, key, head) ? 1 : 0));
    if (!where.data || SPARSE.test(this.fields.normalizer ?? "")) return;
    const heads = where.everyHead || head === null ? Array.from({ length: this.heads }, (_, one) => one) : [head];
    const columns = decidedByColumns(where);
    const touched = (columns && this.columnsTouched) || this.#touched(heads, columns ? rowsSampled(this.queries) : [query]);
    if (columns) this.columnsTouched = touched; // the same for all rows
    touched.forEach((one, key) => (mask[key] *= one));
  }
  // 1 for every key that has a weight in some of these rows, in some of these heads: a small one may be rounded away in one of them
  #touched(heads, rows) {
    const [found, row] = [new Uint8Array(this.keys), new Float32Array(this.keys)];
    for (const head of heads) {
      for (const query of rows) {
        this.fill(head, query, row);
        for (let key = 0; key < row.length; key += 1) if (row[key] !== 0) found[key] = 1;
      }
    }
    return found;
  }
  statistics(head) {
    return (this.found[head] ??= this.fields.statistics?.[head] ?? statisticsOf(this, head));
  }
  // {q, k, v} of a head where the record has them, else null; any of the three may be missing
  vectors(head) {
    const names = this.fields.vectors;
    if (!names) return null;
    this.blobs ??= {};
    const part = (name, rows, dim) => {
      if (!names[name]) return null;
      const all = (this.blobs[name] ??= floats(this.record.archive.read(names[name])));
      const shared = all.length === rows * dim; // one for all heads
      if (!shared && all.length !== this.heads * rows * dim) throw new RecordError(
        "blobSize",
        names[name],
        all.length * 4,
        this.heads * rows * dim * 4,
      );
      return shared ? all : all.subarray(head * rows * dim, (head + 1) * rows * dim);
    };
    const [dim, valueDim] = [names.dim ?? 0, names.value_dim ?? 0];
    return {
      q: part("q", this.queries, dim),
      k: part("k", this.keys, dim),
      v: part("v", this.keys, valueDim),
      dim,
      valueDim,
      scale: names.scale ?? null,
    };
  }
}

export class AttentionRecord {
  constructor(bytes) {
    this.archive = new Archive(bytes);
    const manifest = this.#manifest();
    this.manifest = manifest;
    const axes = manifest.axes ?? null;
    if (typeof axes !== "object" || axes === null) throw new RecordError("manifestPart", "axes");
    if (!Array.isArray(manifest.streams)) throw new RecordError("manifestPart", "streams");
    if (manifest.streams.length > MOST_STREAMS) throw new RecordError("manyStreams", manifest.streams.length, MOST_STREAMS);
    this.axes = Object.create(null);
    for (const [name, fields] of Object.entries(axes)) this.axes[name] = new Axis(name, fields);
    this.streams = manifest.streams.map((fields, index) => new Stream(this, fields ?? {}, index));
    this.byName = new Map(this.streams.map((stream) => [stream.name, stream]));
    this.made = manifest.made ?? {};
    this.answer = manifest.answer ?? null;
    this.outputs = manifest.outputs ?? [];
    this.relations = manifest.relations ?? [];
    this.changes = manifest.changes ?? [];
    this.boxes = manifest.boxes ?? [];
  }
  #manifest() {
    if (this.archive.size("manifest.json") > MOST_MANIFEST) throw new RecordError("tooLarge");
    let manifest;
    try {
      manifest = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(this.archive.read("manifest.json")));
    } catch (error) {
      if (error instanceof RecordError) throw error;
      throw new RecordError("manifestJson");
    }
    if (manifest?.format !== "mirada.attn") throw new RecordError("notRecord");
    if (!(manifest.version <= VERSION)) throw new RecordError("newer", String(manifest.version), VERSION);
    return manifest;
  }
  // the matrices of other methods, or null
  get methods() {
    const methods = this.manifest.methods;
    if (!methods?.matrices?.length) return null;
    const [rows, columns] = [this.axes[methods.rows], this.axes[methods.columns]];
    if (!rows || !columns) return null;
    return (this.readMethods ??= {
      rows,
      columns,
      agreement: methods.agreement ?? [],
      matrices: methods.matrices.map(({ name, data }) => {
        const numbers = floats(this.archive.read(data));
        if (numbers.length !== rows.size * columns.size) throw new RecordError(
          "blobSize",
          data,
          numbers.length * 4,
          rows.size * columns.size * 4,
        );
        return { name, numbers };
      }),
    });
  }
  // the bytes of an axis' picture, or null
  picture(axis) {
    return axis.picture ? this.archive.read(axis.picture) : null;
  }
}
