// Where the nodes of a graph stand: on a line, on a circle, in two rows, on a grid, or where springs put them.

const WIDTH = 720;

export const circle = (count) => {
  const radius = Math.max(130, Math.min(270, count * 17));
  const size = 2 * radius + 130;
  return {
    width: size + 120, height: size,
    place: (index) => {
      const angle = (2 * Math.PI * index) / count - Math.PI / 2;
      return { x: size / 2 + 60 + radius * Math.cos(angle), y: size / 2 + radius * Math.sin(angle), angle };
    },
  };
};

export const line = (count) => {
  const step = Math.max(22, Math.min(90, 860 / Math.max(1, count)));
  const width = Math.max(360, step * count + 60);
  return {
    width,
    height: Math.min(420, width * 0.5) + 90,
    arcs: true,
    place: (index) => ({ x: 30 + step * (index + 0.5), y: Math.min(420, width * 0.5) + 40 }),
  };
};

export const twoRows = (queries, keys) => {
  const most = Math.max(queries, keys);
  const step = Math.max(24, Math.min(100, 900 / Math.max(1, most)));
  const width = Math.max(420, step * most + 40);
  const place = (count, y) => (index) => ({ x: width / 2 + (index - (count - 1) / 2) * step, y });
  return { width, height: 330, place: place(queries, 270), key: place(keys, 60) };
};

export const grid = (axis) => {
  const step = Math.max(16, Math.min(60, 560 / Math.max(axis.width, axis.height)));
  const top = axis.before.length ? 60 : 20;
  const place = (index) => {
    const cell = index - axis.before.length;
    if (cell < 0) return { x: 24 + (step * axis.width) / 2 + (index - (axis.before.length - 1) / 2) * 90, y: 30 };
    return { x: 24 + step * ((cell % axis.width) + 0.5), y: top + step * (Math.floor(cell / axis.width) + 0.5) };
  };
  return { width: Math.max(320, step * axis.width + 48), height: top + step * axis.height + 24, place };
};

// springs along edges, repulsion between all, from a circle: the same graph always looks the same
export function springs(count, edges) {
  const height = 560;
  const x = Float64Array.from({ length: count }, (_, i) => Math.cos((2 * Math.PI * i) / count));
  const y = Float64Array.from({ length: count }, (_, i) => Math.sin((2 * Math.PI * i) / count));
  const ideal = 1.6 / Math.sqrt(Math.max(1, count));
  const loose = 1 / (1 + edges.length / Math.max(1, count) / 3); // the more edges, the weaker each: groups stay readable
  const rounds = count > 150 ? 120 : 300;
  for (let round = 0; round < rounds; round += 1) {
    const heat = 0.12 * (1 - round / rounds) + 0.002;
    const dx = new Float64Array(count);
    const dy = new Float64Array(count);
    for (let i = 0; i < count; i += 1) {
      for (let j = i + 1; j < count; j += 1) {
        const [ax, ay] = [x[i] - x[j], y[i] - y[j]];
        const square = ax * ax + ay * ay + 1e-6;
        const push = (ideal * ideal) / square;
        dx[i] += ax * push;
        dy[i] += ay * push;
        dx[j] -= ax * push;
        dy[j] -= ay * push;
      }
      dx[i] -= x[i] * 0.6; // nothing drifts away
      dy[i] -= y[i] * 0.6;
    }
    for (const [i, j] of edges) {
      if (i === j) continue;
      const [ax, ay] = [x[i] - x[j], y[i] - y[j]];
      const pull = (loose * Math.hypot(ax, ay)) / ideal;
      dx[i] -= ax * pull;
      dy[i] -= ay * pull;
      dx[j] += ax * pull;
      dy[j] += ay * pull;
    }
    for (let i = 0; i < count; i += 1) {
      const length = Math.hypot(dx[i], dy[i]) || 1;
      x[i] += (dx[i] / length) * Math.min(length, heat);
      y[i] += (dy[i] / length) * Math.min(length, heat);
    }
  }
  const [left, right, low, high] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
  const place = (index) => ({
    x: 40 + ((x[index] - left) / (right - left || 1)) * (WIDTH - 80),
    y: 36 + ((y[index] - low) / (high - low || 1)) * (height - 72),
  });
  return { width: WIDTH, height, place };
}
