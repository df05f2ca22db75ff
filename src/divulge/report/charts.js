"use strict";
// Draws every specification of the page. Colours are CSS variables, so that dark mode and print need no redrawing.
(() => {
  const look = LOOK;  // charts.json, which figures in files share
  const series = look.range.category;

  const labels = (node) => {
    if (Array.isArray(node)) return node.flatMap(labels);
    if (node === null || typeof node !== "object") return [];
    if (node.domain && typeof node.domain[0] === "string") return node.domain;
    return Object.keys(node).flatMap((key) => key === "data" ? [] : labels(node[key]));
  };
  // As many columns of the legend as its longest label leaves room for.
  const columns = (width, names) =>
    Math.max(1, Math.floor(width / (60 + 6.8 * Math.max(0, ...names.map((name) => name.length)))));

  const config = (width, count) => ({
    ...look,
    axis: { ...look.axis, labelLimit: Math.min(220, width * 0.32) },
    axisX: { tickCount: Math.max(3, Math.round(width / 90)) },
    legend: { ...look.legend, columns: count, labelLimit: width - 60 },
  });

  const dashes = ["", "6 3", "2 2", "10 3 2 3", "10 4", "4 1 1 1", "1 3", "14 3 2 3 2 3"];
  const shapes = [
    "M20 7A5 5 0 1 1 10 7A5 5 0 1 1 20 7", "M15 1L20 7L15 13L10 7Z", "M10.5 2.5H19.5V11.5H10.5Z", "M15 2L20 12H10Z",
    "M13 2H17V5H20V9H17V12H13V9H10V5H13Z", "M15 12L20 2H10Z", "M20 7L10 12V2Z", "M10 7L20 12V2Z",
  ];
  const element = (name, attributes, ...children) => {
    const made = ["svg", "path"].includes(name)
      ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, content] of Object.entries(attributes)) made.setAttribute(key, content);
    made.append(...children);
    return made;
  };
  // The legend of a chart whose series can be hidden, and which shows the band of one of them.
  const turn = (i) => (i + Math.floor(i / 8)) % 8;  // as the charts do, so that a colour that comes again has another mark
  const seriesOf = (figure, focus, dashed) => {
    const boxes = figure.names.map((name, i) => {
      const mark = dashed
        ? { d: "M1 7H29", stroke: series[i % 8], "stroke-width": 2.4, "stroke-dasharray": dashes[turn(i)] }
        : { d: shapes[turn(i)], fill: series[i % 8] };
      const box = element("input", { type: "checkbox", checked: "" });
      const label = element("label", {}, box, element("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" }, element("path", mark)), name);
      return { name, box, label };
    });
    const chosen = element("select", {}, ...figure.names.map((name) => element("option", {}, name)));
    chosen.value = focus;
    const follow = figure.follow = () => {
      for (const { box, label } of boxes) label.classList.toggle("off", !box.checked);
      return figure.drawn?.view.signal("focus", chosen.value)
        .signal("hidden", boxes.filter(({ box }) => !box.checked).map(({ name }) => name)).runAsync();
    };
    const legend = element("fieldset", { class: "series", "aria-label": "What is shown" },
      ...boxes.map(({ label }) => label), element("label", { class: "band" }, "interval of ", chosen));
    legend.addEventListener("change", follow);
    figure.querySelector(".plot").before(legend);
  };

  const draw = async (figure) => {
    figure.begun = true;
    const plot = figure.querySelector(".plot");
    const width = plot.clientWidth;
    const spec = JSON.parse(figure.querySelector(".spec").textContent);
    // Vega renames the element it draws in; one of its own leaves the description of the plot alone.
    const place = plot.querySelector(".place") ?? document.createElement("div");
    place.className = "place";
    plot.replaceChildren(place);
    try {
      figure.drawn?.finalize();
      figure.names = [...new Set(labels(spec))];
      const focus = spec.params?.find((one) => one.name === "focus");
      if (focus && figure.names.length > 1 && !figure.querySelector(".series")) seriesOf(figure, focus.value, JSON.stringify(spec.layer).includes("strokeDash\":{\"field"));
      figure.columns = columns(width, figure.names);
      figure.drawn = await vegaEmbed(place, spec, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
        tooltip: { disableDefaultStyle: true }, config: config(width, figure.columns),
      });
      if (focus) await figure.follow?.();
    } catch (error) {
      plot.textContent = "This chart could not be drawn; its figures are in the table below.";
      console.error(error);
    }
  };

  const figures = [...document.querySelectorAll("figure.chart")];
  const all = async (chosen) => { for (const figure of chosen) await draw(figure); };
  // Vega follows the width by itself; only the layout of the legend must be asked for anew.
  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => all(figures.filter((figure) => figure.drawn &&
      columns(figure.querySelector(".plot").clientWidth, figure.names) !== figure.columns)), 150);
  });
  const folded = (figure) => figure.closest("details:not([open])");
  for (const fold of document.querySelectorAll("details.fold")) {
    fold.addEventListener("toggle", () => {
      if (fold.open) all(figures.filter((figure) => fold.contains(figure) && !figure.begun && !folded(figure)));
    });
  }
  all(figures.filter((figure) => !folded(figure))).then(() => {
    document.documentElement.dataset.drawn = "yes";
    // What is folded is opened for paper, too late to draw anything: browsers that lay it out have it drawn before.
    return all(figures.filter((figure) => !figure.begun && figure.querySelector(".plot").clientWidth));
  });
})();
