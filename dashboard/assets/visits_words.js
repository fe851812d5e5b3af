/* A run of visits in words and tables: how far it is, its tiles, sizes, lines, and the list of those that were. */
(function (T) {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const STATES = {
    starting: "◔ starting", visiting: "● running", waiting: "◐ waiting for the next visit’s time", compacting: "◒ compacting a period that ended", stopping: "◑ stopping after this visit", finished: "✓ finished", stopped: "◼ stopped", interrupted: "◼ interrupted", failed: "✕ failed",
  };
  const OFF = 0.02; // rows that differ from the expected ones by more are marked
  const EMPTY =
    "A run of visits stores and reads back what a telescope’s exposures bring, one after another, and shows how the seconds a visit grow with the " +
    "history: start one below, with `triggerlog visits run`, or with `start = true` in `[visits]` of the configuration.";
  const columns = (list) => list.map(([name, label, title, words]) => ({ name, label, title, words }));
  const seconds = (value) => (value === null || value === undefined ? "–" : T.number(value, value >= 10 ? 1 : value >= 1 ? 2 : 3));
  T.visitSeconds = seconds;

  // --- above the charts ----------------------------------------------------------------------------------------------

  T.drawVisitsRun = function ({ id, live, kept, told, going, known }, liveness) {
    const place = $("visits-run");
    if (!place.firstChild) build(place);
    const [title, line, bar, row] = place.children;
    T.text(title, id ? "Run " + id : known ? "No run of visits yet" : "Visits");
    T.attribute(line, "title", live ? live.target : null);
    T.prose(line, id ? asked(live, kept, told) : known ? EMPTY : "");
    const runs = live !== null && going && liveness !== "none";
    bar.hidden = row.hidden = !runs;
    if (!runs) return;
    bar.max = live.visits;
    bar.value = live.done;
    T.text(row.querySelector(".phase"), T.count(live.done) + " of " + T.count(live.visits) + " visits" + left(live) + (live.problem ? " · " + live.problem : ""));
  };

  const left = (live) => (live.remaining_s === null ? "" : " · about " + T.about(live.remaining_s) + " left");

  function build(place) {
    const bar = T.make("progress");
    bar.setAttribute("aria-label", "Visits that are done");
    const row = T.make("div", "order-row");
    const stop = T.make("button", "plain", "Stop after this visit");
    stop.type = "button";
    const said = T.make("span", "said");
    said.setAttribute("role", "status");
    stop.addEventListener("click", () =>
      T.giving(stop, said, async () => {
        const answer = await T.order("visits/stop", {}, "Stop the run of visits");
        T.askVisits();
        return answer.ok ? { ok: true, line: "It ends with the visit that is under way; a later run goes on from there." } : answer;
      })
    );
    row.append(T.make("span", "phase"), stop, said);
    place.append(T.make("h2"), T.make("p", "hint"), bar, row);
  }

  function asked(live, kept, told) {
    const settings = told && told.settings;
    const parts = [];
    if (kept) parts.push(T.day(kept.began_ns / 1e6) + " " + T.time(kept.began_ns / 1e6) + " UTC");
    else if (live) parts.push("since " + T.day(live.since_ns / 1e6) + " " + T.time(live.since_ns / 1e6) + " UTC");
    const mode = (live || kept || settings || {}).index_mode;
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

  const WORKERS = {
    one: () => "one process",
    fork: () => "a process a tile",
    persistent: (n) => T.count(n) + " processes",
  };

  // --- tiles -----------------------------------------------------------------------------------------------------------

  T.drawVisitsTiles = function (live, told, liveness) {
    const limit = (live || told).limit_s;
    const last = (live && live.last) || (told && told.columns.visit.length ? lastOf(told) : null);
    const stale = live !== null && liveness === "none";
    const [done, wanted] = live ? [live.done, live.visits] : [last ? last.visit + 1 : 0, told.settings ? told.settings.visits : null];
    const over = live ? live.over_limit : fractionOver(told);
    const mean = live ? live.mean_s : told && told.boxes.length ? told.boxes[told.boxes.length - 1].mean : null;
    const known = (value) => (stale ? "–" : value);
    tile("state", known(live ? STATES[live.state === "running" ? live.phase : live.state] : "✓ over"), "", words(live), live && live.state === "failed" ? "over" : null);
    tile("done", known(T.count(done)), wanted === null ? "" : "of " + T.count(wanted), live ? T.count(live.here) + " of them by this run" : "");
    tile("mean", known(seconds(mean)), "s", (live ? "mean of the last 100" : "mean of the last bin") + " · limit " + T.plain(limit) + " s", mean !== null && mean > limit ? "over" : null);
    const both = last && last.select_s + last.store_s;
    tile("split", known(last ? seconds(last.select_s) + " / " + seconds(last.store_s) : "–"), "s", both ? "of the last visit · " + Math.round((100 * last.select_s) / both) + " % select" : "");
    tile("over", known(over === null ? "–" : percent(over)), "%", "took longer than " + T.plain(limit) + " s", over ? "over" : null);
    const [time, unit] = live && live.remaining_s !== null && live.remaining_s > 0 ? T.about(live.remaining_s).split(" ") : ["–", ""];
    tile("left", known(time), unit, pace(live));
  };

  const words = (live) => (live === null ? "from what is kept" : live.problem || (live.compactions ? compacted(live) : "index mode " + live.index_mode));
  // As long as the tile is wide; how many tables of ended periods were written anew, and how long that took.
  const compacted = (live) => live.index_mode + " · " + T.count(live.compactions) + " compacted, " + T.number(live.compact_s, 1) + " s";
  const pace = (live) => (live === null ? "" : live.remaining_s === null ? "" : live.interval_s === null ? "as fast as possible" : "a visit each " + T.plain(live.interval_s) + " s");
  const percent = (fraction) => T.number(100 * fraction, fraction > 0 && fraction < 0.1 ? 2 : fraction > 0 && fraction < 1 ? 1 : 0);

  function lastOf({ columns }) {
    const at = columns.visit.length - 1;
    return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[at]]));
  }

  function fractionOver(told) {
    let over = 0;
    let all = 0;
    for (const { first, last, fraction } of told.over) {
      over += fraction * (last - first + 1);
      all += last - first + 1;
    }
    return all ? over / all : null;
  }

  function tile(name, value, unit, beside, level) {
    const place = $("visits-tile-" + name);
    T.text(place.querySelector(".value"), value);
    T.text(place.querySelector(".unit"), unit);
    T.text(place.querySelector(".beside"), beside);
    T.attribute(place.querySelector(".beside"), "title", beside || null);
    T.attribute(place, "data-level", level || null);
  }

  // --- tables ----------------------------------------------------------------------------------------------------------

  const SIZES = columns([
    ["table", "Table"], ["rows", "Rows", "≈: the server’s estimate"], ["expected", "Expected", "by the formula of the survey"],
    ["off", "Off by"], ["size", "Table"], ["index", "Indexes"], ["each", "Bytes a row", "with its indexes"],
  ]);
  const FITS = columns([
    ["line", "Line"], ["at", "At visit 0, s"], ["slope", "Per 1,000 visits, s"], ["interval", "95 % confidence", "of the slope"], ["visits", "Visits"],
  ]);
  const LINES = { visit_s: "total", select_s: "select", store_s: "store" };
  let drawn = null;

  T.drawVisitsTables = function (told) {
    if (drawn === told) return;
    drawn = told;
    const names = [...new Set([...Object.keys(told.sizes), ...Object.keys(told.counts)])];
    T.drawTable($("visits-sizes"), "Tables and indexes", SIZES, names.map((name) => size(name, told)), "Sizes are asked for every 50 visits.");
    const total = Object.values(told.sizes).reduce((sum, one) => sum + one.table_bytes + one.index_bytes, 0);
    T.text($("visits-sizes-note"), total ? T.bytes(total) + " in all" : "");
    const rows = Object.entries(LINES).filter(([name]) => told.fits[name]).map(([name, label]) => fit(name, label, told.fits[name]));
    if (told.paper) {
      rows.push({ key: "paper", cells: { line: "paper, total", at: signed(told.paper.intercept), slope: signed(told.paper.slope_per_1000), interval: "–", visits: "–" } });
    }
    T.drawTable($("visits-fits"), "Lines through the seconds", FITS, rows, "A line is drawn once there are visits enough.");
    T.text($("visits-fits-note"), told.paper ? "paper: " + told.paper.label : "");
  };

  function size(name, told) {
    const { rows, table_bytes, index_bytes } = told.sizes[name] || {};
    const counted = told.counts[name];
    const there = counted === undefined ? rows : counted;
    const expected = told.expected[name];
    const off = expected ? there / expected - 1 : null;
    const exact = counted !== undefined;
    return {
      key: name,
      cells: {
        table: name,
        rows: (exact || there === undefined ? "" : "≈ ") + T.count(there),
        expected: expected ? T.count(expected) : "–",
        off: off === null ? "–" : { text: (off < 0 ? "−" : "+") + T.number(100 * Math.abs(off), 1) + " %", level: exact && Math.abs(off) > OFF ? "over" : null },
        size: T.bytes(table_bytes),
        index: T.bytes(index_bytes),
        each: there && table_bytes !== undefined ? T.count((table_bytes + index_bytes) / there) : "–",
      },
    };
  }

  const signed = (value) => (value < 0 ? "−" : "") + significant(Math.abs(value));
  const significant = (value) => (value === 0 ? "0" : value >= 100 ? T.number(value, 0) : String(Number(value.toPrecision(3))));

  const fit = (key, line, told) => ({
    key,
    cells: {
      line,
      at: signed(told.intercept),
      slope: signed(told.slope_per_1000),
      interval: signed(told.slope_low) + " to " + signed(told.slope_high),
      visits: T.count(told.visits),
    },
  });

  // --- those that were -------------------------------------------------------------------------------------------------

  const PAST = [
    { name: "id", label: "Run", make: chooser, update: (button, row) => T.attribute(button, "aria-pressed", String(row.chosen)) },
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
    T.drawTable($("visits-past"), "Runs that were", PAST, rows, "There was none yet.");
    T.text($("visits-past-note"), past.length ? T.count(past.length) + ", the newest first" : "");
  };

  function chooser(row) {
    const button = T.make("button", "plain", row.key);
    button.type = "button";
    button.addEventListener("click", () => T.chooseVisits(row.key));
    return button;
  }

  function files(row) {
    const box = T.make("span", "files");
    for (const [kind, label] of [["csv", "CSV"], ["parquet", "Parquet"], ["report", "Report"]]) {
      const link = T.make("a", "", label);
      link.href = "/told/visits/" + encodeURIComponent(row.key) + "/" + kind;
      link.target = "_blank";
      link.rel = "noopener";
      link.setAttribute("aria-label", label + " of " + row.key + ", opens in a new tab");
      box.append(link);
    }
    return box;
  }
})((window.triggerlog = window.triggerlog || {}));
