// Raw weights compared with other measures of what mattered, and how far they agree.

import { h } from "./elements.js";
import { tokenElement } from "./tokens.js";
import { sequential } from "./palette.js";
import { paintThumbnail } from "./plane.js";
import { strongest } from "./measures.js";

const KEYS = 12;

class CompareView {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "view compare-view" });
    this.update();
  }
  #name(name) {
    const text = this.app.t(`method_${name}`);
    return text.startsWith("method_") ? name : text;
  }
  #token(axis, place) {
    const { app } = this;
    const written = axis === app.outputAxis ? app.record.outputs.find((output) => output.row === place) : null;
    return written?.text ?? axis.tokens[place];
  }
  update() {
    const { app } = this;
    const methods = app.record.methods;
    const row = Math.min(app.state.row, methods.rows.size - 1);
    this.element.replaceChildren(
      h("div", { class: "methods" }, methods.matrices.map((matrix) => this.#matrix(methods, matrix, row))),
      h(
        "section",
        { class: "card" },
        h("h2", {}, app.t("chosenRow"), ": ", tokenElement(this.#token(methods.rows, row))),
        this.#row(methods, row),
      ),
      this.#agreement(methods),
    );
  }
  #matrix({ rows, columns, agreement }, { name, numbers }, row) {
    const { app } = this;
    const canvas = h("canvas", { class: "method-matrix", role: "img", "aria-label": this.#name(name), onclick: (event) => {
      const box = canvas.getBoundingClientRect();
      app.set({ row: Math.min(rows.size - 1, Math.floor(((event.clientY - box.top) / box.height) * rows.size)) });
    } });
    const bytes = Uint8Array.from(numbers, (value) => 255 * Math.sqrt(Math.max(0, Math.min(1, value))));
    paintThumbnail(canvas, { bytes, width: columns.size, height: rows.size }, sequential(app.dark));
    const found = agreement.find((pair) => pair.a === "attention" && pair.b === name);
    return h("figure", { class: "card method" }, h(
      "figcaption",
      {},
      h("b", {}, this.#name(name)),
      found ? h("small", { class: "soft" }, ` ρ ${app.number(found.spearman, 2)}`) : null,
    ),
      h(
        "div",
        { class: "method-frame" },
        canvas,
        h("span", { class: "row-mark", style: { top: `${(row / rows.size) * 100}%`, height: `${100 / rows.size}%` } }),
      ));
  }
  #row({ columns, matrices }, row) {
    const { app } = this;
    const part = ({ numbers }) => numbers.subarray(row * columns.size, (row + 1) * columns.size);
    const total = new Float32Array(columns.size);
    for (const matrix of matrices) part(matrix).forEach((value, key) => (total[key] = Math.max(total[key], value)));
    const keys = strongest(total, KEYS).sort((a, b) => a - b);
    const head = h(
      "tr",
      {},
      h("th", {}, app.t("key")),
      matrices.map(({ name }) => h("th", { scope: "col", class: "start" }, this.#name(name))),
    );
    const lines = keys.map((key) => h("tr", {}, h(
      "th",
      { scope: "row" },
      tokenElement(columns.tokens[key], {}, 18),
    ), matrices.map((matrix) => {
      const value = part(matrix)[key];
      const best = strongest(part(matrix), 1)[0] === key;
      return h(
        "td",
        { class: best ? "best" : "" },
        h("span", { class: "bar" }, h("span", { class: "fill", style: { width: `${Math.min(1, value) * 100}%` } })),
        h("span", {}, app.number(value, 3)),
      );
    })));
    return h(
      "div",
      { class: "scroll" },
      h("table", { class: "compare-table" }, h("thead", {}, head), h("tbody", {}, lines)),
      columns.size > keys.length ? h("p", { class: "soft hint" }, app.t("strongestKeys", keys.length, columns.size)) : null,
    );
  }
  #agreement({ agreement }) {
    const { app } = this;
    const lines = agreement.map(({ a, b, spearman, top }) => h("tr", {}, h(
      "th",
      { scope: "row", class: "start" },
      `${this.#name(a)} · ${this.#name(b)}`,
    ),
      h(
        "td",
        {},
        h("span", { class: "bar" }, h("span", { class: "fill", style: { width: `${Math.max(0, spearman ?? 0) * 100}%` } })),
        h("span", {}, app.number(spearman, 2)),
      ), h("td", {}, top === undefined || top === null ? "–" : app.percent(top))));
    return h("section", { class: "card" }, h("h2", {}, app.t("agreement")), h(
      "p",
      { class: "soft hint" },
      app.t("compareHint"),
    ),
      lines.length ? h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "compare-table" },
          h("thead", {}, h("tr", {}, h("th"), h("th", { class: "start" }, app.t("spearman")), h("th", {}, app.t("sameTop")))),
          h("tbody", {}, lines),
        ),
      ) : null,
      h("p", { class: "soft hint" }, app.t("notExplanation")));
  }
}

export const compareView = {
  name: "compare",
  key: "c",
  supports: (app) => app.record.methods !== null,
  fits: (stream, app) => stream.rows === app.record.methods.rows,
  create: (app) => new CompareView(app),
};
