/* The tab Instruments: a sortable list of the worst, with a strip of when each was missing. */
(function (T) {
  "use strict";

  const EVERY_MS = 5000;
  const SHOWN = 25;
  const SVG = "http://www.w3.org/2000/svg";
  const STRIP = 180; // its units across
  const BAD = { n: 4, s: 3, d: 2, m: 1, l: 0.5, o: 0 };
  const $ = (id) => document.getElementById(id);

  const told = {}; // group -> the last answer, and when it came
  let asking = false;
  let askedAt = 0;
  let asked = "";
  let problem = "";
  let order = { by: "missing", descending: true };
  let ready = false;

  const NAMES = { name: "Instrument", state: "State", missing: "Missing", late: "Late", heard: "Last heard" };
  const COLUMNS = [
    { name: "name", label: NAMES.name, sort: () => sort("name"), make: opener },
    { name: "state", label: NAMES.state, words: true, sort: () => sort("state") },
    { name: "missing", label: NAMES.missing, sort: () => sort("missing") },
    { name: "late", label: NAMES.late, sort: () => sort("late") },
    { name: "heard", label: NAMES.heard, sort: () => sort("heard") },
    { name: "strip", label: "Missing when, newest right", words: true, make: strip, update: drawStrip },
  ];

  T.onTab("instruments", (liveness) => {
    if (!ready) listen();
    const wanted = T.view.group + " " + $("missing-last").value;
    const due = wanted !== asked || performance.now() - askedAt > EVERY_MS;
    if (due && !asking && liveness !== "none" && T.view.pausedAt === null) ask(wanted);
    draw(liveness);
  });

  function listen() {
    ready = true;
    $("missing-last").value = "1000";
    $("missing-last").addEventListener("change", T.schedule);
  }

  async function ask(wanted) {
    const group = T.view.group;
    asking = true;
    asked = wanted;
    askedAt = performance.now();
    const answer = await T.told("groups/" + group + "/missing?last=" + $("missing-last").value);
    asking = false;
    problem = answer.problem;
    if (answer.told) told[group] = { answer: answer.told, at: performance.now() };
    T.schedule();
  }

  function sort(by) {
    order = { by, descending: order.by === by ? !order.descending : by !== "name" };
    T.schedule();
  }

  function draw(liveness) {
    const place = $("worst");
    const known = told[T.view.group];
    const rows = known ? worst(known) : [];
    const looked = known ? T.count(known.answer.triggers) + " triggers in the ledger" : "";
    T.text($("worst-note"), note(liveness, rows.length, looked));
    const nothing = known ? "Each was in every one of them, in time." : problem || "Asking the daemon …";
    T.drawTable(place, "Worst instruments", COLUMNS, rows.slice(0, SHOWN), nothing);
    T.markSorted(place, order.by, order.descending ? "descending" : "ascending");
  }

  function note(liveness, count, looked) {
    if (liveness === "none") return "as last told";
    if (problem) return "not as of now: " + problem;
    return count > SHOWN ? SHOWN + " of " + T.count(count) + " · " + looked : looked;
  }

  /* Whoever was missing or late, or is not well now. */
  function worst({ answer, at }) {
    const group = T.view.group;
    const states = T.section("states", group) || "";
    const since = (performance.now() - at) / 1e3;
    const rows = [];
    for (let number = 0; number < states.length; number++) {
      const counts = answer.missing[number];
      const late = answer.late[number] || 0;
      if (!counts && !late && "o" === states[number]) continue;
      const heard = answer.heard_s[number];
      const quiet = /[sn]/.test(states[number]);
      rows.push({
        key: group + ":" + number,
        number,
        counts: counts || [],
        sizes: answer.stretches.triggers,
        by: {
          name: number,
          state: BAD[states[number]],
          missing: counts ? counts.reduce((sum, n) => sum + n, 0) : 0,
          late,
          heard: heard === null || heard === undefined ? Infinity : quiet ? heard + since : heard,
        },
        letter: states[number],
      });
    }
    const sign = order.descending ? -1 : 1;
    rows.sort((a, b) => sign * compare(a.by[order.by], b.by[order.by]) || a.number - b.number);
    for (const row of rows) row.cells = cells(row, answer.triggers);
    return rows;
  }

  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  function cells({ by, letter }, triggers) {
    const share = triggers ? (100 * by.missing) / triggers : 0;
    return {
      state: T.stateWords(letter),
      missing: by.missing ? T.count(by.missing) + " · " + T.number(share, share >= 10 ? 0 : 1) + " %" : "0",
      late: T.count(by.late),
      heard: by.heard === Infinity ? "never" : by.heard < 2 ? "now" : T.lasted(by.heard) + " ago",
    };
  }

  function opener(row) {
    const [group, number] = row.key.split(":");
    const button = T.make("button", "plain", T.instrumentName(group, Number(number)));
    button.type = "button";
    button.addEventListener("click", () => T.pick(group, Number(number)));
    return button;
  }

  function strip() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "strip");
    svg.setAttribute("viewBox", "0 0 " + STRIP + " 16");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    return svg;
  }

  /* A bar a stretch, as high as the share of its triggers that lack the instrument: height tells it without colour. */
  function drawStrip(svg, { counts, sizes }) {
    const wanted = counts.join(" ");
    if (svg.dataset.drawn === wanted) return;
    svg.dataset.drawn = wanted;
    const width = STRIP / Math.max(1, sizes.length);
    const bars = counts.map((n, i) => {
      const height = n ? 3 + (13 * n) / sizes[i] : 0;
      return n ? "M" + (i * width).toFixed(1) + " 16v-" + height.toFixed(1) + "h" + (width - 0.6).toFixed(1) + "v" + height.toFixed(1) + "z" : "";
    });
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", bars.join(""));
    svg.replaceChildren(path);
  }
})((window.triggerlog = window.triggerlog || {}));
