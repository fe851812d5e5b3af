/* A run of visits in words and tables: its progress, tiles, sizes, fitted lines, and the list of past runs. */
(function (T) {
  "use strict";

  const $ = T.byId;
  /** @type {Record<string, string>} */
  const STATES = {
    starting: "◔ starting",
    visiting: "● running",
    waiting: "◐ waiting for the next visit’s time",
    compacting: "◒ compacting a period that ended",
    stopping: "◑ stopping after this visit",
    finished: "✓ finished",
    stopped: "◼ stopped",
    interrupted: "✕ interrupted",
    failed: "✕ failed",
  };
  const OFF = 0.02; // rows that differ from the expected ones by more are marked
  const EMPTY =
    "A run of visits stores and reads what a telescope’s exposures produce, one after another, and shows how the seconds per visit grow with the " +
    "history: start one below, with `triggerlog visits run`, or with `start = true` in `[visits]` of the configuration.";

  // --- above the charts ----------------------------------------------------------------------------------------------

  T.drawVisitsRun = function ({ id, live, kept, figures, listed }, liveness) {
    const place = $("visits-run");
    if (!place.firstChild) build(place);
    const line = T.find(place, "p");
    T.text(T.find(place, "h2"), id ? "Run " + id : listed ? "No run of visits yet" : "Visits");
    T.attribute(line, "title", live ? live.target : null);
    T.prose(line, id ? summary(live, kept, figures) : listed ? EMPTY : "");
    const shown = live !== null && live.active && liveness !== "none" ? live : null;
    const bar = T.find(place, "progress");
    bar.hidden = T.find(place, ".order-row").hidden = shown === null;
    if (shown === null) return;
    bar.max = shown.visits;
    bar.value = shown.done;
    const left = shown.remaining_s === null ? "" : " · about " + T.about(shown.remaining_s) + " left";
    const words = T.count(shown.done) + " of " + T.count(shown.visits) + " visits" + left + (shown.problem ? " · " + shown.problem : "");
    T.text(T.find(place, ".phase"), words);
  };

  /** @param {HTMLElement} place */
  function build(place) {
    const row = T.make("div", "order-row");
    const outcome = T.make("span", "outcome", "", { role: "status" });
    const stop = T.button("plain", "Stop after this visit", () =>
      T.submit(stop, outcome, async () => {
        const stopped = await T.order("visits/stop", {}, "Stop the run of visits");
        T.askVisits();
        return stopped.ok ? { ok: true, line: "The run ends with the current visit; a later run continues from there." } : stopped;
      })
    );
    row.append(T.make("span", "phase"), stop, outcome);
    place.append(T.make("h2"), T.make("p", "hint"), T.make("progress", "", undefined, { "aria-label": "Visits done" }), row);
  }

  /** @param {VisitsSection | null} live @param {PastVisits | null} kept @param {VisitFigures | null} figures */
  function summary(live, kept, figures) {
    const settings = figures && figures.settings;
    const parts = [];
    if (kept) parts.push(T.moment(kept.began_ns / 1e6) + " UTC");
    else if (live) parts.push("since " + T.moment(live.since_ns / 1e6) + " UTC");
    const mode = (live || kept || settings)?.index_mode;
    if (mode) parts.push("index mode " + mode);
    if (settings) {
      parts.push("schema " + settings.schema);
      parts.push("scale " + T.plain(settings.survey.scale));
      parts.push(settings.tiles > 1 ? settings.tiles + " × " + settings.tiles + " tiles" : "no tiles");
      parts.push(WORKERS[settings.workers](settings.processes));
      parts.push(settings.all_history ? "all of the history" : T.plain(settings.history_days) + " days of history");
    }
    const why = kept && kept.problem && !live ? kept.problem : live && ["failed", "stopped"].includes(live.state) ? live.problem : null;
    return parts.join(" · ") + (why ? ". It ended early: " + why + "." : "");
  }

  /** @type {Record<string, (n: number) => string>} */
  const WORKERS = {
    one: () => "one process",
    fork: () => "one process per tile",
    persistent: (n) => T.count(n) + " processes",
  };

  // --- tiles -----------------------------------------------------------------------------------------------------------

  T.drawVisitsTiles = function (live, figures, liveness) {
    const limit = (live || figures)?.limit_s ?? 0;
    const known = (/** @type {string} */ value) => (live !== null && liveness === "none" ? "–" : value);
    const last = live?.last || (figures && lastOf(figures));
    const done = live ? live.done : last ? last.visit + 1 : 0;
    const wanted = live ? live.visits : (figures?.settings?.visits ?? null);
    const over = live ? live.over_limit : figures && fractionOver(figures.over);
    const mean = live ? live.mean_s : (T.lastOf(figures?.boxes || [])?.mean ?? null);
    tile("state", known(live ? STATES[live.state === "running" ? live.phase : live.state] : "✓ finished"), "", stateNote(live), live?.state === "failed");
    tile("done", known(T.count(done)), wanted === null ? "" : "of " + T.count(wanted), live ? T.count(live.here) + " of them by this run" : "");
    const of = live ? "mean of recent visits" : "mean of the last bin";
    tile("mean", known(T.seconds(mean)), "s", of + " · limit " + T.plain(limit) + " s", mean !== null && mean > limit);
    const both = last ? last.select_s + last.store_s : 0;
    const split = last ? T.seconds(last.select_s) + " / " + T.seconds(last.store_s) : "–";
    tile("split", known(split), "s", last && both ? "of the last visit · " + Math.round((100 * last.select_s) / both) + " % select" : "");
    tile("over", known(over === null ? "–" : percent(over)), "%", "took longer than " + T.plain(limit) + " s", Boolean(over));
    const [time, unit] = live && live.remaining_s !== null && live.remaining_s > 0 ? T.about(live.remaining_s).split(" ") : ["–", ""];
    tile("left", known(time), unit, live && live.remaining_s !== null ? pace(live) : "");
  };

  /** @param {VisitsSection | null} live */
  function stateNote(live) {
    if (live === null) return "from the archive";
    if (live.problem) return live.problem;
    if (!live.compactions) return "index mode " + live.index_mode;
    // As long as the tile is wide; how many tables of ended periods were written anew, and how long that took.
    return live.index_mode + " · " + T.count(live.compactions) + " compacted, " + T.number(live.compact_s, 1) + " s";
  }

  const pace = (/** @type {VisitsSection} */ live) => (live.interval_s === null ? "as fast as possible" : "one visit per " + T.plain(live.interval_s) + " s");
  const percent = (/** @type {number} */ fraction) => T.number(100 * fraction, fraction > 0 && fraction < 0.1 ? 2 : fraction > 0 && fraction < 1 ? 1 : 0);

  /** @param {VisitFigures} figures */
  function lastOf({ columns }) {
    const at = columns.visit.length - 1;
    return at < 0 ? null : { visit: columns.visit[at], select_s: columns.select_s[at], store_s: columns.store_s[at] };
  }

  /** @param {VisitFigures["over"]} bins */
  function fractionOver(bins) {
    let over = 0;
    let all = 0;
    for (const { first, last, fraction } of bins) {
      over += fraction * (last - first + 1);
      all += last - first + 1;
    }
    return all ? over / all : null;
  }

  /** @param {string} name @param {string} value @param {string} unit @param {string} note @param {boolean} [over] */
  function tile(name, value, unit, note, over) {
    const place = $("visits-tile-" + name);
    T.text(T.find(place, ".value"), value);
    T.text(T.find(place, ".unit"), unit);
    T.text(T.find(place, ".aside"), note);
    T.attribute(T.find(place, ".aside"), "title", note || null);
    T.attribute(place, "data-level", over ? "over" : null);
  }

  // --- tables ----------------------------------------------------------------------------------------------------------

  const SIZES = T.columns([
    ["table", "Table"],
    ["rows", "Rows", "≈: the server’s estimate"],
    ["expected", "Expected", "by the formula of the survey"],
    ["off", "Difference"],
    ["size", "Table"],
    ["index", "Indexes"],
    ["each", "Bytes per row", "with its indexes"],
  ]);
  const FITS = T.columns([
    ["line", "Line"],
    ["at", "At visit 0, s"],
    ["slope", "Per 1,000 visits, s"],
    ["interval", "95 % confidence", "of the slope"],
    ["visits", "Visits"],
  ]);
  const LINES = { visit_s: "total", select_s: "select", store_s: "store" };
  /** @type {VisitFigures | null} */
  let drawn = null;

  T.drawVisitsTables = function (figures) {
    if (drawn === figures) return;
    drawn = figures;
    const { sizes, counts, fits, paper } = figures;
    const names = [...new Set([...Object.keys(sizes), ...Object.keys(counts)])];
    T.drawTable($("visits-sizes"), "Tables and indexes", SIZES, names.map((name) => size(name, figures)), "No sizes yet: they are measured every few visits.");
    const total = Object.values(sizes).reduce((sum, one) => sum + one.table_bytes + one.index_bytes, 0);
    T.text($("visits-sizes-note"), total ? T.bytes(total) + " in total" : "");
    const rows = T.keys(LINES).flatMap((name) => fit(name, LINES[name], fits[name]));
    if (paper) {
      const cells = { line: "paper, total", at: T.signed(paper.intercept), slope: T.signed(paper.slope_per_1000), interval: "–", visits: "–" };
      rows.push({ key: "paper", cells });
    }
    T.drawTable($("visits-fits"), "Fitted lines", FITS, rows, "A line is fitted once there are enough visits.");
    T.text($("visits-fits-note"), paper ? "paper: " + paper.label : "");
  };

  /** @param {string} name @param {VisitFigures} figures @returns {Row} */
  function size(name, { sizes, counts, expected: formula }) {
    const stored = name in sizes ? sizes[name] : null;
    const exact = name in counts;
    const there = exact ? counts[name] : stored?.rows;
    const expected = formula[name];
    const off = expected && there !== undefined ? there / expected - 1 : null;
    return {
      key: name,
      cells: {
        table: name,
        rows: (exact || there === undefined ? "" : "≈ ") + T.count(there),
        expected: expected ? T.count(expected) : "–",
        off: off === null ? "–" : { text: (off < 0 ? "−" : "+") + T.number(100 * Math.abs(off), 1) + " %", level: exact && Math.abs(off) > OFF ? "over" : null },
        size: T.bytes(stored?.table_bytes),
        index: T.bytes(stored?.index_bytes),
        each: there && stored ? T.count((stored.table_bytes + stored.index_bytes) / there) : "–",
      },
    };
  }

  /** @param {string} key @param {string} line @param {VisitLine | null} found @returns {Row[]} */
  function fit(key, line, found) {
    if (!found) return [];
    const interval = T.signed(found.slope_low) + " to " + T.signed(found.slope_high);
    return [{ key, cells: { line, at: T.signed(found.intercept), slope: T.signed(found.slope_per_1000), interval, visits: T.count(found.visits) } }];
  }

  // --- past runs -------------------------------------------------------------------------------------------------------

  /** @type {Column<Row & {chosen: boolean}>[]} */
  const PAST = [
    { name: "id", label: "Run", make: (row) => T.button("plain", row.key, () => T.chooseVisits(row.key)), update: (button, row) => T.attribute(button, "aria-pressed", String(row.chosen)) },
    { name: "mode", label: "Index mode", words: true },
    { name: "visits", label: "Visits" },
    { name: "lasted", label: "Lasted" },
    { name: "problem", label: "Ended early", words: true },
    { name: "files", label: "", make: files },
  ];

  T.drawVisitsPast = function (past, shown) {
    const rows = past.map((one) => ({
      key: one.id,
      chosen: one.id === shown,
      cells: {
        mode: one.index_mode,
        visits: T.count(one.visits),
        lasted: T.lasted((one.ended_ns - one.began_ns) / 1e9),
        problem: one.problem || "",
      },
    }));
    T.drawTable($("visits-past"), "Past runs", PAST, rows, "None yet.");
    T.text($("visits-past-note"), past.length ? T.count(past.length) + ", newest first" : "");
  };

  /** @param {Row} row */
  function files(row) {
    const box = T.make("span", "files");
    box.append(...["csv", "parquet", "report"].map((kind) => T.fileLink("visits/" + encodeURIComponent(row.key) + "/" + kind, FILES[kind], row.key)));
    return box;
  }

  /** @type {Record<string, string>} */
  const FILES = { csv: "CSV", parquet: "Parquet", report: "Report" };
})(window.triggerlog);
