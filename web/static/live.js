// Live pages: says in [data-live] whether the page is up to date, and pauses it.
// htmx keeps the connection (hx-sse); this only watches and holds it.
(() => {
  "use strict";

  const box = document.querySelector("[data-live]");
  if (!box || !window.htmx) return;
  const state = box.querySelector("[data-live-state]");
  const button = box.querySelector("[data-live-pause]");
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const stale = 5000;
  const loaded = Date.now();
  let last = 0;
  let paused = false;
  let ended = false;

  function say(kind, text) {
    if (box.dataset.state !== kind) box.dataset.state = kind;
    if (state.textContent !== text) state.textContent = text;
  }

  function show() {
    const at = clock.format(last || loaded);
    if (ended) say("stale", "Signed out. Load the page again.");
    else if (paused) say("paused", "Paused at " + at);
    else if (last === 0 && Date.now() - loaded < stale) say("waiting", "Connecting");
    else if (last === 0) say("stale", "No live figures; as of " + clock.format(loaded));
    else if (Date.now() - last > stale) say("stale", "No update since " + at);
    else say("live", "Live");
    button.hidden = ended;
    for (const s of button.children) s.hidden = (s.dataset.when === "paused") !== paused;
  }

  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", paused);
    show();
  });
  box.addEventListener("htmx:sse:before:message", (e) => {
    if (e.detail.message?.event) return;
    if (paused) e.preventDefault();
    else last = Date.now();
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
  setInterval(show, 1000);
})();
