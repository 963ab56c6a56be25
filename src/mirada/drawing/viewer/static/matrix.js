// The matrix: a row per query, a column per key, exact numbers under the pointer.

import { h, fitCanvas, choices, refill } from "./elements.js";
import { short, visible } from "./tokens.js";
import { sequential, diverging } from "./palette.js";
import { Plane } from "./plane.js";
import { AxisStrip } from "./strip.js";
import { rowCard } from "./row.js";
import { numbersTable } from "./numbers.js";
import { cautionList } from "./cautions.js";
import { FONT, LABELLED, drawCells, drawLabels, drawMarks, hatchBroken } from "./matrix_canvas.js";

const LARGEST_CELL = 44;
const MOST_SEPARATE = 1600; // cells that are drawn one by one, with rounded corners

class MatrixView {
  constructor(app) {
    this.app = app;
    this.scale = "auto";
    this.canvas = h("canvas", { class: "matrix", tabindex: 0, role: "img" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("div", { class: "legend" });
    this.zoomBar = h("div", { class: "zoom" });
    this.aside = h("div", { class: "beside" });
    this.strips = h("div", { class: "strips" });
    this.numbers = h("div");
    this.cautions = h("div");
    const frame = h("div", { class: "plot" }, this.canvas, this.tip);
    this.frame = frame;
    const tools = h("div", { class: "tools-row" }, this.legend, this.zoomBar);
    this.element = h(
      "div", { class: "view matrix-view" },
      h("div", { class: "split" }, h("figure", { class: "card main" }, tools, frame, this.cautions), this.aside),
      this.strips, this.numbers,
    );
    this.#listen();
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(frame);
    this.update(new Set(["stream"]));
  }
  close() {
    this.plane?.close();
    this.resize.disconnect();
  }
  update(changed) {
    const { app } = this;
    const { stream } = app;
    if (changed.has("stream")) {
      this.window = { top: 0, left: 0, rows: stream.queries, columns: stream.keys };
      this.#strips();
    }
    if (["stream", "heads", "changes"].some((name) => changed.has(name))) {
      this.plane?.close();
      const signed = isSigned(stream);
      this.plane = new Plane(
        app.source(),
        { signed, limit: signed ? largest(stream) : Math.max(1, largest(stream)), onprogress: () => this.draw() },
      );
      this.cautions.replaceChildren(cautionList(app));
    }
    if (changed.has("row") && !changed.has("stream")) this.#follow();
    this.#rowChanged();
    this.draw();
  }
  #strips() {
    const { app } = this;
    const { stream } = app;
    const pick = (row) => app.set({ row });
    this.keys = new AxisStrip(
      app,
      stream.columns,
      { label: app.t("keys"), pick: stream.square ? pick : (column) => app.set({ column }) },
    );
    const names = stream.rows.tokens.map((_, place) => app.rowToken(place));
    this.queries = stream.square ? null : new AxisStrip(app, stream.rows, { label: app.t("queries"), pick, names });
    this.strips.replaceChildren(...[this.queries, this.keys].filter(Boolean).map((strip) => strip.element));
  }
  #rowChanged() {
    const { app } = this;
    const row = app.chosenMean();
    const { row: query, column } = app.state;
    this.keys.show(row, { chosen: app.stream.square ? query : column });
    this.queries?.show(null, { chosen: query });
    this.aside.replaceChildren(rowCard(app, row));
    this.numbers.replaceChildren(numbersTable(app));
    this.canvas.setAttribute(
      "aria-label",
      app.t("matrixLabel", app.stream.name, app.stream.queries, app.stream.keys, visible(app.rowToken(query))),
    );
  }
  // the chosen row stays in sight
  #follow() {
    const { window: seen } = this;
    const { row } = this.app.state;
    if (row < seen.top) seen.top = row;
    else if (row >= seen.top + seen.rows) seen.top = row - seen.rows + 1;
  }
  #geometry() {
    const { app, window: seen } = this;
    const width = Math.max(220, this.frame.clientWidth);
    const context = this.canvas.getContext("2d");
    context.font = FONT;
    const longest = (size, name, from, count) => {
      let most = 8;
      const last = Math.min(size, Math.ceil(from + count));
      for (let place = Math.floor(from); place < last; place += Math.max(1, Math.floor(count / 300))) most = Math.max(
        most,
        context.measureText(short(name(place), 18)).width,
      );
      return Math.min(most, 124);
    };
    const left = Math.ceil(Math.min(
      1.1 * longest(app.stream.queries, (place) => app.rowToken(place), seen.top, seen.rows),
      width * 0.3,
    )) + 12;
    const label = longest(app.stream.keys, (place) => app.token(app.stream.columns, place), seen.left, seen.columns);
    const room = Math.max(320, Math.min(window.innerHeight - 300, 760));
    const wanted = Math.min((width - left - 4) / seen.columns, LARGEST_CELL);
    const slanted = label + 6 > wanted;
    const top = wanted < LABELLED ? 22 : slanted ? Math.ceil(label * 0.72) + 16 : 24;
    const right = slanted && wanted >= LABELLED ? Math.min(Math.ceil(label * 0.7), 80) : 4;
    let cellWidth = Math.min((width - left - right) / seen.columns, LARGEST_CELL);
    let cellHeight = Math.min((room - top) / seen.rows, LARGEST_CELL);
    if (app.stream.square && seen.rows === seen.columns) cellWidth = cellHeight = Math.min(
      cellWidth,
      Math.max(cellHeight, seen.rows <= 32 ? 20 : 0),
    );
    if (seen.rows <= 48) cellHeight = Math.max(cellHeight, 20); // few rows: the page may scroll
    cellHeight = Math.min(cellHeight, Math.max(cellWidth * 1.25, 20));
    return { width, left, top, cellWidth, cellHeight, slanted, height: Math.ceil(top + cellHeight * seen.rows) + 6 };
  }
  draw() {
    const { app, plane, window: seen } = this;
    if (!this.frame.clientWidth || !plane) return;
    const shape = (this.shape = this.#geometry());
    const { left, top, cellWidth, cellHeight } = shape;
    const context = fitCanvas(this.canvas, shape.width, shape.height);
    const style = getComputedStyle(this.canvas);
    const color = (name) => style.getPropertyValue(name).trim();
    context.clearRect(0, 0, shape.width, shape.height);
    const palette = plane.signed ? diverging(app.dark) : sequential(app.dark);
    this.top = plane.signed ? plane.limit : this.scale === "one" ? plane.limit : this.scale === "auto" ? Math.min(
      plane.limit,
      Math.max(plane.clear(), 3 / Math.max(1, app.stream.keys)),
    ) : Math.max(plane.most, 1e-6);
    const gain = plane.signed ? 1 : Math.sqrt(plane.limit / this.top);
    const separate = plane.step === 1 && cellWidth >= 9 && cellHeight >= 9 && seen.rows * seen.columns <= MOST_SEPARATE;
    const at = { left, top, cellWidth, cellHeight, palette, gain };
    const shown = { app, plane, seen, hover: this.hover };
    context.save();
    context.beginPath();
    context.rect(left, top, cellWidth * seen.columns, cellHeight * seen.rows);
    context.clip();
    if (separate) drawCells(context, shown, at);
    else {
      context.imageSmoothingEnabled = cellWidth < 1 || cellHeight < 1;
      context.imageSmoothingQuality = "high";
      const { step } = plane;
      context.drawImage(
        plane.picture(palette, gain), seen.left / step, seen.top / step, seen.columns / step, seen.rows / step,
        left, top, cellWidth * seen.columns, cellHeight * seen.rows,
      );
    }
    hatchBroken(context, shown, at, color("--wrong"));
    context.restore();
    if (!separate) {
      context.strokeStyle = color("--line");
      context.strokeRect(left - 0.5, top - 0.5, cellWidth * seen.columns + 1, cellHeight * seen.rows + 1);
    }
    drawLabels(context, shown, shape, color);
    drawMarks(context, shown, shape, color);
    this.#legend(palette);
    this.#zoom();
  }
  #legend(palette) {
    const { app, plane } = this;
    const [low, high] = plane.signed ? [-this.top, this.top] : [0, this.top];
    const uniform = 1 / Math.max(1, app.stream.visible(app.state.row));
    const signature = [low, high, app.dark, this.scale, uniform].join();
    if (signature === this.legendDrawn) return;
    this.legendDrawn = signature;
    const bar = h("canvas", { class: "ramp", width: 128, height: 1 });
    const context = bar.getContext("2d");
    for (let x = 0; x < 128; x += 1) {
      context.fillStyle = palette.css(x * 2 + 1);
      context.fillRect(x, 0, 1, 1);
    }
    const place = plane.signed ? null : Math.min(1, Math.sqrt(uniform / high));
    const mark = place === null ? null : h(
      "span",
      { class: "uniform", style: { left: `${place * 100}%` }, title: app.t("uniformIs", app.number(uniform, 4)) },
    );
    const scale = plane.signed ? null : choices(app.t("scale"), [
      ["auto", app.t("toClear")],
      ["largest", app.t("toLargest")],
      ["one", app.t("toOne")],
    ], this.scale, (scale) => {
      this.scale = scale;
      this.draw();
    });
    refill(
      this.legend,
      h("span", { class: "end" }, app.number(low, low ? 2 : 0)), h("span", { class: "ramp-frame" }, bar, mark),
      h(
        "span",
        { class: "end" },
        `${!plane.signed && high < plane.most - 1e-6 ? "≥ " : ""}${app.number(high, high < 0.1 ? 3 : 2)}`,
      ),
      mark ? h(
        "small",
        { class: "uniform-text" },
        app.t("uniformIs", app.number(uniform, uniform < 0.01 ? 4 : 3)),
      ) : null, scale,
    );
  }
  #zoom() {
    const { app } = this;
    const { queries, keys } = app.stream;
    const large = queries > 32 || keys > 32;
    if (!large) return this.zoomBar.replaceChildren();
    if (this.zoomBar.childElementCount) return;
    const button = (text, label, act) => h(
      "button",
      { type: "button", class: "small", "aria-label": label, title: label, onclick: act },
      text,
    );
    this.zoomBar.replaceChildren(
      button("−", app.t("zoomOut"), () => this.zoom(1 / 1.6)), button("+", app.t("zoomIn"), () => this.zoom(1.6)),
      button("⤢", app.t("zoomAll"), () => this.zoom(0)),
    );
  }
  // around a cell, or the chosen row; 0 shows all
  zoom(factor, center = null) {
    const { app, window: seen } = this;
    const { queries, keys } = app.stream;
    if (!factor) this.window = { top: 0, left: 0, rows: queries, columns: keys };
    else {
      const row = app.row();
      const key = app.state.column ?? row.indexOf(row.reduce((most, weight) => Math.max(most, weight), 0));
      const middle = center ?? { query: app.state.row, key: Math.max(0, key) };
      const rows = Math.min(queries, Math.max(Math.min(8, queries), seen.rows / factor));
      const columns = Math.min(keys, Math.max(Math.min(8, keys), seen.columns / factor));
      this.window = { rows: Math.round(rows), columns: Math.round(columns) };
      this.#move(
        middle.query - (middle.query - seen.top) * (rows / seen.rows),
        middle.key - (middle.key - seen.left) * (columns / seen.columns),
      );
    }
    this.draw();
  }
  #move(top, left) {
    const { window: seen, app } = this;
    seen.top = Math.round(Math.max(0, Math.min(app.stream.queries - seen.rows, top)));
    seen.left = Math.round(Math.max(0, Math.min(app.stream.keys - seen.columns, left)));
  }
  #cell(event) {
    const { shape, window: seen } = this;
    const box = this.canvas.getBoundingClientRect();
    const key = Math.floor(seen.left + (event.clientX - box.left - shape.left) / shape.cellWidth);
    const query = Math.floor(seen.top + (event.clientY - box.top - shape.top) / shape.cellHeight);
    const inside = query >= seen.top && query < seen.top + seen.rows && key < seen.left + seen.columns && key >= seen.left - 1e9;
    if (!inside) return null;
    return { query, key: key >= seen.left ? key : null };
  }
  #listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener("pointermove", (event) => {
      if (drag && event.buttons) {
        const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
        if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
        if (drag.moved) this.#move(drag.top - dy / this.shape.cellHeight, drag.left - dx / this.shape.cellWidth);
      }
      const cell = this.#cell(event);
      this.hover = cell && cell.key !== null ? cell : null;
      this.#tip(event);
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.tip.hidden = true;
      this.draw();
    });
    canvas.addEventListener("pointerdown", (event) => {
      const { top, left } = this.window;
      drag = { x: event.clientX, y: event.clientY, top, left, moved: false };
    });
    canvas.addEventListener("click", (event) => {
      const cell = this.#cell(event);
      if (cell && !drag?.moved && event.shiftKey) this.app.toggleRow(cell.query);
      else if (cell && !drag?.moved) this.app.set({ row: cell.query, column: cell.key });
      drag = null;
    });
    canvas.addEventListener("dblclick", (event) => {
      const cell = this.#cell(event);
      if (cell) this.zoom(2, { query: cell.query, key: cell.key ?? 0 });
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const cell = this.#cell(event);
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, cell && { query: cell.query, key: cell.key ?? 0 });
    }, { passive: false });
  }
  #tip(event) {
    const { app, hover, tip } = this;
    tip.hidden = !hover;
    if (!hover) return;
    const weight = app.row(hover.query)[hover.key];
    const { columns } = app.stream;
    tip.replaceChildren(
      h(
        "div",
        { class: "pair" },
        h("bdi", {}, short(app.rowToken(hover.query))),
        " → ",
        h("bdi", {}, short(app.token(columns, hover.key))),
      ),
      h("b", {}, app.number(weight, 4)), " ", h(
        "small",
        {},
        app.t("timesUniform", app.number(weight * app.stream.visible(hover.query), 1)),
      ),
    );
    const box = this.frame.getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  }
}

// only float32 can hold what is below 0 or above 1
function bounds(stream) {
  if (stream.bounds) return stream.bounds;
  let [low, high] = [0, 0];
  const { encoding } = stream.fields;
  const exact = encoding === "float32" || (stream.edges && stream.weights.exact);
  const numbers = !exact ? [] : stream.edges ? stream.weights.loaded.weights : stream.weights.numbers;
  for (const value of numbers) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return (stream.bounds = { low, high });
}
const isSigned = (stream) => bounds(stream).low < -1e-6;
const largest = (stream) => Math.max(-bounds(stream).low, bounds(stream).high);

export const matrixView = {
  name: "matrix",
  key: "m",
  supports: () => true,
  fits: () => true,
  create: (app) => new MatrixView(app),
};
