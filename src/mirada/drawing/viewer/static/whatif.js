// What if: a key masked, an edge cut, a weight forced, a head dropped. Here it changes one layer; a live page can run the model again.

import { h } from "./elements.js";
import { layerName, short } from "./tokens.js";
import { outputChange, roomFor } from "./changes.js";

// the what-ifs that a record was made with
export const changeChips = ({ changes }) =>
  changes.map((change) => h("span", { class: "chip" }, `${change.do} ${layerName(String(change.layer ?? ""))}`));

export function whatIfCard(app) {
  const { state, stream } = app;
  const { row, column, heads } = state;
  const layer = stream.name;
  const named = heads.length === 1 ? { head: heads[0] } : {};
  const add = (change) => app.set({ changes: [...state.changes, { layer, ...change }] });
  const has = column !== null && column < stream.keys;
  const key = has ? short(app.token(stream.columns, column), 14) : "";
  const query = short(app.rowToken(), 14);
  const weight = h(
    "input",
    {
      type: "range", min: 0, max: has ? roomFor(app.changes, row, column, named.head) : 1, step: 0.01,
      value: has ? app.row()[column] : 0, "aria-label": app.t("weight"),
    },
  );
  const output = h("output", {}, has ? app.number(app.row()[column], 2) : "");
  weight.addEventListener("input", () => {
    output.textContent = app.number(Number(weight.value), 2);
  });
  weight.addEventListener("change", () => {
    const wanted = { layer, do: "Force", query: row, key: column, head: named.head };
    const same = (change) => Object.keys(wanted).every((name) => change[name] === wanted[name]);
    const others = state.changes.filter((change) => !same(change));
    app.set({ changes: [...others, { layer, do: "Force", query: row, key: column, weight: Number(weight.value), ...named }] });
  });
  const button = (text, act, off) => h("button", { type: "button", class: "small", disabled: off || null, onclick: act }, text);
  return h(
    "section", { class: "card whatif", "aria-label": app.t("whatIf") },
    h("h2", {}, app.t("whatIf"), h("small", { class: "badge" }, app.t("thisLayer"))),
    has ? null : h("p", { class: "soft hint" }, app.t("whatIfHint")),
    has ? h("p", { class: "pair" }, h("bdi", {}, query), " → ", h("bdi", {}, key)) : null,
    has ? h("label", { class: "force" }, app.t("forceWeight"), weight, output) : null,
    h("div", { class: "buttons" },
      has ? button(app.t("maskKey", key), () => add({ do: "MaskKey", key: column, ...named })) : null,
      has ? button(app.t("cutEdge"), () => add({ do: "Cut", query: row, key: column, ...named })) : null,
      heads.length === 1 ? button(app.t("dropHead", heads[0]), () => add({ do: "DropHead", head: heads[0] })) : null),
    state.changes.length ? active(app) : null,
  );
}

function active(app) {
  const { state, stream } = app;
  const remove = (change) => app.set({ changes: state.changes.filter((other) => other !== change) });
  const moved = app.changes.length ? outputChange(stream, state.row, app.changes) : null;
  const run = h("button", { type: "button", class: "primary", onclick: async () => {
    run.disabled = true;
    try {
      await app.rerun(state.changes);
    } catch (error) {
      run.after(h("p", { class: "bad", role: "alert" }, String(error.message ?? error)));
    }
    run.disabled = false;
  } }, app.t("runAgain"));
  return h(
    "div", { class: "active" },
    h(
      "ul",
      {},
      state.changes.map((change) => h(
        "li",
        {},
        h("bdi", {}, describe(app, change)),
        h("button", { type: "button", class: "remove", "aria-label": app.t("remove"), onclick: () => remove(change) }, "×"),
      )),
    ),
    moved === null ? null : h("p", {}, app.t("outputMoves", app.percent(moved))),
    app.rerun ? run : h("p", { class: "soft hint" }, app.t("onlyHere")),
    h("button", { type: "button", class: "small", onclick: () => app.set({ changes: [] }) }, app.t("removeAll")),
  );
}

export function describe(app, change) {
  const stream = app.record.byName.get(change.layer);
  const name = (axis, place) => (!stream ? String(place) : short(
    axis === "rows" ? app.rowToken(place, stream) : app.token(stream[axis], place),
    12,
  ));
  const head = change.head === undefined || change.head === null ? app.t("allHeads") : app.t("head", change.head);
  if (change.do === "DropHead") return app.t("didDrop", change.head);
  if (change.do === "MaskKey") return app.t("didMask", name("columns", change.key), head);
  if (change.do === "Cut") return app.t("didCut", name("rows", change.query), name("columns", change.key), head);
  return app.t("didForce", name("rows", change.query), name("columns", change.key), app.number(change.weight, 2), head);
}
