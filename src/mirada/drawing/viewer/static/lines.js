// Lines from queries to keys. What is not drawn is counted: the meter says how much of the attention is seen.

import { h, fitCanvas, choices } from "./elements.js";
import { short } from "./tokens.js";
import { CATEGORIES } from "./palette.js";
import { cautionList } from "./cautions.js";
import { fitted } from "./matrix_canvas.js";
import { rowsSampled, strongest } from "./measures.js";

const MOST_WEIGHTS = 120_000; // of all chosen heads, drawn at once
const FONT = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const READABLE = 13;
const MOST_LOOKED = 24; // rows, and heads, that the first threshold is found from

export const massMeter = (app, share) =>
  h("span", {
    class: "meter",
    role: "meter",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": Math.round(share * 100),
    "aria-label": app.t("massShown"),
  },
    app.t("massShown"), h(
      "span",
      { class: "bar" },
      h("span", { class: "fill", style: { width: `${Math.min(100, share * 100)}%` } }),
    ), h("b", {}, app.percent(share)));

// with many keys a weight is small; those above the uniform one are worth a line. Where no weight is, all are about the same, and
// shown. `heads` are seen each alone, or (null) as the mean of those chosen
export function leastShown(app, heads = null) {
  const { keys, queries } = app.stream;
  const usual = keys <= 32 ? 0.03 : Math.round(1.2e4 / keys) / 1e4;
  let most = 0;
  for (const query of rowsSampled(queries, MOST_LOOKED)) {
    for (const some of heads?.slice(0, MOST_LOOKED).map((head) => [head]) ?? [undefined]) {
      for (const weight of app.row(query, app.stream, some)) if (Math.abs(weight) > most) most = Math.abs(weight);
    }
    if (most >= usual) return usual;
  }
  return Math.floor(0.9e4 * most) / 1e4;
}

export function thresholdControl(app, value, change) {
  const output = h("output", {}, app.number(value, 4));
  const look = { type: "range", min: 0, max: 1, step: 0.001, value: Math.sqrt(value), "aria-label": app.t("strongerThan") };
  const slider = h("input", { ...look, oninput: () => {
    output.textContent = app.number(slider.value ** 2, 4);
    change(slider.value ** 2);
  } });
  return h("label", { class: "threshold" }, app.t("strongerThan"), slider, output);
}

const headColor = (head) => CATEGORIES[head % CATEGORIES.length];

class LinesView {
  constructor(app) {
    Object.assign(this, { app, most: 0, rows: "all" });
    this.canvas = h("canvas", { class: "lines", role: "img" });
    this.meter = h("span");
    this.legend = h("div", { class: "color-names" });
    this.controls = h("div", { class: "tools-row" });
    this.cautions = h("div");
    this.frame = h("div", { class: "plot" }, this.canvas);
    this.element = h(
      "div",
      { class: "view lines-view" },
      h("figure", { class: "card" }, this.controls, this.legend, this.frame, this.cautions),
    );
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => {
      this.hovered = null;
      this.draw();
    });
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.frame);
    this.update(new Set(["stream"]));
  }
  close() {
    this.resize.disconnect();
  }
  update(changed) {
    const { app } = this;
    const { queries, keys } = app.stream;
    this.large = queries * keys * app.state.heads.length > MOST_WEIGHTS;
    if (changed.has("stream")) this.moved = false;
    if (changed.has("stream") || changed.has("heads")) {
      if (!this.moved) this.least = leastShown(app, app.state.heads);
      this.#build();
    }
    if (changed.has("stream") || changed.has("heads") || changed.has("changes")) this.cautions.replaceChildren(cautionList(app));
    this.#collect();
    this.draw();
  }
  #build() {
    const { app } = this;
    const again = () => {
      this.#collect();
      this.draw();
    };
    const counts = h("select", { "aria-label": app.t("perRow"), onchange: (event) => {
      this.most = Number(event.target.value);
      again();
    } }, [0, 1, 2, 3, 5, 8].map((count) => h(
      "option",
      { value: count, selected: count === this.most || null },
      count ? String(count) : app.t("all"),
    )));
    const rows = this.large ? h("span", { class: "soft hint" }, app.t("tooManyRows")) : choices(app.t("rowsShown"), [
      ["all", app.t("rowsAll")],
      ["chosen", app.t("rowsChosen")],
    ], this.rows, (rows) => {
      this.rows = rows;
      this.#build();
      again();
    });
    const control = thresholdControl(app, this.least, (least) => {
      Object.assign(this, { least, moved: true });
      again();
    });
    this.controls.replaceChildren(control, h("label", { class: "threshold" }, app.t("perRow"), counts), rows, this.meter);
  }
  #collect() {
    const { app } = this;
    const { stream, state } = app;
    const separate = state.heads.length > 1 && state.heads.length <= CATEGORIES.length && stream.heads <= CATEGORIES.length;
    const groups = separate ? state.heads.map((head) => [head]) : [state.heads];
    const queries = this.large || this.rows === "chosen" ? [state.row] : Array.from(
      { length: stream.queries },
      (_, query) => query,
    );
    this.lines = [];
    let [shown, total] = [0, 0];
    for (const heads of groups) {
      const source = app.source(stream, heads);
      const row = new Float32Array(stream.keys);
      for (const query of queries) {
        if (!stream.queries) continue;
        source.fill(query, row);
        const places = this.most ? strongest(row, this.most) : row.keys();
        for (const key of places) {
          if (!(Math.abs(row[key]) >= this.least) || row[key] === 0) continue;
          const shift = separate ? (groups.indexOf(heads) - (groups.length - 1) / 2) * Math.min(3, 12 / groups.length) : 0;
          this.lines.push({ query, key, weight: row[key], shift, color: separate ? headColor(heads[0]) : null });
          shown += Math.abs(row[key]);
        }
        for (const weight of row) total += Math.abs(weight) || 0;
      }
    }
    this.legend.replaceChildren(...(separate ? state.heads.map((head) => h(
      "span",
      { class: "color-name", style: { "--color": headColor(head) } },
      app.t("headColor", head),
    )) : []));
    this.largest = this.lines.reduce((most, { weight }) => Math.max(most, Math.abs(weight)), 1e-9);
    const share = total ? shown / total : 0;
    this.meter.replaceChildren(massMeter(app, share));
    this.canvas.setAttribute("aria-label", app.t("linesLabel", app.percent(share)));
  }
  #shape() {
    const { queries, keys } = this.app.stream;
    const width = this.frame.clientWidth;
    const longest = Math.max(queries, keys);
    const height = longest <= 48 ? Math.max(longest * 27, 120) : Math.min(900, Math.max(620, longest * 3));
    const side = Math.min(width * 0.3, 190);
    const place = (index, count) => (count ? 10 + ((index + 0.5) * (height - 20)) / count : 0);
    // few tokens next to many are as close together as those, in the middle
    const apart = Math.min(height / Math.max(1, queries), height / Math.max(1, keys));
    const spread = (count) => (longest <= 48 ? (height - apart * count) / 2 : 0);
    const y = (index, count) => (longest <= 48 ? spread(count) + (index + 0.5) * apart : place(index, count));
    const each = (count) => (longest <= 48 ? apart : height / count);
    return { width, height, side, y, each };
  }
  draw() {
    const { app } = this;
    if (!this.frame.clientWidth) return;
    const { queries, keys, columns } = app.stream;
    const shape = (this.shape = this.#shape());
    const { width, height, side, y } = shape;
    const context = fitCanvas(this.canvas, width, height);
    const style = getComputedStyle(this.canvas);
    const color = (name) => style.getPropertyValue(name);
    const { row } = app.state;
    const focus = this.hovered ?? null;
    context.clearRect(0, 0, width, height);
    context.lineCap = "round";
    const [from, to] = [side + 10, width - side - 10];
    const bend = (to - from) * 0.42;
    for (const line of this.lines) {
      const lit = focus ? (focus.side === "query" ? line.query === focus.place : line.key === focus.place) : true;
      const chosen = !focus && line.query === row;
      context.strokeStyle = line.color ?? (chosen ? color("--accent") : color("--heat"));
      const strength = Math.min(1, Math.abs(line.weight) / Math.max(0.25, this.largest));
      context.globalAlpha = (lit ? 1 : 0.06) * (chosen ? 0.25 + 0.75 * Math.sqrt(strength) : 0.12 + 0.75 * strength);
      context.lineWidth = 0.6 + 5.5 * strength;
      context.beginPath();
      const [start, end] = [y(line.query, queries) + line.shift, y(line.key, keys) + line.shift];
      context.moveTo(from, start);
      context.bezierCurveTo(from + bend, start, to - bend, end, to, end);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.textBaseline = "middle";
    const ofRow = this.lines.filter((line) => line.query === row).sort((a, b) => b.weight - a.weight);
    const top = new Set(ofRow.slice(0, 12).map((line) => line.key));
    const labels = (count, name, x, align, marked) => {
      const readable = shape.each(count) >= READABLE;
      context.textAlign = align;
      let last = -Infinity;
      for (let place = 0; place < count; place += 1) {
        const mark = marked(place);
        const at = y(place, count);
        if (!mark && !readable && at - last < 16) continue;
        if (!readable && !mark) continue;
        if (!readable && at - last < 11) continue;
        last = at;
        context.font = mark === "chosen" ? `650 ${FONT}` : FONT;
        context.fillStyle = mark === "chosen" ? color("--accent-ink") : color(mark ? "--text" : "--soft");
        context.fillText(fitted(context, short(name(place), 26), side - 6), x, at);
      }
    };
    labels(queries, (place) => app.rowToken(place), side, "right", (place) => (place === row ? "chosen" : null));
    labels(keys, (place) => app.token(columns, place), width - side, "left", (place) => (top.has(place) ? "seen" : null));
  }
  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { queries, keys } = this.app.stream;
    const { side, width } = this.shape;
    const nearest = (count) => {
      let best = 0;
      const apart = (place) => Math.abs(this.shape.y(place, count) - y);
      for (let place = 1; place < count; place += 1) if (apart(place) < apart(best)) best = place;
      return best;
    };
    if (x < side + 40 && queries) return { side: "query", place: nearest(queries) };
    if (x > width - side - 40 && keys) return { side: "key", place: nearest(keys) };
    return null;
  }
  #hover(event) {
    const found = this.#at(event);
    if (found?.side === this.hovered?.side && found?.place === this.hovered?.place) return;
    this.hovered = found;
    this.canvas.style.cursor = found ? "pointer" : "default";
    this.draw();
  }
  #click(event) {
    const found = this.#at(event);
    if (found) this.app.set(found.side === "query" ? { row: found.place } : { column: found.place });
  }
}

export const linesView = {
  name: "lines",
  key: "l",
  supports: () => true,
  fits: () => true,
  create: (app) => new LinesView(app),
};
