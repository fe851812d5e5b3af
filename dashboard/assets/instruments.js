/* The tab Instruments: a sortable list of the worst, with a strip of when each was missing. */
(function (T) {
  "use strict";

  const EVERY_MS = 5000;
  const SHOWN = 25;
  const SVG = "http://www.w3.org/2000/svg";
  const STRIP = 180; // its units across
  const $ = T.byId;

  /** @type {Record<string, {answer: Missing, at: number}>} */
  const known = {}; // group -> the last answer, and when it came
  let asking = false;
  let askedAt = 0;
  let asked = "";
  let problem = "";
  let order = { by: /** @type {keyof Figures} */ ("missing"), descending: true };
  let ready = false;

  /** @type {Column<WorstRow>[]} */
  const COLUMNS = [
    { name: "name", label: "Instrument", sort: () => sort("name"), make: opener },
    { name: "state", label: "State", words: true, sort: () => sort("state") },
    { name: "missing", label: "Missing", sort: () => sort("missing") },
    { name: "late", label: "Late", sort: () => sort("late") },
    { name: "heard", label: "Last heard", sort: () => sort("heard") },
    { name: "strip", label: "Missing when, newest right", words: true, make: strip, update: drawStrip },
  ];

  T.onTab("instruments", (liveness) => {
    if (!ready) listen();
    const wanted = T.view.group + " " + last().value;
    const due = wanted !== asked || performance.now() - askedAt > EVERY_MS;
    if (due && !asking && liveness !== "none" && T.view.pausedAt === null) ask(wanted);
    draw(liveness);
  });

  const last = () => /** @type {HTMLSelectElement} */ ($("missing-last"));

  function listen() {
    ready = true;
    last().value = String(T.settings.missing_last);
    last().addEventListener("change", T.schedule);
  }

  /** @param {string} wanted */
  async function ask(wanted) {
    const group = T.view.group;
    asking = true;
    asked = wanted;
    askedAt = performance.now();
    const found = await T.ask(`groups/${group}/missing?last=${last().value}`);
    asking = false;
    problem = found.problem;
    if (found.answer) known[group] = { answer: found.answer, at: performance.now() };
    T.schedule();
  }

  /** @param {keyof Figures} by */
  function sort(by) {
    order = { by, descending: order.by === by ? !order.descending : by !== "name" };
    T.schedule();
  }

  /** @param {Liveness} liveness */
  function draw(liveness) {
    const place = $("worst");
    const found = known[T.view.group];
    const rows = found ? worst(found) : [];
    const looked = found ? T.count(found.answer.triggers) + " triggers in the ledger" : "";
    T.text($("worst-note"), note(liveness, rows.length, looked));
    const nothing = found ? "Each was in every one of them, in time." : problem || "Asking the daemon …";
    T.drawTable(place, "Worst instruments", COLUMNS, rows.slice(0, SHOWN), nothing);
    T.markSorted(place, order.by, order.descending ? "descending" : "ascending");
  }

  /** @param {Liveness} liveness @param {number} count @param {string} looked */
  function note(liveness, count, looked) {
    if (liveness === "none") return "as last received";
    if (problem) return "out of date: " + problem;
    return count > SHOWN ? SHOWN + " of " + T.count(count) + " · " + looked : looked;
  }

  /**
   * Whoever was missing or late, or is not well now.
   * @param {{answer: Missing, at: number}} found
   * @returns {WorstRow[]}
   */
  function worst({ answer, at }) {
    const group = T.view.group;
    const since = (performance.now() - at) / 1e3;
    /** @type {WorstRow[]} */
    const rows = [];
    [...(T.section(`states/${group}`) || "")].forEach((letter, number) => {
      const counts = answer.missing[number] || [];
      const late = answer.late[number] || 0;
      if (!counts.length && !late && T.stateOf(letter).name === "ok") return;
      const heard = answer.heard_s[number] ?? null;
      const by = {
        name: number,
        state: T.badness(letter),
        missing: counts.reduce((sum, n) => sum + n, 0),
        late,
        heard: heard === null ? Infinity : T.isQuiet(letter) ? heard + since : heard,
      };
      rows.push({ key: group + ":" + number, counts, sizes: answer.stretches.triggers, by, cells: cells(by, letter, answer.triggers) });
    });
    const sign = order.descending ? -1 : 1;
    return rows.sort((a, b) => sign * compare(a.by[order.by], b.by[order.by]) || a.by.name - b.by.name);
  }

  const compare = (/** @type {number} */ a, /** @type {number} */ b) => (a < b ? -1 : a > b ? 1 : 0);

  /** @param {Figures} by @param {string} letter @param {number} triggers */
  function cells(by, letter, triggers) {
    const share = triggers ? (100 * by.missing) / triggers : 0;
    return {
      state: T.stateWords(letter),
      missing: by.missing ? T.count(by.missing) + " · " + T.number(share, share >= 10 ? 0 : 1) + " %" : "0",
      late: T.count(by.late),
      heard: by.heard === Infinity ? "never" : by.heard < 2 ? "now" : T.lasted(by.heard) + " ago",
    };
  }

  /** @param {WorstRow} row */
  function opener(row) {
    const [group, number] = row.key.split(":");
    return T.button("plain", T.instrumentName(group, Number(number)), () => T.pick(group, Number(number)));
  }

  function strip() {
    const svg = document.createElementNS(SVG, "svg");
    const attributes = { class: "strip", viewBox: "0 0 " + STRIP + " 16", preserveAspectRatio: "none", "aria-hidden": "true" };
    for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
    svg.append(document.createElementNS(SVG, "path"));
    return svg;
  }

  /**
   * A bar per range of triggers, as high as the share of them that lack the instrument: height shows it without colour.
   * @param {Element} svg
   * @param {WorstRow} row
   */
  function drawStrip(svg, { counts, sizes }) {
    const width = STRIP / Math.max(1, sizes.length);
    const bars = counts.map((n, i) => {
      const height = n ? 3 + (13 * n) / sizes[i] : 0;
      return n ? "M" + (i * width).toFixed(1) + " 16v-" + height.toFixed(1) + "h" + (width - 0.6).toFixed(1) + "v" + height.toFixed(1) + "z" : "";
    });
    T.attribute(T.find(svg, "path"), "d", bars.join(""));
  }
})(window.triggerlog);
