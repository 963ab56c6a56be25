// One row in numbers: what a query looked at, strongest first, and all the rest as one number, so that nothing is left out.

import { h } from "./elements.js";
import { tokenElement } from "./tokens.js";
import { entropy, strongest, sum } from "./measures.js";

const SHOWN = 8;

export function rowCard(app, row, { shown = SHOWN } = {}) {
  const { stream, state } = app;
  const { keys } = stream;
  const places = strongest(row, shown).filter((place, index) => index < 3 || row[place] !== 0);
  const most = Math.max(...places.map((place) => Math.abs(row[place])), 1e-9);
  const seen = Math.max(1, stream.visible(state.row));
  const uniform = 1 / seen;
  const total = sum(row);
  const several = app.chosenRows.length > 1 ? app.chosenRows.length : 0;
  const covered = places.reduce((all, place) => all + row[place], 0);
  const bar = (share, place) =>
    h("span", { class: "bar" }, h(
      "span",
      { class: `fill ${row[place] < 0 ? "negative" : ""}`, style: { width: `${share * 100}%` } },
    ),
      uniform <= most ? h("span", { class: "uniform", style: { left: `${(uniform / most) * 100}%` } }) : null);
  const items = places.map((place) =>
    h("li", { class: place === state.column ? "chosen" : "" },
      h("button", { type: "button", class: "key", onclick: () => app.set({ column: state.column === place ? null : place }) },
        tokenElement(
          app.token(stream.columns, place),
          {},
          22,
        ), bar(Math.abs(row[place]) / most, place), h("b", {}, app.number(row[place], 4)))));
  const left = keys - places.length;
  const rest = left ? h(
    "li",
    { class: "rest" },
    h("span", {}, app.t(left === 1 ? "otherKey" : "otherKeys", left)),
    h("b", {}, app.number(total - covered, 4)),
  ) : null;
  return h(
    "section", { class: "card row-card", "aria-label": app.t("row") },
    h("h2", {}, h("small", {}, several ? app.t("rowsMean", several) : app.t("rowOf", state.row + 1, stream.queries)),
      app.chosenRows.slice(0, 8).flatMap((place, index) => [
        index ? ", " : "",
        tokenElement(app.rowToken(place), { class: several ? "" : "large" }),
      ]), several > 8 ? " …" : null),
    h(
      "p",
      { class: "soft" },
      app.written(state.row) && !several ? [
        app.t("writtenAfter"),
        " ",
        tokenElement(app.token(stream.rows, state.row), {}, 16),
        " · ",
      ] : null,
      headsText(app),
    ),
    h("ol", { class: "bars" }, items, rest),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, app.t("sum")), h("dd", {}, app.number(total, 2))),
      h(
        "div",
        {},
        h("dt", {}, app.t("entropy")),
        h("dd", {}, app.t("entropyOf", app.number(entropy(row), 2), app.number(Math.log(seen), 2))),
      ),
    ),
  );
}

export function headsText(app) {
  const { heads } = app.state;
  if (heads.length === 1) return app.t("head", heads[0]);
  if (heads.length === app.stream.heads) return app.t("meanAll", heads.length);
  return app.t("meanOf", heads.join(", "));
}
