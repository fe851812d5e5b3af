/* An experiment in words and tables: its progress, its result, and the list of past experiments. */
(function (T) {
  "use strict";

  const $ = T.byId;
  /** @type {Record<string, string>} */
  const STATES = { running: "● running", finished: "✓ finished", stopped: "◼ stopped", interrupted: "✕ interrupted", failed: "✕ failed" };

  T.drawExperiment = function (shown, running, liveness) {
    head(shown, running, liveness);
    T.drawExperimentCharts(shown);
    const place = $("experiment-result");
    place.hidden = shown === null || !shown.blocks.length;
    if (shown === null || place.hidden) return;
    if (!place.firstChild) build(place);
    figures(shown);
    readers(shown.result);
    server(shown.result);
    remarks(shown.record);
  };

  // --- above the charts ----------------------------------------------------------------------------------------------

  /** @param {ShownExperiment | null} shown @param {ExperimentSection | null} running @param {Liveness} liveness */
  function head(shown, running, liveness) {
    const place = $("experiment");
    if (!place.firstChild) buildHead(place);
    const runs = shown?.record || liveness === "none" ? null : running;
    T.text(T.find(place, "h2"), shown === null ? (running ? "An experiment is starting" : "No experiment yet") : "Experiment " + shown.id);
    T.text(T.find(place, "p.hint"), shown === null ? (running ? "" : EXPLAINED) : summary(shown));
    const bar = T.find(place, "progress");
    bar.hidden = T.find(place, ".order-row").hidden = runs === null;
    if (runs) {
      bar.max = runs.blocks;
      bar.value = Math.max(0, runs.block - 1);
      T.text(T.find(place, ".phase"), progress(runs));
    }
    const record = shown && shown.record;
    const verdict = T.find(place, "p.verdict");
    T.text(verdict, record ? outcome(record) : "");
    verdict.hidden = verdict.textContent === "";
    T.attribute(verdict, "data-level", record && (record.problem || record.result?.steady === false) ? "wrong" : null);
  }

  /** @param {HTMLElement} place */
  function buildHead(place) {
    const row = T.make("div", "order-row");
    const outcome = T.make("span", "outcome", "", { role: "status" });
    const stop = T.button("plain", "Stop the experiment", () =>
      T.submit(stop, outcome, async () => {
        const stopped = await T.order("interference/stop", {}, "Stop the experiment");
        T.askExperiments();
        return stopped.ok ? { ok: true, line: "It was stopped; its measurements so far are stored." } : stopped;
      })
    );
    stop.id = "experiment-stop";
    row.append(T.make("span", "phase"), stop, outcome);
    const bar = T.make("progress", "", undefined, { "aria-label": "Blocks that are over" });
    place.append(T.make("h2"), T.make("p", "hint"), bar, row, T.make("p", "verdict outcome"));
  }

  const EXPLAINED = "An experiment alternates blocks with readers and blocks without, and shows how the reading affects the writing.";

  /** @param {ExperimentSection} running */
  function progress(running) {
    const readers = running.readers ? ", " + T.readers(running.readers) : "";
    return running.phase + " · block " + running.block + " of " + running.blocks + readers + " · about " + T.about(running.left_s) + " left";
  }

  /** @param {ShownExperiment} shown */
  function summary({ settings: { workloads, pairs, block_s, warm_up_s, doses }, record }) {
    const who = workloads.map((one) => one.name + (doses.length ? "" : " ×" + one.clients)).join(", ");
    const what = doses.length ? "doses of " + doses.join(", ") + " clients, " + pairs + " blocks of each" : pairs + " pairs of blocks";
    const begun = record ? T.moment(record.began_ns / 1e6) + " UTC · " : "";
    const on = record ? " · " + record.conditions.server + ", " + record.conditions.durability : "";
    return begun + who + " · " + what + " of " + T.plain(block_s) + " s, of which the first " + T.plain(warm_up_s) + " s are warm-up" + on;
  }

  /** @param {ExperimentRecord} record */
  function outcome({ state, problem, result }) {
    const parts = [];
    if (state !== "finished") parts.push((STATES[state] || state) + (problem ? ": " + problem : "") + ".");
    if (result) parts.push(result.headline, result.steadiness, result.crossing_words);
    return parts.filter(Boolean).join(" ");
  }

  // --- below them ----------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} place */
  function build(place) {
    const row = T.make("div", "columns unequal");
    place.append(section("figures", "Writing, without and with readers"), row, T.make("div", "hint", undefined, { id: "experiment-remarks" }));
    row.append(section("readers", "Readers"), section("server", "Counters of the server"));
  }

  /** @param {string} id @param {string} title */
  function section(id, title) {
    const made = T.make("section", "panel", undefined, { "aria-label": title, id: "experiment-section-" + id });
    const head = T.make("div", "panel-head");
    head.append(T.make("h2", "", title), T.make("span", "aside"));
    made.append(head, T.make("div", "", undefined, { id: "experiment-" + id }));
    return made;
  }

  const ROWS = [
    ...T.columns([
      ["figure", "Figure"],
      ["readers", "Readers"],
      ["a", "A, without"],
      ["b", "B, with"],
      ["ratio", "B to A"],
      ["interval", "95 % confidence"],
      ["n", "Pairs"],
    ]),
    { name: "verdict", label: "Conclusion", words: true },
  ];

  /** @param {ShownExperiment} shown */
  function figures(shown) {
    const rows = shown.result ? [...shown.result.rows].sort(byFigure).map(finished) : interim(shown.blocks);
    T.drawTable($("experiment-figures"), "Writing, without and with readers", ROWS, rows, "No block with readers between two without is over yet.");
    T.text(T.find($("experiment-section-figures"), ".aside"), shown.result ? "" : "so far; confidence intervals follow at the end");
  }

  /* What most people look for comes first. */
  const ORDER = ["p99_ms", "p50_ms", "rate", "reading_rate", "backlog"];
  /** @param {FigureRow} one @param {FigureRow} other */
  const byFigure = (one, other) => ORDER.indexOf(one.figure) - ORDER.indexOf(other.figure) || one.readers - other.readers;

  /** @param {FigureRow} row @returns {Row} */
  const finished = (row) => ({
    key: row.figure + row.readers,
    cells: {
      figure: T.settings.figures[row.figure] || row.figure,
      readers: T.count(row.readers),
      a: T.number(row.a),
      b: T.number(row.b),
      ratio: T.factor(row.b_to_a.ratio),
      interval: row.b_to_a.low === null || row.b_to_a.high === null ? "–" : T.factor(row.b_to_a.low) + " to " + T.factor(row.b_to_a.high),
      n: T.count(row.b_to_a.pairs),
      verdict: { text: row.verdict, level: worse(row) ? "over" : null },
    },
  });

  /**
   * With confidence, and by more than a tenth.
   * @param {FigureRow} row
   */
  function worse({ figure, b_to_a: { low, high } }) {
    if (low === null || high === null) return false;
    return figure.endsWith("rate") ? high < 0.9 : low > 1.1;
  }

  /** @param {Block[]} blocks @returns {Row[]} */
  function interim(blocks) {
    const whole = blocks.filter((block) => block.whole);
    const doses = [...new Set(whole.filter((block) => block.kind === "B").map((block) => block.readers))].sort((a, b) => a - b);
    return doses.flatMap((readers) =>
      /** @type {const} */ (["p99_ms", "p50_ms", "rate"]).flatMap((figure) => {
        const pairs = whole.flatMap((block) => {
          const ratio = block.kind === "B" && block.readers === readers ? T.byNeighbours(blocks, block, figure) : null;
          return ratio === null ? [] : [{ ratio, value: Number(block[figure]) }];
        });
        if (!pairs.length) return [];
        const quiet = whole.flatMap((block) => (block.kind === "A" && block[figure] ? [block[figure]] : []));
        const ratio = T.geometricMean(pairs.map((pair) => pair.ratio));
        const b = T.geometricMean(pairs.map((pair) => pair.value));
        return [finished({ figure, readers, a: T.geometricMean(quiet), b, verdict: "", b_to_a: { ratio, low: null, high: null, pairs: pairs.length } })];
      })
    );
  }

  const READERS = T.columns([
    ["workload", "Workload"],
    ["readers", "Readers"],
    ["admitted", "Of this workload"],
    ["cycles", "Answers"],
    ["failed", "Failed"],
    ["rate", "Answers/s"],
    ["rows", "Rows/s"],
    ["p50", "p50 ms"],
    ["p99", "p99 ms"],
    ["deadline", "Deadline ms"],
    ["efficiency", "In time"],
  ]);

  /** @param {ExperimentResult | null} result */
  function readers(result) {
    $("experiment-section-readers").hidden = !result || !result.readers.length;
    const rows = (result ? result.readers : []).map((row) => ({
      key: row.workload + row.readers,
      cells: {
        workload: row.workload,
        readers: T.count(row.readers),
        admitted: T.count(row.admitted),
        cycles: T.count(row.cycles),
        failed: { text: T.count(row.failed), level: row.failed ? "over" : null },
        rate: mean(row.rate),
        rows: mean(row.row_rate),
        p50: mean(row.p50_ms),
        p99: { ...mean(row.p99_ms), level: row.p99_ms && row.p99_ms.value > row.deadline_ms ? "over" : null },
        deadline: T.number(row.deadline_ms, 0),
        efficiency: row.efficiency ? (100 * row.efficiency.value).toFixed(1) + " %" : "–",
      },
    }));
    T.drawTable($("experiment-readers"), "Readers", READERS, rows, "");
  }

  /** @param {number | null} low @param {number | null} high @param {(value: number) => string} written */
  const interval = (low, high, written) => (low === null || high === null ? null : written(low) + " to " + written(high) + " with 95 % confidence");

  /**
   * Shown as a mean, with its interval as the title.
   * @param {Mean | null} found
   */
  const mean = (found) => (found === null ? { text: "–" } : { text: T.number(found.value), title: interval(found.low, found.high, T.number) });

  const SERVER = T.columns([["name", "Counter, per second"], ["a", "A"], ["b", "B"], ["ratio", "B to A"]]);

  /** @param {ExperimentResult | null} result */
  function server(result) {
    const found = result ? result.server.concat(result.waits.map((row) => ({ ...row, name: "waiting for " + row.name }))) : [];
    $("experiment-section-server").hidden = !found.length;
    const rows = found.map((row) => ({
      key: row.name,
      cells: { name: row.name, a: T.number(row.a), b: T.number(row.b), ratio: row.ratio === null ? "–" : T.factor(row.ratio) },
    }));
    T.drawTable($("experiment-server"), "Counters of the server", SERVER, rows, "");
  }

  /** @param {ExperimentRecord | null} record */
  function remarks(record) {
    T.prose($("experiment-remarks"), record ? [...record.notes, "To repeat it: `" + record.command + "`."].join(" ") : "");
  }

  // --- past experiments ----------------------------------------------------------------------------------------------

  /** @type {Column<Row & {chosen: boolean, report: boolean}>[]} */
  const PAST = [
    { name: "id", label: "Experiment", make: (row) => T.button("plain", row.key, () => T.chooseExperiment(row.key)), update: (button, row) => T.attribute(button, "aria-pressed", String(row.chosen)) },
    { name: "what", label: "Readers", words: true },
    { name: "state", label: "State", words: true },
    { name: "p99", label: "p99, B to A" },
    { name: "rate", label: "Rate, B to A" },
    { name: "report", label: "", make: () => T.make("span"), update: report },
  ];

  T.drawPast = function (past, shown) {
    const rows = past.map((one) => ({
      key: one.id,
      report: one.report,
      chosen: shown !== null && shown.id === one.id,
      cells: {
        what: one.readers + (one.doses.length ? " · doses " + one.doses.join(", ") : "") + " · " + one.blocks + " blocks of " + T.plain(one.block_s) + " s",
        state: { text: (STATES[one.state] || one.state) + (one.problem ? ": " + one.problem : one.steady === false ? ", not steady" : ""), title: one.headline },
        p99: ratio(one.p99),
        rate: ratio(one.rate),
      },
    }));
    T.drawTable($("experiments-past"), "Past experiments", PAST, rows, "None yet.");
    T.text($("experiments-note"), past.length ? T.count(past.length) + ", newest first" : "");
  };

  /** @param {Ratio | null} found */
  const ratio = (found) => (found ? { text: "×" + T.factor(found.ratio), title: interval(found.low, found.high, T.factor) } : "–");

  /**
   * The report is written a moment after the experiment is over.
   * @param {Element} place
   * @param {Row & {report: boolean}} row
   */
  function report(place, row) {
    if (row.report && !place.firstChild) place.append(T.fileLink("interference/" + encodeURIComponent(row.key) + "/report", "Report", row.key));
  }
})(window.triggerlog);
