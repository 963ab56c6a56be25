// The choice of a layer and of heads: a square per head, or, where there is little room, a list and a row of buttons.

import { h } from "./elements.js";
import { layerName, short } from "./tokens.js";
import { sequential } from "./palette.js";

const everyHead = ({ heads }) => Array.from({ length: heads }, (_, head) => head);
const more = (event) => event.shiftKey || event.ctrlKey || event.metaKey;

export class LayerPicker {
  // `fits(stream)`: whether the view that is open can show it
  constructor(app, fits) {
    Object.assign(this, { app, fits });
    this.element = h("div", { class: "picker" });
    this.update();
  }
  update() {
    const { app } = this;
    const before = this.list?.scrollTop ?? 0;
    this.list = h("div", { class: "pick-rows" }, app.record.streams.map((stream) => this.#row(stream)));
    const hint = app.t(app.stream.fields.statistics ? "pickHint" : "pickHintPlain");
    this.element.replaceChildren(
      h(
        "section",
        { class: "card pick-card" },
        h("h2", {}, app.t("layersHeads")),
        this.list,
        h("p", { class: "soft hint" }, hint),
        about(app),
      ),
      h("section", { class: "pick-small" }, this.#select(), this.#chips()),
    );
    this.list.scrollTop = before;
    const chosen = this.list.querySelector(".chosen"); // in sight, without moving the page
    const below = chosen.offsetTop + chosen.offsetHeight - this.list.clientHeight;
    this.list.scrollTop = Math.min(Math.max(this.list.scrollTop, below), chosen.offsetTop);
  }
  #row(stream) {
    const { app } = this;
    const fits = this.fits(stream);
    const all = () => app.set({ stream: stream.index, heads: everyHead(stream) });
    const name = h(
      "button",
      { type: "button", class: "pick-name", title: stream.name, disabled: !fits, onclick: all },
      layerName(stream.name),
    );
    const kind = `pick-row ${stream.index === app.state.stream ? "chosen" : ""} ${fits ? "" : "unfit"}`;
    return h(
      "div",
      { class: kind },
      name,
      h("div", { class: "dots" }, everyHead(stream).map((head) => this.#dot(stream, head))),
    );
  }
  // a head as a square, the fuller its color the more it concentrates
  #dot(stream, head) {
    const { app } = this;
    const here = stream.index === app.state.stream;
    const { entropy, normalized_entropy: share } = stream.fields.statistics?.[head] ?? {};
    const spread = share ?? (Number.isFinite(entropy) ? entropy / Math.log(Math.max(2, stream.keys)) : null);
    const color = spread === null ? null : sequential(app.dark).css(240 - 200 * Math.min(1, spread));
    return h("button", {
      type: "button",
      class: "dot",
      tabindex: here ? 0 : -1,
      "aria-pressed": String(here && app.state.heads.includes(head)),
      "aria-label": app.t("headOf", head, stream.name),
      title: `${layerName(stream.name)} · ${app.t("head", head)}`,
      disabled: !this.fits(stream),
      style: color ? { "--dot": color } : {},
      onclick: (event) => app.chooseHead(stream, head, more(event)),
    });
  }
  #select() {
    const { app } = this;
    const options = app.record.streams.map((stream) =>
      h("option", { value: stream.index, disabled: !this.fits(stream) }, layerName(stream.name)),
    );
    const onchange = (event) => app.set({ stream: Number(event.target.value) });
    const select = h("select", { class: "layer-select", "aria-label": app.t("layer"), onchange }, options);
    select.value = String(app.state.stream);
    return select;
  }
  #chips() {
    const { app } = this;
    const { stream, state } = app;
    const all = state.heads.length === stream.heads;
    const chip = (text, on, onclick) => h(
      "button",
      { type: "button", class: "head-chip", "aria-pressed": String(on), onclick },
      text,
    );
    return h(
      "div",
      { class: "chips" },
      stream.heads > 1 ? chip(app.t("allHeads"), all, () => app.set({ heads: app.all() })) : null,
      everyHead(stream).map((head) =>
        chip(
          String(head),
          state.heads.includes(head) && (!all || stream.heads === 1),
          (event) => app.chooseHead(stream, head, more(event)),
        ),
      ),
    );
  }
}

// how the chosen layer works, in the record's own words
function about(app) {
  const { fields } = app.stream;
  const facts = ["score", "where", "position", "normalizer", "kernel"].filter((name) => fields[name]);
  const text = (name) => short(String(fields[name]).replace(/\s+/g, " "), 60);
  return h(
    "dl",
    { class: "about" },
    facts.map((name) => h("div", {}, h("dt", {}, app.t(`about_${name}`)), h("dd", { dir: "auto" }, text(name)))),
  );
}
