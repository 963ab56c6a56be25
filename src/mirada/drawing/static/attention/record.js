// A record: what an .attn file says (docs/attn.md), checked, with weights by row.

import { Archive, RecordError } from "./archive.js";
import { decoder, floats } from "./encodings.js";
import { statisticsOf } from "./measures.js";

const VERSION = 1;
const MOST_STREAMS = 4096;
const MOST_WEIGHTS = 2 ** 31;
const MOST_MANIFEST = 64 * 2 ** 20;

const whole = (value, least = 0) => Number.isInteger(value) && value >= least;

export class Axis {
  constructor(name, fields) {
    if (typeof fields !== "object" || fields === null || !whole(fields.size)) throw new RecordError("axisSize", name);
    Object.assign(this, fields, { name, kind: fields.kind ?? "plain", before: fields.before ?? [] });
    if (this.kind === "grid") this.#cells();
    this.tokens ??= Array.from({ length: this.size }, (_, place) => String(place));
    if (!Array.isArray(this.tokens) || this.tokens.length !== this.size) throw new RecordError("axisTokens", name, this.size);
    this.tokens = this.tokens.map(String);
  }
  #cells() {
    const cells = whole(this.height, 1) && whole(this.width, 1) ? this.height * this.width : -1;
    if (this.before.length + cells !== this.size) throw new RecordError("axisGrid", this.name, this.size);
    this.tokens = [...this.before];
    for (let cell = 0; cell < cells; cell += 1) this.tokens.push(`${Math.floor(cell / this.width) + 1}·${(cell % this.width) + 1}`);
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
    if (this.edges) return this.weights.neighbors(query).length;
    if (this.fields.encoding === "qk16") {
      const [low, high] = this.weights.reach(query);
      if (this.weights.mask.kind !== "bits") return high - low;
      let count = 0;
      for (let key = 0; key < this.keys; key += 1) count += this.weights.allowed(query, key) ? 1 : 0;
      return count;
    }
    const causal = this.square && /^Causal\(\)$/.test(this.fields.where ?? "");
    return causal ? query + 1 : this.keys;
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
