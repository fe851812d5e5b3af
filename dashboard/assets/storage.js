/* The tab Storage: sizes and growth, partitions, journals, durability, and the account of every reading. */
(function (T) {
  "use strict";

  const ASK_MS = 5000;
  const $ = (id) => document.getElementById(id);
  let told = null; // the answer of /told/storage
  let problem = "";
  let askedAt = -Infinity;
  let asking = false;

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  T.bytes = function (bytes) {
    if (bytes === null || bytes === undefined) return "–";
    let size = Math.abs(bytes);
    let unit = 0;
    while (size >= 1024 && unit < UNITS.length - 1) {
      size /= 1024;
      unit += 1;
    }
    return (bytes < 0 ? "−" : "") + T.number(size, unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + " " + UNITS[unit];
  };

  T.onTab("storage", (liveness) => {
    if (performance.now() - askedAt >= ASK_MS && !asking) ask();
    const place = $("storage-problem");
    place.hidden = problem === "";
    T.text(place, problem);
    T.attribute(place, "data-level", problem ? "wrong" : null);
    outage(liveness);
    durability();
    account();
    if (told === null) return;
    stored();
    partitions();
    journals();
  });

  async function ask() {
    asking = true;
    askedAt = performance.now();
    try {
      const answer = await fetch("/told/storage");
      const body = await answer.json();
      if (answer.ok) told = body;
      problem = answer.ok ? "" : "Sizes are not known now: " + body.detail + ".";
    } catch {
      problem = "Sizes are not known now: this page has lost its server.";
    }
    asking = false;
    T.schedule();
  }

  const each = (columns) => columns.map(([name, label, title]) => ({ name, label, title }));
  const age = (seconds) => (seconds === null ? "not told yet" : T.lasted(seconds) + " ago");

  // --- an outage of the database -------------------------------------------------------------------------------------

  const OUTAGE = each([
    ["group", "Group"],
    ["waiting", "Triggers waiting"],
    ["readings", "Readings waiting"],
    ["room", "Room for", "how long what comes in now finds room if the database takes nothing"],
    ["drained", "Made up for in", "at the rates of now"],
    ["risk", "At risk", "committed so lately that a crash of the server now could lose them"],
  ]);

  function outage(liveness) {
    const store = T.section("store");
    if (!store) return;
    const words = store.available ? "● the database answers" : "■ the database is away: " + store.problem;
    T.text($("outage-note"), liveness === "none" ? "○ not known: the daemon is not heard" : words);
    const rows = T.groups().map((group) => {
      const outlook = T.section("outlook", group) || {};
      const totals = T.section("totals", group) || {};
      const { backpressure: held, at_risk_ms } = T.section("group", group) || {};
      const unbounded = at_risk_ms === null && totals.at_risk;
      return {
        key: group,
        cells: {
          group,
          waiting: T.count(T.latest(group, "waiting")),
          readings: T.count(totals.waiting),
          room: held ? { text: "full: senders are held back", level: "over" } : lasts(outlook.full_in_s),
          drained: drained(store, outlook, totals),
          risk: { text: T.count(totals.at_risk), level: unbounded ? "over" : null },
        },
      };
    });
    T.drawTable($("outage"), "Outage", OUTAGE, rows, "");
  }

  const lasts = (seconds) => (seconds === null || seconds === undefined ? "–" : T.about(seconds));

  function drained(store, outlook, totals) {
    if (outlook.drained_in_s === 0) return totals.waiting ? "at once" : "nothing waits";
    if (outlook.drained_in_s === null) return { text: store.available ? "falls behind" : "when it is back", level: "over" };
    return lasts(outlook.drained_in_s);
  }

  // --- durability ----------------------------------------------------------------------------------------------------

  function durability() {
    const store = T.section("store");
    if (!store) return;
    const short = Object.entries(store.shortfall);
    T.text($("durability-note"), short.length ? "▲ less than asked for" : "● as asked for");
    const pairs = [["In force", store.durability]];
    for (const group of T.groups()) {
      const told = T.section("group", group) || {};
      const risk = told.at_risk_ms === 0 ? "loses nothing that was acknowledged" : "can lose " + loss(told.at_risk_ms);
      pairs.push([group, told.durability + " asked for; a crash of the server " + risk, told.at_risk_ms === null]);
    }
    for (const [asked, line] of short) pairs.push([asked + " is not kept", line, true]);
    for (const [name, value] of Object.entries(store.settings)) pairs.push([name, value]);
    pairs.push(["Database", store.target]);
    list($("durability"), pairs);
  }

  const loss = (ms) => (ms === null || ms === undefined ? "all of it" : "the last " + T.number(ms) + " ms");

  function list(place, pairs) {
    const wanted = JSON.stringify(pairs);
    if (place.dataset.drawn === wanted) return;
    place.dataset.drawn = wanted;
    const made = T.make("dl", "pairs");
    for (const [name, value, over] of pairs) {
      const words = T.make("dd", "", value);
      if (over) words.dataset.level = "over";
      made.append(T.make("dt", "", name), words);
    }
    place.replaceChildren(made);
  }

  // --- sizes ---------------------------------------------------------------------------------------------------------

  const STORED = each([
    ["group", "Group"],
    ["readings", "Readings", "the server's estimate, or this logger's account where that is more"],
    ["rows", "Rows", "the server's estimate where counting is dear"],
    ["size", "Size", "with indexes and ledger"],
    ["each", "A reading"],
    ["rate", "A day, at the rate of now"],
    ["measured", "A day, measured"],
    ["over", "Measured over"],
    ["partitions", "Partitions"],
  ]);

  function stored() {
    const rows = Object.entries(told.groups).map(([name, group]) => ({
      key: name,
      cells: {
        group: name,
        readings: T.count(group.readings),
        rows: T.count(group.rows),
        size: T.bytes(group.size_bytes),
        each: group.bytes_a_reading === null ? "–" : T.number(group.bytes_a_reading) + " B",
        rate: T.bytes(group.growth_bytes_a_day),
        measured: T.bytes(group.measured_bytes_a_day),
        over: group.measured_over_s < 60 ? "in a minute" : T.lasted(group.measured_over_s),
        partitions: T.count(group.partitions.length),
      },
    }));
    T.drawTable($("stored"), "Stored", STORED, rows, "");
    T.text($("stored-note"), "sizes told " + age(told.sizes_age_s) + " · " + disk());
  }

  function disk() {
    const told_disk = T.section("disk");
    if (!told_disk) return "the state folder’s disk is not known";
    const free = "disk of the state folder: " + T.number(told_disk.free_gib) + " of " + T.number(told_disk.total_gib) + " GiB free";
    if (!told.database_is_here) return free + "; the database lies elsewhere, look at its disk there";
    return free + (told.full_in_days === null ? "" : ", full in " + T.about(told.full_in_days * 86400));
  }

  // --- partitions ----------------------------------------------------------------------------------------------------

  const MOST_SHOWN = 200;
  const PARTITIONS = [
    { name: "name", label: "Partition" },
    { name: "from", label: "From, UTC" },
    { name: "until", label: "Until" },
    { name: "rows", label: "Rows" },
    { name: "size", label: "Size" },
    { name: "bar", label: "", make: () => T.make("i", "bar"), update: (bar, row) => (bar.style.width = row.share + "%") },
    { name: "what", label: "", words: true },
  ];

  function partitions() {
    const group = told.groups[T.view.group];
    const all = group ? group.partitions : [];
    const now = told.time_ns;
    const most = Math.max(...all.map((one) => one.size_bytes), 1);
    const shown = all.slice(-MOST_SHOWN).reverse();
    const rows = shown.map((one) => ({
      key: one.name,
      share: (100 * one.size_bytes) / most,
      cells: {
        name: one.name,
        from: moment(one.start_ns),
        until: moment(one.end_ns),
        rows: T.count(one.rows),
        size: T.bytes(one.size_bytes),
        what: isRest(one) ? "what fits no other" : one.start_ns > now ? "ahead" : one.end_ns > now ? "written now" : "",
      },
    }));
    T.drawTable($("partitions"), "Partitions of " + T.view.group, PARTITIONS, rows, "The server has none for this group.");
    const parts = [T.view.group, all.length > MOST_SHOWN ? "the newest " + MOST_SHOWN + " of " + T.count(all.length) : T.count(all.length)];
    parts.push(told.partitions_problem ? "▲ not asked now: " + told.partitions_problem : "asked " + age(told.partitions_age_s));
    T.text($("partitions-note"), parts.join(" · "));
  }

  const isRest = (one) => one.end_ns - one.start_ns > 9e18;

  /* The ends of int64 stand for no end at all. */
  const moment = (ns) => (Math.abs(ns) > 9e18 ? "–" : T.day(ns / 1e6) + (ns % 86400e9 ? " " + T.time(ns / 1e6).slice(0, 5) : ""));

  // --- journals ------------------------------------------------------------------------------------------------------

  const JOURNALS = each([
    ["group", "Group"],
    ["size", "Takes"],
    ["room", "Room left"],
    ["limit", "Of at most"],
    ["files", "Files left", "segments that still have room"],
    ["full", "Full in", "if the database took nothing from now on"],
    ["problem", "State"],
  ]);

  function journals() {
    const rows = Object.entries(told.groups)
      .filter(([, group]) => group.journal)
      .map(([name, { journal }]) => ({
        key: name,
        cells: {
          group: name,
          size: T.bytes(journal.size_bytes),
          room: T.bytes(journal.room_bytes),
          limit: T.bytes(journal.limit_bytes),
          files: T.count(Math.floor(journal.room_bytes / journal.segment_bytes)),
          full: lasts((T.section("outlook", name) || {}).full_in_s),
          problem: journal.problem ? { text: journal.problem, level: "over" } : "written",
        },
      }));
    T.drawTable($("journals"), "Journal", JOURNALS, rows, "No journal is kept: what waits for the database waits in memory alone.");
    T.text($("journals-note"), rows.length ? "where closed triggers wait for the database" : "");
  }

  // --- the account ---------------------------------------------------------------------------------------------------

  const ACCOUNT = each([
    ["group", "Group"],
    ["received", "Received"],
    ["recovered", "+ recovered", "found in the journal at the start: left by an earlier daemon"],
    ["committed", "= committed"],
    ["duplicate", "+ duplicate"],
    ["refused", "+ refused"],
    ["dead", "+ dead", "rejected by the database for good; kept as dead letters"],
    ["waiting", "+ waiting"],
    ["assembling", "+ assembling"],
    ["unaccounted", "Unaccounted"],
    ["late", "Late"],
    ["letters", "Dead letters", "readings that lie there now, whenever they came"],
    ["complete", "Complete triggers"],
    ["incomplete", "Incomplete"],
  ]);
  const ALARMING = ["refused", "dead", "unaccounted"];

  function account() {
    const rows = [];
    const reasons = [];
    for (const group of T.groups()) {
      const totals = T.section("totals", group);
      if (!totals) continue;
      const cells = { group, letters: { text: T.count(totals.dead_letters), level: totals.dead_letters ? "over" : null } };
      for (const { name } of ACCOUNT) {
        if (name in cells) continue;
        cells[name] = ALARMING.includes(name) ? { text: T.count(totals[name]), level: totals[name] ? "over" : null } : T.count(totals[name]);
      }
      rows.push({ key: group, cells });
      for (const [why, n] of Object.entries(totals.reasons)) if (n) reasons.push(group + ": " + why.replaceAll("_", " ") + " " + T.count(n));
    }
    T.drawTable($("account"), "Where every reading went", ACCOUNT, rows, "");
    T.text($("account-note"), reasons.length ? "refused: " + reasons.join(", ") : "");
  }
})((window.triggerlog = window.triggerlog || {}));
