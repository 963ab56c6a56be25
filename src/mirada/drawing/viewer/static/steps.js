// The arithmetic of one row: q . k -> scale -> mask -> softmax -> sum of values, with the numbers of the record.

import { h } from "./elements.js";
import { short, tokenElement } from "./tokens.js";
import { diverging, signedLevel } from "./palette.js";
import { strongest } from "./measures.js";

const SHOWN = 10;
const TERMS = 5;
export const CLOSE = 0.012; // recorded weights are rounded, and keys may be hidden

// what q and k of the record give: scores, which keys must have been hidden, and the weights
export function recompute(stream, head, query) {
  const { q, k, dim, scale } = stream.vectors(head);
  const recorded = stream.row(head, query);
  const factor = scale ?? 1 / Math.sqrt(dim);
  const products = Float64Array.from({ length: stream.keys }, (_, key) => {
    let total = 0;
    for (let i = 0; i < dim; i += 1) total += q[query * dim + i] * k[key * dim + i];
    return total;
  });
  const scores = products.map((value) => value * factor);
  const seen = (key) => recorded[key] !== 0;
  const most = scores.reduce((best, score, key) => (seen(key) && score > best ? score : best), -Infinity);
  const raw = scores.map((score) => (most === -Infinity ? 0 : Math.exp(score - most)));
  const total = raw.reduce((all, value, key) => (seen(key) ? all + value : all), 0);
  // a weight of 0 that the score does not explain: the key was hidden
  const hidden = Array.from(raw, (value, key) => !seen(key) && (most === -Infinity || value / total > 1e-4));
  const sum = raw.reduce((all, value, key) => (hidden[key] ? all : all + value), 0);
  const weights = raw.map((value, key) => (hidden[key] || !sum ? 0 : value / sum));
  const apart = weights.reduce((worst, weight, key) => Math.max(worst, Math.abs(weight - recorded[key])), 0);
  return { products, scores, factor, hidden, exponentials: raw, sum, weights, recorded, apart };
}

class StepsView {
  constructor(app) {
    Object.assign(this, { app, all: false });
    this.element = h("div", { class: "view steps-view" });
    this.update(new Set(["stream"]));
  }
  get head() {
    return this.app.state.heads[0];
  }
  update() {
    const { app, head } = this;
    const { stream, state } = app;
    const vectors = stream.vectors(head);
    const result = recompute(stream, head, state.row);
    this.plain = result.apart <= CLOSE && stream.fields.vectors.plain !== false;
    const weights = this.plain ? result.weights : result.recorded;
    const order = strongest(weights, this.all ? stream.keys : SHOWN).sort((a, b) => a - b);
    this.focus = state.column !== null && state.column < stream.keys ? state.column : strongest(weights, 1)[0];
    this.element.replaceChildren(
      this.#query(vectors), this.#scores(vectors, result, order), this.#softmax(result, weights, order), this.#sum(vectors, weights, order),
    );
  }
  #number(index, name, ...children) {
    return h(
      "section",
      { class: "card step" },
      h("h2", {}, h("span", { class: "step-number" }, String(index)), this.app.t(name)),
      children,
    );
  }
  #query({ q, dim }) {
    const { app, head } = this;
    const { row, heads } = app.state;
    return this.#number(1, "step_query",
      h("p", { class: "formula" }, h("i", {}, "q"), " = ", tokenElement(app.rowToken(), { class: "large" })),
      heads.length > 1 ? h("p", { class: "soft hint" }, app.t("oneHead", head)) : null,
      cells(app, q.subarray(row * dim, (row + 1) * dim)));
  }
  #scores({ q, k, dim }, { products, scores, factor, hidden }, order) {
    const { app, focus } = this;
    const { row } = app.state;
    const number = (value) => app.number(value, 2);
    const terms = Array.from(
      { length: Math.min(dim, TERMS) },
      (_, i) => `${number(q[row * dim + i])} × ${number(k[focus * dim + i])}`,
    );
    const lines = order.map((key) => h("tr", { class: key === focus ? "chosen" : "", onclick: () => app.set({ column: key }) },
      h("th", { scope: "row" }, tokenElement(app.token(app.stream.columns, key), {}, 20)), h(
        "td",
        { class: "vector" },
        cells(app, k.subarray(key * dim, (key + 1) * dim), 24),
      ),
      h("td", {}, number(products[key])), h("td", {}, app.number(scores[key], 3)), h(
        "td",
        { class: "soft" },
        hidden[key] ? app.t("masked") : "",
      )));
    return this.#number(2, "step_scores",
      h(
        "p",
        { class: "formula" },
        h("i", {}, "s"),
        h("sub", {}, "j"),
        " = ",
        h("i", {}, "q"),
        " · ",
        h("i", {}, "k"),
        h("sub", {}, "j"),
        " × ",
        app.number(factor, 3),
      ),
      h("div", { class: "scroll" }, h("table", { class: "steps-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", {}, app.t("key")),
            h("th", { class: "start" }, "k"),
            h("th", {}, "q · k"),
            h("th", {}, `× ${app.number(factor, 3)}`),
            h("th"),
          ),
        ), h("tbody", {}, lines))),
      h("p", { class: "worked" }, app.t(
        "dotOf",
        short(app.token(app.stream.columns, focus), 20),
      ), " ", terms.join(" + "), dim > TERMS ? ` ${app.t("moreTerms", dim - TERMS)}` : "", " = ", h("b", {}, number(products[focus])),
        ` × ${app.number(factor, 3)} = `, h("b", {}, app.number(scores[focus], 3))),
      this.#more(order));
  }
  #more(order) {
    const { app } = this;
    const { keys } = app.stream;
    if (order.length >= keys) return null;
    const all = () => {
      this.all = true;
      this.update();
    };
    const button = keys <= 300 ? h("button", { type: "button", class: "small", onclick: all }, app.t("showAllKeys", keys)) : null;
    return h("p", { class: "soft hint" }, app.t("strongestKeys", order.length, keys), " ", button);
  }
  #softmax({ exponentials, sum, hidden, apart }, weights, order) {
    const { app, focus } = this;
    const { fields } = app.stream;
    const most = Math.max(...order.map((key) => weights[key]), 1e-9);
    const lines = order.map((key) => h("tr", { class: key === focus ? "chosen" : "", onclick: () => app.set({ column: key }) },
      h("th", { scope: "row" }, tokenElement(app.token(app.stream.columns, key), {}, 20)),
      h("td", {}, hidden[key] ? "0" : this.plain ? app.number(exponentials[key], 4) : "–"),
      h(
        "td",
        { class: "wide" },
        h("span", { class: "bar" }, h("span", { class: "fill", style: { width: `${(weights[key] / most) * 100}%` } })),
      ), h("td", {}, h("b", {}, app.number(weights[key], 4)))));
    const note = this.plain ? h("p", { class: "soft hint" }, app.t("agreesWith", app.number(apart, 4)))
      : h(
        "p",
        { class: "warned hint" },
        app.t("disagrees", app.number(apart, 3), String(fields.score ?? "–"), String(fields.position || "–")),
      );
    return this.#number(3, "step_softmax",
      h(
        "p",
        { class: "formula" },
        h("i", {}, "α"),
        h("sub", {}, "j"),
        " = exp(",
        h("i", {}, "s"),
        h("sub", {}, "j"),
        " − max ",
        h("i", {}, "s"),
        ") / ",
        this.plain ? app.number(sum, 4) : "Σ",
      ),
      note,
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "steps-table" },
          h("thead", {}, h("tr", {}, h("th", {}, app.t("key")), h("th", {}, "exp(s − max)"), h("th"), h("th", {}, "α"))),
          h("tbody", {}, lines),
        ),
      ));
  }
  #sum({ v, valueDim }, weights, order) {
    const { app, focus } = this;
    if (!v) return this.#number(4, "step_sum", h("p", { class: "soft" }, app.t("noValues")));
    const out = new Float32Array(valueDim);
    for (let key = 0; key < weights.length; key += 1) for (let i = 0; i < valueDim; i += 1) out[i] += weights[key] * v[key * valueDim + i];
    const lines = order.map((key) => h("tr", { class: key === focus ? "chosen" : "", onclick: () => app.set({ column: key }) },
      h("td", {}, h("b", {}, app.number(weights[key], 3))), h("td", { class: "soft" }, "×"), h(
        "th",
        { scope: "row", class: "start" },
        tokenElement(app.token(app.stream.columns, key), {}, 16),
      ),
      h("td", { class: "vector" }, cells(app, v.subarray(key * valueDim, (key + 1) * valueDim), 32))));
    return this.#number(4, "step_sum",
      h(
        "p",
        { class: "formula" },
        h("i", {}, "h"),
        " = Σ ",
        h("i", {}, "α"),
        h("sub", {}, "j"),
        " ",
        h("i", {}, "v"),
        h("sub", {}, "j"),
      ),
      h("div", { class: "scroll" }, h("table", { class: "steps-table" }, h("tbody", {}, lines))),
      h("p", { class: "soft hint" }, app.t("outputIs")), cells(app, out),
      valueDim <= 8 ? h(
        "p",
        { class: "worked" },
        "h = (",
        Array.from(out, (value) => app.number(value, 3)).join(", "),
        ")",
      ) : null);
  }
}

// a vector as colored cells, a number each on demand
function cells(app, vector, most = 64) {
  const palette = diverging(app.dark);
  const limit = vector.reduce((best, value) => Math.max(best, Math.abs(value)), 1e-9);
  const shown = Array.from(vector.subarray(0, most));
  return h("span", { class: "cells" }, shown.map((value) => {
    const level = signedLevel(value, limit);
    return h("span", { class: "cell", title: app.number(value, 4), style: { background: palette.css(level) } });
  }), vector.length > most ? h("small", { class: "soft" }, `+${vector.length - most}`) : null);
}

const complete = (stream) => Boolean(stream.fields.vectors?.q && stream.fields.vectors?.k && stream.queries && stream.keys);

export const stepsView = {
  name: "steps",
  key: "s",
  supports: (app) => app.record.streams.some(complete),
  fits: complete,
  create: (app) => new StepsView(app),
};
