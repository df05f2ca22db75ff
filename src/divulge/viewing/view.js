// The slider asks the server again, at rest: what is shown is what the library decides. Without it, the form does the same.
for (const form of document.querySelectorAll(".threshold")) {
  const level = form.elements.level, slider = form.querySelector("input[type=range]");
  const shown = document.getElementById("decision");
  slider.hidden = false;
  slider.value = Math.log10(Number(level.value));
  let waiting = 0, asked = 0;
  const ask = () => {
    const own = ++asked;
    fetch(`${form.dataset.decision}?level=${encodeURIComponent(level.value)}`, { credentials: "same-origin" })
      .then((answer) => answer.text())
      .then((text) => {
        if (own !== asked) return; // an answer to an earlier question
        const page = new DOMParser().parseFromString(text, "text/html");
        shown.replaceChildren(...(page.querySelector("main") || page.body).childNodes);
        shown.dataset.level = level.value;
      });
  };
  const later = () => { clearTimeout(waiting); waiting = setTimeout(ask, 120); };
  slider.addEventListener("input", () => { level.value = Number((10 ** Number(slider.value)).toPrecision(2)); later(); });
  level.addEventListener("input", () => { slider.value = Math.log10(Number(level.value)); later(); });
  if (level.value !== level.defaultValue) later(); // typed, or restored by the browser, before this script ran
}

// The list: rows are sorted by a press on a head and filtered while words are typed. Without a script, the form filters.
const runs = document.querySelector("table.runs");
if (runs) {
  const body = runs.tBodies[0], count = document.getElementById("count");
  const tones = ["leak", "void", "doubt", "undecided", "unproven", "plain", "clear"];
  const value = (row, at, how) => how === "tone" ? String(tones.indexOf(row.className)) : row.cells[at].innerText.trim();
  for (const head of runs.tHead.rows[0].cells) {
    if (!head.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of runs.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [value(row, head.cellIndex, head.dataset.sort), row]);
      rows.sort((a, b) => sign * a[0].localeCompare(b[0], "en", { numeric: true }));
      body.replaceChildren(...rows.map((pair) => pair[1]));
    });
  }
  const form = document.querySelector("form.filter"), total = count.textContent.replace(/^\d+ /, "");
  const filter = () => {
    const kind = form.elements.kind.value, words = form.elements.words.value.toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = (kind && row.dataset.kind !== kind) || !row.innerText.toLowerCase().includes(words);
      if (row.hidden) for (const box of row.querySelectorAll("input")) box.checked = false; // what is not seen is not compared
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} ${total}`;
  };
  form.elements.words.addEventListener("input", filter);
}
