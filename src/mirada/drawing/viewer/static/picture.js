// Heat over a picture: for each word that was written, or for a place in the picture, head by head.

import { h, fitCanvas, choices } from "./elements.js";
import { short, tokenElement } from "./tokens.js";
import { cautionList } from "./cautions.js";
import { loadPicture, paintPicture } from "./heat.js";
import { headsText } from "./row.js";
import { sum } from "./measures.js";

const LARGE = 460;
const MOST_PANELS = 60;

class PictureView {
  constructor(app) {
    Object.assign(this, { app, mode: "soft" });
    this.element = h("div", { class: "view picture-view" });
    this.update(new Set(["stream"]));
  }
  get axis() {
    return this.app.stream.columns;
  }
  update() {
    loadPicture(this.app.record, this.axis, (picture) => this.#draw(picture));
  }
  #box(row) {
    return this.app.record.boxes.find((box) => box.row === row)?.box ?? null;
  }
  #size(picture, most) {
    const ratio = picture ? picture.height / picture.width : this.axis.height / this.axis.width;
    return ratio > 1 ? [most / ratio, most] : [most, most * ratio];
  }
  #paint(picture, most, row, { box = null, chosen = null } = {}) {
    const [width, height] = this.#size(picture, most);
    const canvas = h("canvas", { class: "heat-picture", role: "img" });
    const context = fitCanvas(canvas, width, height);
    const cells = row.subarray(this.axis.before.length);
    paintPicture(
      context,
      { width, height, picture, axis: this.axis, cells, mode: this.mode, box, chosen, dark: this.app.dark },
    );
    return canvas;
  }
  #draw(picture) {
    const { app, axis } = this;
    const { stream, state } = app;
    const wide = Math.min(LARGE, (this.element.clientWidth || LARGE) - 32);
    const row = app.row();
    const inPicture = stream.rows === axis;
    const chosen = inPicture ? state.row - axis.before.length : null;
    const box = inPicture ? null : this.#box(state.row);
    const large = this.#paint(picture, wide, row, { box, chosen });
    large.setAttribute("aria-label", app.t("pictureLabel", short(app.rowToken())));
    const hint = h("p", { class: "soft hint note" }, app.t("pictureHint"));
    large.addEventListener("pointermove", (event) => {
      const cell = this.#cell(large, event);
      const times = app.t("timesUniform", app.number(row[cell] * app.stream.visible(state.row), 1));
      hint.textContent = `${app.token(axis, cell)}: ${app.number(row[cell], 4)} · ${times}`;
    });
    large.addEventListener("pointerleave", () => (hint.textContent = app.t("pictureHint")));
    if (inPicture) {
      large.classList.add("can-pick");
      large.addEventListener("click", (event) => app.set({ row: this.#cell(large, event) }));
    }
    const modes = choices(app.t("form"), [
      ["soft", app.t("soft")],
      ["cells", app.t("cells")],
      ["hard", app.t("hard")],
    ], this.mode, (mode) => {
      this.mode = mode;
      this.#draw(picture);
    });
    const before = axis.before.map((token, place) => h(
      "button",
      {
        type: "button",
        class: "head-chip",
        "aria-pressed": String(state.row === place),
        onclick: () => app.set({ row: place }),
      },
      tokenElement(token),
    ));
    const written = app.record.outputs.find((output) => output.row === state.row && (inPicture || app.written(state.row)));
    this.element.replaceChildren(h("div", { class: "split" },
      h(
        "figure",
        { class: "card" },
        h("div", { class: "tools-row" }, modes, inPicture ? before : null),
        large,
        hint,
        this.#notes(row, box, picture),
        cautionList(app),
      ),
      h("section", { class: "card" },
        h(
          "h2",
          {},
          h("small", {}, headsText(app)),
          tokenElement(inPicture ? app.token(axis, state.row) : app.rowToken(), { class: "large" }),
        ),
        written && inPicture ? h(
          "p",
          {},
          tokenElement(String(written.text)),
          written.probability ? ` ${app.percent(written.probability)}` : "",
        ) : null,
        inPicture ? h("p", { class: "soft hint" }, app.t("pickCell")) : null,
        h("h3", {}, app.t(inPicture ? "eachHead" : "eachWord")), this.#panels(picture, inPicture))));
  }
  #cell(canvas, event) {
    const { axis } = this;
    const place = canvas.getBoundingClientRect();
    const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    const [x, y] = [(event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height];
    return axis.before.length + inside(y, axis.height) * axis.width + inside(x, axis.width);
  }
  #panels(picture, inPicture) {
    const { app } = this;
    const { state, stream } = app;
    const panel = (name, row, on, act, box) => h(
      "button",
      { type: "button", class: "panel-button", "aria-pressed": String(on), onclick: act },
      this.#paint(picture, 92, row, { box }),
      tokenElement(name, {}, 14),
    );
    if (inPicture) {
      const heads = Array.from({ length: Math.min(stream.heads, MOST_PANELS) }, (_, head) => head);
      return h(
        "div",
        { class: "panels" },
        heads.map((head) => panel(
          String(head),
          app.row(state.row, stream, [head]),
          state.heads.length === 1 && state.heads[0] === head,
          () => app.set({ heads: [head] }),
        )),
      );
    }
    const rows = Array.from({ length: Math.min(stream.queries, MOST_PANELS) }, (_, row) => row);
    return h(
      "div",
      { class: "panels" },
      rows.map((row) => panel(app.rowToken(row), app.row(row), row === state.row, () => app.set({ row }), this.#box(row))),
    );
  }
  #notes(row, box, picture) {
    const { app, axis } = this;
    const notes = [];
    axis.before.forEach((token, place) => {
      if (row[place] >= 0.01) notes.push(app.t("outsidePicture", app.percent(row[place]), short(token, 16)));
    });
    if (box && picture) notes.push(this.#boxNote(row, box, picture));
    return notes.map((note) => h("p", { class: "soft hint note" }, h("bdi", {}, note)));
  }
  // cells count by the part of them that the box covers
  #boxNote(row, [x0, y0, x1, y1], picture) {
    const { app, axis } = this;
    const [w, tall] = [picture.width / axis.width, picture.height / axis.height];
    const cells = row.subarray(axis.before.length);
    const overlap = (low, high, from, size) => Math.max(0, Math.min(high, from + size) - Math.max(low, from)) / size;
    let [inside, area, best] = [0, 0, 0];
    cells.forEach((weight, place) => {
      const part = overlap(x0, x1, (place % axis.width) * w, w) * overlap(y0, y1, Math.floor(place / axis.width) * tall, tall);
      inside += weight * part;
      area += part / cells.length;
      if (weight > cells[best]) best = place;
    });
    const [cx, cy] = [((best % axis.width) + 0.5) * w, (Math.floor(best / axis.width) + 0.5) * tall];
    const hit = cx >= x0 && cx <= x1 && cy >= y0 && cy <= y1;
    return app.t("inBox", app.percent(inside / (sum(row) || 1)), app.percent(area), app.t(hit ? "inside" : "outside"));
  }
}

export const pictureView = {
  name: "picture",
  key: "i",
  supports: (app) => app.record.streams.some((stream) => stream.columns.kind === "grid"),
  fits: (stream) => stream.columns.kind === "grid",
  create: (app) => new PictureView(app),
};
