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
