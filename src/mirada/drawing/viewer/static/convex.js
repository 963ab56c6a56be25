// The convex view: an output is a weighted mean of values, so it lies inside their hull. Drag a weight and see it move.

import { h, svg } from "./elements.js";
import { short, tokenElement } from "./tokens.js";
import { strongest } from "./measures.js";
import { CLOSE, recompute } from "./steps.js";

const [WIDTH, HEIGHT, EDGE] = [560, 400, 46];
const SLIDERS = 8;

// the two directions in which points vary most, by power iteration on their covariance; points of the plane stay as they are
export function project(points, dim) {
  const count = points.length / dim;
  if (dim === 2) return { flat: Float64Array.from(points), kept: 1, map: (vector) => [vector[0], vector[1]] };
  const mean = new Float64Array(dim);
  for (let i = 0; i < points.length; i += 1) mean[i % dim] += points[i] / count;
  const centered = Float64Array.from(points, (value, i) => value - mean[i % dim]);
  const axes = [];
  let kept = 0;
  let total = 0;
  for (const value of centered) total += value * value;
  for (let axis = 0; axis < 2; axis += 1) {
    let direction = Float64Array.from({ length: dim }, (_, i) => Math.sin(i + 1 + axis)); // any start that is not special
    let size = 0;
    for (let round = 0; round < 60; round += 1) {
      for (const other of axes) {
        const along = dot(direction, other);
        direction = direction.map((value, i) => value - along * other[i]);
      }
      const next = new Float64Array(dim);
      for (let row = 0; row < count; row += 1) {
        const part = centered.subarray(row * dim, (row + 1) * dim);
        const along = dot(part, direction);
        for (let i = 0; i < dim; i += 1) next[i] += along * part[i];
      }
      size = Math.sqrt(dot(next, next));
      if (!size) break;
      direction = next.map((value) => value / size);
    }
    axes.push(direction);
    kept += size;
  }
  const map = (vector) => axes.map((axis) => axis.reduce((all, value, i) => all + value * (vector[i] - mean[i]), 0));
  const flat = new Float64Array(count * 2);
  for (let row = 0; row < count; row += 1) flat.set(map(points.subarray(row * dim, (row + 1) * dim)), row * 2);
  return { flat, kept: total ? Math.min(1, kept / total) : 1, map };
}

const dot = (a, b) => a.reduce((all, value, i) => all + value * b[i], 0);

// Andrew's monotone chain; [x, y] corners, counterclockwise
export function hull(points) {
  const ordered = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  const chain = (list) => {
    const corners = [];
    for (const point of list) {
      while (corners.length > 1 && turn(corners.at(-2), corners.at(-1), point) <= 0) corners.pop();
      corners.push(point);
    }
    return corners.slice(0, -1);
  };
  return ordered.length < 3 ? ordered : [...chain(ordered), ...chain(ordered.toReversed())];
}

export class Convex {
  constructor(app) {
    this.app = app;
    const { stream, state } = app;
    const head = state.heads[0];
    const { v, valueDim } = stream.vectors(head);
    this.recorded = app.row(state.row, stream, [head]);
    if (!app.changes.length && stream.fields.vectors.q && stream.fields.vectors.k) {
      const { weights, apart } = recompute(stream, head, state.row);
      // exact, where bytes were rounded
      if (apart <= CLOSE && stream.fields.vectors.plain !== false) this.recorded = Float32Array.from(weights);
    }
    this.weights = Float64Array.from(this.recorded);
    this.projection = project(v, valueDim);
    this.picture = h("div");
    this.sliders = h("ol", { class: "weights" });
    this.sum = h("p", { class: "formula-line" });
    const { kept } = this.projection;
    const odd = this.recorded.some((weight) => weight < 0) || Math.abs(this.recorded.reduce((all, weight) => all + weight, 0) - 1) > 0.02;
    this.element = h("section", { class: "card convex" }, h(
      "div",
      { class: "tools-row" },
      h("h2", {}, app.t("convex")),
      h("button", { type: "button", class: "small", onclick: () => this.#reset() }, app.t("reset")),
    ),
      h(
        "p",
        { class: "soft hint" },
        app.t("convexText"),
        " ",
        state.heads.length > 1 ? app.t("oneHead", head) : "",
        " ",
        valueDim === 2 ? "" : app.t("projected", app.percent(kept), valueDim),
      ),
      odd ? h("p", { class: "warned hint" }, app.t("noSum")) : null,
      h(
        "div",
        { class: "convex-body" },
        this.picture,
        h("div", {}, h("h3", {}, h("bdi", {}, short(app.rowToken(), 24))), this.sliders),
      ), this.sum);
    this.#frame();
    this.#controls();
    this.draw();
  }
  #reset() {
    this.weights = Float64Array.from(this.recorded);
    this.#controls();
    this.draw();
  }
  #frame() {
    const { flat } = this.projection;
    const xs = flat.filter((_, i) => i % 2 === 0);
    const ys = flat.filter((_, i) => i % 2 === 1);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    this.scale = ([x, y]) => [
      EDGE + ((x - left) / (right - left || 1)) * (WIDTH - 2 * EDGE),
      HEIGHT - EDGE - ((y - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE),
    ];
    this.points = Array.from({ length: flat.length / 2 }, (_, i) => this.scale([flat[2 * i], flat[2 * i + 1]]));
    this.corners = hull(this.points);
  }
  #mean(weights) {
    let [x, y] = [0, 0];
    this.points.forEach((point, key) => {
      x += weights[key] * point[0];
      y += weights[key] * point[1];
    });
    return [x, y];
  }
  // rows that do not sum to one are means of values and of nothing
  #place(weights) {
    const { app } = this;
    const total = weights.reduce((all, weight) => all + weight, 0);
    if (Math.abs(total - 1) < 0.02) return this.#mean(weights.map((weight) => weight / total));
    const { v, valueDim } = app.stream.vectors(app.state.heads[0]);
    const out = new Float64Array(valueDim);
    for (let key = 0; key < weights.length; key += 1) for (let i = 0; i < valueDim; i += 1) out[i] += weights[key] * v[key * valueDim + i];
    return this.scale(this.projection.map(out));
  }
  #controls() {
    const { app } = this;
    const places = app.stream.keys <= 12 ? Array.from(this.weights.keys()) : strongest(this.recorded, SLIDERS).sort((a, b) => a - b);
    this.inputs = new Map();
    this.sliders.replaceChildren(...places.map((key) => {
      const output = h("output", {}, app.number(this.weights[key], 3));
      const slider = h(
        "input",
        {
          type: "range",
          min: 0,
          max: 1,
          step: 0.005,
          value: this.weights[key],
          "aria-label": short(app.token(app.stream.columns, key), 30),
          oninput: () => this.#force(key, Number(slider.value)),
        },
      );
      this.inputs.set(key, { slider, output });
      return h("li", {}, h("label", {}, tokenElement(app.token(app.stream.columns, key), {}, 14), slider, output));
    }));
  }
  // the others share the rest in proportion, as `Force` does
  #force(key, weight) {
    const rest = this.weights.reduce((all, value, place) => (place === key ? all : all + value), 0);
    const equal = (1 - weight) / Math.max(1, this.weights.length - 1);
    this.weights = this.weights.map((value, place) => (place === key ? weight : rest > 1e-9 ? (value * (1 - weight)) / rest : equal));
    for (const [place, { slider, output }] of this.inputs) {
      if (place !== key) slider.value = this.weights[place];
      output.textContent = this.app.number(this.weights[place], 3);
    }
    this.draw();
  }
  draw() {
    const { app, points, weights } = this;
    const { columns } = app.stream;
    const here = this.#place(weights);
    const was = this.#place(Float64Array.from(this.recorded));
    const moved = Math.hypot(here[0] - was[0], here[1] - was[1]) > 1.5;
    const named = new Set(points.length <= 24 ? points.keys() : strongest(this.recorded, 10));
    const rays = points.map(([x, y], key) => (weights[key] > 0.004 ? svg(
      "line",
      {
        x1: x,
        y1: y,
        x2: here[0],
        y2: here[1],
        class: "ray",
        "stroke-width": 0.5 + 7 * weights[key],
        "stroke-opacity": 0.15 + 0.6 * weights[key],
      },
    ) : null));
    const dots = points.map(([x, y], key) => svg("g", { class: "value" }, svg(
      "circle",
      { cx: x, cy: y, r: 4 + 9 * Math.sqrt(Math.max(0, weights[key])) },
    ),
      named.has(key) ? svg(
        "text",
        { x, y: y < HEIGHT / 2 ? y - 16 : y + 26, "text-anchor": x < 90 ? "start" : x > WIDTH - 90 ? "end" : "middle" },
        short(app.token(columns, key), 14),
      ) : null));
    this.picture.replaceChildren(svg("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "convex-picture",
      role: "img",
      "aria-label": app.t("convex"),
    },
      svg("polygon", { points: this.corners.map((corner) => corner.join()).join(" "), class: "hull" }), rays, dots,
      moved ? svg(
        "path",
        { d: `M${was[0]} ${was[1]} L${here[0]} ${here[1]}`, class: "trail" },
      ) : null, moved ? svg("circle", { cx: was[0], cy: was[1], r: 5, class: "was" }) : null,
      svg("path", { d: star(here[0], here[1], 12), class: "star" }), svg(
        "text",
        { x: here[0], y: here[1] + (here[1] > HEIGHT - 70 ? -18 : 30), "text-anchor": "middle", class: "star-name" },
        `h ${short(app.rowToken(), 12)}`,
      )));
    const terms = strongest(weights, 8).sort((a, b) => a - b);
    this.sum.replaceChildren(h(
      "span",
      {},
      h("i", {}, "h"),
      h("sub", {}, h("bdi", {}, short(app.rowToken(), 14))),
      " = ",
      terms.flatMap((key, index) => [
        index ? " + " : "",
        h("b", {}, app.number(weights[key], 3)),
        " ",
        h("bdi", {}, short(app.token(columns, key), 12)),
      ]),
      weights.length > terms.length ? " + …" : "",
    ));
  }
}

function star(x, y, size) {
  const corner = (i) => {
    const [angle, radius] = [-Math.PI / 2 + (i * Math.PI) / 5, i % 2 ? size * 0.45 : size];
    return `${x + radius * Math.cos(angle)} ${y + radius * Math.sin(angle)}`;
  };
  return `M${Array.from({ length: 10 }, (_, i) => corner(i)).join(" L")} Z`;
}
