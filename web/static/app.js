// Behavior of the console beyond plain HTML. Every page works without it. It is bound to data attributes:
//   <time datetime [data-ago]>   written in the viewer's zone, or as an age
//   <time datetime data-when>    the same in lists: of today only the time, of this year no year, the age in the title
//   <time datetime data-exact>   the same to the second
//   data-own-zone                names the viewer's zone
//   data-search                  the field that "/" goes to
//   data-submit                  a filter that is applied on selection
//   data-first                   the main form of its page, which gets the focus
//   data-goes="ms"               disappears after a time
//   data-copy="id"               a button that copies the text of an element, and says so in the element behind it
//   data-open="search"           a link to the search, which opens as a dialog instead; Ctrl K does the same
(() => {
  "use strict";

  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const brief = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  const dayThisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const sameYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const ages = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
  const steps = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [7 * 86400, "day", 86400]];

  function age(then) {
    const s = (then - Date.now()) / 1000;
    if (Math.abs(s) < 10) return "just now";
    for (const [below, unit, size] of steps) {
      if (Math.abs(s) < below) return ages.format(Math.round(s / size), unit);
    }
    return (then.getFullYear() === new Date().getFullYear() ? dayThisYear : day).format(then);
  }

  // Which of two equal times of the clock an instant is, as in " GMT+2": clocks go back soon after the first one.
  const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "shortOffset" });
  function twice(at) {
    const off = (ms) => new Date(at.getTime() + ms).getTimezoneOffset();
    const same = (ms) => { // whether clocks show the same again before or after
      const back = Math.abs(off(ms) - off(0)) * 60000 * Math.sign(ms);
      return back !== 0 && (off(back) - off(0)) * 60000 === back;
    };
    if (!same(3600000) && !same(-3600000)) return "";
    return " " + zone.formatToParts(at).find((p) => p.type === "timeZoneName").value;
  }

  function write(root) {
    for (const t of root.querySelectorAll("time[datetime]")) {
      const at = new Date(t.dateTime);
      if (isNaN(at)) continue;
      const when = t.hasAttribute("data-when");
      const now = new Date();
      const list = at.toDateString() === now.toDateString() ? clock : at.getFullYear() === now.getFullYear() ? sameYear : brief;
      const format = when ? list : t.hasAttribute("data-clock") ? clock : t.hasAttribute("data-exact") ? full : brief;
      const text = t.hasAttribute("data-ago") && !when ? age(at) : format.format(at) + twice(at);
      if (t.textContent !== text) t.textContent = text;
      const whole = full.format(at) + twice(at) + (when ? ", " + age(at) : "");
      if (t.title !== whole) t.title = whole;
    }
  }

  function typing(e) {
    return e.target.closest("input, select, textarea, [contenteditable]") || e.ctrlKey || e.metaKey || e.altKey;
  }

  // Shortcuts of a single key can be turned off, because speech input and slips of the hand set them off.
  let single = localStorage.getItem("shortcuts") !== "off";
  const choice = document.querySelector("[data-shortcuts]");
  if (choice) {
    const box = choice.querySelector("input");
    choice.hidden = false;
    box.checked = single;
    box.addEventListener("change", () => {
      single = box.checked;
      single ? localStorage.removeItem("shortcuts") : localStorage.setItem("shortcuts", "off");
    });
  }

  let last = "";
  document.addEventListener("keydown", (e) => {
    const search = document.querySelector("[data-search]");
    if (e.key === "Escape" && e.target === search) search.blur();
    if (typing(e) || !single) return;
    const before = last;
    last = e.key;
    if (e.key === "/" && search) {
      e.preventDefault();
      search.focus();
      search.select();
    } else if (e.key === "?") {
      document.getElementById("help")?.togglePopover();
    } else if (before === "g") {
      const to = { o: "/console", r: "/console/rules" }[e.key];
      if (to && document.getElementById("side")) location.assign(to);
    }
  });

  // An offer disappears when the server no longer accepts it.
  for (const e of document.querySelectorAll("[data-goes]")) setTimeout(() => e.remove(), Number(e.dataset.goes));

  // The search opens as a dialog, which is read once. Where it is the page, it gets the focus.
  async function search() {
    const box = document.getElementById("search");
    const field = () => document.getElementById("search-text");
    if (!box) return;
    if (!box.matches(":popover-open") && !document.querySelector("main #search-text")) {
      if (!field()) {
        const answer = await fetch("/console/search", { headers: { "HX-Request": "true" } }).catch(() => null);
        if (!answer?.ok || answer.headers.has("HX-Redirect")) return location.assign("/console/search");
        box.innerHTML = await answer.text();
        htmx.process(box);
      }
      document.getElementById("side").matches(":popover-open") && document.getElementById("side").hidePopover();
      box.showPopover();
    }
    field().focus();
    field().select();
  }

  document.addEventListener("click", (e) => {
    if (!e.target.closest("[data-open=search]") || e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    search();
  });

  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k" && document.getElementById("search")) {
      e.preventDefault();
      return search();
    }
    if (!e.target.closest?.("#search-form, #search-results")) return;
    const hits = [...document.querySelectorAll("#search-results a")];
    const at = hits.indexOf(document.activeElement);
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      const next = e.key === "ArrowDown" ? at + 1 : at - 1;
      (hits[next] ?? (next < 0 ? document.getElementById("search-text") : hits.at(-1)))?.focus();
    }
  });

  // Enter opens the first result. If the results are of an earlier text, it waits for those of this one.
  let sent, answered, entered;
  function enter() {
    const field = document.getElementById("search-text");
    entered = field.value !== (answered ?? field.defaultValue);
    if (!entered) document.querySelector("#search-results a")?.click();
  }
  document.addEventListener("submit", (e) => {
    if (e.target.id !== "search-form" || document.activeElement.id !== "search-text") return; // the button shows a page
    e.preventDefault();
    enter();
  });
  document.addEventListener("input", (e) => { if (e.target.id === "search-text") entered = false; });
  document.addEventListener("htmx:before:request", (e) => {
    if (e.target.id === "search-results") sent = document.getElementById("search-text").value;
  });
  document.addEventListener("htmx:after:swap", (e) => {
    if (e.target.id !== "search-results") return;
    answered = sent;
    if (entered) enter();
  });

  // An answer keeps the focus on its result. If that is found no more, the focus goes back to the field.
  let result;
  document.addEventListener("htmx:before:swap", () => {
    result = document.activeElement.closest("#search-results a")?.id;
  });
  document.addEventListener("htmx:after:swap", () => {
    if (result) (document.getElementById(result) ?? document.getElementById("search-text"))?.focus();
  });

  document.addEventListener("change", (e) => {
    if (e.target.matches("[data-submit]")) e.target.form.requestSubmit();
  });

  document.addEventListener("click", async (e) => {
    const b = e.target.closest("[data-copy]");
    if (!b) return;
    const from = document.getElementById(b.dataset.copy);
    for (const said of document.querySelectorAll(".copy output")) said.textContent = "";
    const say = (text) => { b.nextElementSibling.textContent = text; };
    try {
      await navigator.clipboard.writeText(from.textContent);
      say("Copied");
    } catch { // on plain http there is no clipboard: the text is selected, and a key copies it
      getSelection().selectAllChildren(from);
      say(/Mac|iP/.test(navigator.platform) ? "Press ⌘C" : "Press Ctrl+C");
    }
  });

  // Filters that are not set are left out of the address.
  document.addEventListener("submit", (e) => {
    if (e.target.method !== "get") return;
    for (const f of e.target.elements) if (f.name && !f.value) f.disabled = true;
    setTimeout(() => { for (const f of e.target.elements) f.disabled = false; });
  });

  // The focus starts at the first alert or field with an error. Otherwise it starts in the main form of the page, or at
  // the heading of an error page.
  function begin() {
    const seen = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
    const refused = performance.getEntriesByType("navigation")[0]?.responseStatus >= 400;
    const to = seen("main [role=alert], main [aria-invalid=true]")[0] ??
      seen("form[data-first] input:not([type=hidden], [tabindex])").find((e) => !e.value) ?? (refused && seen("main h1")[0]);
    if (to && to.tabIndex < 0) to.tabIndex = -1;
    if (to) to.focus();
  }
  if (document.activeElement === document.body && !location.hash) begin();

  for (const p of document.querySelectorAll("[data-own-zone]")) p.textContent = "Times in " + full.resolvedOptions().timeZone;
  write(document);
  setInterval(() => write(document), 15000);
  // Live updates bring new times, and reset others to the server's text. Changes arrive here together, before they are
  // painted.
  new MutationObserver(() => write(document))
    .observe(document.body, { childList: true, subtree: true, characterData: true, attributeFilter: ["datetime", "title"] });
})();
