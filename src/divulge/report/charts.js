"use strict";
// Draws every specification of the page. Colours are CSS variables, so that dark mode and print need no redrawing.
(() => {
  const ink = "var(--ink)", quiet = "var(--quiet)", line = "var(--line)";
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const series = Array.from({ length: 8 }, (_, i) => `var(--series-${i + 1})`);

  const config = (width) => ({
    background: null,
    font,
    padding: { left: 0, right: 8, top: 4, bottom: 0 },
    autosize: { type: "fit-x", contains: "padding" },
    axis: {
      labelColor: quiet, titleColor: quiet, gridColor: line, domainColor: quiet, tickColor: quiet,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, titlePadding: 8,
      labelLimit: Math.min(220, width * 0.32), labelOverlap: "greedy",
    },
    axisY: { domain: false, ticks: false, labelPadding: 6 },
    legend: {
      orient: "top", direction: "horizontal", columns: columns(width), labelColor: ink, labelFontSize: 12.5,
      labelLimit: Math.max(120, width / columns(width) - 44), symbolSize: 90, symbolStrokeWidth: 2, symbolOpacity: 1,
      columnPadding: 18, rowPadding: 5, offset: 12, titleColor: quiet,
    },
    view: { stroke: null },
    mark: { color: "var(--series-1)" },
    bar: { color: "var(--series-1)" },
    range: { category: series },
    style: {
      reference: { stroke: quiet, strokeWidth: 1.2 },
      guide: { fill: quiet, fontSize: 12 },
      whisker: { stroke: ink },
      function: { stroke: quiet },
    },
  });
  const columns = (width) => Math.max(1, Math.floor(width / 190));

  const draw = async (figure) => {
    const plot = figure.querySelector(".plot");
    const width = plot.clientWidth;
    const spec = JSON.parse(figure.querySelector(".spec").textContent);
    try {
      figure.drawn?.finalize();
      figure.columns = columns(width);
      figure.drawn = await vegaEmbed(plot, spec, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
        tooltip: { disableDefaultStyle: true }, config: config(width),
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
      columns(figure.querySelector(".plot").clientWidth) !== figure.columns)), 150);
  });
  all(figures).then(() => { document.documentElement.dataset.drawn = "yes"; });
})();
