// An axis with weights on it, in its own form: words of a text, cells of a picture, a series over time.

import { h, fitCanvas } from "./elements.js";
import { tokenElement, visible } from "./tokens.js";
import { sequential, level } from "./palette.js";
import { paintPicture, loadPicture } from "./heat.js";
import { strongest } from "./measures.js";

const MOST_WORDS = 3000;
const SHOWN = 200;

export class AxisStrip {
  constructor(app, axis, { label = "", pick = null, names = axis.tokens } = {}) {
    Object.assign(this, { app, axis, pick, names });
    const body = axis.kind === "grid" ? this.#grid() : axis.kind === "time" && axis.values?.length ? this.#time() : this.#words();
    this.element = h("section", { class: `strip ${axis.kind}`, "aria-label": label }, label ? h("h3", {}, label) : null, body);
  }
  #words() {
    const act = (event) => {
      const found = event.target.closest("[data-place]");
      if (found && this.pick) this.pick(Number(found.dataset.place));
    };
    const kind = `words ${this.axis.size > 150 ? "many" : ""} ${this.pick ? "can-pick" : ""}`;
    this.list = h("div", { class: kind, onclick: act });
    if (this.axis.size <= MOST_WORDS) this.#place(this.names.keys());
    return h("div", {}, this.list, (this.note = h("p", { class: "soft hint" })));
  }
  #place(places) {
    this.tokens = Array.from(places, (place) => tokenElement(this.names[place], { class: "word", "data-place": place, title: null }));
    this.list.replaceChildren(...this.tokens.flatMap((token) => [token, " "]));
  }
  // of very many words those that are looked at most, and it is said
  #strongest(weights, chosen) {
    const places = new Set(weights ? strongest(weights, SHOWN) : this.names.slice(0, SHOWN).keys());
    if (chosen !== null) places.add(chosen);
    this.#place([...places].sort((a, b) => a - b));
    this.note.textContent = this.app.t("someTokens", places.size, this.axis.size);
  }
  #grid() {
    this.before = this.axis.before.map((token, place) => tokenElement(
      token,
      { class: "word", "data-place": place, onclick: () => this.pick?.(place) },
    ));
    this.canvas = h("canvas", { class: "grid-picture", onclick: (event) => {
      const box = this.canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * this.axis.width);
      const row = Math.floor(((event.clientY - box.top) / box.height) * this.axis.height);
      this.pick?.(this.axis.before.length + row * this.axis.width + column);
    } });
    return h(
      "div",
      { class: "grid-strip" },
      this.before.length ? h("div", { class: "words" }, this.before) : null,
      this.canvas,
    );
  }
  #time() {
    this.canvas = h("canvas", { class: "time-strip", onclick: (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.pick?.(Math.min(this.axis.size - 1, Math.floor(((event.clientX - box.left) / box.width) * this.axis.size)));
    } });
    this.resize = new ResizeObserver(() => this.last && this.#drawTime());
    this.resize.observe(this.canvas);
    return h(
      "div",
      { class: "time-frame" },
      this.canvas,
      h(
        "div",
        { class: "time-ends" },
        h("small", {}, visible(this.axis.tokens[0] ?? "")),
        h("small", {}, visible(this.axis.tokens.at(-1) ?? "")),
      ),
    );
  }
  // weights: a number a place, or null for none
  show(weights, { chosen = null, limit = null } = {}) {
    // a row that looks everywhere alike must not look as if it looked somewhere
    const most = limit ?? (weights ? weights.reduce(
      (best, weight) => Math.max(best, Math.abs(weight) || 0),
      Math.min(1, 3 / weights.length),
    ) : 1);
    this.last = { weights, chosen, most };
    if (this.list && this.axis.size > MOST_WORDS) this.#strongest(weights, chosen);
    const palette = sequential(this.app.dark);
    for (const token of this.tokens ?? this.before ?? []) {
      const place = Number(token.dataset.place);
      const shade = weights ? level(Math.abs(weights[place]) || 0, most) : 0;
      const colored = shade > 1;
      token.style.background = colored ? palette.css(shade) : "";
      token.style.color = colored ? palette.ink(shade) : "";
      token.classList.toggle("chosen", place === chosen);
    }
    if (this.axis.kind === "grid") this.#drawGrid();
    else if (this.canvas) this.#drawTime();
  }
  #drawGrid() {
    const { app, axis, last } = this;
    const draw = (picture) => {
      const size = Math.min(260, this.element.clientWidth || 260);
      const ratio = picture ? picture.height / picture.width : axis.height / axis.width;
      const scale = ratio > 1 ? 1 / ratio : 1;
      const context = fitCanvas(this.canvas, size * scale, size * scale * ratio);
      const cells = this.last.weights?.subarray(axis.before.length) ?? null;
      paintPicture(
        context,
        {
          width: size * scale,
          height: size * scale * ratio,
          picture,
          axis,
          cells,
          chosen: last.chosen === null ? null : last.chosen - axis.before.length,
          dark: app.dark,
        },
      );
    };
    loadPicture(app.record, axis, draw);
  }
  #drawTime() {
    const { axis, app, last } = this;
    const [width, height] = [this.canvas.parentElement?.clientWidth || 600, 96];
    const context = fitCanvas(this.canvas, width, height);
    const style = getComputedStyle(this.canvas);
    context.clearRect(0, 0, width, height);
    const palette = sequential(app.dark);
    const step = width / axis.size;
    if (last.weights) {
      for (let place = 0; place < axis.size; place += 1) {
        const share = (last.weights[place] || 0) / last.most;
        context.fillStyle = palette.css(90 + 120 * share);
        context.fillRect(place * step, height - share * (height - 8), Math.max(1, step - 0.6), share * (height - 8));
      }
    }
    const values = axis.values;
    const [low, high] = values.reduce(
      ([a, b], value) => (value === null ? [a, b] : [Math.min(a, value), Math.max(b, value)]),
      [Infinity, -Infinity],
    );
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.75;
    context.beginPath();
    let drawing = false; // a gap where a value is not known
    values.forEach((value, place) => {
      if (value === null) return (drawing = false);
      const y = 8 + (1 - (value - low) / (high - low || 1)) * (height - 16);
      if (drawing) context.lineTo((place + 0.5) * step, y);
      else context.moveTo((place + 0.5) * step, y);
      drawing = true;
    });
    context.stroke();
    if (last.chosen !== null) {
      context.strokeStyle = style.getPropertyValue("--text");
      context.strokeRect(last.chosen * step, 1, Math.max(2, step), height - 2);
    }
  }
}
