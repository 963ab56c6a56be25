// Two records side by side, and the second minus the first.

import { h } from "./elements.js";
import { short, tokenElement, visible } from "./tokens.js";
import { diverging, level, sequential, signedLevel } from "./palette.js";
import { rowsSampled, strongest } from "./measures.js";
import { changeChips } from "./whatif.js";

const MOST = 512; // rows and columns of a picture; more are picked evenly

// the rows that two streams have both: answers of different lengths are compared as far as the shorter one goes
const rowsInBoth = (stream, other) => (other && other.keys === stream.keys ? Math.min(stream.queries, other.queries) : 0);

class DifferenceView {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "view difference-view" });
    this.update(new Set(["stream"]));
  }
  get other() {
    const { app } = this;
    const found = app.records[1].byName.get(app.stream.name);
    return rowsInBoth(app.stream, found) ? found : null;
  }
  update() {
    const { app, other } = this;
    if (!other) return this.element.replaceChildren(
      this.#answers() ?? "",
      h("p", { class: "card warned" }, app.t("notInB", short(app.stream.name, 60))),
      this.#heads(),
    );
    const shared = rowsInBoth(app.stream, other);
    const cut = shared < Math.max(app.stream.queries, other.queries);
    const heads = app.state.heads.filter((head) => head < other.heads);
    const sources = [this.#source(app.stream, heads), this.#source(other, heads)];
    const same = ["rows", "columns"].every((axis) => app.stream[axis].tokens.join("\0") === other[axis].tokens.join("\0"));
    const hint = (text) => h("p", { class: "soft hint" }, text);
    this.element.replaceChildren(...[
      this.#answers(), cut ? hint(app.t("rowsInBoth", shared)) : null, same ? null : hint(app.t("otherTokens")),
      this.#pictures(sources, shared), app.state.row < shared ? this.#row(sources) : null, this.#heads(),
    ].filter(Boolean));
  }
  #source(stream, heads) {
    const one = new Float32Array(stream.keys);
    return (query) => {
      const out = new Float32Array(stream.keys);
      for (const head of heads) stream.fill(head, query, one).forEach((weight, key) => (out[key] += weight / heads.length));
      return out;
    };
  }
  #answers() {
    const { app } = this;
    const answers = app.records.map((record) => record.answer?.text).map((text) => (text === undefined ? null : String(text)));
    if (answers.every((answer) => answer === null)) return null;
    const changed = answers[0] !== answers[1];
    const card = (name, record, index) => h(
      "div",
      { class: "answer" },
      h("small", { class: "soft" }, name, " ", changeChips(record)),
      h("bdi", { class: index && changed ? "changed" : "" }, visible(answers[index] ?? "–")),
      Number.isFinite(record.answer?.score) ? h("small", { class: "soft" }, app.number(record.answer.score, 3)) : null,
    );
    return h(
      "section",
      { class: "card answers" },
      h("h2", {}, app.t("answers")),
      h(
        "div",
        { class: "answer-pair" },
        app.records.map((record, index) => card(app.t(index ? "second" : "first"), record, index)),
      ),
      changed ? null : h("p", { class: "soft hint" }, app.t("sameAnswer")),
    );
  }
  #pictures([before, after], queries) {
    const { app } = this;
    const { keys } = app.stream;
    const rows = rowsSampled(queries, MOST);
    const columns = rowsSampled(keys, MOST);
    const [a, b] = [before, after].map((source) => rows.map((query) => source(query)));
    let [most, apart, moved] = [1e-6, 1e-6, 0];
    rows.forEach((_, y) => {
      for (let key = 0; key < keys; key += 1) {
        most = Math.max(most, a[y][key], b[y][key]);
        const change = b[y][key] - a[y][key];
        apart = Math.max(apart, Math.abs(change));
        moved += Math.abs(change) / 2;
      }
    });
    const paint = (name, palette, value, signed) => {
      const canvas = h("canvas", { class: "method-matrix", role: "img", "aria-label": name, onclick: (event) => {
        const box = canvas.getBoundingClientRect();
        app.set({ row: rows[Math.min(rows.length - 1, Math.floor(((event.clientY - box.top) / box.height) * rows.length))] });
      } });
      Object.assign(canvas, { width: Math.max(1, columns.length), height: Math.max(1, rows.length) });
      const image = new ImageData(canvas.width, canvas.height);
      const pixels = new Uint32Array(image.data.buffer);
      rows.forEach((_, y) => columns.forEach((key, x) => (pixels[y * columns.length + x] = palette.words[Math.round(value(y, key)) | 0])));
      canvas.getContext("2d").putImageData(image, 0, 0);
      const mark = h(
        "span",
        {
          class: "row-mark",
          hidden: app.state.row >= queries || null,
          style: {
            top: `${(rows.findIndex((row) => row >= app.state.row) / rows.length) * 100}%`,
            height: `${100 / rows.length}%`,
          },
        },
      );
      return h(
        "figure",
        { class: "card method" },
        h(
          "figcaption",
          {},
          h("b", {}, name),
          signed ? h("small", { class: "soft" }, ` ± ${app.number(apart, 3)}`) : h(
            "small",
            { class: "soft" },
            ` 0 – ${app.number(most, 2)}`,
          ),
        ),
        h("div", { class: "method-frame" }, canvas, mark),
      );
    };
    return h("div", {}, h(
      "p",
      { class: "moved" },
      app.t("totalVariation", app.percent(moved / Math.max(1, rows.length))),
    ), h("div", { class: "methods three" },
      paint(app.t("first"), sequential(app.dark), (y, key) => level(a[y][key], most)), paint(
        app.t("second"),
        sequential(app.dark),
        (y, key) => level(b[y][key], most),
      ),
      paint(app.t("minus"), diverging(app.dark), (y, key) => signedLevel(b[y][key] - a[y][key], apart), true)));
  }
  #row([before, after]) {
    const { app } = this;
    const { state, stream } = app;
    const [a, b] = [before(state.row), after(state.row)];
    const change = b.map((weight, key) => weight - a[key]);
    const keys = strongest(change, 12);
    const most = Math.max(...keys.map((key) => Math.abs(change[key])), 1e-9);
    const lines = keys.map((key) => h("tr", {}, h(
      "th",
      { scope: "row" },
      tokenElement(app.token(stream.columns, key), {}, 20),
    ), h("td", {}, app.number(a[key], 4)), h("td", {}, app.number(b[key], 4)),
      h(
        "td",
        { class: "wide" },
        h(
          "span",
          { class: "signed" },
          h("span", { class: change[key] < 0 ? "less" : "more", style: { width: `${(Math.abs(change[key]) / most) * 50}%` } }),
        ),
      ), h(
        "td",
        { class: change[key] < 0 ? "down" : "up" },
        `${change[key] < 0 ? "−" : "+"}${app.number(Math.abs(change[key]), 4)}`,
      )));
    return h("section", { class: "card" }, h(
      "h2",
      {},
      h("small", {}, app.t("rowOf", state.row + 1, stream.queries)),
      " ",
      tokenElement(app.rowToken()),
    ),
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "compare-table" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", {}, app.t("key")),
              h("th", {}, app.t("first")),
              h("th", {}, app.t("second")),
              h("th"),
              h("th", {}, app.t("minus")),
            ),
          ),
          h("tbody", {}, lines),
        ),
      ));
  }
  // the share of attention that moved, for every head of every layer both records have
  #heads() {
    const { app } = this;
    const palette = sequential(app.dark);
    const rows = app.record.streams.map((stream) => {
      const other = app.records[1].byName.get(stream.name);
      const shared = rowsInBoth(stream, other);
      if (!shared) return null;
      const heads = Array.from({ length: Math.min(stream.heads, other.heads) }, (_, head) => {
        const picked = rowsSampled(shared, 24);
        let moved = 0;
        for (const query of picked) {
          const [a, b] = [stream.row(head, query), other.row(head, query)];
          for (let key = 0; key < a.length; key += 1) moved += Math.abs(a[key] - b[key]) / 2 || 0;
        }
        const share = moved / Math.max(1, picked.length);
        const on = stream.index === app.state.stream && app.state.heads.includes(head);
        return h(
          "button",
          {
            type: "button",
            class: "moved-head",
            "aria-pressed": String(on),
            title: `${stream.name} · ${head}`,
            style: { background: palette.css(255 * Math.sqrt(share)), color: palette.ink(255 * Math.sqrt(share)) },
            onclick: () => app.set({ stream: stream.index, heads: [head] }),
          },
          app.percent(share),
        );
      });
      return h(
        "div",
        { class: "moved-row" },
        h("span", { class: "soft" }, short(stream.name, 40)),
        h("div", { class: "moved-heads" }, heads),
      );
    });
    return h("section", { class: "card" }, h("h2", {}, app.t("movedHeads")), rows);
  }
}

export const differenceView = {
  name: "difference",
  key: "d",
  supports: (app) => app.records.length > 1,
  fits: () => true,
  create: (app) => new DifferenceView(app),
};
