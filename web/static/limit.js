// The line of the limit in the editor of a rule: it follows the field for the limit, and the field follows the line. By
// keyboard the line is a slider: arrow keys move it by a small step, PageUp and PageDown by a large one. The server draws
// the bars and says what the limit would have denied; its answers keep the line.
(() => {
  "use strict";

  const plot = document.querySelector(".clients-plot"), field = document.getElementById("f-limit");
  if (!plot || !field) return;
  const bars = document.getElementById("clients-bars"), said = document.getElementById("clients-said");
  const line = document.createElement("div");
  line.className = "limit-slider";
  line.tabIndex = 0;
  line.setAttribute("role", "slider");
  line.setAttribute("aria-label", "Limit");
  line.setAttribute("aria-valuemin", "0");
  const track = document.createElement("div");
  track.className = "limit-track";
  track.append(line);
  plot.append(track);

  const list = () => bars.querySelector("[data-top]");
  const top = () => Number(list().dataset.top);
  const limit = () => Number(field.value.replace(/[\s,_]/g, "")) || 0;
  // A small step: 1, 2 or 5 times a power of ten, about a hundredth of the axis.
  function step() {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, top() / 100)));
    return [1, 2, 5].map((n) => n * power).findLast((s) => s <= Math.max(1, top() / 100));
  }

  function show() {
    const drawn = list();
    track.hidden = !drawn;
    if (!drawn) return;
    const part = Math.min(1, limit() / top());
    line.style.left = 100 * part + "%";
    line.dataset.value = limit().toLocaleString("en-US");
    line.classList.toggle("beyond", limit() > top());
    line.classList.toggle("late", part > .8);
    for (const over of drawn.querySelectorAll(".over")) {
      const rate = Number(over.previousElementSibling.getAttribute("width"));
      over.setAttribute("x", 1000 * part);
      over.setAttribute("width", Math.max(0, rate - 1000 * part));
    }
    line.setAttribute("aria-valuemax", Math.max(top(), limit()));
    line.setAttribute("aria-valuenow", limit());
    const verdict = said.querySelector("[data-verdict]")?.textContent ?? "";
    line.setAttribute("aria-valuetext", limit().toLocaleString("en-US") + " per " + drawn.dataset.window + ". " + verdict);
    changes.takeRecords();
  }
  const changes = new MutationObserver(show);

  // The field reports the change, so that the preview follows.
  function set(value) {
    field.value = Math.max(1, Math.round(value));
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  const at = (e) => {
    const box = track.getBoundingClientRect();
    const part = Math.max(0, Math.min(1, (e.clientX - box.left) / box.width));
    return Math.round(part * top() / step()) * step();
  };
  line.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    line.setPointerCapture(e.pointerId);
    line.focus();
    e.preventDefault();
  });
  line.addEventListener("pointermove", (e) => { if (line.hasPointerCapture(e.pointerId)) set(at(e)); });
  line.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const to = { ArrowLeft: limit() - step(), ArrowDown: limit() - step(), ArrowRight: limit() + step(),
      ArrowUp: limit() + step(), PageDown: limit() - 10 * step(), PageUp: limit() + 10 * step(), Home: 1,
      End: top() }[e.key];
    if (to === undefined) return;
    set(to);
    e.preventDefault();
  });
  field.addEventListener("input", show);
  for (const part of [bars, said]) {
    changes.observe(part, { childList: true, subtree: true, characterData: true, attributes: true });
  }
  plot.classList.add("movable");
  show();
})();
