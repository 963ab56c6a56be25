// What is chosen, and who must know when it changes. Views read `app.state`; only `app.set` writes it.

import { changeRow } from "./changes.js";
import { words } from "./words.js";

// whether a stream looks at something else than its own rows: a source, a picture, an encoder's states
const reads = (stream) => stream.kind === "cross" || stream.kind === "recurrent" || !stream.square;

export class App {
  constructor(records, { language, theme = "auto", onChange = () => {}, rerun = null }) {
    Object.assign(this, { records, onChange, rerun, listeners: new Set() });
    this.record = records[0];
    const stream = this.#best();
    this.state = {
      view: "matrix", stream, heads: [], row: 0, rows: [], column: null, changes: [], language, theme,
    };
    this.state.heads = this.stream.heads > 1 && this.stream.heads <= 64 ? this.all() : [0];
    this.state.row = this.#firstRow();
  }
  // what most people want to see first: where an answer came from, else the last layer
  #best() {
    const { streams } = this.record;
    const rank = (stream) => (reads(stream) ? 1 : 0);
    return streams.reduce((best, stream, index) => (rank(stream) >= rank(streams[best]) ? index : best), 0);
  }
  #firstRow() {
    const { queries, fields, square } = this.stream;
    if (!this.record.outputs.length && square && /Causal/.test(fields.where ?? "")) return Math.max(0, queries - 1);
    return Math.min(this.record.outputs[0]?.row ?? 0, Math.max(0, queries - 1));
  }
  get stream() {
    return this.record.streams[this.state.stream];
  }
  get dark() {
    const { theme } = this.state;
    return theme === "auto" ? window.matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
  }
  get changes() {
    return this.changesOf(this.stream);
  }
  changesOf(stream) {
    return this.state.changes.filter((change) => change.layer === stream.name);
  }
  all() {
    return Array.from({ length: this.stream.heads }, (_, head) => head);
  }
  t(key, ...values) {
    return words(this.state.language, key, values);
  }
  number(value, digits = 3) {
    if (value === null || value === undefined) return "–";
    if (!Number.isFinite(value)) return String(value);
    return value.toLocaleString(this.state.language, { maximumFractionDigits: digits, minimumFractionDigits: digits });
  }
  percent(value) {
    const digits = value > 0 && value < 0.0995 ? 1 : 0;
    return value.toLocaleString(this.state.language, { style: "percent", maximumFractionDigits: digits });
  }
  set(patch) {
    const before = this.state;
    const next = { ...before, ...patch };
    if (patch.stream !== undefined && patch.stream !== before.stream) {
      const stream = this.record.streams[next.stream];
      const all = before.heads.length === this.stream.heads;
      const kept = before.heads.filter((head) => head < stream.heads);
      if (!patch.heads) next.heads = all ? Array.from({ length: stream.heads }, (_, head) => head) : kept.length ? kept : [0];
      next.row = Math.max(0, Math.min(next.row, stream.queries - 1));
      if (patch.column === undefined) next.column = null;
    }
    if ((patch.row !== undefined || patch.stream !== undefined) && patch.rows === undefined && next.rows.length) next.rows = [];
    const changed = new Set(Object.keys(next).filter((name) => next[name] !== before[name]));
    if (!changed.size) return;
    this.state = next;
    for (const listener of [...this.listeners]) listener(changed);
    const { view, heads, row, column, changes, language, theme } = next;
    this.onChange({ changed: [...changed], view, stream: this.stream.name, heads, row, column, changes, language, theme });
  }
  // the weights of a head as chosen here: what was recorded, after the what-ifs of its layer
  fill(stream, head, query, out) {
    stream.fill(head, query, out);
    const changes = this.changesOf(stream);
    return changes.length ? changeRow(stream, out, head, query, changes) : out;
  }
  // the mean of the chosen heads, as a source of rows
  source(stream = this.stream, heads = this.state.heads) {
    const one = new Float32Array(stream.keys);
    const fill = (query, out) => {
      if (heads.length === 1) return this.fill(stream, heads[0], query, out);
      out.fill(0);
      for (const head of heads) {
        this.fill(stream, head, query, one);
        for (let key = 0; key < out.length; key += 1) out[key] += one[key] / heads.length;
      }
      return out;
    };
    return { queries: stream.queries, keys: stream.keys, fill };
  }
  // the rows that are chosen: one, or several
  get chosenRows() {
    return this.state.rows.length ? this.state.rows : [this.state.row];
  }
  chosenMean() {
    const rows = this.chosenRows;
    const out = new Float32Array(this.stream.keys);
    for (const query of rows) this.row(query).forEach((weight, key) => (out[key] += weight / rows.length));
    return out;
  }
  // a head alone, or one more or less of its layer
  chooseHead(stream, head, more) {
    const { heads } = this.state;
    if (!more || stream !== this.stream) return this.set({ stream: stream.index, heads: [head] });
    const next = heads.includes(head) ? heads.filter((other) => other !== head) : [...heads, head].sort((a, b) => a - b);
    if (next.length) this.set({ heads: next });
  }
  // one row more or less; what was chosen last counts as the row
  toggleRow(row) {
    const rows = this.chosenRows.includes(row) ? this.chosenRows.filter((other) => other !== row) : [...this.chosenRows, row];
    if (rows.length) this.set({ row: rows.at(-1), rows: rows.length > 1 ? rows : [] });
  }
  row(query = this.state.row, stream = this.stream, heads = this.state.heads) {
    const out = new Float32Array(stream.keys);
    return stream.queries ? this.source(stream, heads).fill(query, out) : out;
  }
  token(axis, place) {
    return axis.tokens[place] ?? "";
  }
  // a row by what was written from it, where something was: row 0 of a translation was fed <s> and wrote the first word
  rowToken(place = this.state.row, stream = this.stream) {
    return this.written(place, stream)?.text ?? this.token(stream.rows, place);
  }
  // the axis whose rows wrote the outputs
  get outputAxis() {
    const last = Math.max(...this.record.outputs.map((output) => output.row), -1);
    const long = this.record.streams.filter((stream) => stream.queries > last);
    const reading = long.filter(reads);
    return last < 0 ? null : ((reading.at(-1) ?? long.at(-1))?.rows ?? null);
  }
  written(place, stream = this.stream) {
    if (!reads(stream) || stream.rows !== this.outputAxis) return null;
    this.byRow ??= new Map(this.record.outputs.map((output) => [output.row, output]));
    return this.byRow.get(place) ?? null;
  }
}
