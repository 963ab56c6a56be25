// What-ifs on one layer: the weights as they would be after a mask, a cut, a forced weight or a dropped head.
// A change is what the HTTP API takes: {layer, do: "MaskKey", key, head?}, {do: "Cut", query, key, head?},
// {do: "Force", query, key, weight, head?}, {do: "DropHead", head}. No head means all.
// As in a real run (looking/changes.py) the order of the list says nothing: what is masked is masked first, then all forced weights of
// a row are set together. A key that is hidden keeps its weight of 0.

// the change with its places as the model counts them: a record may show some nodes of a larger graph
export function inModel({ byName }, change) {
  const stream = byName.get(change.layer);
  const place = (axis, value) => (given(value) ? { [axis === "rows" ? "query" : "key"]: stream?.[axis].places?.[value] ?? value } : {});
  return { ...change, ...place("rows", change.query), ...place("columns", change.key) };
}

const given = (value) => value !== null && value !== undefined;
const concerns = (change, head, query) =>
  (!given(change.head) || change.head === head) && (!given(change.query) || change.query === query);

// without some keys; a softmax lets the others share what they had, in proportion
function hide(row, hidden, normalized) {
  let [total, rest] = [0, 0];
  for (let i = 0; i < row.length; i += 1) {
    total += row[i];
    if (!hidden.has(i)) rest += row[i];
  }
  const scale = normalized && rest > 0 ? total / rest : 1;
  for (let i = 0; i < row.length; i += 1) row[i] = hidden.has(i) ? 0 : row[i] * scale;
}

// the rest shares what the forced weights leave, in proportion; equally where it has no weight (a hard choice)
function force(row, wanted, free, normalized) {
  let [forced, total, count] = [0, 0, 0];
  for (const weight of wanted.values()) forced += weight;
  for (let i = 0; i < row.length; i += 1) {
    if (wanted.has(i)) continue;
    total += row[i];
    count += free(i) ? 1 : 0;
  }
  const left = Math.max(0, 1 - forced);
  for (let i = 0; i < row.length; i += 1) {
    if (wanted.has(i)) row[i] = wanted.get(i);
    else if (normalized) row[i] = total > 0 ? (row[i] / total) * left : free(i) ? left / count : 0;
  }
}

export function changeRow(stream, row, head, query, changes) {
  const mine = changes.filter((change) => concerns(change, head, query));
  if (mine.some((change) => change.do === "DropHead")) return row.fill(0);
  const normalized = !/^Identity\b/.test(stream.fields.normalizer ?? "");
  const hidden = new Set(mine.filter((change) => change.do !== "Force").map((change) => change.key));
  if (hidden.size) hide(row, hidden, normalized);
  const forces = mine.filter((change) => change.do === "Force");
  if (!forces.length) return row;
  const seen = stream.sees(query, head);
  const free = (key) => seen[key] === 1 && !hidden.has(key);
  const wanted = new Map(forces.filter(({ key }) => free(key)).map(({ key, weight }) => [key, weight]));
  if (wanted.size) force(row, wanted, free, normalized);
  return row;
}

// the largest weight that can be forced, given the others of its row: together they are at most 1
export function roomFor(changes, query, key, head) {
  const meets = (change) => !given(head) || !given(change.head) || change.head === head;
  const others = changes.filter((change) => change.do === "Force" && change.query === query && change.key !== key && meets(change));
  return Math.max(0, 1 - others.reduce((sum, { weight }) => sum + weight, 0));
}

// how far the outputs of a layer move, as a share of their length; null where the record has no values
export function outputChange(stream, query, changes) {
  let [moved, length] = [0, 0];
  for (let head = 0; head < stream.heads; head += 1) {
    const vectors = stream.vectors(head);
    if (!vectors?.v) return null;
    const before = stream.row(head, query);
    const after = changeRow(stream, before.slice(), head, query, changes);
    for (let i = 0; i < vectors.valueDim; i += 1) {
      let [old, now] = [0, 0];
      for (let key = 0; key < stream.keys; key += 1) {
        old += before[key] * vectors.v[key * vectors.valueDim + i];
        now += after[key] * vectors.v[key * vectors.valueDim + i];
      }
      moved += (now - old) ** 2;
      length += old ** 2;
    }
  }
  return length > 0 ? Math.sqrt(moved / length) : 0;
}
