/* The tab Interference: the experiment that runs and past ones, fetched while it is visible, and which one is shown. */
(function (T) {
  "use strict";

  const AGAIN_MS = { running: 1000, idle: 2500 };
  const KEPT = 6; // records that are held here; each is some 100 kB
  const $ = T.byId;
  /** @type {Map<string, ShownExperiment>} */
  const records = new Map(); // id -> record, the one used last at the end
  /** @type {Map<string, string>} */
  const missing = new Map(); // id -> why it cannot be had; empty while it is being fetched
  /** @type {ExperimentSection | null} */
  let running = null;
  /** @type {ShownExperiment | null} */
  let live = null;
  /** @type {PastExperiment[]} */
  let past = [];
  let version = 0;
  let problem = "";
  let askedAt = -Infinity;
  let asking = false;

  T.onTab("interference", (liveness) => {
    T.experimentForm();
    if (!asking && performance.now() - askedAt >= (running ? AGAIN_MS.running : AGAIN_MS.idle)) ask();
    const chosen = shown();
    const why = chosen === null && T.view.experiment !== null ? missing.get(T.view.experiment) || "" : "";
    T.problem($("experiment-problem"), problem || why);
    T.drawExperiment(chosen, running, liveness);
    T.drawPast(past, chosen);
  });

  T.askExperiments = function () {
    askedAt = -Infinity;
    T.schedule();
  };

  async function ask() {
    asking = true;
    askedAt = performance.now();
    const known = { experiment: live ? live.id : "", samples: live ? live.samples.length : 0, blocks: live ? live.blocks.length : 0, version };
    const question = new URLSearchParams(Object.entries(known).map(([name, value]) => [name, String(value)]));
    const found = await T.ask(`interference?${question}`);
    if (found.answer) take(found.answer);
    problem = found.problem && "Experiments are unknown: " + found.problem + ".";
    asking = false;
    T.schedule();
  }

  /** @param {InterferenceAnswer} answer */
  function take(answer) {
    running = answer.running;
    version = answer.version;
    if (answer.past !== null) past = answer.past;
    const sent = answer.live;
    if (sent === null) {
      live = null;
      return;
    }
    const kept = live !== null && live.id === sent.id ? live : { samples: [], blocks: [] };
    live = {
      id: sent.id,
      settings: sent.settings,
      budget_ms: sent.budget_ms,
      samples: kept.samples.slice(0, sent.from).concat(sent.samples),
      blocks: kept.blocks.slice(0, sent.blocks_from).concat(sent.blocks),
      result: null,
      record: null,
    };
  }

  /* The one that the address names; without one what runs now, or else what ran last. */
  function shown() {
    const wanted = T.view.experiment || (live ? live.id : running ? running.id : past.length ? past[0].id : null);
    if (wanted === null) return null;
    if (live !== null && live.id === wanted) return live;
    const record = records.get(wanted);
    if (record) return record;
    if (running === null || running.id !== wanted) fetchRecord(wanted);
    return null;
  }

  /** @param {string} id */
  async function fetchRecord(id) {
    if (missing.has(id)) return;
    missing.set(id, "");
    const found = await T.ask(`interference/${encodeURIComponent(id)}`);
    if (found.answer) keep(id, found.answer);
    else if (found.lost) missing.delete(id); // it is fetched again when the page's server is back
    else missing.set(id, "The experiment " + id + " cannot be shown: " + found.problem + ".");
    T.schedule();
  }

  /** @param {string} id @param {ExperimentRecord} record */
  function keep(id, record) {
    missing.delete(id);
    const { settings, conditions, timeline: samples, blocks, result } = record;
    records.set(id, { id, settings, budget_ms: conditions.budget_ms, samples, blocks, result, record });
    const oldest = [...records.keys()][0];
    if (records.size > KEPT) records.delete(oldest);
  }

  T.chooseExperiment = function (id) {
    missing.delete(id);
    T.choose({ experiment: id }, true);
    $("experiment").scrollIntoView({ block: "nearest" });
  };
})(window.triggerlog);
