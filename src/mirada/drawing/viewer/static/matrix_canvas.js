// Drawing the matrix on a canvas: cells, hatched rows, the tokens next to them, the selection.

import { short } from "./tokens.js";

export const LABELLED = 11; // pixels of a cell from which its token can be read
const SLANTED = 17; // pixels between slanted tokens that do not touch each other
export const FONT = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';

export function drawCells(context, { plane, seen }, { left, top, cellWidth, cellHeight, palette, gain }) {
  const gap = cellWidth > 18 ? 1.5 : 0.75;
  const written = cellWidth >= 33 && cellHeight >= 19;
  const exact = written ? new Float32Array(plane.width) : null;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = FONT.replace("12px", "11px");
  for (let y = Math.floor(seen.top); y < Math.min(plane.height, seen.top + seen.rows); y += 1) {
    if (written) plane.source.fill(y, exact);
    for (let x = Math.floor(seen.left); x < Math.min(plane.width, seen.left + seen.columns); x += 1) {
      const byte = plane.bytes[y * plane.width + x];
      const shown = plane.signed ? byte : Math.min(255, byte * gain);
      const [px, py] = [left + (x - seen.left) * cellWidth, top + (y - seen.top) * cellHeight];
      context.fillStyle = palette.css(shown);
      context.beginPath();
      context.roundRect(px + gap / 2, py + gap / 2, cellWidth - gap, cellHeight - gap, Math.min(5, cellWidth / 6));
      context.fill();
      if (written && Math.abs(exact[x]) >= 0.005) {
        context.fillStyle = palette.ink(shown);
        context.fillText(exact[x].toFixed(2).replace(/^0/, ""), px + cellWidth / 2, py + cellHeight / 2 + 0.5);
      }
    }
  }
}

export function hatchBroken(context, { plane, seen }, { left, top, cellWidth, cellHeight }, color) {
  context.strokeStyle = color;
  context.lineWidth = 1.5;
  for (const y of plane.broken) {
    const py = top + (y * plane.step - seen.top) * cellHeight;
    context.beginPath();
    for (let x = -cellHeight; x < cellWidth * seen.columns; x += 8) {
      context.moveTo(left + x, py + cellHeight * plane.step);
      context.lineTo(left + x + cellHeight, py);
    }
    context.stroke();
  }
  context.lineWidth = 1;
}

export function drawLabels(context, { app, seen }, { left, top, cellWidth, cellHeight, slanted }, color) {
  const { row, column } = app.state;
  context.textBaseline = "middle";
  const each = (first, count, size, chosen, draw, apart = 0) => {
    const all = size >= LABELLED;
    const stride = all ? Math.max(1, Math.ceil(apart / size)) : Math.max(1, Math.ceil(64 / size / 10) * 10);
    const last = Math.ceil(first + count);
    for (let place = Math.ceil(first); place < last; place += 1) {
      const marked = place === chosen;
      if (!marked && place % stride) continue;
      if (stride > 1 && !marked && chosen !== null && Math.abs(place - chosen) * size < Math.max(14, apart)) continue;
      context.font = marked ? `600 ${FONT}` : FONT;
      context.fillStyle = color(marked ? "--accent-ink" : "--soft");
      draw(place, all || marked);
    }
  };
  context.textAlign = "right";
  each(seen.top, seen.rows, cellHeight, row, (place, named) => {
    const text = named ? fitted(context, short(app.rowToken(place), 18), left - 8) : String(place);
    context.fillText(text, left - 7, top + (place - seen.top + 0.5) * cellHeight);
  });
  each(seen.left, seen.columns, cellWidth, column, (place, named) => {
    const x = left + (place - seen.left + 0.5) * cellWidth;
    const text = named ? fitted(context, short(app.token(app.stream.columns, place), 18), 124) : String(place);
    if (slanted && cellWidth >= LABELLED) {
      context.save();
      context.translate(x, top - 6);
      context.rotate(-Math.PI / 4);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
    } else {
      context.textAlign = "center";
      context.fillText(text, x, top - 11);
    }
  }, slanted ? SLANTED : 0);
}

export function drawMarks(context, { app, seen, hover }, { left, top, cellWidth, cellHeight }, color) {
  const wide = cellWidth * seen.columns;
  const tall = cellHeight * seen.rows;
  const { column } = app.state;
  context.lineWidth = 2;
  context.strokeStyle = color("--accent");
  for (const row of app.stream.queries ? app.chosenRows : []) {
    if (row < seen.top || row >= seen.top + seen.rows) continue;
    context.beginPath();
    context.roundRect(left - 1, top + (row - seen.top) * cellHeight - 1, wide + 2, Math.max(cellHeight, 3) + 2, 4);
    context.stroke();
  }
  if (column !== null && column >= seen.left && column < seen.left + seen.columns) {
    context.setLineDash([3, 3]);
    context.strokeRect(left + (column - seen.left) * cellWidth, top, Math.max(cellWidth, 2), tall);
    context.setLineDash([]);
  }
  if (hover) {
    context.lineWidth = 1.5;
    context.strokeStyle = color("--text");
    context.strokeRect(
      left + (hover.key - seen.left) * cellWidth,
      top + (hover.query - seen.top) * cellHeight,
      Math.max(cellWidth, 3),
      Math.max(cellHeight, 3),
    );
  }
  context.lineWidth = 1;
}

// a text that is no wider than its room
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let letters = Array.from(text);
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > width) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}
