// Charts with readable points. The server draws them; in <figure data-chart> this script adds:
//   - a box at the pointer with the figures of the point, from the table behind the chart, and what happened then
//   - one line through all charts of the page at the same instant, also through drawings with data-over="id of a chart"
//   - buttons in the legend that hide a layer, after which the other layers are drawn anew to their own scale
//   - ticks at round times in the viewer's zone
// A click shows the requests of a point (data-moments), a drag zooms (data-zoom): both are addresses with from and to,
// which are replaced. By keyboard the plot is a slider: arrow keys choose a point, with Shift a range, and Enter does
// what a click or a drag does.
(() => {
  "use strict";

  const width = 600, height = 160, top = 4; // of a drawn chart, in its own units
  const day = 86400000;
  const cells = (figure) => figure.querySelector("[data-rows]").rows;
  const startOf = (row) => row.cells[0].textContent.trim();
  const make = (name, attributes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };

  // The range of a chart in ms.
  function range(figure) {
    const rows = cells(figure);
    return rows.length === 0 ? null :
      [Number(rows[0].dataset.at), Number(rows[rows.length - 1].dataset.at) + Number(figure.dataset.width)];
  }

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
      if (at >= start && at < end) return text;
      const lasts = at < start && Number(m.dataset.until) > start;
      return lasts ? "since " + m.querySelector("time").textContent.trim() + ": " + text : "";
    };
    return [...figure.querySelectorAll("[data-mark]")].map(words).filter(Boolean);
  }

  // The layers of a chart: their entry of the legend, whether they are hidden, and what a row says of them.
  function layers(figure) {
    return [...figure.querySelectorAll(".legend [data-layer]")].map((key, i) => ({
      key, name: key.dataset.layer, hidden: key.getAttribute("aria-pressed") === "false",
      path: figure.querySelector(`.plot [data-of="${key.dataset.layer}"]`), cell: (row) => row.cells[i + 1],
      count: (row) => Number.parseInt(row.cells[i + 1].textContent.replaceAll(",", ""), 10),
    }));
  }

  function words(figure, i) {
    const row = cells(figure)[i];
    if (!row) return "";
    const shown = layers(figure).filter((l) => !l.hidden).map((l) => l.cell(row));
    const figures = shown.some((c) => c.dataset.rate) ? shown.map((c) => {
      const rate = c.dataset.rate ? ", " + c.dataset.rate : "";
      return c.textContent.trim() + " " + c.dataset.label.toLowerCase() + rate;
    }) : ["not known"];
    return [startOf(row) + ": " + figures.join("; "), ...marks(figure, row)].join("; ");
  }

  // The figures of a point as lines of the box. All of it is text that the server wrote.
  function fill(box, figure, i) {
    const row = cells(figure)[i];
    const line = (kind, ...texts) => {
      const p = document.createElement("p");
      p.className = kind;
      for (const t of texts) p.append(Object.assign(document.createElement("span"), t));
      return p;
    };
    const lines = [line("", { textContent: startOf(row), className: "when" })];
    for (const l of layers(figure)) {
      const c = l.cell(row);
      if (l.hidden) continue;
      const known = c.dataset.rate;
      lines.push(line("of", { textContent: c.dataset.label, className: l.key.className },
        { textContent: known || "not known", className: "rate" },
        { textContent: known ? c.textContent.trim() : "", className: "count" }));
    }
    for (const m of marks(figure, row)) lines.push(line("happened", { textContent: m }));
    box.replaceChildren(...lines);
  }

  // Puts the box beside a place of the plot, in px, within the plot.
  function put(box, plot, x, y) {
    const [w, h] = [plot.clientWidth, plot.clientHeight];
    box.style.maxWidth = Math.min(300, w) + "px";
    const [bw, bh] = [box.offsetWidth, box.offsetHeight], gap = 14;
    const left = x + gap + bw <= w ? x + gap : x - gap - bw;
    box.style.left = Math.max(0, Math.min(w - bw, left)) + "px";
    box.style.top = Math.max(0, Math.min(h - bh, y - bh / 2)) + "px";
  }

  // One line at an instant through all drawings of the page; null for none.
  function cross(instant) {
    for (const over of document.querySelectorAll("[data-plot], [data-over]")) {
      const figure = over.closest("figure[data-chart]") ?? document.getElementById(over.dataset.over);
      const span = figure && range(figure);
      let line = over.querySelector(":scope > .cross");
      if (!line) {
        line = make("svg", { class: "cross", "aria-hidden": "true" });
        line.append(make("line", { y1: 0, y2: "100%" }));
        over.append(line);
      }
      const part = instant === null || !span ? -1 : (instant - span[0]) / (span[1] - span[0]);
      line.toggleAttribute("hidden", part < 0 || part > 1);
      for (const x of ["x1", "x2"]) line.firstElementChild.setAttribute(x, 100 * part + "%");
    }
  }

  // Round values from 0 on, on which most fits, as the server chooses them (view/axis.go).
  function values(most) {
    if (!(most > 0)) most = 1;
    const power = Math.floor(Math.log10(most / 5));
    for (const factor of [1, 2, 5, 10, 20]) {
      const value = (i) => power < 0 ? i * factor / 10 ** -power : i * factor * 10 ** power;
      const n = Math.ceil(most / value(1) - 1e-9);
      if (n <= 5) return Array.from({ length: n + 1 }, (_, i) => value(i));
    }
  }

  // Draws the layers that are not hidden, to their own scale.
  function draw(figure) {
    const rows = [...cells(figure)], all = layers(figure), seconds = Number(figure.dataset.width) / 1000;
    const bars = all.filter((l) => !l.hidden && l.name !== "before" && !l.path.hasAttribute("data-strip"));
    const before = all.find((l) => l.name === "before");
    const known = (n) => Number.isNaN(n) ? 0 : n;
    const sums = rows.map((r) => bars.reduce((sum, l) => sum + known(l.count(r)), 0));
    if (before && !before.hidden) sums.push(...rows.map((r) => known(before.count(r))));
    const axis = values(Math.max(0, ...sums) / seconds);
    const up = (n) => n / seconds / axis.at(-1) * (height - top);
    const w = width / Math.max(1, rows.length), gap = Math.min(1, w / 5);
    const one = (n) => n.toFixed(1);
    const base = rows.map(() => 0);
    for (const l of all) {
      l.path.toggleAttribute("hidden", l.hidden);
      if (!bars.includes(l)) continue;
      l.path.setAttribute("d", rows.map((r, i) => {
        const n = l.count(r);
        if (!(n > 0)) return "";
        const path = `M${one(i * w + gap / 2)} ${one(height - up(base[i]))}h${one(w - gap)}v-${one(Math.max(up(n), .5))}h-${one(w - gap)}z`;
        base[i] += n;
        return path;
      }).join(""));
    }
    if (before && !before.hidden) {
      let pen = "M";
      before.path.setAttribute("d", rows.map((r, i) => {
        const n = before.count(r);
        if (Number.isNaN(n)) return (pen = "M") && "";
        const path = pen + one((i + .5) * w) + " " + one(height - up(n));
        pen = "L";
        return path;
      }).join(""));
    }
    const y = (v) => height - v / axis.at(-1) * (height - top);
    figure.querySelector(".plot .grid").setAttribute("d", axis.map((v) => `M0 ${one(y(v))}H${width}`).join(""));
    figure.querySelector(".axis-y").replaceChildren(...axis.map((v) => {
      const text = make("text", { x: "100%", y: one(100 * y(v) / height) + "%" });
      text.textContent = v.toLocaleString("en-US", { maximumFractionDigits: 12 }) + "/s";
      return text;
    }));
  }

  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

  // The instants between two at which clocks of the viewer show multiples of a step, in ms.
  function round(from, to, step) {
    const out = [], first = new Date(from);
    for (let d = 0; ; d++) {
      const [y, m, on] = [first.getFullYear(), first.getMonth(), first.getDate() + d];
      const midnight = new Date(y, m, on);
      if (midnight > to) return out;
      const days = Date.UTC(y, m, on) / day + 719162; // since the Monday from which the server counts
      if (step >= day && days % (step / day) !== 0) continue;
      for (let s = 0; s < day; s += step) {
        const t = new Date(y, m, on, 0, 0, s / 1000);
        if (t.getTime() >= from && t.getTime() <= to && t.getDate() === midnight.getDate()) out.push(t);
      }
    }
  }

  // Moves the ticks to round times of the viewer, and leaves out the labels without room.
  function ticks(figure) {
    const axis = figure.querySelector(".axis-x"), span = range(figure), step = Number(axis.dataset.step);
    if (!span) return;
    if (step) {
      const list = round(...span, step);
      const dated = list.some((t) => t.getHours() + t.getMinutes() + t.getSeconds() === 0) ||
        new Date(span[0]).toDateString() === new Date().toDateString();
      axis.replaceChildren(...list.flatMap((t, i) => {
        const part = (t - span[0]) / (span[1] - span[0]);
        const x = 100 * part + "%";
        const text = make("text", { x, y: 16, class: part < .04 ? "start" : part > .96 ? "end" : "middle" });
        const midnight = t.getHours() + t.getMinutes() + t.getSeconds() === 0;
        text.textContent = midnight ? date.format(t) : (step < 60000 ? exact : clock).format(t);
        if (!dated && i === 0) text.textContent = date.format(t) + ", " + text.textContent;
        return [make("line", { x1: x, x2: x, y2: 4 }), text];
      }));
    }
    const texts = [...axis.querySelectorAll("text")];
    for (const text of texts) text.classList.remove("odd", "crowded");
    const boxes = texts.map((text) => text.getBoundingClientRect());
    let every = 1; // label
    const close = (_, i) => i >= every && i % every === 0 && boxes[i].left < boxes[i - every].right + 10;
    while (every < texts.length && texts.some(close)) every++;
    texts.forEach((text, i) => text.classList.toggle("crowded", i % every !== 0));
  }

  function legend(figure, dress) {
    for (const key of figure.querySelectorAll(".legend [data-layer]")) {
      const button = document.createElement("button");
      for (const { name, value } of key.attributes) button.setAttribute(name, value);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.title = "Show or hide";
      button.textContent = key.textContent;
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
        figure.dataset.redrawn = "";
        dress();
      });
      key.replaceWith(button);
    }
  }

  function follow(figure) {
    const plot = figure.querySelector("[data-plot]"), box = figure.querySelector("[data-point]");
    const brush = plot.querySelector(".brush");
    const rect = brush.firstElementChild;
    let from = null, pointed = null;

    // Shows a point: at the pointer, or for the keyboard in its middle.
    function show(i, x, y) {
      const n = cells(figure).length;
      if (n === 0) return;
      fill(box, figure, i);
      box.hidden = false;
      const middle = (i + .5) / n;
      put(box, plot, x ?? middle * plot.clientWidth, y ?? plot.clientHeight / 2);
      cross(Number(cells(figure)[i].dataset.at) + Number(figure.dataset.width) / 2);
    }

    function hide() {
      pointed = null;
      box.hidden = true;
      cross(null);
    }

    function point(e) {
      pointed = e;
      const place = plot.getBoundingClientRect();
      show(at(figure, plot, e.clientX), e.clientX - place.left, e.clientY - place.top);
    }

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
      const to = a !== b ? figure.dataset.zoom : figure.dataset.moments;
      if (to) location.assign(between(to, start, end));
    }

    // What the server drew anew is written for the viewer before it is painted.
    function dress() {
      if ("redrawn" in figure.dataset) draw(figure);
      ticks(figure);
      if (pointed) point(pointed);
      changes.takeRecords();
    }
    const changes = new MutationObserver(dress);

    plot.addEventListener("pointermove", (e) => {
      if (cells(figure).length === 0) return;
      point(e);
      if (from !== null && figure.dataset.zoom) paint(from, at(figure, plot, e.clientX));
    });
    plot.addEventListener("pointerleave", (e) => { if (e.pointerType !== "touch") hide(); });
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || cells(figure).length === 0) return;
      if (e.pointerType === "touch") return point(e);
      from = at(figure, plot, e.clientX);
      plot.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    plot.addEventListener("pointercancel", () => { stop(); hide(); });
    plot.addEventListener("pointerup", (e) => {
      if (from === null) return;
      const a = from;
      stop();
      go(a, at(figure, plot, e.clientX));
    });
    document.addEventListener("pointerdown", (e) => { if (pointed && !plot.contains(e.target)) hide(); });
    document.addEventListener("keydown", (e) => { if (e.key === "Escape") { stop(); hide(); } });
    legend(figure, dress);
    byKeyboard(figure, plot, { paint, stop, go, show, hide });
    dress();
    changes.observe(figure.querySelector(".graph-drawn"), { childList: true, subtree: true, characterData: true, attributes: true });
    new ResizeObserver(dress).observe(plot);
  }

  // The points that are chosen by keyboard are known by their start, because a live chart moves on.
  function byKeyboard(figure, plot, { paint, stop, go, show, hide }) {
    const hint = figure.querySelector("[data-keys]");
    let here = null, other = null;

    const find = (start) => [...cells(figure)].findIndex((row) => Number(row.dataset.at) >= start);
    const instant = (i) => Number(cells(figure)[i].dataset.at);
    const last = () => cells(figure).length - 1;
    const place = (start) => { const i = start === null ? -1 : find(start); return i < 0 ? last() : i; };

    function choose() {
      const [a, b] = [place(other ?? here), place(here)];
      const rows = cells(figure);
      const text = a === b ? words(figure, b) : "From " + startOf(rows[Math.min(a, b)]) + " to the end of " +
        startOf(rows[Math.max(a, b)]);
      paint(a, b, true);
      show(b);
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

    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible") && last() >= 0) choose(); });
    plot.addEventListener("blur", () => {
      other = null;
      hint.hidden = true;
      stop();
      hide();
    });
    plot.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || last() < 0) return;
      const i = place(here), page = Math.max(1, Math.round(last() / 10));
      const to = { ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageDown: i - page,
        PageUp: i + page, Home: 0, End: last() }[e.key];
      if (to !== undefined) {
        other = e.shiftKey && figure.dataset.zoom ? other ?? instant(i) : null;
        here = instant(Math.max(0, Math.min(last(), to)));
        choose();
      } else if (e.key === "Enter") {
        go(place(other ?? here), i);
      } else if (e.key === "Escape") {
        other = null;
        choose();
        e.stopPropagation();
      } else {
        return;
      }
      e.preventDefault();
    });
  }

  document.querySelectorAll("figure[data-chart]").forEach(follow);
})();
