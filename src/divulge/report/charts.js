"use strict";
// Draws every specification of the page. Colours are CSS variables, so that dark mode and print need no redrawing.
(() => {
  const ink = "var(--ink)", quiet = "var(--quiet)", line = "var(--line)";
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const series = Array.from({ length: 8 }, (_, i) => `var(--series-${i + 1})`);

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
    background: null,
    font,
    padding: { left: 0, right: 16, top: 4, bottom: 0 },
    axis: {
      labelColor: quiet, titleColor: quiet, gridColor: line, domainColor: quiet, tickColor: quiet,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, titlePadding: 8,
      labelLimit: Math.min(220, width * 0.32), labelOverlap: "greedy", labelFlush: false,
    },
    axisX: { tickCount: Math.max(3, Math.round(width / 90)) },
    axisY: { tickCount: 6, domain: false, ticks: false, labelPadding: 6 },
    legend: {
      orient: "top", direction: "horizontal", columns: count, labelColor: ink, labelFontSize: 12.5,
      labelLimit: width - 60, symbolSize: 90, symbolStrokeWidth: 2, symbolOpacity: 1,
      columnPadding: 18, rowPadding: 5, offset: 12, titleColor: quiet,
    },
    view: { stroke: null },
    mark: { color: "var(--series-1)" },
    bar: { color: "var(--series-1)" },
    range: { category: series },
    rule: { color: ink },
    text: { color: quiet, fontSize: 12 },
    style: {
      reference: { color: quiet, strokeWidth: 1.2 },
      guide: { color: quiet },
      interval: { color: "var(--series-1)" },
      function: { color: quiet },
    },
  });

  const draw = async (figure) => {
    const plot = figure.querySelector(".plot");
    const width = plot.clientWidth;
    const spec = JSON.parse(figure.querySelector(".spec").textContent);
    // Vega renames the element it draws in; one of its own leaves the description of the plot alone.
    const place = plot.querySelector(".place") ?? document.createElement("div");
    place.className = "place";
    plot.replaceChildren(place);
    try {
      figure.drawn?.finalize();
      figure.names = labels(spec);
      figure.columns = columns(width, figure.names);
      figure.drawn = await vegaEmbed(place, spec, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
        tooltip: { disableDefaultStyle: true }, config: config(width, figure.columns),
      });
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
    waiting = setTimeout(() => all(figures.filter((figure) =>
      columns(figure.querySelector(".plot").clientWidth, figure.names) !== figure.columns)), 150);
  });
  all(figures).then(() => { document.documentElement.dataset.drawn = "yes"; });
})();
