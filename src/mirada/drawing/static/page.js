"use strict";

// A chart: the values nearest to the pointer are written into the legend. All numbers are read from the folded table.
for (const figure of document.querySelectorAll(".chart")) {
  const picture = figure.querySelector("svg[role=img]");
  if (!picture) continue;
  const cross = picture.querySelector(".cross");
  const legend = figure.querySelector(".legend");
  const slots = [...figure.querySelectorAll(".now")];
  const resting = slots.map((slot) => slot.textContent);
  const unit = figure.querySelector("thead th").textContent;
  const rows = [...figure.querySelectorAll("tr[data-x]")].map((row) => ({
    place: Number(row.dataset.x),
    step: row.cells[0].textContent,
    values: [...row.cells].slice(1).map((cell) => cell.textContent),
  }));
  const curves = slots.map((_, index) => rows.filter((row) => /\d/.test(row.values[index])));
  const nearest = (candidates, place) =>
    candidates.reduce((best, row) => (Math.abs(row.place - place) < Math.abs(best.place - place) ? row : best));

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * picture.viewBox.baseVal.width;
    const at = nearest(rows, place);
    cross.setAttribute("x1", at.place);
    cross.setAttribute("x2", at.place);
    if (!figure.classList.contains("hovered")) {
      // the texts get shorter: the picture must not move under the pointer
      legend.style.minHeight = `${legend.offsetHeight}px`;
      figure.classList.add("hovered");
    }
    slots.forEach((slot, index) => {
      if (!curves[index].length) return;
      const row = nearest(curves[index], place);
      slot.textContent = `${row.values[index]} at ${unit} ${row.step}`;
    });
  });
  picture.addEventListener("pointerleave", () => {
    figure.classList.remove("hovered");
    legend.style.removeProperty("min-height");
    slots.forEach((slot, index) => (slot.textContent = resting[index]));
  });
}

// Heat over a picture: the weight under the pointer is written below its panel. The folded text has the weights.
for (const figure of document.querySelectorAll(".picture-heat")) {
  const grids = [...figure.querySelectorAll("pre.weights")].map((text) =>
    text.textContent.split("\n").map((row) => row.split(" ")),
  );
  [...figure.querySelectorAll(".view.weighted")].forEach((view, index) => {
    const grid = grids[index];
    const caption = view.parentElement.querySelector(".at");
    const resting = caption.textContent;
    const cell = (part, count) => Math.min(Math.max(Math.floor(part * count), 0), count - 1);
    view.removeAttribute("title"); // it would cover what it says
    view.addEventListener("pointermove", (event) => {
      const box = view.getBoundingClientRect();
      const row = cell((event.clientY - box.top) / box.height, grid.length);
      const column = cell((event.clientX - box.left) / box.width, grid[0].length);
      caption.textContent = `${grid[row][column]} at row ${row + 1}, column ${column + 1}`;
    });
    view.addEventListener("pointerleave", () => (caption.textContent = resting));
  });
}

for (const section of document.querySelectorAll("section:has(.aligned)")) {
  section.querySelector(".looked").append(" Point at a word or a cell, or go from word to word with the arrow keys.");
}

// An alignment: pointing at a token colors the tokens of the other text by weight. The table of the map has the weights.
for (const figure of document.querySelectorAll(".aligned")) {
  const texts = {
    source: [...figure.querySelectorAll(".source .token")],
    written: [...figure.querySelectorAll(".written .token")],
  };
  const rows = [...figure.querySelectorAll("tbody tr")];
  const heads = [...figure.querySelectorAll("thead th")];
  const cells = rows.map((row) => [...row.querySelectorAll("td")]);
  const readout = figure.querySelector(".readout");

  const share = (cell) => Number(cell.style.getPropertyValue("--w"));
  const clear = () => {
    for (const token of [...texts.source, ...texts.written]) {
      token.style.removeProperty("--w");
      token.classList.remove("chosen", "strong", "negative");
    }
    for (const element of [...rows, ...heads]) element.classList.remove("chosen");
    readout.textContent = "";
  };
  const choose = (side, index) => {
    clear();
    const other = side === "written" ? texts.source : texts.written;
    const line = side === "written" ? cells[index] : cells.map((row) => row[index]);
    texts[side][index].classList.add("chosen");
    (side === "written" ? rows : heads)[index].classList.add("chosen");
    line.forEach((cell, place) => {
      other[place].style.setProperty("--w", share(cell));
      for (const kind of ["strong", "negative"]) other[place].classList.toggle(kind, cell.classList.contains(kind));
    });
    const strongest = [...line.keys()].sort((a, b) => share(line[b]) - share(line[a])).slice(0, 4);
    const named = strongest.map((place) => `${other[place].textContent} ${line[place].title.split(": ").pop()}`);
    const verb = side === "written" ? "looked at" : "was looked at by";
    readout.textContent = `${texts[side][index].textContent} ${verb}: ${named.join(", ")}`;
  };

  for (const side of ["source", "written"]) {
    texts[side].forEach((token, index) => {
      token.setAttribute("role", "button");
      token.tabIndex = index ? -1 : 0;
      token.addEventListener("pointerenter", () => choose(side, index));
      token.addEventListener("focus", () => choose(side, index));
      token.addEventListener("click", () => token.focus());
      token.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const next = texts[side][index + move];
        if (!next) return;
        event.preventDefault();
        token.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      });
    });
  }
  figure.querySelector("tbody").addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    choose("written", cell.parentElement.sectionRowIndex);
    heads[cell.cellIndex - 1].classList.add("chosen");
    readout.textContent = cell.title;
  });
  figure.addEventListener("pointerleave", () => {
    const focused = figure.querySelector(".token:focus");
    if (!focused) return clear();
    const side = texts.source.includes(focused) ? "source" : "written";
    choose(side, texts[side].indexOf(focused));
  });
  figure.addEventListener("focusout", clear);
}
