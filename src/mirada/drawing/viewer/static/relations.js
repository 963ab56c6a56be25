// Heads that follow a relation between words, each compared with the best fixed offset.

import { h } from "./elements.js";
import { layerName } from "./tokens.js";

const OFFSETS = new Set(["previous", "next"]); // offsets themselves: only chance can be their baseline

class RelationsView {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "view relations-view" });
    this.update();
  }
  update() {
    const { app } = this;
    const rows = [...app.record.relations].sort((a, b) => b.accuracy - b.baseline - (a.accuracy - a.baseline));
    const lines = rows.map(({ relation, stream, head, accuracy, baseline, offset, count }) => {
      const known = app.record.byName.get(stream);
      const on = known && known.index === app.state.stream && app.state.heads.length === 1 && app.state.heads[0] === head;
      const gain = accuracy - baseline;
      const name = `${layerName(String(stream))} · ${head}`;
      return h("tr", { class: on ? "chosen" : "" },
        h("th", { scope: "row", class: "start" }, h("bdi", {}, String(relation))),
        h(
          "td",
          { class: "start" },
          known ? h(
            "button",
            { type: "button", class: "small", onclick: () => app.set({ stream: known.index, heads: [head] }) },
            name,
          ) : name,
        ),
        h(
          "td",
          { class: "wide" },
          h(
            "span",
            { class: "bar tall" },
            h("span", { class: `fill ${gain > 0 ? "" : "weak"}`, style: { width: `${accuracy * 100}%` } }),
            h("span", { class: "uniform", style: { left: `${baseline * 100}%` } }),
          ),
        ),
        h("td", {}, h("b", {}, app.percent(accuracy))), h(
          "td",
          {},
          `${app.percent(baseline)} (${OFFSETS.has(relation) ? app.t("chance") : `${offset > 0 ? "+" : ""}${offset}`})`,
        ),
        h(
          "td",
          { class: gain > 0 ? "up" : "down" },
          `${gain > 0 ? "+" : gain < 0 ? "−" : ""}${app.percent(Math.abs(gain))}`,
        ), h("td", {}, Number(count ?? 0).toLocaleString(app.state.language)));
    });
    this.element.replaceChildren(h("section", { class: "card" }, h("p", { class: "soft hint" }, app.t("relationsHint")),
      h("div", { class: "scroll" }, h("table", { class: "compare-table relations" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [
              "relation",
              "headColumn",
              "",
              "accuracy",
              "baseline",
              "gain",
              "count",
            ].map((name, index) => h("th", { scope: "col", class: index < 2 ? "start" : "" }, name ? app.t(name) : "")),
          ),
        ), h("tbody", {}, lines)))));
  }
}

export const relationsView = {
  name: "relations",
  key: "r",
  supports: (app) => app.record.relations.length > 0,
  fits: () => true,
  create: (app) => new RelationsView(app),
};
