// Charts with readable points: in <figure data-chart>, the point under the pointer is told in words from the table behind
// the chart. A click shows the requests of that moment (data-moments), a drag zooms (data-zoom): both are addresses with
// from and to, which are replaced.
(() => {
  "use strict";

  const cells = (figure) => figure.querySelector("[data-rows]").rows;

  // The address with other instants, in ms.
  function between(address, from, to) {
    const url = new URL(address, location.href);
    url.searchParams.set("from", new Date(from).toISOString());
    url.searchParams.set("to", new Date(to).toISOString());
    return url;
  }

  // Which point is at a place of the plot.
  function at(figure, plot, x) {
    const box = plot.getBoundingClientRect();
    const n = cells(figure).length;
    return Math.max(0, Math.min(n - 1, Math.floor((x - box.left) / box.width * n)));
  }

  function tell(figure, i) {
    const sum = figure.querySelector("[data-sum]");
    const point = figure.querySelector("[data-point]");
    const row = i == null ? undefined : cells(figure)[i];
    sum.hidden = row !== undefined;
    point.hidden = !sum.hidden;
    if (!row) return;
    const [start, ...rest] = row.cells;
    point.textContent = start.textContent.trim() + ": " +
      rest.map((c) => c.textContent.trim() + " " + c.dataset.label.toLowerCase()).join(", ");
  }

  function follow(figure) {
    const plot = figure.querySelector("[data-plot]");
    const brush = plot.querySelector(".brush");
    const rect = brush.firstElementChild;
    let from = null;

    function paint(to) {
      const n = cells(figure).length;
      const [a, b] = [Math.min(from, to), Math.max(from, to)];
      rect.setAttribute("x", 100 * a / n + "%");
      rect.setAttribute("width", 100 * (b - a + 1) / n + "%");
      brush.toggleAttribute("hidden", a === b);
    }

    function stop() {
      from = null;
      brush.setAttribute("hidden", "");
    }

    plot.addEventListener("pointermove", (e) => {
      const i = at(figure, plot, e.clientX);
      tell(figure, i);
      if (from !== null) paint(i);
    });
    plot.addEventListener("pointerleave", () => tell(figure, null));
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.pointerType === "touch" || cells(figure).length === 0) return;
      from = at(figure, plot, e.clientX);
      plot.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    plot.addEventListener("pointercancel", stop);
    plot.addEventListener("pointerup", (e) => {
      if (from === null) return;
      const to = at(figure, plot, e.clientX);
      const rows = cells(figure);
      const [a, b] = [Math.min(from, to), Math.max(from, to)];
      const start = Number(rows[a].dataset.at);
      const end = Number(rows[b].dataset.at) + Number(figure.dataset.width);
      stop();
      if (a !== b) location.assign(between(figure.dataset.zoom, start, end));
      else if (figure.dataset.moments) location.assign(between(figure.dataset.moments, start, end));
    });
    document.addEventListener("keydown", (e) => { if (e.key === "Escape") stop(); });
  }

  document.querySelectorAll("figure[data-chart]").forEach(follow);
})();
