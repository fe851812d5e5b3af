/* The numbers above the tabs with their sparklines, and the equation of conservation. */
(function (T) {
  "use strict";

  const SPARK_MS = 60e3;
  const SPARK_EVERY_MS = 500; // in which it moves by a pixel or two
  const W = 120;
  const H = 26;
  const SVG = "http://www.w3.org/2000/svg";
  /** @type {Record<string, (value: Value) => string>} */
  const SHOWN = { waiting: T.count, absent: T.count };

  T.drawTiles = function (liveness) {
    const group = T.view.group;
    const dead = liveness === "none";
    const notes = notesOf(group);
    const sparks = sparksDue(group);
    for (const column of T.settings.tiles) {
      const tile = T.byId("tile-" + column);
      const shown = (SHOWN[column] || T.number)(T.latest(group, column));
      T.text(T.find(tile, ".value"), dead ? "–" : shown);
      T.text(T.find(tile, ".aside"), dead ? "was " + shown : notes[column] || "");
      T.attribute(tile, "data-level", dead ? null : level(group, column));
      if (sparks) spark(T.find(tile, ".spark"), group, column);
    }
    const known = T.section(`group/${group}`);
    T.text(T.find(T.byId("tile-absent"), ".unit"), known ? "of " + T.count(known.instruments) : "");
  };

  T.onTab("live", () => totals(T.view.group));

  /** @param {string} group @returns {Record<string, string>} */
  function notesOf(group) {
    const budget = T.section("limits")?.commit_p99_ms;
    return {
      received: T.number(T.latest(group, "committed")) + " committed /s",
      p99: budget === undefined ? "" : "budget " + budget + " ms",
      waiting: outlook(group),
      absent: T.number(T.latest(group, "missing")) + " missing per trigger",
      written: written(group),
      p50: "longest " + T.number(T.latest(group, "longest")) + " ms",
      reads: readers(group),
    };
  }

  /**
   * Clients that may ask, and the rows that they receive.
   * @param {string} group
   */
  function readers(group) {
    const all = Object.values(T.section("readers") || {}).filter((reader) => reader.group === group);
    if (!all.length) return "no readers";
    const clients = all.reduce((sum, reader) => sum + reader.clients, 0);
    const admitted = T.latest(group, "readers");
    const asking = admitted === clients ? T.count(clients) : T.count(admitted) + " of " + T.count(clients);
    return asking + " clients · " + T.number(T.latest(group, "rows_read")) + " rows/s";
  }

  /**
   * How long an outage may last, or how soon the backlog of one that is over is gone.
   * @param {string} group
   */
  function outlook(group) {
    const open = T.count(T.latest(group, "open")) + " open";
    const known = T.section(`outlook/${group}`);
    if (known?.drained_in_s) return open + " · drained in " + T.about(known.drained_in_s);
    if (!known || known.full_in_s === null) return open;
    const away = T.section("store")?.available === false || known.drained_in_s === null;
    return open + " · " + (away ? "full in " : "room for ") + T.about(known.full_in_s);
  }

  /**
   * How it is stored, and what of it a crash of the database now would take: nothing is not worth a word.
   * @param {string} group
   */
  function written(group) {
    const known = T.section(`group/${group}`);
    if (!known) return "";
    const way = known.layout + ", " + known.durability;
    if (known.at_risk_ms === 0) return way;
    const all = known.at_risk_ms === null ? "all " : "";
    return way + " · " + all + T.count(T.section(`totals/${group}`)?.at_risk) + " at risk";
  }

  /** @param {string} group @param {string} column */
  function level(group, column) {
    const value = T.latest(group, column);
    const budget = T.section("limits")?.commit_p99_ms;
    if (column === "p99" && budget !== undefined && value !== null && value > budget) return "over";
    if (column === "absent" && [...(T.section(`states/${group}`) || "")].some(T.isQuiet)) return "over";
    if (column === "written" && shortfall(group)) return "over";
    if (column === "waiting" && T.section(`group/${group}`)?.backpressure) return "over";
    return null;
  }

  /** @param {string} group */
  function shortfall(group) {
    const known = T.section(`group/${group}`);
    return known && T.section("store")?.shortfall[known.durability];
  }

  let sparked = { group: "", at: -Infinity };

  /** @param {string} group */
  function sparksDue(group) {
    const at = performance.now();
    if (sparked.group === group && at - sparked.at < SPARK_EVERY_MS) return false;
    sparked = { group, at };
    return true;
  }

  /** @param {HTMLElement} place @param {string} group @param {string} column */
  function spark(place, group, column) {
    const to = T.state.newest;
    if (to === null) return;
    if (!place.firstChild) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "0 0 " + W + " " + H);
      svg.setAttribute("preserveAspectRatio", "none");
      svg.append(document.createElementNS(SVG, "path"));
      place.append(svg);
    }
    T.find(place, "path").setAttribute("d", line(T.window(group, column, to - SPARK_MS, to, 240), to));
  }

  /** @param {Points} points @param {number} to */
  function line({ x, y }, to) {
    const known = y.filter((value) => value !== null);
    const low = Math.min(...known);
    const high = Math.max(...known);
    const span = Math.max(high - low, Math.abs(high) * 0.04, 1e-9);
    const middle = (high + low) / 2;
    let path = "";
    let pen = "M";
    x.forEach((time, i) => {
      const value = y[i];
      if (value === null) {
        pen = "M";
        return;
      }
      const px = Math.max(0, (1 - (to - time) / SPARK_MS) * W);
      const py = H / 2 - ((value - middle) / span) * (H - 4);
      path += pen + px.toFixed(1) + " " + py.toFixed(1);
      pen = "L";
    });
    return path;
  }

  /** @param {string} group */
  function totals(group) {
    const known = T.section(`totals/${group}`);
    const place = T.byId("totals");
    if (!known) return;
    if (!place.firstChild) {
      place.append(T.make("h2", "", "Readings since the daemon started"), T.make("p", "equation"), T.make("p", "verdict"));
    }
    terms(T.find(place, "p.equation"), known);
    const adds = known.unaccounted === 0;
    const parts = [adds ? "✓ every reading is accounted for" : "✕ " + T.count(known.unaccounted) + " not accounted for"];
    if (known.lost) parts.push(T.count(known.lost) + " more lost on their way (" + T.reasons(known.lost_how) + ")");
    if (known.skipped) parts.push(T.count(known.skipped) + " trigger numbers never came");
    if (known.dead_letters) parts.push(T.count(known.dead_letters) + " in the dead letters");
    if (known.newest !== null) parts.push("newest " + T.count(known.newest));
    T.text(T.find(place, "p.verdict"), parts.join(" · "));
    T.attribute(place, "data-adds", String(adds));
  }

  const TERMS = /** @type {const} */ (["received", "recovered", "committed", "duplicate", "refused", "aside", "dead", "waiting", "assembling"]);
  const ALARMING = ["refused", "aside", "dead"];
  // What an earlier daemon left in the journal came in, too; most days there is none of it, and nothing is set aside.
  const SELDOM = /** @type {const} */ (["recovered", "aside"]);

  /** @param {HTMLElement} place @param {Totals} known */
  function terms(place, known) {
    if (!place.firstChild) buildTerms(place);
    for (const name of TERMS) {
      const term = T.find(place, "[data-term=" + name + "]");
      T.text(T.find(term, "b"), T.count(known[name]));
      T.attribute(term, "data-level", ALARMING.includes(name) && known[name] ? "over" : null);
    }
    for (const name of SELDOM) {
      for (const part of ["term", "sign"]) T.find(place, "[data-" + part + "=" + name + "]").hidden = !known[name];
    }
    because("refused", T.reasons(known.reasons));
    because("aside", T.reasons(known.aside_reasons));

    /** @param {string} name @param {string} reasons */
    function because(name, reasons) {
      T.text(T.find(place, "[data-term=" + name + "] .name"), " " + name + (reasons && " (" + reasons + ")"));
    }
  }

  /** @param {HTMLElement} place */
  function buildTerms(place) {
    TERMS.forEach((name, i) => {
      if (i) place.append(T.make("span", "sign", name === "committed" ? "=" : "+", { "data-sign": name }));
      const term = T.make("span", "term", undefined, { "data-term": name });
      term.append(T.make("b"), T.make("span", "name", " " + name));
      place.append(term, " ");
    });
  }
})(window.triggerlog);
