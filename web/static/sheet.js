// The side sheet of lists of requests. A click or Enter on a row opens its request, j and k lead to the next and the
// previous one, and the address names it, as in #request-a1b2c3-7. Without this script the links lead to pages.
(() => {
  "use strict";

  const sheet = document.getElementById("sheet");
  if (!sheet) return;
  const body = document.getElementById("sheet-body");
  const title = document.getElementById("sheet-title");
  const buttons = Object.fromEntries([...sheet.querySelectorAll("[data-sheet]")].map((b) => [b.dataset.sheet, b]));
  const prefix = "#request-";
  let shown = ""; // the id of the request in the sheet

  function links() {
    return [...document.querySelectorAll("[data-denial] [data-request]")].filter((a) => a.checkVisibility());
  }
  function place(id) { return links().findIndex((a) => a.dataset.request === id); }

  // named is the id in the address.
  function named() {
    if (!location.hash.startsWith(prefix)) return "";
    try { return decodeURIComponent(location.hash.slice(prefix.length)); } catch { return ""; }
  }

  async function show(id) {
    shown = id;
    const at = place(id);
    const all = links().length;
    title.textContent = at < 0 ? "Request" : `Request ${at + 1} of ${all}`;
    buttons.previous.ariaDisabled = String(at <= 0);
    buttons.next.ariaDisabled = String(at + 1 >= all);
    if (!sheet.open) sheet.showModal();
    body.ariaBusy = "true";
    const path = "/console/requests/" + encodeURIComponent(id);
    const answer = await fetch(path, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (answer?.headers.has("HX-Redirect")) return location.assign(path); // signed out
    const part = await answer?.text().catch(() => "");
    if (shown !== id) return; // another one was opened
    body.innerHTML = part || sheet.querySelector("template").innerHTML;
    body.ariaBusy = "false";
    body.scrollTop = 0;
  }

  // open shows a request that a person chose. Back closes the sheet, however many requests it has shown.
  function open(id) {
    const to = prefix + encodeURIComponent(id);
    if (sheet.open) history.replaceState(history.state, "", to);
    else history.pushState({ sheet: true }, "", to);
    show(id);
  }

  // move goes to a neighbour: in the sheet it is shown, in the list it gets the focus.
  function move(step) {
    const all = links();
    const at = sheet.open ? place(shown) : all.findIndex((a) => a.closest("[data-denial]").contains(document.activeElement));
    const to = all[at + step];
    if (!to) return;
    if (sheet.open) open(to.dataset.request);
    else to.focus();
  }

  document.addEventListener("click", (e) => {
    if (e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
    const button = e.target.closest("[data-sheet]");
    if (button?.dataset.sheet === "close" || e.target === sheet) return sheet.close(); // the sheet itself is the backdrop
    if (button) return move(button.dataset.sheet === "next" ? 1 : -1);
    const to = e.target.closest("[data-denial]")?.querySelector("[data-request]");
    const other = e.target.closest("a, button, summary, label, input, select");
    if (!to || other && other !== to || !other && !getSelection().isCollapsed) return;
    e.preventDefault();
    open(to.dataset.request);
  });

  // The search is behind the sheet, so the sheet makes way. This runs before the search opens.
  document.addEventListener("keydown", (e) => {
    if (sheet.open && (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") sheet.close();
    if (sheet.open && e.key === "?") e.stopImmediatePropagation();
  }, true);

  document.addEventListener("keydown", (e) => {
    if (e.key !== "j" && e.key !== "k" || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.target.closest?.("input, select, textarea, [contenteditable]")) return;
    if (localStorage.getItem("shortcuts") === "off" || document.querySelector(".dialog:popover-open")) return;
    move(e.key === "j" ? 1 : -1);
  });

  sheet.addEventListener("close", () => {
    const row = links()[place(shown)];
    shown = "";
    body.replaceChildren();
    if (named() && history.state?.sheet) history.back();
    else if (named()) history.replaceState(null, "", location.pathname + location.search);
    if (!document.querySelector(".dialog:popover-open")) row?.focus();
  });

  addEventListener("popstate", () => {
    const id = named();
    if (!id) sheet.close();
    else if (id !== shown) show(id);
  });

  if (named()) show(named());
})();
