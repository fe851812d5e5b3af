/* The numbers above the tabs with their sparklines, and the equation of conservation. */
(function (T) {
  "use strict";

  const SPARK_MS = 60e3;
  const SPARK_EVERY_MS = 500; // in which it moves by a pixel or two
  const W = 120;
  const H = 26;
  const SVG = "http://www.w3.org/2000/svg";
  const SHOWN = { waiting: T.count, absent: T.count, open: T.count };

  T.drawTiles = function (liveness) {
    const group = T.view.group;
    const dead = liveness === "none";
    const beside = besides(group);
    const sparks = sparksDue(group);
    for (const column of ["received", "written", "p50", "p99", "waiting", "absent", "reads"]) {
      const tile = document.getElementById("tile-" + column);
      const shown = (SHOWN[column] || T.number)(T.latest(group, column));
      T.text(tile.querySelector(".value"), dead ? "–" : shown);
      T.text(tile.querySelector(".beside"), dead ? "was " + shown : beside[column] || "");
      T.attribute(tile, "data-level", dead ? null : level(group, column));
      if (sparks) spark(tile.querySelector(".spark"), group, column);
    }
    const told = T.section("group", group);
    T.text(document.querySelector("#tile-absent .unit"), told ? "of " + T.count(told.instruments) : "");
  };

  T.onTab("live", () => totals(T.view.group));

  function besides(group) {
    const budget = (T.section("limits") || {}).commit_p99_ms;
    return {
      received: T.number(T.latest(group, "committed")) + " committed /s",
      p99: budget === undefined ? "" : "budget " + budget + " ms",
      waiting: outlook(group),
      absent: T.number(T.latest(group, "missing")) + " missing a trigger",
      written: written(group),
      p50: "longest " + T.number(T.latest(group, "longest")) + " ms",
      reads: readers(group),
    };
  }

  /* Clients that may ask, and rows they are given. */
  function readers(group) {
    const all = Object.values(T.section("readers") || {}).filter((reader) => reader.group === group);
    if (!all.length) return "no readers";
    const clients = all.reduce((sum, reader) => sum + reader.clients, 0);
    const admitted = T.latest(group, "readers");
    const asking = admitted === clients ? T.count(clients) : T.count(admitted) + " of " + T.count(clients);
    return asking + " clients · " + T.number(T.latest(group, "rows_read")) + " rows/s";
  }

  /* How long an outage may last, or how soon one that is over is made up for; what is open says nothing then. */
  function outlook(group) {
    const open = T.count(T.latest(group, "open")) + " open";
    const told = T.section("outlook", group) || {};
    if (told.drained_in_s) return open + " · drained in " + T.about(told.drained_in_s);
    const away = (T.section("store") || {}).available === false || told.drained_in_s === null;
    return told.full_in_s == null ? open : open + " · " + (away ? "full in " : "room for ") + T.about(told.full_in_s);
  }

  /* How it is stored, and what of it a crash of the database now would take: nothing is not worth a word. */
  function written(group) {
    const told = T.section("group", group) || {};
    const way = (told.layout || "") + ", " + (told.durability || "");
    if (told.at_risk_ms === 0) return way;
    const risk = (T.section("totals", group) || {}).at_risk;
    const age = told.at_risk_ms === null ? "all " : "";
    return way + " · " + age + T.count(risk) + " at risk";
  }

  function level(group, column) {
    const value = T.latest(group, column);
    const budget = (T.section("limits") || {}).commit_p99_ms;
    if (column === "p99" && budget !== undefined && value !== null && value > budget) return "over";
    if (column === "absent" && /[sn]/.test(T.section("states", group) || "")) return "over";
    if (column === "written" && shortfall(group)) return "over";
    if (column === "waiting" && (T.section("group", group) || {}).backpressure) return "over";
    return null;
  }

  function shortfall(group) {
    return ((T.section("store") || {}).shortfall || {})[(T.section("group", group) || {}).durability];
  }

  let sparked = { group: null, at: -Infinity };

  function sparksDue(group) {
    const at = performance.now();
    if (sparked.group === group && at - sparked.at < SPARK_EVERY_MS) return false;
    sparked = { group, at };
    return true;
  }

  function spark(place, group, column) {
    const to = T.state.newest;
    if (to === null) return;
    const { x, y } = T.window(group, column, to - SPARK_MS, to, 240);
    let low = Infinity;
    let high = -Infinity;
    for (const value of y) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    const span = Math.max(high - low, Math.abs(high) * 0.04, 1e-9);
    const middle = (high + low) / 2;
    let path = "";
    let pen = "M";
    for (let i = 0; i < x.length; i++) {
      if (y[i] === null) {
        pen = "M";
        continue;
      }
      const px = Math.max(0, (1 - (to - x[i]) / SPARK_MS) * W);
      const py = H / 2 - ((y[i] - middle) / span) * (H - 4);
      path += pen + px.toFixed(1) + " " + py.toFixed(1);
      pen = "L";
    }
    if (!place.firstChild) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "0 0 " + W + " " + H);
      svg.setAttribute("preserveAspectRatio", "none");
      svg.append(document.createElementNS(SVG, "path"));
      place.append(svg);
    }
    place.firstChild.firstChild.setAttribute("d", path);
  }

  function totals(group) {
    const told = T.section("totals", group);
    const place = document.getElementById("totals");
    if (!told) return;
    if (!place.firstChild) {
      place.append(T.make("h2", "", "Readings since the daemon started"), T.make("p", "equation"), T.make("p", "verdict"));
    }
    terms(place.children[1], told);
    const adds = told.unaccounted === 0;
    const parts = [adds ? "✓ every reading is accounted for" : "✕ " + T.count(told.unaccounted) + " not accounted for"];
    if (told.dead_letters) parts.push(T.count(told.dead_letters) + " lie in the dead letters");
    if (told.newest !== null) parts.push("newest " + T.count(told.newest));
    T.text(place.children[2], parts.join(" · "));
    T.attribute(place, "data-adds", String(adds));
  }

  function terms(place, told) {
    // What an earlier daemon left in the journal came in, too; most days there is none of it.
    const names = ["received", "recovered", "committed", "duplicate", "refused", "dead", "waiting", "assembling"];
    if (!place.firstChild) {
      names.forEach((name, i) => {
        const sign = T.make("span", "sign", name === "committed" ? "=" : "+");
        if (i) place.append(sign);
        const term = T.make("span", "term");
        if (name === "recovered") sign.dataset.sign = name;
        term.dataset.term = name;
        term.append(T.make("b"), T.make("span", "name", " " + name));
        place.append(term, " ");
      });
    }
    for (const name of names) {
      const term = place.querySelector("[data-term=" + name + "]");
      T.text(term.firstChild, T.count(told[name]));
      if (name === "recovered") {
        term.hidden = !told.recovered;
        place.querySelector("[data-sign=recovered]").hidden = !told.recovered;
      }
      T.attribute(term, "data-level", (name === "refused" || name === "dead") && told[name] ? "over" : null);
      if (name !== "refused") continue;
      const reasons = Object.entries(told.reasons).filter(([, n]) => n);
      T.text(term.lastChild, " refused" + (reasons.length ? " (" + reasons.map(([why, n]) => why.replaceAll("_", " ") + " " + T.count(n)).join(", ") + ")" : ""));
    }
  }
})((window.triggerlog = window.triggerlog || {}));
