// What-ifs on one layer: the weights as they would be after a mask, a cut, a forced weight or a dropped head.
// A change is what the HTTP API takes: {layer, do: "MaskKey", key, head?}, {do: "Cut", query, key, head?},
// {do: "Force", query, key, weight, head?}, {do: "DropHead", head}. No head means all.

const concerns = (change, head) => change.head === null || change.head === undefined || change.head === head;

function hide(row, key) {
  let rest = 0;
  for (let i = 0; i < row.length; i += 1) if (i !== key) rest += row[i];
  const total = rest + row[key];
  row[key] = 0;
  // a softmax without this key: the others share what it had, in proportion
  if (rest > 0) for (let i = 0; i < row.length; i += 1) row[i] *= total / rest;
}

function force(row, key, weight) {
  let rest = 0;
  for (let i = 0; i < row.length; i += 1) if (i !== key) rest += row[i];
  for (let i = 0; i < row.length; i += 1) row[i] = i === key ? weight : rest > 0 ? (row[i] * (1 - weight)) / rest : 0;
}

export function changeRow(row, head, query, changes) {
  for (const change of changes) {
    if (!concerns(change, head)) continue;
    if (change.do === "DropHead") row.fill(0);
    else if (change.do === "MaskKey") hide(row, change.key);
    else if (change.do === "Cut" && change.query === query) hide(row, change.key);
    else if (change.do === "Force" && change.query === query) force(row, change.key, change.weight);
  }
  return row;
}

// how far the outputs of a layer move, as a share of their length; null where the record has no values
export function outputChange(stream, query, changes) {
  let [moved, length] = [0, 0];
  for (let head = 0; head < stream.heads; head += 1) {
    const vectors = stream.vectors(head);
    if (!vectors?.v) return null;
    const before = stream.row(head, query);
    const after = changeRow(before.slice(), head, query, changes);
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
