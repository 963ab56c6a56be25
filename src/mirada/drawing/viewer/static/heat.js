// Heat over a picture: smooth, by cells, or the strongest cell alone.

import { overlay } from "./palette.js";

const loaded = new WeakMap(); // axis -> ImageBitmap, null where there is none, or a promise

// calls back with the picture of a grid, or null; at once where it is known
export function loadPicture(record, axis, use) {
  if (!loaded.has(axis)) {
    const bytes = record.picture(axis);
    loaded.set(
      axis,
      bytes ? createImageBitmap(new Blob([bytes], { type: "image/png" })).then((bitmap) => bitmap, () => null) : null,
    );
  }
  const found = loaded.get(axis);
  if (!(found instanceof Promise)) return use(found);
  found.then((bitmap) => {
    loaded.set(axis, bitmap);
    use(bitmap);
  });
}

export function paintPicture(context, { width, height, picture, axis, cells, mode = "soft", chosen = null, box = null, dark }) {
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = !picture || picture.width >= width / 3;
  context.imageSmoothingQuality = "high";
  if (picture) {
    context.save();
    // a quiet picture: what is looked at gets its light and its colors back
    if (cells) context.filter = mode === "soft" ? "grayscale(1)" : "grayscale(0.9) brightness(0.9)";
    context.drawImage(picture, 0, 0, width, height);
    context.restore();
    if (cells && mode === "soft") {
      context.fillStyle = "rgb(136 139 148 / 0.8)"; // fog that neither a light nor a dark picture hides
      context.fillRect(0, 0, width, height);
    }
  } else {
    context.fillStyle = dark ? "#20242c" : "#e9ebef";
    context.fillRect(0, 0, width, height);
  }
  const [cellWidth, cellHeight] = [width / axis.width, height / axis.height];
  if (cells) {
    let [most, best] = [1e-12, 0];
    cells.forEach((weight, place) => {
      if (weight > most) [most, best] = [weight, place];
    });
    const strongest = [(best % axis.width) * cellWidth, Math.floor(best / axis.width) * cellHeight];
    if (mode === "hard") {
      context.fillStyle = "rgb(8 10 20 / 0.62)";
      context.beginPath();
      context.rect(0, 0, width, height);
      context.rect(strongest[0], strongest[1], cellWidth, cellHeight);
      context.fill("evenodd");
    } else if (mode === "soft" && picture) context.drawImage(
      spotlight(context, { width, height, picture, axis, cells, most }),
      0,
      0,
      width,
      height,
    );
    else {
      context.imageSmoothingEnabled = mode === "soft";
      context.drawImage(heatCanvas(axis, cells, most), 0, 0, width, height);
    }
    context.lineWidth = 2;
    context.strokeStyle = "#ffffff";
    context.strokeRect(strongest[0] + 1, strongest[1] + 1, cellWidth - 2, cellHeight - 2);
  }
  if (box && picture) {
    const [sx, sy] = [width / picture.width, height / picture.height];
    context.lineWidth = 2.5;
    context.strokeStyle = "#5ff0d8";
    context.setLineDash([6, 4]);
    context.strokeRect(box[0] * sx, box[1] * sy, (box[2] - box[0]) * sx, (box[3] - box[1]) * sy);
    context.setLineDash([]);
  }
  if (chosen !== null && chosen >= 0) {
    context.lineWidth = 2.5;
    context.strokeStyle = "#ff8a4c";
    context.strokeRect(
      (chosen % axis.width) * cellWidth + 1,
      Math.floor(chosen / axis.width) * cellHeight + 1,
      cellWidth - 2,
      cellHeight - 2,
    );
  }
}

// the picture in its own colors, as visible as it is looked at
function spotlight(target, { width, height, picture, axis, cells, most }) {
  const ratio = target.getTransform().a;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.max(1, Math.round(width * ratio)), height: Math.max(1, Math.round(height * ratio)) });
  const context = canvas.getContext("2d");
  const mask = document.createElement("canvas");
  Object.assign(mask, { width: axis.width, height: axis.height });
  const small = mask.getContext("2d");
  const image = small.createImageData(axis.width, axis.height);
  cells.forEach((weight, place) => image.data.set(
    [255, 255, 255, Math.round(255 * (Math.max(0, weight / most) || 0) ** 0.75)],
    place * 4,
  ));
  small.putImageData(image, 0, 0);
  context.imageSmoothingQuality = "high";
  context.drawImage(mask, 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-in";
  context.imageSmoothingEnabled = target.imageSmoothingEnabled && picture.width >= width / 3;
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// a pixel a cell; the more weight, the lighter and the less transparent
function heatCanvas(axis, cells, most) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: axis.width, height: axis.height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(axis.width, axis.height);
  const palette = overlay();
  cells.forEach((weight, place) => {
    const share = Math.max(0, weight / most) || 0;
    const [r, g, b] = palette.colors[Math.round(255 * share)];
    image.data.set([r, g, b, Math.round(225 * Math.min(1, 0.25 + share))], place * 4);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
