// An answer: its text, its confidence, the candidates; next to it, the answer with a change.

import { h, svg } from "./elements.js";

const SHOWN = 8; // candidates shown at first

export function drawAnswer(run, answer, { passage, past = [] }, t, language) {
  if (answer.error) return h("p", { class: "problem", role: "alert" }, answer.error);
  return h(
    "div", { class: "card result" },
    h("h2", { class: "aloud" }, t("answer")),
    answer.values ? drawSeries(answer, past, t, language) : text(answer, t),
    answer.values ? null : confidence(answer, t, language),
    passage && answer.start !== undefined && answer.text ? inPassage(answer, passage) : null,
    answer.ranked?.length > 1 ? ranked(answer.ranked, t, language) : null,
  );
}

function text(answer, t) {
  return answer.text === "" ? h("p", { class: "text none" }, t("nothing")) : h("p", { class: "text", dir: "auto" }, answer.text);
}

function percent(value, language) {
  const digits = value < 0.0995 || value > 0.995 ? 1 : 0;
  return value.toLocaleString(language, { style: "percent", maximumFractionDigits: digits });
}

// a probability, or the mean log-probability of the words
function confidence(answer, t, language) {
  if (answer.score === null || answer.score === undefined) return null;
  const share = answer.score > 0 ? answer.score : Math.exp(answer.score);
  const text = answer.score > 0 ? t("sure", percent(share, language)) : t("perToken", percent(share, language));
  return h("div", { class: "sure", title: String(answer.score) }, bar(share), h("span", { class: "soft" }, text));
}

const bar = (share) => h("span", { class: "meter", "aria-hidden": "true" }, h("span", { style: { width: `${100 * Math.min(1, Math.max(0, share))}%` } }));

function inPassage(answer, passage) {
  const letters = Array.from(passage); // positions count code points, not UTF-16 units
  const [start, end] = [answer.start, answer.end];
  return h("p", { class: "passage", dir: "auto" }, letters.slice(0, start).join(""), h("mark", {}, letters.slice(start, end).join("")), letters.slice(end).join(""));
}

function ranked(items, t, language) {
  const share = (score) => (score > 0 && score <= 1 ? score : Math.exp(score));
  const rows = items.map(({ text: name, score }) => h("li", {}, h("bdi", { class: "name" }, name || "∅"), bar(share(score)), h("span", { class: "number" }, percent(share(score), language))));
  const rest = rows.slice(SHOWN);
  return h("div", { class: "ranked" }, h("ol", {}, rows.slice(0, SHOWN)), rest.length ? h("details", {}, h("summary", {}, t("more", rest.length)), h("ol", {}, rest)) : null);
}

// the latest rows of the uploaded table, a list of numbers per column, for the curve before the forecast; [] if they cannot be read
export function latest(text, columns, count) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const mark = [";", "\t", ","].find((one) => lines[0]?.includes(one)) ?? ",";
  const names = (lines[0] ?? "").split(mark).map((name) => name.trim().replace(/^"|"$/g, ""));
  const rows = lines.slice(1).slice(-count).map((line) => line.split(mark));
  return columns.map((column) => {
    const numbers = rows.map((row) => Number(names.includes(column) ? row[names.indexOf(column)] : NaN));
    return numbers.every(Number.isFinite) ? numbers : [];
  });
}

// the forecast of a series: a curve per column after the latest rows, and the numbers
function drawSeries(answer, past, t, language) {
  const { times, columns, values } = answer;
  const [wide, high, edge] = [720, 200, 8];
  const curves = columns.map((_, column) => values.map((row) => row[column]));
  const before = Math.max(0, ...past.map((curve) => curve.length));
  const x = (n) => edge + (n * (wide - 2 * edge)) / Math.max(1, before + values.length - 1);
  const paths = curves.map((curve, index) => {
    const all = [...(past[index] ?? []), ...curve];
    const [low, most] = [Math.min(...all), Math.max(...all)];
    const y = (value) => high - edge - ((value - low) * (high - 2 * edge)) / (most - low || 1);
    const line = (some, start, kind) => svg("polyline", { points: some.map((value, n) => `${x(start + n).toFixed(1)},${y(value).toFixed(1)}`).join(" "), class: kind });
    const history = past[index] ?? [];
    return [history.length ? line(history, before - history.length, "curve past") : null, line([...history.slice(-1), ...curve], before - (history.length ? 1 : 0), `curve c${index % 4}`)];
  });
  if (before) paths.unshift(svg("line", { x1: x(before - 0.5), x2: x(before - 0.5), y1: 0, y2: high, class: "now" }));
  const number = (value) => value.toLocaleString(language, { maximumSignificantDigits: 6 });
  const legend = columns.map((name, index) => h("li", { class: `c${index % 4}` }, h("bdi", {}, name), " ", h("span", { class: "number" }, `${number(curves[index][0])} → ${number(curves[index].at(-1))}`)));
  return h(
    "div", { class: "series" },
    svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${columns.join(", ")}: ${times[0]} – ${times.at(-1)}` }, paths.flat().filter(Boolean)),
    h("div", { class: "ends soft", style: { "padding-left": `${before ? (100 * x(before)) / wide : 0}%` } }, h("bdi", {}, times[0]), h("bdi", {}, times.at(-1))),
    h("ul", { class: "legend" }, legend),
    h("details", {}, h("summary", {}, t("more", times.length)), h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, [t("times"), ...columns].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, values.map((row, n) => h("tr", {}, h("th", { scope: "row" }, times[n]), row.map((value) => h("td", {}, number(value))))))))),
  );
}

// the answer without and with a change, side by side; words that differ are marked
export function drawChange(run, before, after, { past = [] }, t, language, undo) {
  const same = before.text === after.text;
  const [old, now] = marked(before.text ?? "", after.text ?? "");
  const side = (title, pieces, answer, kind) => h("div", { class: `side-by ${kind}` }, h("h3", {}, title), answer.values ? drawSeries(answer, past, t, language) : answer.error ? h("p", { class: "problem" }, answer.error) : h("p", { class: "text", dir: "auto" }, pieces.length ? pieces : h("span", { class: "none" }, t("nothing"))), answer.values ? null : confidence(answer, t, language));
  return h(
    "div", { class: `card change ${same ? "same" : "differs"}`, role: "status" },
    h("div", { class: "head" }, h("h2", {}, t(same ? "same" : "changed")), h("button", { type: "button", class: "quiet", onclick: undo }, t("back"))),
    h("div", { class: "pair" }, side(t("before"), old, before, "before"), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), side(t("after"), now, after, "after")),
  );
}

// the words of two texts; those outside their longest common subsequence are marked
export function marked(before, after) {
  const [a, b] = [before, after].map((text) => text.split(/(\s+)/).filter((word) => word !== ""));
  if (a.length * b.length > 250000) return [[before], [after]];
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const [left, right] = [[], []];
  let [i, j] = [0, 0];
  const mark = (tag, word) => (word.trim() ? h(tag, {}, word) : word);
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      left.push(a[i]);
      right.push(b[j]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) left.push(mark("del", a[i++]));
    else right.push(mark("ins", b[j++]));
  }
  return [left, right];
}
