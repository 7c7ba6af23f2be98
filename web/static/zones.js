// Behavior of fields for a date and time. Without it, their time zone is that of the field next to them, which starts as
// UTC. It is bound to data attributes:
//   data-zone="id id"            a field for a time zone; the viewer's own while the
//                                fields with these ids are empty
//   data-moment="id" data-in="id"  shows the time in one field, which is in the zone of
//                                another field, in the viewer's time zone
(() => {
  "use strict";

  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const brief = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const field = (id) => document.getElementById(id);

  // How far a zone is ahead of UTC at an instant, in ms.
  function ahead(at, zone) {
    const parts = {};
    const digits = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
    for (const p of new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", ...digits }).formatToParts(at)) {
      parts[p.type] = Number(p.value);
    }
    return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(at / 1000) * 1000;
  }

  // The instant at which clocks in a zone show a text.
  function instant(text, zone) {
    const wall = Date.parse(text + "Z");
    let at = wall;
    for (let i = 0; i < 2; i++) at = wall - ahead(at, zone);
    return at;
  }

  function tell() {
    for (const out of document.querySelectorAll("[data-moment]")) {
      const text = field(out.dataset.moment)?.value;
      const zone = field(out.dataset.in)?.value.trim() || "UTC";
      let words = "";
      try {
        if (text && zone !== here) words = brief.format(instant(text, zone)) + " in your time zone.";
      } catch {
        // An invalid zone or time: the server reports it.
      }
      if (out.textContent !== words) out.textContent = words;
    }
  }

  const zones = field("zones");
  for (const z of document.querySelectorAll("[data-zone]")) {
    const typed = z.dataset.zone.split(" ").some((id) => field(id)?.value);
    if (!typed && z.value === "UTC") z.value = here;
  }
  if (zones) {
    for (const name of [here, ...(Intl.supportedValuesOf?.("timeZone") ?? [])]) {
      if (![...zones.options].some((o) => o.value === name)) zones.append(new Option(name, name));
    }
  }
  tell();
  document.addEventListener("input", tell);
})();
