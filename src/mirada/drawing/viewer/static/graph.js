// Attention as a weighted graph: an arrow from each key to the query that reads it; and the output inside the hull of its values.

import { h, svg } from "./elements.js";
import { short } from "./tokens.js";
import { cautionList } from "./cautions.js";
import { circle, grid, line, springs, twoRows } from "./layout.js";
import { leastShown, massMeter, thresholdControl } from "./lines.js";
import { Convex } from "./convex.js";

const MOST_NODES = 160;
const MOST_ALL = 40; // nodes up to which the arrows of all rows are drawn, not of the chosen one only
const MARGIN = 9;

class GraphView {
  constructor(app) {
    this.app = app;
    this.picture = h("div", { class: "graph-frame" });
    this.meter = h("span");
    this.cautions = h("div");
    this.note = h("p", { class: "soft hint" });
    this.card = h(
      "figure",
      { class: "card" },
      h("div", { class: "tools-row" }, h("h2", {}, app.t("graph")), (this.control = h("span")), this.meter),
      this.note,
      this.picture,
      this.cautions,
    );
    this.convex = h("div");
    this.element = h("div", { class: "view graph-view" }, this.card, this.convex);
    this.update(new Set(["stream", "heads"]));
  }
  close() {}
  update(changed) {
    const { app } = this;
    if (changed.has("stream") || changed.has("heads") || changed.has("changes")) this.cautions.replaceChildren(cautionList(app));
    if (changed.has("stream") || (changed.has("heads") && !this.moved)) this.#threshold();
    if (changed.has("stream")) this.#plan();
    else if (this.ego && (changed.has("row") || changed.has("heads"))) this.#plan();
    this.draw();
    const able = app.stream.fields.vectors?.v && app.stream.keys > 1 && app.stream.keys <= 512;
    if (able) this.convex.replaceChildren(new Convex(app).element);
    else this.convex.replaceChildren();
  }
  #threshold() {
    const { app } = this;
    Object.assign(this, { least: leastShown(app), moved: false });
    this.control.replaceChildren(thresholdControl(app, this.least, (least) => {
      Object.assign(this, { least, moved: true });
      this.draw();
    }));
  }
  // which nodes, and where
  #plan() {
    const { app } = this;
    const { stream } = app;
    this.ego = false;
    const both = !stream.square;
    const count = both ? Math.max(stream.queries, stream.keys) : stream.keys;
    this.nodes = Array.from({ length: stream.keys }, (_, place) => place);
    if (both) {
      this.shape = count <= MOST_NODES ? twoRows(stream.queries, stream.keys) : null;
      if (!this.shape) this.#egoOfTwo();
    } else if (stream.columns.kind === "grid" && count <= 1024) this.shape = grid(stream.columns);
    else if (count > MOST_NODES) this.#near();
    else if (stream.edges) this.shape = springs(count, this.#edges(this.nodes));
    else if (count > 16 || /Causal/.test(stream.fields.where ?? "")) this.shape = count > 60 ? this.#near() : line(count);
    else this.shape = circle(count);
    this.note.textContent = this.ego ? app.t("egoGraph") : "";
  }
  #edges(nodes) {
    const { weights } = this.app.stream;
    const at = new Map(nodes.map((node, index) => [node, index]));
    return nodes.flatMap((query) => weights.neighbors(query).filter(([key]) => at.has(key)).map(([key]) => [at.get(query), at.get(key)]));
  }
  // the chosen node, what it reads most, and what these read most
  #near() {
    const { app } = this;
    this.ego = true;
    const found = new Set([app.state.row]);
    const strong = (query, count) => {
      const row = app.row(query);
      return Array.from(row.keys()).filter((key) => row[key] > 0).sort((a, b) => row[b] - row[a]).slice(0, count);
    };
    for (const key of strong(app.state.row, 18)) found.add(key);
    for (const node of [...found].slice(0, 8)) for (const key of strong(node, 3)) if (found.size < 44) found.add(key);
    this.nodes = [...found].sort((a, b) => a - b);
    const edges = app.stream.edges ? this.#edges(this.nodes) : null;
    return (this.shape = edges ? springs(this.nodes.length, edges) : circle(this.nodes.length));
  }
  #egoOfTwo() {
    const { app } = this;
    this.ego = true;
    const row = app.row();
    this.nodes = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, 40).sort((a, b) => a - b);
    this.queries = [app.state.row];
    this.shape = twoRows(1, this.nodes.length);
  }
  draw() {
    const { app, shape } = this;
    const { stream, state } = app;
    const both = !stream.square;
    const at = new Map(this.nodes.map((node, index) => [node, index]));
    const queries = both ? (this.ego ? [state.row] : Array.from({ length: stream.queries }, (_, place) => place)) : this.nodes;
    const queryAt = new Map(queries.map((node, index) => [node, index]));
    const placeKey = (key) => (shape.key ?? shape.place)(at.get(key));
    const placeQuery = (query) => shape.place(queryAt.get(query));
    const focused = queries.length > MOST_ALL || (stream.columns.kind === "grid" && !both) ? [state.row] : queries;
    const edges = [];
    let [shown, total] = [0, 0];
    for (const query of focused) {
      const row = app.row(query);
      row.forEach((weight, key) => {
        total += Math.abs(weight) || 0;
        if (!(Math.abs(weight) >= this.least) || !weight || !at.has(key) || !queryAt.has(query)) return;
        shown += Math.abs(weight);
        edges.push({ query, key, weight });
      });
    }
    this.largest = edges.reduce((most, { weight }) => Math.max(most, Math.abs(weight)), 1e-9);
    edges.sort((a, b) => (a.query === state.row) - (b.query === state.row) || a.weight - b.weight);
    const arrows = edges.map((edge) => this.#arrow(
      edge,
      placeKey(edge.key),
      both ? placeQuery(edge.query) : placeKey(edge.query),
    ));
    const nodes = both
      ? [
        ...this.nodes.map((key) => this.#node(placeKey(key), app.token(stream.columns, key), { key })),
        ...queries.map((query) => this.#node(placeQuery(query), app.rowToken(query), { query, below: true })),
      ]
      : this.nodes.map((node) => this.#node(
        placeKey(node),
        app.token(stream.columns, node),
        { query: node, key: node, below: shape.arcs || app.stream.edges },
      ));
    this.picture.replaceChildren(svg("svg", {
      viewBox: `0 0 ${shape.width} ${shape.height}`,
      class: "graph",
      role: "img",
      "aria-label": app.t("graphLabel", short(app.rowToken())),
      style: {
        "max-width": `${Math.max(shape.width, 360)}px`,
        "min-width": shape.arcs || shape.key ? `${shape.width * 0.72}px` : "0",
      },
    },
      svg(
        "defs",
        {},
        ["plain", "lit"].map((kind) => svg(
          "marker",
          {
            id: `arrow-${kind}`,
            viewBox: "0 0 8 8",
            refX: 7,
            refY: 4,
            markerWidth: 7,
            markerHeight: 7,
            markerUnits: "userSpaceOnUse",
            orient: "auto",
          },
          svg("path", { d: "M0 0.8 L8 4 L0 7.2 Z", class: `tip-${kind}` }),
        )),
      ),
      svg("g", { class: "edges" }, arrows), svg("g", { class: "nodes" }, nodes)));
    this.meter.replaceChildren(massMeter(app, total ? shown / total : 0));
  }
  #arrow({ query, key, weight }, from, to) {
    const { app, shape } = this;
    const { row, column } = app.state;
    const lit = query === row && (column === null || column === key || query === row);
    const strength = Math.min(1, Math.abs(weight) / Math.max(0.2, this.largest));
    const look = {
      class: `edge ${lit ? "lit" : ""} ${weight < 0 ? "negative" : ""}`,
      "stroke-width": 0.8 + 7 * strength,
      opacity: lit ? 0.3 + 0.65 * Math.sqrt(strength) : 0.05 + 0.4 * strength,
      "marker-end": `url(#arrow-${lit ? "lit" : "plain"})`,
    };
    const name = svg(
      "title",
      {},
      `${short(app.token(app.stream.columns, key), 30)} → ${short(app.rowToken(query), 30)}: ${app.number(weight, 4)}`,
    );
    if (app.stream.square && query === key) {
      const [ux, uy] = shape.arcs ? [0, -1] : [Math.cos(from.angle ?? -Math.PI / 2), Math.sin(from.angle ?? -Math.PI / 2)];
      const [x, y] = [from.x + ux * MARGIN, from.y + uy * MARGIN];
      const [px, py] = [-uy, ux];
      const point = (out, side) => `${x + ux * out + px * side} ${y + uy * out + py * side}`;
      const loop = `M${point(0, 4)} C${point(26, 20)} ${point(26, -20)} ${point(0, -4)}`;
      return svg("path", { ...look, "marker-end": null, d: loop }, name);
    }
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy) || 1;
    const bow = shape.arcs ? null : shape.key ? 0 : 0.13 * length;
    if (shape.arcs) {
      const base = from.y - MARGIN;
      const high = base - Math.min(from.y - 24, Math.abs(dx) * 0.55 + 14);
      const [left, right] = [from.x + Math.sign(dx) * 3, to.x - Math.sign(dx) * 3];
      return svg("path", { ...look, d: `M${left} ${base} C${left} ${high} ${right} ${high} ${right} ${base - 1}` }, name);
    }
    const middle = { x: (from.x + to.x) / 2 - (dy / length) * bow, y: (from.y + to.y) / 2 + (dx / length) * bow };
    const end = pull(to, middle, MARGIN + 2);
    const start = pull(from, middle, MARGIN);
    return svg("path", { ...look, d: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}` }, name);
  }
  #node(at, token, { query = null, key = null, below = false }) {
    const { app, shape } = this;
    const { row, column } = app.state;
    const chosen = query === row && query !== null;
    const pick = () => app.set(query !== null ? { row: query } : { column: key });
    const round = at.angle !== undefined;
    const away = round ? 38 : 0;
    const anchor = round && Math.abs(Math.cos(at.angle)) > 0.3 ? (Math.cos(at.angle) > 0 ? "start" : "end") : "middle";
    const beside = shape.key && query !== null ? (this.ego ? 1 : app.stream.queries) : this.nodes.length;
    const crowded = shape.arcs || shape.key ? shape.width / Math.max(1, beside) < 46 : false;
    const [cos, sin] = round ? [Math.cos(at.angle), Math.sin(at.angle)] : [0, 0];
    const x = anchor === "middle" ? at.x : at.x + away * cos;
    const outside = at.y + 4 + (anchor === "middle" ? 1.1 : 1) * away * sin;
    const turned = crowded ? `rotate(-50 ${at.x} ${below ? at.y + 16 : at.y - 10})` : null;
    const label = svg("text", {
      x,
      y: round ? outside : below ? at.y + 24 : at.y - 14,
      "text-anchor": !crowded ? anchor : below ? "end" : "start",
      transform: turned,
      class: chosen ? "chosen" : "",
    }, short(token, 16));
    const silent = app.stream.columns.kind === "grid" && app.stream.square && !app.stream.columns.before.includes(token);
    return svg("g", {
      class: `node ${chosen ? "chosen" : ""} ${key === column && column !== null ? "marked" : ""}`,
      tabindex: -1,
      role: "button",
      "aria-label": short(token, 40),
      onclick: pick,
    },
      svg("circle", { cx: at.x, cy: at.y, r: silent ? 5 : MARGIN - 1 }), silent ? null : label);
  }
}

// a point `by` away from another, on the way to a third
function pull(point, towards, by) {
  const length = Math.hypot(towards.x - point.x, towards.y - point.y) || 1;
  return { x: point.x + ((towards.x - point.x) / length) * by, y: point.y + ((towards.y - point.y) / length) * by };
}

export const graphView = {
  name: "graph",
  key: "g",
  supports: (app) => app.record.streams.some((stream) => stream.queries && stream.keys),
  fits: (stream) => stream.queries > 0 && stream.keys > 0,
  create: (app) => new GraphView(app),
};
