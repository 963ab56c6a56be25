// The matrix as a table: what a screen reader reads. Small ones whole, of large ones the chosen row.

import { h } from "./elements.js";
import { tokenElement, visible } from "./tokens.js";
import { strongest } from "./measures.js";

const MOST = 24;
const MOST_KEYS = 200;
let open = false;

export function numbersTable(app) {
  const { stream } = app;
  const whole = stream.queries <= MOST && stream.keys <= MOST;
  const body = h("div", { class: "scroll" });
  const fill = () => body.replaceChildren(whole ? matrix(app) : chosenRow(app));
  const details = h("details", { class: "numbers", open: open || null, ontoggle: () => {
    open = details.open;
    if (open) fill();
  } }, h("summary", {}, whole ? app.t("asTable") : app.t("rowAsTable", app.state.row + 1)), body);
  if (open) fill();
  else if (whole && typeof window.matchMedia === "function") fill();
  return details;
}

function matrix(app) {
  const { stream } = app;
  const head = h(
    "tr",
    {},
    h("td"),
    stream.columns.tokens.map((token) => h("th", { scope: "col" }, tokenElement(token, {}, 16))),
  );
  const rows = stream.rows.tokens.map((_, query) =>
    h("tr", { class: query === app.state.row ? "chosen" : "" }, h(
      "th",
      { scope: "row" },
      tokenElement(app.rowToken(query), {}, 16),
    ),
      Array.from(app.row(query), (weight) => h("td", {}, app.number(weight, 4)))));
  return h(
    "table",
    { class: "matrix-table" },
    h("caption", {}, app.t("tableCaption", stream.name)),
    h("thead", {}, head),
    h("tbody", {}, rows),
  );
}

function chosenRow(app) {
  const { stream } = app;
  const row = app.row();
  const places = strongest(row, MOST_KEYS);
  const lines = places.map((place) => h(
    "tr",
    {},
    h("td", {}, String(place)),
    h("th", { scope: "row" }, tokenElement(app.token(stream.columns, place))),
    h("td", {}, app.number(row[place], 6)),
  ));
  const caption = app.t("rowCaption", visible(app.rowToken()), places.length, stream.keys);
  return h("table", { class: "matrix-table" }, h("caption", {}, caption),
    h(
      "thead",
      {},
      h("tr", {}, h("th", {}, "#"), h("th", {}, app.t("key")), h("th", {}, app.t("weight"))),
    ), h("tbody", {}, lines));
}
