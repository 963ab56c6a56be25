// What a reader must be warned of, inside the figure: sinks, rows that are no distribution, dropout, and what attention is not.

import { h } from "./elements.js";
import { short } from "./tokens.js";

export function cautionsOf(app, stream = app.stream, heads = app.state.heads) {
  const { checks } = stream;
  const found = [];
  const sinks = new Map();
  if (heads.length <= 64 && stream.keys > 3) {
    for (const head of heads) {
      const sink = stream.statistics(head)?.sink;
      if (sink) sinks.set(sink.key, [...(sinks.get(sink.key) ?? []), sink.mass]);
    }
  }
  for (const [key, masses] of sinks) {
    const mass = masses.reduce((all, value) => all + value, 0) / masses.length;
    const name = short(app.token(stream.columns, key), 20);
    found.push([
      "sink",
      heads.length === 1 ? app.t("sink", app.percent(mass), name) : app.t(
        "sinkHeads",
        masses.length,
        heads.length,
        app.percent(mass),
        name,
      ),
    ]);
  }
  const off = (value) => value !== undefined && value !== null && Math.abs(value - 1) > 0.01;
  if (off(checks.row_sum_min) || off(checks.row_sum_max)) found.push([
    "warn",
    app.t("rowSums", app.number(checks.row_sum_min, 3), app.number(checks.row_sum_max, 3)),
  ]);
  if (checks.nan_rows) found.push(["bad", app.t("nanRows", checks.nan_rows)]);
  if (checks.empty_rows) found.push(["warn", app.t("emptyRows", checks.empty_rows)]);
  if (checks.dropout) found.push(["warn", app.t("dropoutOn", app.number(checks.dropout, 2))]);
  if (checks.identical_rows && stream.queries > 1) found.push(["warn", app.t("identicalRows")]);
  if (checks.error > 0.004) found.push(["warn", app.t("inexact", app.number(checks.error, 4))]);
  return found;
}

export function cautionList(app, stream, heads) {
  const items = cautionsOf(app, stream, heads);
  return h(
    "ul", { class: "cautions" },
    items.map(([kind, text]) => h("li", { class: kind }, h("bdi", {}, text))),
    h("li", { class: "always" }, app.t("notExplanation")),
  );
}
