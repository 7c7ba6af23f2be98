// Charts with readable points: in <figure data-chart>, the point under the pointer is told in words from the table
// behind the chart, with what happened in it. A click shows the requests of that moment (data-moments), a drag zooms
// (data-zoom): both are addresses with from and to, which are replaced. By keyboard the plot is a slider: arrow keys
// choose a point, with Shift a range, and Enter does what a click or a drag does.
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

  // What happened in a point, and which incidents lasted then.
  function marks(figure, row) {
    const start = Number(row.dataset.at), end = start + Number(figure.dataset.width);
    const words = (m) => {
      const at = Number(m.dataset.mark), text = m.querySelector("[data-mark-text]").textContent;
      if (at >= start && at < end) return "; " + text;
      const lasts = at < start && Number(m.dataset.until) > start;
      return lasts ? "; since " + m.querySelector("time").textContent.trim() + ": " + text : "";
    };
    return [...figure.querySelectorAll("[data-mark]")].map(words).join("");
  }

  const startOf = (row) => row.cells[0].textContent.trim();

  function words(figure, i) {
    const row = cells(figure)[i];
    if (!row) return "";
    const figures = [...row.cells].slice(1).map((c) => c.textContent.trim() + " " + c.dataset.label.toLowerCase());
    return startOf(row) + ": " + figures.join(", ") + marks(figure, row);
  }

  function tell(figure, text) {
    const sum = figure.querySelector("[data-sum]");
    const point = figure.querySelector("[data-point]");
    sum.hidden = text !== "";
    point.hidden = !sum.hidden;
    point.textContent = text;
  }

  function follow(figure) {
    const plot = figure.querySelector("[data-plot]");
    const brush = plot.querySelector(".brush");
    const rect = brush.firstElementChild;
    let from = null;

    function paint(a, b, always) {
      const n = cells(figure).length;
      [a, b] = [Math.min(a, b), Math.max(a, b)];
      rect.setAttribute("x", 100 * a / n + "%");
      rect.setAttribute("width", 100 * (b - a + 1) / n + "%");
      brush.toggleAttribute("hidden", a === b && !always);
    }

    function stop() {
      from = null;
      brush.setAttribute("hidden", "");
    }

    // A range of points zooms, a single one leads to its requests.
    function go(a, b) {
      const rows = cells(figure);
      [a, b] = [Math.min(a, b), Math.max(a, b)];
      const start = Number(rows[a].dataset.at);
      const end = Number(rows[b].dataset.at) + Number(figure.dataset.width);
      if (a !== b) location.assign(between(figure.dataset.zoom, start, end));
      else if (figure.dataset.moments) location.assign(between(figure.dataset.moments, start, end));
    }

    plot.addEventListener("pointermove", (e) => {
      const i = at(figure, plot, e.clientX);
      tell(figure, words(figure, i));
      if (from !== null) paint(from, i);
    });
    plot.addEventListener("pointerleave", () => tell(figure, ""));
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.pointerType === "touch" || cells(figure).length === 0) return;
      from = at(figure, plot, e.clientX);
      plot.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    plot.addEventListener("pointercancel", stop);
    plot.addEventListener("pointerup", (e) => {
      if (from === null) return;
      const a = from;
      stop();
      go(a, at(figure, plot, e.clientX));
    });
    document.addEventListener("keydown", (e) => { if (e.key === "Escape") stop(); });
    byKeyboard(figure, plot, { paint, stop, go });
  }

  // The points that are chosen by keyboard are known by their start, because a live chart moves on.
  function byKeyboard(figure, plot, { paint, stop, go }) {
    const hint = figure.querySelector("[data-keys]");
    let here = null, other = null;

    const find = (start) => [...cells(figure)].findIndex((row) => Number(row.dataset.at) >= start);
    const instant = (i) => Number(cells(figure)[i].dataset.at);
    const last = () => cells(figure).length - 1;
    const place = (start) => { const i = start === null ? -1 : find(start); return i < 0 ? last() : i; };

    function show() {
      const [a, b] = [place(other ?? here), place(here)];
      const rows = cells(figure);
      const text = a === b ? words(figure, b) : "From " + startOf(rows[Math.min(a, b)]) + " to the end of " +
        startOf(rows[Math.max(a, b)]);
      paint(a, b, true);
      tell(figure, text);
      hint.hidden = false;
      plot.setAttribute("aria-valuemax", last() + 1);
      plot.setAttribute("aria-valuenow", b + 1);
      plot.setAttribute("aria-valuetext", text);
    }

    plot.tabIndex = 0;
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-label", "Point of the chart");
    plot.setAttribute("aria-valuemin", "1");
    plot.setAttribute("aria-valuemax", last() + 1);
    plot.setAttribute("aria-valuenow", last() + 1);
    plot.setAttribute("aria-valuetext", words(figure, last()));
    hint.id = figure.id + "-keys";
    plot.setAttribute("aria-describedby", hint.id);

    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible") && last() >= 0) show(); });
    plot.addEventListener("blur", () => {
      other = null;
      hint.hidden = true;
      stop();
      tell(figure, "");
    });
    plot.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || last() < 0) return;
      const i = place(here), page = Math.max(1, Math.round(last() / 10));
      const to = { ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageDown: i - page,
        PageUp: i + page, Home: 0, End: last() }[e.key];
      if (to !== undefined) {
        other = e.shiftKey ? other ?? instant(i) : null;
        here = instant(Math.max(0, Math.min(last(), to)));
        show();
      } else if (e.key === "Enter") {
        go(place(other ?? here), i);
      } else if (e.key === "Escape") {
        other = null;
        show();
        e.stopPropagation();
      } else {
        return;
      }
      e.preventDefault();
    });
  }

  document.querySelectorAll("figure[data-chart]").forEach(follow);
})();
