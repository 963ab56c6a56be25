// The page of an .attn record as a module. One file with everything inside is made by drawing/viewer/page.py; an app serves
// this folder and imports it:
//
//   import { mount } from "./attention/mount.js";          // and <link rel="stylesheet" href=".../attention/attention.css">
//   const viewer = mount(element, source, options);
//
// source    Uint8Array or ArrayBuffer with the bytes of a record, a URL to fetch them from, or a list of one or two (difference)
// options   title       what the page is about, where the record has no input or answer
//           language    "es" or "en" (default: ?lang=, then the browser's)
//           theme       "auto" (default), "light" or "dark"
//           onChange    called after every change with {changed: [names], view, stream, heads, row, column, changes, language, theme};
//                       `changes` are the what-ifs in the form of POST /api/look
//           rerun       async (changes) => bytes of a record: the model run again with the what-ifs. Where it is given, what-ifs get a
//                       button "run the model again"; the result is shown next to the first record (view "difference").
//                       Their places are the model's: nodes that are a part of a graph are named by their numbers in the whole
// viewer    ready       a promise: resolved when the record is shown, or the message that says why not
//           streams     [{name, kind, heads, queries, keys}]
//           weights(name, head, query)   the numbers of a row
//           app         app.state, app.set({view, stream, heads, row, column, changes, language, theme})
//           open(view), begin("view=graph&stream=NAME&heads=0,2&row=2&column=1"), show(source), close()

import { AttentionRecord } from "./record.js";
import { App } from "./app.js";
import { inModel } from "./changes.js";
import { Shell, problem } from "./shell.js";
import { words } from "./words.js";

export function mount(element, source, options = {}) {
  const viewer = new Viewer(element, options);
  viewer.ready = viewer.show(source);
  return viewer;
}

export function preferredLanguage(given = "") {
  const asked = new URLSearchParams(window.location.search).get("lang");
  const wishes = [asked, given, ...(navigator.languages ?? [navigator.language])].filter(Boolean);
  const known = wishes.map((wish) => wish.toLowerCase().slice(0, 2)).find((wish) => wish === "es" || wish === "en");
  return known ?? "en";
}

class Viewer {
  constructor(element, options) {
    Object.assign(this, { element, options, records: [], shell: null, app: null });
    element.classList.add("mirada");
  }
  get streams() {
    return (this.records[0]?.streams ?? []).map(({ name, kind, heads, queries, keys }) => ({ name, kind, heads, queries, keys }));
  }
  weights(name, head, query) {
    const stream = this.records[0]?.byName.get(name);
    if (!stream) throw new Error(`no stream ${JSON.stringify(name)}; there are: ${this.streams.map((one) => one.name).join(", ")}`);
    const within = (value, size) => Number.isInteger(value) && value >= 0 && value < size;
    if (!within(head, stream.heads) || !within(query, stream.queries)) {
      const known = `heads 0 to ${stream.heads - 1} and queries 0 to ${stream.queries - 1}`;
      throw new Error(`${name} has ${known}: got ${head}, ${query}`);
    }
    return Array.from(stream.row(head, query));
  }
  // at once where the bytes are here, later where they must be fetched
  show(source) {
    const sources = Array.isArray(source) ? source : [source];
    if (sources.every((one) => typeof one !== "string")) {
      this.#show(sources);
      return Promise.resolve(this);
    }
    return Promise.all(sources.map((one) => (typeof one === "string" ? download(one) : one))).then(
      (parts) => { this.#show(parts); return this; },
      (error) => { this.#fail(error); return this; },
    );
  }
  #show(sources) {
    const before = this.app?.state;
    const chosen = this.app?.stream;
    this.shell?.close();
    try {
      this.records = sources.map((bytes) => new AttentionRecord(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes)));
      if (!this.records[0].streams.length) throw Object.assign(new Error("no streams"), { reason: "noStreams", values: [] });
      this.app = new App(this.records, {
        language: before?.language ?? preferredLanguage(this.options.language),
        theme: before?.theme ?? this.options.theme ?? "auto",
        onChange: (event) => this.options.onChange?.(event),
        rerun: this.options.rerun ? (changes) => this.#rerun(changes) : null,
      });
      this.shell = new Shell(this.element, this.app, this.options.title ?? "");
      if (before) this.#resume(before, chosen);
    } catch (error) {
      this.#fail(error);
    }
  }
  // another record: the view, the layer and the heads stay, where it has them; the row, where it has as many
  #resume({ view, heads, row, column }, chosen) {
    const stream = this.records[0].byName.get(chosen.name);
    if (stream) {
      const same = stream.queries === chosen.queries && stream.keys === chosen.keys;
      this.app.set({
        stream: stream.index,
        heads: heads.every((head) => head < stream.heads) ? heads : [0],
        ...(same ? { row, column } : {}),
      });
    }
    this.open(view);
  }
  async #rerun(changes) {
    const first = this.records[0];
    const bytes = await this.options.rerun(changes.map((change) => inModel(first, change)));
    this.#show([first.archive.bytes, bytes]);
    this.app?.set({ changes });
    this.open("difference");
  }
  #fail(error) {
    this.records = [];
    const language = preferredLanguage(this.options.language);
    this.element.replaceChildren(problem({ t: (key, ...values) => words(language, key, values) }, error));
  }
  open(view) {
    this.shell?.open(view);
  }
  // from words to a view and a choice; what a record does not have is left as it is
  begin(text) {
    const wanted = new URLSearchParams(text ?? "");
    const { app } = this;
    if (!app || ![...wanted.keys()].length) return;
    const stream = this.records[0].byName.get(wanted.get("stream") ?? app.stream.name) ?? app.stream;
    app.set({ stream: stream.index });
    const inside = (name, size) => {
      const value = Number.parseInt(wanted.get(name) ?? "", 10);
      return value >= 0 && value < size ? { [name]: value } : {};
    };
    const numbers = (wanted.get("heads") ?? "").split(",").map((head) => Number.parseInt(head, 10));
    const heads = numbers.filter((head) => head >= 0 && head < stream.heads);
    app.set({
      ...inside("row", stream.queries),
      ...inside("column", stream.keys),
      ...(heads.length ? { heads: [...new Set(heads)] } : {}),
    });
    this.open(wanted.get("view"));
  }
  close() {
    this.shell?.close();
  }
}

async function download(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.arrayBuffer();
}
