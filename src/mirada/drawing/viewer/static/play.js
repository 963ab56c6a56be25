// Playback: word by word, as it was written.

import { h, refill } from "./elements.js";
import { tokenElement } from "./tokens.js";
import { AxisStrip } from "./strip.js";
import { cautionList } from "./cautions.js";
import { headsText } from "./row.js";
import { strongest } from "./measures.js";

const PACE = 1100; // milliseconds a word

class PlayView {
  constructor(app) {
    this.app = app;
    this.text = h("div", { class: "written" });
    this.seen = h("div");
    this.beside = h("section", { class: "card chances" });
    this.cautions = h("div");
    this.button = h("button", { type: "button", class: "primary round", onclick: () => this.toggle() });
    const step = (sign, label, by) => h(
      "button",
      { type: "button", class: "small round", "aria-label": app.t(label), title: app.t(label), onclick: () => this.go(by) },
      sign,
    );
    const bar = h(
      "div",
      { class: "tools-row player" },
      step("‹", "previousWord", -1),
      this.button,
      step("›", "nextWord", 1),
      (this.where = h("span", { class: "soft" })),
    );
    this.element = h("div", { class: "view play-view" }, h("div", { class: "split" },
      h("figure", { class: "card" }, bar, h("h3", {}, app.t("wrote")), this.text, this.seen, this.cautions), this.beside));
    this.#label();
    this.update(new Set(["stream"]));
  }
  close() {
    clearInterval(this.timer);
  }
  get outputs() {
    return this.app.record.outputs;
  }
  get at() {
    return Math.max(0, this.outputs.findIndex((output) => output.row === this.app.state.row));
  }
  go(by) {
    const next = (this.at + by + this.outputs.length) % this.outputs.length;
    this.app.set({ row: this.outputs[next].row });
  }
  toggle() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
    } else {
      if (this.at === this.outputs.length - 1) this.app.set({ row: this.outputs[0].row });
      this.timer = setInterval(() => (this.at < this.outputs.length - 1 ? this.go(1) : this.toggle()), PACE);
    }
    this.#label();
  }
  #label() {
    this.button.textContent = this.timer ? "❚❚" : "▶";
    this.button.setAttribute("aria-label", this.app.t(this.timer ? "pause" : "play"));
  }
  key(event) {
    if (event.key === " ") this.toggle();
    else if (event.key === "ArrowRight") this.go(1);
    else if (event.key === "ArrowLeft") this.go(-1);
    else return false;
    return true;
  }
  update(changed) {
    const { app } = this;
    if (changed.has("stream") || changed.has("heads") || changed.has("changes")) this.cautions.replaceChildren(cautionList(app));
    if (changed.has("stream")) {
      this.strip = new AxisStrip(app, app.stream.columns, { label: app.t("lookedAt"), pick: (column) => app.set({ column }) });
      this.seen.replaceChildren(this.strip.element);
    }
    const now = this.at;
    this.text.replaceChildren(...this.outputs.flatMap((output, index) => [
      tokenElement(String(output.text), {
        class: `said ${index === now ? "now" : index < now ? "past" : "later"}`, role: "button", tabindex: index === now ? 0 : -1,
        onclick: () => app.set({ row: output.row }),
        style: { "--sure": Math.max(0.08, output.probability ?? 1) },
      }), " ",
    ]));
    this.where.textContent = `${now + 1} / ${this.outputs.length}`;
    const row = app.row(this.outputs[now]?.row ?? 0);
    this.strip.show(row, { chosen: app.state.column });
    this.#chances(this.outputs[now], row);
  }
  #chances(output, row) {
    const { app } = this;
    if (!output) return;
    const ranked = output.ranked ?? [];
    const known = output.probability !== null && output.probability !== undefined;
    const line = ([word, chance]) => h(
      "li",
      { class: word === output.text ? "chosen" : "" },
      h(
        "span",
        { class: "key" },
        tokenElement(String(word), {}, 22),
        h("span", { class: "bar" }, h("span", { class: "fill", style: { width: `${chance * 100}%` } })),
        h("b", {}, app.percent(chance)),
      ),
    );
    const best = strongest(row, 4);
    refill(
      this.beside,
      h("h2", {}, h("small", {}, app.t("wrote")), tokenElement(String(output.text), { class: "large" })),
      known ? h(
        "p",
        { class: "sure" },
        h("b", {}, app.percent(output.probability)),
        ` ${app.t("probability")}`,
      ) : h("p", { class: "soft" }, app.t("noProbability")),
      ranked.length ? h("h3", {}, app.t("instead")) : null, h("ol", { class: "bars" }, ranked.slice(0, 8).map(line)),
      h("h3", {}, app.t("lookedAt"), ` · ${headsText(app)}`),
      h(
        "ol",
        { class: "bars" },
        best.map((place) => h(
          "li",
          {},
          h(
            "span",
            { class: "key" },
            tokenElement(app.token(app.stream.columns, place), {}, 22),
            h(
              "span",
              { class: "bar" },
              h("span", { class: "fill", style: { width: `${Math.min(1, Math.abs(row[place])) * 100}%` } }),
            ),
            h("b", {}, app.number(row[place], 2)),
          ),
        )),
      ),
    );
  }
}

export const playView = {
  name: "play",
  key: "p",
  supports: (app) => app.record.outputs.length > 1 && app.outputAxis !== null,
  fits: (stream, app) => stream.rows === app.outputAxis,
  create: (app) => new PlayView(app),
};
