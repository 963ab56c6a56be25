// All heads at a glance: a small picture each, in the order of the layers or of what they do.

import { h, choices, inIdleTime } from "./elements.js";
import { layerName, short } from "./tokens.js";
import { sequential } from "./palette.js";
import { paintThumbnail, thumbnail } from "./plane.js";

const SIZE = 64;
const ORDERS = ["layer", "entropy", "distance", "previous", "next", "first", "self", "sink"];

const measure = (stream, head, order) => {
  const statistics = stream.statistics(head);
  return order === "sink" ? (statistics.sink?.mass ?? 0) : (statistics[order] ?? null);
};

class HeadsView {
  constructor(app) {
    Object.assign(this, { app, order: "layer", jobs: [] });
    this.element = h("div", { class: "view heads-view" });
    this.seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        this.seen.unobserve(target);
        this.jobs.push(target);
      }
      this.#work();
    }, { rootMargin: "200px" });
    this.build();
  }
  close() {
    this.stop?.();
    this.seen.disconnect();
  }
  update(changed) {
    if (changed.has("stream") || changed.has("heads")) this.#mark();
  }
  build() {
    const { app } = this;
    this.tiles = [];
    const there = (stream, order) =>
      stream.fields.statistics ? measure(stream, 0, order) !== null : stream.square || order === "entropy" || order === "first";
    const known = ORDERS.filter(
      (order) => order === "layer" || order === "sink" || app.record.streams.some((stream) => there(stream, order)),
    );
    const bar = h("div", { class: "tools-row" }, h(
      "span",
      { class: "soft" },
      app.t("sortBy"),
    ), choices(app.t("sortBy"), known.map((order) => [order, app.t(`by_${order}`)]), this.order, (order) => {
      this.order = order;
      this.build();
    }));
    const body = this.order === "layer" ? this.#layers() : this.#sorted();
    this.element.replaceChildren(bar, h("p", { class: "soft hint" }, app.t("headsHint")), body);
    this.#mark();
  }
  #layers() {
    const widest = Math.max(...this.app.record.streams.map((stream) => Math.min(stream.heads, 16)));
    return h("div", { class: "layers", style: { "--columns": widest } }, this.app.record.streams.map((stream) =>
      h("section", { class: "layer" }, h(
        "h3",
        { title: stream.name },
        layerName(stream.name),
        h("small", {}, ` ${this.app.t(`kind_${stream.kind}`)} · ${stream.queries} × ${stream.keys}`),
      ),
        h("div", { class: "tiles" }, Array.from({ length: stream.heads }, (_, head) => this.#tile(stream, head))))));
  }
  #sorted() {
    const all = this.app.record.streams.flatMap((stream) => Array.from(
      { length: stream.heads },
      (_, head) => ({ stream, head, value: measure(stream, head, this.order) }),
    ));
    const known = all.filter(({ value }) => value !== null);
    known.sort((a, b) => (this.order === "entropy" ? a.value - b.value : b.value - a.value));
    return h("div", { class: "tiles sorted" }, known.map(({ stream, head, value }) => this.#tile(stream, head, value)));
  }
  #tile(stream, head, value = null) {
    const { app } = this;
    const canvas = h("canvas", { width: 1, height: 1 });
    const digits = this.order === "entropy" || this.order === "distance" ? 2 : null;
    const badge = value === null ? null : h("b", {}, digits ? app.number(value, digits) : app.percent(value));
    const tile = h("button", {
      type: "button", class: "tile", "data-stream": stream.index, "data-head": head,
      "aria-label": app.t("headOf", head, stream.name), title: this.#title(stream, head),
      onclick: (event) => app.chooseHead(stream, head, event.shiftKey || event.ctrlKey || event.metaKey),
      ondblclick: () => app.set({ view: "matrix" }),
    }, canvas, h("span", { class: "tile-name" }, value === null ? String(head) : `${layerName(stream.name)} · ${head}`, badge));
    tile.drawing = { canvas, stream, head };
    this.seen.observe(tile);
    this.tiles.push(tile);
    return tile;
  }
  #title(stream, head) {
    const { app } = this;
    const statistics = stream.fields.statistics?.[head];
    if (!statistics) return `${stream.name} · ${head}`;
    const known = ["entropy", "distance", "previous", "next", "first", "self"].filter((name) => Number.isFinite(statistics[name]));
    const parts = known.map((name) => `${app.t(`by_${name}`)} ${app.number(statistics[name], 2)}`);
    if (statistics.sink) {
      const { key, mass } = statistics.sink;
      parts.push(`${app.t("by_sink")} ${app.percent(mass)} (${short(app.token(stream.columns, key), 12)})`);
    }
    return `${stream.name} · ${head}\n${parts.join("\n")}`;
  }
  #mark() {
    const { stream, heads } = this.app.state;
    for (const tile of this.tiles) {
      const { stream: its, head } = tile.drawing;
      tile.setAttribute("aria-pressed", String(its.index === stream && heads.includes(head)));
    }
  }
  #work() {
    this.stop?.();
    const palette = sequential(this.app.dark);
    this.stop = inIdleTime(() => {
      const tile = this.jobs.shift();
      if (!tile) return false;
      const { canvas, stream, head } = tile.drawing;
      if (stream.queries && stream.keys) paintThumbnail(canvas, thumbnail(stream, head, SIZE), palette);
      return this.jobs.length > 0;
    });
  }
}

export const headsView = {
  name: "heads",
  key: "h",
  supports: () => true,
  fits: () => true,
  create: (app) => new HeadsView(app),
};
