// Charts with readable points: draws <figure data-chart="id"> with uPlot from the table with that id, and again when the
// table changes. Labels and colors are those of the legend.
(() => {
  "use strict";

  // As the server writes them: a comma between thousands.
  const number = { format: (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",") };
  const digits = (text) => Number(text.replace(/[^\d-]/g, ""));

  const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });

  function times(u, at, axis, space, step) {
    return at.map((t) => {
      const d = new Date(t * 1000);
      if (step >= 86400 || step >= 3600 && d.getHours() === 0) return day.format(d);
      return (step < 60 ? second : hour).format(d);
    });
  }

  function read(table, keys) {
    const rows = [...table.tBodies[0].rows];
    return [rows.map((r) => Number(r.dataset.at)), ...keys.map((k, n) => rows.map((r) => digits(r.cells[n + 1]?.textContent ?? "0")))];
  }

  const drawn = new Map(); // functions that remove each chart

  function draw(figure) {
    const table = document.getElementById(figure.dataset.chart);
    const plot = figure.querySelector(".graph");
    if (!table || !plot) return;
    drawn.get(figure)?.();
    const keys = [...figure.querySelectorAll("[data-line]")];
    const muted = getComputedStyle(figure.querySelector(".legend .muted")).color;
    const grid = getComputedStyle(plot).borderTopColor;
    const font = "11px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: muted, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const box = document.createElement("div");
    box.className = "uplot-box";
    const chart = new uPlot({
      width: plot.clientWidth, height: plot.clientHeight, legend: { show: false }, padding: [8, 30, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (u, min, max) => [0, Math.max(1, max * 1.05)] } },
      axes: [{ ...axis, space: 64, size: 30, values: times }, { ...axis, size: 56, space: 34, values: (u, all) => all.map((v) => (v % 1 ? "" : number.format(v))) }],
      series: [{}, ...keys.map((k) => {
        const ink = getComputedStyle(k, "::before").backgroundColor;
        return { label: k.textContent, stroke: ink, width: 1.5, points: { show: false }, fill: k.matches(".good") ? ink.replace(/^rgb\(([^)]*)\)$/, "rgba($1, .1)") : undefined };
      })],
      hooks: { setCursor: [(u) => tell(u)] },
    }, read(table, keys), box);
    const sum = figure.querySelector(".graph-sum > :not([data-point])");
    const point = figure.querySelector("[data-point]");
    function tell(u) {
      const i = u.cursor.idx;
      const row = i == null ? undefined : table.tBodies[0].rows[i];
      sum.hidden = row !== undefined;
      point.hidden = !sum.hidden;
      if (row) {
        point.textContent = row.cells[0].textContent.trim() + ": " +
          keys.map((k, n) => number.format(u.data[n + 1][i]) + " " + k.textContent.toLowerCase()).join(", ");
      }
    }
    plot.querySelector("svg").hidden = true;
    plot.querySelector("svg").classList.add("gone");
    plot.querySelector(".graph-top")?.remove();
    plot.append(box);
    const size = new ResizeObserver(() => chart.setSize({ width: plot.clientWidth, height: plot.clientHeight }));
    size.observe(plot);
    let due = 0;
    const figures = new MutationObserver(() => {
      cancelAnimationFrame(due);
      due = requestAnimationFrame(() => {
        chart.setData(read(table, keys));
        tell(chart);
      });
    });
    figures.observe(table.tBodies[0], { childList: true, subtree: true, characterData: true });
    drawn.set(figure, () => {
      size.disconnect();
      figures.disconnect();
      cancelAnimationFrame(due);
      chart.destroy();
      box.remove();
    });
  }

  function all() { document.querySelectorAll("figure[data-chart]").forEach(draw); }
  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
