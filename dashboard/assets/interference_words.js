/* An experiment in words and tables: how far it is, what came of it, and the list of those that were. */
(function (T) {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const STATES = { running: "● running", finished: "✓ finished", stopped: "◼ stopped", interrupted: "✕ interrupted", failed: "✕ failed" };
  const FIGURES = {
    rate: "Commits/s", reading_rate: "Readings committed/s", p50_ms: "Commit p50, ms", p99_ms: "Commit p99, ms", backlog: "Backlog, at most",
  };
  const columns = (list) => list.map(([name, label, words, title]) => ({ name, label, words, title }));

  T.drawExperiment = function (told, running, liveness) {
    head(told, running, liveness);
    T.drawExperimentCharts(told);
    const place = $("experiment-result");
    place.hidden = told === null || !told.blocks.length;
    if (place.hidden) return;
    parts(place);
    figures(told);
    readers(told);
    server(told);
    remarks(told);
  };

  // --- above the charts ----------------------------------------------------------------------------------------------

  function head(told, running, liveness) {
    const place = $("experiment");
    if (!place.firstChild) buildHead(place);
    const [title, line, bar, row, verdict] = place.children;
    const runs = running !== null && (told === null || told.record === null) && liveness !== "none";
    T.text(title, told === null ? (running ? "An experiment begins" : "No experiment yet") : "Experiment " + told.id);
    T.text(line, told === null ? explained(running) : asked(told));
    bar.hidden = row.hidden = !runs;
    if (runs) {
      bar.max = running.blocks;
      bar.value = Math.max(0, running.block - 1);
      T.text(row.querySelector(".phase"), progress(running));
    }
    const record = told && told.record;
    T.text(verdict, record ? outcome(record) : "");
    verdict.hidden = verdict.textContent === "";
    T.attribute(verdict, "data-level", record && (record.problem || (record.result && record.result.steady === false)) ? "wrong" : null);
  }

  function buildHead(place) {
    const bar = T.make("progress");
    bar.setAttribute("aria-label", "Blocks that are over");
    const row = T.make("div", "order-row");
    const stop = T.make("button", "plain", "Stop the experiment");
    stop.type = "button";
    stop.id = "experiment-stop";
    const said = T.make("span", "said");
    said.setAttribute("role", "status");
    stop.addEventListener("click", () =>
      T.giving(stop, said, async () => {
        const answer = await T.order("interference/stop", {}, "Stop the experiment");
        T.askExperiments();
        return answer.ok ? { ok: true, line: "It was stopped; what was measured is kept." } : answer;
      })
    );
    row.append(T.make("span", "phase"), stop, said);
    place.append(T.make("h2"), T.make("p", "hint"), bar, row, T.make("p", "said verdict"));
  }

  const explained = (running) =>
    running ? "" : "An experiment lays blocks with readers beside blocks without, and tells what the reading does to the writing.";

  function progress(running) {
    const readers = running.readers ? ", " + T.count(running.readers) + (running.readers === 1 ? " reader" : " readers") : "";
    return running.phase + " · block " + running.block + " of " + running.blocks + readers + " · about " + T.about(running.left_s) + " left";
  }

  function asked(told) {
    const { workloads, pairs, block_s, warm_up_s, doses } = told.settings;
    const who = workloads.map((one) => one.name + (doses.length ? "" : " ×" + one.clients)).join(", ");
    const what = doses.length ? "doses of " + doses.join(", ") + " clients, " + pairs + " blocks of each" : pairs + " pairs of blocks";
    const begun = told.record ? T.day(told.record.began_ns / 1e6) + " " + T.time(told.record.began_ns / 1e6) + " UTC · " : "";
    const on = told.record ? " · " + told.record.conditions.server + ", " + told.record.conditions.durability : "";
    return begun + who + " · " + what + " of " + T.plain(block_s) + " s, the first " + T.plain(warm_up_s) + " s of each cut off" + on;
  }

  function outcome(record) {
    const parts = [];
    if (record.state !== "finished") parts.push((STATES[record.state] || record.state) + (record.problem ? ": " + record.problem : "") + ".");
    if (record.result) parts.push(record.result.headline, record.result.steadiness);
    if (record.result && record.result.crossing_words) parts.push(record.result.crossing_words);
    return parts.filter(Boolean).join(" ");
  }

  // --- below them ----------------------------------------------------------------------------------------------------

  function parts(place) {
    if (place.firstChild) return;
    const beside = T.make("div", "columns unequal");
    for (const [id, title] of [["figures", "The writing, without and with readers"], ["readers", "The readers"], ["server", "The server’s own view"]]) {
      const section = T.make("section", "panel");
      section.setAttribute("aria-label", title);
      const head = T.make("div", "panel-head");
      head.append(T.make("h2", "", title), T.make("span", "beside"));
      const body = T.make("div");
      body.id = "experiment-" + id;
      section.append(head, body);
      (id === "figures" ? place : beside).append(section);
    }
    place.append(beside);
    const remarks = T.make("div", "hint");
    remarks.id = "experiment-remarks";
    place.append(remarks);
  }

  const ROWS = columns([
    ["figure", "Figure"], ["readers", "Readers"], ["a", "A, without"], ["b", "B, with"], ["ratio", "B to A"],
    ["interval", "95 % confidence"], ["n", "Pairs"], ["verdict", "What that says", true],
  ]);

  function figures(told) {
    const rows = told.result ? [...told.result.rows].sort(byFigure).map(settled) : interim(told);
    T.drawTable($("experiment-figures"), "The writing, without and with readers", ROWS, rows, "No block with readers is over between two without.");
    T.text($("experiment-figures").closest("section").querySelector(".beside"), told.result ? "" : "so far; intervals come with the end");
  }

  /* What is asked most comes first. */
  const ORDER = ["p99_ms", "p50_ms", "rate", "reading_rate", "backlog"];
  const byFigure = (one, other) => ORDER.indexOf(one.figure) - ORDER.indexOf(other.figure) || one.readers - other.readers;

  const settled = (row) => ({
    key: row.figure + row.readers,
    cells: {
      figure: FIGURES[row.figure] || row.figure,
      readers: T.count(row.readers),
      a: T.number(row.a),
      b: T.number(row.b),
      ratio: T.factor(row.b_to_a.ratio),
      interval: row.b_to_a.low === null ? "–" : T.factor(row.b_to_a.low) + " to " + T.factor(row.b_to_a.high),
      n: T.count(row.b_to_a.pairs),
      verdict: { text: row.verdict, level: worse(row) ? "over" : null },
    },
  });

  /* Surely, and by more than a tenth. */
  function worse({ figure, b_to_a }) {
    if (b_to_a.low === null) return false;
    return figure.endsWith("rate") ? b_to_a.high < 0.9 : b_to_a.low > 1.1;
  }

  function interim(told) {
    const rows = [];
    const whole = told.blocks.filter((block) => block.whole);
    const mean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
    for (const readers of [...new Set(whole.filter((b) => b.kind === "B").map((b) => b.readers))].sort((a, b) => a - b)) {
      for (const figure of ["p99_ms", "p50_ms", "rate"]) {
        const read = whole.filter((block) => block.readers === readers && block.kind === "B" && T.byNeighbours(told.blocks, block, figure));
        if (!read.length) continue;
        const ratios = read.map((block) => T.byNeighbours(told.blocks, block, figure));
        const quiet = whole.filter((block) => block.kind === "A" && block[figure]).map((block) => block[figure]);
        const made = { figure, readers, a: mean(quiet), b: mean(read.map((block) => block[figure])), verdict: "" };
        rows.push(settled({ ...made, b_to_a: { ratio: mean(ratios), low: null, high: null, pairs: ratios.length } }));
      }
    }
    return rows;
  }

  const READERS = columns([
    ["workload", "Workload"], ["readers", "Readers"], ["admitted", "Of these"], ["cycles", "Answers"], ["failed", "Failed"], ["rate", "Answers/s"],
    ["rows", "Rows/s"], ["p50", "p50 ms"], ["p99", "p99 ms"], ["deadline", "Deadline ms"], ["efficiency", "In time"],
  ]);

  function readers(told) {
    const section = $("experiment-readers").closest("section");
    section.hidden = !told.result || !told.result.readers.length;
    if (section.hidden) return;
    const rows = told.result.readers.map((row) => ({
      key: row.workload + row.readers,
      cells: {
        workload: row.workload,
        readers: T.count(row.readers),
        admitted: T.count(row.admitted),
        cycles: T.count(row.cycles),
        failed: { text: T.count(row.failed), level: row.failed ? "over" : null },
        rate: within(row.rate),
        rows: within(row.row_rate),
        p50: within(row.p50_ms),
        p99: { ...within(row.p99_ms), level: row.p99_ms && row.p99_ms.value > row.deadline_ms ? "over" : null },
        deadline: T.number(row.deadline_ms, 0),
        efficiency: row.efficiency ? (100 * row.efficiency.value).toFixed(1) + " %" : "–",
      },
    }));
    T.drawTable($("experiment-readers"), "The readers", READERS, rows, "");
  }

  /* Shown as a mean; its interval lies behind it. */
  const within = (mean) =>
    mean === null
      ? { text: "–" }
      : { text: T.number(mean.value), title: mean.low === null ? null : T.number(mean.low) + " to " + T.number(mean.high) + " with 95 % confidence" };

  const SERVER = columns([["name", "Counter, a second"], ["a", "A"], ["b", "B"], ["ratio", "B to A"]]);

  function server(told) {
    const section = $("experiment-server").closest("section");
    const found = told.result ? told.result.server.concat(told.result.waits.map((row) => ({ ...row, name: "waiting for " + row.name }))) : [];
    section.hidden = !found.length;
    if (section.hidden) return;
    const rows = found.map((row) => ({
      key: row.name,
      cells: { name: row.name, a: T.number(row.a), b: T.number(row.b), ratio: row.ratio === null ? "–" : T.factor(row.ratio) },
    }));
    T.drawTable($("experiment-server"), "The server’s own view", SERVER, rows, "");
  }

  function remarks(told) {
    const place = $("experiment-remarks");
    const record = told.record;
    const wanted = record ? [...record.notes, "It is repeated by `" + record.command + "`."].join(" ") : "";
    T.prose(place, wanted);
  }

  // --- those that were -----------------------------------------------------------------------------------------------

  const PAST = [
    { name: "id", label: "Experiment", make: chooser, update: (button, row) => T.attribute(button, "aria-pressed", String(row.chosen)) },
    { name: "what", label: "Readers", words: true },
    { name: "state", label: "State", words: true },
    { name: "p99", label: "p99, B to A" },
    { name: "rate", label: "Rate, B to A" },
    { name: "report", label: "", make: () => T.make("span"), update: report },
  ];

  T.drawPast = function (past, told) {
    const rows = past.map((one) => ({
      key: one.id,
      report: one.report,
      chosen: told !== null && told.id === one.id,
      cells: {
        what: one.readers + (one.doses.length ? " · doses " + one.doses.join(", ") : "") + " · " + one.blocks + " blocks of " + T.plain(one.block_s) + " s",
        state: { text: (STATES[one.state] || one.state) + (one.problem ? ": " + one.problem : one.steady === false ? ", not steady" : ""), title: one.headline },
        p99: ratio(one.p99),
        rate: ratio(one.rate),
      },
    }));
    T.drawTable($("experiments-past"), "Experiments that were", PAST, rows, "There was none yet.");
    T.text($("experiments-note"), past.length ? T.count(past.length) + ", the newest first" : "");
  };

  const ratio = (found) =>
    found ? { text: "×" + T.factor(found.ratio), title: found.low === null ? null : T.factor(found.low) + " to " + T.factor(found.high) + " with 95 % confidence" } : "–";

  function chooser(row) {
    const button = T.make("button", "plain", row.key);
    button.type = "button";
    button.addEventListener("click", () => T.chooseExperiment(row.key));
    return button;
  }

  /* It is written a moment after the experiment is over. */
  function report(place, row) {
    if (!row.report || place.firstChild) return;
    const link = T.make("a", "", "Report");
    link.href = "/told/interference/" + encodeURIComponent(row.key) + "/report";
    link.target = "_blank";
    link.rel = "noopener";
    link.setAttribute("aria-label", "Report of " + row.key + ", opens in a new tab");
    place.append(link);
  }
})((window.triggerlog = window.triggerlog || {}));
