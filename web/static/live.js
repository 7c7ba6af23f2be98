// Live pages: shows in [data-live] whether the page is up to date, and pauses it. htmx keeps the connection (hx-sse). This
// script watches it, and polls if the server has no stream left. Nothing changes in or next to an element with data-hold
// while the mouse or the focus is there.
(() => {
  "use strict";

  const box = document.querySelector("[data-live]");
  if (!box || !window.htmx) return;
  const state = box.querySelector("[data-live-state]");
  const button = box.querySelector("[data-live-pause]");
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const path = box.getAttribute("hx-sse:connect");
  const once = path + (path.includes("?") ? "&" : "?") + "once=1";
  const stale = 5000;
  const pollEvery = 5; // seconds
  const streamEvery = 15; // seconds until a stream is requested again
  const loaded = Date.now();
  let last = 0;
  let seconds = 0;
  let streamed = false; // htmx reconnects a stream
  let paused = false;
  let over = false; // the mouse is over an element with data-hold
  let held = false;
  let missed = false; // an update arrived while nothing was to change
  let ended = false;

  function say(kind, text) {
    if (box.dataset.state !== kind) box.dataset.state = kind;
    if (state.textContent !== text) state.textContent = text;
  }

  // partial is the server's warning about metrics that are not current or not of all nodes.
  function partial() { return document.querySelector("#live-notes [data-partial]")?.dataset.partial; }

  function show() {
    const at = clock.format(last || loaded);
    if (ended) say("stale", "Signed out. Reload the page.");
    else if (paused) say("paused", "Paused at " + at);
    else if (last === 0 && Date.now() - loaded < stale) say("waiting", "Connecting");
    else if (last === 0) say("stale", "No live data; as of " + clock.format(loaded));
    else if (Date.now() - last > (streamed ? stale : 3 * stale)) say("stale", "No update since " + at);
    else if (held) say("paused", "Paused while you are in the list");
    else if (partial()) say("stale", partial());
    else say("live", streamed ? "Live" : "Updated every " + pollEvery + " seconds");
    button.hidden = ended;
    for (const s of button.children) s.hidden = (s.dataset.when === "paused") !== paused;
  }

  // poll requests what a stream would send, and from time to time a stream.
  function poll() {
    seconds++;
    if (streamed || ended || paused || document.hidden || seconds % pollEvery) return;
    ask(seconds % streamEvery ? once : path);
  }

  function ask(from) { htmx.ajax("GET", from, { source: box }).catch(() => {}); }

  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", paused);
    show();
  });
  document.addEventListener("pointermove", (e) => { over = e.pointerType === "mouse" && e.target.closest?.("[data-hold]") != null; });
  document.documentElement.addEventListener("pointerleave", () => { over = false; });
  box.addEventListener("htmx:sse:before:message", (e) => {
    if (e.detail.message?.event) return;
    held = over || document.activeElement?.closest("[data-hold]") != null;
    if (!paused) last = Date.now();
    if (paused || held) {
      e.preventDefault();
      if (e.detail.message?.data) missed = true;
      show();
    } else if (missed) {
      missed = false;
      ask(once); // the server does not repeat itself
    }
  });
  box.addEventListener("htmx:sse:after:connection", () => { streamed = true; });
  box.addEventListener("htmx:after:request", (e) => {
    if (e.target === box && e.detail.ctx.response.status === 200) last = Date.now();
  });
  box.addEventListener("htmx:sse:after:message", show);
  box.addEventListener("ended", () => {
    ended = true;
    show();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && last) last = Date.now();
    show();
  });
  show();
  setInterval(() => {
    show();
    poll();
  }, 1000);
})();
