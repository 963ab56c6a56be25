// What a row or a head is like, in numbers.

const MOST_ROWS = 96; // rows that a head's statistics are computed from, where the record has none

export const sum = (row) => {
  let total = 0;
  for (let i = 0; i < row.length; i += 1) total += row[i];
  return total;
};

// in nats, of the row as a distribution
export function entropy(row) {
  const total = sum(row);
  let value = 0;
  for (let i = 0; i < row.length; i += 1) if (row[i] > 0) value -= (row[i] / total) * Math.log(row[i] / total);
  return value;
}

// the places of the largest numbers, largest first; NaN last
export function strongest(row, count) {
  const places = Array.from(row.keys()).filter((place) => row[place] === row[place]);
  places.sort((a, b) => Math.abs(row[b]) - Math.abs(row[a]) || a - b);
  return places.slice(0, count);
}

export function rowsSampled(size, most = MOST_ROWS) {
  if (size <= most) return Array.from({ length: size }, (_, place) => place);
  return Array.from({ length: most }, (_, place) => Math.floor((place * size) / most));
}

export function statisticsOf(stream, head) {
  const row = new Float32Array(stream.keys);
  const mass = new Float64Array(stream.keys);
  const found = { entropy: 0, distance: 0, previous: 0, next: 0, first: 0, self: 0 };
  let rows = 0;
  for (const query of rowsSampled(stream.queries)) {
    stream.fill(head, query, row);
    const total = sum(row);
    if (!(total > 0)) continue;
    rows += 1;
    found.entropy += entropy(row);
    found.first += row[0];
    for (let key = 0; key < row.length; key += 1) {
      mass[key] += row[key];
      found.distance += row[key] * Math.abs(key - query);
    }
    if (stream.square) {
      found.previous += row[query - 1] ?? 0;
      found.next += row[query + 1] ?? 0;
      found.self += row[query];
    }
  }
  for (const name of Object.keys(found)) found[name] /= rows || 1;
  if (!stream.square) found.previous = found.next = found.self = found.distance = null;
  const key = mass.reduce((best, value, place) => (value > mass[best] ? place : best), 0);
  const share = rows ? mass[key] / rows : 0;
  const sink = rows > 2 && stream.keys > 2 && share > Math.max(0.3, 4 / stream.keys) ? { key, mass: share } : null;
  return { ...found, sink, sampled: stream.queries > MOST_ROWS };
}
