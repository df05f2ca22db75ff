"use strict";
// Tables that sort, sliders, and all that is folded opened for paper.
(() => {
  const value = (cell) => {
    const number = /[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?/i.exec(cell);
    return number ? Number(number[0].replace(/,/g, "").replace("−", "-")) : Number.NEGATIVE_INFINITY;
  };

  const sort = (table, column, down) => {
    const rows = [...table.tBodies[0].rows], cell = (row) => row.cells[column].textContent.trim();
    const numeric = table.tHead.rows[0].cells[column].classList.contains("number")
      || rows.every((row) => /^([-−+≥≤\d]|–|$)/.test(cell(row)));
    const by = numeric ? (a, b) => value(cell(a)) - value(cell(b)) : (a, b) => cell(a).localeCompare(cell(b));
    rows.sort((a, b) => (down ? -1 : 1) * by(a, b)).forEach((row) => table.tBodies[0].append(row));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = "↕";
      button.setAttribute("aria-label", `Sort by ${head.textContent}`);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
      head.append("\u00a0", button);
    });
  }

  document.querySelectorAll(".stops").forEach((list, number) => {
    const stops = [...list.children], figure = list.closest("figure");
    const holder = document.createElement("div"), label = document.createElement("label");
    const input = document.createElement("input"), shown = document.createElement("output");
    holder.className = "slider";
    label.textContent = list.dataset.label;
    input.type = "range";
    input.id = label.htmlFor = `slider-${number}`;
    Object.assign(input, { min: 0, max: stops.length - 1, step: 1 });
    input.value = list.dataset.start;
    const show = () => {
      const chosen = stops[input.valueAsNumber];
      for (const stop of stops) stop.classList.toggle("chosen", stop === chosen);
      shown.textContent = chosen.dataset.label;
      input.setAttribute("aria-valuetext", `${chosen.dataset.label}: ${chosen.querySelector(".said").textContent}`);
    };
    input.addEventListener("input", show);
    holder.append(label, input, shown);
    list.before(holder);
    figure.classList.add("live");
    show();
  });

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.fold:not([open])")];
    for (const fold of opened) fold.open = true;
  });
  window.addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });
})();
