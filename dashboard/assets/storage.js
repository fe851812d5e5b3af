/* The tab Storage: sizes and growth, partitions, journals, durability, and where every reading went. */
(function (T) {
  "use strict";

  const ASK_MS = 5000;
  const $ = T.byId;
  /** @type {StorageAnswer | null} */
  let known = null;
  let problem = "";
  let askedAt = -Infinity;
  let asking = false;

  T.onTab("storage", (liveness) => {
    if (performance.now() - askedAt >= ASK_MS && !asking) ask();
    T.problem($("storage-problem"), problem && "Sizes are unknown: " + problem + ".");
    outage(liveness);
    durability();
    account();
    if (known === null) return;
    stored(known);
    partitions(known);
    journals(known);
  });

  async function ask() {
    asking = true;
    askedAt = performance.now();
    const found = await T.ask("storage");
    if (found.answer) known = found.answer;
    problem = found.problem;
    asking = false;
    T.schedule();
  }

  const age = (/** @type {number | null} */ seconds) => (seconds === null ? "not known yet" : T.lasted(seconds) + " ago");

  // --- an outage of the database -------------------------------------------------------------------------------------

  const OUTAGE = T.columns([
    ["group", "Group"],
    ["waiting", "Triggers waiting"],
    ["readings", "Readings waiting"],
    ["room", "Room for", "how long there is room for new readings if the database accepts nothing"],
    ["drained", "Drained in", "until the backlog is gone, at the current rates"],
    ["risk", "At risk", "committed so recently that a crash of the server now could lose them"],
  ]);

  /** @param {Liveness} liveness */
  function outage(liveness) {
    const store = T.section("store");
    if (!store) return;
    const words = store.available ? "● the database answers" : "■ the database is away: " + store.problem;
    T.text($("outage-note"), liveness === "none" ? "○ unknown: the daemon does not answer" : words);
    const rows = T.groups().map((group) => {
      const totals = T.section(`totals/${group}`);
      const { backpressure, at_risk_ms } = T.section(`group/${group}`) || {};
      const unbounded = at_risk_ms === null && totals?.at_risk;
      return {
        key: group,
        cells: {
          group,
          waiting: T.count(T.latest(group, "waiting")),
          readings: T.count(totals?.waiting),
          room: backpressure ? { text: "full: senders are held back", level: "over" } : lasts(T.section(`outlook/${group}`)?.full_in_s),
          drained: drained(store, T.section(`outlook/${group}`), totals),
          risk: { text: T.count(totals?.at_risk), level: unbounded ? "over" : null },
        },
      };
    });
    T.drawTable($("outage"), "Outage", OUTAGE, rows, "");
  }

  const lasts = (/** @type {number | null | undefined} */ seconds) => (seconds === null || seconds === undefined ? "–" : T.about(seconds));

  /** @param {StoreSection} store @param {Outlook | undefined} outlook @param {Totals | undefined} totals */
  function drained(store, outlook, totals) {
    if (outlook?.drained_in_s === 0) return totals?.waiting ? "at once" : "nothing waits";
    if (outlook?.drained_in_s === null) return { text: store.available ? "falling behind" : "when it is back", level: "over" };
    return lasts(outlook?.drained_in_s);
  }

  // --- durability ----------------------------------------------------------------------------------------------------

  function durability() {
    const store = T.section("store");
    if (!store) return;
    const short = Object.entries(store.shortfall);
    T.text($("durability-note"), short.length ? "▲ less than requested" : "● as requested");
    /** @type {[string, string, boolean][]} */
    const pairs = [["In force", store.durability, false]];
    for (const group of T.groups()) {
      const { at_risk_ms = null, durability = "" } = T.section(`group/${group}`) || {};
      const risk = at_risk_ms === 0 ? "loses nothing that was acknowledged" : "can lose " + loss(at_risk_ms);
      pairs.push([group, durability + " requested; a crash of the server " + risk, at_risk_ms === null]);
    }
    for (const [asked, line] of short) pairs.push([asked + " is not kept", line, true]);
    for (const [name, value] of Object.entries(store.settings)) pairs.push([name, value, false]);
    pairs.push(["Database", store.target, false]);
    list($("durability"), pairs);
  }

  const loss = (/** @type {number | null} */ ms) => (ms === null ? "all of it" : "the last " + T.number(ms) + " ms");

  /** @param {HTMLElement} place @param {[string, string, boolean][]} pairs */
  function list(place, pairs) {
    if (!T.differs(place, JSON.stringify(pairs))) return;
    const made = T.make("dl", "pairs");
    for (const [name, value, over] of pairs) {
      const words = T.make("dd", "", value);
      if (over) words.dataset.level = "over";
      made.append(T.make("dt", "", name), words);
    }
    place.replaceChildren(made);
  }

  // --- sizes ---------------------------------------------------------------------------------------------------------

  const STORED = T.columns([
    ["group", "Group"],
    ["readings", "Readings", "the server's estimate, or this logger's count where that is higher"],
    ["rows", "Rows", "the server's estimate where counting is expensive"],
    ["size", "Size", "with indexes and ledger"],
    ["each", "Per reading"],
    ["rate", "Per day, current rate"],
    ["measured", "Per day, measured"],
    ["over", "Measured over"],
    ["partitions", "Partitions"],
  ]);

  /** @param {StorageAnswer} storage */
  function stored(storage) {
    const rows = Object.entries(storage.groups).map(([name, group]) => ({
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
    T.text($("stored-note"), "sizes: " + age(storage.sizes_age_s) + " · " + disk(storage));
  }

  /** @param {StorageAnswer} storage */
  function disk(storage) {
    const section = T.section("disk");
    if (!section) return "the state folder’s disk is unknown";
    const free = "disk of the state folder: " + T.number(section.free_gib) + " of " + T.number(section.total_gib) + " GiB free";
    if (!storage.database_is_here) return free + "; the database is elsewhere, check its disk there";
    return free + (storage.full_in_days === null ? "" : ", full in " + T.about(storage.full_in_days * 86400));
  }

  // --- partitions ----------------------------------------------------------------------------------------------------

  const MOST_SHOWN = 200;
  /** @type {Column<Row & {share: number}>[]} */
  const PARTITIONS = [
    { name: "name", label: "Partition" },
    { name: "from", label: "From, UTC" },
    { name: "until", label: "Until" },
    { name: "rows", label: "Rows" },
    { name: "size", label: "Size" },
    { name: "bar", label: "", make: () => T.make("i", "bar"), update: (bar, row) => T.attribute(bar, "style", "width: " + row.share + "%") },
    { name: "what", label: "", words: true },
  ];

  /** @param {StorageAnswer} storage */
  function partitions(storage) {
    const all = storage.groups[T.view.group]?.partitions || [];
    const now = storage.time_ns;
    const most = Math.max(...all.map((one) => one.size_bytes), 1);
    const rows = all
      .slice(-MOST_SHOWN)
      .reverse()
      .map((one) => ({
        key: one.name,
        share: (100 * one.size_bytes) / most,
        cells: {
          name: one.name,
          from: moment(one.start_ns),
          until: moment(one.end_ns),
          rows: T.count(one.rows),
          size: T.bytes(one.size_bytes),
          what: isRest(one) ? "all other times" : one.start_ns > now ? "future" : one.end_ns > now ? "current" : "",
        },
      }));
    T.drawTable($("partitions"), "Partitions of " + T.view.group, PARTITIONS, rows, "The server has none for this group.");
    const parts = [T.view.group, all.length > MOST_SHOWN ? "the newest " + MOST_SHOWN + " of " + T.count(all.length) : T.count(all.length)];
    parts.push(storage.partitions_problem ? "▲ out of date: " + storage.partitions_problem : "checked " + age(storage.partitions_age_s));
    T.text($("partitions-note"), parts.join(" · "));
  }

  const isRest = (/** @type {Partition} */ one) => one.end_ns - one.start_ns > 9e18;

  /**
   * The ends of int64 stand for no end at all.
   * @param {number} ns
   */
  const moment = (ns) => (Math.abs(ns) > 9e18 ? "–" : T.day(ns / 1e6) + (ns % 86400e9 ? " " + T.time(ns / 1e6).slice(0, 5) : ""));

  // --- journals ------------------------------------------------------------------------------------------------------

  const JOURNALS = T.columns([
    ["group", "Group"],
    ["size", "Size"],
    ["room", "Room left"],
    ["limit", "Limit"],
    ["files", "Files left", "segments that still have room"],
    ["full", "Full in", "if the database accepted nothing from now on"],
    ["problem", "State"],
  ]);

  /** @param {StorageAnswer} storage */
  function journals(storage) {
    const rows = Object.entries(storage.groups).flatMap(([name, { journal }]) => {
      if (journal === null) return [];
      const cells = {
        group: name,
        size: T.bytes(journal.size_bytes),
        room: T.bytes(journal.room_bytes),
        limit: T.bytes(journal.limit_bytes),
        files: T.count(Math.floor(journal.room_bytes / journal.segment_bytes)),
        full: lasts(T.section(`outlook/${name}`)?.full_in_s),
        problem: journal.problem ? { text: journal.problem, level: "over" } : "in use",
      };
      return [{ key: name, cells }];
    });
    T.drawTable($("journals"), "Journal", JOURNALS, rows, "There is no journal: what waits for the database is in memory only.");
    T.text($("journals-note"), rows.length ? "where closed triggers wait for the database" : "");
  }

  // --- where every reading went --------------------------------------------------------------------------------------

  const ACCOUNT = T.columns([
    ["group", "Group"],
    ["received", "Received"],
    ["recovered", "+ recovered", "found in the journal at the start: left by an earlier daemon"],
    ["committed", "= committed"],
    ["duplicate", "+ duplicate"],
    ["refused", "+ refused"],
    ["aside", "+ aside", "for no trigger that is known; kept in the dead letters"],
    ["dead", "+ dead", "rejected by the database for good; stored as dead letters"],
    ["waiting", "+ waiting"],
    ["assembling", "+ assembling"],
    ["unaccounted", "Unaccounted"],
    ["late", "Late"],
    ["letters", "Dead letters", "readings that are there now, whenever they came"],
    ["complete", "Complete triggers"],
    ["incomplete", "Incomplete"],
    ["skipped", "Skipped", "trigger numbers between those of a run that no trigger was closed for"],
    ["lost", "Lost", "proven lost: never received, by the numbers of senders, or no longer in the database"],
  ]);
  const PLAIN = /** @type {const} */ (["received", "recovered", "committed", "duplicate", "waiting", "assembling", "late", "complete", "incomplete", "skipped"]);
  const ALARMING = /** @type {const} */ (["refused", "aside", "dead", "unaccounted", "lost"]);

  function account() {
    const rows = [];
    const reasons = [];
    for (const group of T.groups()) {
      const totals = T.section(`totals/${group}`);
      if (!totals) continue;
      const alarming = (/** @type {number} */ n) => ({ text: T.count(n), level: n ? "over" : null });
      const cells = {
        group,
        letters: alarming(totals.dead_letters),
        ...Object.fromEntries(PLAIN.map((name) => [name, T.count(totals[name])])),
        ...Object.fromEntries(ALARMING.map((name) => [name, alarming(totals[name])])),
      };
      rows.push({ key: group, cells });
      for (const [what, counts] of Object.entries({ refused: totals.reasons, aside: totals.aside_reasons, lost: totals.lost_how })) {
        const why = T.reasons(counts);
        if (why) reasons.push(what + ": " + group + ": " + why);
      }
    }
    T.drawTable($("account"), "Where every reading went", ACCOUNT, rows, "");
    T.text($("account-note"), reasons.join(" · "));
  }
})(window.triggerlog);
